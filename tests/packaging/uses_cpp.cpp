// The same in C++, with either library: uses_cpp DRIVER CACHE. Only the archive needs to be told
// where its worker is.
#include <cstdio>

#include <kiln/kiln.hpp>

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  static int complaints = 0;
  try {
    kiln::EngineOptions options;
    options.driver = argv[1];
    options.cache_root = argv[2];
#ifdef COMPILE_WORKER
    options.compile_worker = COMPILE_WORKER;
#endif
    options.log.callback = [](kiln::LogLevel, const char* message) {
      std::fprintf(stderr, "kiln: %s\n", message);
      ++complaints;
    };
    kiln::Engine engine(options);
    if (kiln::library_version() != KILN_VERSION_NUMBER) {
      return 2;
    }
    const kiln::Tensor x(nullptr, kiln::DType::kBF16, {8, 512});
    const kiln::Tensor w(nullptr, kiln::DType::kBF16, {128, 512});
    const kiln::Tensor out(nullptr, kiln::DType::kBF16, {8, 128});
    engine.prefetch("n128k512_gemm_bf16", {x, w, out}).get();
    std::printf("compiled %d\n", static_cast<int>(engine.counters().compiles));
  } catch (const kiln::Error& error) {
    if (error.code() == kiln::ErrorCode::kCompilerUnavailable) {
      std::printf("no NVRTC here\n");
      return 0;
    }
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return complaints == 0 ? 0 : 3;
}
