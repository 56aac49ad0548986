// SPDX-License-Identifier: Apache-2.0
// The place of a process in its job, read from the environment that its launcher set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hawser::engine {

struct JobPlace {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::optional<std::uint32_t> local_rank;  // among the ranks of this host, if the launcher gave it
  std::optional<std::uint32_t> local_size;
  std::string said_by;     // for people, the variables that gave it: "RANK and WORLD_SIZE"
  std::string rendezvous;  // "HOST:PORT": rank 0 listens there, unless the launcher does
};

// Reads HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS (and HAWSER_LOCAL_RANK, HAWSER_LOCAL_SIZE if
// set). Without them it reads torchrun's variables: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
// LOCAL_RANK, LOCAL_WORLD_SIZE. If torchrun's agent listens at MASTER_PORT itself
// (TORCHELASTIC_USE_AGENT_STORE=True), the rendezvous is at the next port. HAWSER_RENDEZVOUS
// overrides both.
//
// Returns nothing if neither HAWSER_RANK nor RANK is set. Throws hawser::Error, which names the
// variable, if one is missing or invalid. HAWSER_RANK is missing if HAWSER_SIZE is set. An empty
// variable counts as not set.
[[nodiscard]] std::optional<JobPlace> job_place_from_environment();

// For a process that these variables do not place: true if a PMIx launcher started it (mpirun of
// Open MPI, srun --mpi=pmix, prterun). pmix_job.hpp then asks that launcher. Throws hawser::Error
// with advice if another launcher started several such processes, or if HAWSER_RENDEZVOUS is set.
// They could not find each other, and each would take itself for the whole job.
[[nodiscard]] bool started_by_pmix();

}  // namespace hawser::engine
