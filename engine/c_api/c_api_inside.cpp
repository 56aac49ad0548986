// SPDX-License-Identifier: Apache-2.0
// The C API, hawser.h, over engine.hpp: statistics, events, verdicts and traces.
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string_view>

#include "engine/c_api/c_api.hpp"

namespace {

using hawser::Status;
using hawser::c_api::code;
using hawser::c_api::copy_text;
using hawser::c_api::guarded;
using hawser::c_api::same;

static_assert(same(hawser::PathState::up, HAWSER_PATH_UP) &&
              same(hawser::PathState::suspect, HAWSER_PATH_SUSPECT) &&
              same(hawser::PathState::down, HAWSER_PATH_DOWN) &&
              same(hawser::PathState::probing, HAWSER_PATH_PROBING));
static_assert(same(hawser::Event::Kind::nic_down, HAWSER_NIC_DOWN) &&
              same(hawser::Event::Kind::nic_up, HAWSER_NIC_UP) &&
              same(hawser::Event::Kind::path_down, HAWSER_PATH_DOWN_EVENT) &&
              same(hawser::Event::Kind::path_up, HAWSER_PATH_UP_EVENT) &&
              same(hawser::Event::Kind::peer_established, HAWSER_PEER_ESTABLISHED) &&
              same(hawser::Event::Kind::peer_failed, HAWSER_PEER_FAILED) &&
              same(hawser::Event::Kind::nic_moved, HAWSER_NIC_MOVED) &&
              same(hawser::Event::Kind::path_suspect, HAWSER_PATH_SUSPECT_EVENT) &&
              same(hawser::Event::Kind::path_probing, HAWSER_PATH_PROBING_EVENT) &&
              same(hawser::Event::Kind::peer_calling, HAWSER_PEER_CALLING) &&
              same(hawser::Event::Kind::verdict_reached, HAWSER_VERDICT_REACHED) &&
              same(hawser::Event::Kind::verdict_withdrawn, HAWSER_VERDICT_WITHDRAWN) &&
              same(hawser::Event::Kind::operation_stalled, HAWSER_OPERATION_STALLED) &&
              same(hawser::Event::Kind::peer_refused, HAWSER_PEER_REFUSED));
static_assert(same(hawser::Reason::none, HAWSER_REASON_NONE) &&
              same(hawser::Reason::driver, HAWSER_REASON_DRIVER) &&
              same(hawser::Reason::peer_said, HAWSER_REASON_PEER_SAID) &&
              same(hawser::Reason::moved, HAWSER_REASON_MOVED) &&
              same(hawser::Reason::silence, HAWSER_REASON_SILENCE) &&
              same(hawser::Reason::requests, HAWSER_REASON_REQUESTS) &&
              same(hawser::Reason::probe_timeouts, HAWSER_REASON_PROBE_TIMEOUTS) &&
              same(hawser::Reason::only_small, HAWSER_REASON_ONLY_SMALL) &&
              same(hawser::Reason::unanswered, HAWSER_REASON_UNANSWERED) &&
              same(hawser::Reason::answered, HAWSER_REASON_ANSWERED) &&
              same(hawser::Reason::proven, HAWSER_REASON_PROVEN) &&
              same(hawser::Reason::asked, HAWSER_REASON_ASKED) &&
              same(hawser::Reason::handshake, HAWSER_REASON_HANDSHAKE) &&
              same(hawser::Reason::status, HAWSER_REASON_STATUS) &&
              same(hawser::Reason::witnesses, HAWSER_REASON_WITNESSES) &&
              same(hawser::Reason::works_again, HAWSER_REASON_WORKS_AGAIN) &&
              same(hawser::Reason::wider_verdict, HAWSER_REASON_WIDER_VERDICT) &&
              same(hawser::Reason::session_ended, HAWSER_REASON_SESSION_ENDED) &&
              same(hawser::Reason::no_way, HAWSER_REASON_NO_WAY) &&
              same(hawser::Reason::awaits_path, HAWSER_REASON_AWAITS_PATH) &&
              same(hawser::Reason::awaits_answer, HAWSER_REASON_AWAITS_ANSWER) &&
              same(hawser::Reason::awaits_fragments, HAWSER_REASON_AWAITS_FRAGMENTS) &&
              same(hawser::Reason::awaits_message, HAWSER_REASON_AWAITS_MESSAGE) &&
              same(hawser::Reason::no_place, HAWSER_REASON_NO_PLACE) &&
              same(hawser::Reason::never_heard, HAWSER_REASON_NEVER_HEARD) &&
              same(hawser::Reason::unheard, HAWSER_REASON_UNHEARD) &&
              same(hawser::Reason::one_way, HAWSER_REASON_ONE_WAY) &&
              same(hawser::Reason::nics_down, HAWSER_REASON_NICS_DOWN) &&
              same(hawser::Reason::stale_epoch, HAWSER_REASON_STALE_EPOCH) &&
              same(hawser::Reason::gave_up, HAWSER_REASON_GAVE_UP));
static_assert(same(hawser::TraceKind::packet_sent, HAWSER_TRACE_PACKET_SENT) &&
              same(hawser::TraceKind::packet_retransmitted, HAWSER_TRACE_PACKET_RETRANSMITTED) &&
              same(hawser::TraceKind::packet_received, HAWSER_TRACE_PACKET_RECEIVED) &&
              same(hawser::TraceKind::packet_dropped, HAWSER_TRACE_PACKET_DROPPED) &&
              same(hawser::TraceKind::packet_acknowledged, HAWSER_TRACE_PACKET_ACKNOWLEDGED) &&
              same(hawser::TraceKind::packet_lost, HAWSER_TRACE_PACKET_LOST) &&
              same(hawser::TraceKind::packet_late, HAWSER_TRACE_PACKET_LATE) &&
              same(hawser::TraceKind::request_sent, HAWSER_TRACE_REQUEST_SENT) &&
              same(hawser::TraceKind::request_received, HAWSER_TRACE_REQUEST_RECEIVED) &&
              same(hawser::TraceKind::grant_given, HAWSER_TRACE_GRANT_GIVEN) &&
              same(hawser::TraceKind::grant_received, HAWSER_TRACE_GRANT_RECEIVED) &&
              same(hawser::TraceKind::pto, HAWSER_TRACE_PTO) &&
              same(hawser::TraceKind::path_probe, HAWSER_TRACE_PATH_PROBE) &&
              same(hawser::TraceKind::message_probe, HAWSER_TRACE_MESSAGE_PROBE) &&
              same(hawser::TraceKind::path_state, HAWSER_TRACE_PATH_STATE) &&
              same(hawser::TraceKind::session_state, HAWSER_TRACE_SESSION_STATE) &&
              same(hawser::TraceKind::message_begun, HAWSER_TRACE_MESSAGE_BEGUN) &&
              same(hawser::TraceKind::message_status, HAWSER_TRACE_MESSAGE_STATUS) &&
              same(hawser::TraceKind::send_completed, HAWSER_TRACE_SEND_COMPLETED) &&
              same(hawser::TraceKind::receive_completed, HAWSER_TRACE_RECEIVE_COMPLETED));
static_assert(same(hawser::Reason::count_, HAWSER_REASON_GAVE_UP + 1) &&
                  same(hawser::TraceKind::count_, HAWSER_TRACE_RECEIVE_COMPLETED + 1) &&
                  same(hawser::Event::Kind::count_, HAWSER_PEER_REFUSED + 1),
              "hawser.h lacks an enumerator");
static_assert(same(hawser::Blame::nobody, HAWSER_BLAME_NOBODY) &&
              same(hawser::Blame::local_nic, HAWSER_BLAME_LOCAL_NIC) &&
              same(hawser::Blame::remote_nic, HAWSER_BLAME_REMOTE_NIC) &&
              same(hawser::Blame::link, HAWSER_BLAME_LINK));
// The sizes are part of the ABI.
static_assert(sizeof(hawser_nic_stats) == 160 && sizeof(hawser_path_stats) == 72 &&
              sizeof(hawser_peer_stats) == 40 && sizeof(hawser_event) == 40 &&
              sizeof(hawser_verdict) == 24 &&
              sizeof(hawser_trace_record) == sizeof(hawser::TraceRecord));

// Events converted per batch, kept few because they lie on a stack that may be small.
constexpr std::size_t kEvents = 16;

// ---- the array of statistics: counters, gauges, drops

struct Gauge {
  std::string_view name;
  std::string_view text;
  std::uint64_t hawser::EndpointStats::*field;
};
constexpr auto kGauges = std::to_array<Gauge>({
    {"operations_pending", "operations accepted and not yet completed",
     &hawser::EndpointStats::operations_pending},
    {"packets_in_flight", "unacknowledged packets", &hawser::EndpointStats::packets_in_flight},
    {"sends_unreleased", "completed sends whose bytes a NIC still holds",
     &hawser::EndpointStats::sends_unreleased},
    {"buffers_in_use", "packet buffers outside the pool", &hawser::EndpointStats::buffers_in_use},
    {"unexpected_bytes_held", "payload bytes that wait for their receive",
     &hawser::EndpointStats::unexpected_bytes_held},
    {"messages_unmatched", "messages without a receive, claimed ones included",
     &hawser::EndpointStats::messages_unmatched},
    {"messages_claimed", "claimed messages", &hawser::EndpointStats::messages_claimed},
    {"regions_exposed", "regions exposed, and withdrawn ones that a NIC still reads from",
     &hawser::EndpointStats::regions_exposed},
    {"replies_pending", "replies to peers' reads and fetching atomics, not released yet",
     &hawser::EndpointStats::replies_pending},
    {"peers_awake", "peers with their full state", &hawser::EndpointStats::peers_awake},
    {"peers_at_rest", "resting peers, kept only as a record of their session",
     &hawser::EndpointStats::peers_at_rest},
    {"registrations", "registrations of memory, by the program and by the cache",
     &hawser::EndpointStats::registrations},
    {"registered_bytes", "bytes of registered memory", &hawser::EndpointStats::registered_bytes},
});
constexpr std::size_t kGaugesAt = hawser::kCounters.size();
constexpr std::size_t kDropsAt = kGaugesAt + kGauges.size();
constexpr std::size_t kStats = kDropsAt + hawser::kDropReasons;
static_assert(kStats * sizeof(std::uint64_t) == sizeof(hawser::EndpointStats),
              "kGauges lacks a gauge");

std::uint64_t stat_of(const hawser::EndpointStats& stats, std::size_t i) {
  if (i < kGaugesAt) return stats.*hawser::kCounters[i].field;
  if (i < kDropsAt) return stats.*kGauges[i - kGaugesAt].field;
  return stats.drops[i - kDropsAt];
}

hawser_nic_stats nic_stats_of(const hawser::NicStats& from) {
  hawser_nic_stats to{};
  copy_text(from.name, to.name, sizeof to.name);
  to.packets_sent = from.packets_sent;
  to.data_packets_sent = from.data_packets_sent;
  to.bytes_sent = from.bytes_sent;
  to.packets_received = from.packets_received;
  to.bytes_received = from.bytes_received;
  to.packets_lost = from.packets_lost;
  to.retransmits = from.retransmits;
  to.overruns = from.overruns;
  to.srtt_ns = from.srtt_ns;
  to.window_bytes = from.window_bytes;
  to.bytes_in_flight = from.bytes_in_flight;
  to.state = static_cast<hawser_path_state>(from.state);
  return to;
}

// Returns the name of an enumeration's value, or "?".
template <class Rows>
const char* name_in(const Rows& rows, std::size_t value) {
  return value < rows.size() ? rows[value].name.data() : "?";
}

hawser_event event_of(const hawser::Event& from) {
  hawser_event to{};
  to.endpoint_id = from.endpoint_id;
  to.time_ns = from.time_ns;
  to.number = from.number;
  to.peer = static_cast<hawser_peer>(from.peer);
  to.kind = static_cast<hawser_event_kind>(from.kind);
  to.reason = static_cast<hawser_reason>(from.reason);
  to.status = code(from.status);
  to.blame = static_cast<hawser_blame>(from.blame);
  to.nic = from.nic;
  to.remote_nic = from.remote_nic;
  return to;
}

hawser_path_stats path_stats_of(const hawser::PathStats& from) {
  hawser_path_stats to{};
  to.srtt_ns = from.srtt_ns;
  to.rttvar_ns = from.rttvar_ns;
  to.min_fabric_delay_ns = from.min_fabric_delay_ns;
  to.delivered_bytes = from.delivered_bytes;
  to.window_bytes = from.window_bytes;
  to.bytes_in_flight = from.bytes_in_flight;
  to.packets_sent = from.packets_sent;
  to.packets_lost = from.packets_lost;
  to.slot = from.slot;
  to.generation = from.generation;
  to.local_nic = from.local_nic;
  to.remote_nic = from.remote_nic;
  to.state = static_cast<hawser_path_state>(from.state);
  return to;
}

}  // namespace

void hawser::c_api::call_trace_hook(void* context, const hawser::TraceRecord& record) {
  const auto& endpoint = *static_cast<const hawser_endpoint*>(context);
  const auto copy = std::bit_cast<hawser_trace_record>(record);
  endpoint.trace(endpoint.trace_context, &copy);
}

extern "C" {

int hawser_stat_row(size_t i, const char** name, const char** text) {
  if (i >= kStats) return 0;
  std::string_view what;
  std::string_view why;
  if (i < kGaugesAt) {
    what = hawser::kCounters[i].name;
    why = hawser::kCounters[i].text;
  } else if (i < kDropsAt) {
    what = kGauges[i - kGaugesAt].name;
    why = kGauges[i - kGaugesAt].text;
  } else {
    what = hawser::kDropReasonTexts[i - kDropsAt].name;
    why = hawser::kDropReasonTexts[i - kDropsAt].text;
  }
  if (name != nullptr) *name = what.data();
  if (text != nullptr) *text = why.data();
  return 1;
}

hawser_status hawser_stats(const hawser_endpoint* endpoint, uint64_t* values, size_t count) {
  return guarded(nullptr, 0, [&]() -> hawser_status {
    const hawser::EndpointStats stats = endpoint->endpoint->stats();
    for (std::size_t i = 0; i < std::min(count, kStats); ++i) values[i] = stat_of(stats, i);
    return HAWSER_OK;
  });
}

hawser_status hawser_endpoint_nic_stats(const hawser_endpoint* endpoint, hawser_nic_stats* nics,
                                        size_t* count) {
  return guarded(nullptr, 0, [&]() -> hawser_status {
    const auto stats = endpoint->endpoint->nic_stats();
    const std::size_t room = std::min(*count, stats.size());
    for (std::size_t i = 0; i < room; ++i) nics[i] = nic_stats_of(stats[i]);
    *count = stats.size();
    return HAWSER_OK;
  });
}

hawser_status hawser_endpoint_peer_stats(const hawser_endpoint* endpoint, hawser_peer peer,
                                         hawser_peer_stats* stats, hawser_path_stats* paths,
                                         size_t* count) {
  return guarded(nullptr, 0, [&]() -> hawser_status {
    hawser::PeerStats found;
    const Status status = endpoint->endpoint->peer_stats(hawser::PeerId{peer}, found);
    if (status != Status::ok) return code(status);
    *stats = {};
    stats->endpoint_id = found.endpoint_id;
    stats->sends_pending = found.sends_pending;
    stats->last_heard_ns_ago = found.last_heard_ns_ago;
    stats->established = found.established ? 1 : 0;
    stats->at_rest = found.at_rest ? 1 : 0;
    stats->failure = code(found.failure);
    stats->fragment_bytes = found.fragment_bytes;
    stats->session_bytes = found.session_bytes;
    stats->failure_reason = static_cast<std::uint8_t>(found.failure_reason);
    const std::size_t room = std::min(*count, found.paths.size());
    for (std::size_t i = 0; i < room; ++i) paths[i] = path_stats_of(found.paths[i]);
    *count = found.paths.size();
    return HAWSER_OK;
  });
}

size_t hawser_poll_events(hawser_endpoint* endpoint, hawser_event* events, size_t count) {
  std::array<hawser::Event, kEvents> batch;
  std::size_t done = 0;
  while (done < count) {
    const std::size_t n =
        endpoint->endpoint->poll_events(std::span(batch).first(std::min(count - done, kEvents)));
    if (n == 0) break;
    for (const hawser::Event& from : std::span(batch).first(n)) events[done++] = event_of(from);
  }
  return done;
}

hawser_status hawser_endpoint_verdicts(const hawser_endpoint* endpoint, hawser_verdict* verdicts,
                                       size_t* count) {
  return guarded(nullptr, 0, [&]() -> hawser_status {
    const auto standing = endpoint->endpoint->verdicts();
    for (std::size_t i = 0; i < std::min(*count, standing.size()); ++i) {
      const hawser::Verdict& from = standing[i];
      verdicts[i] = {from.endpoint_id,
                     from.since_ns,
                     static_cast<hawser_peer>(from.peer),
                     static_cast<hawser_blame>(from.blame),
                     static_cast<hawser_reason>(from.reason),
                     from.nic,
                     from.remote_nic};
    }
    *count = standing.size();
    return HAWSER_OK;
  });
}

const char* hawser_event_name(hawser_event_kind kind) { return name_in(hawser::kEventTexts, kind); }

const char* hawser_reason_name(hawser_reason reason) {
  return name_in(hawser::kReasonTexts, reason);
}

const char* hawser_reason_text(hawser_reason reason) {
  return reason < hawser::kReasonTexts.size() ? hawser::kReasonTexts[reason].text.data() : "?";
}

const char* hawser_trace_kind_name(hawser_trace_kind kind) {
  return name_in(hawser::kTraceKindTexts, kind);
}

const char* hawser_trace_cause_name(hawser_trace_kind kind, uint8_t cause) {
  if (kind >= hawser::kTraceKinds) return "?";
  return hawser::trace_cause_name(static_cast<hawser::TraceKind>(kind), cause).data();
}

}  // extern "C"
