// One way of moving messages between the two processes of a comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::bench {

// Both processes make the same transport and call the same methods, one as the client, one as the
// server. Methods block, spinning.
class Transport {
 public:
  virtual ~Transport() = default;

  // What the other side needs, and the other side's.
  [[nodiscard]] virtual std::string address() const = 0;
  virtual void connect(const std::string& peer) = 0;

  // Client: moves `count` messages of `bytes` bytes and returns when the last one is known to have
  // arrived. Server: receives them into one of two buffers in turn.
  virtual void stream_out(std::span<const std::byte> message, std::uint64_t count) = 0;
  virtual void stream_in(std::span<std::byte> buffer, std::uint64_t count) = 0;

  // A message there and one back, `count` times.
  virtual void ping(std::span<std::byte> buffer, std::uint64_t count) = 0;
  virtual void pong(std::span<std::byte> buffer, std::uint64_t count) = 0;

  // Called over and over while the program waits for something else.
  virtual void idle() {}
};

struct TransportOptions {
  unsigned nics = 1;                                  // hawser: NICs of a side, on loopback
  std::vector<std::string> client_nics, server_nics;  // instead of those
  bool checksum = true;                               // raw UDP: CRC32C at both ends, as hawser has
  std::uint64_t window = 4;                           // hawser: messages of a stream under way
  std::string faults;                                 // hawser: see docs/faults.md
  bool server = false;
};

// "hawser", "udp", "tcp". Throws std::invalid_argument for another name.
[[nodiscard]] std::unique_ptr<Transport> make_transport(std::string_view name,
                                                        const TransportOptions& options);
[[nodiscard]] std::unique_ptr<Transport> make_hawser(const TransportOptions& options);
[[nodiscard]] std::unique_ptr<Transport> make_udp(const TransportOptions& options);
[[nodiscard]] std::unique_ptr<Transport> make_tcp(const TransportOptions& options);

// Ends the program with a sentence about the call that failed.
[[noreturn]] void fail(std::string_view what);

}  // namespace hawser::bench
