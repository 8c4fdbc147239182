#include "runtime/worker/message.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <kiln/version.hpp>

#include "cache/bytes.hpp"
#include "runtime/nvrtc/source_key.hpp"

namespace kiln::runtime {
namespace {

constexpr std::string_view kMagic = "KilnWrkr";
constexpr std::uint32_t kSucceeded = 0;
constexpr std::uint32_t kFailed = 1;

// The fewest bytes that one of each takes: what bounds a count.
constexpr std::size_t kTextBytes = 4;
constexpr std::size_t kTargetBytes = 12;
constexpr std::size_t kKernelBytes = kTextBytes + 4 + 4 + 4 + 4 + 4 + 4;

class Writer {
 public:
  void u32(std::uint32_t value) { cache::append_integer(bytes_, value); }
  void i32(std::int32_t value) { cache::append_integer(bytes_, value); }
  // A text over 4 GiB would be cut wrongly here, but makes a frame that is never sent.
  void text(std::string_view text) {
    u32(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void target(const Target& target) {
    i32(target.major);
    i32(target.minor);
    u32(static_cast<unsigned char>(target.suffix));
  }
  void failure(const Failure& failure) {
    u32(kFailed);
    u32(static_cast<std::uint32_t>(failure.code));
    text(failure.message);
  }
  std::size_t size() const { return bytes_.size(); }
  std::string frame(MessageType type) const {
    std::string frame(kMagic);
    frame.reserve(kFrameHeaderBytes + bytes_.size());
    cache::append_integer(frame, kProtocolVersion);
    cache::append_integer(frame, static_cast<std::uint32_t>(type));
    cache::append_integer(frame, std::uint64_t{bytes_.size()});
    return frame += bytes_;
  }

 private:
  std::string bytes_;
};

// After the first thing that is wrong, it gives zeros and empty texts, and done() is false.
class Reader {
 public:
  explicit Reader(std::string_view payload) noexcept : rest_(payload) {}

  std::uint32_t u32() { return integer<std::uint32_t>(); }
  std::int32_t i32() { return integer<std::int32_t>(); }
  std::string text() {
    const auto bytes = rest_.bytes(u32());
    good_ = good_ && bytes.has_value();
    return good_ ? std::string(*bytes) : std::string();
  }
  // How many items follow, each of at least so many bytes.
  std::uint32_t count(std::size_t least_bytes) {
    const std::uint32_t count = u32();
    require(count <= rest_.remaining() / least_bytes);
    return good_ ? count : 0;
  }
  Target target() {
    Target target;
    target.major = i32();
    target.minor = i32();
    const std::uint32_t suffix = u32();
    require(suffix == 0 || suffix == 'a' || suffix == 'f');
    target.suffix = static_cast<TargetSuffix>(static_cast<char>(suffix));
    return target;
  }
  Failure failure() {
    const std::uint32_t code = u32();
    require(code >= static_cast<std::uint32_t>(ErrorCode::kInvalidArgument) &&
            code <= static_cast<std::uint32_t>(ErrorCode::kCompilerLost));
    return {static_cast<ErrorCode>(code), text()};
  }
  bool flag() {
    const std::uint32_t flag = u32();
    require(flag <= 1);
    return flag == 1;
  }
  void require(bool holds) { good_ = good_ && holds; }
  bool good() const { return good_; }
  bool done() const { return good_ && rest_.empty(); }

 private:
  template <class Integer>
  Integer integer() {
    const auto value = rest_.integer<Integer>();
    good_ = good_ && value.has_value();
    return good_ ? *value : Integer{};
  }

  cache::ByteReader rest_;
  bool good_ = true;
};

auto malformed(std::string_view what) {
  return fail(ErrorCode::kInternal, fmt::format("a malformed message of type {}", what));
}

// Memory that the sources take once each unit has its own copy of them.
std::uint64_t expanded_bytes(const registry::CompileUnit& unit, std::size_t kernels) {
  std::uint64_t bytes = unit.main.name.size() + unit.main.text.size();
  for (const SourceFile& header : unit.headers) {
    bytes += header.name.size() + header.text.size();
  }
  for (const std::string& option : unit.options) {
    bytes += option.size();
  }
  // What the empty ones take, too.
  bytes += sizeof(SourceFile) * unit.headers.size() + sizeof(std::string) * unit.options.size();
  return bytes * kernels;
}

CompiledKernel read_kernel(Reader& in) {
  CompiledKernel kernel;
  kernel.symbol = in.text();
  kernel.resources.registers = in.i32();
  kernel.resources.shared_bytes = in.i32();
  kernel.resources.stack_bytes = in.i32();
  kernel.resources.spill_store_bytes = in.i32();
  kernel.resources.spill_load_bytes = in.i32();
  kernel.pdl_wait = in.flag();
  return kernel;
}

void write_kernel(Writer& out, const CompiledKernel& kernel) {
  out.text(kernel.symbol);
  out.i32(kernel.resources.registers);
  out.i32(kernel.resources.shared_bytes);
  out.i32(kernel.resources.stack_bytes);
  out.i32(kernel.resources.spill_store_bytes);
  out.i32(kernel.resources.spill_load_bytes);
  out.u32(kernel.pdl_wait ? 1 : 0);
}

}  // namespace

Result<FrameHeader> decode_frame_header(std::string_view bytes) {
  cache::ByteReader in(bytes);
  const auto magic = in.bytes(kMagic.size());
  const auto version = in.integer<std::uint32_t>();
  const auto type = in.integer<std::uint32_t>();
  const auto payload = in.integer<std::uint64_t>();
  if (!payload || !in.empty() || *magic != kMagic) {
    return fail(ErrorCode::kInternal, "bytes that are no message of a compile worker");
  }
  if (*version != kProtocolVersion) {
    return fail(ErrorCode::kInternal,
                fmt::format("version {} of the protocol, where this side speaks version {}; both "
                            "must be of one build of Kiln",
                            *version, kProtocolVersion));
  }
  if (*type < static_cast<std::uint32_t>(MessageType::kHello) ||
      *type > static_cast<std::uint32_t>(MessageType::kCompileReply)) {
    return fail(ErrorCode::kInternal, fmt::format("a message of unknown type {}", *type));
  }
  if (*payload > kMaxPayloadBytes) {
    return fail(ErrorCode::kInternal, fmt::format("a message of {} bytes, where {} are the most",
                                                  *payload, kMaxPayloadBytes));
  }
  return FrameHeader{static_cast<MessageType>(*type), static_cast<std::size_t>(*payload)};
}

std::string build_text() {
  registry::CompileUnit unit;
  unit.target = {9, 0, TargetSuffix::kArch};
  return fmt::format("Kiln {}, options {}", KILN_VERSION, fmt::join(compile_options(unit), " "));
}

std::string encode_hello(const Hello& hello) {
  Writer out;
  out.text(hello.build);
  out.text(hello.toolchain.nvrtc_path);
  out.text(hello.toolchain.builtins_path);
  out.i32(hello.toolchain.major);
  out.i32(hello.toolchain.minor);
  out.text(hello.toolchain.nvrtc_id);
  out.text(hello.toolchain.builtins_id);
  return out.frame(MessageType::kHello);
}

Result<Hello> decode_hello(std::string_view payload) {
  Reader in(payload);
  Hello hello;
  hello.build = in.text();
  hello.toolchain.nvrtc_path = in.text();
  hello.toolchain.builtins_path = in.text();
  hello.toolchain.major = in.i32();
  hello.toolchain.minor = in.i32();
  hello.toolchain.nvrtc_id = in.text();
  hello.toolchain.builtins_id = in.text();
  if (!in.done()) {
    return malformed("hello");
  }
  return hello;
}

std::string encode_hello_reply(const HelloReply& reply) {
  Writer out;
  if (reply.targets) {
    out.u32(kSucceeded);
    out.u32(static_cast<std::uint32_t>(reply.targets->size()));
    for (const Target& target : *reply.targets) {
      out.target(target);
    }
  } else {
    out.failure(reply.targets.error());
  }
  return out.frame(MessageType::kHelloReply);
}

Result<HelloReply> decode_hello_reply(std::string_view payload) {
  Reader in(payload);
  HelloReply reply{std::vector<Target>()};
  if (in.flag()) {
    reply.targets = tl::unexpected(in.failure());
  } else {
    for (std::uint32_t left = in.count(kTargetBytes); left > 0 && in.good(); --left) {
      reply.targets->push_back(in.target());
    }
  }
  if (!in.done()) {
    return malformed("hello_reply");
  }
  return reply;
}

Result<std::string> encode_compile(std::span<const registry::CompileUnit> units) {
  const registry::CompileUnit& shared = units.front();
  Writer out;
  out.target(shared.target);
  out.text(shared.main.name);
  out.text(shared.main.text);
  out.u32(static_cast<std::uint32_t>(shared.headers.size()));
  for (const SourceFile& header : shared.headers) {
    out.text(header.name);
    out.text(header.text);
  }
  out.u32(static_cast<std::uint32_t>(shared.options.size()));
  for (const std::string& option : shared.options) {
    out.text(option);
  }
  out.u32(static_cast<std::uint32_t>(units.size()));
  for (const registry::CompileUnit& unit : units) {
    out.text(unit.label);
    out.text(unit.name_expression);
  }
  if (units.size() > kMaxProgramKernels || out.size() > kMaxPayloadBytes ||
      expanded_bytes(shared, units.size()) > kMaxExpandedBytes) {
    return fail(ErrorCode::kCompileFailed,
                fmt::format("{} and the {} kernels compiled with it are too large to hand to a "
                            "compile worker: {} bytes, at most {} kernels and {} bytes",
                            shared.label, units.size() - 1, out.size(), kMaxProgramKernels,
                            kMaxPayloadBytes));
  }
  return out.frame(MessageType::kCompile);
}

Result<std::vector<registry::CompileUnit>> decode_compile(std::string_view payload) {
  Reader in(payload);
  registry::CompileUnit shared;
  shared.target = in.target();
  shared.main.name = in.text();
  shared.main.text = in.text();
  for (std::uint32_t left = in.count(2 * kTextBytes); left > 0 && in.good(); --left) {
    SourceFile& header = shared.headers.emplace_back();
    header.name = in.text();
    header.text = in.text();
  }
  for (std::uint32_t left = in.count(kTextBytes); left > 0 && in.good(); --left) {
    shared.options.push_back(in.text());
  }
  const std::uint32_t kernels = in.count(2 * kTextBytes);
  in.require(kernels >= 1 && kernels <= kMaxProgramKernels &&
             expanded_bytes(shared, kernels) <= kMaxExpandedBytes);
  std::vector<registry::CompileUnit> units;
  for (std::uint32_t left = kernels; left > 0 && in.good(); --left) {
    registry::CompileUnit& unit = units.emplace_back(shared);
    unit.label = in.text();
    unit.name_expression = in.text();
  }
  if (!in.done()) {
    return malformed("compile");
  }
  return units;
}

std::string encode_compile_reply(const CompileReply& reply) {
  Writer out;
  if (!reply.program) {
    out.failure(reply.program.error());
  } else {
    out.u32(kSucceeded);
    out.text(reply.program->cubin);
    out.text(reply.program->log);
    out.u32(static_cast<std::uint32_t>(reply.program->kernels.size()));
    for (const CompiledKernel& kernel : reply.program->kernels) {
      write_kernel(out, kernel);
    }
  }
  if (out.size() > kMaxPayloadBytes) {
    return encode_compile_reply(
        {fail(ErrorCode::kCompileFailed,
              fmt::format("the compile worker has an answer of {} bytes, more than the {} that it "
                          "can send",
                          out.size(), kMaxPayloadBytes))});
  }
  return out.frame(MessageType::kCompileReply);
}

Result<CompileReply> decode_compile_reply(std::string_view payload) {
  Reader in(payload);
  CompileReply reply{CompiledProgram()};
  if (in.flag()) {
    reply.program = tl::unexpected(in.failure());
  } else {
    reply.program->cubin = in.text();
    reply.program->log = in.text();
    for (std::uint32_t left = in.count(kKernelBytes); left > 0 && in.good(); --left) {
      reply.program->kernels.push_back(read_kernel(in));
    }
  }
  if (!in.done()) {
    return malformed("compile_reply");
  }
  return reply;
}

}  // namespace kiln::runtime
