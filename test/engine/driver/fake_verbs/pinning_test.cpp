// SPDX-License-Identifier: Apache-2.0
// Memory registered in two halves: any thread pins it, and the datapath uses and forgets it.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

#include "test/engine/driver/fake_verbs/two_nics.hpp"
#include "test/support/device_memory.hpp"

namespace hawser::test {
namespace {

using Two = TwoNics<PooledVerbsRig>;
using fake::Call;

constexpr std::uint32_t kPayload = 500;

// The memory that sends read. It outlives the NICs.
struct Memory {
  std::vector<std::byte> bytes = datagram(1, 8192);
  [[nodiscard]] proto::MemoryRange range() const { return {bytes.data(), bytes.size()}; }
};

// Hands a datagram over whose payload lies in `memory`.
void post(Two& two, const Memory& memory, std::size_t at) {
  PacketBuffer* buffer = nullptr;
  REQUIRE(two.rig.pool.take({&buffer, 1}) == 1);
  fill({buffer->bytes, 32}, 1);
  const TxPacket packet{.buffer = buffer,
                        .header_bytes = 32,
                        .payload_bytes = kPayload,
                        .payload = memory.bytes.data() + at,
                        .remote = two.to_theirs,
                        .cookie = 7};
  REQUIRE(send_now(two.mine, {&packet, 1}) == 1);
}

// Sends a datagram and receives it. True if the payload went out in place.
bool goes_in_place(Two& two, const Memory& memory, std::size_t at = 1000) {
  const proto::PayloadBytes before = two.mine.payload_bytes();
  post(two, memory, at);
  const auto arrived = two.rig.settle(two.theirs);
  REQUIRE(arrived.size() == 1);
  CHECK(std::equal(arrived[0].begin() + 32, arrived[0].end(),
                   memory.bytes.begin() + static_cast<std::ptrdiff_t>(at)));
  CHECK(two.rig.reap_rest(two.mine).size() == 1);
  const proto::PayloadBytes after = two.mine.payload_bytes();
  CHECK(after.in_place - before.in_place + after.copied - before.copied == kPayload);
  return after.in_place > before.in_place;
}

}  // namespace

TEST_CASE("verbs NIC: pinned memory is read in place from its use until it is forgotten") {
  const Memory memory;
  Two two;
  proto::PinnedMemory* pinned = nullptr;
  REQUIRE(two.mine.pins_memory());
  REQUIRE(two.mine.pin(memory.range(), nullptr, pinned) == Status::ok);
  CHECK_FALSE(goes_in_place(two, memory));
  REQUIRE(two.mine.use(*pinned));
  CHECK(goes_in_place(two, memory));
  CHECK(goes_in_place(two, memory, 8192 - kPayload));
  two.mine.forget(*pinned);
  CHECK_FALSE(goes_in_place(two, memory));
  const std::size_t before = two.fabric().registrations();
  two.mine.unpin(pinned);
  CHECK(two.fabric().registrations() == before - 1);
}

TEST_CASE("verbs NIC: memory whose mapping does not hold is copied") {
  const Memory memory;
  std::atomic<bool> doubt{false};
  proto::Mapping mapping;
  mapping.in_doubt = &doubt;
  Two two;
  proto::PinnedMemory* pinned = nullptr;
  REQUIRE(two.mine.pin(memory.range(), &mapping, pinned) == Status::ok);
  REQUIRE(two.mine.use(*pinned));
  CHECK(goes_in_place(two, memory));
  doubt = true;
  CHECK_FALSE(goes_in_place(two, memory));
  doubt = false;
  CHECK(goes_in_place(two, memory));
  mapping.changed = true;
  CHECK_FALSE(goes_in_place(two, memory));
  // Another registration of the same bytes may be valid.
  proto::PinnedMemory* other = nullptr;
  REQUIRE(two.mine.pin(memory.range(), nullptr, other) == Status::ok);
  REQUIRE(two.mine.use(*other));
  CHECK(goes_in_place(two, memory));
}

TEST_CASE("verbs NIC: what a device reads of pinned memory is known until the sends have ended") {
  const Memory memory;
  Two two;
  proto::PinnedMemory* pinned = nullptr;
  REQUIRE(two.mine.pin(memory.range(), nullptr, pinned) == Status::ok);
  REQUIRE(two.mine.use(*pinned));
  CHECK_FALSE(two.mine.is_reading(*pinned));
  two.fabric().hold(true);
  post(two, memory, 0);
  post(two, memory, 1000);
  two.mine.forget(*pinned);
  CHECK(two.mine.is_reading(*pinned));
  SECTION("as they complete") {
    two.fabric().let_go(1);
    CHECK(two.reap().size() == 1);
    CHECK(two.mine.is_reading(*pinned));
    two.fabric().let_go(1);
    CHECK(two.reap().size() == 1);
  }
  SECTION("as they fail, and the NIC is repaired") {
    two.fabric().complete_with(fake::Side::send, IBV_WC_GENERAL_ERR);
    two.fabric().let_go(1);
    (void)two.reap();
    REQUIRE(hears(two.mine, proto::NicEvent::Kind::down));
    REQUIRE(hears(two.mine, proto::NicEvent::Kind::up));
    (void)two.reap();
  }
  two.fabric().hold(false);
  CHECK_FALSE(two.mine.is_reading(*pinned));
  two.mine.unpin(pinned);
}

TEST_CASE("verbs NIC: a post that is refused leaves nothing that seems to be read") {
  const Memory memory;
  Two two;
  proto::PinnedMemory* pinned = nullptr;
  REQUIRE(two.mine.pin(memory.range(), nullptr, pinned) == Status::ok);
  REQUIRE(two.mine.use(*pinned));
  two.fabric().fail(Call::post_send, ENOMEM);
  post(two, memory, 0);
  REQUIRE(hears(two.mine, proto::NicEvent::Kind::down));
  REQUIRE(hears(two.mine, proto::NicEvent::Kind::up));
  CHECK(two.reap().size() == 1);
  CHECK_FALSE(two.mine.is_reading(*pinned));
  CHECK(goes_in_place(two, memory));
}

TEST_CASE("verbs NIC: why memory can not be pinned") {
  struct Row {
    int error;
    Status status;
  };
  const Row row = GENERATE(Row{ENOMEM, Status::lock_limit}, Row{EPERM, Status::lock_limit},
                           Row{EAGAIN, Status::lock_limit}, Row{EFAULT, Status::invalid_argument},
                           Row{EOPNOTSUPP, Status::unsupported}, Row{EIO, Status::nic_error});
  const Memory memory;
  Two two;
  two.fabric().fail(Call::reg_mr, row.error);
  proto::PinnedMemory* pinned = nullptr;
  CHECK(two.mine.pin(memory.range(), nullptr, pinned) == row.status);
  CHECK(pinned == nullptr);
  two.fabric().change(kMine,
                      [](fake::DeviceSettings& settings) { settings.max_memory_bytes = 99; });
  CHECK(two.mine.pin(memory.range(), nullptr, pinned) == Status::too_large);
  CHECK(two.mine.pin({memory.bytes.data(), 99}, nullptr, pinned) == Status::ok);
  // The NIC ends the registration when it is destroyed.
}

TEST_CASE("verbs NIC: other threads pin while the datapath sends") {
  const Memory memory;
  Two two;
  proto::PinnedMemory* used = nullptr;
  REQUIRE(two.mine.pin(memory.range(), nullptr, used) == Status::ok);
  REQUIRE(two.mine.use(*used));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        proto::PinnedMemory* pinned = nullptr;
        if (two.mine.pin(memory.range(), nullptr, pinned) != Status::ok) std::abort();
        two.mine.unpin(pinned);
      }
    });
  }
  for (int round = 0; round < 50; ++round) CHECK(goes_in_place(two, memory));
  for (std::thread& thread : threads) thread.join();
}

// This holds also for memory that was pinned while the device was away, and for memory of another
// device whose descriptor the user has closed since.
TEST_CASE("verbs NIC: what is pinned outlasts its device") {
  std::array<Memory, 3> memories;
  Two two;
  two.fabric().change(kMine, [](fake::DeviceSettings& settings) { settings.takes_dmabufs = true; });
  std::array<proto::PinnedMemory*, 3> pinned{};
  const auto pin = [&](std::size_t i, int dmabuf) {
    proto::MemoryRange range = memories[i].range();
    range.dmabuf = dmabuf;
    REQUIRE(two.mine.pin(range, nullptr, pinned[i]) == Status::ok);
    REQUIRE(two.mine.use(*pinned[i]));
  };
  pin(0, -1);
  const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  pin(1, descriptor);
  REQUIRE(::close(descriptor) == 0);
  CHECK(goes_in_place(two, memories[0]));
  CHECK(goes_in_place(two, memories[1]));

  two.fabric().remove(kMine, fake::Fabric::Removal::told);
  REQUIRE(hears(two.mine, proto::NicEvent::Kind::down));
  REQUIRE(comes_true([&] {
    std::array<proto::NicEvent, 1> events;
    CHECK(two.mine.events(events) == 0);
    (void)two.reap();
    return two.fabric().removed_in_use() == 0;
  }));
  pin(2, -1);
  fake::PortSettings port;
  port.gids.push_back({0, IBV_GID_TYPE_ROCE_V2, fake::gid_of("fe80::a7")});
  fake::DeviceSettings device;
  device.name = kMine;
  device.ports.push_back(port);
  device.takes_dmabufs = true;
  two.fabric().add(device);
  two.comes_up();
  for (const Memory& memory : memories) CHECK(goes_in_place(two, memory));

  const std::size_t before = two.fabric().registrations();
  for (proto::PinnedMemory* const each : pinned) {
    two.mine.forget(*each);
    two.mine.unpin(each);
  }
  CHECK(two.fabric().registrations() == before - 3);
}

namespace {

constexpr std::size_t kDeviceBytes = 8192;

// A dma-buf that the NIC uses, on a device that accepts dma-bufs when the test lets it.
struct OnDevice {
  DeviceMemory memory{datagram(9, kDeviceBytes)};
  Two two;
  proto::PinnedMemory* pinned = nullptr;

  OnDevice() {
    let_take(true);
    REQUIRE(two.mine.pin({memory.data(), memory.size(), memory.descriptor(), 0}, nullptr, pinned) ==
            Status::ok);
    REQUIRE(two.mine.use(*pinned));
  }
  void let_take(bool dmabufs) {
    two.fabric().change(kMine,
                        [&](fake::DeviceSettings& settings) { settings.takes_dmabufs = dmabufs; });
  }
  // Sends a datagram with this payload; returns the payload that arrives, empty if none does.
  std::vector<std::byte> send(const std::byte* payload, std::uint32_t bytes) {
    PacketBuffer* buffer = nullptr;
    REQUIRE(two.rig.pool.take({&buffer, 1}) == 1);
    fill({buffer->bytes, 32}, 1);
    const TxPacket packet{.buffer = buffer,
                          .header_bytes = 32,
                          .payload_bytes = bytes,
                          .payload = payload,
                          .remote = two.to_theirs,
                          .cookie = 7};
    REQUIRE(send_now(two.mine, {&packet, 1}) == 1);
    const auto arrived = two.rig.settle(two.theirs);
    CHECK(two.rig.reap_rest(two.mine).size() == 1);
    return arrived.empty() ? std::vector<std::byte>{}
                           : std::vector(arrived[0].begin() + 32, arrived[0].end());
  }
  [[nodiscard]] bool arrives(std::size_t at, std::uint32_t bytes) {
    const auto expected = memory.contents().subspan(at, bytes);
    return std::ranges::equal(send(memory.data() + at, bytes), expected);
  }
  [[nodiscard]] engine::VerbsSendStats stats() const { return two.mine.stats(Queue::data).send; }
};

}  // namespace

TEST_CASE("verbs NIC: what a dma-buf holds is read by the device alone, however short it is") {
  OnDevice device;
  for (const std::uint32_t bytes : {1u, 64u, 96u, 97u, 2000u}) {
    CAPTURE(bytes);
    CHECK(device.arrives(0, bytes));
    CHECK(device.arrives(kDeviceBytes - bytes, bytes));
  }
  CHECK(device.stats().inlined == 0);
  CHECK(device.stats().copied == 0);
  // Payloads in other memory go out as ever, also those right beside the dma-buf.
  const std::vector<std::byte> own = datagram(3, 50);
  CHECK(device.send(own.data(), 50) == own);
  CHECK(device.stats().inlined == 1);
  CHECK(device.send(nullptr, 0).empty());
  CHECK(device.stats().inlined == 2);
  CHECK(device.stats().lost == 0);
}

TEST_CASE("verbs NIC: without registered headers, which are copied, no dma-buf is taken") {
  const DeviceMemory memory(datagram(9, kDeviceBytes));
  TwoNics<BareVerbsRig> two;
  two.fabric().change(kMine, [](fake::DeviceSettings& settings) { settings.takes_dmabufs = true; });
  const proto::MemoryRange range{memory.data(), memory.size(), memory.descriptor(), 0};
  proto::PinnedMemory* pinned = nullptr;
  CHECK(two.mine.pin(range, nullptr, pinned) == Status::lock_limit);
  std::vector<std::byte> headers(64);
  REQUIRE(two.mine.register_memory(headers.data(), headers.size()) == Status::ok);
  CHECK(two.mine.pin(range, nullptr, pinned) == Status::ok);
  two.mine.unpin(pinned);
  two.mine.deregister_memory(headers.data(), headers.size());
  CHECK(two.mine.pin(range, nullptr, pinned) == Status::lock_limit);
}

TEST_CASE("verbs NIC: what lies in a dma-buf in part is lost rather than read") {
  OnDevice device;
  for (const std::uint32_t bytes : {50u, 2000u}) {
    const std::uint64_t before = device.stats().lost;
    CHECK(device.send(device.memory.data() + kDeviceBytes - bytes + 1, bytes).empty());
    CHECK(device.send(device.memory.data() - bytes + 1, bytes).empty());
    CHECK(device.stats().lost == before + 2);
  }
  CHECK(device.arrives(100, 2000));  // the queue still works
}

TEST_CASE("verbs NIC: a device that returns stays down until it takes the dma-bufs again") {
  OnDevice device;
  Two& two = device.two;
  two.fabric().remove(kMine, fake::Fabric::Removal::told);
  REQUIRE(hears(two.mine, proto::NicEvent::Kind::down));
  const auto turns_until = [&](auto condition) {
    return comes_true([&] {
      std::array<proto::NicEvent, 1> events;
      CHECK(two.mine.events(events) == 0);
      (void)two.reap();
      return condition();
    });
  };
  REQUIRE(turns_until([&] { return two.fabric().removed_in_use() == 0; }));
  // Meanwhile the NIC can't know whether the device would accept another dma-buf.
  proto::PinnedMemory* other = nullptr;
  CHECK(two.mine.pin({device.memory.data(), 4096, device.memory.descriptor(), 0}, nullptr, other) ==
        Status::nic_error);
  fake::PortSettings port;
  port.gids.push_back({0, IBV_GID_TYPE_ROCE_V2, fake::gid_of("fe80::a7")});
  fake::DeviceSettings returned;
  returned.name = kMine;
  returned.ports.push_back(port);
  const std::uint64_t before = two.fabric().setup_calls();
  two.fabric().add(returned);
  REQUIRE(turns_until([&] { return two.fabric().setup_calls() > before + 10; }));
  device.let_take(true);
  two.comes_up();
  CHECK(device.arrives(0, 2000));
  CHECK(device.arrives(0, 20));
}

}  // namespace hawser::test
