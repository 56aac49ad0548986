// hawser.h over engine.hpp: values converted, exceptions kept in. What the calls mean is decided
// elsewhere.
#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "hawser/engine.hpp"
#include "hawser/hawser.h"

struct hawser_engine {
  explicit hawser_engine(hawser::EngineConfig config) : engine(std::move(config)) {}
  hawser::Engine engine;
};

struct hawser_endpoint {
  std::unique_ptr<hawser::Endpoint> endpoint;
};

namespace {

using hawser::Status;

// ---- the same numbers on both sides

template <class Enum>
constexpr bool same(Enum value, int number) {
  return static_cast<int>(value) == number;
}
static_assert(same(Status::ok, HAWSER_OK) && same(Status::again, HAWSER_AGAIN) &&
              same(Status::invalid_argument, HAWSER_INVALID_ARGUMENT) &&
              same(Status::unknown_peer, HAWSER_UNKNOWN_PEER) &&
              same(Status::unknown_operation, HAWSER_UNKNOWN_OPERATION) &&
              same(Status::too_late, HAWSER_TOO_LATE) &&
              same(Status::truncated, HAWSER_TRUNCATED) &&
              same(Status::cancelled, HAWSER_CANCELLED) &&
              same(Status::peer_unreachable, HAWSER_PEER_UNREACHABLE) &&
              same(Status::peer_timeout, HAWSER_PEER_TIMEOUT) &&
              same(Status::peer_restarted, HAWSER_PEER_RESTARTED) &&
              same(Status::peer_closed, HAWSER_PEER_CLOSED) &&
              same(Status::endpoint_closed, HAWSER_ENDPOINT_CLOSED) &&
              same(Status::unsupported, HAWSER_UNSUPPORTED) &&
              same(Status::nic_error, HAWSER_NIC_ERROR) &&
              same(Status::store_full, HAWSER_STORE_FULL));
static_assert(same(hawser::Level::accepted, HAWSER_ACCEPTED) &&
              same(hawser::Level::delivered, HAWSER_DELIVERED));
static_assert(same(hawser::Collective::none, HAWSER_NO_COLLECTIVE) &&
              same(hawser::Collective::all_reduce, HAWSER_ALL_REDUCE) &&
              same(hawser::Collective::reduce_scatter, HAWSER_REDUCE_SCATTER) &&
              same(hawser::Collective::all_gather, HAWSER_ALL_GATHER) &&
              same(hawser::Collective::all_to_all, HAWSER_ALL_TO_ALL) &&
              same(hawser::Collective::broadcast, HAWSER_BROADCAST) &&
              same(hawser::Collective::barrier, HAWSER_BARRIER));
static_assert(same(hawser::OperationKind::send, HAWSER_SEND) &&
              same(hawser::OperationKind::receive, HAWSER_RECEIVE));
static_assert(same(hawser::PathState::up, HAWSER_PATH_UP) &&
              same(hawser::PathState::suspect, HAWSER_PATH_SUSPECT) &&
              same(hawser::PathState::down, HAWSER_PATH_DOWN) &&
              same(hawser::PathState::probing, HAWSER_PATH_PROBING));
static_assert(same(hawser::Event::Kind::nic_down, HAWSER_NIC_DOWN) &&
              same(hawser::Event::Kind::nic_up, HAWSER_NIC_UP) &&
              same(hawser::Event::Kind::path_down, HAWSER_PATH_DOWN_EVENT) &&
              same(hawser::Event::Kind::path_up, HAWSER_PATH_UP_EVENT) &&
              same(hawser::Event::Kind::peer_established, HAWSER_PEER_ESTABLISHED) &&
              same(hawser::Event::Kind::peer_failed, HAWSER_PEER_FAILED));
static_assert(static_cast<std::uint32_t>(hawser::kAnyPeer) == HAWSER_ANY_PEER &&
              static_cast<std::uint64_t>(hawser::kNoOperation) == HAWSER_NO_OPERATION &&
              static_cast<std::uint64_t>(hawser::kNoMessage) == HAWSER_NO_MESSAGE &&
              hawser::kMaxMessageBytes == HAWSER_MAX_MESSAGE_BYTES);
// Their size is part of the interface.
static_assert(sizeof(hawser_completion) == 72 && sizeof(hawser_envelope) == 32 &&
              sizeof(hawser_nic_stats) == 152 && sizeof(hawser_path_stats) == 72 &&
              sizeof(hawser_peer_stats) == 32 && sizeof(hawser_event) == 24);

constexpr std::size_t kBatch = 64;

constexpr hawser_status code(Status status) { return static_cast<hawser_status>(status); }

// A caller's struct as this library knows it: what an older caller does not have is 0. False: the
// caller is newer, and may ask for what is not known here.
template <class Struct>
bool take(const Struct* given, Struct& taken) {
  taken = Struct{};
  if (given == nullptr) return true;
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > sizeof taken) return false;
  std::memcpy(&taken, given, size);
  return true;
}

hawser::Hint hint_of(const hawser_hint& hint) {
  return {.group = hint.group,
          .members = hint.members,
          .step = hint.step,
          .steps = hint.steps,
          .collective = static_cast<hawser::Collective>(hint.collective),
          .priority = hint.priority};
}

bool options_of(const hawser_send_options* given, hawser::SendOptions& options) {
  hawser_send_options taken;
  if (!take(given, taken) || taken.level > HAWSER_DELIVERED) return false;
  options = {.level = static_cast<hawser::Level>(taken.level),
             .immediate = taken.immediate,
             .user_data = taken.user_data,
             .hint = hint_of(taken.hint)};
  return true;
}

bool options_of(const hawser_receive_options* given, hawser::ReceiveOptions& options) {
  hawser_receive_options taken;
  if (!take(given, taken)) return false;
  options = {.user_data = taken.user_data, .hint = hint_of(taken.hint)};
  return true;
}

void copy_text(std::string_view text, char* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0) return;
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

// Runs what may throw, and tells what was thrown.
template <class Function>
hawser_status guarded(char* error, std::size_t error_bytes, Function&& function) {
  try {
    return function();
  } catch (const hawser::Error& failure) {
    copy_text(failure.what(), error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  } catch (const std::bad_alloc&) {
    copy_text("Out of memory", error, error_bytes);
    return HAWSER_AGAIN;
  } catch (const std::exception& failure) {
    copy_text(failure.what(), error, error_bytes);
    return HAWSER_NIC_ERROR;
  }
}

hawser_completion completion_of(const hawser::Completion& from) {
  hawser_completion to{};
  to.operation = static_cast<std::uint64_t>(from.operation);
  to.user_data = from.user_data;
  to.tag = from.tag;
  to.bytes = from.bytes;
  to.message_bytes = from.message_bytes;
  to.immediate = from.immediate;
  to.peer = static_cast<std::uint32_t>(from.peer);
  to.context = from.context;
  to.kind = static_cast<hawser_operation_kind>(from.kind);
  to.status = code(from.status);
  to.released = from.released ? 1 : 0;
  to.outcome_unknown = from.outcome_unknown ? 1 : 0;
  return to;
}

hawser_envelope envelope_of(const hawser::Envelope& from) {
  return {from.tag, from.bytes, from.immediate, static_cast<std::uint32_t>(from.peer), 0};
}

// Polls in batches, as the C structs are others; `first` makes the first one, which may wait.
template <class First>
std::size_t poll_with(hawser::Endpoint& endpoint, hawser_completion* out, std::size_t count,
                      First&& first) {
  std::array<hawser::Completion, kBatch> batch;
  std::size_t done = 0;
  std::size_t n = first(std::span(batch).first(std::min(count, kBatch)));
  for (;;) {
    for (std::size_t i = 0; i < n; ++i) out[done++] = completion_of(batch[i]);
    if (n < kBatch || done == count) return done;
    n = endpoint.poll(std::span(batch).first(std::min(count - done, kBatch)));
  }
}

// ---- the array of statistics: counters, gauges, drops

struct Gauge {
  std::string_view name;
  std::string_view text;
  std::uint64_t hawser::EndpointStats::*field;
};
constexpr auto kGauges = std::to_array<Gauge>({
    {"operations_pending", "operations that were taken and are not over",
     &hawser::EndpointStats::operations_pending},
    {"packets_in_flight", "unacknowledged packets", &hawser::EndpointStats::packets_in_flight},
    {"sends_unreleased", "sends with their final status whose bytes a NIC still holds",
     &hawser::EndpointStats::sends_unreleased},
    {"buffers_in_use", "packet buffers outside the pool", &hawser::EndpointStats::buffers_in_use},
    {"unexpected_bytes_held", "payload that waits for its receive",
     &hawser::EndpointStats::unexpected_bytes_held},
    {"messages_unmatched", "messages without a receive, claimed ones included",
     &hawser::EndpointStats::messages_unmatched},
    {"messages_claimed", "claimed messages", &hawser::EndpointStats::messages_claimed},
    {"peers_awake", "peers with all their state", &hawser::EndpointStats::peers_awake},
    {"peers_at_rest", "peers kept as a record alone", &hawser::EndpointStats::peers_at_rest},
});
constexpr std::size_t kGaugesAt = hawser::kCounters.size();
constexpr std::size_t kDropsAt = kGaugesAt + kGauges.size();
constexpr std::size_t kStats = kDropsAt + hawser::kDropReasons;
static_assert(kStats * sizeof(std::uint64_t) == sizeof(hawser::EndpointStats),
              "a gauge that is not in kGauges");

std::uint64_t stat_of(const hawser::EndpointStats& stats, std::size_t i) {
  if (i < kGaugesAt) return stats.*hawser::kCounters[i].field;
  if (i < kDropsAt) return stats.*kGauges[i - kGaugesAt].field;
  return stats.drops[i - kDropsAt];
}

hawser_nic_stats nic_stats_of(const hawser::NicStats& from) {
  hawser_nic_stats to{};
  copy_text(from.name, to.name, sizeof to.name);
  to.packets_sent = from.packets_sent;
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

extern "C" {

const char* hawser_status_name(hawser_status status) {
  return hawser::to_string(static_cast<Status>(status)).data();
}

int hawser_is_peer_failure(hawser_status status) {
  return hawser::is_peer_failure(static_cast<Status>(status)) ? 1 : 0;
}

// ---- engines

hawser_status hawser_engine_create(uint32_t abi_version, const hawser_engine_config* config,
                                   hawser_engine** engine, char* error, size_t error_bytes) {
  if (abi_version != HAWSER_ABI_VERSION) {
    copy_text("The program was compiled for another version of hawser.h", error, error_bytes);
    return HAWSER_UNSUPPORTED;
  }
  hawser_engine_config taken;
  if (config == nullptr || !take(config, taken)) {
    copy_text("struct_size of the configuration is not one of this version", error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  }
  return guarded(error, error_bytes, [&]() -> hawser_status {
    hawser::EngineConfig settings;
    settings.nics.assign(taken.nics, taken.nics + taken.nic_count);
    settings.threads = taken.threads;
    if (taken.faults != nullptr) settings.faults = taken.faults;
    for (std::size_t i = 0; i < taken.tunable_count; ++i) {
      const hawser_tunable& tunable = taken.tunables[i];
      if (settings.tunables.set(tunable.name, tunable.value) != Status::ok) {
        throw hawser::Error("There is no tunable \"" + std::string(tunable.name) +
                            "\", or its value is out of its range");
      }
    }
    *engine = new hawser_engine(std::move(settings));
    return HAWSER_OK;
  });
}

void hawser_engine_destroy(hawser_engine* engine) { delete engine; }

size_t hawser_engine_nic_count(const hawser_engine* engine) { return engine->engine.nic_count(); }

hawser_status hawser_engine_inject_fault(hawser_engine* engine, size_t nic, const char* spec) {
  return guarded(nullptr, 0, [&] { return code(engine->engine.inject_fault(nic, spec)); });
}

int hawser_tunable_row(size_t i, const char** name, const char** unit, const char** reason,
                       uint64_t* default_value, uint64_t* minimum, uint64_t* maximum) {
  if (i >= hawser::kTunables.size()) return 0;
  const hawser::TunableRow& row = hawser::kTunables[i];
  if (name != nullptr) *name = row.name.data();
  if (unit != nullptr) *unit = row.unit.data();
  if (reason != nullptr) *reason = row.reason.data();
  if (default_value != nullptr) *default_value = row.default_value;
  if (minimum != nullptr) *minimum = row.minimum;
  if (maximum != nullptr) *maximum = row.maximum;
  return 1;
}

// ---- endpoints

hawser_status hawser_endpoint_create(hawser_engine* engine, const hawser_endpoint_config* config,
                                     hawser_endpoint** endpoint, char* error, size_t error_bytes) {
  hawser_endpoint_config taken;
  if (!take(config, taken)) {
    copy_text("struct_size of the configuration is not one of this version", error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  }
  return guarded(error, error_bytes, [&]() -> hawser_status {
    hawser::EndpointConfig settings;
    settings.endpoint_id = taken.endpoint_id;
    settings.epoch = taken.epoch;
    const auto* const secret = static_cast<const std::byte*>(taken.job_secret);
    settings.job_secret.assign(secret, secret + taken.job_secret_bytes);
    auto made = std::make_unique<hawser_endpoint>();
    made->endpoint = engine->engine.create_endpoint(settings);
    *endpoint = made.release();
    return HAWSER_OK;
  });
}

void hawser_endpoint_destroy(hawser_endpoint* endpoint) { delete endpoint; }

const void* hawser_endpoint_address(const hawser_endpoint* endpoint, size_t* bytes) {
  *bytes = endpoint->endpoint->address().size();
  return endpoint->endpoint->address().data();
}

hawser_status hawser_connect(hawser_endpoint* endpoint, const void* address, size_t bytes,
                             hawser_peer* peer) {
  hawser::PeerId named = hawser::kAnyPeer;
  const Status status =
      endpoint->endpoint->connect({static_cast<const std::byte*>(address), bytes}, named);
  if (status == Status::ok) *peer = static_cast<hawser_peer>(named);
  return code(status);
}

hawser_status hawser_disconnect(hawser_endpoint* endpoint, hawser_peer peer) {
  return code(endpoint->endpoint->disconnect(hawser::PeerId{peer}));
}

void hawser_close(hawser_endpoint* endpoint) { endpoint->endpoint->close(); }

// ---- messages

hawser_status hawser_send(hawser_endpoint* endpoint, hawser_peer peer, uint16_t context,
                          uint64_t tag, const void* data, uint64_t bytes,
                          const hawser_send_options* options, hawser_operation* operation) {
  hawser::SendOptions taken;
  if (!options_of(options, taken)) return HAWSER_INVALID_ARGUMENT;
  hawser::OperationId named = hawser::kNoOperation;
  const Status status =
      endpoint->endpoint->send(hawser::PeerId{peer}, context, tag, data, bytes, taken, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

hawser_status hawser_receive(hawser_endpoint* endpoint, hawser_peer peer, uint16_t context,
                             uint64_t tag, uint64_t mask, void* data, uint64_t bytes,
                             const hawser_receive_options* options, hawser_operation* operation) {
  hawser::ReceiveOptions taken;
  if (!options_of(options, taken)) return HAWSER_INVALID_ARGUMENT;
  hawser::OperationId named = hawser::kNoOperation;
  const Status status = endpoint->endpoint->receive(hawser::PeerId{peer}, context, tag, mask, data,
                                                    bytes, taken, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

hawser_status hawser_probe(hawser_endpoint* endpoint, hawser_peer peer, uint16_t context,
                           uint64_t tag, uint64_t mask, hawser_envelope* envelope) {
  hawser::Envelope found;
  const Status status = endpoint->endpoint->probe(hawser::PeerId{peer}, context, tag, mask, found);
  if (status == Status::ok) *envelope = envelope_of(found);
  return code(status);
}

hawser_status hawser_claim(hawser_endpoint* endpoint, hawser_peer peer, uint16_t context,
                           uint64_t tag, uint64_t mask, hawser_envelope* envelope,
                           hawser_message* message) {
  hawser::Envelope found;
  hawser::MessageId named = hawser::kNoMessage;
  const Status status =
      endpoint->endpoint->claim(hawser::PeerId{peer}, context, tag, mask, found, named);
  if (status == Status::ok) {
    *envelope = envelope_of(found);
    *message = static_cast<hawser_message>(named);
  }
  return code(status);
}

hawser_status hawser_receive_claimed(hawser_endpoint* endpoint, hawser_message message, void* data,
                                     uint64_t bytes, const hawser_receive_options* options,
                                     hawser_operation* operation) {
  hawser::ReceiveOptions taken;
  if (!options_of(options, taken)) return HAWSER_INVALID_ARGUMENT;
  hawser::OperationId named = hawser::kNoOperation;
  const Status status =
      endpoint->endpoint->receive_claimed(hawser::MessageId{message}, data, bytes, taken, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

hawser_status hawser_put_back(hawser_endpoint* endpoint, hawser_message message) {
  return code(endpoint->endpoint->put_back(hawser::MessageId{message}));
}

hawser_status hawser_cancel(hawser_endpoint* endpoint, hawser_operation operation) {
  return code(endpoint->endpoint->cancel(hawser::OperationId{operation}));
}

size_t hawser_poll(hawser_endpoint* endpoint, hawser_completion* completions, size_t count) {
  hawser::Endpoint& target = *endpoint->endpoint;
  return poll_with(target, completions, count,
                   [&](std::span<hawser::Completion> batch) { return target.poll(batch); });
}

size_t hawser_wait(hawser_endpoint* endpoint, hawser_completion* completions, size_t count,
                   uint64_t timeout_ns) {
  hawser::Endpoint& target = *endpoint->endpoint;
  return poll_with(target, completions, count, [&](std::span<hawser::Completion> batch) {
    return target.wait(batch, timeout_ns);
  });
}

int hawser_fd(const hawser_endpoint* endpoint) { return endpoint->endpoint->fd(); }

// ---- looking inside

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
    stats->failure = code(found.failure);
    const std::size_t room = std::min(*count, found.paths.size());
    for (std::size_t i = 0; i < room; ++i) paths[i] = path_stats_of(found.paths[i]);
    *count = found.paths.size();
    return HAWSER_OK;
  });
}

size_t hawser_poll_events(hawser_endpoint* endpoint, hawser_event* events, size_t count) {
  std::array<hawser::Event, kBatch> batch;
  std::size_t done = 0;
  while (done < count) {
    const std::size_t n =
        endpoint->endpoint->poll_events(std::span(batch).first(std::min(count - done, kBatch)));
    if (n == 0) break;
    for (const hawser::Event& from : std::span(batch).first(n)) {
      hawser_event& to = events[done++];
      to = {};
      to.endpoint_id = from.endpoint_id;
      to.time_ns = from.time_ns;
      to.peer = static_cast<hawser_peer>(from.peer);
      to.kind = static_cast<hawser_event_kind>(from.kind);
      to.status = code(from.status);
      to.nic = from.nic;
      to.remote_nic = from.remote_nic;
    }
  }
  return done;
}

}  // extern "C"
