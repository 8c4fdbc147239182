// The reader of what engine and compile worker say to each other: any bytes give a message or a
// reason, and a message that is accepted is, byte for byte, what writing it gives.

#include "runtime/worker/message.hpp"
#include "tests/fuzz/mend.hpp"

namespace kiln::runtime::fuzz {
namespace {

using cache::fuzz::expect;

template <class Decode, class Encode>
void read_as(std::string_view payload, const Decode& decode, const Encode& encode) {
  const auto message = decode(payload);
  if (message) {
    expect(encode(*message).substr(kFrameHeaderBytes) == payload,
           "an accepted message is what writing it gives");
  } else {
    expect(!message.error().message.empty(), "a refusal has a reason");
  }
}

void read_frame(std::string_view bytes) {
  const auto header = decode_frame_header(bytes.substr(0, kFrameHeaderBytes));
  if (!header) {
    expect(!header.error().message.empty(), "a refusal has a reason");
    return;
  }
  expect(header->payload_bytes <= kMaxPayloadBytes, "a payload is bounded");
  const std::string_view payload = bytes.substr(kFrameHeaderBytes);
  switch (header->type) {
    case MessageType::kHello:
      return read_as(payload, decode_hello, encode_hello);
    case MessageType::kHelloReply:
      return read_as(payload, decode_hello_reply, encode_hello_reply);
    case MessageType::kCompile:
      return read_as(payload, decode_compile, [](const auto& units) {
        const auto frame = encode_compile(units);
        expect(frame.has_value(), "an accepted compile can be sent");
        return *frame;
      });
    case MessageType::kCompileReply:
      return read_as(payload, decode_compile_reply, encode_compile_reply);
  }
}

}  // namespace
}  // namespace kiln::runtime::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln::runtime;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::read_frame(bytes);
  if (size >= kFrameHeaderBytes) {
    // Everything of the header right but the type, which is one of the four.
    const std::string good = encode_hello({}).substr(0, kFrameHeaderBytes);
    const char type = static_cast<char>(1 + (data[12] & 3));
    bytes.replace(0, kFrameHeaderBytes, good);
    bytes[12] = type;
    fuzz::read_frame(bytes);
  }
  return 0;
}
