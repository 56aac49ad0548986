// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "hawser/address.hpp"
#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/stats_table.hpp"
#include "plugin/ofi/uncancelled.hpp"

namespace hawser::ofi {
namespace {

// See "Absence" in docs/ofi.md.
constexpr std::uint64_t kInlinePeerTimeoutMs = 600000;
constexpr std::uint64_t kInlineAbsenceMs = 65535;
// Half of what a UDP socket holds. Ranks that share a processor run a turn only every few
// milliseconds, and until then receive only what was granted before.
constexpr std::uint64_t kInlineGrantStart = 2 << 20;
// Sends that Hawser gets at once, to all peers and to one. Further sends wait here, where they cost
// less. The limit for one peer leaves room for others if that peer accepts nothing.
constexpr std::uint64_t kSubmitted = 32768;
constexpr std::uint64_t kSubmittedToOne = 8192;
// How long closing waits for messages that were reported as sent, unless close_timeout is set.
constexpr std::uint64_t kPromiseMs = 60000;
// The thread that tells peers keys makes no more turns than this allows. The program usually reads
// its completions earlier.
constexpr std::chrono::milliseconds kBetweenTurns{1};
// Longest pause between two turns meanwhile.
constexpr int kLookMs = 1;

std::uint64_t within(std::string_view tunable, std::uint64_t value) {
  const auto row = std::ranges::find(kTunables, tunable, &TunableRow::name);
  return std::clamp(value, row->minimum, row->maximum);
}

}  // namespace

Endpoint::~Endpoint() {
  domain_.remove(*this);
  // From here on no sink runs turns of this endpoint.
  for_each_sink([&](EventSink& sink) { sink.remove(*this); });
  if (addresses_ != nullptr) addresses_->remove(*this);
  const Uncancelled uncancelled;
  // In a child of fork: the watched descriptors, and the threads that wait for messages, belong to
  // the parent.
  const bool is_owner = owner_ == ::getpid();
  if (!is_owner && names_.answers) names_.answers->abandon();
  if (!is_owner && turns_) turns_->abandon();
  turns_.reset();
  if (endpoint_ && is_owner) finish_sends();
  // Nothing ends any more. Another thread may be reading an error of this endpoint, which asks the
  // endpoint for details. The queue waits for that thread.
  if (sending_.queue != nullptr) sending_.queue->drop(*this);
  if (receiving_.queue != nullptr) receiving_.queue->drop(*this);
  if (endpoint_ && is_owner) close();
  // Until here entries went to the sinks, so that the program could not close them.
  for_each_sink([](EventSink& sink) { --sink.users; });
  if (addresses_ != nullptr) --addresses_->users;
  --domain_.users;
}

void Endpoint::finish_sends() {
  names_.answers.reset();
  watch(false);
  write_stats(domain_.config().stats, endpoint_id_, *endpoint_);
  keep_promises();
}

void Endpoint::close() {
  if (mirror_.endpoint) {
    // Disconnect the two first, since one thread can't answer for one of them while it closes the
    // other.
    (void)mirror_.endpoint->disconnect(mirror_.to_us);
    (void)endpoint_->disconnect(mirror_.from_us);
  }
  endpoint_->close();
  if (names_.port) {
    log_info("UDP port " + to_text(names_.port->at()) + " answered " +
             std::to_string(names_.port->answered()) +
             " requests for the endpoint's address, and dropped " +
             std::to_string(names_.port->dropped()) + " other datagrams");
  }
  names_.asker.reset();
  names_.port.reset();
  keys_.reset();
  peers_.reset();
  mirror_.endpoint.reset();
  endpoint_.reset();
  engine_.reset();
}

// Lets waiting sends leave. A message that was reported as sent can't be taken back, so closing
// waits until it has arrived, or reports its loss.
void Endpoint::keep_promises() {
  Config config = domain_.config();
  config.prefer("close_timeout_ms", kPromiseMs);
  const auto begin = Clock::now();
  const auto waits = std::chrono::milliseconds(domain_.config().tunables.close_timeout_ms);
  const auto promises = std::chrono::milliseconds(config.tunables.close_timeout_ms);
  for (;;) {
    const std::uint64_t promised = promised_sends();
    const auto spent = Clock::now() - begin;
    if (promised == 0 && (!has_waiting_sends() || spent >= waits)) return;
    if (spent >= promises) {
      complain(std::to_string(promised) +
               " messages reported as sent are not known to have arrived, but their endpoint "
               "closes: raise FI_HAWSER_CLOSE_TIMEOUT_MS, or ask for completions of sends");
      return;
    }
    // The same thread may have both endpoints of a session.
    domain_.for_each_endpoint([](Endpoint& endpoint) { endpoint.progress(); });
    progress();
    pollfd readable{endpoint_->fd(), POLLIN, 0};
    (void)::poll(&readable, 1, kLookMs);
  }
}

std::uint64_t Endpoint::promised_sends() {
  const Lock lock(mutex_);
  constexpr auto kIsPromised = [](const Operation& operation) { return operation.is_silent; };
  return pools_.injects.count_open(kIsPromised) + pools_.copied.count_open(kIsPromised);
}

int Endpoint::bind(struct fid* other, std::uint64_t flags) {
  if (endpoint_) return -FI_EOPBADSTATE;
  switch (other->fclass) {
    case FI_CLASS_AV:
      if (addresses_ != nullptr) return -FI_EINVAL;
      addresses_ = &object_of<AddressVector, fid_av>(other);
      ++addresses_->users;
      return 0;
    case FI_CLASS_CQ: return bind_queue(object_of<CompletionQueue, fid_cq>(other), flags);
    case FI_CLASS_CNTR: return bind_counter(object_of<Counter, fid_cntr>(other), flags);
    case FI_CLASS_EQ: return 0;  // this endpoint writes no events
    default: return -FI_EINVAL;
  }
}

int Endpoint::bind_queue(CompletionQueue& queue, std::uint64_t flags) {
  const bool sends = (flags & FI_TRANSMIT) != 0;
  const bool receives = (flags & FI_RECV) != 0;
  if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0 || (!sends && !receives) ||
      (sends && sending_.queue != nullptr) || (receives && receiving_.queue != nullptr)) {
    return -FI_EINVAL;
  }
  const bool bound = sending_.queue == &queue || receiving_.queue == &queue;
  const bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  for (Side* side : {sends ? &sending_ : nullptr, receives ? &receiving_ : nullptr}) {
    if (side == nullptr) continue;
    side->queue = &queue;
    side->selective = selective;
  }
  if (!bound) ++queue.users;
  return 0;
}

int Endpoint::bind_counter(Counter& counter, std::uint64_t flags) {
  // These counts stay 0 at an endpoint without one-sided operations. With them, the target can't
  // tell how often its memory was reached.
  constexpr std::uint64_t kAtTarget = FI_REMOTE_READ | FI_REMOTE_WRITE;
  if ((flags & kAtTarget) != 0 && has_one_sided()) return -FI_ENOSYS;
  struct Slot {
    std::uint64_t flag;
    Counter*& counter;
  };
  const std::array slots{Slot{FI_SEND, sending_.counter}, Slot{FI_RECV, receiving_.counter},
                         Slot{FI_READ, reading_counter_}, Slot{FI_WRITE, writing_counter_}};
  std::uint64_t known = kAtTarget;
  bool is_bound = false;
  for (const Slot& slot : slots) {
    known |= slot.flag;
    is_bound = is_bound || slot.counter == &counter;
    if ((flags & slot.flag) != 0 && slot.counter != nullptr) return -FI_EINVAL;
  }
  if ((flags & ~known) != 0) return -FI_EINVAL;
  for (const Slot& slot : slots) {
    if ((flags & slot.flag) != 0) slot.counter = &counter;
  }
  if (!is_bound && (flags & ~kAtTarget) != 0) ++counter.users;
  return 0;
}

hawser::EngineConfig Endpoint::engine_config() const {
  Config config = domain_.config();
  if (domain_.threads() == 0) {
    config.prefer("peer_timeout_ms", kInlinePeerTimeoutMs);
    config.prefer("longest_absence_ms", kInlineAbsenceMs);
    // The next turn may be far off, so acknowledgements must not wait for other packets.
    config.prefer("max_ack_delay_us", 0);
    config.prefer("grant_start_bytes", kInlineGrantStart);
  }
  config.prefer("max_receive_messages", kUnexpectedMessages);
  config.prefer("unexpected_bytes", kUnexpectedBytes);
  const std::uint64_t sends = std::min<std::uint64_t>(
      send_count_ + pools_.injects.size() + pools_.copied.size(), kSubmitted);
  const std::uint64_t operations = sends + receive_count_ + pools_.extras.size();
  config.prefer("max_operations", within("max_operations", operations));
  // A user who raises max_operations means receives and sends each: neither may take the other's
  // room.
  std::uint64_t& most = config.tunables.max_operations;
  if (most >= receive_count_) most = within("max_operations", std::max(most, operations));
  config.prefer("max_messages_per_peer", kSubmittedToOne);
  const std::uint64_t peers = std::max(config.tunables.max_peers, addresses_->expected() + 1);
  config.prefer("max_peers", within("max_peers", peers));
  hawser::EngineConfig engine;
  engine.nics = config.nics;
  engine.threads = domain_.threads();
  engine.tunables = config.tunables;
  engine.faults = config.faults;
  engine.ignore_environment = true;  // the provider has read it already
  return engine;
}

// Gives sends and receives a share each. Neither then takes the other's room, whichever kind waits.
void Endpoint::share_operations(std::uint64_t operations) {
  const std::uint64_t others = receive_count_ + pools_.extras.size();
  const bool is_enough = operations > others;
  shares_.most_posted = is_enough ? receive_count_ : operations / 2;
  shares_.most_submitted = is_enough ? operations - others : operations / 4;
}

void Endpoint::start() {
  const hawser::EngineConfig engine = engine_config();
  const Tunables& limits = engine.tunables;
  claims_.reserve(limits.max_receive_messages);
  for (WaitingSends* waiting : {&waiting_sends_, &waiting_one_sided_, &behind_fence_}) {
    *waiting = WaitingSends(limits.max_peers);
  }
  shares_.under_way.assign(limits.max_peers, 0);
  told_.assign(limits.max_peers, kAnyPeer);
  share_operations(limits.max_operations);
  engine_ = std::make_unique<hawser::Engine>(engine);
  hawser::EndpointConfig config;
  const auto secret = std::as_bytes(std::span(domain_.config().job_secret));
  config.job_secret.assign(secret.begin(), secret.end());
  endpoint_ = engine_->create_endpoint(config);
  if (!pack_address(endpoint_->address(), address_)) {
    throw hawser::Error("an address of these NICs doesn't fit into 56 bytes");
  }
  endpoint_id_ = endpoint_id_of(endpoint_->address());
  peers_ = std::make_unique<Peers>(*endpoint_, *addresses_);
  names_.patience = std::chrono::milliseconds(limits.peer_timeout_ms);
  if (has_one_sided()) {
    keys_ = std::make_unique<KeyExchange>(*endpoint_, domain_.regions(), names_.patience);
  }
  open_port();
  enabled_at_ = Clock::now();
  if (keys_ && domain_.threads() > 0) {
    turns_ = std::make_unique<WatchThread>(endpoint_->fd(), kBetweenTurns, "hawser-turns",
                                           [this] { progress(); });
  }
}

void Endpoint::abandon_start() {
  turns_.reset();
  names_.answers.reset();
  names_.port.reset();
  keys_.reset();
  peers_.reset();
  endpoint_.reset();
  engine_.reset();
}

int Endpoint::enable() {
  if (endpoint_) return -FI_EOPBADSTATE;
  if (addresses_ == nullptr) return -FI_ENOAV;
  const bool can_send = sending_.queue != nullptr || sending_.counter != nullptr ||
                        reading_counter_ != nullptr || writing_counter_ != nullptr;
  const bool can_receive = receiving_.queue != nullptr || receiving_.counter != nullptr;
  constexpr std::uint64_t kInitiates = FI_SEND | FI_READ | FI_WRITE;
  if (((caps_ & kInitiates) != 0 && !can_send) || ((caps_ & FI_RECV) != 0 && !can_receive)) {
    return -FI_ENOCQ;
  }
  try {
    start();
  } catch (const hawser::Error& error) {
    complain(error.what());
    abandon_start();
    return -FI_EINVAL;
  } catch (const PortError& error) {
    complain(error.what());
    abandon_start();
    return -error.number();
  } catch (const std::exception& error) {
    complain(error.what());
    abandon_start();
    return -FI_ENOMEM;
  }
  watch(true);
  addresses_->add(*this);
  for_each_sink([&](EventSink& sink) { sink.add(*this); });
  ask(addresses_->unanswered());
  return 0;
}

void Endpoint::watch(bool on) {
  for_each_sink([&](EventSink& sink) {
    if (!sink.is_waitable()) return;
    // Once an endpoint's descriptor has been asked for, each of its turns sets a timer.
    const std::array<int, 4> descriptors{
        endpoint_->fd(), mirror_.endpoint ? mirror_.endpoint->fd() : -1,
        names_.port && !names_.answers ? names_.port->fd()
                                       : -1,  // a thread of its own watches the port
        names_.asker ? names_.asker->fd() : -1};
    for (const int descriptor : descriptors) {
      if (descriptor < 0) continue;
      if (on) {
        sink.watch(descriptor);
      } else {
        sink.forget(descriptor);
      }
    }
  });
}

int Endpoint::control_flags(int command, std::uint64_t& flags) {
  const bool sends = (flags & FI_TRANSMIT) != 0;
  const bool receives = (flags & FI_RECV) != 0;
  if (sends == receives) return -FI_EINVAL;
  std::uint64_t& ours = sends ? send_flags_ : receive_flags_;
  const Lock lock(mutex_);
  if (command == FI_GETOPSFLAG) {
    flags = ours;
    return 0;
  }
  const std::uint64_t wanted = flags & ~(FI_TRANSMIT | FI_RECV);
  if ((wanted & ~(sends ? kSendFlags : kReceiveFlags)) != 0) return -FI_EINVAL;
  ours = wanted;
  return 0;
}

int Endpoint::name(void* address, std::size_t* bytes) {
  if (!endpoint_) return -FI_EOPBADSTATE;
  if (bytes == nullptr) return -FI_EINVAL;
  const bool by_port = is_socket_format(format_);
  const auto name = write_address(format_, by_port ? pack_name(port_name()) : address_);
  const std::size_t room = std::exchange(*bytes, name.size());
  if (address == nullptr || room == 0) return -FI_ETOOSMALL;
  std::memcpy(address, name.data(), std::min(room, name.size()));
  return room < name.size() ? -FI_ETOOSMALL : 0;
}

int Endpoint::option(int name, void* value, std::size_t* bytes) {
  if (name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (*bytes < sizeof least_multi_bytes_) return -FI_ETOOSMALL;
  std::memcpy(value, &least_multi_bytes_, sizeof least_multi_bytes_);
  *bytes = sizeof least_multi_bytes_;
  return 0;
}

int Endpoint::set_option(int name, const void* value, std::size_t bytes) {
  if (name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (bytes != sizeof least_multi_bytes_) return -FI_EINVAL;
  const Lock lock(mutex_);
  std::memcpy(&least_multi_bytes_, value, bytes);
  return 0;
}

}  // namespace hawser::ofi
