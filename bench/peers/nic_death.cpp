// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/nic_death.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/driver/memory/memory_nic.hpp"
#include "engine/packet_pool.hpp"
#include "proto/base/assert.hpp"
#include "proto/base/ring.hpp"
#include "proto/endpoint.hpp"

namespace hawser::bench {

namespace {

using proto::Time;

constexpr proto::Duration kTurn{200};
constexpr proto::Duration kPacket{40};
constexpr proto::Duration kRoundTrip = proto::microseconds(10);
constexpr proto::Duration kSettling = proto::milliseconds(1);  // delayed acknowledgements arrive
constexpr proto::Duration kMost = proto::milliseconds(9000);   // of one step, below peer_timeout_ms
constexpr std::uint64_t kNeverRests = 86'400'000;              // ms
constexpr std::uint32_t kFirstBytes = 8;
constexpr std::uint32_t kBytes = 4096;
constexpr std::uint32_t kPostedBeforeTurn = 64;
constexpr std::uint32_t kReceives = 2;  // a peer gets two messages

double processor_us() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// The peer that has a NIC of that address.
using PeersByAddress = std::map<decltype(proto::NicAddress::bytes), std::uint32_t>;

// A NIC of the host. Packets that were sent lie in it until they are due at their peers, so they
// are lost if the NIC dies before.
class MortalNic final : public proto::Nic {
 public:
  // The NIC holds up to `slots` packets. `pool` and `peers` outlive it.
  MortalNic(const std::shared_ptr<engine::MemoryFabric>& fabric, std::uint32_t slots,
            std::uint32_t remotes, engine::EndpointPool& pool, const PeersByAddress& peers)
      : pool_(pool),
        peers_(peers),
        inner_(fabric, nic_config(slots, remotes), pool),
        peer_of_(remotes),
        in_flight_(slots),
        lost_(slots) {}
  ~MortalNic() override {
    while (!in_flight_.empty()) lose(in_flight_.pop().packet);
  }
  MortalNic(const MortalNic&) = delete;
  MortalNic& operator=(const MortalNic&) = delete;

  // Sets the time of the coming turn.
  void set_time(Time now) { now_ = now; }
  // Hands the packets that are due to their peers, and makes these peers due. Returns whether there
  // was any. Call it between turns.
  bool carry(std::span<Time> due) {
    bool any = false;
    for (; !in_flight_.empty() && in_flight_.front().due <= now_; any = true) {
      const proto::TxPacket packet = in_flight_.pop().packet;
      const std::size_t taken = inner_.tx_burst({&packet, 1});
      HAWSER_ASSERT(taken == 1);
      Time& peer_due = due[peer_of_[static_cast<std::uint32_t>(packet.remote)]];
      peer_due = proto::earlier(peer_due, now_);
    }
    return any;
  }
  [[nodiscard]] Time next_due() const {
    return in_flight_.empty() ? proto::kNever : in_flight_.front().due;
  }
  // Loses what is in flight and all later packets of either direction, and raises the event `down`.
  // Returns the number of packets lost at once.
  std::uint64_t die() {
    const std::uint64_t count = in_flight();
    while (!in_flight_.empty()) lose(in_flight_.pop().packet);
    is_dead_ = true;
    reports_down_ = true;
    return count;
  }
  [[nodiscard]] std::uint64_t in_flight() const { return in_flight_.size(); }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }  // sent and received

  [[nodiscard]] std::string_view name() const override { return "mortal"; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return inner_.caps(); }
  [[nodiscard]] const proto::NicAddress& address() const override { return inner_.address(); }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override {
    return inner_.can_address(remote);
  }
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override {
    const Status status = inner_.open_remote(remote, handle);
    if (status == Status::ok)
      peer_of_[static_cast<std::uint32_t>(handle)] = peers_.at(remote.bytes);
    return status;
  }
  void close_remote(proto::RemoteHandle handle) override { inner_.close_remote(handle); }
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override {
    const std::size_t room =
        std::min(in_flight_.capacity() - in_flight_.size(), lost_.capacity() - lost_.size());
    packets = packets.first(std::min<std::size_t>(packets.size(), room));
    for (const proto::TxPacket& packet : packets) {
      if (is_dead_) {
        lose(packet);
      } else {
        in_flight_.put({packet, now_ + kRoundTrip});
      }
    }
    packets_ += packets.size();
    return packets.size();
  }
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override {
    std::size_t count = 0;
    while (count < cookies.size() && !lost_.empty()) cookies[count++] = lost_.pop();
    return count + inner_.reap(cookies.subspan(count));
  }
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override {
    const std::size_t count = is_dead_ ? 0 : inner_.rx_burst(queue, packets);
    packets_ += count;
    return count;
  }
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override {
    if (!reports_down_ || events.empty()) return 0;
    reports_down_ = false;
    events[0] = {proto::NicEvent::Kind::down};
    return 1;
  }
  [[nodiscard]] std::uint64_t overruns() const override { return inner_.overruns(); }
  [[nodiscard]] std::size_t descriptors(std::span<int>) const override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}

 private:
  struct InFlight {
    proto::TxPacket packet;
    Time due{};
  };

  static engine::MemoryNicConfig nic_config(std::uint32_t slots, std::uint32_t remotes) {
    engine::MemoryNicConfig config;
    config.control_slots = slots;  // all peers may answer at one moment
    config.send_slots = slots;
    config.max_remotes = remotes;
    return config;
  }

  void lose(const proto::TxPacket& packet) {
    pool_.give({&packet.buffer, 1});
    if (packet.cookie != proto::TxPacket::kNoCookie) lost_.put(packet.cookie);
  }

  proto::PacketPool& pool_;
  const PeersByAddress& peers_;
  engine::MemoryNic inner_;
  std::vector<std::uint32_t> peer_of_;  // by handle
  proto::Ring<InFlight> in_flight_;     // in the order in which they are due
  proto::Ring<std::uint64_t> lost_;     // cookies of packets that are not handed over
  Time now_{};
  bool is_dead_ = false;
  bool reports_down_ = false;
  std::uint64_t packets_ = 0;
};

struct Run {
  double begin_us = 0;   // of the longest begin_turn
  double finish_us = 0;  // of the longest finish_turn
  std::uint64_t turns = 0;
  proto::Duration time{};
  std::uint64_t lost = 0;
  std::uint64_t resent = 0;
  std::string complaint{};

  [[nodiscard]] bool has_course_of(const Run& other) const {
    return turns == other.turns && time == other.time && lost == other.lost &&
           resent == other.resent;
  }
};

Tunables host_limits(std::uint32_t peers) {
  Tunables tunables;
  tunables.max_peers = std::max(peers, 2u);
  tunables.max_operations = std::max<std::uint64_t>(tunables.max_operations, peers);
  tunables.rest_after_ms = kNeverRests;
  return tunables;
}

Tunables peer_limits() {
  Tunables tunables;
  tunables.max_peers = 2;
  tunables.max_operations = 16;
  tunables.max_messages_per_peer = 16;
  tunables.max_in_flight_packets = 64;
  tunables.max_receive_messages = 16;
  tunables.max_bulk_paths = 0;
  tunables.unexpected_bytes = 1 << 16;
  tunables.rest_after_ms = kNeverRests;
  return tunables;
}

engine::MemoryNicConfig peer_nic_config() {
  engine::MemoryNicConfig config;
  config.data_slots = config.control_slots = config.send_slots = 16;
  config.max_remotes = 8;
  return config;
}

proto::EndpointConfig endpoint_config(const Tunables& tunables, std::uint64_t id) {
  proto::EndpointConfig config;
  config.tunables = tunables;
  config.endpoint_id = config.seed = id;
  config.epoch = 1;
  return config;
}

// The host, its peers, and their time.
class World {
 public:
  explicit World(std::uint32_t peers);

  [[nodiscard]] Run run(bool dies);

 private:
  static constexpr std::uint32_t kSpareSlots = 4096;

  struct Node {
    std::unique_ptr<engine::MemoryNic> nic;
    std::unique_ptr<proto::Endpoint> endpoint;
    PeerId id{};  // by which the host knows it
  };

  [[nodiscard]] std::uint32_t peers() const { return static_cast<std::uint32_t>(peers_.size()); }
  void make_peer(std::uint32_t number);
  void send(std::uint32_t peer, std::uint32_t bytes);
  void send_to_all_held_back();
  void collect(proto::Endpoint& endpoint, std::uint64_t& completed);
  // A turn of the host, after which peers that are due and not held back have theirs. Time passes
  // until something is due next, but not beyond `limit`.
  void step(Time limit);
  [[nodiscard]] Time turn_peers();
  // Steps until `is_done`. Returns false if that takes too long or an operation failed.
  template <class Condition>
  [[nodiscard]] bool go_on(const Condition& is_done);
  // The NIC with more packets in flight.
  [[nodiscard]] MortalNic& busier_nic() {
    return nics_[0]->in_flight() < nics_[1]->in_flight() ? *nics_[1] : *nics_[0];
  }
  void let_pass(proto::Duration time);
  [[nodiscard]] bool has_completed_all() const {
    return sent_ == host_completed_ && sent_ == peers_completed_;
  }
  [[nodiscard]] std::string complaint(std::string_view step) const;

  std::shared_ptr<engine::MemoryFabric> fabric_ = std::make_shared<engine::MemoryFabric>();
  PeersByAddress by_address_;
  engine::StackPacketPool host_pool_{Tunables{}.packet_buffers};
  engine::StackPacketPool peers_pool_;
  std::vector<std::byte> payload_;
  std::vector<std::byte> sink_;
  std::array<std::unique_ptr<MortalNic>, 2> nics_;
  std::vector<Node> peers_;
  std::unique_ptr<proto::Endpoint> host_;
  std::vector<Time> due_;  // of each peer's next turn
  Time now_{1'000'000'000};
  bool held_back_ = false;
  std::uint64_t packets_ = 0;  // of the host's NICs, at the last step
  std::uint64_t sent_ = 0;
  std::uint64_t host_completed_ = 0;
  std::uint64_t peers_completed_ = 0;
  std::uint64_t failed_ = 0;
  Run run_;
};

World::World(std::uint32_t peers)
    : peers_pool_(std::size_t{8} * peers + 1024),
      payload_(kBytes),
      sink_(kBytes),
      peers_(peers),
      due_(peers, now_) {
  for (auto& nic : nics_) {
    nic = std::make_unique<MortalNic>(fabric_, 2 * peers + kSpareSlots, peers + 8, host_pool_,
                                      by_address_);
  }
  std::array<proto::Nic*, 2> nics{nics_[0].get(), nics_[1].get()};
  host_ =
      std::make_unique<proto::Endpoint>(endpoint_config(host_limits(peers), 1), nics, host_pool_);
  for (std::uint32_t i = 0; i < peers; ++i) make_peer(i);
}

void World::make_peer(std::uint32_t number) {
  Node& peer = peers_[number];
  peer.nic = std::make_unique<engine::MemoryNic>(fabric_, peer_nic_config(), peers_pool_);
  by_address_.emplace(peer.nic->address().bytes, number);
  std::array<proto::Nic*, 1> nics{peer.nic.get()};
  peer.endpoint = std::make_unique<proto::Endpoint>(endpoint_config(peer_limits(), number + 2),
                                                    nics, peers_pool_);
  for (std::uint32_t i = 0; i < kReceives; ++i) {
    proto::ReceiveRequest request;
    request.operation = OperationId{i};
    request.data = sink_.data();
    request.bytes = sink_.size();
    const Status status = peer.endpoint->receive(now_, request);
    HAWSER_ASSERT(status == Status::ok);
  }
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> address;
  const std::size_t bytes = peer.endpoint->write_address(address);
  const Status status = host_->connect(now_, std::span(address).first(bytes), peer.id);
  HAWSER_ASSERT(status == Status::ok);
}

void World::send(std::uint32_t peer, std::uint32_t bytes) {
  proto::SendRequest request;
  request.operation = OperationId{peer};
  request.peer = peers_[peer].id;
  request.data = payload_.data();
  request.bytes = bytes;
  const Status status = host_->send(now_, request);
  HAWSER_ASSERT(status == Status::ok);
  ++sent_;
}

void World::collect(proto::Endpoint& endpoint, std::uint64_t& completed) {
  std::array<Completion, 64> completions;
  while (const std::size_t count = endpoint.poll_completions(completions)) {
    completed += count;
    for (const Completion& one : std::span(completions).first(count)) {
      if (one.status != Status::ok || one.bytes != one.message_bytes) ++failed_;
    }
  }
}

// Returns when the next peer is due.
Time World::turn_peers() {
  Time next = proto::kNever;
  for (std::uint32_t i = 0; i < peers(); ++i) {
    if (due_[i] <= now_) {
      proto::Endpoint& endpoint = *peers_[i].endpoint;
      const proto::TurnResult result = endpoint.turn(now_);
      collect(endpoint, peers_completed_);
      due_[i] = result.progressed ? now_ + kTurn : proto::later(result.wake_at, now_ + kTurn);
    }
    next = proto::earlier(next, due_[i]);
  }
  return next;
}

void World::step(Time limit) {
  for (auto& nic : nics_) nic->set_time(now_);
  const double begin = processor_us();
  host_->begin_turn(now_);
  const double middle = processor_us();
  const proto::TurnResult result = host_->finish_turn(now_);
  const double end = processor_us();
  run_.begin_us = std::max(run_.begin_us, middle - begin);
  run_.finish_us = std::max(run_.finish_us, end - middle);
  ++run_.turns;
  collect(*host_, host_completed_);

  Time next = result.progressed ? now_ : result.wake_at;
  if (!held_back_) {
    for (auto& nic : nics_) {
      (void)nic->carry(due_);
      next = proto::earlier(next, nic->next_due());
    }
    // A peer that has a turn may have sent something to the host.
    const bool any = std::ranges::any_of(due_, [this](Time due) { return due <= now_; });
    next = proto::earlier(next, turn_peers());
    if (any) next = now_;
  }
  const std::uint64_t before = packets_;
  packets_ = nics_[0]->packets() + nics_[1]->packets();
  next = proto::earlier(next, limit);
  now_ = proto::later(next, now_ + kTurn + kPacket * static_cast<std::int64_t>(packets_ - before));
}

template <class Condition>
bool World::go_on(const Condition& is_done) {
  const Time until = now_ + kMost;
  while (!is_done()) {
    if (now_ >= until || failed_ > 0) return false;
    step(until);
  }
  return true;
}

void World::let_pass(proto::Duration time) {
  const Time until = now_ + time;
  while (now_ < until) step(until);
}

void World::send_to_all_held_back() {
  held_back_ = true;
  for (std::uint32_t i = 0; i < peers(); ++i) {
    send(i, kBytes);
    if (i % kPostedBeforeTurn == kPostedBeforeTurn - 1) step(now_);
  }
}

std::string World::complaint(std::string_view step) const {
  return fmt::format("{}: {} sends and {} receives of {} have completed, {} of them badly", step,
                     host_completed_, peers_completed_, sent_, failed_);
}

Run World::run(bool dies) {
  if (!go_on([&] { return host_->stats().sessions_established == peers(); })) {
    return {.complaint = complaint("connecting")};
  }
  for (std::uint32_t i = 0; i < peers(); ++i) send(i, kFirstBytes);
  if (!go_on([&] { return has_completed_all(); })) return {.complaint = complaint("waking")};
  let_pass(kSettling);
  send_to_all_held_back();
  if (!go_on([&] { return host_->stats().packets_in_flight >= peers(); })) {
    return {.complaint = complaint("sending")};
  }

  const std::uint64_t resent = host_->stats().fragments_retransmitted;
  const Time begin = now_;
  run_ = {};
  if (dies) run_.lost = busier_nic().die();
  held_back_ = false;
  const bool done = go_on([&] { return has_completed_all(); });
  run_.time = now_ - begin;
  run_.resent = host_->stats().fragments_retransmitted - resent;
  const EndpointStats stats = host_->stats();
  if (!done || failed_ > 0 || stats.peers_awake != peers()) {
    run_.complaint = complaint("completing");
  } else if ((run_.lost > 0) != dies || run_.resent != run_.lost) {
    run_.complaint = fmt::format("{} packets lost, {} sent again", run_.lost, run_.resent);
  }
  return run_;
}

LongestHalf longest(std::vector<double> us) {
  std::ranges::sort(us);
  return {us[us.size() / 2], us.back()};
}

}  // namespace

NicDeath measure_nic_death(std::uint32_t peers, bool dies, std::uint32_t runs) {
  HAWSER_ASSERT(runs > 0);
  NicDeath death;
  std::vector<double> begin_us;
  std::vector<double> finish_us;
  Run first;
  for (std::uint32_t i = 0; i < runs; ++i) {
    const Run run = World(peers).run(dies);
    if (i == 0) first = run;
    death.complaint = run.complaint;
    if (death.complaint.empty() && !run.has_course_of(first)) {
      death.complaint = fmt::format("run {} differs from the first one", i);
    }
    if (!death.complaint.empty()) return death;
    begin_us.push_back(run.begin_us);
    finish_us.push_back(run.finish_us);
  }
  death.begin_turn = longest(begin_us);
  death.finish_turn = longest(finish_us);
  death.turns = first.turns;
  death.virtual_us = static_cast<double>(first.time.ns) * 1e-3;
  death.lost = first.lost;
  death.resent = first.resent;
  return death;
}

}  // namespace hawser::bench
