// SPDX-License-Identifier: Apache-2.0
// The rendezvous over loopback. Each rank is a thread with its own connection.
#include "engine/bootstrap/bootstrap.hpp"

#include <poll.h>

#include <catch2/catch.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/bootstrap/bootstrap_wire.hpp"
#include "engine/bootstrap/send_queue.hpp"
#include "test/engine/rendezvous_scene.hpp"
#include "test/support/hang_limit.hpp"

namespace hawser::engine {
namespace {

using test::kHangLimitMs;

TEST_CASE("Rendezvous__all_ranks_get_epoch_secret_and_every_blob") {
  const std::uint32_t size = GENERATE(1u, 2u, 7u, 32u);
  CAPTURE(size);
  RendezvousServer server("127.0.0.1:0", size);
  std::vector<std::uint64_t> epochs(size);
  std::vector<std::vector<std::byte>> secrets(size);
  std::vector<std::vector<std::vector<std::byte>>> gathered(size);
  std::vector<std::vector<std::vector<std::byte>>> second(size);
  const auto blob = [](std::uint32_t rank) {
    return bytes_of(std::string(rank * 37, static_cast<char>('a' + rank % 26)));
  };
  run_ranks(size, [&](std::uint32_t rank) {
    Rendezvous rendezvous(server.address(), rank, size, kHangLimitMs);
    epochs[rank] = rendezvous.epoch();
    secrets[rank] = rendezvous.job_secret();
    gathered[rank] = rendezvous.all_gather(blob(rank), kHangLimitMs);
    rendezvous.barrier(kHangLimitMs);
    second[rank] = rendezvous.all_gather(blob(rank + 1), kHangLimitMs);
  });
  CHECK(epochs[0] > 0);
  CHECK(secrets[0].size() == 32);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    CHECK(epochs[rank] == epochs[0]);
    CHECK(secrets[rank] == secrets[0]);
    REQUIRE(gathered[rank].size() == size);
    for (std::uint32_t other = 0; other < size; ++other) {
      CHECK(gathered[rank][other] == blob(other));
      CHECK(second[rank][other] == blob(other + 1));
    }
  }
}

TEST_CASE("Rendezvous__a_round_can_be_waited_for_beside_other_work") {
  RendezvousServer server("127.0.0.1:0", 2);
  Rendezvous one(server.address(), 0, 2, kHangLimitMs);
  Rendezvous two(server.address(), 1, 2, kHangLimitMs);
  one.begin_all_gather(bytes_of("one"), kHangLimitMs);
  CHECK_FALSE(one.try_all_gather());
  two.begin_all_gather(bytes_of("two"), kHangLimitMs);
  for (Rendezvous* rank : {&one, &two}) {
    pollfd fd{rank->fd(), POLLIN, 0};
    REQUIRE(::poll(&fd, 1, kHangLimitMs) == 1);
    auto blobs = rank->try_all_gather();
    while (!blobs) blobs = rank->try_all_gather();  // the answer may come in pieces
    CHECK((*blobs)[0] == bytes_of("one"));
    CHECK((*blobs)[1] == bytes_of("two"));
  }
  one.begin_all_gather(bytes_of("alone"), 100);
  const BootstrapError error = error_of([&] {
    while (!one.try_all_gather()) ::poll(nullptr, 0, 1);
  });
  CHECK(error.failure() == BootstrapFailure::timeout);
  CHECK(error.rank() == 1u);
}

TEST_CASE("Rendezvous__who_only_contributes_to_a_round_gets_nothing_of_it") {
  RendezvousServer server("127.0.0.1:0", 3);
  const auto blob = [](std::uint32_t rank) { return bytes_of("of " + std::to_string(rank)); };
  const std::vector<std::vector<std::byte>> all{blob(0), blob(1), blob(2)};
  run_ranks(3, [&](std::uint32_t rank) {
    Rendezvous rendezvous(server.address(), rank, 3, kHangLimitMs);
    for (std::uint32_t wants = 0; wants < 3; ++wants) {
      if (rank != wants) {
        rendezvous.contribute(blob(rank), kHangLimitMs);  // throws if it gets any
      } else if (rendezvous.all_gather(blob(rank), kHangLimitMs) != all) {
        throw std::runtime_error("blobs differ");
      }
    }
    if (rendezvous.all_gather(blob(rank), kHangLimitMs) != all) {
      throw std::runtime_error("blobs differ afterwards");
    }
  });
}

TEST_CASE("SendQueue__frames_leave_in_order_and_shared_ones_are_not_copied") {
  using bootstrap::FrameType;
  const auto shared = std::make_shared<std::vector<std::byte>>(bytes_of("of all"));
  bootstrap::SendQueue queue, other;
  CHECK(queue.empty());
  queue.append(FrameType::here, 0, bytes_of("own"));
  queue.append(shared);
  other.append(shared);
  CHECK(shared.use_count() == 3);
  CHECK(queue.next().size() == bootstrap::kHeadBytes + 3);
  queue.drop(bootstrap::kHeadBytes + 2);
  CHECK(queue.next()[0] == std::byte{'n'});
  queue.drop(1);
  CHECK(queue.next().data() == shared->data());
  CHECK(other.next().data() == shared->data());
  queue.drop(2);
  CHECK(queue.next().data() == shared->data() + 2);
  CHECK(queue.next().size() == shared->size() - 2);
  queue.drop(shared->size() - 2);
  CHECK(queue.empty());
  CHECK(shared.use_count() == 2);
}

TEST_CASE("Rendezvous__epochs_grow_and_secrets_differ_from_job_to_job") {
  std::uint64_t epoch = 0;
  std::vector<std::byte> secret;
  for (int job = 0; job < 3; ++job) {
    RendezvousServer server("127.0.0.1:0", 1);
    Rendezvous rank(server.address(), 0, 1, kHangLimitMs);
    CHECK(rank.epoch() > epoch);
    CHECK(rank.job_secret() != secret);
    epoch = rank.epoch();
    secret = rank.job_secret();
  }
}

TEST_CASE("Rendezvous__the_largest_blob_passes_and_a_larger_one_is_refused") {
  RendezvousServer server("127.0.0.1:0", 2);
  run_ranks(2, [&](std::uint32_t rank) {
    Rendezvous rendezvous(server.address(), rank, 2, kHangLimitMs);
    const std::vector<std::byte> blob(kMaxBlobBytes, std::byte{7});
    if (rendezvous.all_gather(blob, kHangLimitMs) != std::vector{blob, blob}) {
      throw std::runtime_error("blobs differ");
    }
  });
  RendezvousServer alone("127.0.0.1:0", 1);
  Rendezvous rank(alone.address(), 0, 1, kHangLimitMs);
  const std::vector<std::byte> blob(kMaxBlobBytes + 1);
  CHECK(error_of([&] { (void)rank.all_gather(blob, 1000); }).failure() ==
        BootstrapFailure::size_mismatch);
}

TEST_CASE("Rendezvous__ranks_may_start_before_the_server") {
  std::string address;
  {
    RendezvousServer first("127.0.0.1:0", 1);  // finds a port that is free
    address = first.address();
  }
  std::thread rank([&] {
    Rendezvous rendezvous(address, 0, 1, kHangLimitMs);
    rendezvous.barrier(kHangLimitMs);
  });
  RendezvousServer server(address, 1);
  rank.join();
}

TEST_CASE("RendezvousServer__says_what_is_wrong_with_an_address") {
  const auto failure = [](const std::string& address) {
    return error_of([&] { RendezvousServer server(address, 1); });
  };
  CHECK(failure("127.0.0.1").failure() == BootstrapFailure::bad_address);
  CHECK(failure("127.0.0.1:").failure() == BootstrapFailure::bad_address);
  CHECK(failure("127.0.0.1:70000").failure() == BootstrapFailure::bad_address);
  CHECK(failure(":80").failure() == BootstrapFailure::bad_address);
  CHECK(failure("::1:80").failure() == BootstrapFailure::bad_address);
  CHECK(failure("192.0.2.1:0").failure() == BootstrapFailure::bad_address);  // TEST-NET: not ours
  CHECK(failure("no-such-host.invalid:0").failure() == BootstrapFailure::bad_address);
  RendezvousServer server("127.0.0.1:0", 1);
  const BootstrapError in_use = failure(server.address());
  CHECK(in_use.failure() == BootstrapFailure::port_in_use);
  CHECK_THAT(in_use.what(), Catch::Matchers::Contains(server.address()));
  CHECK(error_of([] { RendezvousServer none("127.0.0.1:0", 0); }).failure() ==
        BootstrapFailure::size_mismatch);
}

TEST_CASE("RendezvousServer__a_name_that_is_loopback_here_alone_is_known") {
  const auto alone = [](const std::string& address, std::initializer_list<const char*> found) {
    std::vector<bootstrap::Endpoint> endpoints;
    for (const char* one : found) endpoints.push_back(bootstrap::resolve(one).front());
    return bootstrap::is_loopback_here_alone(address, endpoints);
  };
  CHECK(alone("node0:29400", {"127.0.1.1:29400"}));
  CHECK(alone("node0:29400", {"127.0.1.1:29400", "[::1]:29400"}));
  CHECK_FALSE(alone("node0:29400", {"127.0.1.1:29400", "10.0.0.7:29400"}));
  CHECK_FALSE(alone("localhost:29400", {"127.0.0.1:29400", "[::1]:29400"}));
  CHECK_FALSE(alone("127.0.1.1:29400", {"127.0.1.1:29400"}));
  CHECK_FALSE(alone("[::1]:29400", {"[::1]:29400"}));
  CHECK(bootstrap::with_port("[::]:0", "29400") == "[::]:29400");
}

TEST_CASE("Rendezvous__nobody_there_is_an_error_within_the_timeout") {
  std::string address;
  {
    RendezvousServer gone("127.0.0.1:0", 1);
    address = gone.address();
  }
  const test::HangLimit limit;
  CHECK(error_of([&] { Rendezvous rank(address, 0, 1, 100); }).failure() ==
        BootstrapFailure::unreachable);
  CHECK_FALSE(limit.is_over());
}

// The kernel refuses connections to a broadcast address, whatever the routes are.
TEST_CASE("Rendezvous__without_a_way_there_is_an_error_long_before_the_timeout") {
  constexpr std::uint32_t kTimeoutMs = 600'000;
  CHECK_THROWS_WITH(
      Rendezvous("255.255.255.255:1", 0, 1, kTimeoutMs),
      Catch::StartsWith("This host has no route to the rendezvous at 255.255.255.255:1") &&
          Catch::Contains("is lo up?"));
}

TEST_CASE("RendezvousServer__refuses_a_rank_that_does_not_fit_and_serves_the_others") {
  RendezvousServer server("127.0.0.1:0", 2);
  Rendezvous zero(server.address(), 0, 2, kHangLimitMs);
  const BootstrapError out = error_of([&] { Rendezvous r(server.address(), 2, 2, kHangLimitMs); });
  CHECK(out.failure() == BootstrapFailure::rank_out_of_range);
  CHECK(out.rank() == 2);
  const BootstrapError taken =
      error_of([&] { Rendezvous r(server.address(), 0, 2, kHangLimitMs); });
  CHECK(taken.failure() == BootstrapFailure::rank_taken);
  CHECK(taken.rank() == 0);
  const BootstrapError size = error_of([&] { Rendezvous r(server.address(), 1, 3, kHangLimitMs); });
  CHECK(size.failure() == BootstrapFailure::size_mismatch);
  CHECK_THAT(size.what(), Catch::Matchers::Contains("3 ranks"));
  run_ranks(2, [&](std::uint32_t rank) {
    if (rank == 0) return zero.barrier(kHangLimitMs);
    Rendezvous one(server.address(), 1, 2, kHangLimitMs);
    one.barrier(kHangLimitMs);
  });
}

TEST_CASE("Rendezvous__missing_ranks_are_named_when_the_time_is_over") {
  RendezvousServer server("127.0.0.1:0", 4);
  Rendezvous one(server.address(), 1, 4, kHangLimitMs);
  Rendezvous idle(server.address(), 3, 4, kHangLimitMs);  // has joined, but posts nothing
  const BootstrapError error = error_of([&] { one.barrier(100); });
  CHECK(error.failure() == BootstrapFailure::timeout);
  CHECK_THAT(error.what(), Catch::Matchers::StartsWith("Ranks 0, 2 and 3 did not reach"));
  CHECK(error.rank() == 0);
  // The job has failed for all ranks, also for those that join later.
  CHECK(error_of([&] { idle.barrier(kHangLimitMs); }).failure() == BootstrapFailure::timeout);
  CHECK(error_of([&] { Rendezvous r(server.address(), 0, 4, kHangLimitMs); }).failure() ==
        BootstrapFailure::timeout);
}

TEST_CASE("Rendezvous__a_rank_that_ends_fails_those_that_wait_for_it") {
  const bool cleanly = GENERATE(false, true);
  CAPTURE(cleanly);
  RendezvousServer server("127.0.0.1:0", 3);
  auto two = std::make_unique<Rendezvous>(server.address(), 2, 3, kHangLimitMs);
  Rendezvous zero(server.address(), 0, 3, kHangLimitMs);
  if (cleanly) {
    two.reset();
  } else {
    // A killed process leaves like this: its socket closes without any message.
    ::shutdown(two->fd(), SHUT_RDWR);
  }
  const BootstrapError error = error_of([&] { zero.barrier(kHangLimitMs); });
  CHECK(error.failure() == BootstrapFailure::rank_left);
  CHECK(error.rank() == 2);
  CHECK_THAT(error.what(), Catch::Matchers::StartsWith("Rank 2 "));
}

TEST_CASE("Rendezvous__a_rank_that_may_return_joins_again_and_all_meet_anew") {
  RendezvousServer server("127.0.0.1:0", 3, {1});
  std::vector<std::unique_ptr<Rendezvous>> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<Rendezvous>(server.address(), rank, 3, kHangLimitMs));
    CHECK(ranks[rank]->last_round().empty());
  }
  const std::uint64_t epoch = ranks[1]->epoch();
  run_ranks(3, [&](std::uint32_t rank) {
    (void)ranks[rank]->all_gather(bytes_of("first " + std::to_string(rank)), kHangLimitMs);
  });
  // The rank's process ends: the connection closes without any message.
  REQUIRE(::shutdown(ranks[1]->fd(), SHUT_RDWR) == 0);
  run_ranks(3, [&](std::uint32_t rank) {
    if (rank == 1) {
      // Other ranks may be waiting in the round already.
      ranks[1] = std::make_unique<Rendezvous>(server.address(), 1, 3, kHangLimitMs);
      CHECK(ranks[1]->epoch() == epoch + 1);
      REQUIRE(ranks[1]->last_round().size() == 3);
      CHECK(ranks[1]->last_round()[2] == bytes_of("first 2"));
    }
    const auto blobs =
        ranks[rank]->all_gather(bytes_of("second " + std::to_string(rank)), kHangLimitMs);
    for (std::uint32_t other = 0; other < 3; ++other) {
      CHECK(blobs[other] == bytes_of("second " + std::to_string(other)));
    }
  });
  // A rank may return only once.
  REQUIRE(::shutdown(ranks[1]->fd(), SHUT_RDWR) == 0);
  const BootstrapError error = error_of([&] { ranks[0]->barrier(kHangLimitMs); });
  CHECK(error.failure() == BootstrapFailure::rank_left);
  CHECK(error.rank() == 1u);
}

TEST_CASE("Rendezvous__who_may_return_and_does_not_is_named_when_the_time_is_over") {
  RendezvousServer server("127.0.0.1:0", 2, {1});
  Rendezvous stays(server.address(), 0, 2, kHangLimitMs);
  {
    Rendezvous goes(server.address(), 1, 2, kHangLimitMs);
    REQUIRE(::shutdown(goes.fd(), SHUT_RDWR) == 0);
  }
  const BootstrapError error = error_of([&] { stays.barrier(200); });
  CHECK(error.failure() == BootstrapFailure::timeout);
  CHECK(error.rank() == 1u);
}

TEST_CASE("Rendezvous__who_will_not_return_ends_the_wait_for_it_at_once") {
  const bool joined_again = GENERATE(false, true);
  CAPTURE(joined_again);
  RendezvousServer server("127.0.0.1:0", 2, {1});
  Rendezvous stays(server.address(), 0, 2, kHangLimitMs);
  auto goes = std::make_unique<Rendezvous>(server.address(), 1, 2, kHangLimitMs);
  REQUIRE(::shutdown(goes->fd(), SHUT_RDWR) == 0);
  if (joined_again) goes = std::make_unique<Rendezvous>(server.address(), 1, 2, kHangLimitMs);
  stays.begin_all_gather({}, kHangLimitMs);
  server.will_not_return(1);
  const BootstrapError error = error_of([&] {
    while (!stays.try_all_gather()) std::this_thread::yield();
  });
  CHECK(error.failure() == BootstrapFailure::rank_left);
  CHECK(error.rank() == 1u);
}

TEST_CASE("Rendezvous__who_has_left_in_good_order_harms_nobody_by_its_end") {
  RendezvousServer server("127.0.0.1:0", 2);
  Rendezvous stays(server.address(), 0, 2, kHangLimitMs);
  { Rendezvous goes(server.address(), 1, 2, kHangLimitMs); }
  server.will_not_return(1);
  // The job has not failed: a third rank learns that no such rank exists, not that the job is over.
  CHECK(error_of([&] { Rendezvous r(server.address(), 2, 2, kHangLimitMs); }).failure() ==
        BootstrapFailure::rank_out_of_range);
}

TEST_CASE("Rendezvous__ranks_that_need_nothing_more_may_leave_in_any_order") {
  RendezvousServer server("127.0.0.1:0", 3);
  std::vector<std::unique_ptr<Rendezvous>> ranks(3);
  run_ranks(3, [&](std::uint32_t rank) {
    ranks[rank] = std::make_unique<Rendezvous>(server.address(), rank, 3, kHangLimitMs);
    ranks[rank]->barrier(kHangLimitMs);
  });
  ranks[1].reset();
  ranks[0].reset();
  // The server has sent rank 2 nothing: the job has not failed.
  pollfd readable{ranks[2]->fd(), POLLIN, 0};
  CHECK(::poll(&readable, 1, 50) == 0);
}

TEST_CASE("Rendezvous__abort_reaches_those_who_wait_with_its_reason") {
  RendezvousServer server("127.0.0.1:0", 2);
  Rendezvous zero(server.address(), 0, 2, kHangLimitMs);
  Rendezvous one(server.address(), 1, 2, kHangLimitMs);
  one.abort("no memory");
  const BootstrapError error = error_of([&] { zero.barrier(kHangLimitMs); });
  CHECK(error.failure() == BootstrapFailure::aborted);
  CHECK(error.rank() == 1);
  CHECK_THAT(error.what(), Catch::Matchers::EndsWith("no memory"));
}

TEST_CASE("RendezvousServer__its_end_is_an_error_to_those_who_wait") {
  auto server = std::make_unique<RendezvousServer>("127.0.0.1:0", 2);
  Rendezvous zero(server->address(), 0, 2, kHangLimitMs);
  std::thread ends([&] { server.reset(); });
  CHECK(error_of([&] { zero.barrier(kHangLimitMs); }).failure() == BootstrapFailure::unreachable);
  ends.join();
}

// The process that serves the rendezvous may end as soon as it has sent the reason.
TEST_CASE("RendezvousServer__its_end_keeps_nothing_back_that_was_told_before") {
  for (int round = 0; round < 100; ++round) {
    auto server = std::make_unique<RendezvousServer>("127.0.0.1:0", 2);
    auto zero = std::make_unique<Rendezvous>(server->address(), 0, 2, kHangLimitMs);
    Rendezvous one(server->address(), 1, 2, kHangLimitMs);
    zero->abort("no such NIC");
    zero.reset();
    server.reset();
    const BootstrapError error = error_of([&] { one.barrier(kHangLimitMs); });
    REQUIRE(error.failure() == BootstrapFailure::aborted);
    REQUIRE_THAT(error.what(), Catch::Matchers::EndsWith("no such NIC"));
  }
}

TEST_CASE("Rendezvous__whose_server_is_not_there_says_where_to_look") {
  const auto advice = Catch::Matchers::EndsWith(
      "; check the messages of the process that serves it (a launcher, or rank 0)");
  auto server = std::make_unique<RendezvousServer>("127.0.0.1:0", 2);
  const std::string address = server->address();
  Rendezvous one(address, 1, 2, kHangLimitMs);
  SECTION("any more") {
    server.reset();
    CHECK_THAT(error_of([&] { one.barrier(kHangLimitMs); }).what(), advice);
    CHECK_THAT(error_of([&] { Rendezvous late(address, 0, 2, 50); }).what(), advice);
  }
  SECTION("from now on") {
    one.begin_all_gather({}, kHangLimitMs);
    server.reset();
    CHECK_THAT(error_of([&] {
                 while (!one.try_all_gather()) std::this_thread::yield();
               }).what(),
               advice);
  }
}

}  // namespace
}  // namespace hawser::engine
