// SPDX-License-Identifier: Apache-2.0
// Where a process stands in its job, by the environment that its launcher gave it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hawser::engine {

struct JobPlace {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::optional<std::uint32_t> local_rank;  // among the ranks of this host, if the launcher said
  std::optional<std::uint32_t> local_size;
  std::string said_by;     // for people: "RANK and WORLD_SIZE"
  std::string rendezvous;  // "HOST:PORT": rank 0 listens there, unless the launcher does
};

// HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS (and HAWSER_LOCAL_RANK, HAWSER_LOCAL_SIZE if they
// are there); else what torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK,
// LOCAL_WORLD_SIZE. Where torchrun's agent listens at MASTER_PORT itself (it says so by
// TORCHELASTIC_USE_AGENT_STORE=True), the rendezvous is at the port after it; HAWSER_RENDEZVOUS
// outweighs both.
//
// Nothing if neither a HAWSER_RANK nor a RANK is there. Throws hawser::Error, which names the
// variable, if one is missing or makes no sense.
[[nodiscard]] std::optional<JobPlace> job_place_from_environment();

// Of a process that these variables do not place: whether a PMIx launcher started it (mpirun of
// Open MPI, srun --mpi=pmix, prterun), which pmix_job.hpp then asks. Throws hawser::Error, which
// says what to do, if another launcher started several such processes: none of them could find the
// others, and each would take itself for the whole job.
[[nodiscard]] bool started_by_pmix();

}  // namespace hawser::engine
