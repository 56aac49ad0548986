// SPDX-License-Identifier: Apache-2.0
// Bringing a verbs NIC back, by as much as is damaged. Everything here may block, and runs in the
// helper's thread while the datapath touches none of the device's objects:
//
//   pairs    the queue pairs are reset: numbers and QKey stay
//   queues   they and the completion queues are made anew, with other numbers
//   device   the device is opened anew, and all that was made of it is made again
//
// First all sends are taken from the device, which may be all that can be done for a while: a port
// is down, a device has gone. A queue pair that is destroyed has let go of everything. Then, by
// what the port says now, the rest; its GID or LID may be another one, and then the address
// handles are, too.
#pragma once

#include <cstdint>

#include "engine/driver/verbs/verbs_destinations.hpp"
#include "engine/driver/verbs/verbs_port.hpp"
#include "engine/driver/verbs/verbs_queue.hpp"
#include "engine/driver/verbs/verbs_regions.hpp"
#include "engine/driver/verbs/verbs_resolver.hpp"

namespace hawser::engine {

enum class VerbsDamage : std::uint8_t { none, pairs, queues, device };  // each has those before

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
  // `send_entries`: of the completion queue of sends. All parts outlive this.
  VerbsRepair(const Parts& parts, std::uint32_t send_entries);

  // Throws Error.
  [[nodiscard]] static VerbsCompletions make_send_completions(const VerbsPort& port,
                                                              std::uint32_t entries);

  // False if the device refuses. More may be found to be damaged.
  [[nodiscard]] bool take(VerbsDamage& damage);

  // After take. not_yet: the port says why (is down, has no GID, has too small an MTU), or the
  // device is not there.
  enum class Outcome : std::uint8_t { done, not_yet, refused };
  [[nodiscard]] Outcome restore(VerbsDamage damage);

  // Closes the device, as `restore` does before it opens it anew.
  void drop_device();

  // Whether the port is still what the NIC takes it for; also false if it is of no use now.
  [[nodiscard]] bool is_as_known() const;
  [[nodiscard]] bool is_present() const { return is_listed(parts_.port); }
  [[nodiscard]] const VerbsPort& port() const { return parts_.port; }

 private:
  // Empties the completion queues. False if one refuses to be polled.
  [[nodiscard]] bool discard();
  void release_queues();
  [[nodiscard]] bool renew_queues();
  [[nodiscard]] bool reopen_device();
  [[nodiscard]] bool adopt_facts();
  [[nodiscard]] bool is_usable(const VerbsPortFacts& facts) const;

  Parts parts_;
  std::uint32_t send_entries_;
  VerbsAddress::Link link_;  // for the NIC's life, as are
  std::uint32_t least_mtu_;  // the MTU that it has told
};

}  // namespace hawser::engine
