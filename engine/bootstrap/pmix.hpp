// SPDX-License-Identifier: Apache-2.0
// The part of PMIx that a rank uses. Through PMIx, mpirun, srun and others tell each process its
// place in the job, and let the processes exchange data once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::engine {

// The text names the call and says what to do.
class PmixError : public Error {
 public:
  PmixError(const std::string& call, const std::string& why)
      : Error(call + ": " + why), call_(call) {}
  [[nodiscard]] const std::string& call() const noexcept { return call_; }

 private:
  std::string call_;
};

// Only one thread may use it. Each call throws PmixError if PMIx refuses it.
class Pmix {
 public:
  Pmix() = default;
  virtual ~Pmix() = default;
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  // PMIx_Init: returns the rank of this process. Call it first.
  [[nodiscard]] virtual std::uint32_t init() = 0;
  // PMIx_Get of a number about the job, or about this process; nothing if the launcher doesn't know
  // it.
  [[nodiscard]] virtual std::optional<std::uint32_t> number_of_job(const std::string& key) = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> number_of_process(const std::string& key) = 0;
  // PMIx_Put and PMIx_Commit: publishes the text; other ranks can get it after the next fence.
  virtual void put(const std::string& key, const std::string& text) = 0;
  // PMIx_Fence: returns true when all ranks of the job have called it, false if some have not in
  // time. After false only the destructor is of use.
  [[nodiscard]] virtual bool fence(std::uint32_t timeout_ms) = 0;
  // PMIx_Get of another rank's text; nothing if it did not come in time. Then, too, only the
  // destructor is of use.
  [[nodiscard]] virtual std::optional<std::string> get(std::uint32_t rank, const std::string& key,
                                                       std::uint32_t timeout_ms) = 0;
  // PMIx_Finalize: the launcher expects it from a process that ends in good order.
  virtual void finalize() noexcept = 0;
};

// Loads the library now. Neither Hawser nor its command depends on it otherwise. Throws PmixError
// if it is missing.
[[nodiscard]] std::unique_ptr<Pmix> load_pmix();

}  // namespace hawser::engine
