// SPDX-License-Identifier: Apache-2.0
// Which path is silent: none of its packets arrived, though later ones on other paths did, and none
// lay in a ring of the peer (docs/internals/protocol.md §10). Judged after each turn that brought
// acknowledgements. A silent path is evacuated, and probed.
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"
#include "proto/path/gap_rule.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint64_t kSeveral = 4;  // packets that are silent together

// When several packets in flight on different lanes are overdue, judged by the path's own answer
// times. This counts once the path has delivered a window since it was bound: before that its own
// sender may be the one that fills it. A single packet says little, as its lane may be busy or lose
// it.
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

// The silence rule. A later turn of the peer must confirm what one turn shows. If nothing in flight
// would bring that acknowledgement, a probe on a working path does.
void Endpoint::Core::find_silence(Peer& peer) {
  if (turn.tunables.recovery_evacuate == 0) return;  // nobody would use the answer
  // When the oldest packet of a path is due. Packets that the receiver requested are in flight
  // elsewhere now. But they were the oldest here, and due when they were lost, and nothing of the
  // path has come since. Therefore they count, once the packets in flight are late as well.
  // Otherwise a dead path that always has younger packets to lose would be found only after three
  // rounds of requests.
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
