// SPDX-License-Identifier: Apache-2.0
#include "coll/bandwidth_order.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "coll/layout.hpp"

namespace hawser::coll {

void BandwidthOrder::reserve(Rank count) {
  by_rank.reserve(count);
  ranks.reserve(count);
  ascending.reserve(count);
}

void BandwidthOrder::arrange(std::span<const Bandwidth> bandwidths, Rank own) {
  by_rank.assign(bandwidths.begin(), bandwidths.end());
  ranks.resize(bandwidths.size());
  std::iota(ranks.begin(), ranks.end(), Rank{0});
  std::ranges::sort(ranks, {}, [&](Rank rank) { return std::pair(bandwidths[rank], rank); });
  ascending.clear();
  digest = kDigestStart;
  for (Rank place = 0; place < ranks.size(); ++place) {
    const Rank rank = ranks[place];
    if (rank == own) own_place = place;
    ascending.push_back(bandwidths[rank]);
    digest = coll::digest(coll::digest(digest, rank), bandwidths[rank]);
  }
}

// Two ranks have only the ring: each must move all data anyway.
bool are_unlike(std::span<const Bandwidth> by_rank) noexcept {
  return by_rank.size() > 2 &&
         std::ranges::adjacent_find(by_rank, std::not_equal_to()) != by_rank.end();
}

// Each stream needs a window of two entries, and half as many pieces of every block.
DividedPlan divide(const AllReduceArguments& arguments, const BandwidthOrder& order,
                   const CommunicatorOptions& options) noexcept {
  const std::uint64_t line = std::max<std::uint64_t>(1, 64 / size_of(arguments.type));
  const Mix mix(order.ascending, arguments.count, line, options.pipeline);
  const std::uint32_t window = 2 * options.pipeline / mix.streams();
  return {.plan = MixedPlan({.order = order.ranks,
                             .place = order.own_place,
                             .count = arguments.count,
                             .type = arguments.type,
                             .reduction = arguments.reduction,
                             .in = arguments.in,
                             .out = arguments.out,
                             .chunk_bytes = options.chunk_bytes,
                             .depth = window / 2},
                            mix),
          .window = window};
}

}  // namespace hawser::coll
