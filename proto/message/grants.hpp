// SPDX-License-Identifier: Apache-2.0
// What an endpoint has granted and who waits for a grant. The rules work on it in grants.cpp.
#pragma once

#include <array>
#include <cstdint>

#include "proto/base/list.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/message/grant_budget.hpp"
#include "proto/message/incoming.hpp"
#include "proto/path/response_time.hpp"

namespace hawser::proto {

// A peer of which messages are being received that it may not send whole unasked.
struct Grantee {
  static constexpr std::uint64_t kNoPace = ~std::uint64_t{0};

  std::uint32_t peer = kNoIndex;
  std::uint32_t messages = 0;    // of that kind
  std::uint64_t awaited = 0;     // bytes of these that may come and have not
  std::uint64_t counted = 0;     // of them, in the budget: no more than its pace
  std::uint64_t pace = kNoPace;  // kNoPace: it has brought all in time so far
  Time due = kNever;             // the end of an interval, in which of
  std::uint64_t backlog = 0;     // what was awaited when it began
  std::uint64_t came = 0;        // so many bytes have come
  // Its messages that are not granted to their limit, by rank and then by age.
  IndexList<IncomingMessage, &IncomingMessage::grant_link> wanting;
  GrantRank rank{};  // of the queue on which it is
  ListLink link;

  [[nodiscard]] bool is_quiet() const { return pace == 0 && awaited > 0; }
  [[nodiscard]] bool may_have_more() const { return awaited == 0 || awaited < pace; }
};

struct Grants {
  explicit Grants(std::uint32_t peers) : grantees(peers) {}

  GrantBudget budget;
  Slab<Grantee> grantees;
  // Those that want a grant and may have it, by the rank of their first message; in turn.
  std::array<IndexList<Grantee, &Grantee::link>, kGrantRanks> waiting;
  // All messages that want a grant, the oldest first; those of who went quiet at the end.
  IndexList<IncomingMessage, &IncomingMessage::age_link> by_age;
  ResponseTime response{};  // of all who are asked or granted something
  std::uint64_t overruns = 0;
};

}  // namespace hawser::proto
