// SPDX-License-Identifier: Apache-2.0
// Whole endpoints over RDMA devices: the NICs of two hosts, joined by two cables (test/vm/). The
// NICs of one cable don't reach those of the other, as in a rail-optimised fabric.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "hawser/engine.hpp"
#include "test/engine/verbs_pair.hpp"

namespace hawser::engine {
namespace {

void run(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

// A mapping that nothing else uses.
struct Mapped {
  explicit Mapped(std::size_t size) : bytes(size), data(map(nullptr, 0)) {}
  ~Mapped() { ::munmap(data, bytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  std::byte* map(void* where, int flags) const {
    void* const mapped =
        ::mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    return static_cast<std::byte*>(mapped);
  }
  // Puts other pages at the same addresses.
  void replace() const { REQUIRE(map(data, MAP_FIXED) == data); }
  [[nodiscard]] std::span<const std::byte> fill(std::uint64_t seed) const {
    const std::vector<std::byte> now = pattern(bytes, seed);
    std::memcpy(data, now.data(), bytes);
    return {data, bytes};
  }
  std::size_t bytes;
  std::byte* data;
};

}  // namespace

TEST_CASE("VerbsEndpoint__sends_and_receives") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  VerbsPair pair(threads);
  std::uint64_t seed = 1;
  for (const std::size_t bytes : {0u, 8u, 4096u, 100'000u, 1'000'003u}) {
    CAPTURE(bytes);
    pair.exchange(*pair.a, bytes, seed++);
    pair.exchange(*pair.b, bytes, seed++);
  }
  // A NIC carries messages once its device has resolved the other end, which takes a moment.
  const auto unused = [&] {
    std::string names;
    for (const Endpoint* const endpoint : {pair.a.get(), pair.b.get()}) {
      for (const NicStats& nic : endpoint->nic_stats()) {
        if (nic.packets_sent == 0 || nic.packets_received == 0) names += " " + nic.name;
      }
    }
    return names;
  };
  for (const HangLimit limit; !unused().empty() && !limit.is_over();) {
    pair.exchange(*pair.a, 100'000, seed++);
    pair.exchange(*pair.b, 100'000, seed++);
  }
  CHECK(unused() == "");
  CHECK(pair.gets_quiet());
}

TEST_CASE("VerbsEndpoint__sends_in_place_and_never_what_was_mapped_there_before") {
  constexpr std::size_t kBytes = 64 << 10;
  const Mapped memory(kBytes);
  VerbsPair pair(0);
  std::vector<std::byte> received(kBytes);
  const auto sends = [&](std::span<const std::byte> bytes, std::uint64_t tag) {
    post_receive(*pair.b, kAnyPeer, tag, received);
    post_send(*pair.a, pair.b_of_a, tag, bytes);
    CHECK(pair.next(*pair.b).status == Status::ok);
    CHECK(pair.next(*pair.a).status == Status::ok);
    CHECK(std::ranges::equal(received, bytes));
  };
  for (std::uint64_t round = 1; round <= 20; ++round) {
    // Send until the memory is registered. From then on the device reads the pages of that moment.
    const std::uint64_t made = pair.a->stats().registrations_made;
    const std::uint64_t hits = pair.a->stats().registration_hits;
    for (const HangLimit limit; pair.a->stats().registrations_made == made && !limit.is_over();) {
      sends(memory.fill(round), round);
    }
    const std::uint64_t in_place = pair.a->stats().payload_bytes_in_place;
    sends(memory.fill(100 + round), round);
    CHECK(pair.a->stats().registration_hits > hits);
    CHECK(pair.a->stats().payload_bytes_in_place >= in_place + kBytes);
    memory.replace();
    sends(memory.fill(200 + round), round);
  }
  CHECK(pair.a->stats().registrations_stale == 20);
}

TEST_CASE("VerbsEndpoint__registers_memory_of_the_program") {
  const Mapped memory(1 << 20);
  Tunables tunables = patient();
  tunables.registration_cache_bytes = 0;
  VerbsPair pair(1, tunables);
  RegistrationId id = kNoRegistration;
  std::string why;
  {
    INFO(why);
    REQUIRE(pair.a->register_memory(memory.data, memory.bytes, id, &why) == Status::ok);
  }
  std::vector<std::byte> received(memory.bytes);
  post_receive(*pair.b, kAnyPeer, 1, received);
  post_send(*pair.a, pair.b_of_a, 1, memory.fill(1));
  CHECK(pair.next(*pair.b).status == Status::ok);
  CHECK(pair.next(*pair.a).status == Status::ok);
  CHECK(std::equal(received.begin(), received.end(), memory.data));
  const EndpointStats stats = pair.a->stats();
  CHECK(stats.payload_bytes_in_place >= memory.bytes);
  // Only the padding of probes: some pairs of NICs don't reach each other.
  CHECK(stats.payload_bytes_copied <= stats.path_probes_sent * 4096);
  CHECK(pair.a->deregister_memory(id, &why) == Status::ok);
  // Soft RoCE can't use the memory of other devices.
  const DmabufRange range{0, 0, 4096, memory.data};
  CHECK(pair.a->register_dmabuf(range, id, &why) != Status::ok);
  CHECK_FALSE(why.empty());
  // This address isn't mapped.
  const auto* const nowhere = reinterpret_cast<const std::byte*>(std::uintptr_t{4096});
  CHECK(pair.a->register_memory(nowhere, 4096, id, &why) == Status::invalid_argument);
}

// Pages of a memory file as a dma-buf, which the kernel makes without any device (/dev/udmabuf).
// The case is hidden, since soft RoCE accepts no dma-bufs: it is for ports that HAWSER_TEST_PORTS
// names. Catch2 runs hidden cases too if a filter only excludes: such a filter must exclude this
// one.
TEST_CASE("VerbsEndpoint__sends_from_a_dmabuf", "[.][dmabuf]") {
  constexpr std::size_t kBytes = 1 << 20;
  const int file = ::memfd_create("dmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  REQUIRE(::ftruncate(file, kBytes) == 0);
  REQUIRE(::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  REQUIRE(mapped != MAP_FAILED);
  const int maker = ::open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  if (maker < 0) FAIL("/dev/udmabuf: " << std::strerror(errno) << " (`modprobe udmabuf`, as root)");
  udmabuf_create wanted{};
  wanted.memfd = static_cast<std::uint32_t>(file);
  wanted.flags = UDMABUF_FLAGS_CLOEXEC;
  wanted.size = kBytes;
  const int dmabuf = ::ioctl(maker, UDMABUF_CREATE, &wanted);
  REQUIRE(dmabuf >= 0);
  {
    VerbsPair pair(0);
    const std::vector<std::byte> sent = pattern(kBytes, 1);
    std::memcpy(mapped, sent.data(), kBytes);
    RegistrationId id = kNoRegistration;
    std::string why;
    const Status status = pair.a->register_dmabuf({dmabuf, 0, kBytes, mapped}, id, &why);
    INFO(why);
    REQUIRE(status == Status::ok);
    std::vector<std::byte> received(kBytes);
    post_receive(*pair.b, kAnyPeer, 1, received);
    post_send(*pair.a, pair.b_of_a, 1, {static_cast<const std::byte*>(mapped), kBytes});
    CHECK(pair.next(*pair.b).status == Status::ok);
    CHECK(pair.next(*pair.a).status == Status::ok);
    CHECK(received == sent);
    CHECK(pair.a->stats().payload_bytes_in_place >= kBytes);
    CHECK(pair.a->stats().payload_bytes_copied == 0);
    CHECK(pair.a->deregister_memory(id, &why) == Status::ok);
  }
  for (const int descriptor : {dmabuf, maker, file}) ::close(descriptor);
  ::munmap(mapped, kBytes);
}

TEST_CASE("VerbsEndpoint__survives_a_cable_that_loses_packets", "[soft]") {
  run("tc qdisc add dev a0 root netem loss 3%");
  run("tc qdisc add dev b1 root netem loss 3%");
  {
    VerbsPair pair(0);
    pair.exchange(*pair.a, 1'000'000, 1);
    pair.exchange(*pair.b, 1'000'000, 2);
    CHECK(pair.a->stats().fragments_retransmitted + pair.b->stats().fragments_retransmitted > 0);
  }
  run("tc qdisc del dev a0 root");
  run("tc qdisc del dev b1 root");
}

TEST_CASE("VerbsEndpoint__goes_on_over_the_other_cable_and_takes_the_first_back", "[soft]") {
  VerbsPair pair(0);
  pair.exchange(*pair.a, 200'000, 1);
  run("ip link set a0 down");
  pair.exchange(*pair.a, 200'000, 2);
  pair.exchange(*pair.b, 200'000, 3);
  run("ip link set a0 up");
  const auto carried_by_first = [&] { return pair.b->nic_stats()[0].packets_received; };
  const std::uint64_t before = carried_by_first();
  std::uint64_t seed = 4;
  // Send until the NIC's paths have been probed and carry packets again.
  for (const HangLimit limit; carried_by_first() < before + 20 && !limit.is_over();) {
    pair.exchange(*pair.a, 100'000, seed++);
  }
  CHECK(carried_by_first() >= before + 20);
}

}  // namespace hawser::engine
