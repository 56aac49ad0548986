// SPDX-License-Identifier: Apache-2.0
// Frames and addresses of the rendezvous, for both sides. bootstrap.hpp describes the format.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bootstrap/bootstrap.hpp"

namespace hawser::engine::bootstrap {

enum class FrameType : std::uint8_t {
  join = 1,
  post = 2,
  abort = 3,
  leave = 4,
  welcome = 5,
  gathered = 6,
  failed = 7,
  hello = 8,
  here = 9,
};

inline constexpr std::string_view kMagic = "HAWSER01";
inline constexpr std::size_t kHeadBytes = 8;
inline constexpr std::size_t kSecretBytes = 32;
inline constexpr std::size_t kHereBytes = 8;
// Ends a sentence about a server that isn't there. Most often the server could not start, and
// reported that elsewhere.
inline constexpr std::string_view kWhereToLook =
    "; check the messages of the process that serves it (a launcher, or rank 0)";

inline constexpr std::uint32_t kNoRank = 0xffffffffu;
// The detail of a POST from a rank that takes part in the round for the others only.
inline constexpr std::uint8_t kNeedsNoBlobs = 1;
// Longest body that a rank may send.
inline constexpr std::size_t kMaxBodyFromRank = kMaxBlobBytes + 4;

struct Frame {
  FrameType type{};
  std::uint8_t detail = 0;
  std::vector<std::byte> body;
};

// Appends numbers and bytes to a body.
class BodyWriter {
 public:
  template <class Number>
  BodyWriter& number(Number value) {
    return bytes(std::as_bytes(std::span(&value, 1)));  // all hosts that this builds on are
  }                                                     // little-endian
  BodyWriter& bytes(std::span<const std::byte> bytes) {
    body_.insert(body_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  BodyWriter& text(std::string_view text) { return bytes(std::as_bytes(std::span(text))); }
  [[nodiscard]] const std::vector<std::byte>& body() const { return body_; }

 private:
  std::vector<std::byte> body_;
};

// Reads numbers and bytes out of a body. A read past its end returns zero and sets the reader to
// bad.
class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> body) : rest_(body) {}
  template <class Number>
  [[nodiscard]] Number number() {
    Number value{};
    const auto taken = bytes(sizeof value);
    if (good_) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t count) {
    if (count > rest_.size()) {
      good_ = false;
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  [[nodiscard]] std::span<const std::byte> rest() { return bytes(rest_.size()); }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool complete() const { return good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

[[nodiscard]] std::string text_of(std::span<const std::byte> bytes);

void append_frame(std::vector<std::byte>& out, FrameType type, std::uint8_t detail,
                  std::span<const std::byte> body);

enum class Parse : std::uint8_t { complete, incomplete, bad };
// Takes the first frame off `in`. `bad`: its body is longer than `max_body`.
[[nodiscard]] Parse take_frame(std::vector<std::byte>& in, std::size_t max_body, Frame& frame);

// A socket address of either family.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

[[nodiscard]] std::uint16_t port_of(const Endpoint& endpoint);
void set_port(Endpoint& endpoint, std::uint16_t port);
// "10.0.0.1:29400" or "[fd00::1]:29400".
[[nodiscard]] std::string text_of(const Endpoint& endpoint);

// All addresses of a rendezvous: "10.0.0.1:29400,[fd00::1]:29400#0123456789abcdef". Several hosts
// may have the same address, so the number behind # identifies this server. It is 0 if there is
// none, as in addresses that people write.
struct Meeting {
  std::vector<std::string> addresses;  // at least one
  std::uint64_t nonce = 0;
};
// Throws BootstrapError.
[[nodiscard]] Meeting parse_meeting(const std::string& text);
[[nodiscard]] std::string text_of(const Meeting& meeting);

// The host's name doesn't resolve, or where this host is to listen it leads to other hosts only. A
// cluster publishes a name some time after its process starts, and may publish a predecessor's
// address until then. A later attempt may succeed.
class NameNotReady : public BootstrapError {
  using BootstrapError::BootstrapError;
};

// Resolves "HOST:PORT" or "[IPV6]:PORT" to at least one address. May ask the network for a name.
// Throws NameNotReady, or another BootstrapError.
[[nodiscard]] std::vector<Endpoint> resolve(const std::string& address);
// True if the host is a name, whose addresses may change, and no literal address.
[[nodiscard]] bool has_name(const std::string& address);
// True for 127.0.0.0/8 and ::1.
[[nodiscard]] bool is_loopback(const Endpoint& endpoint);
// True if the host is a name that means loopback here and another machine elsewhere. On Debian a
// host's own name does (127.0.1.1).
[[nodiscard]] bool is_loopback_here_alone(const std::string& address,
                                          const std::vector<Endpoint>& endpoints);
// Opens a non-blocking listening socket at `address`. If that is such a name, or a name with
// several addresses, it listens at every address of this host. Retries for `timeout_ms` if the name
// is not ready. Throws BootstrapError.
[[nodiscard]] Descriptor listen_at(const std::string& address, std::uint32_t timeout_ms);
// The pause between two attempts to resolve a name that is not ready.
inline constexpr int kAskAgainMs = 500;
// Listens at every address of this host, at a free port. Throws BootstrapError.
[[nodiscard]] Descriptor listen_everywhere();
[[nodiscard]] std::uint16_t port_of(const Descriptor& socket);
// `address` with another port.
[[nodiscard]] std::string with_port(const std::string& address, std::uint16_t port);
[[nodiscard]] std::string with_port(const std::string& address, std::string_view port);

}  // namespace hawser::engine::bootstrap
