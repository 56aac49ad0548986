// SPDX-License-Identifier: Apache-2.0
// Frames and addresses of the rendezvous, for both of its sides. The format is in bootstrap.hpp.
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
// Behind a sentence about a server that isn't there: most often it could not start, and has said so
// elsewhere.
inline constexpr std::string_view kWhereToLook =
    "; look at the messages of the process that serves it (a launcher, or rank 0)";

inline constexpr std::uint32_t kNoRank = 0xffffffffu;
// The longest that a rank may send.
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

// Takes them out again. What is not there reads as zero and makes the reader bad.
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
// Takes the first frame off `in`. bad: its body is longer than `max_body`.
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

// All addresses of a rendezvous: "10.0.0.1:29400,[fd00::1]:29400#0123456789abcdef". The number
// behind # tells it from whatever else listens at an address that several hosts have; 0: there is
// none, as in an address that people write.
struct Meeting {
  std::vector<std::string> addresses;  // at least one
  std::uint64_t nonce = 0;
};
// Throws BootstrapError.
[[nodiscard]] Meeting parse_meeting(const std::string& text);
[[nodiscard]] std::string text_of(const Meeting& meeting);

// Nobody knows the host by this name, or does not yet.
class HostUnknown : public BootstrapError {
  using BootstrapError::BootstrapError;
};

// What "HOST:PORT" or "[IPV6]:PORT" stands for; at least one. May ask the network for a name.
// Throws HostUnknown, or another BootstrapError.
[[nodiscard]] std::vector<Endpoint> resolve(const std::string& address);
// Whether the host is a name that stands for loopback here, as a host's own does on Debian
// (127.0.1.1), and surely for something else on other hosts.
[[nodiscard]] bool is_loopback_here_alone(const std::string& address,
                                          const std::vector<Endpoint>& endpoints);
// Listens at `address`, without blocking; at every address of this host if it is such a name, or
// one of several addresses. Throws BootstrapError.
[[nodiscard]] Descriptor listen_at(const std::string& address);
// Listens at every address of this host, at a free port. Throws BootstrapError.
[[nodiscard]] Descriptor listen_everywhere();
[[nodiscard]] std::uint16_t port_of(const Descriptor& socket);
// `address` with another port.
[[nodiscard]] std::string with_port(const std::string& address, std::uint16_t port);
[[nodiscard]] std::string with_port(const std::string& address, std::string_view port);

}  // namespace hawser::engine::bootstrap
