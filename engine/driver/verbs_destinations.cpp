#include "engine/driver/verbs_destinations.hpp"

#include <algorithm>
#include <cstring>

#include "proto/assert.hpp"

namespace hawser::engine {
namespace {

constexpr std::uint32_t kLookAtMost = 64;
constexpr std::uint8_t kHopLimit = 64;
// ECN-capable (ECT(0)), so that switches mark instead of dropping.
constexpr std::uint8_t kTrafficClass = 2;

}  // namespace

// The source port is 0xc000 plus the label's low 14 bits, exclusive-or its high 6. Consecutive
// multiples of an odd number are distinct in 14 bits, and far apart. 0 would leave it to the
// device.
std::uint32_t flow_label(std::uint16_t entropy) {
  constexpr std::uint32_t kLowBits = 0x3fff;
  return (entropy + 1u) * 0x1e37u & kLowBits;
}

VerbsDestinations::VerbsDestinations(const VerbsPort& port, std::uint32_t capacity,
                                     std::uint16_t entropies)
    : port_(port),
      entropies_(entropies),
      places_(capacity),
      destinations_(std::make_unique<Destination[]>(capacity)),
      handles_(std::size_t{capacity} * entropies, nullptr) {}

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
    destination.failed_before = false;
    destination.state.store(State::wanted, std::memory_order_release);
    wake = true;
    return Status::again;
  }
  (void)places_.close(place.handle);  // was only a look-up
  switch (destination.state.load(std::memory_order_acquire)) {
    case State::ready:
      ++destination.uses;
      index = found;
      return Status::ok;
    case State::failed:
      destination.failed_before = true;
      destination.state.store(State::wanted, std::memory_order_release);
      wake = true;
      return Status::again;
    case State::gone: forget(found); return Status::again;
    default: return Status::again;
  }
}

void VerbsDestinations::release(std::uint32_t index, const SendPositions& sent) {
  Destination& destination = destinations_[index];
  HAWSER_ASSERT(destination.uses > 0);
  --destination.uses;
  destination.sent = sent;
}

void VerbsDestinations::make_room(const SendPositions& done, bool& wake) {
  const auto capacity = static_cast<std::uint32_t>(places_.capacity());
  for (std::uint32_t looked = 0; looked < std::min(capacity, kLookAtMost); ++looked) {
    const std::uint32_t index = hand_;
    hand_ = (hand_ + 1) % capacity;
    Destination& destination = destinations_[index];
    switch (destination.state.load(std::memory_order_acquire)) {
      case State::failed:
      case State::gone: forget(index); return;
      case State::ready:
        if (destination.uses > 0 || !done.covers(destination.sent)) break;
        destination.state.store(State::doomed, std::memory_order_release);
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

bool VerbsDestinations::serve(bool retry) {
  bool waiting = false;
  for (std::uint32_t i = 0; i < places_.capacity(); ++i) {
    Destination& destination = destinations_[i];
    const State state = destination.state.load(std::memory_order_acquire);
    if (state == State::doomed) {
      destroy(i);
      destination.state.store(State::gone, std::memory_order_release);
    } else if (state == State::wanted) {
      if (destination.failed_before && !retry) {
        waiting = true;
        continue;
      }
      destination.state.store(make(i) ? State::ready : State::failed, std::memory_order_release);
    }
  }
  return waiting;
}

bool VerbsDestinations::make(std::uint32_t index) {
  const VerbsAddress& address = destinations_[index].address;
  ibv_ah_attr attributes{};
  attributes.port_num = port_.number;
  attributes.dlid = address.lid;
  attributes.is_global = address.link == VerbsAddress::Link::ethernet ? 1 : 0;
  attributes.grh.sgid_index = static_cast<std::uint8_t>(port_.gid.index);
  attributes.grh.hop_limit = kHopLimit;
  attributes.grh.traffic_class = kTrafficClass;
  std::memcpy(attributes.grh.dgid.raw, address.gid.data(), address.gid.size());
  for (std::uint16_t entropy = 0; entropy < entropies_; ++entropy) {
    attributes.grh.flow_label = flow_label(entropy);
    ibv_ah*& handle = handles_[std::size_t{index} * entropies_ + entropy];
    handle = ibv_create_ah(port_.domain.get(), &attributes);
    if (handle == nullptr) {
      destroy(index);
      return false;
    }
  }
  return true;
}

void VerbsDestinations::destroy(std::uint32_t index) {
  for (std::uint16_t entropy = 0; entropy < entropies_; ++entropy) {
    ibv_ah*& handle = handles_[std::size_t{index} * entropies_ + entropy];
    if (handle != nullptr) (void)ibv_destroy_ah(handle);
    handle = nullptr;
  }
}

}  // namespace hawser::engine
