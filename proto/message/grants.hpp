// SPDX-License-Identifier: Apache-2.0
// The bytes that an endpoint has granted, and the messages that wait for a grant. grants.cpp has
// the rules.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/base/bitmap.hpp"
#include "proto/base/list.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/message/grant_budget.hpp"
#include "proto/message/incoming_message.hpp"
#include "proto/path/response_time.hpp"

namespace hawser::proto {

// A peer with incoming messages that it may not send whole before a grant.
struct Grantee {
  static constexpr std::uint64_t kNoPace = ~std::uint64_t{0};

  std::uint32_t peer = kNoIndex;
  std::uint32_t messages = 0;    // of that kind
  std::uint64_t awaited = 0;     // bytes of these messages that may come and have not
  std::uint64_t counted = 0;     // of awaited, in the budget: no more than its pace
  std::uint64_t pace = kNoPace;  // kNoPace: so far it has brought everything in time
  Time due = kNever;             // the end of the interval
  std::uint64_t backlog = 0;     // what was awaited when the interval began
  std::uint64_t came = 0;        // bytes that came in the interval
  // Its messages that are not granted to their limit, by rank and then by age.
  IndexList<IncomingMessage, &IncomingMessage::grant_link> wanting;
  GrantRank rank{};  // of the queue that it is on
  ListLink link;

  [[nodiscard]] bool is_quiet() const { return pace == 0 && awaited > 0; }
  [[nodiscard]] bool may_have_more() const { return awaited == 0 || awaited < pace; }
};

struct Grants {
  Grants(std::uint32_t peers, std::uint64_t fragments)
      : window(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
            fragments, 1, FragmentBitmap::kSpan - BlockPool::kBlockBits))),
        grantees(peers) {}

  const std::uint32_t window;  // most fragments of a message that may come beyond the first missing
  GrantBudget budget;
  Slab<Grantee> grantees;
  // Grantees that want a grant and may have it, by the rank of their first message; they take
  // turns.
  std::array<IndexList<Grantee, &Grantee::link>, kGrantRanks> waiting;
  // All messages that want a grant, oldest first; those of quiet grantees at the end.
  IndexList<IncomingMessage, &IncomingMessage::age_link> by_age;
  ResponseTime response{};  // of all peers that were asked or granted something
  std::uint64_t overruns = 0;
};

}  // namespace hawser::proto
