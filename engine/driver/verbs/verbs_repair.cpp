// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_repair.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/driver/verbs/verbs_locking.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

// True if address handles made for `a` are valid for `b`.
bool same_place(const VerbsPortFacts& a, const VerbsPortFacts& b) {
  return a.lid == b.lid && a.gid.index == b.gid.index && a.gid.gid == b.gid.gid;
}

}  // namespace

VerbsRepair::VerbsRepair(const Parts& parts, std::uint32_t send_entries)
    : parts_(parts),
      send_entries_(send_entries),
      link_(parts.port.facts.link),
      least_mtu_(parts.port.facts.mtu_bytes) {}

VerbsCompletions VerbsRepair::make_send_completions(const VerbsPort& port, std::uint32_t entries) {
  VerbsCompletions queue(port, entries, nullptr);
  if (queue) return queue;
  throw Error(port.name + ": a completion queue of " + std::to_string(entries) +
              " entries can't be created: " + reason_of_refusal(errno));
}

bool VerbsRepair::take(VerbsDamage& damage) {
  if (damage == VerbsDamage::pairs) {
    if (!parts_.data.reset() || !parts_.control.reset()) return false;
    // Leftover completions would be taken for those of later requests.
    if (discard()) return true;
    damage = VerbsDamage::queues;
  }
  release_queues();
  return true;
}

bool VerbsRepair::discard() {
  return parts_.send_completions.discard() && parts_.data.discard() && parts_.control.discard();
}

VerbsRepair::Outcome VerbsRepair::restore(VerbsDamage damage) {
  const bool known = damage == VerbsDamage::device ? reopen_device() : adopt_facts();
  if (!known) return Outcome::not_yet;
  if (damage >= VerbsDamage::queues && !renew_queues()) return Outcome::refused;
  if (!parts_.data.make_ready() || !parts_.control.make_ready()) {
    // A half-repaired NIC can't be repaired again, so undo it.
    if (damage >= VerbsDamage::queues) {
      release_queues();
    } else {
      (void)(parts_.data.reset() && parts_.control.reset());
    }
    return Outcome::refused;
  }
  return Outcome::done;
}

bool VerbsRepair::is_as_known() const {
  try {
    const VerbsPortFacts facts = read_verbs_port(parts_.port);
    return same_place(facts, parts_.port.facts) && facts.pkey == parts_.port.facts.pkey &&
           is_usable(facts);
  } catch (const Error&) {
    return false;
  }
}

bool VerbsRepair::is_usable(const VerbsPortFacts& facts) const {
  return facts.link == link_ && facts.mtu_bytes >= least_mtu_;
}

void VerbsRepair::release_queues() {
  parts_.data.release();
  parts_.control.release();
  parts_.send_completions.reset();
}

bool VerbsRepair::renew_queues() {
  try {
    parts_.send_completions = make_send_completions(parts_.port, send_entries_);
    parts_.data.renew(parts_.send_completions.get());
    parts_.control.renew(parts_.send_completions.get());
    if (discard()) return true;  // they are empty, but must prove that they can be polled
  } catch (const Error&) {
    // A refusal, too.
  }
  release_queues();
  return false;
}

bool VerbsRepair::adopt_facts() {
  VerbsPortFacts facts;
  try {
    facts = read_verbs_port(parts_.port);
  } catch (const Error&) {
    return false;
  }
  if (!is_usable(facts)) return false;
  VerbsPortFacts& known = parts_.port.facts;
  if (!same_place(facts, known)) {
    parts_.resolver.pause();  // waits for pending handles, since their threads read the GID's index
    parts_.destinations.drop_handles();
    known.gid = facts.gid;
    known.lid = facts.lid;
    parts_.resolver.resume();
  }
  known.pkey = facts.pkey;
  return true;
}

void VerbsRepair::drop_device() {
  release_queues();
  parts_.resolver.pause();
  parts_.destinations.drop_handles();
  parts_.regions.drop();
  parts_.port.domain.reset();
  parts_.port.context.reset();
}

bool VerbsRepair::reopen_device() {
  drop_device();
  const VerbsPortFacts before = parts_.port.facts;
  try {
    reopen_verbs_port(parts_.port);
  } catch (const Error&) {
    return false;
  }
  if (!is_usable(parts_.port.facts) || !parts_.regions.renew(parts_.port.domain.get())) {
    parts_.regions.drop();
    parts_.port.domain.reset();
    parts_.port.context.reset();
    parts_.port.facts = before;
    return false;
  }
  parts_.resolver.resume();
  return true;
}

}  // namespace hawser::engine
