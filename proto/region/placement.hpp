// SPDX-License-Identifier: Apache-2.0
// How the protocol reaches memory that peers write, read and compute on. Host memory is one kind of
// placement (host_placement.hpp). Another kind of memory has a class of its own.
//
// Calls come from the thread that turns the endpoint. Ranges were checked: they lie in one region.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hawser/one_sided.hpp"

namespace hawser::proto {

class Placement {
 public:
  // Copies bytes into the memory. `from` may be overwritten as soon as this returns.
  virtual void place(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  // All that was placed before becomes visible before all that is executed or told afterwards.
  virtual void make_visible() = 0;
  // Executes an operation on a naturally aligned word. `before` becomes the word as it was, with
  // upper bits of 0 if it is narrow. False: this memory can't do that, and nothing was done.
  [[nodiscard]] virtual bool execute(std::byte* word, const WordOperation& operation,
                                     std::uint64_t& before) = 0;
  // A naturally aligned store of so many bytes, and of any smaller power of two, is never torn.
  [[nodiscard]] virtual std::size_t granularity() const = 0;

 protected:
  ~Placement() = default;
};

}  // namespace hawser::proto
