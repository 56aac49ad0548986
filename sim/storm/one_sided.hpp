// SPDX-License-Identifier: Apache-2.0
// The one-sided operations of a storm: what its programs do, and the judge of it.
//
// Each process exposes memory when it begins, and other memory after each withdrawal. The memory
// has words, a page that is only read, and a place for each planned write to its host. Some words
// are for adds and signals. The others are chained: word_chain.hpp judges them.
//
// Rules, for each memory and its state when its process died, or when its withdrawal was over, or
// at the end:
//  - A word is the number of adds and signals that were executed. The judge knows which were, which
//    were not, and which may have been.
//  - The values that adds have fetched from a word are all different, and below what it became.
//  - The place of a write has the bytes of the write if it was executed. It has untouched bytes if
//    it was not. It has some of both if that is not known. Everything else is as it was.
//  - A read that ended ok has the bytes of the page.
//  - A write that notifies gives one notice if it was executed, none if it was not. A notice comes
//    after all bytes, and a write that no session will finish may leave one that says so.
//  - A strong operation, and a flush, end after all that was posted before them on their channel.
//    They fail if one of these has failed and no flush has said so.
//  - An operation fails only for a reason: its key is wrong or of another memory, its memory was
//    withdrawn, one before it failed, or its session ended.
//  - Nothing is written after a withdrawal is over, nor beside any memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/region/host_placement.hpp"
#include "sim/storm/guarded_buffer.hpp"
#include "sim/storm/oracle.hpp"
#include "sim/storm/plan.hpp"
#include "sim/storm/world.hpp"

namespace hawser::sim {

class OneSided {
 public:
  static constexpr std::uint64_t kWordBytes = 8;
  static constexpr std::uint32_t kWords = 4;   // for adds and signals
  static constexpr std::uint32_t kChains = 2;  // words of 8 and of 4 bytes
  static constexpr std::uint64_t kPage = 64 << 10;

  OneSided(const Plan& plan, World& world, Oracle& oracle);

  // A process of the host has begun.
  void started(std::uint32_t host);
  // The process dies now, or has closed.
  void crashed(std::uint32_t host);
  // Its operations are gone with it. Returns how many.
  [[nodiscard]] std::uint32_t give_up(std::uint32_t host);
  // Posts a planned operation under that name. `peer`: as its host knows the other one.
  [[nodiscard]] Status post(std::uint32_t index, PeerId peer, OperationId name);
  // It was taken, as the process's post of that order.
  void on_posted(std::uint32_t index, std::uint64_t order);
  void on_completed(std::uint32_t index, const Completion& completion);
  void on_notice(std::uint32_t host, const Completion& notice);
  // Operations of others that the host's present process may have to answer with replies.
  [[nodiscard]] std::uint64_t count_fetches(std::uint32_t host) const;
  // A channel on which a process posts.
  struct Channel {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint16_t channel = 0;
  };
  // A channel with a failure that no flush has reported, which keeps both ends awake.
  [[nodiscard]] std::optional<Channel> untold() const;
  // A flush of the channel has completed.
  void on_flushed(const Channel& channel, const Completion& completion);
  // Called when all operations of running processes have completed.
  void judge();
  // Called at the very end.
  void judge_buffers();

 private:
  static constexpr std::uint32_t kNoMemory = ~0u;

  struct Record {
    bool posted = false;
    bool gone = false;  // its process died before it completed
    bool released = false;
    bool told = false;  // a flush has completed that was posted after it
    std::uint64_t life = 0;
    std::uint64_t order = 0;
    std::uint32_t session = 0;         // with the other host, as Sessions counts
    std::uint32_t memory = kNoMemory;  // whose key it has
    std::vector<std::byte> bytes;      // of a write
    GuardedBuffer into;                // of a read
    std::optional<Completion> completion;
    std::uint32_t notices = 0;
    std::uint32_t torn = 0;      // notices of writes that will not be finished
    std::uint64_t compares = 0;  // of compare_and_swap
    std::uint64_t posted_at = 0;
    std::uint64_t ended_at = 0;
  };
  // Memory that a process has exposed.
  struct Memory {
    std::uint32_t host = 0;
    std::uint64_t life = 0;
    RegionId region{};
    RegionKey key{};
    GuardedBuffer bytes;
    std::vector<std::byte> last;                  // its state when nobody could change it any more
    bool withdrawn = false;                       // at least asked for
    bool poisoned = false;                        // the withdrawal is over
    std::array<std::uint64_t, kChains> newest{};  // values that programs know of
  };
  // The fate of an operation.
  enum class Fate : std::uint8_t { executed, not_executed, unknown };

  void expose(std::uint32_t host);
  [[nodiscard]] Status write(std::uint32_t index, PeerId peer, OperationId name,
                             const RegionKey& key, std::uint64_t beyond);
  void end_withdrawal(std::uint32_t index);
  [[nodiscard]] std::uint32_t newest_of(std::uint32_t host) const;
  [[nodiscard]] std::uint32_t older_of(std::uint32_t host) const;
  [[nodiscard]] RegionKey key_for(std::uint32_t index, std::uint32_t memory) const;
  [[nodiscard]] Fate fate(const Record& record) const;
  [[nodiscard]] Fate fate_of_bytes(std::uint32_t index) const;
  [[nodiscard]] bool may_fail(std::uint32_t index, Status status) const;
  [[nodiscard]] bool follows_failure(std::uint32_t index) const;
  [[nodiscard]] bool is_before(std::uint32_t first, std::uint32_t second) const;
  [[nodiscard]] std::size_t size_of(std::uint32_t host) const;
  [[nodiscard]] std::byte page_byte(std::uint32_t host, std::uint64_t at) const;
  void check_order(std::uint32_t index);
  void check_read(std::uint32_t index);
  [[nodiscard]] Status chained(std::uint32_t index, PeerId peer, OperationId name,
                               const RegionKey& key, std::uint64_t beyond);
  void learn(std::uint32_t index);
  void judge_words(std::uint32_t number);
  void judge_chains(std::uint32_t number);
  void judge_places(std::uint32_t number);
  void judge_notices(std::uint32_t index);
  void accuse(std::uint32_t index, const std::string& what);

  const Plan& plan_;
  World& world_;
  Oracle& oracle_;
  proto::HostPlacement placement_;
  std::vector<std::uint64_t> places_;  // by operation: where its place begins
  std::vector<Record> records_;        // by operation
  std::vector<Memory> memories_;
  std::uint64_t moment_ = 0;  // grows with each post and each end
};

}  // namespace hawser::sim
