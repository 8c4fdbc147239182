#include "runtime/worker/channel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "cache/file_system.hpp"

namespace kiln::runtime {
namespace {

// Memory grows with what arrives, not with what a header promises.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

tl::unexpected<Breakdown> broken(Breakdown::Kind kind, std::string reason) {
  return tl::unexpected(Breakdown{kind, std::move(reason)});
}

tl::unexpected<Breakdown> closed(int error) {
  return broken(Breakdown::Kind::kClosed,
                error == 0 ? "the connection was closed" : cache::errno_text(error));
}

// Milliseconds for poll(), rounded up so that a deadline is never met early; -1 for no deadline.
int milliseconds_until(Deadline deadline) {
  if (deadline == kNoDeadline) {
    return -1;
  }
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(
      std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

bool try_again(int error) {
  return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

}  // namespace

// Success when the socket is worth trying, which it is before the other side's end is believed:
// an answer may have been sent before it.
Exchange<void> Channel::wait(short events, Deadline deadline) {
  for (;;) {
    std::array<pollfd, 2> watched{{{socket_.get(), events, 0}, {pidfd_, POLLIN, 0}}};
    const int timeout = milliseconds_until(deadline);
    const int ready = ::poll(watched.data(), watched.size(), timeout);
    if (ready < 0 && errno != EINTR) {
      return closed(errno);
    }
    if (ready > 0) {
      return watched[0].revents != 0 ? Exchange<void>() : closed(0);
    }
    if (ready == 0 && milliseconds_until(deadline) == 0) {
      return broken(Breakdown::Kind::kTimedOut, "no answer in time");
    }
  }
}

Exchange<void> Channel::send(std::string_view frame, Deadline deadline) {
  while (!frame.empty()) {
    if (auto ready = wait(POLLOUT, deadline); !ready) {
      return ready;
    }
    const ssize_t sent =
        ::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      frame.remove_prefix(static_cast<std::size_t>(sent));
    } else if (!try_again(errno)) {
      return closed(errno);
    }
  }
  return {};
}

Exchange<void> Channel::receive_bytes(std::string& out, std::size_t count, Deadline deadline) {
  out.clear();
  while (out.size() < count) {
    if (auto ready = wait(POLLIN, deadline); !ready) {
      return ready;
    }
    const std::size_t had = out.size();
    out.resize(had + std::min(count - had, kChunkBytes));
    const ssize_t got = ::recv(socket_.get(), out.data() + had, out.size() - had, MSG_DONTWAIT);
    const int error = got < 0 ? errno : 0;
    out.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0 || (got < 0 && !try_again(error))) {
      return closed(error);
    }
  }
  return {};
}

Exchange<std::string> Channel::receive(MessageType type, Deadline deadline) {
  std::string bytes;
  if (const auto got = receive_bytes(bytes, kFrameHeaderBytes, deadline); !got) {
    return tl::unexpected(got.error());
  }
  const auto header = decode_frame_header(bytes);
  if (!header) {
    return broken(Breakdown::Kind::kGarbage, header.error().message);
  }
  if (header->type != type) {
    return broken(
        Breakdown::Kind::kGarbage,
        fmt::format("a message of type {} where type {} was due",
                    static_cast<std::uint32_t>(header->type), static_cast<std::uint32_t>(type)));
  }
  if (const auto got = receive_bytes(bytes, header->payload_bytes, deadline); !got) {
    return tl::unexpected(got.error());
  }
  return bytes;
}

bool Channel::idle_is_over() const {
  std::array<pollfd, 2> watched{{{socket_.get(), POLLIN, 0}, {pidfd_, POLLIN, 0}}};
  return ::poll(watched.data(), watched.size(), 0) != 0;
}

}  // namespace kiln::runtime
