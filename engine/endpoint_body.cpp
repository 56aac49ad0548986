// SPDX-License-Identifier: Apache-2.0
#include "engine/endpoint_body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "engine/clock.hpp"
#include "engine/driver/memory/memory_nic.hpp"
#include "engine/driver/udp/udp_nic.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/entropy.hpp"
#include "engine/host/address_wait.hpp"
#include "engine/log.hpp"
#include "proto/base/assert.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::engine {
namespace {

using proto::Time;
using proto::TurnResult;

// A sleeping thread polls a NIC without a descriptor (memory) this often.
constexpr proto::Duration kSilentNicInterval = proto::microseconds(100);
constexpr std::size_t kMaxSecretBytes = 64;
constexpr std::uint32_t kMostInjectBytes = 65'536;
constexpr std::size_t kMaxDescriptorsPerNic = 8;
// Payload limit of a full packet. For UDP the interface's MTU decides, which the driver knows.
constexpr std::uint32_t kUsualPayload = proto::NicCaps{}.payload_bytes;
constexpr std::uint32_t kUdpPayload = 65535;

// Size of a full data packet, over NICs that carry this much payload.
std::uint32_t datagram_bytes(const Tunables& tunables, std::uint32_t payload_bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(tunables.fragment_bytes, payload_bytes) +
      proto::wire::kDataHeaderBytes);
}

// Size of the longest datagram: a packet without payload may fill its buffer.
std::uint32_t max_datagram_bytes(const Tunables& tunables, std::uint32_t payload_bytes) {
  return std::max<std::uint32_t>(datagram_bytes(tunables, payload_bytes),
                                 proto::PacketBuffer::kBytes);
}

// Room for every NIC of every peer.
std::uint32_t max_remotes(const Tunables& tunables) {
  return static_cast<std::uint32_t>(tunables.max_peers * proto::Endpoint::kMaxNics);
}

std::unique_ptr<proto::Nic> open_udp(const NicSpec& spec, const EngineSettings& settings,
                                     proto::PacketPool& pool) {
  const Tunables& tunables = settings.tunables;
  await_address(spec.where);
  UdpNicConfig config;
  config.address = spec.where;
  config.receive_bytes = tunables.nic_receive_bytes;
  config.max_remotes = max_remotes(tunables);
  config.datagram_bytes = datagram_bytes(tunables, kUdpPayload);
  config.checksum = settings.udp_checksum;
  return std::make_unique<UdpNic>(config, pool);
}

std::unique_ptr<proto::Nic> open_verbs(const NicSpec& spec, const Tunables& tunables,
                                       proto::PacketPool& pool) {
  VerbsNicConfig config;
  config.port = parse_verbs_port(spec.where);
  config.qkey = static_cast<std::uint32_t>(random_number() & 0x7fffffff);
  config.receive_bytes = tunables.nic_receive_bytes;
  config.max_remotes = max_remotes(tunables);
  config.datagram_bytes = datagram_bytes(tunables, kUsualPayload);
  config.traffic_class = static_cast<std::uint8_t>(tunables.verbs_traffic_class);
  config.service_level = static_cast<std::uint8_t>(tunables.verbs_service_level);
  // One region for the headers, the others for registrations by the program and by the cache.
  config.max_regions = static_cast<std::uint32_t>(1 + tunables.max_registrations +
                                                  tunables.registration_cache_entries);
  // This may be the host's only NIC. Even if its port flaps, it must be tried again within
  // peer_timeout.
  config.longest_hold = std::chrono::milliseconds(tunables.peer_timeout_ms / 4);
  return open_verbs_nic(config, pool);
}

std::unique_ptr<proto::Nic> open_memory(const NicSpec& spec, const Tunables& tunables,
                                        proto::PacketPool& pool) {
  MemoryNicConfig config;
  config.max_datagram_bytes = max_datagram_bytes(tunables, kUsualPayload);
  config.data_slots = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(tunables.nic_receive_bytes / config.max_datagram_bytes, 16, 65536));
  config.max_remotes = max_remotes(tunables);
  return std::make_unique<MemoryNic>(MemoryFabric::named(spec.where), config, pool);
}

std::string complaint_about(const proto::Nic& nic, const FaultSpecError& error) {
  return "Fault \"" + std::string(error.word) + "\" can't be injected at " +
         std::string(nic.name()) + ": it " + std::string(error.reason);
}

std::unique_ptr<proto::Nic> open_driver(const NicSpec& spec, const EngineSettings& settings,
                                        proto::PacketPool& pool) {
  switch (spec.driver) {
    case NicSpec::Driver::udp: return open_udp(spec, settings, pool);
    case NicSpec::Driver::verbs: return open_verbs(spec, settings.tunables, pool);
    case NicSpec::Driver::memory: break;
  }
  return open_memory(spec, settings.tunables, pool);
}

}  // namespace

EndpointBody::EndpointBody(const EngineSettings& settings, const EndpointConfig& config)
    : tunables_(settings.tunables), pool_(make_packet_pool(settings.tunables.packet_buffers)) {
  if (config.job_secret.size() > kMaxSecretBytes) {
    throw Error("A job secret has at most " + std::to_string(kMaxSecretBytes) + " bytes, not " +
                std::to_string(config.job_secret.size()));
  }
  if (config.inject_bytes > kMostInjectBytes) {
    throw Error("An injected message has at most " + std::to_string(kMostInjectBytes) +
                " bytes, so inject_bytes can't be " + std::to_string(config.inject_bytes));
  }
  std::vector<proto::Nic*> nics;
  for (const NicSpec& spec : settings.nics) {
    open_nic(spec, settings);
    nics.push_back(nics_.back().get());
  }

  if (look_.descriptor() >= 0) descriptors_.push_back(look_.descriptor());

  memory_ = std::make_unique<EndpointMemory>(tunables_, nics);
  if (memory_->descriptor() >= 0) descriptors_.push_back(memory_->descriptor());

  proto::EndpointConfig protocol;
  protocol.tunables = tunables_;
  protocol.endpoint_id = config.endpoint_id != 0 ? config.endpoint_id : random_number();
  protocol.epoch = config.epoch != 0 ? config.epoch : wall_clock_ns();
  protocol.seed = random_number();
  protocol.job_secret = config.job_secret;
  protocol.trace = config.trace;
  protocol.trace_context = config.trace_context;
  protocol_ = std::make_unique<proto::Endpoint>(protocol, nics, *pool_);

  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> bytes;
  const std::size_t length = protocol_->write_address(bytes);
  address_.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
}

EndpointBody::~EndpointBody() = default;

void EndpointBody::open_nic(const NicSpec& spec, const EngineSettings& settings) {
  std::unique_ptr<proto::Nic> driver = open_driver(spec, settings, *pool_);
  if (spec.driver == NicSpec::Driver::udp) look_.add(static_cast<UdpNic&>(*driver));
  if (settings.has_fault_layer()) {
    add_fault_layer(std::move(driver), settings);
  } else {
    nics_.push_back(std::move(driver));
  }
  proto::Nic& nic = *nics_.back();
  // The registration ends with the NIC. If the NIC refuses it, the driver copies the headers.
  if (nic.register_memory(pool_->memory().data(), pool_->memory().size()) != Status::ok) {
    log_info(std::string(nic.name()) + " copies packet headers: their memory is not registered");
  }
  std::array<int, kMaxDescriptorsPerNic> fds;
  const std::size_t count = nic.descriptors(fds);
  descriptors_.insert(descriptors_.end(), fds.begin(),
                      fds.begin() + static_cast<std::ptrdiff_t>(count));
  some_nic_is_silent_ |= count == 0;
}

void EndpointBody::add_fault_layer(std::unique_ptr<proto::Nic> driver,
                                   const EngineSettings& settings) {
  FaultNicConfig config;
  config.stream = nics_.size();
  const proto::NicCaps& caps = driver->caps();
  config.max_datagram_bytes =
      std::min(caps.max_datagram_bytes, max_datagram_bytes(tunables_, caps.payload_bytes));
  config.max_remotes = max_remotes(tunables_);
  auto fault = std::make_unique<FaultNic>(std::move(driver), *pool_, config);
  // The settings have checked the words. Only this NIC knows whether it supports them.
  if (const auto error = fault->apply(settings.faults)) {
    throw Error(complaint_about(*fault, *error));
  }
  faults_.push_back(fault.get());
  nics_.push_back(std::move(fault));
}

Status EndpointBody::send_pieces(Time now, const proto::SendRequest& request) {
  const auto pieces = std::span(request.pieces->pieces).first(request.pieces->count);
  const bool is_host_memory = std::ranges::all_of(pieces, [&](const SendPiece& piece) {
    return memory_->registrations().place_of(piece.data, piece.bytes) ==
           Registrations::Place::elsewhere;
  });
  if (!is_host_memory) return Status::invalid_argument;
  const Status status = protocol_->send(now, request);
  if (status != Status::ok) return status;
  for (const SendPiece& piece : pieces) {
    memory_->send(static_cast<const std::byte*>(piece.data), piece.bytes);
  }
  return Status::ok;
}

Status EndpointBody::write(Time now, OperationId operation, const WriteRequest& request) {
  using Place = Registrations::Place;
  const Place place = memory_->registrations().place_of(request.data, request.bytes);
  if (place == Place::torn) return Status::invalid_argument;
  const Status status = protocol_->write(now, operation, request, place != Place::dmabuf);
  if (status == Status::ok && place == Place::elsewhere) {
    memory_->send(static_cast<const std::byte*>(request.data), request.bytes);
  }
  return status;
}

Status EndpointBody::expose(const ExposeRequest& request, RegionId& region) {
  if (memory_->registrations().place_of(request.data, request.bytes) !=
      Registrations::Place::elsewhere) {
    return Status::invalid_argument;
  }
  const Status status = protocol_->expose(request, host_memory_, region);
  // Replies to reads are sent out of it.
  if (status == Status::ok && allows(request.access, RegionAccess::read)) {
    memory_->send(static_cast<const std::byte*>(request.data), request.bytes);
  }
  return status;
}

void EndpointBody::transmit(Time now) {
  for (FaultNic* fault : faults_) fault->set_time(now);
  protocol_->transmit(now);
}

TurnResult EndpointBody::progress(Time now) {
  if (has_posted_faults()) apply_posted_faults();
  for (FaultNic* fault : faults_) fault->set_time(now);
  look_.begin_turn(now, due_);
  protocol_->begin_turn(now);
  TurnResult result = protocol_->finish_turn(monotonic_now());
  due_ = result.wake_at;
  if (result.warns) warn();
  way_news_.tell(now, look_.nics());
  // After the reap: no NIC reads the memory of reaped sends any more, and the next turn may be far
  // off.
  memory_->turn();
  for (FaultNic* fault : faults_) {
    result.wake_at = proto::earlier(result.wake_at, fault->next_release());
  }
  if (some_nic_is_silent_) {
    result.wake_at = proto::earlier(result.wake_at, now + kSilentNicInterval);
  }
  return result;
}

void EndpointBody::warn() const {
  const Event& event = protocol_->last_warning();
  if (event.kind == Event::Kind::peer_refused) {
    log_warning(
        fmt::format("A call of endpoint {:#x} was refused: all places (max_peers = {}) are in use "
                    "here. Raise max_peers, disconnect peers that are no longer needed, or receive "
                    "the messages of peers that have left",
                    event.endpoint_id, tunables_.max_peers));
    return;
  }
  log_warning(fmt::format(
      "Endpoint {:#x} is heard, but an operation that waits for it has not moved for {} ms: {}",
      event.endpoint_id, tunables_.peer_timeout_ms,
      kReasonTexts[static_cast<std::size_t>(event.reason)].text));
}

bool EndpointBody::arm() {
  if (protocol_->closed()) return false;
  bool look_again = false;
  for (const auto& nic : nics_) look_again |= nic->arm();
  return look_again;
}

std::string EndpointBody::complaint_about_fault(std::size_t nic, std::string_view spec) const {
  FaultSettings settings;
  FaultActions actions;
  auto error = parse_fault_spec(spec, settings, actions);
  if (!error) error = find_unsupported(settings, faults_[nic]->caps());
  return error ? complaint_about(*faults_[nic], *error) : std::string();
}

void EndpointBody::post_fault(std::size_t nic, std::string_view spec) {
  const std::lock_guard lock(posted_mutex_);
  posted_.emplace_back(nic, spec);
  has_posted_.store(true, std::memory_order_release);
}

void EndpointBody::apply_posted_faults() {
  const std::lock_guard lock(posted_mutex_);
  has_posted_.store(false, std::memory_order_relaxed);
  for (const auto& [nic, spec] : posted_) {
    const auto error = faults_[nic]->apply(spec);
    HAWSER_ASSERT(!error, "a fault that inject_fault should have refused");
  }
  posted_.clear();
}

EndpointStats EndpointBody::stats() const {
  EndpointStats stats = protocol_->stats();
  stats.buffers_in_use = pool_->in_use();
  for (const auto& nic : nics_) {
    const proto::PayloadBytes payload = nic->payload_bytes();
    stats.payload_bytes_in_place += payload.in_place;
    stats.payload_bytes_copied += payload.copied;
  }
  memory_->add_to(stats);
  return stats;
}

std::vector<NicStats> EndpointBody::nic_stats() const {
  std::vector<NicStats> stats(nics_.size());
  protocol_->nic_stats(stats);
  for (std::size_t i = 0; i < stats.size(); ++i) stats[i].name = nics_[i]->name();
  return stats;
}

std::vector<Verdict> EndpointBody::verdicts() const {
  std::array<Verdict, 64> standing;
  const std::size_t count = protocol_->verdicts(standing);
  return {standing.begin(), standing.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace hawser::engine
