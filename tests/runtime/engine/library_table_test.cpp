// What of a load may be done ahead, on any thread.
#include "runtime/driver/library_table.hpp"

#include <array>
#include <atomic>
#include <thread>

#include "tests/runtime/engine/machine.hpp"

namespace kiln::test {
namespace {

/// A table of its own, and a context that is current.
class TableMachine : public Machine {
 public:
  TableMachine()
      : driver_(value_or_throw(runtime::Driver::load(options().driver))), context_{enter(), 1} {}

  void load_ahead(const cache::Image& image) { table.load_ahead(*driver_, image); }
  auto load(const cache::Image& image, const std::string& symbol, const void* user) {
    return table.load(*driver_, context_, image, symbol, user);
  }
  std::size_t unload(const void* user) { return value_or_throw(table.unload(*driver_, user)); }
  std::size_t loads() { return fake().count("cuLibraryLoadData"); }
  CUcontext context() const noexcept { return context_.handle; }

  runtime::LibraryTable table;

 private:
  std::shared_ptr<const runtime::Driver> driver_;
  const runtime::Context context_;
};

const int kUser = 0;
const int kOther = 1;

}  // namespace

TEST_CASE("A library that was loaded ahead is not loaded again, and is the first user's") {
  TableMachine machine;
  const cache::Image image = fake_image("first second", "mark");
  machine.load_ahead(image);
  machine.load_ahead(image);
  CHECK(machine.loads() == 1);
  const auto first = machine.load(image, "first", &kUser);
  const auto second = machine.load(image, "second", &kOther);
  const auto again = machine.load(image, "first", &kOther);
  REQUIRE((first && second && again));
  CHECK(first->library_loaded);
  CHECK_FALSE(second->library_loaded);
  CHECK_FALSE(again->library_loaded);
  CHECK(first->function == again->function);
  CHECK(machine.loads() == 1);
}

TEST_CASE("To load ahead spoils no capture, and leaves the thread's mode as it was") {
  TableMachine machine;
  CUstream stream = machine.fake().make_stream(machine.context());
  machine.fake().set_capturing(stream, true);
  machine.load_ahead(fake_image("kernel", "mark"));
  CHECK(machine.loads() == 1);
  CHECK_FALSE(machine.fake().spoiled(stream));
  CHECK(machine.fake().capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("What the driver refuses ahead it is asked again, and that is the error") {
  TableMachine machine;
  const cache::Image image = fake_image("kernel", "mark");
  machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_OUT_OF_MEMORY, 1);
  machine.load_ahead(image);
  CHECK(machine.load(image, "kernel", &kUser));

  const cache::Image bad = fake_image("kernel", "bad");
  machine.fake().refuse_images("bad");
  machine.load_ahead(bad);
  const auto refused = machine.load(bad, "kernel", &kUser);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().image_refused);
  CHECK(contains(refused.error().failure.message, "cuLibraryLoadData"));
}

TEST_CASE("A library that was loaded ahead and lacks the kernel does not stay") {
  TableMachine machine;
  const cache::Image image = fake_image("kernel", "mark");
  machine.load_ahead(image);
  CHECK_FALSE(machine.load(image, "another", &kUser));
  CHECK(machine.fake().count("cuLibraryUnload") == 1);
  CHECK(machine.load(image, "kernel", &kUser));
  CHECK_FALSE(machine.load(image, "another", &kUser));  // Now somebody has a function of it.
  CHECK(machine.fake().count("cuLibraryUnload") == 1);
}

TEST_CASE("unload() leaves a library that was loaded ahead for somebody who has yet to come") {
  TableMachine machine;
  const cache::Image used = fake_image("kernel", "used");
  const cache::Image ahead = fake_image("kernel", "ahead");
  REQUIRE(machine.load(used, "kernel", &kUser));
  machine.load_ahead(ahead);
  CHECK(machine.unload(&kUser) == 1);
  CHECK(machine.load(ahead, "kernel", &kUser));
  CHECK(machine.loads() == 2);
  CHECK(machine.unload(&kUser) == 1);
  CHECK(machine.load(ahead, "kernel", &kUser));
  CHECK(machine.loads() == 3);
}

TEST_CASE("Threads that load and load ahead at the same time load each image once") {
  TableMachine machine;
  std::array<cache::Image, 4> images;
  for (std::size_t i = 0; i < images.size(); ++i) {
    images[i] = fake_image("k0 k1 k2 k3", std::to_string(i));
  }
  std::atomic<std::size_t> loaded = 0;
  std::atomic<std::size_t> failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        machine.fake().set_current(machine.context());
        for (const cache::Image& image : images) {
          machine.load_ahead(image);
          const auto made = machine.load(image, "k" + std::to_string(t % 4), &kUser);
          failed += made ? 0U : 1U;
          loaded += made && made->library_loaded ? 1U : 0U;
        }
        machine.table.leave(&kOther);
      });
    }
  }
  CHECK(failed == 0);
  CHECK(loaded == images.size());
  CHECK(machine.loads() == images.size());
}

}  // namespace kiln::test
