// SPDX-License-Identifier: Apache-2.0
// A job whose ranks a PMIx launcher starts. It gives this rank's place, and passes the address of
// rank 0's rendezvous to the others. Rank 0 puts the address, all ranks pass one fence, and the
// others get it. PMIx is not used after that: it does not detect ranks that die later; others do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/bootstrap/job_environment.hpp"
#include "engine/bootstrap/pmix.hpp"

namespace hawser::engine {

class PmixJob {
 public:
  // Asks the launcher for rank and size, in the job and on this host. If HAWSER_RENDEZVOUS is set,
  // it gives the rendezvous, and meet() is not needed. Throws hawser::Error.
  explicit PmixJob(std::unique_ptr<Pmix> pmix);
  ~PmixJob();  // finalizes, unless a rank missed the fence
  PmixJob(const PmixJob&) = delete;
  PmixJob& operator=(const PmixJob&) = delete;

  // The place; its rendezvous is empty if meet() has to find it.
  [[nodiscard]] const JobPlace& place() const noexcept { return place_; }

  // Each rank calls it once. Rank 0 passes the address at which it listens, and the others receive
  // it. Waits at most `timeout_ms` for all of them, and as long again for the answer. Throws
  // PmixError, or hawser::Error with the reason of a rank 0 that gave up.
  [[nodiscard]] std::string meet(const std::string& own, std::uint32_t timeout_ms);

  // Called instead of meet() by a rank 0 that can't listen. The others get the reason. No effect on
  // other ranks.
  void give_up(const std::string& reason, std::uint32_t timeout_ms) noexcept;

 private:
  void finalize() noexcept;

  std::unique_ptr<Pmix> pmix_;
  JobPlace place_;
  bool open_ = true;
};

}  // namespace hawser::engine
