// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_destinations.hpp"

#include <algorithm>
#include <cstring>

#include "engine/cancellation.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {
namespace {

constexpr std::uint32_t kLookAtMost = 64;
constexpr std::uint8_t kHopLimit = 64;
// ECN-capable (ECT(0)), so that switches mark packets instead of dropping them.
constexpr unsigned kEcnBits = 3;
constexpr unsigned kEcnCapable = 2;
constexpr std::chrono::milliseconds kRetryAfter{250};

}  // namespace

// The source port is 0xc000 plus the label's low 14 bits, exclusive-or its high 6 bits. Consecutive
// multiples of an odd number are distinct in 14 bits and far apart. The label 0 would let the
// device choose.
std::uint32_t flow_label(std::uint16_t entropy) {
  constexpr std::uint32_t kLowBits = 0x3fff;
  return (entropy + 1u) * 0x1e37u & kLowBits;
}

std::vector<std::uint16_t> roce_source_ports() {
  const std::uint16_t entropies = VerbsNicConfig{}.entropies;
  std::vector<std::uint16_t> ports(entropies);
  for (std::uint16_t i = 0; i < entropies; ++i) {
    ports[i] = ibv_flow_label_to_udp_sport(flow_label(i));
  }
  return ports;
}

VerbsDestinations::VerbsDestinations(const VerbsPort& port, const Shape& shape)
    : port_(port),
      shape_(shape),
      places_(shape.capacity),
      destinations_(std::make_unique<Destination[]>(shape.capacity)),
      handles_(std::make_unique<VerbsHandle[]>(std::size_t{shape.capacity} * shape.entropies)) {}

VerbsDestinations::~VerbsDestinations() {
  for (std::uint32_t i = 0; i < places_.capacity(); ++i) destroy(i);
}

Status VerbsDestinations::use(const VerbsAddress& remote, const SendPositions& done,
                              std::uint32_t& index, bool& wake) {
  const RemoteTable::Opened place = places_.open(destination_of(remote));
  if (place.handle == proto::kNoRemote) {
    make_room(done, wake);
    return Status::again;
  }
  const auto found = static_cast<std::uint32_t>(place.handle);
  Destination& destination = destinations_[found];
  if (place.is_new) {
    destination.address = remote;
    destination.uses = 0;
    destination.retry_at.store(kAtOnce, std::memory_order_relaxed);
    destination.state.store(State::wanted, std::memory_order_release);
    wake = true;
    return Status::again;
  }
  (void)places_.close(place.handle);  // this was only a look-up
  switch (destination.state.load(std::memory_order_acquire)) {
    case State::ready:
      ++destination.uses;
      index = found;
      return Status::ok;
    case State::failed:
      destination.state.store(State::wanted, std::memory_order_release);
      wake = true;
      break;
    case State::gone: forget(found); break;
    default: break;
  }
  return Status::again;
}

void VerbsDestinations::release(std::uint32_t index, const SendPositions& sent) {
  Destination& destination = destinations_[index];
  HAWSER_ASSERT(destination.uses > 0);
  --destination.uses;
  // A use that has sent nothing must not reduce the positions of others' sends.
  destination.sent.data = std::max(destination.sent.data, sent.data);
  destination.sent.control = std::max(destination.sent.control, sent.control);
}

void VerbsDestinations::make_room(const SendPositions& done, bool& wake) {
  const auto capacity = static_cast<std::uint32_t>(places_.capacity());
  for (std::uint32_t looked = 0; looked < std::min(capacity, kLookAtMost); ++looked) {
    const std::uint32_t index = hand_;
    hand_ = (hand_ + 1) % capacity;
    Destination& destination = destinations_[index];
    State state = destination.state.load(std::memory_order_acquire);
    switch (state) {
      case State::failed:
      case State::gone: forget(index); return;
      case State::ready:
      case State::stale:
        if (destination.uses > 0 || !done.covers(destination.sent)) break;
        if (!destination.state.compare_exchange_strong(state, State::doomed)) break;
        wake = true;
        return;
      default: break;
    }
  }
}

void VerbsDestinations::forget(std::uint32_t index) {
  destinations_[index].state.store(State::free, std::memory_order_relaxed);
  HAWSER_ASSERT(places_.close(proto::RemoteHandle{index}));
}

bool VerbsDestinations::try_claim(Destination& destination, bool retries, Clock::time_point now,
                                  Looked& looked) {
  State state = destination.state.load(std::memory_order_acquire);
  if (state == State::doomed) {
    return destination.state.compare_exchange_strong(state, State::destroying);
  }
  if (state != State::wanted && state != State::stale) return false;
  const Clock::time_point due = destination.retry_at.load(std::memory_order_relaxed);
  if (due != kAtOnce && !retries) return false;
  if (due > now) {
    looked.next = std::min(looked.next, due);
    return false;
  }
  return destination.state.compare_exchange_strong(
      state, state == State::wanted ? State::making : State::remaking);
}

std::uint32_t VerbsDestinations::claim(bool retries, Clock::time_point now, Looked& looked) {
  const auto capacity = static_cast<std::uint32_t>(places_.capacity());
  std::uint32_t index = look_from_.load(std::memory_order_relaxed);
  for (std::uint32_t passed = 0; passed < capacity; ++passed) {
    index = index + 1 < capacity ? index + 1 : 0;
    if (!try_claim(destinations_[index], retries, now, looked)) continue;
    look_from_.store(index, std::memory_order_relaxed);
    looked.found = true;
    break;
  }
  return index;
}

bool VerbsDestinations::carry_out(std::uint32_t index) {
  Destination& destination = destinations_[index];
  const State state = destination.state.load(std::memory_order_acquire);
  if (state == State::destroying) {
    destroy(index);
    destination.state.store(State::gone, std::memory_order_release);
    return true;
  }
  const bool made = make(index);
  destination.retry_at.store(made ? kAtOnce : Clock::now() + kRetryAfter,
                             std::memory_order_relaxed);
  const State failed = state == State::making ? State::failed : State::stale;
  destination.state.store(made ? State::ready : failed, std::memory_order_release);
  return made;
}

void VerbsDestinations::drop_handles() {
  for (std::uint32_t i = 0; i < places_.capacity(); ++i) {
    Destination& destination = destinations_[i];
    State ready = State::ready;
    (void)destination.state.compare_exchange_strong(ready, State::stale);
    destroy(i);
    destination.retry_at.store(kAtOnce, std::memory_order_relaxed);
  }
}

bool VerbsDestinations::make(std::uint32_t index) {
  const CancellationHold hold;  // older kernels take commands by write(2), a cancellation point
  const VerbsAddress& address = destinations_[index].address;
  const VerbsQuality& quality = shape_.quality;
  ibv_ah_attr attributes{};
  attributes.port_num = port_.number();
  attributes.dlid = address.lid;
  attributes.sl = quality.service_level;
  attributes.is_global = address.link == VerbsAddress::Link::ethernet ? 1 : 0;
  attributes.grh.sgid_index = static_cast<std::uint8_t>(port_.facts.gid.index);
  attributes.grh.hop_limit = kHopLimit;
  attributes.grh.traffic_class =
      static_cast<std::uint8_t>((quality.traffic_class & ~kEcnBits) | kEcnCapable);
  std::memcpy(attributes.grh.dgid.raw, address.gid.data(), address.gid.size());
  // Publish all handles together: a published one may be in flight and can't be destroyed.
  std::vector<ibv_ah*> made(shape_.entropies, nullptr);
  for (std::uint16_t entropy = 0; entropy < shape_.entropies; ++entropy) {
    attributes.grh.flow_label = flow_label(entropy);
    made[entropy] = ibv_create_ah(port_.domain.get(), &attributes);
    if (made[entropy] != nullptr) continue;
    for (std::uint16_t i = 0; i < entropy; ++i) (void)ibv_destroy_ah(made[i]);
    return false;
  }
  for (std::uint16_t entropy = 0; entropy < shape_.entropies; ++entropy) {
    handle(index, entropy).store(made[entropy], std::memory_order_release);
  }
  return true;
}

void VerbsDestinations::destroy(std::uint32_t index) {
  const CancellationHold hold;
  for (std::uint16_t entropy = 0; entropy < shape_.entropies; ++entropy) {
    ibv_ah* const old = handle(index, entropy).exchange(nullptr, std::memory_order_acq_rel);
    if (old != nullptr) (void)ibv_destroy_ah(old);
  }
}

}  // namespace hawser::engine
