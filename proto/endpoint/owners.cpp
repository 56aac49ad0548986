// SPDX-License-Identifier: Apache-2.0
// Makes the owners of all state, each with its size and with what it works with.
#include "proto/endpoint/owners.hpp"

#include <algorithm>
#include <bit>

#include "proto/base/assert.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint64_t kMostEvents = 4096 - 64;  // events that nobody has taken yet
constexpr std::uint32_t kMostReplies = 1024;      // to reads and atomics, under way at a time
constexpr std::uint32_t kJoints = 1024;           // of sends from several pieces, at a time

std::uint32_t u32(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, 0xfffffff0u));
}

}  // namespace

Owners::Owners(const EndpointConfig& config, std::span<Nic* const> given, PacketPool& buffers)
    : turn(config.tunables, config.seed,
           u32(std::min<std::uint64_t>(4 * config.tunables.max_peers, kMostEvents) + 64)),
      endpoint_id(config.endpoint_id),
      epoch(config.epoch),
      job_secret(config.job_secret),
      peers(u32(turn.tunables.max_peers)),
      sender(turn, peers, given, buffers, job_secret.bytes()),
      nics(sender.nics()),
      sessions({.turn = turn,
                .peers = peers,
                .sender = sender,
                .reporter = reporter,
                .senders = senders,
                .touched = touched,
                .outbox = outbox,
                .routes = control_routes,
                .descriptors = descriptors,
                .calls = call_queue,
                .half_open = half_open,
                .verdicts = verdicts,
                .paths = paths,
                .receive_paths = receive_paths,
                .outgoing = outgoing,
                .incoming = incoming,
                .numbers = table_blocks},
               {.endpoint_id = endpoint_id,
                .epoch = epoch,
                .job_secret = job_secret.bytes(),
                .seed = config.seed}),
      outgoing({.turn = turn,
                .peers = peers,
                .sender = sender,
                .reporter = reporter,
                .senders = senders,
                .touched = touched,
                .routes = control_routes,
                .paths = paths,
                .regions = regions},
               {.messages = u32(turn.tunables.max_operations),
                .replies = kMostReplies,
                // Twice, so that packets in flight to silent peers leave the others their limit.
                .retransmits = u32(2 * turn.tunables.max_in_flight_packets),
                .joints = kJoints}),
      paths({.turn = turn,
             .peers = peers,
             .sender = sender,
             .reporter = reporter,
             .senders = senders,
             .touched = touched,
             .verdicts = verdicts,
             .packets = outgoing,
             .user = sessions,
             .endpoint_id = endpoint_id},
            u32(turn.tunables.max_peers *
                std::min<std::uint64_t>(turn.tunables.max_path_slots, 2 * kMaxNics)),
            u32(2 * turn.tunables.max_in_flight_packets / SentBlockPool::kRecords +
                32 * turn.tunables.max_peers)),
      receive_paths(turn, reporter, u32(turn.tunables.max_peers * kMaxPaths)),
      table_blocks(u32(8 * turn.tunables.max_peers + turn.tunables.max_operations / 16 +
                       turn.tunables.max_receive_messages / 16)),
      incoming({.turn = turn,
                .peers = peers,
                .sender = sender,
                .reporter = reporter,
                .touched = touched,
                .outbox = outbox,
                .routes = control_routes,
                .descriptors = descriptors,
                .paths = receive_paths,
                .sends = outgoing,
                .regions = regions,
                .numbers = table_blocks}),
      outbox({.turn = turn,
              .peers = peers,
              .touched = touched,
              .sender = sender,
              .routes = control_routes,
              .receive_paths = receive_paths,
              .incoming = incoming.all(),
              .allowance = allowance,
              .solicitor = descriptors},
             u32(turn.tunables.max_receive_messages + turn.tunables.max_peers)),
      transmitter({.turn = turn,
                   .peers = peers,
                   .sender = sender,
                   .reporter = reporter,
                   .senders = senders,
                   .touched = touched,
                   .outbox = outbox,
                   .paths = paths,
                   .outgoing = outgoing,
                   .sessions = sessions}),
      receiver({.turn = turn,
                .peers = peers,
                .sender = sender,
                .reporter = reporter,
                .touched = touched,
                .outbox = outbox,
                .routes = control_routes,
                .allowance = allowance,
                .paths = paths,
                .receive_paths = receive_paths,
                .outgoing = outgoing,
                .incoming = incoming,
                .sessions = sessions}) {
  static_assert(Endpoint::kMaxNics == kMaxNics);
  HAWSER_ASSERT(config.endpoint_id != 0);
  turn.trace_to(config.trace, config.trace_context);
  const std::uint32_t indices = std::bit_ceil(peers.capacity()) - 1;
  const Screen screen{~indices, sessions.name_mask() & ~indices};
  for (const LocalNic& local : nics) {
    local.nic->screen(screen);
    local.nic->take_views();
  }
}

}  // namespace hawser::proto
