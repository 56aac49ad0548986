// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/census.hpp"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "hawser/status.hpp"
#include "proto/base/assert.hpp"

namespace hawser::sim {

namespace {

constexpr std::size_t kSessions = 5;
constexpr std::size_t kPathStates = 4;
constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::count_);
constexpr std::array<std::string_view, kSessions> kSessionNames{"idle", "calling", "answered",
                                                                "ready", "failed"};
constexpr std::array<std::string_view, 4> kLossNames{"", "gap", "request", "evacuation"};
constexpr std::size_t kStatuses = static_cast<std::size_t>(TraceStatus::unsupported) + 1;

constexpr auto kPlaceNames = std::to_array<std::string_view>({
#define HAWSER_NAME(name, text) #name,
    HAWSER_CENSUS_PLACES(HAWSER_NAME)
#undef HAWSER_NAME
});

constexpr auto kWayNames = std::to_array<std::string_view>({
#define HAWSER_NAME(name, text) #name,
    HAWSER_CENSUS_WAYS(HAWSER_NAME)
#undef HAWSER_NAME
});

constexpr auto kOneSidedCells = std::to_array<std::string_view>({
#define HAWSER_NAME(name, text) #name,
    HAWSER_CENSUS_ONE_SIDED(HAWSER_NAME)
#undef HAWSER_NAME
});

constexpr std::size_t cells(CensusGroup group) {
  return kCensusGroupTexts[static_cast<std::size_t>(group)].cells;
}
static_assert(cells(CensusGroup::trace_kind) >= kTraceKinds);
static_assert(cells(CensusGroup::drop) >= kDropReasons);
static_assert(cells(CensusGroup::session_change) == kSessions * kSessions);
static_assert(cells(CensusGroup::path_change) == (kPathStates + 1) * kPathStates * kReasons);
static_assert(cells(CensusGroup::reason) >= kReasons);
static_assert(cells(CensusGroup::event) >= static_cast<std::size_t>(Event::Kind::count_));
static_assert(cells(CensusGroup::place) >= static_cast<std::size_t>(PlaceCell::count_));
static_assert(cells(CensusGroup::way) >= static_cast<std::size_t>(WayCell::count_));
static_assert(cells(CensusGroup::message_status) >= kStatuses);
static_assert(cells(CensusGroup::one_sided) >= kOneSidedCells.size());
static_assert(cells(CensusGroup::session_end) >
              static_cast<std::size_t>(Status::predecessor_failed));

constexpr std::size_t path_cell(std::size_t from, std::size_t to, std::size_t reason) {
  return (from * kPathStates + to) * kReasons + reason;
}

// ---- the meaning of each cell

class Rows {
 public:
  Rows() : rows_(kCensusCells) {
    std::size_t cell = 0;
    for (std::size_t group = 0; group < kCensusGroups; ++group) {
      for (std::size_t i = 0; i < kCensusGroupTexts[group].cells; ++i) {
        rows_[cell++].group = static_cast<CensusGroup>(group);
      }
    }
    for (std::size_t i = 0; i < kTraceKinds; ++i) {
      name(CensusGroup::trace_kind, i, kTraceKindTexts[i].name, true);
    }
    for (std::size_t i = 1; i < kLossNames.size(); ++i) {
      name(CensusGroup::loss, i, kLossNames[i], true);
    }
    for (std::size_t i = 0; i < kDropReasons; ++i) {
      name(CensusGroup::drop, i, kDropReasonTexts[i].name, true);
    }
    for (std::size_t i = 1; i < kStatuses; ++i) {
      const auto status = static_cast<TraceStatus>(i);
      const bool expected = status != TraceStatus::misaligned && status != TraceStatus::unsupported;
      name(CensusGroup::message_status, i,
           trace_cause_name(TraceKind::message_status, static_cast<std::uint8_t>(i)), expected);
    }
    for (std::size_t i = 0; i < kReasons; ++i) {
      name(CensusGroup::reason, i, kReasonTexts[i].name, i != 0);
    }
    for (std::size_t i = 0; i < kEventTexts.size(); ++i) {
      name(CensusGroup::event, i, kEventTexts[i].name, true);
    }
    for (std::size_t i = 0; i < kPlaceNames.size(); ++i) {
      name(CensusGroup::place, i, kPlaceNames[i], true);
    }
    for (std::size_t i = 0; i < kWayNames.size(); ++i) {
      name(CensusGroup::way, i, kWayNames[i], true);
    }
    for (std::size_t i = 0; i < kOneSidedCells.size(); ++i) {
      const bool rare = i == static_cast<std::size_t>(OneSidedCell::reply_lost);
      name(CensusGroup::one_sided, i, kOneSidedCells[i], !rare);
    }
    name_sessions();
    name_paths();
    using enum Status;
    name_statuses(CensusGroup::session_end, {peer_unreachable, peer_timeout, peer_restarted,
                                             peer_closed, peer_full, endpoint_closed});
    name_statuses(
        CensusGroup::send_completion,
        {ok, truncated, cancelled, peer_unreachable, peer_timeout, peer_restarted, peer_closed,
         peer_full, endpoint_closed, access_denied, region_withdrawn, predecessor_failed});
    name_statuses(CensusGroup::receive_completion,
                  {ok, truncated, cancelled, peer_unreachable, peer_timeout, peer_restarted,
                   peer_closed, peer_full, endpoint_closed, store_full});
  }
  [[nodiscard]] std::span<const CensusRow> rows() const { return rows_; }

 private:
  void name(CensusGroup group, std::size_t cell, std::string_view text, bool expected) {
    CensusRow& row = rows_[census_base(group) + cell];
    row.name = text;
    row.expected = expected;
  }
  void name_statuses(CensusGroup group, std::initializer_list<Status> expected) {
    for (std::size_t i = 0; i <= static_cast<std::size_t>(Status::predecessor_failed); ++i) {
      const auto status = static_cast<Status>(i);
      name(group, i, to_string(status), std::ranges::find(expected, status) != expected.end());
    }
  }
  void name_sessions() {
    for (std::size_t to = 0; to < kSessions; ++to) {
      name(CensusGroup::session_state, to, kSessionNames[to], true);
      for (std::size_t from = 0; from < kSessions; ++from) {
        name(CensusGroup::session_change, from * kSessions + to,
             std::string(kSessionNames[from]) + "->" + std::string(kSessionNames[to]), false);
      }
    }
  }
  void name_paths() {
    for (std::size_t to = 0; to < kPathStates; ++to) {
      const std::string_view state = to_string(static_cast<PathState>(to));
      name(CensusGroup::path_state, to, state, true);
      for (std::size_t from = 0; from <= kPathStates; ++from) {
        const std::string_view before =
            from == 0 ? "new" : to_string(static_cast<PathState>(from - 1));
        for (std::size_t reason = 0; reason < kReasons; ++reason) {
          name(CensusGroup::path_change, path_cell(from, to, reason),
               std::string(before) + "->" + std::string(state) + ":" +
                   std::string(kReasonTexts[reason].name),
               false);
        }
      }
    }
  }

  std::vector<CensusRow> rows_;
};

}  // namespace

std::span<const CensusRow> census_rows() {
  static const Rows rows;
  return rows.rows();
}

std::string census_cell_name(std::size_t cell) {
  const CensusRow& row = census_rows()[cell];
  return std::string(kCensusGroupTexts[static_cast<std::size_t>(row.group)].name) + ":" + row.name;
}

std::size_t find_census_cell(std::string_view name) {
  for (std::size_t cell = 0; cell < kCensusCells; ++cell) {
    if (!census_rows()[cell].name.empty() && census_cell_name(cell) == name) return cell;
  }
  return kCensusCells;
}

// ---- counting

// Each cause has a name, which is looked up once.
template <CensusGroup group>
void CensusTaker::count_cause(const TraceRecord& record) {
  census_.count<group>(record.cause);
  if (record.cause >= cells(group) || census_.at(group, record.cause) > 1) return;
  HAWSER_ASSERT(!trace_cause_name(record.kind, record.cause).empty());
}

void CensusTaker::on_trace(const TraceRecord& record) {
  census_.count<CensusGroup::trace_kind>(static_cast<std::size_t>(record.kind));
  switch (record.kind) {
    case TraceKind::packet_lost: return count_cause<CensusGroup::loss>(record);
    case TraceKind::packet_dropped: return count_cause<CensusGroup::drop>(record);
    case TraceKind::message_status: return count_cause<CensusGroup::message_status>(record);
    case TraceKind::send_completed: return count_cause<CensusGroup::send_completion>(record);
    case TraceKind::receive_completed: return count_cause<CensusGroup::receive_completion>(record);
    case TraceKind::session_state: return session_changed(record);
    case TraceKind::path_state: return path_changed(record);
    default: return;
  }
}

void CensusTaker::session_changed(const TraceRecord& record) {
  census_.count<CensusGroup::session_state>(record.detail);
  if (record.detail == static_cast<std::uint32_t>(TraceSession::failed)) {
    census_.count<CensusGroup::session_end>(record.cause);
  }
  if (record.peer >= kPeers || record.detail >= kSessions) return;
  PeerSeen& peer = peers_[record.peer];
  census_.count<CensusGroup::session_change>(peer.session * kSessions + record.detail);
  peer.session = static_cast<std::uint8_t>(record.detail);
  // A session's paths are its own.
  if (record.detail == static_cast<std::uint32_t>(TraceSession::failed)) peer.paths = {};
}

void CensusTaker::path_changed(const TraceRecord& record) {
  census_.count<CensusGroup::path_state>(record.detail);
  count_cause<CensusGroup::reason>(record);
  if (record.peer >= kPeers || record.slot >= kSlots || record.detail >= kPathStates) return;
  PathSeen& path = peers_[record.peer].paths[record.slot];
  if (path.generation != record.generation) path = {record.generation, 0};
  census_.count<CensusGroup::path_change>(path_cell(path.state, record.detail, record.cause));
  path.state = static_cast<std::uint8_t>(record.detail + 1);
}

void CensusTaker::on_event(const Event& event) {
  census_.count<CensusGroup::event>(static_cast<std::size_t>(event.kind));
  switch (event.kind) {  // the trace has told the others
    case Event::Kind::path_down:
    case Event::Kind::path_up:
    case Event::Kind::path_suspect:
    case Event::Kind::path_probing: return;
    default: census_.count<CensusGroup::reason>(static_cast<std::size_t>(event.reason));
  }
}

}  // namespace hawser::sim
