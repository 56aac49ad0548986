// SPDX-License-Identifier: Apache-2.0
// Question: what memory does one more peer cost an endpoint of 8 NICs, at rest and active? Metric:
// resident bytes of the endpoint's heap, divided by peers. The pages that mincore calls resident
// count; transparent huge pages are off. First 4096 peers of 8 NICs each connect over the memory
// fabric, 16 at a time, exchange a message each way and go to rest. Then as many peers stay awake,
// and at the end all have a message each way under way at the same moment. Then fewer peers have
// bulk under way on all NICs. The sizes of the structs stand beside it. The other endpoints live
// only while they are needed; a resting peer's isn't. Time is virtual, so nothing waits. Runtime:
// 60 s. `--short`: 256 peers, for the tests.
#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/recorded_memory.hpp"
#include "engine/driver/memory/memory_nic.hpp"
#include "engine/packet_pool.hpp"
#include "proto/endpoint.hpp"
#include "proto/peer/peer_table.hpp"

namespace {

using namespace hawser;
using bench::resident;

constexpr std::size_t kNics = 8;
constexpr std::size_t kBatch = 16;
constexpr std::size_t kPoolBuffers = 8192;

// An endpoint with its NICs.
struct Side {
  Side(const std::shared_ptr<engine::MemoryFabric>& fabric, proto::PacketPool& pool,
       const Tunables& tunables, std::uint64_t id, std::uint32_t slots, bool record) {
    engine::MemoryNicConfig config;
    config.max_datagram_bytes = 2048;
    config.datagram_bytes = 1024;
    config.data_slots = config.control_slots = slots;
    config.send_slots = slots;
    config.max_remotes = 4096;
    if (!record) config.max_remotes = kNics;
    for (std::size_t i = 0; i < kNics; ++i) {
      nics.push_back(std::make_unique<engine::MemoryNic>(fabric, config, pool));
      pointers[i] = nics.back().get();
    }
    proto::EndpointConfig endpoint_config;
    endpoint_config.tunables = tunables;
    endpoint_config.endpoint_id = id;
    endpoint_config.epoch = 1;
    endpoint_config.seed = id;
    if (record) bench::start_recording();
    endpoint = std::make_unique<proto::Endpoint>(endpoint_config, pointers, pool);
    bench::stop_recording();
  }
  std::vector<std::unique_ptr<engine::MemoryNic>> nics;
  std::array<proto::Nic*, kNics> pointers{};
  std::unique_ptr<proto::Endpoint> endpoint;
};

Tunables hub_tunables(std::uint64_t peers, std::uint64_t rest_after_ms) {
  Tunables tunables;
  tunables.max_peers = peers;
  tunables.rest_after_ms = rest_after_ms;
  tunables.fragment_bytes = 1024;
  return tunables;
}

Tunables far_tunables() {
  Tunables tunables;
  tunables.max_peers = 2;
  tunables.max_operations = 16;
  tunables.max_receive_messages = 16;
  tunables.max_in_flight_packets = 256;
  tunables.unexpected_bytes = 65536;
  tunables.fragment_bytes = 1024;
  return tunables;
}

// The measured endpoint and its peers, connected in batches.
class Hub {
 public:
  explicit Hub(std::uint64_t max_peers, std::uint64_t rest_after_ms = Tunables{}.rest_after_ms)
      : hub_pool_(kPoolBuffers),
        far_pool_(kPoolBuffers),
        hub_(fabric_, hub_pool_, hub_tunables(max_peers, rest_after_ms), 1, 1024, true) {}

  // Connects `count` more peers, each with a message each way.
  void connect(std::size_t count, std::size_t bytes) {
    const std::size_t first = far_.size();
    for (std::size_t i = 0; i < count; ++i) {
      far_.push_back(
          std::make_unique<Side>(fabric_, far_pool_, far_tunables(), ++last_id_, 64, false));
      std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
      const std::size_t length = far_.back()->endpoint->write_address(blob);
      PeerId peer{};
      if (hub_.endpoint->connect(now_, std::span(blob).first(length), peer) != Status::ok) {
        std::abort();
      }
      peers_.push_back(peer);
    }
    for (std::size_t i = first; i < far_.size(); ++i) exchange(i, bytes);
  }

  // Sends a message to the i-th peer, and one back.
  void exchange(std::size_t i, std::size_t bytes) {
    std::vector<std::byte> source(bytes);
    for (std::size_t j = 0; j < bytes; ++j) source[j] = static_cast<std::byte>(j * 31 + i);
    pass(*hub_.endpoint, peers_[i], *far_[i]->endpoint, source, i);
    pass(*far_[i]->endpoint, PeerId{0}, *hub_.endpoint, source, i);
  }

  // Puts two messages per peer under way, all at the same moment: an empty one from the peer that
  // no receive matches, and one of `bytes` to the peer.
  void load(std::size_t bytes) {
    for (std::size_t i = 0; i < far_.size(); ++i) {
      send(*far_[i]->endpoint, PeerId{0}, 0, 3);
      now_ = now_ + proto::Duration{10};
      (void)far_[i]->endpoint->turn(now_);
      if (i % kBatch == 0 || i + 1 == far_.size()) (void)hub_.endpoint->turn(now_);
    }
    static std::vector<std::byte> source;
    source.resize(bytes);
    for (std::size_t i = 0; i < far_.size(); ++i) {
      send(*hub_.endpoint, peers_[i], bytes, static_cast<std::uint32_t>(8 + i), source.data());
      now_ = now_ + proto::Duration{10};
      if (i % kBatch == 0) (void)hub_.endpoint->turn(now_);
    }
    for (int i = 0; i < 512; ++i) (void)hub_.endpoint->turn(now_ = now_ + proto::Duration{10});
  }

  bool rest() {
    for (int i = 0; i < 10000 && hub_.endpoint->stats().peers_awake > 0; ++i) {
      now_ = now_ + proto::milliseconds(100);
      turn_all();
    }
    return hub_.endpoint->stats().peers_awake == 0;
  }
  void forget_others() {
    far_.clear();
    peers_.clear();
  }
  [[nodiscard]] EndpointStats stats() const { return hub_.endpoint->stats(); }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  void send(proto::Endpoint& from, PeerId to, std::size_t bytes, std::uint32_t operation,
            const std::byte* data = nullptr) {
    proto::SendRequest request;
    request.operation = OperationId{operation};
    request.peer = to;
    request.data = data;
    request.bytes = bytes;
    if (from.send(now_, request) != Status::ok) std::abort();
  }
  void pass(proto::Endpoint& from, PeerId to, proto::Endpoint& at,
            const std::vector<std::byte>& source, std::size_t i) {
    std::vector<std::byte> sink(source.size());
    proto::SendRequest send;
    send.operation = OperationId{1};
    send.peer = to;
    send.data = source.data();
    send.bytes = source.size();
    proto::ReceiveRequest receive;
    receive.operation = OperationId{2};
    receive.data = sink.data();
    receive.bytes = sink.size();
    if (at.receive(now_, receive) != Status::ok || from.send(now_, send) != Status::ok)
      std::abort();
    std::array<Completion, 4> completions;
    for (std::size_t done = 0, turns = 0; done < 2; ++turns) {
      if (turns == 1000000) std::abort();
      now_ = now_ + proto::microseconds(2);
      (void)hub_.endpoint->turn(now_);
      (void)far_[i]->endpoint->turn(now_);
      done += from.poll_completions(completions);
      done += at.poll_completions(completions);
    }
    if (sink != source) std::abort();
    for (const std::byte byte : sink) {
      hash_ = (hash_ ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
    }
  }
  void turn_all() {
    (void)hub_.endpoint->turn(now_);
    for (const auto& side : far_) (void)side->endpoint->turn(now_);
    (void)hub_.endpoint->turn(now_);
  }

  std::shared_ptr<engine::MemoryFabric> fabric_ = std::make_shared<engine::MemoryFabric>();
  engine::StackPacketPool hub_pool_;
  engine::StackPacketPool far_pool_;
  Side hub_;
  std::vector<std::unique_ptr<Side>> far_;
  std::vector<PeerId> peers_;
  proto::Time now_{1000000000};
  std::uint64_t last_id_ = 1;
  std::uint64_t hash_ = 0;
};

double per_peer(std::uint64_t after, std::uint64_t before, std::size_t peers) {
  return (static_cast<double>(after) - static_cast<double>(before)) / static_cast<double>(peers);
}

void print(std::string_view what, double bytes) { fmt::print("{:58} {:8.0f}\n", what, bytes); }

std::uint64_t empty_endpoint(std::uint64_t max_peers) {
  const Hub hub(max_peers);
  return resident();
}

bool measure_rest(std::size_t peers) {
  const std::uint64_t smaller = empty_endpoint(peers / 4);
  Hub hub(peers);
  const std::uint64_t empty = resident();
  std::uint64_t quarter = 0;
  for (std::size_t known = 0; known < peers; known += kBatch) {
    if (known == peers / 4) quarter = resident();
    hub.forget_others();
    hub.connect(kBatch, 8);
    if (!hub.rest()) return false;
  }
  const std::uint64_t all = resident();
  const double slope = per_peer(all, quarter, peers - peers / 4);
  const double sized = per_peer(empty, smaller, peers - peers / 4);
  fmt::print("{} peers of {} NICs, at rest; {} of them woken once more\n",
             hub.stats().peers_at_rest, kNics, kBatch);
  for (std::size_t i = 0; i < kBatch; ++i) hub.exchange(i, 1000);
  print("bytes of one more peer at rest", slope);
  print("bytes at start for each of max_peers", sized);
  print("a peer at rest, together", slope + sized);
  print("of it the record", sizeof(proto::RestingPeer));
  print("the endpoint with all of them at rest, MB", static_cast<double>(all) / 1e6);
  fmt::print("hash {:016x}\n\n", hub.hash());
  return hub.stats().peers_at_rest + hub.stats().peers_awake == peers &&
         hub.stats().sessions_established == peers;
}

// At the end each peer has `what` under way: a message of `bytes` to it.
void measure_active(std::size_t peers, std::size_t bytes, std::string_view what) {
  (void)malloc_trim(0);  // freed memory must not count as used
  Hub hub(4096, 86400000);
  hub.connect(peers / 4, 8);
  const std::uint64_t quarter = resident();
  hub.connect(peers - peers / 4, 8);
  const std::uint64_t all = resident();
  const double awake = per_peer(all, quarter, peers - peers / 4);
  hub.load(bytes);
  const EndpointStats stats = hub.stats();
  if (stats.messages_unmatched != peers || stats.operations_pending != peers) std::abort();
  fmt::print("{} peers of {} NICs, {}; {} packets in flight\n", peers, kNics, what,
             stats.packets_in_flight);
  print("bytes of one more peer awake, after 8 bytes each way", awake);
  print("what is under way, beside that", per_peer(resident(), all, peers));
  print("together", awake + per_peer(resident(), all, peers));
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--short";
  bench::prepare_recording();
  if (!measure_rest(brief ? 256 : 4096)) {
    fmt::print("a peer did not go to rest\n");
    return 1;
  }
  measure_active(brief ? 32 : 4096, 8, "a small message each way under way");
  measure_active(brief ? 32 : 256, 1 << 20, "bulk to each under way");
  print("active, by its structs, with 2 paths", proto::active_peer_bytes(2));
  print("the same with 8 paths, 8 packets in flight on each", proto::active_peer_bytes(8));
  print("a Peer", sizeof(proto::Peer));
  print("a path of it, to send on", sizeof(proto::Path));
  print("a path of it, that is received on", sizeof(proto::ReceivePath));
  print("records of 8 packets in flight",
        proto::SentBlockPool::kRecords * sizeof(proto::SentPacket));
  print("a block of message numbers, while some of them are under way",
        sizeof(proto::MessageBlock));
  print("an outgoing message", sizeof(proto::OutgoingMessage));
  print("an incoming message", sizeof(proto::IncomingMessage));
  return 0;
}
