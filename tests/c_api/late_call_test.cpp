// Calls from the destructor of a static object, when what a thread keeps is gone: a failure is a
// code and some text, and no text is one that was freed.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <kiln/kiln.h>

namespace {

kiln_engine* engine = nullptr;

// A call that is refused for its arguments, and a question that is answered with a reason.
bool both_answer() {
  std::int64_t shape[1] = {4};
  const DLTensor tensor = {
      reinterpret_cast<void*>(0x10000), {kDLCUDA, 0}, 1, {kDLBfloat, 16, 1}, shape, nullptr, 0};
  const kiln_arg args[1] = {kiln_tensor("x", &tensor)};
  const kiln_status refused = kiln_launch(engine, "rmsnorm", args, 1, nullptr, nullptr);
  std::int32_t usable = 1;
  const char* reason = nullptr;
  const kiln_status asked = kiln_can_use(engine, "rmsnorm", args, 1, &usable, &reason);
  return refused == KILN_ERROR_INVALID_ARGUMENT && std::strlen(kiln_last_error_message()) > 20 &&
         asked == KILN_OK && usable == 0 && std::strlen(reason) > 20;
}

struct Late {
  Late() = default;
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;
  ~Late() {
    const bool answered = both_answer();
    kiln_engine_destroy(engine);
    if (!answered) {
      std::puts("a call at the end of the process went wrong");
      std::_Exit(1);
    }
  }
} late;

}  // namespace

int main() {
  if (kiln_engine_create(nullptr, &engine) != KILN_OK) {
    std::puts(kiln_last_error_message());
    std::_Exit(1);
  }
  return both_answer() ? EXIT_SUCCESS : EXIT_FAILURE;
}
