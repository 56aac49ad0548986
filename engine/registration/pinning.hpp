// SPDX-License-Identifier: Apache-2.0
// One range of memory, pinned for every NIC of an endpoint that needs that.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "hawser/status.hpp"
#include "proto/endpoint.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// By the NIC's place among those that pin; null where there is nothing.
using Pins = std::array<proto::PinnedMemory*, proto::Endpoint::kMaxNics>;

class Pinning {
 public:
  // Of these NICs, which outlive this, those that pin memory.
  explicit Pinning(const std::vector<proto::Nic*>& nics);

  [[nodiscard]] bool empty() const { return nics_.empty(); }
  // Whether that is all of them.
  [[nodiscard]] bool has_all() const { return has_all_; }
  [[nodiscard]] std::size_t nics() const { return nics_.size(); }

  // Block; any thread. `pins` is empty before, and after a refusal.
  //   With every NIC, or with none: then `refuser` is the name of the one that refused.
  [[nodiscard]] Status pin_all(const proto::MemoryRange& range, Pins& pins,
                               std::string& refuser) const;
  //   With those that can; the last refusal if none can.
  [[nodiscard]] Status pin_some(const proto::MemoryRange& range, const proto::Mapping* mapping,
                                Pins& pins) const;
  void unpin(Pins& pins) const;

  // The datapath's, as in proto::Nic. A NIC without room for it goes on copying.
  void use(const Pins& pins) const;
  void forget(const Pins& pins) const;
  [[nodiscard]] bool is_reading(const Pins& pins) const;

 private:
  std::vector<proto::Nic*> nics_;
  bool has_all_;
};

}  // namespace hawser::engine
