// SPDX-License-Identifier: Apache-2.0
// Which path is silent: nothing of it has come, though what was sent over others later has, and lay
// in no ring of the peer (docs/internals/protocol.md §10). Judged after each turn that brought
// acknowledgements; what is found is evacuated, and probed.
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"
#include "proto/path/gap_rule.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint64_t kSeveral = 4;  // packets that are silent together

// When several packets are due that are in flight on different ways of the path, which has brought
// back a window since it was bound: as soon as its answers are late by what they took. Of one
// packet that says little, as its way may be busy or lose it, and before that the path's own sender
// may be who fills it.
template <class Core>
Time several_due(Core& core, Path& path) {
  const LocalNic& nic = core.nics[path.local_nic];
  if (nic.lanes < kSeveral || path.delivered_bytes < path.window.bytes()) return kNever;
  std::uint64_t silent = 0;
  for (std::uint64_t n = path.oldest; n != path.sent.next(); ++n) {
    const SentPacket& record = path.sent.at(core.sent_blocks, n);
    if (record.state != SentPacket::State::in_flight || ++silent < kSeveral) continue;
    return record.departed + nic.reordering.several_overdue(path.response);
  }
  return kNever;
}

}  // namespace

// The silence rule. What one turn of the peer shows, a later one must confirm; if nothing is under
// way that would bring its acknowledgement, a probe on a path that works does.
void Endpoint::Core::find_silence(Peer& peer) {
  if (turn.tunables.recovery_evacuate == 0) return;  // asked, nobody would take the answer
  // When the oldest packet of a path is due. What the receiver has asked for is in flight elsewhere
  // now, but it was the oldest here, and due when it was lost; nothing of the path has come since.
  // So that counts, once what is in flight is late as well: else a dead path that always has
  // something younger to lose would not be found out before three rounds of requests.
  const auto due_at = [&](Path& path) {
    const Time sent = path.sent.at(sent_blocks, path.oldest).departed;
    const Time due = earlier(sent + pto_base(path), several_due(*this, path));
    if (path.unheard == 0) return due;
    return earlier(due, later(path.unheard_at, sent + gap_patience(path.response)));
  };
  Path* doubted = nullptr;
  for_each_path(peer, [&](Path& path) {
    if (path.state != PathState::up || path.packets_in_flight == 0) return;
    path.advance_oldest(sent_blocks);
    if (path.any_acked && before(path.oldest, path.largest_acked)) return;  // a gap, not silence
    const Time due = due_at(path);
    if (due < peer.settled_sent) {
      ++turn.counters.evacuations;
      suspect(peer, path, Reason::silence);
    } else if (due < peer.newest_acked_sent) {
      doubted = &path;
    }
  });
  if (doubted != nullptr) ask_elsewhere(peer, *doubted);
}

}  // namespace hawser::proto
