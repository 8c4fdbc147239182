#include "tests/cpp_api/wall.hpp"

#include "tests/c_api/machine.hpp"

namespace kiln::test {
namespace {

class CWall : public Wall {
 public:
  fake::Control& fake() override { return machine_.fake(); }
  CUcontext enter() override { return machine_.enter(); }
  std::string path(const std::string& name) const override { return machine_.dir().str(name); }
  std::string cache_root() const override { return machine_.cache_root(); }
  void plant_for(const char* target) override { machine_.plant_for(target); }

 private:
  CMachine machine_;
};

}  // namespace

std::unique_ptr<Wall> make_wall() {
  return std::make_unique<CWall>();
}

}  // namespace kiln::test
