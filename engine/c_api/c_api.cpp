// SPDX-License-Identifier: Apache-2.0
// The C API, hawser.h, over engine.hpp. It only converts values and turns exceptions into statuses.
// c_api_one_sided.cpp has one-sided operations, c_api_inside.cpp statistics, events and traces.
#include "engine/c_api/c_api.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "hawser/faults.hpp"

template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_send_request> = 88;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_receive_request> = 88;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_probe_request> = 32;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_claimed_request> = 64;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_dmabuf_range> = 40;

namespace {

using hawser::Status;
using hawser::c_api::code;
using hawser::c_api::completion_of;
using hawser::c_api::copy_text;
using hawser::c_api::guarded;
using hawser::c_api::kBatch;
using hawser::c_api::same;
using hawser::c_api::take;

static_assert(
    same(Status::ok, HAWSER_OK) && same(Status::again, HAWSER_AGAIN) &&
    same(Status::invalid_argument, HAWSER_INVALID_ARGUMENT) &&
    same(Status::unknown_peer, HAWSER_UNKNOWN_PEER) &&
    same(Status::unknown_operation, HAWSER_UNKNOWN_OPERATION) &&
    same(Status::too_late, HAWSER_TOO_LATE) && same(Status::truncated, HAWSER_TRUNCATED) &&
    same(Status::cancelled, HAWSER_CANCELLED) &&
    same(Status::peer_unreachable, HAWSER_PEER_UNREACHABLE) &&
    same(Status::peer_timeout, HAWSER_PEER_TIMEOUT) &&
    same(Status::peer_restarted, HAWSER_PEER_RESTARTED) &&
    same(Status::peer_closed, HAWSER_PEER_CLOSED) &&
    same(Status::endpoint_closed, HAWSER_ENDPOINT_CLOSED) &&
    same(Status::unsupported, HAWSER_UNSUPPORTED) && same(Status::nic_error, HAWSER_NIC_ERROR) &&
    same(Status::store_full, HAWSER_STORE_FULL) && same(Status::in_use, HAWSER_IN_USE) &&
    same(Status::overlapping, HAWSER_OVERLAPPING) && same(Status::too_large, HAWSER_TOO_LARGE) &&
    same(Status::lock_limit, HAWSER_LOCK_LIMIT) && same(Status::no_route, HAWSER_NO_ROUTE) &&
    same(Status::peer_full, HAWSER_PEER_FULL) &&
    same(Status::access_denied, HAWSER_ACCESS_DENIED) &&
    same(Status::stale_region, HAWSER_STALE_REGION) &&
    same(Status::region_withdrawn, HAWSER_REGION_WITHDRAWN) &&
    same(Status::misaligned, HAWSER_MISALIGNED) &&
    same(Status::predecessor_failed, HAWSER_PREDECESSOR_FAILED));
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
              same(hawser::OperationKind::receive, HAWSER_RECEIVE) &&
              same(hawser::OperationKind::write, HAWSER_WRITE) &&
              same(hawser::OperationKind::read, HAWSER_READ) &&
              same(hawser::OperationKind::atomic, HAWSER_ATOMIC) &&
              same(hawser::OperationKind::flush, HAWSER_FLUSH) &&
              same(hawser::OperationKind::withdraw, HAWSER_WITHDRAW) &&
              same(hawser::OperationKind::notice, HAWSER_NOTICE));
static_assert(static_cast<std::uint32_t>(hawser::kAnyPeer) == HAWSER_ANY_PEER &&
              static_cast<std::uint64_t>(hawser::kNoOperation) == HAWSER_NO_OPERATION &&
              static_cast<std::uint64_t>(hawser::kNoMessage) == HAWSER_NO_MESSAGE &&
              static_cast<std::uint64_t>(hawser::kNoRegistration) == HAWSER_NO_REGISTRATION &&
              hawser::kMaxMessageBytes == HAWSER_MAX_MESSAGE_BYTES &&
              hawser::kMostPieces == HAWSER_MOST_PIECES);
// The sizes are part of the ABI.
static_assert(sizeof(hawser_completion) == 72 && sizeof(hawser_envelope) == 32);
static_assert(sizeof(hawser_send_request) == 88 && sizeof(hawser_receive_request) == 88 &&
              sizeof(hawser_probe_request) == 32 && sizeof(hawser_claimed_request) == 64 &&
              sizeof(hawser_dmabuf_range) == 40);

hawser::Hint hint_of(const hawser_hint& hint) {
  return {.group = hint.group,
          .members = hint.members,
          .step = hint.step,
          .steps = hint.steps,
          .collective = static_cast<hawser::Collective>(hint.collective),
          .priority = hint.priority};
}

using SendPieces = std::array<hawser::SendPiece, hawser::kMostPieces>;
using ReceivePieces = std::array<hawser::ReceivePiece, hawser::kMostPieces>;

// Copies the list of a request into `room`, which `pieces` then shows. False: it is too long, or
// missing.
template <class Taken, class Piece>
bool take_pieces(const Taken& taken, std::array<Piece, hawser::kMostPieces>& room,
                 std::span<const Piece>& pieces) {
  if (taken.piece_count > room.size() || (taken.pieces == nullptr && taken.piece_count > 0)) {
    return false;
  }
  for (std::size_t i = 0; i < taken.piece_count; ++i) {
    room[i] = {taken.pieces[i].data, taken.pieces[i].bytes};
  }
  pieces = std::span(room).first(taken.piece_count);
  return true;
}

// Each turns a request into that of the C++ API. Returns false if the request is missing, or is of
// a size or has a value that is unknown here.
bool convert(const hawser_send_request* given, hawser::SendRequest& request, SendPieces& room) {
  hawser_send_request taken;
  if (given == nullptr || !take(given, taken) || taken.level > HAWSER_DELIVERED) return false;
  request = {.peer = hawser::PeerId{taken.peer},
             .channel = taken.channel,
             .tag = taken.tag,
             .data = taken.data,
             .bytes = taken.bytes,
             .level = static_cast<hawser::Level>(taken.level),
             .immediate = taken.immediate,
             .user_data = taken.user_data,
             .hint = hint_of(taken.hint),
             .owner = static_cast<hawser::ChannelOwner>(taken.owner)};
  return take_pieces(taken, room, request.pieces);
}

bool convert(const hawser_receive_request* given, hawser::ReceiveRequest& request,
             ReceivePieces& room) {
  hawser_receive_request taken;
  if (given == nullptr || !take(given, taken)) return false;
  request = {.peer = hawser::PeerId{taken.peer},
             .channel = taken.channel,
             .tag = taken.tag,
             .ignore = taken.ignore,
             .data = taken.data,
             .bytes = taken.bytes,
             .user_data = taken.user_data,
             .hint = hint_of(taken.hint),
             .owner = static_cast<hawser::ChannelOwner>(taken.owner)};
  return take_pieces(taken, room, request.pieces);
}

bool convert(const hawser_probe_request* given, hawser::ProbeRequest& request) {
  hawser_probe_request taken;
  if (given == nullptr || !take(given, taken)) return false;
  request = {.peer = hawser::PeerId{taken.peer},
             .channel = taken.channel,
             .tag = taken.tag,
             .ignore = taken.ignore,
             .owner = static_cast<hawser::ChannelOwner>(taken.owner)};
  return true;
}

bool convert(const hawser_claimed_request* given, hawser::ClaimedRequest& request,
             ReceivePieces& room) {
  hawser_claimed_request taken;
  if (given == nullptr || !take(given, taken)) return false;
  request = {.data = taken.data,
             .bytes = taken.bytes,
             .user_data = taken.user_data,
             .hint = hint_of(taken.hint)};
  return take_pieces(taken, room, request.pieces);
}

hawser_envelope envelope_of(const hawser::Envelope& from) {
  return {from.tag, from.bytes, from.immediate, static_cast<std::uint32_t>(from.peer), 0};
}

// Polls in batches, because the C structs differ. `first` polls the first batch, and may wait.
template <class First>
std::size_t poll_with(hawser_endpoint& endpoint, hawser_completion* out, std::size_t count,
                      First&& first) {
  auto& batch = endpoint.batch;
  std::size_t done = 0;
  std::size_t n = first(std::span(batch).first(std::min(count, kBatch)));
  for (;;) {
    for (std::size_t i = 0; i < n; ++i) out[done++] = completion_of(batch[i]);
    if (n < kBatch || done == count) return done;
    n = endpoint.endpoint->poll(std::span(batch).first(std::min(count - done, kBatch)));
  }
}

}  // namespace

hawser_completion hawser::c_api::completion_of(const hawser::Completion& from) {
  hawser_completion to{};
  to.operation = static_cast<std::uint64_t>(from.operation);
  to.user_data = from.user_data;
  to.tag = from.tag;
  to.bytes = from.bytes;
  to.message_bytes = from.message_bytes;
  to.immediate = from.immediate;
  to.peer = static_cast<std::uint32_t>(from.peer);
  to.channel = from.channel;
  to.kind = static_cast<hawser_operation_kind>(from.kind);
  to.status = code(from.status);
  to.released = from.released ? 1 : 0;
  to.outcome_unknown = from.outcome_unknown ? 1 : 0;
  to.executed = from.executed ? 1 : 0;
  return to;
}

void hawser::c_api::copy_text(std::string_view text, char* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0) return;
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

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
    settings.ignore_environment = taken.ignore_environment != 0;
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
  if (spec == nullptr) return HAWSER_INVALID_ARGUMENT;
  return guarded(nullptr, 0, [&] { return code(engine->engine.inject_fault(nic, spec)); });
}

hawser_status hawser_check_faults(const char* spec, char* error, size_t error_bytes) {
  if (spec == nullptr) {
    copy_text("There is no specification", error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  }
  return guarded(error, error_bytes, [&] {
    const std::string complaint = hawser::complaint_about_faults(spec);
    if (complaint.empty()) return HAWSER_OK;
    copy_text(complaint, error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  });
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
    if (taken.inject_bytes != 0) {
      settings.inject_bytes = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(taken.inject_bytes, std::numeric_limits<std::uint32_t>::max()));
    }
    auto made = std::make_unique<hawser_endpoint>();
    if (taken.trace != nullptr) {
      made->trace = taken.trace;
      made->trace_context = taken.trace_context;
      settings.trace = hawser::c_api::call_trace_hook;
      settings.trace_context = made.get();
    }
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
  const std::span blob(static_cast<const std::byte*>(address), address != nullptr ? bytes : 0);
  const Status status = endpoint->endpoint->connect(blob, named);
  if (status == Status::ok) *peer = static_cast<hawser_peer>(named);
  return code(status);
}

hawser_status hawser_disconnect(hawser_endpoint* endpoint, hawser_peer peer) {
  return code(endpoint->endpoint->disconnect(hawser::PeerId{peer}));
}

void hawser_close(hawser_endpoint* endpoint) { endpoint->endpoint->close(); }

// ---- messages

hawser_status hawser_send(hawser_endpoint* endpoint, const hawser_send_request* request,
                          hawser_operation* operation) {
  hawser::SendRequest asked;
  SendPieces pieces;
  if (!convert(request, asked, pieces)) return HAWSER_INVALID_ARGUMENT;
  hawser::OperationId named = hawser::kNoOperation;
  const Status status = endpoint->endpoint->send(asked, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

hawser_status hawser_inject(hawser_endpoint* endpoint, const hawser_send_request* request) {
  hawser::SendRequest asked;
  SendPieces pieces;
  if (!convert(request, asked, pieces)) return HAWSER_INVALID_ARGUMENT;
  return code(endpoint->endpoint->inject(asked));
}

hawser_status hawser_receive(hawser_endpoint* endpoint, const hawser_receive_request* request,
                             hawser_operation* operation) {
  hawser::ReceiveRequest asked;
  ReceivePieces pieces;
  if (!convert(request, asked, pieces)) return HAWSER_INVALID_ARGUMENT;
  hawser::OperationId named = hawser::kNoOperation;
  const Status status = endpoint->endpoint->receive(asked, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

hawser_status hawser_probe(hawser_endpoint* endpoint, const hawser_probe_request* request,
                           hawser_envelope* envelope) {
  hawser::ProbeRequest asked;
  if (!convert(request, asked)) return HAWSER_INVALID_ARGUMENT;
  hawser::Envelope found;
  const Status status = endpoint->endpoint->probe(asked, found);
  if (status == Status::ok) *envelope = envelope_of(found);
  return code(status);
}

hawser_status hawser_claim(hawser_endpoint* endpoint, const hawser_probe_request* request,
                           hawser_envelope* envelope, hawser_message* message) {
  hawser::ProbeRequest asked;
  if (!convert(request, asked)) return HAWSER_INVALID_ARGUMENT;
  hawser::Envelope found;
  hawser::MessageId named = hawser::kNoMessage;
  const Status status = endpoint->endpoint->claim(asked, found, named);
  if (status == Status::ok) {
    *envelope = envelope_of(found);
    *message = static_cast<hawser_message>(named);
  }
  return code(status);
}

hawser_status hawser_receive_claimed(hawser_endpoint* endpoint, hawser_message message,
                                     const hawser_claimed_request* request,
                                     hawser_operation* operation) {
  hawser::ClaimedRequest asked;
  ReceivePieces pieces;
  if (!convert(request, asked, pieces)) return HAWSER_INVALID_ARGUMENT;
  hawser::OperationId named = hawser::kNoOperation;
  const Status status =
      endpoint->endpoint->receive_claimed(hawser::MessageId{message}, asked, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

hawser_status hawser_put_back(hawser_endpoint* endpoint, hawser_message message) {
  return code(endpoint->endpoint->put_back(hawser::MessageId{message}));
}

hawser_status hawser_cancel(hawser_endpoint* endpoint, hawser_operation operation) {
  return code(endpoint->endpoint->cancel(hawser::OperationId{operation}));
}

// ---- registration of memory

hawser_status hawser_register_memory(hawser_endpoint* endpoint, const void* data, uint64_t bytes,
                                     hawser_registration* registration, char* why,
                                     size_t why_bytes) {
  return guarded(why, why_bytes, [&] {
    std::string sentence;
    hawser::RegistrationId named = hawser::kNoRegistration;
    const Status status = endpoint->endpoint->register_memory(data, bytes, named, &sentence);
    if (status == Status::ok) *registration = static_cast<hawser_registration>(named);
    if (status != Status::ok) copy_text(sentence, why, why_bytes);
    return code(status);
  });
}

hawser_status hawser_register_dmabuf(hawser_endpoint* endpoint, const hawser_dmabuf_range* range,
                                     hawser_registration* registration, char* why,
                                     size_t why_bytes) {
  hawser_dmabuf_range taken;
  if (range == nullptr || !take(range, taken)) {
    copy_text("struct_size of the range is not one of this version, or reserved bytes are not 0",
              why, why_bytes);
    return HAWSER_INVALID_ARGUMENT;
  }
  return guarded(why, why_bytes, [&] {
    std::string sentence;
    hawser::RegistrationId named = hawser::kNoRegistration;
    const Status status = endpoint->endpoint->register_dmabuf(
        {taken.fd, taken.offset, taken.bytes, taken.address}, named, &sentence);
    if (status == Status::ok) *registration = static_cast<hawser_registration>(named);
    if (status != Status::ok) copy_text(sentence, why, why_bytes);
    return code(status);
  });
}

hawser_status hawser_deregister_memory(hawser_endpoint* endpoint, hawser_registration registration,
                                       char* why, size_t why_bytes) {
  return guarded(why, why_bytes, [&] {
    std::string sentence;
    const Status status =
        endpoint->endpoint->deregister_memory(hawser::RegistrationId{registration}, &sentence);
    if (status != Status::ok) copy_text(sentence, why, why_bytes);
    return code(status);
  });
}

void hawser_release_memory(hawser_endpoint* endpoint, hawser_registration registration) {
  endpoint->endpoint->release_memory(hawser::RegistrationId{registration});
}

void hawser_flush(hawser_endpoint* endpoint) { endpoint->endpoint->flush(); }

size_t hawser_poll(hawser_endpoint* endpoint, hawser_completion* completions, size_t count) {
  return poll_with(*endpoint, completions, count, [&](std::span<hawser::Completion> batch) {
    return endpoint->endpoint->poll(batch);
  });
}

size_t hawser_wait(hawser_endpoint* endpoint, hawser_completion* completions, size_t count,
                   uint64_t timeout_ns) {
  return poll_with(*endpoint, completions, count, [&](std::span<hawser::Completion> batch) {
    return endpoint->endpoint->wait(batch, timeout_ns);
  });
}

int hawser_fd(const hawser_endpoint* endpoint) { return endpoint->endpoint->fd(); }
}  // extern "C"
