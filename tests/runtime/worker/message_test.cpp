#include "runtime/worker/message.hpp"

#include <cstring>

#include "tests/runtime/nvrtc/fuzz.hpp"
#include "tests/runtime/worker/samples.hpp"
#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

using test::sample_compile_reply;
using test::sample_failure;
using test::sample_hello;
using test::sample_hello_reply;
using test::sample_units;

std::string payload_of(const std::string& frame, MessageType type) {
  const auto header = decode_frame_header(frame.substr(0, kFrameHeaderBytes));
  REQUIRE(header);
  CHECK(header->type == type);
  REQUIRE(header->payload_bytes == frame.size() - kFrameHeaderBytes);
  return frame.substr(kFrameHeaderBytes);
}

// A frame's header with one integer of it replaced.
template <class Integer>
Result<FrameHeader> header_with(std::size_t offset, Integer value) {
  std::string header = encode_hello(sample_hello()).substr(0, kFrameHeaderBytes);
  std::memcpy(header.data() + offset, &value, sizeof value);
  return decode_frame_header(header);
}

bool same_units(const std::vector<registry::CompileUnit>& a,
                const std::vector<registry::CompileUnit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return same_program(x, y) && x.label == y.label && x.name_expression == y.name_expression;
  });
}

// Whatever is done to a payload, it is refused or means just what it says.
template <class Decode, class Encode>
void check_damage(const std::string& payload, const Decode& decode, const Encode& encode) {
  int refused = 0;
  test::damage(payload, 20'000, [&](const std::string& damaged) {
    const auto decoded = decode(damaged);
    refused += decoded ? 0 : 1;
    if (decoded && encode(*decoded).substr(kFrameHeaderBytes) != damaged) {
      FAIL("accepted, but not what encoding it gives");
    }
  });
  CHECK(refused > 0);
  CHECK_FALSE(decode(payload + '\0'));
}

TEST_CASE("A hello comes back as it was sent") {
  const Hello sent = sample_hello();
  const auto got = decode_hello(payload_of(encode_hello(sent), MessageType::kHello));
  REQUIRE(got);
  CHECK(got->build == sent.build);
  CHECK(got->toolchain.nvrtc_path == sent.toolchain.nvrtc_path);
  CHECK(got->toolchain.builtins_path == sent.toolchain.builtins_path);
  CHECK(got->toolchain.version() == "13.0");
  CHECK(got->toolchain.nvrtc_id == sent.toolchain.nvrtc_id);
  CHECK(got->toolchain.builtins_id == sent.toolchain.builtins_id);
}

TEST_CASE("A hello_reply comes back as it was sent, with targets or a failure") {
  const auto targets = decode_hello_reply(
      payload_of(encode_hello_reply(sample_hello_reply()), MessageType::kHelloReply));
  REQUIRE(targets);
  CHECK(targets->targets.value() == sample_hello_reply().targets.value());
  const auto failure = decode_hello_reply(
      payload_of(encode_hello_reply({sample_failure()}), MessageType::kHelloReply));
  REQUIRE(failure);
  REQUIRE_FALSE(failure->targets);
  CHECK(failure->targets.error().code == ErrorCode::kCompileFailed);
  CHECK(failure->targets.error().message == "compiling test_op failed");
}

TEST_CASE("A compile comes back as it was sent, the shared parts in each unit") {
  const auto got =
      decode_compile(payload_of(encode_compile(sample_units()).value(), MessageType::kCompile));
  REQUIRE(got);
  CHECK(same_units(*got, sample_units()));
}

TEST_CASE("A compile_reply comes back as it was sent, with a program or a failure") {
  const auto got = decode_compile_reply(
      payload_of(encode_compile_reply(sample_compile_reply()), MessageType::kCompileReply));
  REQUIRE(got);
  const CompiledProgram sent = *sample_compile_reply().program;
  REQUIRE(got->program);
  CHECK(got->program->cubin == sent.cubin);
  CHECK(got->program->log == sent.log);
  REQUIRE(got->program->kernels.size() == sent.kernels.size());
  for (std::size_t i = 0; i < sent.kernels.size(); ++i) {
    CHECK(got->program->kernels[i].symbol == sent.kernels[i].symbol);
    CHECK(got->program->kernels[i].resources == sent.kernels[i].resources);
    CHECK(got->program->kernels[i].pdl_wait == sent.kernels[i].pdl_wait);
  }
  const auto failure = decode_compile_reply(
      payload_of(encode_compile_reply({sample_failure()}), MessageType::kCompileReply));
  REQUIRE(failure);
  CHECK(failure->program.error().message == "compiling test_op failed");
}

TEST_CASE("A frame's header is refused when its mark, version, type or length is wrong") {
  CHECK(header_with<std::uint32_t>(8, kProtocolVersion));
  CHECK_FALSE(header_with<char>(0, 'k'));
  CHECK_FALSE(header_with<std::uint32_t>(12, 0));
  CHECK_FALSE(header_with<std::uint32_t>(12, 5));
  CHECK(header_with<std::uint64_t>(16, kMaxPayloadBytes));
  CHECK_FALSE(header_with<std::uint64_t>(16, kMaxPayloadBytes + 1));
  CHECK_FALSE(header_with<std::uint64_t>(16, ~std::uint64_t{0}));
  const auto version = header_with<std::uint32_t>(8, kProtocolVersion + 1);
  REQUIRE_FALSE(version);
  CHECK(version.error().message.find("version 2 of the protocol") == 0);
  const std::string whole = encode_hello(sample_hello()).substr(0, kFrameHeaderBytes + 1);
  CHECK_FALSE(decode_frame_header(whole));
  CHECK_FALSE(decode_frame_header(whole.substr(0, kFrameHeaderBytes - 1)));
}

TEST_CASE("Any bytes in the place of a message are refused or mean what they say") {
  const auto payload = [](const std::string& frame) { return frame.substr(kFrameHeaderBytes); };
  check_damage(payload(encode_hello(sample_hello())), decode_hello, encode_hello);
  for (const HelloReply& reply : {sample_hello_reply(), HelloReply{sample_failure()}}) {
    check_damage(payload(encode_hello_reply(reply)), decode_hello_reply, encode_hello_reply);
  }
  check_damage(payload(encode_compile(sample_units()).value()), decode_compile,
               [](const auto& units) { return encode_compile(units).value(); });
  for (const CompileReply& reply : {sample_compile_reply(), CompileReply{sample_failure()}}) {
    check_damage(payload(encode_compile_reply(reply)), decode_compile_reply, encode_compile_reply);
  }
}

TEST_CASE("A program over the limits is not sent, and not unfolded when it comes") {
  auto units = sample_units();
  units.resize(kMaxProgramKernels + 1, units.front());
  const auto many = encode_compile(units);
  REQUIRE_FALSE(many);
  CHECK(many.error().code == ErrorCode::kCompileFailed);
  CHECK(many.error().message.find("test_op N=3 sm_90a") == 0);
  units.pop_back();
  std::string payload = encode_compile(units).value().substr(kFrameHeaderBytes);
  CHECK(decode_compile(payload).value().size() == kMaxProgramKernels);
  // A source of 2 MiB for each of 1024 kernels.
  units.front().main.text.assign(2 << 20, ' ');
  CHECK_FALSE(encode_compile(units));
}

}  // namespace
}  // namespace kiln::runtime
