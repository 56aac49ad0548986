// SPDX-License-Identifier: Apache-2.0
#include "tool/run/gathering.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "hawser/address.hpp"
#include "tool/run/clock.hpp"
#include "tool/run/collectives.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kTurnNs = 1'000'000;
constexpr double kLongestMeetingS = 120;
// A process that is started again must open its NICs and take its memory.
constexpr double kLongestReunionS = 60;
// How much longer than peer_timeout the end of the last operation may take.
constexpr std::uint64_t kSettleNs = 10'000'000'000;
// The most stray messages that are received in one turn.
constexpr int kStraysPerTurn = 64;

std::uint32_t limited_ms(const RunOptions& options, double longest_s) {
  return static_cast<std::uint32_t>(1000 * std::min(options.timeout_s, longest_s));
}

[[noreturn]] void fail(ExitCode code, std::string text) {
  RankFailure failure;
  failure.code = code;
  failure.text = std::move(text);
  throw ReplayError(std::move(failure));
}

}  // namespace

std::vector<std::byte> encode(const Arrival& arrival) {
  const std::array<std::uint64_t, 2> numbers{arrival.point, arrival.generation};
  std::vector<std::byte> blob(sizeof numbers + arrival.address.size());
  std::memcpy(blob.data(), numbers.data(), sizeof numbers);
  std::copy(arrival.address.begin(), arrival.address.end(), blob.begin() + sizeof numbers);
  return blob;
}

Arrival decode(std::span<const std::byte> blob) {
  std::array<std::uint64_t, 2> numbers{};
  if (blob.size() < sizeof numbers) throw Error("A rank sent something other than its address");
  std::memcpy(numbers.data(), blob.data(), sizeof numbers);
  const auto address = blob.subspan(sizeof numbers);
  return {Address(address.begin(), address.end()), numbers[0], numbers[1]};
}

Gathering::Gathering(const RunOptions& options, std::uint32_t rank, const Exchange& exchange,
                     coll::CompletionRouter& router, const volatile std::sig_atomic_t& interrupted)
    : options_(options),
      rank_(rank),
      exchange_(exchange),
      router_(router),
      interrupted_(interrupted) {}

void Gathering::turn() {
  router_.wait(kTurnNs);
  tick_();
  if (interrupted_ != 0) fail(ExitCode::interrupted, "interrupted");
}

void Gathering::meet() {
  if (!exchange_.last_round.empty()) {
    // Connects the peers of the process before this one, so that they learn that it is gone.
    std::vector<Arrival> known;
    for (const auto& blob : exchange_.last_round) known.push_back(decode(blob));
    connect(known);
  }
  exchange(
      Arrival::kNowhere, 0,
      limited_ms(options_, exchange_.last_round.empty() ? kLongestMeetingS : kLongestReunionS));
  if (generation_ > 0) settle();
}

void Gathering::meet_again(std::uint64_t point) {
  ++generation_;
  settle();
  exchange(point, generation_, limited_ms(options_, kLongestReunionS));
  settle();  // the last packets have been sent by now
}

// Waits until no operation is pending and, for a moment, no packet buffer is lent. From then on
// nothing of the past reads or writes memory of this process.
void Gathering::settle() {
  const std::uint64_t limit_ns = options_.tunables.peer_timeout_ms * 1'000'000 + kSettleNs;
  const std::uint64_t deadline = now_ns() + limit_ns;
  for (;;) {
    receive_strays();
    const EndpointStats stats = router_.endpoint().stats();
    if (stats.operations_pending == 0 && stats.buffers_in_use == 0) return;
    if (now_ns() > deadline) {
      fail(ExitCode::wrong,
           fmt::format("{} operations and {} packets of failed communication did not end within "
                       "{:.0f} s",
                       stats.operations_pending, stats.buffers_in_use, seconds(limit_ns)));
    }
    turn();
  }
}

// Receives messages of generations that are over. Their senders wait until they are received.
void Gathering::receive_strays() {
  Endpoint& endpoint = router_.endpoint();
  int left = kStraysPerTurn;
  for (std::uint64_t generation = 0; generation < generation_; ++generation) {
    for (const std::uint16_t channel : Collectives::channels(generation)) {
      const ChannelOwner owner = owner_of(channel);
      const ProbeRequest any{.channel = channel, .ignore = kAnyTag, .owner = owner};
      Envelope stray;
      while (left > 0 && endpoint.probe(any, stray) == Status::ok) {
        --left;
        OperationId operation = kNoOperation;
        const Status status = endpoint.receive(
            {.peer = stray.peer, .channel = channel, .tag = stray.tag, .owner = owner}, operation);
        if (status != Status::ok) return;  // next turn
      }
    }
  }
  // Completions of stray messages, and of transfers that failed, are of no more use.
  std::array<Completion, 16> completions;
  while (router_.take(completions) == completions.size()) {
  }
}

void Gathering::exchange(std::uint64_t point, std::uint64_t generation, std::uint32_t timeout_ms) {
  Arrival own;
  own.address = router_.endpoint().address();
  own.point = point;
  own.generation = generation;
  exchange_.begin(encode(own), timeout_ms);
  std::optional<Exchange::Blobs> blobs;
  while (!(blobs = exchange_.poll())) {
    receive_strays();
    turn();
  }
  std::vector<Arrival> arrivals;
  for (const auto& blob : *blobs) arrivals.push_back(decode(blob));
  // The first step that any rank must repeat; the beginning if no rank had reached one.
  point_ = Arrival::kNowhere;
  for (const Arrival& arrival : arrivals) {
    point_ = std::min(point_, arrival.point);
    generation_ = std::max(generation_, arrival.generation);
  }
  if (point_ == Arrival::kNowhere) point_ = 0;
  connect(arrivals);
}

void Gathering::connect(const std::vector<Arrival>& arrivals) {
  peers_.assign(options_.ranks, kAnyPeer);
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (rank == rank_) continue;
    const Status status = router_.endpoint().connect(arrivals.at(rank).address, peers_[rank]);
    if (status == Status::no_route) {
      throw Error(
          fmt::format("cannot connect to rank {}: none of the NICs here can address one there. "
                      "Here, {}; there, "
                      "{}. Compare what `hawser info` shows on both hosts, and choose with --nic",
                      rank, describe_address(router_.endpoint().address()),
                      describe_address(arrivals.at(rank).address)));
    }
    if (status != Status::ok) {
      throw Error(fmt::format("cannot connect to rank {}: {}", rank, to_string(status)));
    }
  }
}

}  // namespace hawser::tool
