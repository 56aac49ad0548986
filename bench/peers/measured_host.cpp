// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/measured_host.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <ctime>

#include "bench/recorded_memory.hpp"
#include "proto/base/assert.hpp"
#include "proto/base/prefetch.hpp"

namespace hawser::bench {

namespace {

constexpr proto::Duration kTurn{200};
constexpr proto::Duration kPacket{40};
constexpr std::uint32_t kReceives = 1024;  // posted, if peers send
constexpr std::uint32_t kLongest = 65536;
constexpr std::size_t kSwept = 8 << 20;  // several times the size of a core's own caches

double processor_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

AnsweringConfig nic_config(const MeasuredConfig& config) {
  AnsweringConfig nic;
  nic.peers = config.peers;
  nic.sends_back = config.sends_back;
  return nic;
}

proto::AllTunables limits(const MeasuredConfig& config) {
  proto::AllTunables tunables;
  tunables.max_peers =
      std::max<std::uint64_t>(config.max_peers == 0 ? config.peers : config.max_peers, 2);
  tunables.max_operations =
      std::max<std::uint64_t>(tunables.max_operations, 2 * std::uint64_t{config.peers});
  tunables.rest_after_ms = config.rest_after_ms;
  tunables.pack_messages = 0;  // each message costs as much as one to a peer of its own
  return tunables;
}

}  // namespace

MeasuredHost::MeasuredHost(const MeasuredConfig& config, bool record)
    : config_(config), pool_(4096), nic_(nic_config(config), pool_), payload_(kLongest) {
  proto::EndpointConfig made;
  made.tunables = limits(config);
  made.endpoint_id = 1;
  made.epoch = 1;
  made.seed = 1;
  free_.reserve(made.tunables.max_operations);
  for (auto i = static_cast<std::uint32_t>(made.tunables.max_operations); i-- > 0;) {
    free_.push_back(i);
  }
  if (record) start_recording();
  endpoint_ = std::make_unique<proto::Endpoint>(made, nics_, pool_);
  stop_recording();
  for (std::uint32_t i = 0; config.sends_back && i < kReceives; ++i) {
    post_receive(free_.back());
    free_.pop_back();
  }
}

void MeasuredHost::post_receive(std::uint32_t operation) {
  proto::ReceiveRequest request;
  request.operation = OperationId{operation};
  request.data = sink_.data();
  request.bytes = sink_.size();
  HAWSER_ASSERT(endpoint_->receive(now_, request) == Status::ok);
}

void MeasuredHost::send(std::uint32_t peer, std::uint32_t bytes) {
  HAWSER_ASSERT(!free_.empty() && bytes <= payload_.size());
  proto::SendRequest request;
  request.operation = OperationId{free_.back()};
  request.peer = peers_[peer];
  request.data = payload_.data();
  request.bytes = bytes;
  HAWSER_ASSERT(endpoint_->send(now_, request) == Status::ok);
  free_.pop_back();
  ++sent_;
}

void MeasuredHost::collect() {
  std::array<Completion, 64> completions;
  while (const std::size_t count = endpoint_->poll_completions(completions)) {
    for (const Completion& one : std::span(completions).first(count)) {
      if (one.status != Status::ok) ++failed_;
      const auto operation = static_cast<std::uint32_t>(one.operation);
      if (one.kind == OperationKind::receive) {
        ++received_;
        post_receive(operation);
      } else {
        ++completed_;
        free_.push_back(operation);
      }
    }
  }
}

void MeasuredHost::turn() {
  nic_.set_time(now_);
  result_ = endpoint_->turn(now_);
  collect();
}

// The peers' work and the passing of time follow a turn; neither counts as the host's cost.
void MeasuredHost::pass() {
  nic_.answer(now_);
  now_ = now_ + kTurn;
}

void MeasuredHost::empty_caches() {
  sweep_.resize(kSwept / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < sweep_.size(); i += proto::kCacheLine / sizeof(std::uint64_t)) {
    ++sweep_[i];
  }
}

void MeasuredHost::connect(std::uint32_t count) {
  const auto first = static_cast<std::uint32_t>(peers_.size());
  for (std::uint32_t i = first; i < first + count; ++i) {
    PeerId peer{};
    HAWSER_ASSERT(endpoint_->connect(now_, AnsweringNic::address_of(i), peer) == Status::ok);
    peers_.push_back(peer);
  }
  const std::uint64_t up = stats().sessions_established + count;
  while (stats().sessions_established < up) {
    turn();
    pass();
  }
  for (std::uint32_t i = first; i < first + count; ++i) {
    send(i, 8);
    while (completed_ < sent_) {
      turn();
      pass();
    }
  }
}

ProcessorCost MeasuredHost::run(std::uint64_t messages, std::uint32_t bytes) {
  ProcessorCost cost;
  cost.messages = messages;
  const std::uint64_t packets_before = nic_.packets();
  const std::uint64_t end = sent_ + messages;
  const std::uint64_t back = config_.sends_back ? received_ + messages : 0;
  while (completed_ < end || received_ < back) {
    const std::uint64_t packets = nic_.packets();
    if (config_.is_cold) empty_caches();
    const double begin = processor_ns();
    while (sent_ < end && sent_ - completed_ < config_.under_way) {
      send(static_cast<std::uint32_t>(random_.below(peers_.size())), bytes);
    }
    turn();
    cost.ns += processor_ns() - begin;
    ++cost.turns;
    pass();
    now_ = now_ + kPacket * static_cast<std::int64_t>(nic_.packets() - packets);
  }
  cost.packets = nic_.packets() - packets_before;
  return cost;
}

void MeasuredHost::let_pass(proto::Duration time) {
  const proto::Time until = now_ + time;
  while (now_ < until) {
    turn();
    nic_.answer(now_);
    now_ = result_.progressed ? now_ + kTurn
                              : std::clamp(result_.wake_at, now_ + kTurn,
                                           std::min(until, now_ + proto::milliseconds(10)));
  }
}

void MeasuredHost::have_under_way(std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    nic_.send_from(i);
    if (i % 64 == 63 || i + 1 == peers_.size()) let_pass(proto::microseconds(20));
  }
  nic_.hold_back(true);
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    send(i, bytes);
    if (i % 64 == 63 || i + 1 == peers_.size()) {
      turn();
      now_ = now_ + kTurn;
    }
  }
}

std::string MeasuredHost::complaint() const {
  const EndpointStats now = stats();
  if (failed_ > 0) return fmt::format("{} operations failed", failed_);
  if (now.fragments_retransmitted > 0 || now.packets_lost > 0) {
    return fmt::format("{} fragments sent again where nothing is lost",
                       now.fragments_retransmitted);
  }
  if (nic_.messages_taken() != sent_) {
    return fmt::format("{} messages came of {} sent", nic_.messages_taken(), sent_);
  }
  return {};
}

}  // namespace hawser::bench
