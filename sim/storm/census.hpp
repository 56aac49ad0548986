// SPDX-License-Identifier: Apache-2.0
// Counts which parts of the protocol a storm has visited. Among them are kinds of trace records,
// causes of loss, reasons for dropping packets, states of sessions and paths with their changes,
// and statuses of completions.
//
// A census is an array of counters, so it costs a storm next to nothing. Censuses of many storms
// add up. The rows of census_rows() give the meaning of each counter, and whether a thorough storm
// must visit it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hawser/events.hpp"
#include "hawser/stats.hpp"
#include "hawser/trace.hpp"

namespace hawser::sim {

// X(name, cells, what a cell is)
#define HAWSER_CENSUS_GROUPS(X)                                         \
  X(trace_kind, 24, "trace records by TraceKind")                       \
  X(loss, 4, "packets declared lost, by TraceLoss")                     \
  X(drop, 32, "packets dropped, by DropReason")                         \
  X(message_status, 12, "statuses that receivers sent, by TraceStatus") \
  X(session_state, 5, "sessions that came to a TraceSession")           \
  X(session_change, 25, "and from which")                               \
  X(session_end, 32, "sessions that failed, by Status")                 \
  X(path_state, 4, "paths that came to a PathState")                    \
  X(path_change, 600, "and from which, and for which Reason")           \
  X(reason, 32, "Reasons of paths' changes, and of all other events")   \
  X(event, 16, "events polled, by their kind")                          \
  X(send_completion, 32, "completions of sends, by Status")             \
  X(receive_completion, 32, "completions of receives, by Status")       \
  X(place, 8, "fates of places for peers")                              \
  X(way, 8, "ways that carry less in one piece than NICs")              \
  X(one_sided, 12, "fates of one-sided operations")

// X(name, text)
#define HAWSER_CENSUS_PLACES(X)                                                 \
  X(given_away, "a place was given to another")                                 \
  X(call_refused, "a call found no place")                                      \
  X(none_here, "a program found none at its own endpoint")                      \
  X(let_in_later, "a caller was accepted that was refused before")              \
  X(name_forgotten, "a program used a name, and its place had been given away") \
  X(old_name_used, "a program used a name that was followed by a newer one")    \
  X(kept_by_the_rest, "a call found no place while the remains of an ended peer keep one")

// X(name, text)
#define HAWSER_CENSUS_WAYS(X)                                              \
  X(narrow_session, "a session took what the least of its ways carried")   \
  X(narrowest_session, "a session took 256 bytes, and a way carried less") \
  X(fragmented, "a packet was longer than its way carried in one piece")   \
  X(shorter_messages, "a message began with less than its session allows") \
  X(long_again, "a message began with all of that, after one with less")

// X(name, text)
#define HAWSER_CENSUS_ONE_SIDED(X)                                     \
  X(executed, "one was executed")                                      \
  X(refused, "one was refused for its key")                            \
  X(withdrawn, "one came upon memory that was withdrawn")              \
  X(behind_failure, "one ended as one before it had failed")           \
  X(not_executed, "one was not executed, as its session ended")        \
  X(reply_lost, "one was executed, and its reply lost with a session") \
  X(unknown, "one ended with its session, and its outcome is unknown") \
  X(noticed, "a notice was given")                                     \
  X(followed, "one got the value that another one had put")            \
  X(swapped, "a compare_and_swap changed the word")                    \
  X(kept, "a compare_and_swap came upon another value")

enum class OneSidedCell : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_CENSUS_ONE_SIDED(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};

enum class WayCell : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_CENSUS_WAYS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};

enum class PlaceCell : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_CENSUS_PLACES(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};

enum class CensusGroup : std::uint8_t {
#define HAWSER_ENUM(name, cells, text) name,
  HAWSER_CENSUS_GROUPS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kCensusGroups = static_cast<std::size_t>(CensusGroup::count_);

struct CensusGroupText {
  std::string_view name;
  std::size_t cells;
  std::string_view text;
};
inline constexpr std::array<CensusGroupText, kCensusGroups> kCensusGroupTexts{{
#define HAWSER_TEXT(name, cells, text) {#name, cells, text},
    HAWSER_CENSUS_GROUPS(HAWSER_TEXT)
#undef HAWSER_TEXT
}};

// Where the cells of a group begin.
[[nodiscard]] constexpr std::size_t census_base(CensusGroup group) {
  std::size_t base = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(group); ++i) {
    base += kCensusGroupTexts[i].cells;
  }
  return base;
}
inline constexpr std::size_t kCensusCells = census_base(CensusGroup::count_);

struct Census {
  std::array<std::uint64_t, kCensusCells> counts{};

  template <CensusGroup group>
  void count(std::size_t cell, std::uint64_t times = 1) {
    if (cell < kCensusGroupTexts[static_cast<std::size_t>(group)].cells) {
      counts[census_base(group) + cell] += times;
    }
  }
  [[nodiscard]] std::uint64_t at(CensusGroup group, std::size_t cell) const {
    return counts[census_base(group) + cell];
  }
};

// The census of one process: counts, and remembers the states of its sessions and paths.
class CensusTaker {
 public:
  explicit CensusTaker(Census& census) : census_(census) {}

  // Another process takes its place.
  void restart() { peers_ = {}; }
  void on_trace(const TraceRecord& record);
  void on_event(const Event& event);

 private:
  static constexpr std::size_t kPeers = 64;
  static constexpr std::size_t kSlots = 16;
  // A path slot's last state. States count from 1; 0 is a path without any record yet.
  struct PathSeen {
    std::uint8_t generation = 0;
    std::uint8_t state = 0;
  };
  struct PeerSeen {
    std::uint8_t session = 0;
    std::array<PathSeen, kSlots> paths{};
  };

  template <CensusGroup group>
  void count_cause(const TraceRecord& record);
  void session_changed(const TraceRecord& record);
  void path_changed(const TraceRecord& record);

  Census& census_;
  std::array<PeerSeen, kPeers> peers_{};
};

struct CensusRow {
  CensusGroup group = CensusGroup::trace_kind;
  std::string name;       // empty: nothing can come here
  bool expected = false;  // exists in the protocol, so a storm should come there
};
// One row for each cell.
[[nodiscard]] std::span<const CensusRow> census_rows();
// "group:name", as find_census_cell takes it.
[[nodiscard]] std::string census_cell_name(std::size_t cell);
// kCensusCells if there is none of that name.
[[nodiscard]] std::size_t find_census_cell(std::string_view name);

}  // namespace hawser::sim
