// SPDX-License-Identifier: Apache-2.0
// The memory that this endpoint's program has exposed to its peers. Every packet that touches it is
// checked here: index, generation, secret, right, range and alignment.
//
// A region is named by index and generation, and only a key has its secret. Withdrawal is final for
// peers at once: no check finds the region any more. It goes on to exist, for its owner alone,
// until the last NIC has read from it.
//
// Invariant: a region that is withdrawn and has no reader does not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hawser/one_sided.hpp"
#include "proto/base/slab.hpp"
#include "proto/region/placement.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

// The caller's operation that a withdrawal is.
struct Withdrawal {
  OperationId operation = kNoOperation;
  std::uint64_t user_data = 0;

  friend bool operator==(const Withdrawal&, const Withdrawal&) = default;
};

struct Region {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t secret = 0;
  std::uint64_t user_data = 0;  // its owner's, for notices
  Placement* placement = nullptr;
  Withdrawal withdrawal{};    // completes with the last reader
  std::uint32_t readers = 0;  // replies that NICs may still read from it
  RegionAccess rights = RegionAccess::none;
  bool withdrawn = false;
  RegionStats left{};  // by sessions that failed
};

// The part of a region that a packet may touch.
struct Reach {
  wire::MessageStatus denial = wire::MessageStatus::delivered;  // else why it may touch nothing
  SlabId region{};
  std::byte* at = nullptr;
  Placement* placement = nullptr;

  [[nodiscard]] bool is_granted() const { return at != nullptr; }
};

// The memory that a packet means, as the packet says.
struct Claimed {
  std::uint32_t region = 0;
  std::uint32_t generation = 0;
  std::uint64_t secret = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
[[nodiscard]] inline Claimed claimed_by(const wire::TargetPart& target) {
  return {target.region, target.generation, target.secret, target.offset, target.length()};
}
[[nodiscard]] inline Claimed claimed_by(const wire::SignalPart& signal) {
  return {signal.region, signal.generation, signal.secret, signal.offset, signal.width};
}

// The public name of a region.
[[nodiscard]] constexpr RegionId name_of(SlabId id) {
  return RegionId{std::uint64_t{id.generation} << 32 | id.index};
}
[[nodiscard]] constexpr SlabId slab_id(RegionId region) {
  const auto bits = static_cast<std::uint64_t>(region);
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

class Regions {
 public:
  explicit Regions(std::uint32_t most) : regions_(most) {}

  // ---- its owner
  // Nothing if all are in use. `secret` is never 0, and no peer can guess it.
  [[nodiscard]] std::optional<SlabId> expose(const ExposeRequest& request, std::uint64_t secret,
                                             Placement& placement);
  // Null: there is no such region, or it is withdrawn.
  [[nodiscard]] const Region* find(SlabId id) const;
  // True: nothing reads from it, and it is gone. Else the last reader's end says so.
  [[nodiscard]] bool withdraw(SlabId id, Withdrawal withdrawal);

  // ---- peers
  [[nodiscard]] Reach check(const Claimed& claimed, RegionAccess wanted);
  // The same for a word that is computed on.
  [[nodiscard]] Reach check_word(const Claimed& claimed);
  // The region's placement, for an operation that `check` granted earlier. Null: it is withdrawn.
  [[nodiscard]] Placement* still_granted(SlabId id) const;

  // A write that was granted, and has placed a part of its bytes, will not be finished.
  void note_unfinished(SlabId id, std::uint64_t offset, std::uint64_t bytes);

  // ---- replies that NICs read out of it
  void begin_reading(SlabId id) { ++regions_.at(id.index).readers; }
  // The withdrawal that waited for this reader; without an operation: none did.
  [[nodiscard]] Withdrawal end_reading(SlabId id);

  [[nodiscard]] std::uint32_t size() const { return regions_.size(); }

 private:
  Slab<Region> regions_;
};

}  // namespace hawser::proto
