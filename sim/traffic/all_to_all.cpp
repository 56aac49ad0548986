// SPDX-License-Identifier: Apache-2.0
// Collectives in which each rank sends to many others: all-to-alls and broadcasts.
#include <algorithm>
#include <bit>

#include "sim/traffic/collectives.hpp"

namespace hawser::fabric {

namespace {

// The ranks to which a rank sends, in order: its neighbours from the next one on, unless an order
// is drawn.
std::vector<std::uint32_t> targets(std::uint32_t rank, std::uint32_t ranks, proto::Random* order) {
  std::vector<std::uint32_t> targets;
  for (std::uint32_t ahead = 1; ahead < ranks; ++ahead) targets.push_back((rank + ahead) % ranks);
  if (order == nullptr) return targets;
  for (std::size_t left = targets.size(); left > 1; --left) {
    std::swap(targets[left - 1], targets[order->below(left)]);
  }
  return targets;
}

}  // namespace

void add_all_to_all(MatrixBuilder& builder, Members members, const Exchange& exchange) {
  const auto ranks = static_cast<std::uint32_t>(members.size());
  const std::uint32_t step = builder.new_step();
  const std::uint32_t group = builder.new_groups(1);
  std::vector<std::uint64_t> awaited(ranks);
  for (std::uint32_t from = 0; from < ranks; ++from) {
    for (std::uint32_t to = 0; to < ranks; ++to) {
      if (from != to && exchange.bytes(from, to) > 0) ++awaited[to];
    }
  }
  std::vector<Moment> done(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    done[rank] = builder.ready(members[rank]);
    if (awaited[rank] == 0) continue;
    done[rank] = builder.moment();
    builder.must_precede(builder.ready(members[rank]), done[rank]);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Moment window = exchange.window > 0 ? builder.window() : kBegin;
    std::uint32_t sent = 0;
    for (const std::uint32_t to : targets(rank, ranks, exchange.order)) {
      const std::uint64_t bytes = exchange.bytes(rank, to);
      if (bytes == 0) continue;
      const bool waits = exchange.window > 0 && sent++ >= exchange.window;
      const auto count = static_cast<std::uint16_t>(std::min<std::uint64_t>(awaited[to], 0xffff));
      builder.send({.from = members[rank],
                    .to = members[to],
                    .bytes = bytes,
                    .after = waits ? window : builder.ready(members[rank]),
                    .when_sent = window,
                    .when_received = done[to],
                    .step = step,
                    .hint = {.group = group,
                             .members = count,
                             .step = exchange.step,
                             .steps = exchange.steps,
                             .collective = Collective::all_to_all}});
    }
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) builder.set_ready(members[rank], done[rank]);
}

void add_broadcast(MatrixBuilder& builder, Members members, std::uint32_t root,
                   std::uint64_t bytes) {
  const auto ranks = static_cast<std::uint32_t>(members.size());
  const std::uint32_t step = builder.new_step();
  const std::uint32_t group = builder.new_groups(1);
  const auto node = [&](std::uint32_t distance) { return members[(root + distance) % ranks]; };
  // The rank at `distance` from the root receives from the one at that distance without its highest
  // bit. It sends to those with a higher bit, first to those that have most to pass on.
  std::vector<Moment> has(ranks, kBegin);
  for (std::uint32_t distance = 0; distance < ranks; ++distance) {
    has[distance] = builder.ready(node(distance));
    if (distance == 0) continue;
    const std::uint32_t parent = distance ^ std::bit_floor(distance);
    const Moment received = builder.moment();
    builder.must_precede(has[distance], received);
    has[distance] = received;
    builder.send({.from = node(parent),
                  .to = node(distance),
                  .bytes = bytes,
                  .after = has[parent],
                  .when_received = received,
                  .step = step,
                  .hint = {.group = group,
                           .members = 1,
                           .step = 0,
                           .steps = 1,
                           .collective = Collective::broadcast}});
  }
  for (std::uint32_t distance = 0; distance < ranks; ++distance) {
    builder.set_ready(node(distance), has[distance]);
  }
}

void add_reduce(MatrixBuilder& builder, Members members, std::uint32_t root, std::uint64_t bytes) {
  const auto ranks = static_cast<std::uint32_t>(members.size());
  const std::uint32_t step = builder.new_step();
  const std::uint32_t group = builder.new_groups(1);
  const auto node = [&](std::uint32_t distance) { return members[(root + distance) % ranks]; };
  const auto parent_of = [](std::uint32_t distance) { return distance ^ std::bit_floor(distance); };
  std::vector<std::uint16_t> children(ranks, 0);
  for (std::uint32_t distance = 1; distance < ranks; ++distance) ++children[parent_of(distance)];
  // When a rank has all that its children send. Children are further from the root, so this loop
  // reaches them first.
  std::vector<Moment> has(ranks, kBegin);
  for (std::uint32_t distance = ranks; distance-- > 0;) {
    if (has[distance] == kBegin) has[distance] = builder.ready(node(distance));
    if (distance == 0) break;
    const std::uint32_t parent = parent_of(distance);
    if (has[parent] == kBegin) {
      has[parent] = builder.moment();
      builder.must_precede(builder.ready(node(parent)), has[parent]);
    }
    builder.send({.from = node(distance),
                  .to = node(parent),
                  .bytes = bytes,
                  .after = has[distance],
                  .when_received = has[parent],
                  .step = step,
                  .hint = {.group = group,
                           .members = children[parent],
                           .step = 0,
                           .steps = 1,
                           .collective = Collective::all_reduce}});
  }
  for (std::uint32_t distance = 0; distance < ranks; ++distance) {
    builder.set_ready(node(distance), has[distance]);
  }
}

}  // namespace hawser::fabric
