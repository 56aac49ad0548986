// SPDX-License-Identifier: Apache-2.0
// A job whose ranks a PMIx launcher starts: where this one stands, and how the address of rank 0's
// rendezvous gets to the others. Rank 0 puts it, all pass one fence, the others get it. After that
// PMIx is done with: who dies later is noticed by others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/bootstrap/job_environment.hpp"
#include "engine/bootstrap/pmix.hpp"

namespace hawser::engine {

class PmixJob {
 public:
  // Asks the launcher for rank and size, and for their like on this host; HAWSER_RENDEZVOUS, if it
  // is set, is the rendezvous, and nobody needs to meet. Throws hawser::Error.
  explicit PmixJob(std::unique_ptr<Pmix> pmix);
  ~PmixJob();  // finalizes, unless some did not come to the fence
  PmixJob(const PmixJob&) = delete;
  PmixJob& operator=(const PmixJob&) = delete;

  // Without a rendezvous where meet() has to find it.
  [[nodiscard]] const JobPlace& place() const noexcept { return place_; }

  // Of all ranks, once: rank 0 gives the address at which it listens, the others get it. Waits at
  // most `timeout_ms` for all of them, and as long again for the answer. Throws PmixError, or
  // hawser::Error with the words of a rank 0 that gave up.
  [[nodiscard]] std::string meet(const std::string& own, std::uint32_t timeout_ms);

  // Instead of it, of a rank 0 that can't listen: the others get the reason. Nothing, of others.
  void give_up(const std::string& reason, std::uint32_t timeout_ms) noexcept;

 private:
  void finalize() noexcept;

  std::unique_ptr<Pmix> pmix_;
  JobPlace place_;
  bool open_ = true;
};

}  // namespace hawser::engine
