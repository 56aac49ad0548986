// SPDX-License-Identifier: Apache-2.0
// A message that a peer sends to this endpoint, from its first fragment or envelope on. Plain data:
// the rules live in arrivals.cpp, receives.cpp, expect.cpp and grants.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hawser/types.hpp"
#include "proto/base/bitmap.hpp"
#include "proto/base/list.hpp"
#include "proto/base/pieces.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/base/timer.hpp"
#include "proto/options.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::proto {

// A message that lacks no more than this is at its tail: the receiver waits for the rest (TAIL),
// and the rest goes first. Large fragments have a lower limit, as it is their bytes that take time.
[[nodiscard]] inline bool is_tail(std::uint32_t fragments, std::uint32_t fragment_bytes) {
  constexpr std::uint32_t kMostFragments = 32;
  constexpr std::uint64_t kMostBytes = 131'072;
  if (fragments <= 1) return true;
  return fragments <= kMostFragments && std::uint64_t{fragments} * fragment_bytes <= kMostBytes;
}

// The order in which messages get grants.
enum class GrantRank : std::uint8_t {
  ordinary,
  tail,    // little of it is left to grant
  hinted,  // its hint has a priority
  gate,    // its group waits for it
};
inline constexpr std::size_t kGrantRanks = 4;

// The part of a message that the receiver's grants pace.
struct Granting {
  bool paced = false;  // matched, and not all of it comes unasked
  GrantRank rank{};    // while it wants a grant
};

// A message, or what is placed without a receive: a long write to this end's memory, or a long
// reply to a fetch of its own.
enum class OneSided : std::uint8_t { none, write, reply };

// A receiver's timer for the rest of a message, and the question that it asked last (layer 2).
struct Expectation {
  Timer timer;                   // armed while fragments that may come are missing
  Time asked_at{};               // when the last grant or request left; 0: answered
  std::uint32_t asked_from = 0;  // a fragment in [asked_from, asked_to) is its answer
  std::uint32_t asked_to = 0;
  // The lowest of the last request; one that comes twice was asked for too early.
  std::uint32_t requested_from = kNoIndex;
  std::uint32_t turn = 0;  // the turn that armed the timer, if nothing was in vain before
};

// Where a message's bytes go.
struct MatchedPlace {
  union {
    std::byte* buffer = nullptr;
    const ScatterList* pieces;  // if the message is `scattered`
  };
  std::uint64_t bytes = 0;
};

// The parts of a message that the next control packet to its sender has.
struct MessageDue {
  bool grant = false;
  bool request = false;
};

struct IncomingMessage {
  std::uint32_t peer = kNoIndex;
  std::uint32_t first_chunk = kNoIndex;  // stored payload, while unmatched
  std::uint64_t number = 0;
  std::uint64_t tag = 0;
  std::uint64_t immediate = 0;
  std::uint64_t bytes = 0;
  std::uint16_t channel = 0;
  bool delivered_level = false;  // the sender waits for status delivered
  std::uint8_t size_class = 0;
  Hint hint{};

  std::uint32_t fragments = 1;
  std::uint32_t moved = 0;  // coarse: when it last made progress
  FragmentBitmap arrived;
  std::uint32_t may_come = 0;  // fragments below it may be sent: unscheduled, then granted
  std::uint32_t granted = 0;   // up_to of the last grant, 0 before
  std::uint64_t age = 0;      // among the messages without a receive, if it is claimed or held over
  std::uint64_t awaited = 0;  // bytes that may come and have not, if the message is paced

  bool half = true;         // fragments of it are missing
  bool in_reserve = false;  // uses the descriptor that is reserved for its peer
  bool processed = false;   // its number's turn for matching has come
  bool claimed = false;     // the caller has its name; it is not in the matching
  bool kept = false;        // its sender was told that it can't be cancelled
  bool outlives = false;    // its session has ended
  bool matched = false;
  bool no_room = false;              // payload was dropped; the sender waits for a grant
  std::uint16_t fragment_bytes = 0;  // of its size class
  bool all_sent = false;
  MessageDue due;  // the outbox's
  OneSided one_sided = OneSided::none;
  std::uint32_t long_write = kNoIndex;  // its LongWrite, if it is one-sided
  bool scattered = false;               // into the pieces of the receive's list
  std::uint8_t expect_backoff = 0;
  Granting granting;

  // The matched receive.
  OperationId operation = kNoOperation;
  MatchedPlace place{};
  ReceiveOptions options{};

  Expectation expect;
  ListLink due_link;    // on the peer's list of messages with a grant or request due
  ListLink grant_link;  // on the list of its peer's messages that want a grant
  ListLink age_link;    // on the list of all that do
};

}  // namespace hawser::proto
