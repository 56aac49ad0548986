// SPDX-License-Identifier: Apache-2.0
#include "engine/bootstrap/pmix_job.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test/engine/environment.hpp"

namespace hawser::engine {
namespace {

// Simulates a launcher and the other ranks, and records the calls made to them.
struct World {
  std::uint32_t rank = 0;
  std::map<std::string, std::uint32_t> job = {{"pmix.job.size", 4}, {"pmix.local.size", 2}};
  std::map<std::string, std::uint32_t> process = {{"pmix.lrank", 1}};
  std::string put;                                    // by this rank
  std::optional<std::string> rank_0 = "@10.0.0.1:7";  // what rank 0 has put; empty: no answer
  bool all_come = true;
  std::vector<std::string> calls;
};

class FakePmix : public Pmix {
 public:
  explicit FakePmix(World& world) : world_(world) {}
  std::uint32_t init() override {
    world_.calls.push_back("init");
    return world_.rank;
  }
  std::optional<std::uint32_t> number_of_job(const std::string& key) override {
    return find(world_.job, key);
  }
  std::optional<std::uint32_t> number_of_process(const std::string& key) override {
    return find(world_.process, key);
  }
  void put(const std::string&, const std::string& text) override {
    world_.calls.push_back("put");
    world_.put = text;
  }
  bool fence(std::uint32_t) override {
    world_.calls.push_back("fence");
    return world_.all_come;
  }
  std::optional<std::string> get(std::uint32_t rank, const std::string&, std::uint32_t) override {
    world_.calls.push_back("get " + std::to_string(rank));
    return world_.rank_0;
  }
  void finalize() noexcept override { world_.calls.push_back("finalize"); }

 private:
  static std::optional<std::uint32_t> find(const std::map<std::string, std::uint32_t>& numbers,
                                           const std::string& key) {
    const auto found = numbers.find(key);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  }
  World& world_;
};

using Calls = std::vector<std::string>;
const std::vector<std::string> kVariables = {"HAWSER_RENDEZVOUS"};

PmixJob job_in(World& world) { return PmixJob(std::make_unique<FakePmix>(world)); }

// The text of the error that `work` throws. `call` gets the name of the failed PMIx call, if any.
template <class Work>
std::string error_of(Work work, std::string* call = nullptr) {
  try {
    work();
  } catch (const PmixError& error) {
    if (call != nullptr) *call = error.call();
    return error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("pmix_job__place_is_the_launchers") {
  const Environment environment(kVariables, {});
  World world;
  world.rank = 3;
  const PmixJob job = job_in(world);
  CHECK(job.place().rank == 3);
  CHECK(job.place().size == 4);
  CHECK(job.place().local_rank == 1);
  CHECK(job.place().local_size == 2);
  CHECK(job.place().rendezvous.empty());
}

TEST_CASE("pmix_job__a_launcher_need_not_know_of_hosts") {
  const Environment environment(kVariables, {});
  World world;
  world.job.erase("pmix.local.size");
  world.process.clear();
  const PmixJob job = job_in(world);
  CHECK_FALSE(job.place().local_rank);
  CHECK_FALSE(job.place().local_size);
}

// Others divide by it.
TEST_CASE("pmix_job__a_number_of_ranks_that_no_host_can_have_is_unknown") {
  const Environment environment(kVariables, {});
  for (const std::uint32_t local_size : {0u, 5u}) {
    World world;
    world.job["pmix.local.size"] = local_size;
    CHECK_FALSE(job_in(world).place().local_size);
  }
}

TEST_CASE("pmix_job__rank_0_tells_where_it_listens") {
  const Environment environment(kVariables, {});
  World world;
  {
    PmixJob job = job_in(world);
    CHECK(job.meet("10.0.0.9:1234", 1000) == "10.0.0.9:1234");
  }
  CHECK(world.put == "@10.0.0.9:1234");
  CHECK(world.calls == Calls{"init", "put", "fence", "finalize"});
}

TEST_CASE("pmix_job__others_learn_it_behind_the_fence") {
  const Environment environment(kVariables, {});
  World world;
  world.rank = 1;
  {
    PmixJob job = job_in(world);
    CHECK(job.meet("", 1000) == "10.0.0.1:7");
  }
  CHECK(world.calls == Calls{"init", "fence", "get 0", "finalize"});
}

TEST_CASE("pmix_job__own_rendezvous_outweighs_and_nobody_meets") {
  const Environment environment(kVariables, {{"HAWSER_RENDEZVOUS", "node7:99"}});
  World world;
  {
    const PmixJob job = job_in(world);
    CHECK(job.place().rendezvous == "node7:99");
  }
  CHECK(world.calls == Calls{"init", "finalize"});
}

TEST_CASE("pmix_job__who_does_not_come_to_the_fence_is_not_waited_for") {
  const Environment environment(kVariables, {});
  World world;
  world.rank = 2;
  world.all_come = false;
  {
    PmixJob job = job_in(world);
    std::string call;
    const std::string error = error_of([&] { (void)job.meet("", 2000); }, &call);
    CHECK(call == "PMIx_Fence");
    CHECK_THAT(
        error,
        Catch::Matchers::StartsWith(
            "PMIx_Fence: not all 4 ranks joined within 2 s; the messages of the other ranks"));
  }
  // Finalizing could wait for the ranks that don't come.
  CHECK(world.calls == Calls{"init", "fence"});
}

TEST_CASE("pmix_job__an_address_that_does_not_come_is_not_waited_for") {
  const Environment environment(kVariables, {});
  World world;
  world.rank = 2;
  world.rank_0.reset();
  PmixJob job = job_in(world);
  std::string call;
  const std::string error = error_of([&] { (void)job.meet("", 1500); }, &call);
  CHECK(call == "PMIx_Get(hawser.rendezvous)");
  CHECK_THAT(error, Catch::Matchers::Contains("within 1500 ms"));
  CHECK_THAT(error, Catch::Matchers::Contains("set HAWSER_RENDEZVOUS"));
}

TEST_CASE("pmix_job__the_others_hear_why_rank_0_gave_up") {
  const Environment environment(kVariables, {});
  World world;
  {
    PmixJob job = job_in(world);
    job.give_up("no port", 1000);
  }
  CHECK(world.put == "!no port");
  CHECK(world.calls == Calls{"init", "put", "fence", "finalize"});

  World other;
  other.rank = 1;
  other.rank_0 = world.put;
  PmixJob job = job_in(other);
  CHECK(error_of([&] { (void)job.meet("", 1000); }) == "rank 0 gave up: no port");
  CHECK(other.calls.back() == "finalize");
}

TEST_CASE("pmix_job__nobody_else_gives_up_for_all") {
  const Environment environment(kVariables, {});
  World world;
  world.rank = 1;
  PmixJob job = job_in(world);
  job.give_up("mine alone", 1000);
  CHECK(world.put.empty());
}

TEST_CASE("pmix_job__places_that_make_no_sense") {
  const Environment environment(kVariables, {});
  std::string call;
  World world;
  world.job.erase("pmix.job.size");
  CHECK_THAT(error_of([&] { (void)job_in(world); }, &call),
             Catch::Matchers::Contains("set HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS"));
  CHECK(call == "PMIx_Get(pmix.job.size)");
  CHECK(world.calls == Calls{"init", "finalize"});

  World beyond;
  beyond.rank = 4;
  CHECK_THAT(error_of([&] { (void)job_in(beyond); }, &call),
             Catch::Matchers::Contains("rank 4 in a job of 4"));
  CHECK(call == "PMIx_Init");
}

}  // namespace
}  // namespace hawser::engine
