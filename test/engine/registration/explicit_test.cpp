// SPDX-License-Identifier: Apache-2.0
// Registrations that the program makes, and every way to get them wrong.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "hawser/hawser.h"
#include "hawser/registration.hpp"
#include "test/engine/registration/fake_pair.hpp"
#include "test/support/device_memory.hpp"

namespace hawser::engine {
namespace {

using Catch::Matchers::Contains;
using test::fake::Call;

constexpr std::size_t kBytes = std::size_t{256} << 10;

// The status that the endpoint returns, and its sentence about what to do.
struct Answer {
  Status status = Status::ok;
  std::string why;
};

Answer ask(Endpoint& endpoint, std::span<const std::byte> memory, RegistrationId& id) {
  Answer answer;
  answer.status = endpoint.register_memory(memory.data(), memory.size(), id, &answer.why);
  return answer;
}

Answer end(Endpoint& endpoint, RegistrationId id) {
  Answer answer;
  answer.status = endpoint.deregister_memory(id, &answer.why);
  return answer;
}

}  // namespace

TEST_CASE("Registration__what_is_registered_goes_out_in_place_from_the_first_send") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  OwnMemory memory(kBytes);
  memory.fill(1);
  FakePair pair(threads, without_cache());
  CHECK(pair.payload_of(memory.bytes()).first == 0);
  {
    Registration registration;
    REQUIRE(register_memory(*pair.a, memory.data(), kBytes, registration) == Status::ok);
    CHECK(pair.fabric.registrations() == pair.own + kNics);
    CHECK(pair.a->stats().registrations == 1);
    CHECK(pair.a->stats().registered_bytes == kBytes);
    // Short messages go out in place too, since the program itself asked for it.
    const auto [in_place, copied] = pair.payload([&] {
      pair.exchange(memory.bytes());
      pair.exchange(memory.bytes().first(1000));
    });
    CHECK(in_place >= kBytes + 1000);
    CHECK(copied == 0);
    Registration moved = std::move(registration);
    CHECK_FALSE(registration);
    CHECK(moved);
  }
  REQUIRE(pair.becomes([&] { return pair.fabric.registrations() == pair.own; }));
  CHECK(pair.payload_of(memory.bytes()).first == 0);
  CHECK(pair.a->stats().registrations == 0);
}

// No NIC has to look at the memory here.
TEST_CASE("Registration__memory_that_is_not_mapped_is_refused_by_an_endpoint_over_UDP") {
  Engine engine({.nics = {"udp:127.0.0.1"}});
  const auto endpoint = engine.create_endpoint({});
  OwnMemory memory(kBytes);
  RegistrationId id = kNoRegistration;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  REQUIRE(::munmap(memory.data() + 3 * page, page) == 0);
  const Answer refused = ask(*endpoint, memory.bytes(), id);
  CHECK(refused.status == Status::invalid_argument);
  CHECK_THAT(refused.why, Contains("not all mapped"));
  const auto* const lowest = reinterpret_cast<const std::byte*>(std::uintptr_t{1});
  CHECK(ask(*endpoint, {lowest, SIZE_MAX - 1}, id).status == Status::invalid_argument);
  REQUIRE(ask(*endpoint, memory.bytes().subspan(1, 3 * page - 1), id).status == Status::ok);
  CHECK(end(*endpoint, id).status == Status::ok);
}

TEST_CASE("Registration__memory_that_a_NIC_reads_is_not_deregistered") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  OwnMemory memory(kBytes);
  memory.fill(1);
  FakePair pair(threads, without_cache());
  pair.exchange(memory.bytes());
  Registration registration;
  REQUIRE(register_memory(*pair.a, memory.data(), kBytes, registration) == Status::ok);
  pair.fabric.hold(true);
  std::vector<std::byte> received(8192);
  post_receive(*pair.b, kAnyPeer, 77, received);
  const std::uint64_t before = pair.a->stats().payload_bytes_in_place;
  post_send(*pair.a, pair.b_of_a, 77, memory.bytes().first(8192));
  REQUIRE(pair.becomes([&] { return pair.a->stats().payload_bytes_in_place > before; }));
  const bool released = GENERATE(false, true);
  CAPTURE(released);
  Answer answer = end(*pair.a, registration.id());
  CHECK(answer.status == Status::in_use);
  CHECK_THAT(answer.why, Contains("poll"));
  CHECK(pair.fabric.registrations() == pair.own + kNics);
  if (released) {
    registration.release();
    CHECK(pair.fabric.registrations() == pair.own + kNics);
  }
  pair.fabric.hold(false);
  pair.fabric.let_go(1000);
  CHECK(next_of(*pair.b, *pair.a).status == Status::ok);
  CHECK(next_of(*pair.a, *pair.b).status == Status::ok);
  CHECK(std::equal(received.begin(), received.end(), memory.data()));
  if (!released) CHECK(registration.deregister() == Status::ok);
  REQUIRE(pair.becomes([&] { return pair.fabric.registrations() == pair.own; }));
  CHECK(pair.becomes([&] { return pair.a->stats().registrations == 0; }));
}

TEST_CASE("Registration__ends_with_the_turn_that_reaps_its_last_send") {
  OwnMemory memory(kBytes);
  FakePair pair(0, without_cache());
  pair.exchange(memory.bytes());
  Registration registration;
  REQUIRE(register_memory(*pair.a, memory.data(), kBytes, registration) == Status::ok);
  pair.fabric.hold(true);
  std::vector<std::byte> received(4096);
  post_receive(*pair.b, kAnyPeer, 77, received);
  const std::uint64_t before = pair.a->stats().payload_bytes_in_place;
  post_send(*pair.a, pair.b_of_a, 77, memory.bytes().first(4096));
  REQUIRE(pair.becomes([&] { return pair.a->stats().payload_bytes_in_place > before; }));
  registration.release();
  pair.fabric.hold(false);
  pair.fabric.let_go(1000);
  // The acknowledgement is there before the sender looks: its next turn reaps and completes.
  Completion completion;
  REQUIRE(pair.b->wait(std::span(&completion, 1), kHangLimitNs) == 1);
  for (int i = 0; i < 20; ++i) pair.b->wait({}, 1'000'000);
  while (pair.a->poll(std::span(&completion, 1)) == 0) pair.b->poll({});
  CHECK(completion.released);
  // The program may not poll the sender for a long time: the registration must end without that.
  CHECK(comes_true([&] {
    pair.b->wait({}, 1'000'000);
    return pair.fabric.registrations() <= pair.own;
  }));
  CHECK(pair.fabric.registrations() == pair.own);
}

TEST_CASE("Registration__misuse_is_typed_and_says_what_to_do") {
  OwnMemory memory(4 * kBytes);
  Tunables tunables = without_cache();
  tunables.max_registrations = 2;
  FakePair pair(0, tunables);
  RegistrationId id = kNoRegistration;
  const auto bytes = memory.bytes();

  Answer answer;
  answer.status = pair.a->register_memory(nullptr, 10, id, &answer.why);
  CHECK(answer.status == Status::invalid_argument);
  CHECK_THAT(answer.why, Contains("pass the buffer"));
  answer.status = pair.a->register_memory(memory.data(), 0, id, &answer.why);
  CHECK(answer.status == Status::invalid_argument);
  answer.status = pair.a->register_memory(memory.data(), ~std::uint64_t{0}, id, &answer.why);
  CHECK(answer.status == Status::invalid_argument);

  REQUIRE(ask(*pair.a, bytes.subspan(kBytes, kBytes), id).status == Status::ok);
  const RegistrationId first = id;
  for (const auto& part : {bytes.subspan(kBytes, kBytes), bytes.subspan(0, kBytes + 1),
                           bytes.subspan(2 * kBytes - 1, 10), bytes}) {
    answer = ask(*pair.a, part, id);
    CHECK(answer.status == Status::overlapping);
    CHECK_THAT(answer.why, Contains("deregister it first"));
  }
  REQUIRE(ask(*pair.a, bytes.first(kBytes), id).status == Status::ok);
  const RegistrationId second = id;
  answer = ask(*pair.a, bytes.subspan(3 * kBytes), id);
  CHECK(answer.status == Status::again);
  CHECK_THAT(answer.why, Contains("max_registrations"));
  CHECK(id == second);

  CHECK(end(*pair.a, first).status == Status::ok);
  answer = end(*pair.a, first);
  CHECK(answer.status == Status::unknown_operation);
  CHECK_THAT(answer.why, Contains("deregistered already"));
  CHECK(end(*pair.a, kNoRegistration).status == Status::unknown_operation);
  // The name of the ended registration is not used again, but its place is.
  REQUIRE(ask(*pair.a, bytes.subspan(kBytes, kBytes), id).status == Status::ok);
  CHECK(id != first);
  CHECK(pair.fabric.registrations() == pair.own + 2 * kNics);
  pair.a->close();
  answer = ask(*pair.a, bytes.subspan(3 * kBytes), id);
  CHECK(answer.status == Status::endpoint_closed);
  CHECK_FALSE(answer.why.empty());
  CHECK(end(*pair.a, id).status == Status::ok);
}

TEST_CASE("Registration__what_a_device_refuses_leaves_nothing_behind") {
  struct Row {
    int error;
    Status status;
    std::string words;
  };
  const Row row = GENERATE(Row{ENOMEM, Status::lock_limit, "ulimit -l"},
                           Row{EPERM, Status::lock_limit, "ulimit -l"},
                           Row{EFAULT, Status::invalid_argument, "not all mapped"},
                           Row{EIO, Status::nic_error, "send without registering"});
  CAPTURE(row.error);
  OwnMemory memory(kBytes);
  FakePair pair(0, without_cache());
  RegistrationId id = kNoRegistration;
  pair.fabric.fail(Call::reg_mr, row.error, 1);  // the second NIC's
  Answer answer = ask(*pair.a, memory.bytes(), id);
  CHECK(answer.status == row.status);
  CHECK_THAT(answer.why, Contains(row.words) && Contains("verbs:rxe_a1"));
  CHECK(id == kNoRegistration);
  CHECK(pair.fabric.registrations() == pair.own);
  CHECK(ask(*pair.a, memory.bytes(), id).status == Status::ok);
}

TEST_CASE("Registration__more_than_a_device_takes_at_once") {
  OwnMemory memory(kBytes);
  FakePair pair(0, without_cache());
  pair.fabric.change("rxe_a0", [](test::fake::DeviceSettings& settings) {
    settings.max_memory_bytes = kBytes - 1;
  });
  RegistrationId id = kNoRegistration;
  Answer answer = ask(*pair.a, memory.bytes(), id);
  CHECK(answer.status == Status::too_large);
  CHECK_THAT(answer.why, Contains("in parts"));
  CHECK(ask(*pair.a, memory.bytes().first(kBytes - 1), id).status == Status::ok);
}

TEST_CASE("Registration__dma_bufs_are_read_by_devices_alone") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  constexpr std::size_t kOffset = 4096;
  const test::DeviceMemory memory(pattern(kOffset + kBytes, 3));
  const std::byte* const begin = memory.data() + kOffset;
  FakePair pair(threads);
  DmabufRange range{memory.descriptor(), kOffset, kBytes, begin};
  Registration registration;
  std::string why;
  CHECK(register_dmabuf(*pair.a, range, registration, &why) == Status::unsupported);
  CHECK_THAT(why, Contains("does not support dma-bufs"));
  for (const char* const name : {"rxe_a0", "rxe_a1"}) {
    pair.fabric.change(name,
                       [](test::fake::DeviceSettings& settings) { settings.takes_dmabufs = true; });
  }
  range.fd = -1;
  CHECK(register_dmabuf(*pair.a, range, registration, &why) == Status::invalid_argument);
  CHECK_THAT(why, Contains("export the dma-buf"));
  range.fd = memory.descriptor();
  REQUIRE(register_dmabuf(*pair.a, range, registration, &why) == Status::ok);
  for (const std::size_t bytes : {kBytes, std::size_t{5000}, std::size_t{30}, std::size_t{1}}) {
    CAPTURE(bytes);
    const auto [in_place, copied] = pair.payload([&] {
      pair.exchange({begin + kBytes - bytes, bytes}, memory.contents().last(bytes));
    });
    CHECK(in_place >= bytes);
    CHECK(copied == 0);
  }
  CHECK(pair.a->stats().registration_misses == 0);  // the cache isn't concerned
  CHECK(registration.deregister() == Status::ok);
}

// The sends lie beside, before, behind and across the end of the dma-buf.
TEST_CASE("Registration__a_send_that_lies_in_a_dma_buf_in_part_is_refused") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  const test::DeviceMemory memory(pattern(3 * kBytes, 3));
  const std::byte* const begin = memory.data() + kBytes;
  FakePair pair(threads, without_cache());
  for (const char* const name : {"rxe_a0", "rxe_a1"}) {
    pair.fabric.change(name,
                       [](test::fake::DeviceSettings& settings) { settings.takes_dmabufs = true; });
  }
  Registration registration;
  REQUIRE(register_dmabuf(*pair.a, {memory.descriptor(), kBytes, kBytes, begin}, registration) ==
          Status::ok);
  const auto answer = [&](const std::byte* data, std::size_t bytes) {
    OperationId operation = kNoOperation;
    const Status status =
        pair.a->send({.peer = pair.b_of_a, .tag = 1, .data = data, .bytes = bytes}, operation);
    return status == Status::ok ? next_of(*pair.a, *pair.b).status : status;
  };
  CHECK(answer(begin - 1, 2) == Status::invalid_argument);
  CHECK(answer(begin + kBytes - 1, 2) == Status::invalid_argument);
  CHECK(answer(begin - 1, kBytes + 2) == Status::invalid_argument);
  const std::vector<std::byte> own = pattern(kBytes, 4);
  pair.exchange(own);
  pair.exchange({begin, kBytes}, memory.contents().subspan(kBytes, kBytes));
}

TEST_CASE("Registration__an_endpoint_whose_packets_others_copy_takes_no_dma_bufs") {
  const test::DeviceMemory memory(pattern(4096, 3));
  FakePair pair(0, without_cache());
  for (const char* const name : {"rxe_a0", "rxe_a1"}) {
    pair.fabric.change(name,
                       [](test::fake::DeviceSettings& settings) { settings.takes_dmabufs = true; });
  }
  const DmabufRange range{memory.descriptor(), 0, 4096, memory.data()};
  {
    constexpr int kNotOpen = 999'999;  // beyond any limit of descriptors here
    Registration none;
    std::string why;
    CHECK(register_dmabuf(*pair.a, {kNotOpen, 0, 4096, memory.data()}, none, &why) ==
          Status::invalid_argument);
    CHECK_THAT(why, Contains("descriptor isn't open; pass"));
  }
  const auto refusal = [&](std::vector<std::string> nics, const std::string& faults) {
    Engine engine({std::move(nics), 0, without_cache(), faults});
    const auto endpoint = engine.create_endpoint({});
    Registration registration;
    std::string why;
    CHECK(register_dmabuf(*endpoint, range, registration, &why) == Status::unsupported);
    return why;
  };
  CHECK_THAT(refusal({"verbs:rxe_a0", "udp:127.0.0.1"}, ""),
             Contains("create an endpoint of verbs NICs only"));
  CHECK_THAT(refusal({"verbs:rxe_a0"}, "delay=1us"), Contains("does not support dma-bufs"));
  Registration registration;
  CHECK(register_dmabuf(*pair.a, range, registration) == Status::ok);
}

TEST_CASE("Registration__endpoints_without_RDMA_devices_take_memory_and_no_dma_bufs") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  std::vector<std::byte> memory = pattern(100'000, 1);
  Registration registration;
  REQUIRE(register_memory(*pair.a, memory.data(), memory.size(), registration) == Status::ok);
  CHECK(pair.a->stats().registrations == 1);
  Registration other;
  CHECK(register_memory(*pair.a, memory.data(), 1, other) == Status::overlapping);
  const DmabufRange range{0, 0, 4096, memory.data()};
  CHECK(register_dmabuf(*pair.a, range, other) == Status::unsupported);
  CHECK(registration.deregister() == Status::ok);
  CHECK(registration.deregister() == Status::unknown_operation);
}

TEST_CASE("Registration__the_endpoint_ends_what_is_left_even_while_it_is_read") {
  OwnMemory memory(kBytes);
  FakePair pair(0, without_cache());
  RegistrationId id = kNoRegistration;
  REQUIRE(ask(*pair.a, memory.bytes(), id).status == Status::ok);
  pair.exchange(memory.bytes());
  pair.fabric.hold(true);
  const std::uint64_t before = pair.a->stats().payload_bytes_in_place;
  post_send(*pair.a, pair.b_of_a, 1, memory.bytes());
  REQUIRE(pair.becomes([&] { return pair.a->stats().payload_bytes_in_place > before; }));
  pair.a->release_memory(id);
  pair.a.reset();
  CHECK(pair.fabric.registrations() < pair.own);
  pair.fabric.hold(false);
}

TEST_CASE("Registration__in_C") {
  OwnMemory memory(kBytes);
  test::Cables cables(test::RoceV6{}, IBV_MTU_4096);
  const char* const nics[] = {"verbs:rxe_a0"};
  hawser_engine_config config{};
  config.struct_size = sizeof config;
  config.nics = nics;
  config.nic_count = 1;
  hawser_engine* engine = nullptr;
  hawser_endpoint* endpoint = nullptr;
  REQUIRE(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, nullptr, 0) == HAWSER_OK);
  REQUIRE(hawser_endpoint_create(engine, nullptr, &endpoint, nullptr, 0) == HAWSER_OK);
  const std::size_t own = cables.fabric.registrations();
  char why[200] = "";
  hawser_registration id = HAWSER_NO_REGISTRATION;
  CHECK(hawser_register_memory(endpoint, nullptr, 1, &id, why, sizeof why) ==
        HAWSER_INVALID_ARGUMENT);
  CHECK_THAT(std::string(why), Contains("pass the buffer"));
  CHECK(id == HAWSER_NO_REGISTRATION);
  REQUIRE(hawser_register_memory(endpoint, memory.data(), kBytes, &id, nullptr, 0) == HAWSER_OK);
  CHECK(cables.fabric.registrations() == own + 1);
  CHECK(hawser_deregister_memory(endpoint, id, why, sizeof why) == HAWSER_OK);
  CHECK(cables.fabric.registrations() == own);
  CHECK(hawser_deregister_memory(endpoint, id, why, sizeof why) == HAWSER_UNKNOWN_OPERATION);
  hawser_dmabuf_range range{};
  CHECK(hawser_register_dmabuf(endpoint, &range, &id, why, sizeof why) == HAWSER_INVALID_ARGUMENT);
  CHECK_THAT(std::string(why), Contains("struct_size"));
  range.struct_size = sizeof range;
  range.bytes = kBytes;
  range.address = memory.data();
  CHECK(hawser_register_dmabuf(endpoint, &range, &id, why, sizeof why) == HAWSER_UNSUPPORTED);
  REQUIRE(hawser_register_memory(endpoint, memory.data(), kBytes, &id, nullptr, 0) == HAWSER_OK);
  hawser_release_memory(endpoint, id);
  CHECK(cables.fabric.registrations() == own);
  hawser_endpoint_destroy(endpoint);
  hawser_engine_destroy(engine);
}

}  // namespace hawser::engine
