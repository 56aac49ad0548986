// SPDX-License-Identifier: Apache-2.0
// Hawser over UDP NICs on loopback, or over other NICs, with inline progress. A message leaves the
// window once the sender knows that it is in the receiver's buffer.
#include <algorithm>
#include <array>
#include <vector>

#include "bench/compare/hawser_settings.hpp"
#include "bench/compare/transport.hpp"
#include "engine/endpoint_registry.hpp"
#include "engine/inline_endpoint.hpp"
#include "hawser/engine.hpp"

namespace hawser::bench {

namespace {

constexpr std::uint64_t kNanosecondsToWait = 1000000000;
constexpr unsigned kWaits = 10;  // fruitless waits

class HawserTransport final : public Transport {
 public:
  explicit HawserTransport(const TransportOptions& options)
      : options_(options),
        endpoint_(std::make_unique<engine::InlineEndpoint>(engine_settings(options),
                                                           EndpointConfig{}, registry_)) {}

  [[nodiscard]] std::string address() const override {
    const Address& blob = endpoint_->address();
    return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  }

  void connect(const std::string& peer) override {
    const auto bytes = std::as_bytes(std::span(peer));
    if (endpoint_->connect(bytes, peer_) != Status::ok) fail("Hawser: connect failed");
  }

  void stream_out(std::span<const std::byte> message, std::uint64_t count) override {
    const std::uint64_t window = options_.window_of(message.size());
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    while (done < count) {
      for (; posted < count && posted < done + window; ++posted) post_send(message);
      done += drain();
    }
  }

  void stream_in(std::span<std::byte> buffer, std::uint64_t count) override {
    const std::uint64_t window = options_.window_of(buffer.size());
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    while (done < count) {
      for (; posted < count && posted < done + window; ++posted) post_receive(buffer);
      done += drain_receives();  // earlier sends may complete here too
    }
  }

  void ping(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      post_receive(buffer);
      post_send(buffer);
      for (std::uint64_t done = 0; done < 2;) done += drain();
    }
  }

  void pong(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      post_receive(buffer);
      bool received = false;
      while (!received) received = drain_receives() > 0;
      post_send(buffer);
    }
  }

  // Progress is inline, and the peer may still wait for this endpoint's last statuses.
  void idle() override { (void)drain_now(); }

 private:
  void post_send(std::span<const std::byte> message) {
    OperationId operation{};
    while (endpoint_->send({.peer = peer_,
                            .tag = 1,
                            .data = message.data(),
                            .bytes = message.size(),
                            .level = Level::delivered},
                           operation) == Status::again) {
      (void)drain();
    }
  }

  void post_receive(std::span<std::byte> buffer) {
    OperationId operation{};
    while (
        endpoint_->receive({.peer = peer_, .tag = 1, .data = buffer.data(), .bytes = buffer.size()},
                           operation) == Status::again) {
      (void)drain();
    }
  }

  std::size_t take(std::size_t& receives) {
    std::array<Completion, 16> completions;
    const std::size_t n = endpoint_->wait(completions, kNanosecondsToWait);
    waits_in_vain_ = n == 0 ? waits_in_vain_ + 1 : 0;
    if (waits_in_vain_ > kWaits) fail("Hawser: nothing came for 10 s");
    receives = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (completions[i].status != Status::ok) {
        fail("Hawser: " + std::string(to_string(completions[i].status)));
      }
      if (completions[i].kind == OperationKind::receive) ++receives;
    }
    return n;
  }
  std::size_t drain_now() {
    std::array<Completion, 16> completions;
    return endpoint_->poll(completions);
  }
  std::size_t drain() {
    std::size_t receives = 0;
    return take(receives);
  }
  std::size_t drain_receives() {
    std::size_t receives = 0;
    (void)take(receives);
    return receives;
  }

  TransportOptions options_;
  engine::EndpointRegistry registry_;  // outlives the endpoint
  std::unique_ptr<Endpoint> endpoint_;
  unsigned waits_in_vain_ = 0;
  PeerId peer_ = kAnyPeer;
};

}  // namespace

std::unique_ptr<Transport> make_hawser(const TransportOptions& options) {
  return std::make_unique<HawserTransport>(options);
}

}  // namespace hawser::bench
