// SPDX-License-Identifier: Apache-2.0
#include "engine/bootstrap/job_environment.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/environment.hpp"

namespace hawser::engine {
namespace {

const std::vector<std::string> kAll = {"HAWSER_RANK",
                                       "HAWSER_SIZE",
                                       "HAWSER_RENDEZVOUS",
                                       "HAWSER_LOCAL_RANK",
                                       "HAWSER_LOCAL_SIZE",
                                       "RANK",
                                       "WORLD_SIZE",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "LOCAL_RANK",
                                       "LOCAL_WORLD_SIZE",
                                       "TORCHELASTIC_USE_AGENT_STORE",
                                       "PMIX_RANK",
                                       "PMIX_NAMESPACE",
                                       "PMI_RANK",
                                       "PMI_SIZE",
                                       "SLURM_PROCID",
                                       "SLURM_NTASKS",
                                       "SLURM_STEP_NUM_TASKS",
                                       "SLURM_STEP_NODELIST"};

using Variables = std::vector<std::pair<std::string, std::string>>;

std::string error_in(const std::vector<std::pair<std::string, std::string>>& variables) {
  const Environment environment(kAll, variables);
  try {
    (void)job_place_from_environment();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("job_place_from_environment__nothing_set") {
  const Environment environment(kAll, {});
  CHECK_FALSE(job_place_from_environment());
}

TEST_CASE("job_place_from_environment__own_variables") {
  const Environment environment(kAll, {{"HAWSER_RANK", "3"},
                                       {"HAWSER_SIZE", "8"},
                                       {"HAWSER_RENDEZVOUS", "10.0.0.1:4000"},
                                       {"RANK", "77"}});
  const auto place = job_place_from_environment();
  REQUIRE(place);
  CHECK(place->rank == 3);
  CHECK(place->size == 8);
  CHECK(place->rendezvous == "10.0.0.1:4000");
  CHECK(place->said_by == "HAWSER_RANK and HAWSER_SIZE");
  CHECK_FALSE(place->local_rank);
}

TEST_CASE("job_place_from_environment__torchrun") {
  const std::vector<std::pair<std::string, std::string>> torch = {{"RANK", "1"},
                                                                  {"WORLD_SIZE", "4"},
                                                                  {"MASTER_ADDR", "node0"},
                                                                  {"MASTER_PORT", "29500"},
                                                                  {"LOCAL_RANK", "1"},
                                                                  {"LOCAL_WORLD_SIZE", "2"}};
  {
    const Environment environment(kAll, torch);
    const auto place = job_place_from_environment();
    REQUIRE(place);
    CHECK(place->rank == 1);
    CHECK(place->size == 4);
    CHECK(place->local_rank == 1);
    CHECK(place->local_size == 2);
    CHECK(place->rendezvous == "node0:29500");
    CHECK(place->said_by == "RANK and WORLD_SIZE");
  }
  auto with_agent = torch;
  with_agent.emplace_back("TORCHELASTIC_USE_AGENT_STORE", "True");
  {
    const Environment environment(kAll, with_agent);
    CHECK(job_place_from_environment()->rendezvous == "node0:29501");
  }
  with_agent.emplace_back("HAWSER_RENDEZVOUS", "node1:5");
  const Environment environment(kAll, with_agent);
  CHECK(job_place_from_environment()->rendezvous == "node1:5");
}

TEST_CASE("job_place_from_environment__errors_name_the_variable") {
  using Catch::Matchers::StartsWith;
  CHECK_THAT(error_in({{"HAWSER_RANK", "x"}}), StartsWith("HAWSER_RANK=x"));
  CHECK_THAT(error_in({{"HAWSER_RANK", "-1"}}), StartsWith("HAWSER_RANK=-1"));
  CHECK_THAT(error_in({{"HAWSER_RANK", "1"}}), StartsWith("HAWSER_SIZE is not set"));
  // Each process of such a job would run a job of its own, and report that all is well.
  CHECK(error_in({{"HAWSER_SIZE", "8"}}) ==
        "HAWSER_RANK is not set or empty, though HAWSER_SIZE is; set it, or unset HAWSER_SIZE");
  CHECK(error_in({{"HAWSER_RANK", ""}, {"HAWSER_SIZE", "8"}, {"HAWSER_RENDEZVOUS", "h:1"}}) ==
        "HAWSER_RANK is not set or empty, though HAWSER_SIZE is; set it, or unset HAWSER_SIZE");
  CHECK(error_in({{"RANK", ""}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "h"}}) ==
        "RANK is not set or empty, though WORLD_SIZE is; set it, or unset WORLD_SIZE");
  CHECK(error_in({{"WORLD_SIZE", "8"}, {"MASTER_ADDR", "h"}}) == "");
  CHECK_THAT(error_in({{"HAWSER_RANK", "1"}, {"HAWSER_SIZE", "2"}}),
             StartsWith("HAWSER_RENDEZVOUS is not set"));
  CHECK_THAT(error_in({{"HAWSER_RANK", "0"}, {"HAWSER_SIZE", "0"}, {"HAWSER_RENDEZVOUS", "h:1"}}),
             StartsWith("HAWSER_SIZE=0: a job has at least one rank"));
  CHECK_THAT(error_in({{"RANK", "0"}, {"WORLD_SIZE", "0"}, {"LOCAL_WORLD_SIZE", "1"}}),
             StartsWith("WORLD_SIZE=0: a job has at least one rank"));
  CHECK_THAT(error_in({{"HAWSER_RANK", "2"}, {"HAWSER_SIZE", "2"}, {"HAWSER_RENDEZVOUS", "h:1"}}),
             StartsWith("HAWSER_RANK=2: a job of 2 has ranks 0 to 1"));
  CHECK_THAT(error_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), StartsWith("MASTER_ADDR is not set"));
  CHECK_THAT(error_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "h"}}),
             StartsWith("MASTER_PORT is not set"));
}

TEST_CASE("job_place_from_environment__a_host_has_one_to_all_ranks_of_the_job") {
  using Catch::Matchers::StartsWith;
  const auto own = [](const std::string& local_size) {
    return error_in({{"HAWSER_RANK", "0"},
                     {"HAWSER_SIZE", "4"},
                     {"HAWSER_RENDEZVOUS", "h:1"},
                     {"HAWSER_LOCAL_SIZE", local_size}});
  };
  const auto torch = [](const std::string& local_size) {
    return error_in({{"RANK", "0"},
                     {"WORLD_SIZE", "4"},
                     {"MASTER_ADDR", "h"},
                     {"MASTER_PORT", "1"},
                     {"LOCAL_WORLD_SIZE", local_size}});
  };
  for (const char* right : {"1", "4", ""}) {
    CHECK(own(right) == "");
    CHECK(torch(right) == "");
  }
  for (const std::string wrong : {"0", "5"}) {
    CHECK_THAT(own(wrong), StartsWith("HAWSER_LOCAL_SIZE=" + wrong + ": "));
    CHECK_THAT(torch(wrong), StartsWith("LOCAL_WORLD_SIZE=" + wrong + ": "));
  }
}

bool pmix_in(const Variables& variables) {
  const Environment environment(kAll, variables);
  return started_by_pmix();
}

std::string launcher_error_in(const Variables& variables) {
  try {
    return pmix_in(variables) ? "PMIx" : "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("started_by_pmix__its_two_variables") {
  CHECK(pmix_in({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "1234"}}));
  CHECK_FALSE(pmix_in({{"PMIX_RANK", "0"}}));
  CHECK_FALSE(pmix_in({}));
  // srun --mpi=pmix sets both its own and those.
  CHECK(pmix_in({{"PMIX_RANK", "1"},
                 {"PMIX_NAMESPACE", "slurm.pmix.7.0"},
                 {"SLURM_PROCID", "1"},
                 {"SLURM_STEP_NUM_TASKS", "8"},
                 {"SLURM_STEP_NODELIST", "node[1-2]"}}));
}

TEST_CASE("started_by_pmix__srun_without_it_is_refused") {
  using Catch::Matchers::Contains;
  using Catch::Matchers::StartsWith;
  const Variables step = {{"SLURM_PROCID", "3"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_STEP_NODELIST", "node[1-2]"}};
  const std::string error = launcher_error_in(step);
  CHECK_THAT(error, StartsWith("SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=8: srun started"));
  CHECK_THAT(error, Contains("srun --mpi=pmix"));
  CHECK_THAT(error, Contains("set HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS"));
  CHECK_THAT(launcher_error_in(
                 {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NODELIST", "node1"}}),
             StartsWith("SLURM_PROCID=0, SLURM_NTASKS=2: srun started"));
  CHECK_THAT(launcher_error_in({{"SLURM_PROCID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "many"},
                                {"SLURM_STEP_NODELIST", "node1"}}),
             StartsWith("SLURM_STEP_NUM_TASKS=many"));
}

TEST_CASE("started_by_pmix__a_batch_script_or_a_shell_may_start_its_own_ranks") {
  CHECK_FALSE(pmix_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
  CHECK_FALSE(pmix_in({{"SLURM_PROCID", "0"},
                       {"SLURM_NTASKS", "8"},
                       {"SLURM_STEP_NUM_TASKS", "1"},
                       {"SLURM_STEP_NODELIST", "node1"}}));
  CHECK_FALSE(pmix_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
}

TEST_CASE("started_by_pmix__a_rendezvous_without_a_rank_is_refused") {
  CHECK(launcher_error_in({{"HAWSER_RENDEZVOUS", "h:1"}}) ==
        "HAWSER_RANK is not set or empty, though HAWSER_RENDEZVOUS is; set it, or unset "
        "HAWSER_RENDEZVOUS");
  CHECK(pmix_in({{"HAWSER_RENDEZVOUS", "h:1"}, {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "1234"}}));
}

TEST_CASE("started_by_pmix__other_launchers_are_refused") {
  using Catch::Matchers::StartsWith;
  CHECK_THAT(launcher_error_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}),
             StartsWith("PMI_RANK=1, PMI_SIZE=4: a PMI launcher started"));
}

}  // namespace
}  // namespace hawser::engine
