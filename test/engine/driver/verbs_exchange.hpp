// SPDX-License-Identifier: Apache-2.0
// Helpers that tests of failing verbs NICs share: wait for an event, check that packets pass.
#pragma once

#include <poll.h>

#include "test/engine/driver/conformance/rig.hpp"

namespace hawser::test {

// Whether the next event is of this kind. The NIC's descriptors wake the wait.
inline bool hears(Nic& nic, proto::NicEvent::Kind kind) {
  std::array<pollfd, 8> polled{};
  std::array<int, 8> fds;
  const std::size_t count = nic.descriptors(fds);
  for (std::size_t i = 0; i < count; ++i) polled[i] = {fds[i], POLLIN, 0};
  for (const HangLimit limit; !limit.is_over();) {
    std::array<proto::NicEvent, 1> events;
    std::array<RxPacket, 64> packets;
    (void)nic.rx_burst(Queue::data, packets);
    (void)nic.rx_burst(Queue::control, packets);
    if (nic.events(events) == 1) {
      CHECK(events[0].kind == kind);
      return events[0].kind == kind;
    }
    if (!nic.arm()) (void)::poll(polled.data(), count, 10);
  }
  return false;
}

// Sends and reaps `count` packets; returns how many the receiver got.
template <class Rig>
std::size_t exchange(Rig& rig, Nic& from, RemoteHandle to, Nic& receiver, std::size_t count,
                     Queue queue = Queue::data) {
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < count; ++id) {
    burst.add({.id = id, .payload_bytes = 500, .remote = to, .queue = queue});
  }
  rig.send_all(from, burst);
  const std::size_t arrived = rig.settle(receiver, queue).size();
  CHECK(rig.reap_rest(from).size() == count);
  CHECK(rig.pool.in_use() == 0);
  return arrived;
}

}  // namespace hawser::test
