#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#include "runtime/worker/descriptor.hpp"
#include "runtime/worker/message.hpp"

namespace kiln::runtime {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

/// Why a channel is of no more use.
struct Breakdown {
  enum class Kind : std::uint8_t {
    kTimedOut,  ///< The other side did not answer, or take what it was sent, before the deadline.
    kClosed,    ///< The other side has closed its end or died.
    kGarbage,   ///< What came is not the message that was waited for.
  };
  Kind kind = Kind::kClosed;
  std::string reason;
};

template <class T>
using Exchange = tl::expected<T, Breakdown>;

/// One end of the socket between an engine and a worker. Sends and receives whole frames. No signal
/// is raised when the other side is gone. One thread at a time.
class Channel {
 public:
  explicit Channel(Descriptor socket) noexcept : socket_(std::move(socket)) {}

  /// A pidfd that tells of the other side's end even where another process still holds a copy of
  /// its end of the socket. -1: there is none. Must outlive the channel's use.
  void watch(int pidfd) noexcept { pidfd_ = pidfd; }

  Exchange<void> send(std::string_view frame, Deadline deadline);
  /// The payload of the next frame, which must be of this type.
  Exchange<std::string> receive(MessageType type, Deadline deadline);
  /// Whether the other side has closed its end or died, or has sent something unasked.
  bool idle_is_over() const;

  int descriptor() const noexcept { return socket_.get(); }
  void close() noexcept { socket_.close(); }

 private:
  Exchange<void> wait(short events, Deadline deadline);
  Exchange<void> receive_bytes(std::string& out, std::size_t count, Deadline deadline);

  Descriptor socket_;
  int pidfd_ = -1;
};

}  // namespace kiln::runtime
