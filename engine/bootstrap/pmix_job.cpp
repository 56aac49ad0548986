// SPDX-License-Identifier: Apache-2.0
#include "engine/bootstrap/pmix_job.hpp"

#include <cstdlib>
#include <utility>

#include "engine/cancellation.hpp"

namespace hawser::engine {
namespace {

constexpr const char* kKey = "hawser.rendezvous";
// The first character of a published text.
constexpr char kAddress = '@';
constexpr char kReason = '!';

std::string seconds_of(std::uint32_t timeout_ms) {
  return timeout_ms % 1000 == 0 ? std::to_string(timeout_ms / 1000) + " s"
                                : std::to_string(timeout_ms) + " ms";
}

}  // namespace

PmixJob::PmixJob(std::unique_ptr<Pmix> pmix) : pmix_(std::move(pmix)) {
  place_.rank = pmix_->init();
  try {
    const auto size = pmix_->number_of_job("pmix.job.size");
    if (!size) {
      throw PmixError("PMIx_Get(pmix.job.size)",
                      "the launcher does not provide the number of ranks; set HAWSER_RANK, "
                      "HAWSER_SIZE and HAWSER_RENDEZVOUS instead");
    }
    place_.size = *size;
    if (place_.rank >= place_.size) {
      throw PmixError("PMIx_Init", "rank " + std::to_string(place_.rank) + " in a job of " +
                                       std::to_string(place_.size) +
                                       "; was PMIX_RANK changed since the launcher set it?");
    }
    place_.local_rank = pmix_->number_of_process("pmix.lrank");
    place_.local_size = pmix_->number_of_job("pmix.local.size");
    // A launcher that knows nothing of hosts may answer 0.
    if (place_.local_size < 1u || place_.local_size > place_.size) place_.local_size.reset();
  } catch (...) {
    pmix_->finalize();
    throw;
  }
  const char* const rendezvous = std::getenv("HAWSER_RENDEZVOUS");
  if (rendezvous != nullptr && *rendezvous != '\0') {
    place_.rendezvous = rendezvous;
    finalize();
  }
}

PmixJob::~PmixJob() { finalize(); }

void PmixJob::finalize() noexcept {
  const CancellationHold hold;
  if (open_) pmix_->finalize();
  open_ = false;
}

std::string PmixJob::meet(const std::string& own, std::uint32_t timeout_ms) {
  if (place_.rank == 0) pmix_->put(kKey, kAddress + own);
  if (!pmix_->fence(timeout_ms)) {
    open_ = false;  // finalizing would wait for the missing ranks
    throw PmixError(
        "PMIx_Fence",
        "not all " + std::to_string(place_.size) + " ranks joined within " +
            seconds_of(timeout_ms) +
            "; the messages of the other ranks show which one ended or could not start");
  }
  std::string told = kAddress + own;
  if (place_.rank != 0) {
    const auto got = pmix_->get(0, kKey, timeout_ms);
    if (!got || got->empty()) {
      open_ = got.has_value();
      throw PmixError(
          "PMIx_Get(hawser.rendezvous)",
          "rank 0's address did not arrive within " + seconds_of(timeout_ms) +
              "; check rank 0's messages, or set HAWSER_RENDEZVOUS to an ADDRESS:PORT of its host");
    }
    told = *got;
  }
  finalize();
  if (told.front() == kReason) throw Error("rank 0 gave up: " + told.substr(1));
  return told.substr(1);
}

void PmixJob::give_up(const std::string& reason, std::uint32_t timeout_ms) noexcept {
  if (!open_ || place_.rank != 0) return;
  const CancellationHold hold;
  try {
    pmix_->put(kKey, kReason + reason);
    open_ = pmix_->fence(timeout_ms);
  } catch (...) {
    open_ = false;  // the other ranks notice by their timeout
  }
  finalize();
}

}  // namespace hawser::engine
