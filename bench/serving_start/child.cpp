#include "bench/serving_start/child.hpp"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/driver/handles.hpp"

namespace kiln::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::size_t resident_kb() {
  std::ifstream status("/proc/self/status");
  std::size_t kb = 0;
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") {
      status >> kb;
    }
  }
  return kb;
}

/// A file's bytes, in memory, outside of the heap.
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file >= 0 && fstat(file, &status) == 0) {
      bytes_ = static_cast<std::size_t>(status.st_size);
      data_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    }
    close(file);
    if (data_ == MAP_FAILED) {
      throw Error(ErrorCode::kIo, path + " cannot be read");
    }
  }
  Mapped(Mapped&& other) noexcept
      : data_(std::exchange(other.data_, MAP_FAILED)), bytes_(other.bytes_) {}
  Mapped& operator=(Mapped&&) = delete;
  ~Mapped() {
    if (data_ != MAP_FAILED) {
      munmap(data_, bytes_);
    }
  }
  const void* data() const noexcept { return data_; }

 private:
  void* data_ = MAP_FAILED;
  std::size_t bytes_ = 0;
};

void load_bare(const runtime::Driver& driver, const void* image,
               const std::vector<std::string>& symbols) {
  const runtime::DriverApi& api = driver.api();
  const auto check = [&](const char* call, CUresult result) {
    value_or_throw(driver.check(call, result));
  };
  CUlibrary library = nullptr;
  check("cuLibraryLoadData",
        api.cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  for (const std::string& symbol : symbols) {
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    check("cuLibraryGetKernel", api.cuLibraryGetKernel(&kernel, library, symbol.c_str()));
    check("cuKernelGetFunction", api.cuKernelGetFunction(&function, kernel));
    if (api.cuFuncLoad != nullptr) {
      check("cuFuncLoad", api.cuFuncLoad(function));
    }
  }
}

Start start_bare(const runtime::Driver& driver, const Place& place) {
  Start start;
  {
    const std::vector<Image> images = place.images();
    std::vector<Mapped> mapped;
    for (const Image& image : images) {
      mapped.emplace_back(image.path);
      start.kernels += image.symbols.size();
    }
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < images.size(); ++i) {
      load_bare(driver, mapped[i].data(), images[i].symbols);
    }
    start.seconds = seconds_since(begin);
    start.libraries = images.size();
  }
  start.resident_kb = resident_kb();
  return start;
}

WarmupReport warm_up(Engine& engine, const std::vector<std::string>& ops) {
  WarmupRequest request;
  request.variants = every_variant(engine, ops);
  WarmupReport report = engine.warmup(request);
  if (!report.ok()) {
    throw Error(report.failed.front().code, report.failed.front().message);
  }
  return report;
}

Start start_engine(EngineOptions options, const Place& place) {
  options.driver = place.driver;
  options.jit = JitPolicy::kForbid;  // As in serving: no compiler is even looked for.
  const std::vector<std::string> ops = place.ops();
  const auto begin = Clock::now();
  Engine engine(options);
  const WarmupReport report = warm_up(engine, ops);
  Start start;
  start.seconds = seconds_since(begin);
  start.resident_kb = resident_kb();
  start.libraries = report.loaded;
  start.kernels = report.prepared;
  return start;
}

Start start_here(const std::string& what, const Place& place) {
  const auto driver = value_or_throw(runtime::Driver::load(place.driver));
  const auto context = value_or_throw(runtime::PrimaryContext::retain(driver, 0));
  if (what == "bare") {
    return start_bare(*driver, place);
  }
  EngineOptions options;
  options.cache_root = what == "pack" ? place.empty_root() : place.directory;
  if (what == "pack") {
    options.read_only_layers = {place.pack()};
  }
  return start_engine(std::move(options), place);
}

}  // namespace

int child_main(const std::string& what, const Place& place) {
  const Start start = start_here(what, place);
  fmt::print("{} {} {} {}\n", start.seconds, start.resident_kb, start.libraries, start.kernels);
  return 0;
}

Start start_in_child(const std::string& what, const Place& place) {
  int ends[2];
  if (pipe(ends) != 0) {
    throw Error(ErrorCode::kIo, "no pipe can be made");
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/proc/self/exe", "serving_start", "child", what.c_str(), place.folder.c_str(),
          place.driver.c_str(), place.directory.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::FILE* const said = fdopen(ends[0], "r");
  Start start;
  const int fields = std::fscanf(said, "%lf %zu %zu %zu", &start.seconds, &start.resident_kb,
                                 &start.libraries, &start.kernels);
  std::fclose(said);
  int status = 1;
  waitpid(child, &status, 0);
  if (status != 0 || fields != 4) {
    throw Error(ErrorCode::kInternal, "the process that starts " + what + " failed; see above");
  }
  return start;
}

}  // namespace kiln::bench
