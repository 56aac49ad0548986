// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/peer_bytes.hpp"

#include <malloc.h>

#include <algorithm>

#include "bench/peers/measured_host.hpp"
#include "bench/recorded_memory.hpp"
#include "proto/base/assert.hpp"

namespace hawser::bench {

namespace {

constexpr std::uint32_t kBatch = 64;               // peers that connect before they rest
constexpr std::uint64_t kNeverRests = 86'400'000;  // ms
// The first half of the peers fills what has a fixed size and is used in turn, such as rings of
// events and, after so many messages, completions. The second half then shows what peers take.
constexpr std::uint32_t kPart = 2;
constexpr std::uint64_t kOnceAround = 65'536;

std::uint64_t empty_endpoint(MeasuredConfig config, std::uint32_t max_peers) {
  config.max_peers = max_peers;
  const MeasuredHost host(config, true);
  return resident();
}

double share(std::uint64_t after, std::uint64_t before, std::uint32_t peers) {
  return (static_cast<double>(after) - static_cast<double>(before)) / static_cast<double>(peers);
}

void measure_rest(std::uint32_t peers, PeerBytes& bytes) {
  MeasuredConfig config;
  config.peers = peers;
  const std::uint32_t part = peers / kPart;
  const double sized =
      share(empty_endpoint(config, peers), empty_endpoint(config, part), peers - part);
  MeasuredHost host(config, true);
  std::uint64_t first = 0;
  for (std::uint32_t known = 0; known < peers;) {
    const std::uint32_t more = std::min({kBatch, part, peers - known});
    host.connect(more);
    if (known == 0) (void)host.run(kOnceAround, 8);
    known += more;
    host.let_pass(proto::milliseconds(3 * config.rest_after_ms));
    HAWSER_ASSERT(host.stats().peers_at_rest == known, "a peer did not go to rest");
    if (first == 0 && known >= part) first = resident();
  }
  bytes.endpoint = resident();
  bytes.at_rest = sized + share(bytes.endpoint, first, peers - part);
}

void measure_awake(std::uint32_t peers, PeerBytes& bytes) {
  MeasuredConfig config;
  config.peers = peers;
  config.rest_after_ms = kNeverRests;
  MeasuredHost host(config, true);
  const std::uint32_t part = peers / kPart;
  host.connect(part);
  (void)host.run(kOnceAround, 8);
  const std::uint64_t first = resident();
  host.connect(peers - part);
  const std::uint64_t all = resident();
  bytes.awake = share(all, first, peers - part);
  host.have_under_way(8);
  const EndpointStats stats = host.stats();
  HAWSER_ASSERT(stats.messages_unmatched == peers && stats.operations_pending == peers);
  bytes.under_way = bytes.awake + share(resident(), all, peers);
}

}  // namespace

PeerBytes measure_peer_bytes(std::uint32_t peers) {
  HAWSER_ASSERT(peers >= 64);
  (void)malloc_trim(0);  // freed memory must not count as used
  PeerBytes bytes;
  measure_rest(peers, bytes);
  (void)malloc_trim(0);
  measure_awake(peers, bytes);
  return bytes;
}

}  // namespace hawser::bench
