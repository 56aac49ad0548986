// SPDX-License-Identifier: Apache-2.0
// How far the groups are whose messages this endpoint awaits. A step of a collective is over when
// its last message is, so the last ones deserve the shortest detection interval.
//
// A direct-mapped cache: it only shapes timers, so if two groups share a slot the newer one gets
// it. A complete group leaves its slot, and its number may come again.
#pragma once

#include <cstdint>
#include <vector>

#include "hawser/types.hpp"

namespace hawser::proto {

class Groups {
 public:
  explicit Groups(std::uint32_t slots) : slots_(slots) {}

  // A message of the group has arrived whole and was matched. Returns true if this makes
  // awaits_last true.
  bool note_complete(std::uint16_t channel, const Hint& hint) {
    if (!counts(hint)) return false;
    Slot& slot = slot_of(channel, hint);
    if (!slot.is(channel, hint)) slot = {hint.group, hint.step, channel, 0};
    const bool awaited_last = awaits_last(channel, hint);
    if (++slot.complete >= hint.members) slot = {};
    return !awaited_last && awaits_last(channel, hint);
  }

  // Whether most of the group is complete: its step waits for the rest.
  [[nodiscard]] bool awaits_last(std::uint16_t channel, const Hint& hint) const {
    if (hint.group == 0) return false;
    if (hint.members <= 1) return true;
    const Slot& slot = slots_[index_of(channel, hint)];
    if (!slot.is(channel, hint)) return false;
    return (hint.members - slot.complete) * 8 <= hint.members || slot.complete + 1 >= hint.members;
  }

 private:
  struct Slot {
    std::uint32_t group = 0;
    std::uint16_t step = 0;
    std::uint16_t channel = 0;
    std::uint16_t complete = 0;

    [[nodiscard]] bool is(std::uint16_t of_channel, const Hint& hint) const {
      return group == hint.group && step == hint.step && channel == of_channel;
    }
  };

  [[nodiscard]] static bool counts(const Hint& hint) { return hint.group != 0 && hint.members > 1; }
  [[nodiscard]] std::size_t index_of(std::uint16_t channel, const Hint& hint) const {
    const std::uint64_t key =
        std::uint64_t{hint.group} << 32 | std::uint64_t{hint.step} << 16 | channel;
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> 32) % slots_.size();
  }
  [[nodiscard]] Slot& slot_of(std::uint16_t channel, const Hint& hint) {
    return slots_[index_of(channel, hint)];
  }

  std::vector<Slot> slots_;
};

}  // namespace hawser::proto
