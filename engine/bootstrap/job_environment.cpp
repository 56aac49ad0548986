// SPDX-License-Identifier: Apache-2.0
#include "engine/bootstrap/job_environment.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return {};
  return value;
}

std::optional<std::uint32_t> number(const char* name) {
  const auto text = variable(name);
  if (!text) return {};
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    throw Error(std::string(name) + "=" + *text + ": it takes a whole number up to " +
                std::to_string(std::numeric_limits<std::uint32_t>::max()));
  }
  return value;
}

[[noreturn]] void throw_missing(const char* name, const char* because) {
  throw Error(std::string(name) + " is not set or empty, though " + because +
              " is; set it, or unset " + because);
}

std::uint32_t needed(const char* name, const char* because) {
  if (const auto value = number(name)) return *value;
  throw_missing(name, because);
}

std::uint32_t job_size(const char* name, const char* because) {
  const std::uint32_t size = needed(name, because);
  if (size == 0) throw Error(std::string(name) + "=0: a job has at least one rank");
  return size;
}

// The number of this host's ranks, which others divide by.
std::optional<std::uint32_t> local_size(const char* name, std::uint32_t size) {
  const auto value = number(name);
  if (!value || (*value >= 1 && *value <= size)) return value;
  throw Error(std::string(name) + "=" + std::to_string(*value) + ": of a job of " +
              std::to_string(size) + ", a host has 1 to " + std::to_string(size) + " ranks");
}

// Refuses a job whose processes don't know their ranks. Each would take itself for a launcher, run
// a job of its own, and report that all is well. WORLD_SIZE without any RANK may be a script's own.
void refuse_size_without_rank() {
  if (variable("HAWSER_SIZE")) throw_missing("HAWSER_RANK", "HAWSER_SIZE");
  if (std::getenv("RANK") != nullptr && variable("WORLD_SIZE")) throw_missing("RANK", "WORLD_SIZE");
}

std::string torch_rendezvous() {
  const auto host = variable("MASTER_ADDR");
  if (!host) throw_missing("MASTER_ADDR", "RANK");
  std::uint32_t port = needed("MASTER_PORT", "RANK");
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  if (port == 0 || port > 65535) {
    throw Error("MASTER_PORT=" + std::to_string(port) + ": no port is left for the rendezvous");
  }
  const bool is_v6 = host->find(':') != std::string::npos;
  return (is_v6 ? "[" + *host + "]" : *host) + ":" + std::to_string(port);
}

void refuse_if_several(const std::string& who, const std::string& rank, const char* size_name,
                       const std::string& advice) {
  const auto size = number(size_name);
  if (!size || *size <= 1) return;
  throw Error(rank + ", " + size_name + "=" + std::to_string(*size) + ": " + who +
              " started this process without PMIx, so it can't find the other ranks; " + advice +
              ", or set HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS (ADDRESS:PORT of rank 0's "
              "host)");
}

}  // namespace

std::optional<JobPlace> job_place_from_environment() {
  JobPlace place;
  const auto rendezvous = variable("HAWSER_RENDEZVOUS");
  const char* rank_name = "HAWSER_RANK";
  if (const auto rank = number(rank_name)) {
    place.rank = *rank;
    place.size = job_size("HAWSER_SIZE", rank_name);
    place.local_rank = number("HAWSER_LOCAL_RANK");
    place.local_size = local_size("HAWSER_LOCAL_SIZE", place.size);
    place.said_by = "HAWSER_RANK and HAWSER_SIZE";
    if (!rendezvous) throw_missing("HAWSER_RENDEZVOUS", rank_name);
  } else if (const auto torch_rank = number(rank_name = "RANK")) {
    place.rank = *torch_rank;
    place.size = job_size("WORLD_SIZE", rank_name);
    place.local_rank = number("LOCAL_RANK");
    place.local_size = local_size("LOCAL_WORLD_SIZE", place.size);
    place.said_by = "RANK and WORLD_SIZE";
  } else {
    refuse_size_without_rank();
    return {};
  }
  place.rendezvous = rendezvous ? *rendezvous : torch_rendezvous();
  if (place.rank >= place.size) {
    throw Error(std::string(rank_name) + "=" + std::to_string(place.rank) + ": a job of " +
                std::to_string(place.size) + " has ranks 0 to " +
                std::to_string(static_cast<std::int64_t>(place.size) - 1));
  }
  return place;
}

bool started_by_pmix() {
  if (variable("PMIX_RANK") && variable("PMIX_NAMESPACE")) return true;
  // srun sets the step's variables. In a batch script, or in a step of one task (a shell), a job
  // may start ranks of its own.
  if (const auto rank = variable("SLURM_PROCID"); rank && variable("SLURM_STEP_NODELIST")) {
    const bool has_step_tasks = variable("SLURM_STEP_NUM_TASKS").has_value();
    const char* const name = has_step_tasks ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    refuse_if_several("srun", "SLURM_PROCID=" + *rank, name,
                      "start the ranks with `srun --mpi=pmix` (`srun --mpi=list` shows whether "
                      "this Slurm supports it)");
  }
  if (const auto rank = variable("PMI_RANK")) {
    refuse_if_several("a PMI launcher", "PMI_RANK=" + *rank, "PMI_SIZE",
                      "start the ranks with a launcher that supports PMIx (Open MPI's mpirun, "
                      "`srun --mpi=pmix`)");
  }
  if (variable("HAWSER_RENDEZVOUS")) throw_missing("HAWSER_RANK", "HAWSER_RENDEZVOUS");
  return false;
}

}  // namespace hawser::engine
