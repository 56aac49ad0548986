// SPDX-License-Identifier: Apache-2.0
// Which lane, that is which entropy, each packet of a path takes. The choice is the first of:
//   1. A proven lane: it has just brought a packet back unmarked, so its way was free a moment ago
//      (REPS, arXiv 2407.21625).
//   2. The next lane with nothing under way, so that all ways through the fabric are tried.
//   3. A lane with one packet under way, as a busy way brings packets back late. Good lanes come
//      first: they were proven when taken, and no later departure had overtaken their last packet.
//   4. The next lane in turn.
// A lane whose packet came back with an ECN mark is passed over once, as its way is busier than
// others (the bitmap of the Ultra Ethernet Consortium's htsim). If all lanes are marked, none
// counts as marked.
//
// Invariant: a lane is proven only with nothing under way. Counts end at two, so a lane that had
// three under way may count as idle early. That only costs a choice that is not the best.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace hawser::proto {

inline constexpr std::uint16_t kMostLanes = 128;

class Lanes {
 public:
  // Returns the lane of the next packet, among `lanes`, a power of two up to kMostLanes. The packet
  // is under way from now on. `turn` becomes the lane after it.
  [[nodiscard]] std::uint8_t take(std::uint16_t lanes, std::uint8_t& turn) {
    if (lanes == 1) return 0;
    const std::uint8_t lane = choose(lanes, static_cast<std::uint8_t>(turn & (lanes - 1u)));
    turn = static_cast<std::uint8_t>((lane + 1u) & (lanes - 1u));
    words_[lane / 64].take(std::uint64_t{1} << (lane % 64));
    return lane;
  }

  // A packet on the lane arrived, or was lost or never left. `late`: a packet that left later came
  // before it.
  void ended(std::uint8_t lane, bool arrived, bool late) {
    words_[lane / 64].ended(std::uint64_t{1} << (lane % 64), arrived, late);
  }

  // A packet on the lane came back marked; called after ended().
  void mark(std::uint8_t lane) { words_[lane / 64].mark(std::uint64_t{1} << (lane % 64)); }

 private:
  // One bit each for 64 lanes. The bits (under_way, second, third) mean:
  //   `000` idle, `001` idle and marked, `010` proven, `011` proven, and its last packet was late.
  //   `100` one packet under way, `101` one, and it is marked, `110` two or more, `111` one, and
  //   the lane is good.
  struct Word {
    std::uint64_t under_way = 0;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    [[nodiscard]] std::uint64_t marked() const { return ~second & third; }
    [[nodiscard]] std::uint64_t proven() const { return ~under_way & second; }
    [[nodiscard]] std::uint64_t idle() const { return ~under_way; }
    [[nodiscard]] std::uint64_t idle_or_good() const { return ~under_way | (second & third); }
    [[nodiscard]] std::uint64_t at_most_one() const { return ~(under_way & second & ~third); }
    [[nodiscard]] std::uint64_t any() const { return ~std::uint64_t{0}; }

    void take(std::uint64_t bit) {
      const bool is_good = (proven() & ~third & bit) != 0;
      const bool was_under_way = (under_way & bit) != 0;
      under_way |= bit;
      set(bit, is_good || was_under_way, is_good);
    }
    void ended(std::uint64_t bit, bool arrived, bool late) {
      if ((under_way & bit) == 0) return;
      const bool several = (at_most_one() & bit) == 0;
      const bool is_well = arrived && (marked() & bit) == 0;
      if (several) return set(bit, is_well && !late, is_well && !late);
      under_way &= ~bit;
      set(bit, is_well, is_well ? late : (marked() & bit) != 0);
    }
    void mark(std::uint64_t bit) { set(bit, false, true); }
    void unmark(std::uint64_t bits) { third &= ~(marked() & bits); }

   private:
    void set(std::uint64_t bit, bool second_bit, bool third_bit) {
      second = second_bit ? second | bit : second & ~bit;
      third = third_bit ? third | bit : third & ~bit;
    }
  };
  using Wanted = std::uint64_t (Word::*)() const;
  static constexpr std::uint16_t kNone = kMostLanes;

  [[nodiscard]] std::uint8_t choose(std::uint16_t lanes, std::uint8_t turn) {
    std::uint16_t lane = first(lanes, turn, &Word::proven);
    if (lane != kNone) return static_cast<std::uint8_t>(lane);
    constexpr std::array<Wanted, 4> kInOrder{&Word::idle, &Word::idle_or_good, &Word::at_most_one,
                                             &Word::any};
    std::size_t rule = 0;
    while (rule < kInOrder.size() && lane == kNone) lane = first(lanes, turn, kInOrder[rule++]);
    // Only now, so that the search takes no lane because its mark was just removed.
    if (rule > 1) pass_over(lanes, turn, kNone, kInOrder[rule - 2]);
    pass_over(lanes, turn, lane, kInOrder[rule - 1]);
    return lane == kNone ? turn : static_cast<std::uint8_t>(lane);
  }

  // The first unmarked lane from `turn` on, wrapping around.
  [[nodiscard]] std::uint16_t first(std::uint16_t lanes, std::uint8_t turn, Wanted wanted) const {
    const std::uint64_t from_turn = ~std::uint64_t{0} << (turn % 64);
    const std::uint64_t all = lanes < 64 ? (std::uint64_t{1} << lanes) - 1 : ~std::uint64_t{0};
    const auto of = [&](const Word& word) { return (word.*wanted)() & ~word.marked() & all; };
    const auto found = [](unsigned word, std::uint64_t bits) {
      return static_cast<std::uint16_t>(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
    };
    const unsigned begin = turn / 64u;
    const std::uint64_t bits = of(words_[begin]);
    if ((bits & from_turn) != 0) return found(begin, bits & from_turn);
    const unsigned other = begin ^ 1u;
    if (lanes > 64 && of(words_[other]) != 0) return found(other, of(words_[other]));
    return bits != 0 ? found(begin, bits) : kNone;
  }

  // Unmarks the lanes passed over, from `turn` up to, but without, `lane`; kNone: all.
  void pass_over(std::uint16_t lanes, std::uint8_t turn, std::uint16_t lane, Wanted wanted) {
    if ((words_[0].marked() | words_[1].marked()) == 0) return;
    std::uint16_t at = turn;
    for (std::uint16_t i = 0; i < lanes && at != lane; ++i) {
      Word& word = words_[at / 64];
      word.unmark((word.*wanted)() & std::uint64_t{1} << (at % 64));
      at = static_cast<std::uint16_t>((at + 1u) & (lanes - 1u));
    }
  }

  std::array<Word, kMostLanes / 64> words_{};
};

}  // namespace hawser::proto
