// SPDX-License-Identifier: Apache-2.0
// Repairs a verbs NIC, to the extent of its damage. Everything here may block. It runs in the
// helper's thread while the datapath touches none of the device's objects:
//
//   pairs    the queue pairs are reset: numbers and QKey stay
//   queues   they and the completion queues are made anew, with other numbers
//   device   the device is opened anew, and all that was made of it is made again
//
// First the repair takes all sends from the device. That may be all it can do for a while, for
// example while a port is down or a device is gone. A destroyed queue pair has released everything.
// Then it restores the rest by the port's present attributes. If the GID or LID has changed, the
// address handles are made anew.
#pragma once

#include <cstdint>

#include "engine/driver/verbs/verbs_destinations.hpp"
#include "engine/driver/verbs/verbs_port.hpp"
#include "engine/driver/verbs/verbs_queue.hpp"
#include "engine/driver/verbs/verbs_regions.hpp"
#include "engine/driver/verbs/verbs_resolver.hpp"

namespace hawser::engine {

// Each value includes the damage of those before it.
enum class VerbsDamage : std::uint8_t { none, pairs, queues, device };

class VerbsRepair {
 public:
  struct Parts {
    VerbsPort& port;
    VerbsRegions& regions;
    VerbsDestinations& destinations;
    VerbsResolver& resolver;
    VerbsCompletions& send_completions;
    VerbsQueue& data;
    VerbsQueue& control;
  };
  // `send_entries` is the size of the completion queue of sends. All parts outlive this.
  VerbsRepair(const Parts& parts, std::uint32_t send_entries);

  // Throws Error.
  [[nodiscard]] static VerbsCompletions make_send_completions(const VerbsPort& port,
                                                              std::uint32_t entries);

  // Takes all sends from the device. Returns false if the device refuses. It may find more damage.
  [[nodiscard]] bool take(VerbsDamage& damage);

  // Call it after take. not_yet: the device is not there, or the port can't be used. It may be
  // down, without a GID, or with too small an MTU.
  enum class Outcome : std::uint8_t { done, not_yet, refused };
  [[nodiscard]] Outcome restore(VerbsDamage damage);

  // Closes the device, as `restore` does before it reopens it.
  void drop_device();

  // True if the port is still as the NIC knows it. False also if the port is useless now.
  [[nodiscard]] bool is_as_known() const;
  [[nodiscard]] bool is_present() const { return is_listed(parts_.port); }
  [[nodiscard]] const VerbsPort& port() const { return parts_.port; }

 private:
  // Empties the completion queues. Returns false if one can't be polled.
  [[nodiscard]] bool discard();
  void release_queues();
  [[nodiscard]] bool renew_queues();
  [[nodiscard]] bool reopen_device();
  [[nodiscard]] bool adopt_facts();
  [[nodiscard]] bool is_usable(const VerbsPortFacts& facts) const;

  Parts parts_;
  std::uint32_t send_entries_;
  VerbsAddress::Link link_;  // fixed for the NIC's life, as is least_mtu_
  std::uint32_t least_mtu_;  // the MTU that the NIC has announced
};

}  // namespace hawser::engine
