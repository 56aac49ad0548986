// SPDX-License-Identifier: Apache-2.0
#include "tool/run/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>

#include "engine/host/processors.hpp"
#include "hawser/collectives.hpp"
#include "hawser/engine.hpp"
#include "tool/error.hpp"
#include "tool/run/clock.hpp"
#include "tool/run/collectives.hpp"
#include "tool/run/exposure.hpp"
#include "tool/run/gathering.hpp"
#include "tool/run/interruption.hpp"
#include "tool/run/memory.hpp"
#include "tool/run/monitor.hpp"
#include "tool/run/replay.hpp"
#include "tool/run/trace_file.hpp"
#include "tool/run/transfers.hpp"
#include "tool/run/verbs_words.hpp"

namespace hawser::tool {
namespace {

// How long operations that are pending at the end may take before they count as leaked.
constexpr std::uint64_t kSettleNs = 3'000'000'000;
constexpr std::uint64_t kSettleTurnNs = 1'000'000;

void take_figures(const EndpointStats& stats, RankResult& result) {
  for (const CounterRow& row : kCounters) result.counters[std::string(row.name)] = stats.*row.field;
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    if (stats.drops[i] > 0) result.drops[std::string(kDropReasonTexts[i].name)] = stats.drops[i];
  }
  result.operations_left = stats.operations_pending;
  result.buffers_left = stats.buffers_in_use;
  result.unexpected_bytes_left = stats.unexpected_bytes_held;
  result.peak_memory_bytes = peak_memory_bytes();
}

// Waits until all operations have completed and every packet buffer was back for a moment. Packets
// may be in flight for ever: paths that are down are probed. Returns that moment's figures.
EndpointStats settle(coll::CompletionRouter& router, const Endpoint& endpoint, Monitor& monitor) {
  const std::uint64_t deadline = now_ns() + kSettleNs;
  for (;;) {
    const EndpointStats stats = endpoint.stats();
    const bool quiet = stats.operations_pending == 0 && stats.buffers_in_use == 0;
    if (quiet || now_ns() >= deadline || asked_to_end() != 0) return stats;
    router.wait(kSettleTurnNs);
    monitor.tick(now_ns());
  }
}

// The parts of a rank, in the order in which they must be made. They are destroyed in reverse.
class RankRun {
 public:
  RankRun(const RunOptions& options, const RankConfig& config, MessageSink& sink,
          RankResult& result)
      : options_(options),
        config_(config),
        sink_(sink),
        result_(result),
        schedule_(make_schedule(workload_of(options), options.ranks, options.scale)),
        budget_(batch_budget(options, schedule_, memory_room(), config.local_ranks)),
        arena_(arena_bytes(schedule_, budget_)),
        exposure_(make_exposure()),
        trace_(options.trace.empty() ? nullptr
                                     : std::make_unique<TraceFile>(trace_file_name(
                                           options.trace, config.rank, config.life))),
        engine_(
            {config.nics, options.threads, options.tunables, options.engine_faults(config.rank)}),
        verbs_ports_(verbs_ports_of(config.nics)),
        endpoint_(engine_.create_endpoint({config.rank + 1, config.epoch, config.job_secret,
                                           trace_ ? TraceFile::hook : nullptr, trace_.get()})) {}

  void run(std::uint64_t started) {
    coll::CompletionRouter router(*endpoint_);
    Gathering gathering(options_, config_.rank, config_.exchange, router, asked_to_end());
    gathering.meet();
    remember_counts();
    // From here on a signal ends the rank in good order; before, it simply killed it.
    listen_for_signals();
    paths_.emplace(*endpoint_);
    monitor_.emplace(
        options_, config_.rank, config_.life,
        [this](std::size_t nic, std::string_view words) {
          return engine_.inject_fault(nic, words);
        },
        *endpoint_, *paths_, sink_);
    gathering.on_tick([this] { monitor_->tick(now_ns()); });
    Replay replay(options_, schedule_, config_.rank, budget_, arena_, *monitor_, result_);
    result_.begun_ns = now_ns();
    monitor_->begin_run(result_.begun_ns);
    result_.setup_ns = result_.begun_ns - started;
    while (const auto failure = replay_from(gathering, router, replay)) {
      recover(*failure, gathering, replay);
    }
    take_sizes(gathering.peers());
    // Taken while the others are still there: without them a NIC has no paths, and so no state.
    take_observations();
    take_figures(settle(router, *endpoint_, *monitor_), result_);
  }

  // The figures of a failed rank, as far as it came.
  void take_figures_of_failure() {
    if (monitor_) take_observations();
    take_figures(endpoint_->stats(), result_);
  }

  // Adds further explanations to a failure.
  void explain(const RankFailure& failure) {
    if (failure.status != to_string(Status::peer_unreachable)) return;
    for (std::string& line : reasons_of_silence(verbs_ports_, verbs_ports_of(config_.nics),
                                                endpoint_->stats().handshakes_sent)) {
      RankMessage message;
      message.note = std::move(line);
      sink_.send(message);
    }
  }

  void close() { endpoint_->close(); }

 private:
  // Null: the workload has no one-sided operations.
  [[nodiscard]] std::unique_ptr<Exposure> make_exposure() const {
    const std::uint64_t bytes = largest_window_bytes(schedule_);
    if (bytes == 0) return nullptr;
    return std::make_unique<Exposure>(std::span(arena_.first_buffer(), bytes), options_.ranks);
  }

  void take_observations() {
    paths_->look();
    result_.stalls = monitor_->stalls();
    result_.injected = monitor_->injected();
    result_.nics = sample_nics(*endpoint_);
    result_.path_changes = paths_->changes();
    result_.path_changes_left_out = paths_->changes_left_out();
  }

  void take_sizes(const std::vector<PeerId>& peers) {
    for (const PeerId peer : peers) {
      PeerStats stats;
      if (endpoint_->peer_stats(peer, stats) != Status::ok || stats.fragment_bytes == 0) continue;
      const std::uint64_t bytes = stats.fragment_bytes;
      const std::uint64_t least = result_.fragment_bytes_least;
      result_.fragment_bytes_least = least == 0 ? bytes : std::min(least, bytes);
      result_.fragment_bytes_most = std::max(result_.fragment_bytes_most, bytes);
      const std::uint64_t agreed = stats.session_bytes;
      result_.session_bytes_most = std::max(result_.session_bytes_most, agreed);
    }
  }

  // Replays to the end, or to a failure of a rank that is to be started again. In the latter case
  // this rank's communicators are gone, except for what is still in flight. Throws ReplayError for
  // other failures.
  std::optional<RankFailure> replay_from(const Gathering& gathering, coll::CompletionRouter& router,
                                         Replay& replay) {
    Collectives collectives(router, schedule_, config_.rank, gathering.peers(), options_,
                            gathering.generation(), *monitor_, asked_to_end());
    try {
      // Before the barrier, so that nobody's operation finds memory that is not exposed.
      if (exposure_) exposure_->renew(*endpoint_);
      collectives.barrier();
      if (exposure_) collectives.expose(*exposure_, result_.operations);
      replay.run(collectives, gathering.point());
      result_.bandwidths = collectives.bandwidths();
      return std::nullopt;
    } catch (const ReplayError& error) {
      if (!may_go_on_after(error.failure())) throw;
      collectives.give_up();
      return error.failure();
    }
  }

  [[nodiscard]] bool may_go_on_after(const RankFailure& failure) const {
    if (failure.code != ExitCode::peer_failed || !failure.peer) return false;
    const auto before =
        std::count_if(result_.recoveries.begin(), result_.recoveries.end(),
                      [&](const Recovery& recovery) { return recovery.peer == *failure.peer; });
    return before < options_.restarts_of(*failure.peer);
  }

  void recover(const RankFailure& failure, Gathering& gathering, const Replay& replay) {
    const std::uint64_t noticed = now_ns();
    RankMessage message;
    message.note = fmt::format("{}; waiting for rank {} to be back", failure.text, *failure.peer);
    sink_.send(message);
    gathering.meet_again(replay.point());
    remember_counts();
    result_.recoveries.push_back(
        {*failure.peer, failure.status, gathering.point(), now_ns() - noticed});
  }

  // Nothing is in flight, here or anywhere else.
  void remember_counts() {
    const EndpointStats stats = endpoint_->stats();
    result_.messages_sent_before = stats.messages_sent;
    result_.messages_received_before = stats.messages_received;
  }

  const RunOptions& options_;
  const RankConfig& config_;
  MessageSink& sink_;
  RankResult& result_;
  Schedule schedule_;
  std::uint64_t budget_;
  BufferArena arena_;                   // before the engine, whose operations refer to it
  std::unique_ptr<Exposure> exposure_;  // as the arena
  std::unique_ptr<TraceFile> trace_;    // before the endpoint, which calls it to its end
  Engine engine_;
  std::vector<engine::VerbsPortInfo> verbs_ports_;  // as they were at the start
  std::unique_ptr<Endpoint> endpoint_;
  std::optional<PathLog> paths_;
  std::optional<Monitor> monitor_;
};

}  // namespace

std::vector<std::string> loopback_nics(std::uint32_t rank, std::uint32_t nics) {
  std::vector<std::string> names;
  for (std::uint32_t nic = 0; nic < nics; ++nic) {
    names.push_back(fmt::format("udp:127.{}.{}.{}", 1 + rank / 256, rank % 256, nic + 1));
  }
  return names;
}

RankResult run_rank(const RunOptions& options, const RankConfig& config, MessageSink& sink) {
  const std::uint64_t started = now_ns();
  RankResult result;
  result.rank = config.rank;
  result.life = config.life;
  const auto fail = [&](ExitCode code, const char* text) {
    result.failure = RankFailure{code, {}, std::nullopt, text};
  };
  if (options.pin) engine::bind_to_processor(config.rank);
  try {
    RankRun run(options, config, sink, result);
    try {
      run.run(started);
    } catch (const ReplayError& error) {
      result.failure = error.failure();
      run.take_figures_of_failure();
      run.explain(error.failure());
    }
    run.close();
  } catch (const InputError& error) {
    fail(ExitCode::bad_input, error.what());
  } catch (const Error& error) {
    fail(asked_to_end() != 0 ? ExitCode::interrupted : ExitCode::bad_input, error.what());
  } catch (const std::bad_alloc&) {
    fail(ExitCode::bad_input,
         "no memory is left for this rank; a larger --scale, or smaller --sizes, need less");
  } catch (const std::exception& error) {
    fail(ExitCode::wrong, error.what());
  }
  return result;
}

}  // namespace hawser::tool
