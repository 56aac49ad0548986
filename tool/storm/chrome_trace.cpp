// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/chrome_trace.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hawser/stats.hpp"
#include "sim/storm/plan_check.hpp"
#include "tool/storm/plan_text.hpp"
#include "tool/utf8.hpp"

namespace hawser::tool {
namespace {

using sim::Happening;
using Json = nlohmann::json;
using Kind = sim::Happening::Kind;

constexpr int kEndpointThread = 1;
constexpr int kFirstNicThread = 10;
constexpr std::int64_t kCounterSteps = 2000;  // at most this many values of a counter

int process_of(std::uint32_t host) { return static_cast<int>(host) + 1; }

class ChromeTrace {
 public:
  ChromeTrace(const sim::Plan& plan, const sim::Recording& recording, const Subjects& subjects,
              const TraceOptions& options)
      : plan_(plan),
        recording_(recording),
        subjects_(subjects),
        options_(options),
        fabric_(process_of(static_cast<std::uint32_t>(plan.hosts.size()))),
        counters_(plan.hosts.size()) {
    begin_ns_ = static_cast<std::int64_t>(options.from_ms * 1e6);
    const std::int64_t last = recording.size() == 0 ? 0 : recording.at(recording.size() - 1).at.ns;
    end_ns_ = std::max(
        begin_ns_, std::min(last, static_cast<std::int64_t>(std::min(options.to_ms, 1e9) * 1e6)));
  }

  void write(std::ostream& out) {
    name_everything();
    for (std::uint64_t i = 0; i < recording_.size(); ++i) take(i);
    while (!open_.empty()) close(std::string(open_.begin()->first), end_ns_);
    for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) show_counters(host, end_ns_);
    // The end of a span comes before events that begin at the same moment.
    std::ranges::stable_sort(
        events_, {}, [](const Timed& event) { return std::pair(event.at_ns, event.order); });
    out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    for (std::size_t i = 0; i < events_.size(); ++i) {
      out << events_[i].text << (i + 1 < events_.size() ? ",\n" : "\n");
    }
    out << "]}\n";
  }

 private:
  struct Timed {
    std::int64_t at_ns;
    std::int64_t order;
    std::string text;  // an object's text takes a quarter of its memory
  };
  struct Span {
    std::int64_t begin_ns = 0;
    int process = 0;
    std::string category;
    std::string name;
  };
  struct Counters {
    std::int64_t shown_ns = -1;
    std::map<std::uint32_t, std::int64_t> in_flight;  // by peer
    std::uint64_t sent = 0;
    std::uint64_t retransmitted = 0;
    std::uint64_t lost = 0;
    bool changed = false;
  };

  void add(std::int64_t at_ns, std::int64_t order, Json json) {
    json["ts"] = static_cast<double>(at_ns) / 1e3;  // in microseconds, says the format
    events_.push_back({at_ns, order, json_text(json)});
  }

  // ---- names
  void name(int process, int thread, const char* what, const Json& arguments) {
    const Json json{{"ph", "M"}, {"pid", process}, {"tid", thread},
                    {"ts", 0},   {"name", what},   {"args", arguments}};
    events_.push_back({-1, 0, json_text(json)});
  }
  void name_everything() {
    for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) {
      const int process = process_of(host);
      name(process, 0, "process_name", {{"name", host_name(host)}});
      name(process, 0, "process_sort_index", {{"sort_index", process}});
      name(process, kEndpointThread, "thread_name", {{"name", "endpoint"}});
      for (std::uint32_t nic = 0; nic < plan_.hosts[host].nics.size(); ++nic) {
        name(process, kFirstNicThread + static_cast<int>(nic), "thread_name",
             {{"name", fmt::format("NIC {}", nic)}});
      }
    }
    name(fabric_, 0, "process_name", {{"name", "fabric"}});
    name(fabric_, kEndpointThread, "thread_name", {{"name", "faults"}});
  }

  // ---- spans
  void open(const std::string& id, std::int64_t at_ns, int process, std::string category,
            std::string what) {
    if (open_.contains(id)) close(id, at_ns);
    open_[id] = {at_ns, process, std::move(category), std::move(what)};
  }
  void close(const std::string& id, std::int64_t at_ns, std::string_view outcome = {}) {
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    const Span span = std::move(found->second);
    open_.erase(found);
    if (span.begin_ns > end_ns_ || at_ns < begin_ns_) return;
    // Each span gets its own id, since spans of states follow one another.
    const std::string unique = fmt::format("0x{:x}", ++spans_);
    Json edge{{"pid", span.process},
              {"tid", kEndpointThread},
              {"cat", span.category},
              {"id", unique},
              {"name", span.name}};
    edge["ph"] = "b";
    edge["args"] = {{"what", id}};
    add(std::max(span.begin_ns, begin_ns_), 2 * static_cast<std::int64_t>(spans_), edge);
    edge["ph"] = "e";
    edge["args"] = {{"outcome", outcome}};
    add(std::min(at_ns, end_ns_), 2 * static_cast<std::int64_t>(spans_) + 1, edge);
  }

  // The spans of a process end with it; the spans of faults stay.
  void die(std::uint32_t host, std::int64_t at_ns) {
    std::vector<std::string> gone;
    for (const auto& [id, span] : open_) {
      if (span.process == process_of(host) && span.category != "fault") gone.push_back(id);
    }
    for (const std::string& id : gone) close(id, at_ns, "the process died");
    counters_[host].in_flight.clear();
    counters_[host].changed = true;
  }

  // ---- what happens
  void take(std::uint64_t i) {
    const Happening& happening = recording_.at(i);
    const std::int64_t at = happening.at.ns;
    const int process = process_of(happening.host);
    switch (happening.kind) {
      case Kind::fault_begins: {
        const sim::FaultPlan& fault = plan_.faults[happening.index];
        open(fmt::format("fault {}", happening.index), at,
             sim::is_of_cable(fault) ? fabric_ : process, "fault", fault_text(fault));
        if (fault.kind == sim::FaultKind::crash || fault.kind == sim::FaultKind::restart ||
            fault.kind == sim::FaultKind::stale_epoch) {
          die(happening.host, at);
        }
        return;
      }
      case Kind::fault_ends: return close(fmt::format("fault {}", happening.index), at);
      case Kind::heals: return instant(at, fabric_, kEndpointThread, "all is healed", "g", i);
      case Kind::posted_send:
        return open(fmt::format("message {}", happening.index), at, process, "message",
                    message_text(plan_, happening.index));
      case Kind::posted_receive:
        return open(fmt::format("receive {} of h{}", happening.index, happening.host), at, process,
                    "receive", fmt::format("receive {}", happening.index));
      case Kind::posted_one_sided:
        return instant(at, process, kEndpointThread, "one-sided", "t", i);
      case Kind::cancels_send:
      case Kind::cancels_receive: return instant(at, process, kEndpointThread, "cancel", "t", i);
      case Kind::closes: return instant(at, process, kEndpointThread, "closes", "p", i);
      case Kind::disconnects: return instant(at, process, kEndpointThread, "disconnects", "p", i);
      case Kind::left: return die(happening.host, at);
      case Kind::traced: return take_record(i, happening);
    }
  }

  void take_record(std::uint64_t i, const Happening& happening) {
    const TraceRecord& record = happening.record;
    const std::int64_t at = happening.at.ns;
    const std::string_view cause = trace_cause_name(record.kind, record.cause);
    switch (record.kind) {
      case TraceKind::send_completed:
        if (subjects_.message(i) != Subjects::kNone) {
          close(fmt::format("message {}", subjects_.message(i)), at, cause);
        }
        break;
      case TraceKind::receive_completed:
        if (subjects_.receive(i) != Subjects::kNone) {
          close(fmt::format("receive {} of h{}", subjects_.receive(i), happening.host), at, cause);
        }
        break;
      case TraceKind::session_state: session(happening); break;
      case TraceKind::path_state: path(happening); break;
      default: break;
    }
    count(happening);
    if (is_shown(happening, options_)) {
      const bool of_nic = record.nic != kNoTraceNic;
      const std::string_view what = kTraceKindTexts[static_cast<std::size_t>(record.kind)].name;
      instant(at, process_of(happening.host),
              of_nic ? kFirstNicThread + record.nic : kEndpointThread, std::string(what), "t", i);
    }
  }

  void session(const Happening& happening) {
    static constexpr std::array<std::string_view, 5> kNames{"idle", "calling", "answered", "ready",
                                                            "failed"};
    const TraceRecord& record = happening.record;
    const std::string id = fmt::format("session of h{} with peer {}", happening.host, record.peer);
    if (record.detail >= kNames.size() || record.detail == 0) return close(id, happening.at.ns);
    open(id, happening.at.ns, process_of(happening.host), "session",
         fmt::format("session with h{}: {}", record.endpoint_id - 1, kNames[record.detail]));
  }

  void path(const Happening& happening) {
    const TraceRecord& record = happening.record;
    const std::string id =
        fmt::format("path of h{} to peer {}, slot {}", happening.host, record.peer, record.slot);
    const auto state = static_cast<PathState>(record.detail);
    if (state == PathState::up) return close(id, happening.at.ns);  // UP is the usual state
    open(id, happening.at.ns, process_of(happening.host), "path",
         fmt::format("{} to h{}.n{}: {} ({})", nic_name(happening.host, record.nic),
                     record.endpoint_id - 1, record.remote_nic, to_string(state),
                     trace_cause_name(record.kind, record.cause)));
  }

  void instant(std::int64_t at_ns, int process, int thread, const std::string& what,
               const char* scope, std::uint64_t i) {
    if (at_ns < begin_ns_ || at_ns > end_ns_) return;
    add(at_ns, 0,
        {{"ph", "i"},
         {"s", scope},
         {"pid", process},
         {"tid", thread},
         {"cat", "event"},
         {"name", what},
         {"args", {{"text", happening_text(plan_, recording_, subjects_, i)}}}});
  }

  // ---- counters
  void count(const Happening& happening) {
    Counters& counters = counters_[happening.host];
    switch (happening.record.kind) {
      case TraceKind::packet_retransmitted: ++counters.retransmitted; [[fallthrough]];
      case TraceKind::packet_sent: ++counters.sent; [[fallthrough]];
      case TraceKind::path_probe: ++counters.in_flight[happening.record.peer]; break;
      case TraceKind::packet_lost: ++counters.lost; [[fallthrough]];
      case TraceKind::packet_acknowledged: --counters.in_flight[happening.record.peer]; break;
      case TraceKind::session_state: counters.in_flight.erase(happening.record.peer); break;
      default: return;
    }
    counters.changed = true;
    const std::int64_t step = std::max<std::int64_t>((end_ns_ - begin_ns_) / kCounterSteps, 1);
    if (counters.shown_ns < 0 || happening.at.ns - counters.shown_ns >= step) {
      show_counters(happening.host, happening.at.ns);
    }
  }
  void show_counters(std::uint32_t host, std::int64_t at_ns) {
    Counters& counters = counters_[host];
    if (!counters.changed || at_ns < begin_ns_ || at_ns > end_ns_) return;
    counters.shown_ns = at_ns;
    counters.changed = false;
    const auto show = [&](const char* what, const Json& values) {
      add(at_ns, 0,
          {{"ph", "C"}, {"pid", process_of(host)}, {"tid", 0}, {"name", what}, {"args", values}});
    };
    std::int64_t in_flight = 0;
    for (const auto& [peer, packets] : counters.in_flight) in_flight += packets;
    show("packets in flight", {{"packets", std::max<std::int64_t>(in_flight, 0)}});
    show("packets", {{"sent", counters.sent},
                     {"retransmitted", counters.retransmitted},
                     {"lost", counters.lost}});
  }

  const sim::Plan& plan_;
  const sim::Recording& recording_;
  const Subjects& subjects_;
  const TraceOptions& options_;
  int fabric_;
  std::int64_t begin_ns_ = 0;
  std::int64_t end_ns_ = 0;
  std::vector<Counters> counters_;
  std::map<std::string, Span> open_;
  std::uint64_t spans_ = 0;
  std::vector<Timed> events_;
};

}  // namespace

void write_chrome_trace(std::ostream& out, const sim::Plan& plan, const sim::Recording& recording,
                        const Subjects& subjects, const TraceOptions& options) {
  ChromeTrace(plan, recording, subjects, options).write(out);
}

}  // namespace hawser::tool
