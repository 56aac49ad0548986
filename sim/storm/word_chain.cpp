// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/word_chain.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace hawser::sim {

namespace {

class ChainJudge {
 public:
  ChainJudge(std::span<const ChainLink> links, std::uint64_t last) : links_(links), last_(last) {}

  std::string judge() {
    for (const ChainLink& link : links_) {
      if (link.writes != 0) writers_.emplace(link.writes, &link);
    }
    find_seen();
    if (what_.empty()) join();
    if (what_.empty()) walk();
    if (what_.empty()) check_readers();
    return what_;
  }

 private:
  // True for what the operation was executed without changing.
  static bool only_reads(const ChainLink& link) {
    return link.writes == 0 || (link.compares && link.fetched && *link.compares != *link.fetched);
  }
  static std::string name(const ChainLink& link) { return std::to_string(link.index); }

  [[nodiscard]] bool was_written(std::uint64_t value) const { return seen_.contains(value); }

  // The value was in the word: so its writer has changed the word, and if that one compares, the
  // value before it was there too.
  void see(std::uint64_t value, std::string by) {
    while (value != 0 && seen_.insert(value).second) {
      const auto writer = writers_.find(value);
      if (writer == writers_.end() || only_reads(*writer->second)) {
        what_ = by + " the value " + std::to_string(value) + ", which nobody has written";
        return;
      }
      if (!writer->second->compares) return;
      by = "operation " + name(*writer->second) + " has changed the word, and compared it with";
      value = *writer->second->compares;
    }
  }

  void find_seen() {
    for (const ChainLink& link : links_) {
      if (link.fetched) see(*link.fetched, "operation " + name(link) + " fetched");
    }
    see(last_, "the word has");
  }

  // The value right before an operation that has changed the word, if it is known.
  static std::optional<std::uint64_t> before(const ChainLink& link) {
    return link.fetched ? link.fetched : link.compares;
  }

  // True if the operation has changed the word for certain.
  [[nodiscard]] bool has_changed(const ChainLink& link) const {
    if (only_reads(link)) return false;
    if (link.fetched || was_written(link.writes)) return true;
    return link.is_certain && !link.compares;
  }

  void join() {
    for (const ChainLink& link : links_) {
      if (!has_changed(link)) continue;
      ++changers_;
      const std::optional<std::uint64_t> value = before(link);
      if (!value) continue;
      const auto [other, is_first] = after_.emplace(*value, &link);
      if (is_first && *value != last_) continue;
      what_ = "operation " + name(link) + " came right after the value " + std::to_string(*value) +
              (is_first ? ", which is the last one" : ", as operation " + name(*other->second));
      return;
    }
  }

  // Walks over a piece of the chain. Returns true if the word's last value is in it.
  bool walk_from(std::uint64_t value) {
    const auto head = writers_.find(value);
    const ChainLink* latest = value == 0 ? nullptr : head->second;  // by its post
    bool has_last = value == last_;
    for (auto next = after_.find(value); next != after_.end(); next = after_.find(value)) {
      const ChainLink& link = *next->second;
      ++walked_;
      if (latest != nullptr && link.ended < latest->posted) {
        what_ = "operation " + name(link) + " came after operation " + name(*latest) +
                ", which was posted when it had ended";
        return true;
      }
      if (latest == nullptr || link.posted > latest->posted) latest = &link;
      value = link.writes;
      has_last = has_last || value == last_;
    }
    return has_last;
  }

  // Pieces begin with 0, and with operations that are not known to follow a value.
  void walk() {
    const bool is_all = walk_from(0);
    for (const ChainLink& link : links_) {
      if (!what_.empty()) return;
      if (!has_changed(link) || before(link)) continue;
      ++walked_;
      if (is_all) {
        what_ = "operation " + name(link) + " has no place between 0 and the last value";
        return;
      }
      walk_from(link.writes);
    }
    if (what_.empty() && walked_ != changers_) what_ = "operations came after each other in a ring";
  }

  // Those that have only read came after the value's writer, and before the next one.
  void check_readers() {
    for (const ChainLink& link : links_) {
      if (!link.fetched || !only_reads(link)) continue;
      const auto writer = writers_.find(*link.fetched);
      const auto next = after_.find(*link.fetched);
      const bool is_early = writer != writers_.end() && link.ended < writer->second->posted;
      const bool is_late = next != after_.end() && next->second->ended < link.posted;
      if (!is_early && !is_late) continue;
      what_ = "operation " + name(link) + " fetched the value " + std::to_string(*link.fetched) +
              (is_late ? ", which was there no more" : ", which was not there yet");
      return;
    }
  }

  std::span<const ChainLink> links_;
  std::uint64_t last_;
  std::map<std::uint64_t, const ChainLink*> writers_;
  std::set<std::uint64_t> seen_;  // values that were in the word
  std::map<std::uint64_t, const ChainLink*> after_;
  std::size_t changers_ = 0;
  std::size_t walked_ = 0;
  std::string what_;
};

}  // namespace

std::string judge_chain(std::span<const ChainLink> links, std::uint64_t last) {
  return ChainJudge(links, last).judge();
}

}  // namespace hawser::sim
