// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/timeline.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "hawser/stats.hpp"
#include "sim/storm/plan_check.hpp"
#include "tool/storm/commit.hpp"
#include "tool/storm/plan_text.hpp"

namespace hawser::tool {
namespace {

using sim::Happening;
using Kind = sim::Happening::Kind;

std::string peer_name(const TraceRecord& record) {
  return record.endpoint_id == 0 ? "a stranger"
                                 : host_name(static_cast<std::uint32_t>(record.endpoint_id - 1));
}

bool has_operation(const Happening& happening) {
  return happening.record.operation != kNoTraceNumber;
}

// "h0.n1 to h1.n0, slot 3.1", as the sender of the packet sees it.
std::string path_text(const Happening& happening) {
  const TraceRecord& record = happening.record;
  std::string text;
  if (record.nic != kNoTraceNic) text = nic_name(happening.host, record.nic);
  if (record.remote_nic != kNoTraceNic) {
    const std::string other = fmt::format("{}.n{}", peer_name(record), record.remote_nic);
    text =
        record.kind == TraceKind::packet_received ? other + " to " + text : text + " to " + other;
  }
  if (record.slot != kNoTraceNic) {
    text += fmt::format(", slot {}.{}", record.slot, record.generation);
  }
  return text.empty() ? text : " (" + text + ")";
}

std::string piece_text(const TraceRecord& record, std::uint32_t message) {
  std::string text;
  if (message != Subjects::kNone) {
    text = fmt::format(", message {}", message);
  } else if (record.message != kNoTraceNumber) {
    text = fmt::format(", their number {}", record.message);
  }
  if (record.fragment != kNoTraceIndex) text += fmt::format(", fragment {}", record.fragment);
  return text;
}

// The text for records whose detail says more than a number.
std::string outcome_text(const TraceRecord& record) {
  const std::string_view cause = trace_cause_name(record.kind, record.cause);
  switch (record.kind) {
    case TraceKind::path_state:
      return fmt::format(" {} ({})", to_string(static_cast<PathState>(record.detail)), cause);
    case TraceKind::session_state: {
      static constexpr std::array<std::string_view, 5> kNames{"idle", "calling", "answered",
                                                              "ready", "FAILED"};
      const bool failed = record.detail == static_cast<std::uint32_t>(TraceSession::failed);
      return fmt::format(" {}{}{}", record.detail < 5 ? kNames[record.detail] : "?",
                         failed ? ": " : "", failed ? cause : "");
    }
    case TraceKind::packet_acknowledged: return fmt::format(" after {} us", record.detail);
    case TraceKind::grant_given:
    case TraceKind::grant_received: return fmt::format(" below {}", record.detail);
    case TraceKind::pto: return fmt::format(", {} in a row", record.detail);
    case TraceKind::send_completed:
      return fmt::format(": {}{}", cause, record.detail == 1 ? "" : ", not released");
    default: return cause.empty() ? "" : fmt::format(": {}", cause);
  }
}

std::string traced_text(const sim::Plan& plan, const Happening& happening, std::uint32_t message,
                        std::uint32_t receive) {
  const TraceRecord& record = happening.record;
  std::string text(kTraceKindTexts[static_cast<std::size_t>(record.kind)].name);
  text += outcome_text(record);
  switch (record.kind) {
    case TraceKind::message_begun:
    case TraceKind::send_completed:
      if (message != Subjects::kNone) return text + ", " + message_text(plan, message);
      break;
    case TraceKind::receive_completed:
      if (receive != Subjects::kNone) text += fmt::format(", receive {}", receive);
      if (record.message == kNoTraceNumber) return text;
      return text + fmt::format(", number {} of {}", record.message, peer_name(record));
    default: break;
  }
  if (record.peer != kNoTraceIndex) text += ", peer " + peer_name(record);
  if (record.path_number != kNoTraceNumber) text += fmt::format(", packet {}", record.path_number);
  return text + path_text(happening) + piece_text(record, message);
}

// When the last operation completed or the judge gave up, or the last event if that came later.
proto::Duration end_of(const sim::Recording& recording, const ApartOutcome& outcome) {
  const proto::Duration last =
      recording.size() > 0 ? recording.at(recording.size() - 1).at : proto::Duration{};
  return outcome.ended ? std::max(last, outcome.lasted) : last;
}

}  // namespace

Subjects::Subjects(const sim::Recording& recording)
    : index_(recording.size(), kNone), is_receive_(recording.size(), false) {
  struct Subject {
    std::uint32_t index = kNone;
    bool is_receive = false;
    std::uint64_t begun = ~std::uint64_t{0};  // where the trace mentioned it before it had a name
  };
  // The operations of a process that was started again have the same names as its predecessor's.
  std::vector<std::unordered_map<std::uint64_t, Subject>> known;
  for (std::uint64_t i = 0; i < recording.size(); ++i) {
    const Happening& happening = recording.at(i);
    if (known.size() <= happening.host) known.resize(happening.host + 1);
    switch (happening.kind) {
      case Kind::posted_send:
      case Kind::posted_receive: {
        Subject& subject = known[happening.host][happening.record.operation];
        subject.index = happening.index;
        subject.is_receive = happening.kind == Kind::posted_receive;
        if (subject.begun < i) index_[subject.begun] = subject.index;
        break;
      }
      case Kind::traced: {
        if (!has_operation(happening)) break;
        Subject& subject = known[happening.host][happening.record.operation];
        if (happening.record.kind == TraceKind::message_begun) {
          subject = {kNone, false, i};
          break;
        }
        index_[i] = subject.index;
        is_receive_[i] = subject.is_receive;
        break;
      }
      default: break;
    }
  }
}

bool is_detail(const Happening& happening) {
  if (happening.kind != Kind::traced) return false;
  switch (happening.record.kind) {
    case TraceKind::packet_retransmitted:
    case TraceKind::packet_lost:
    case TraceKind::packet_late:
    case TraceKind::request_sent:
    case TraceKind::pto:
    case TraceKind::path_state:
    case TraceKind::session_state:
    case TraceKind::message_status:
    case TraceKind::send_completed:
    case TraceKind::receive_completed: return false;
    default: return true;  // message_begun is left out too, as the message's post is shown
  }
}

bool is_shown(const Happening& happening, const TraceOptions& options) {
  const double at = 1e-6 * static_cast<double>(happening.at.ns);
  return at >= options.from_ms && at <= options.to_ms && (options.packets || !is_detail(happening));
}

std::string happening_text(const sim::Plan& plan, const sim::Recording& recording,
                           const Subjects& subjects, std::uint64_t i) {
  const Happening& happening = recording.at(i);
  const TraceRecord& record = happening.record;
  switch (happening.kind) {
    case Kind::traced:
      return traced_text(plan, happening, subjects.message(i), subjects.receive(i));
    case Kind::fault_begins:
      return fmt::format("FAULT {} begins: {}", happening.index,
                         fault_text(plan.faults[happening.index]));
    case Kind::fault_ends:
      return fmt::format("FAULT {} ends: {}", happening.index,
                         fault_text(plan.faults[happening.index]));
    case Kind::heals: return "ALL IS HEALED; every operation must now come to its end";
    case Kind::posted_send: return "posts " + message_text(plan, happening.index);
    case Kind::posted_receive:
      return fmt::format("posts receive {} from {}, {} bytes, tag {}", happening.index,
                         record.endpoint_id == 0 ? "anyone" : peer_name(record), record.bytes,
                         record.message);
    case Kind::posted_one_sided: return "posts " + one_sided_text(plan, happening.index);
    case Kind::cancels_send: return "cancels " + message_text(plan, happening.index);
    case Kind::closes: return "CLOSES";
    case Kind::disconnects: return "DISCONNECTS " + host_name(happening.index);
    case Kind::left: return "has closed, and is gone";
    case Kind::cancels_receive: return fmt::format("cancels receive {}", happening.index);
  }
  return "?";
}

void write_timeline(std::ostream& out, const sim::Plan& plan, const sim::Recording& recording,
                    const Subjects& subjects, const ApartOutcome& outcome,
                    const TraceOptions& options) {
  out << fmt::format("storm of seed {}, commit {}\n\n{}\n", plan.seed, commit(), plan_text(plan));
  if (recording.lost() > 0) {
    out << fmt::format("the first {} entries exceeded the limit and are left out\n",
                       recording.lost());
  }
  std::uint64_t hidden = 0;
  for (std::uint64_t i = 0; i < recording.size(); ++i) {
    const Happening& happening = recording.at(i);
    if (!is_shown(happening, options)) {
      ++hidden;
      continue;
    }
    const bool of_host =
        happening.kind != Kind::heals &&
        !(happening.kind != Kind::traced &&
          (happening.kind == Kind::fault_begins || happening.kind == Kind::fault_ends));
    out << fmt::format("{}  {:<4}{}\n", time_text(happening.at),
                       of_host ? host_name(happening.host) : "",
                       happening_text(plan, recording, subjects, i));
  }
  const std::string_view verdict = outcome.interrupted       ? "interrupted"
                                   : outcome.verdict.empty() ? "nothing is wrong"
                                                             : std::string_view(outcome.verdict);
  out << fmt::format("{}  THE JUDGE: {}\n", time_text(end_of(recording, outcome)), verdict)
      << fmt::format("\n{} entries, {} of them not shown\nverdict: {}\n", recording.size(), hidden,
                     verdict);
}

}  // namespace hawser::tool
