// SPDX-License-Identifier: Apache-2.0
// The base of library transports whose completions say only that one more operation is done. It
// builds streams and round trips from those counts. A stream ends with an empty message back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

class CountedTransport : public Transport {
 public:
  void stream_out(std::span<const std::byte> message, std::uint64_t count) final {
    const std::uint64_t window = options_.window_of(message.size());
    const std::uint64_t answers = received_;
    post_receive({});
    const std::uint64_t before = sent_;
    std::uint64_t posted = 0;
    while (sent_ - before < count) {
      for (; posted < count && posted < sent_ - before + window; ++posted) post_send(message);
      progress();
    }
    while (received_ == answers) progress();
  }

  void stream_in(std::span<std::byte> buffer, std::uint64_t count) final {
    const std::uint64_t window = options_.window_of(buffer.size());
    const std::uint64_t before = received_;
    std::uint64_t posted = 0;
    while (received_ - before < count) {
      for (; posted < count && posted < received_ - before + window; ++posted) {
        post_receive(buffer);
      }
      progress();
    }
    send_and_wait({});
  }

  void ping(std::span<std::byte> buffer, std::uint64_t count) final {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t before = received_;
      post_receive(buffer);
      send_and_wait(buffer);
      while (received_ == before) progress();
    }
  }

  void pong(std::span<std::byte> buffer, std::uint64_t count) final {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t before = received_;
      post_receive(buffer);
      while (received_ == before) progress();
      send_and_wait(buffer);
    }
  }

 protected:
  explicit CountedTransport(const TransportOptions& options) : options_(options) {}

  virtual void post_send(std::span<const std::byte> bytes) = 0;
  virtual void post_receive(std::span<std::byte> bytes) = 0;
  // Looks for completions. Ends the program if there were none for too long.
  virtual void progress() = 0;

  void is_done(bool receive) { ++(receive ? received_ : sent_); }

 private:
  void send_and_wait(std::span<const std::byte> bytes) {
    const std::uint64_t before = sent_;
    post_send(bytes);
    while (sent_ == before) progress();
  }

  TransportOptions options_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace hawser::bench
