// SPDX-License-Identifier: Apache-2.0
// The one-sided operations of a tiny world, and the judge of them.
//
// Rules that hold whatever is forged: TinyRegion has those of the memory. Each operation completes
// once, with its own kind. A strong operation, and a flush, complete after all that was posted
// before them on their channel.
//
// Rules as long as nobody forges packets (TinyWorld::honest), judged when a withdrawal is over and
// at the end:
//  - Words 0 and 1 count. A word is the number of adds and signals that were executed, plus some of
//    those whose outcome is unknown. The values that adds fetch are different, and below it.
//  - Word 2 is swapped for values that are all different. No swap fetches the value of another one
//    that has fetched it, nor one that nobody can have stored. The word has a value of the rest.
//  - The page is as it was. A byte of the place is of a write that may have reached it, and of no
//    write that ended before a later one began.
//  - A read that ended well has bytes that were there.
//  - An operation fails for a reason only, and one that has a reason to fail does so.
//  - A write that notifies gives one notice if it was executed, and none if it was not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "test/fuzz/tiny_region.hpp"
#include "test/fuzz/tiny_world.hpp"

namespace hawser::test {

class TinyOneSided final : public TinyListener {
 public:
  // The other endpoint's region that an operation names, and how.
  enum class Key : std::uint8_t { right, wrong_secret, too_long };
  struct Target {
    std::uint32_t from = 0;   // the endpoint that posts
    std::uint8_t region = 0;  // modulo how many there are
    Key key = Key::right;
    std::uint16_t channel = 0;
    bool strong = false;
  };
  // The word that an atomic or a signal names. The words 0 and 1 are always counted up by 1, word 2
  // is always swapped. The rest is for word 3.
  struct Word {
    std::uint8_t index = 0;
    AtomicOperation operation = AtomicOperation::add;
    bool narrow = false;
    bool shifted = false;  // by 4 bytes
    std::uint64_t operand = 0;
  };
  struct SignalChoice {
    Word word;
    std::uint8_t region = 0;
    Key key = Key::right;
  };

  explicit TinyOneSided(TinyWorld& world) : world_(world) { world.listener = this; }
  TinyOneSided(const TinyOneSided&) = delete;
  TinyOneSided& operator=(const TinyOneSided&) = delete;

  // ---- what programs do. An endpoint that refuses a call has done nothing.
  void expose(std::uint32_t node, RegionAccess rights, bool executes);
  void withdraw(std::uint32_t node, std::uint8_t which);
  // `at`: in the place, or, of a read, in the page.
  void write(const Target& target, std::size_t at, std::size_t bytes, bool notifies,
             const std::optional<SignalChoice>& signal);
  void read(const Target& target, std::size_t at, std::size_t bytes, bool of_place);
  void atomic(const Target& target, const Word& word, bool fetches);
  void flush(std::uint32_t node, std::uint16_t channel);

  // The key of a region of that node, perhaps of a withdrawn one. Without any it is of no process.
  [[nodiscard]] RegionKey key_of(std::uint32_t node, std::uint8_t which) const;
  // Called when both endpoints have closed.
  void judge();

  // ---- TinyListener
  void on_completed(const TinyOperation& operation, const Completion& completion) override;
  void on_notice(std::uint32_t node, const Completion& notice) override;

 private:
  static constexpr std::size_t kMostRegions = 8;  // of an endpoint, one after the other

  struct Record {
    OperationKind kind = OperationKind::write;
    Target target;
    TinyRegion* region = nullptr;   // null: a flush
    std::optional<Word> word;       // of an atomic or a signal
    TinyRegion* of_word = nullptr;  // its region
    Key key_of_word = Key::right;
    bool is_late = false;  // a region was withdrawn before the call
    std::size_t at = 0;    // in the region
    std::size_t bytes = 0;
    bool notifies = false;
    bool fetches = false;
    PeerId peer = kAnyPeer;
    std::uint64_t session = 0;  // how many sessions its endpoint had by then
    std::uint64_t posted = 0;   // moments of the programs
    std::uint64_t ended = 0;    // 0: not yet
    std::optional<Completion> completion;
    std::uint32_t notices = 0;
  };
  enum class Fate : std::uint8_t { executed, not_executed, unknown };
  using Regions = std::vector<std::unique_ptr<TinyRegion>>;

  [[nodiscard]] Record record_of(OperationKind kind, const Target& target) const;
  [[nodiscard]] TinyRegion* region_at(std::uint32_t node, std::uint8_t which) const;
  [[nodiscard]] RegionKey key_for(std::uint32_t node, std::uint8_t which, Key key) const;
  [[nodiscard]] WordOperation operation_on(const Word& word) const;
  [[nodiscard]] static std::size_t offset_of(const Word& word, Key key);
  // Calls call(endpoint, operation) for an operation with a buffer of so many bytes.
  template <class Call>
  void post(Record record, std::size_t bytes, const Call& call);

  [[nodiscard]] static Fate fate(const Record& record);
  [[nodiscard]] static Fate fate_of_bytes(const Record& record);
  [[nodiscard]] bool is_before(const Record& first, const Record& second) const;
  [[nodiscard]] bool follows_failure(const Record& record) const;
  [[nodiscard]] static bool is_refused(const Record& record);
  [[nodiscard]] bool may_end(const Record& record, Status status) const;
  [[nodiscard]] std::byte byte_of(const Record& write, std::size_t at) const;
  [[nodiscard]] std::vector<const Record*> writes_to(const TinyRegion& region) const;
  void check_order(const Record& record, const Completion& completion) const;
  void check_read(const Record& record, const TinyOperation& operation) const;
  void judge(TinyRegion& region) const;
  void judge_counter(TinyRegion& region, std::uint8_t word) const;
  void judge_swaps(TinyRegion& region) const;
  void judge_place(TinyRegion& region) const;
  void judge_notices() const;

  TinyWorld& world_;
  std::array<Regions, 2> regions_;
  std::vector<Record> records_;
  std::uint64_t moments_ = 0;
};

}  // namespace hawser::test
