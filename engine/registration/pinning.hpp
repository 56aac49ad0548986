// SPDX-License-Identifier: Apache-2.0
// Pins one range of memory for every NIC of an endpoint that needs it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "hawser/status.hpp"
#include "proto/endpoint.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// By the NIC's place among those that pin; null if the range is not pinned there.
using Pins = std::array<proto::PinnedMemory*, proto::Endpoint::kMaxNics>;

class Pinning {
 public:
  // Uses those of `nics` that pin memory. The NICs outlive this.
  explicit Pinning(const std::vector<proto::Nic*>& nics);

  [[nodiscard]] bool empty() const { return nics_.empty(); }
  // True if every NIC pins memory.
  [[nodiscard]] bool has_all() const { return has_all_; }
  [[nodiscard]] std::size_t nics() const { return nics_.size(); }

  // pin_all and pin_some block, and any thread may call them. `pins` must be empty before, and is
  // empty after a refusal. pin_all pins with every NIC, or with none: then `refuser` names the NIC
  // that refused.
  [[nodiscard]] Status pin_all(const proto::MemoryRange& range, Pins& pins,
                               std::string& refuser) const;
  // Pins with the NICs that can. Returns the last refusal if none can.
  [[nodiscard]] Status pin_some(const proto::MemoryRange& range, const proto::Mapping* mapping,
                                Pins& pins) const;
  void unpin(Pins& pins) const;

  // For the datapath, as in proto::Nic. A NIC without room for the range goes on copying.
  void use(const Pins& pins) const;
  void forget(const Pins& pins) const;
  [[nodiscard]] bool is_reading(const Pins& pins) const;

 private:
  std::vector<proto::Nic*> nics_;
  bool has_all_;
};

}  // namespace hawser::engine
