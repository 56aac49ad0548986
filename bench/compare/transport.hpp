// SPDX-License-Identifier: Apache-2.0
// One way of moving messages between the two processes of a comparison.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::bench {

// One transport failed, for the reason in the message. The others go on.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] inline void fail(const std::string& what) { throw Failure(what); }

// Both processes make the same transport and call the matching methods, one as the client, one as
// the server. Methods block, spinning, and throw Failure.
class Transport {
 public:
  virtual ~Transport() = default;

  // This side's address, which the other side passes to connect(), and the reverse.
  [[nodiscard]] virtual std::string address() const = 0;
  virtual void connect(const std::string& peer) = 0;

  // Client: moves `count` copies of `message` and returns when it knows that the last one has
  // arrived. Server: receives them, all into the one buffer.
  virtual void stream_out(std::span<const std::byte> message, std::uint64_t count) = 0;
  virtual void stream_in(std::span<std::byte> buffer, std::uint64_t count) = 0;

  // A message there and one back, `count` times.
  virtual void ping(std::span<std::byte> buffer, std::uint64_t count) = 0;
  virtual void pong(std::span<std::byte> buffer, std::uint64_t count) = 0;

  // The process calls this now and then while it waits for something else.
  virtual void idle() {}
};

struct TransportOptions {
  unsigned nics = 1;                                  // hawser: NICs of a side, on loopback
  std::vector<std::string> client_nics, server_nics;  // instead of those on loopback
  bool checksum = true;                               // hawser, udp: CRC32C at both ends
  std::uint64_t window = 0;                           // 0: chosen by the message's size
  std::string faults;                                 // hawser: see docs/faults.md
  bool server = false;

  // Messages of a stream under way: as many as fit into 4 MiB, at least 4 and at most 128.
  [[nodiscard]] std::uint64_t window_of(std::size_t bytes) const {
    if (window != 0) return window;
    return std::clamp<std::uint64_t>((std::uint64_t{4} << 20) / std::max<std::size_t>(bytes, 1), 4,
                                     128);
  }
};

// Ends a wait during which nothing happens.
class Patience {
 public:
  // Call when something has happened.
  void renew() { spins_ = 0; }
  // Call when nothing has. Throws Failure after some seconds without a renew().
  void spend(std::string_view what) {
    if (++spins_ % kSpinsALook != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (spins_ == kSpinsALook) since_ = now;
    if (now - since_ > kLimit) fail(std::string(what) + ": nothing came for 10 s");
  }

 private:
  static constexpr std::uint64_t kSpinsALook = 256;
  static constexpr std::chrono::seconds kLimit{10};
  std::uint64_t spins_ = 0;
  std::chrono::steady_clock::time_point since_;
};

[[nodiscard]] std::unique_ptr<Transport> make_hawser(const TransportOptions& options);
[[nodiscard]] std::unique_ptr<Transport> make_udp(const TransportOptions& options);
[[nodiscard]] std::unique_ptr<Transport> make_tcp(const TransportOptions& options);
// `provider`: "tcp;ofi_rxm" or "udp;ofi_rxd". Linked only if the build found libfabric.
[[nodiscard]] std::unique_ptr<Transport> make_libfabric(std::string_view provider,
                                                        const TransportOptions& options);
// Linked only if the build found UCX.
[[nodiscard]] std::unique_ptr<Transport> make_ucx(const TransportOptions& options);

}  // namespace hawser::bench
