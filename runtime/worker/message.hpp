#pragma once

/// \file
/// What an engine and a compile worker say to each other over their socket. Bytes to values and
/// back; no socket here.
///
///   frame         := "KilnWrkr" u32(protocol version) u32(type) u64(bytes of the payload) payload
///   type, payload := 1 hello | 2 hello_reply | 3 compile | 4 compile_reply
///   hello         := text(build) text(nvrtc path) text(builtins path) i32(major) i32(minor)
///                    text(nvrtc id) text(builtins id)          engine to worker, first and once
///   hello_reply   := u32(0) u32(count) target*                 NVRTC is loaded, and compiles these
///                  | u32(1) failure
///   compile       := target text(name) text(source) list(headers: text(name) text(source))
///                    list(options: text) list(kernels: text(label) text(name expression))
///   compile_reply := u32(0) text(cubin) text(log) list(kernels: kernel)
///                  | u32(1) failure
///   kernel        := text(symbol) i32(registers) i32(shared bytes) i32(stack bytes)
///                    i32(spill store bytes) i32(spill load bytes) u32(waits for its PDL
///                    predecessor: 0 or 1)
///   target        := i32(major) i32(minor) u32(suffix: 0, 'a' or 'f')
///   failure       := u32(ErrorCode) text(message)
///   list          := u32(count) item*
///   text          := u32(length) bytes
///   Integers are little-endian. A payload has at most 256 MiB and is used up to its last byte; a
///   count is never greater than the bytes that are left could hold. A program has 1 to 1024
///   kernels, and its sources, once for each of them, at most 1 GiB. Any bytes are safe to decode;
///   what is accepted is, byte for byte, what encoding it gives.
///
/// Any change makes a new protocol version: engine and worker are of one build (see build_text),
/// so there is nothing to be compatible with.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 24;
inline constexpr std::uint64_t kMaxPayloadBytes = std::uint64_t{256} << 20;
inline constexpr std::uint32_t kMaxProgramKernels = 1024;
inline constexpr std::uint64_t kMaxExpandedBytes = std::uint64_t{1} << 30;

enum class MessageType : std::uint32_t {
  kHello = 1,
  kHelloReply = 2,
  kCompile = 3,
  kCompileReply = 4,
};

struct FrameHeader {
  MessageType type = MessageType::kHello;
  std::size_t payload_bytes = 0;
};

/// Fails for what is no header, for another protocol version, and for a payload that is too large.
Result<FrameHeader> decode_frame_header(std::string_view bytes);

struct Hello {
  /// build_text() of the engine. A worker of another build could compile with other options than
  /// those in the cache key.
  std::string build;
  Toolchain toolchain;  ///< Its origin and what was passed over are not sent.
};
struct HelloReply {
  Result<std::vector<Target>> targets;
};
struct CompileReply {
  Result<CompiledProgram> program;  ///< Its PTX is not sent.
};

/// What must be the same in an engine and its workers: Kiln's version and the options of a compile.
std::string build_text();

/// Each encode function gives a whole frame, each decode function takes a payload.
std::string encode_hello(const Hello& hello);
Result<Hello> decode_hello(std::string_view payload);

std::string encode_hello_reply(const HelloReply& reply);
Result<HelloReply> decode_hello_reply(std::string_view payload);

/// Of units of which any two are same_program(). kCompileFailed for a program over the limits.
Result<std::string> encode_compile(std::span<const registry::CompileUnit> units);
Result<std::vector<registry::CompileUnit>> decode_compile(std::string_view payload);

/// A result over the limits is sent as a failure.
std::string encode_compile_reply(const CompileReply& reply);
Result<CompileReply> decode_compile_reply(std::string_view payload);

}  // namespace kiln::runtime
