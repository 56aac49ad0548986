// SPDX-License-Identifier: Apache-2.0
// What a rank asks of PMIx, the interface through which mpirun, srun and others tell the processes
// that they start where they stand, and let them tell each other something once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::engine {

// Names the call, and says what to do.
class PmixError : public Error {
 public:
  PmixError(const std::string& call, const std::string& why)
      : Error(call + ": " + why), call_(call) {}
  [[nodiscard]] const std::string& call() const noexcept { return call_; }

 private:
  std::string call_;
};

// One thread uses it. Each call throws PmixError if PMIx refuses it.
class Pmix {
 public:
  Pmix() = default;
  virtual ~Pmix() = default;
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  // PMIx_Init; the rank of this process. Comes first.
  [[nodiscard]] virtual std::uint32_t init() = 0;
  // PMIx_Get of what the launcher knows of the job, or of this process; nothing if it doesn't.
  [[nodiscard]] virtual std::optional<std::uint32_t> number_of_job(const std::string& key) = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> number_of_process(const std::string& key) = 0;
  // PMIx_Put and PMIx_Commit: for the others, behind the next fence.
  virtual void put(const std::string& key, const std::string& text) = 0;
  // PMIx_Fence: returns when all ranks of the job have called it; false: some have not in time.
  // After false only the destructor is of use.
  [[nodiscard]] virtual bool fence(std::uint32_t timeout_ms) = 0;
  // PMIx_Get of what a rank has put; nothing if it did not come in time, as above.
  [[nodiscard]] virtual std::optional<std::string> get(std::uint32_t rank, const std::string& key,
                                                       std::uint32_t timeout_ms) = 0;
  // PMIx_Finalize: the launcher expects it of a process that ends in good order.
  virtual void finalize() noexcept = 0;
};

// The library, loaded now: neither this one nor the command needs it to be there otherwise. Throws
// PmixError if it is not.
[[nodiscard]] std::unique_ptr<Pmix> load_pmix();

}  // namespace hawser::engine
