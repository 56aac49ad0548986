// SPDX-License-Identifier: Apache-2.0
// The NIC contract, sentence by sentence: how a NIC describes itself, and how remotes are opened.
#include <set>

#include "test/engine/driver/conformance/rigs.hpp"

namespace hawser::test {

TEMPLATE_TEST_CASE("a NIC describes itself, the same all its life", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& nic = rig.make();
  Nic& other = rig.make();
  CHECK_FALSE(nic.name().empty());
  const proto::NicCaps caps = nic.caps();
  CHECK(caps.max_datagram_bytes >= PacketBuffer::kBytes);
  CHECK(caps.burst >= 1);
  CHECK(caps.entropies >= 1);
  CHECK(caps.receive_bytes > caps.max_datagram_bytes);
  const proto::NicAddress address = nic.address();
  CHECK(address.bytes[0] != std::byte{0});
  CHECK(address != other.address());

  const RemoteHandle to = open(nic, nic);
  Burst burst(rig.pool);
  burst.add({.id = 1, .remote = to});
  rig.send_all(nic, burst);
  CHECK(rig.settle(nic).size() == 1);
  (void)rig.reap_rest(nic);
  CHECK(nic.address() == address);
  CHECK(nic.caps().max_datagram_bytes == caps.max_datagram_bytes);
  std::array<proto::NicEvent, 4> events;
  CHECK(nic.events(events) == 0);
}

TEMPLATE_TEST_CASE("the same address gives the same handle, counted", "[conformance]",
                   HAWSER_RIGS) {
  TestType rig;
  Nic& nic = rig.make();
  Nic& a = rig.make();
  Nic& b = rig.make();
  const RemoteHandle to_a = open(nic, a);
  const RemoteHandle to_b = open(nic, b);
  CHECK(to_a != to_b);
  CHECK(open(nic, a) == to_a);
  nic.close_remote(to_a);
  // One of the two openings is left.
  Burst burst(rig.pool);
  burst.add({.id = 1, .remote = to_a});
  rig.send_all(nic, burst);
  CHECK(rig.settle(a).size() == 1);
  nic.close_remote(to_a);
  Burst lost(rig.pool);
  lost.add({.id = 2, .remote = to_a});
  rig.send_all(nic, lost);
  CHECK(rig.settle(a).empty());
  // The other remote stayed open, and the closed one can be opened again.
  Burst more(rig.pool);
  more.add({.id = 3, .remote = to_b});
  more.add({.id = 4, .remote = open(nic, a)});
  rig.send_all(nic, more);
  CHECK(rig.settle(b).size() == 1);
  CHECK(rig.settle(a).size() == 1);
}

TEMPLATE_TEST_CASE("handles are dense from 0, when none is free the answer is again",
                   "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& nic = rig.make();
  std::vector<Nic*> others;
  std::set<std::uint32_t> handles;
  for (std::uint32_t i = 0; i < kRigRemotes; ++i) {
    others.push_back(&rig.make());
    handles.insert(static_cast<std::uint32_t>(open(nic, *others.back())));
  }
  CHECK(handles.size() == kRigRemotes);
  CHECK(*handles.rbegin() == kRigRemotes - 1);
  Nic& late = rig.make();
  RemoteHandle handle = proto::kNoRemote;
  CHECK(nic.open_remote(late.address(), handle) == Status::again);
  CHECK(handle == proto::kNoRemote);
  const RemoteHandle freed = open(nic, *others[3]);
  nic.close_remote(freed);
  nic.close_remote(freed);
  CHECK(open(nic, late) == freed);
  // The reused handle reaches the new NIC, and not the one that it named before.
  Burst burst(rig.pool);
  burst.add({.id = 1, .remote = freed});
  rig.send_all(nic, burst);
  CHECK(rig.settle(*others[3]).empty());
  CHECK(rig.settle(late).size() == 1);
}

TEMPLATE_TEST_CASE("an address that no NIC of the kind has is refused", "[conformance]",
                   HAWSER_RIGS) {
  TestType rig;
  Nic& nic = rig.make();
  Nic& other = rig.make();
  RemoteHandle handle = proto::kNoRemote;
  proto::NicAddress address{};
  CHECK(nic.open_remote(address, handle) == Status::invalid_argument);
  address = other.address();
  address.bytes[0] = std::byte{99};
  CHECK(nic.open_remote(address, handle) == Status::invalid_argument);
  address = other.address();
  address.bytes.back() = std::byte{1};  // unused bytes are zero
  CHECK(nic.open_remote(address, handle) == Status::invalid_argument);
  CHECK(handle == proto::kNoRemote);
}

}  // namespace hawser::test
