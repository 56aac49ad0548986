// SPDX-License-Identifier: Apache-2.0
// One pass of the poll loop, and the timers. Each timer is armed in the file whose head comment
// names it. `Sessions::rearm` folds those of a peer and its paths into one deadline; messages have
// heaps of their own. expire_timers fires what is due. Four timers of a peer fire elsewhere:
// `due.at` in Outbox::send_due, `close_at` in progress_closing, `rest_at` in consider_rest, and
// `stall_at` in watch_progress.
//
// The first half of a pass reaps, takes NIC events, and receives from every NIC (control before
// data). The second half expires timers, sends urgent acknowledgements, data, and the
// acknowledgements that could not ride on data. Then it re-arms. An acknowledgement therefore
// leaves only after every NIC has been polled.
//
// If nothing is in flight, a one-packet message queued since the last turn goes out before all of
// that. It also carries the acknowledgements that the last turn left. A program that answers a
// message therefore does not wait for NICs that have nothing to read.
//
// Drain before you declare: a turn that begins more than late_wakeup after the requested time is
// late (Turn::is_late). It postpones the timers that expired meanwhile, once, until the rings have
// been read (Turn::postpones). A host may also stop in the middle of a turn. Then the second half
// of that turn is late, and so is the next turn, which reads what arrived meanwhile.
#include <utility>

#include "proto/endpoint/owners.hpp"

namespace hawser::proto {

namespace {
// A NIC that refused packets has room again soon, but raises no event for it.
constexpr Duration kBackpressureRetry = microseconds(50);
// A NIC raises no event either when it releases a send. Mostly another event of the send comes
// sooner.
constexpr Duration kReapRetry = milliseconds(2);

// Timers of each kind that a turn lets expire, as each costs up to a microsecond.
constexpr std::uint32_t kMostExpiries = 128;

// A turn stays short, whatever thousands of peers wait for at one moment: the others expire in the
// next turn, which is due at once.
void expire_timers(Owners& owners) {
  owners.sessions.expire(kMostExpiries);
  owners.outgoing.expire(kMostExpiries);
  owners.incoming.expire(kMostExpiries);
  if (owners.descriptors.judge_at() <= owners.turn.now()) owners.incoming.judge_full_store();
  owners.sessions.expire_news();
  if (owners.verdicts.at() <= owners.turn.now()) owners.path_judge.judge();
}

// Looks after the peers that this turn has touched: their liveness, rest, paths and deadline.
void settle_touched(Owners& owners) {
  while (!owners.touched.empty()) {
    Peer& peer = owners.peers.at(owners.touched.pop_front(owners.peers));
    owners.sessions.watch_liveness(peer);
    if (owners.sessions.consider_rest(peer)) continue;
    const auto since = owners.paths.tend(peer);
    if (since) owners.receive_paths.forget_idle(peer.paths, *since);
    owners.sessions.rearm(peer);
  }
}

// When the next turn is due, if no packet and no call comes.
Time next_turn(const Owners& owners, Time reap_at) {
  const Turn& turn = owners.turn;
  Time at = earlier(owners.sessions.next_timer(),
                    earlier(owners.outgoing.next_timer(), owners.incoming.next_timer()));
  at = earlier(at, owners.descriptors.judge_at());
  at = earlier(at, earlier(owners.verdicts.at(), reap_at));
  if (!owners.senders.empty()) at = earlier(at, owners.transmitter.more_at());
  const Time retry = turn.now() + kBackpressureRetry;
  const bool stuck = !owners.senders.empty() && !turn.has_progressed();
  if (turn.was_refused() || stuck) at = earlier(at, retry);
  // Work that is due and was refused waits for the retry too.
  if (turn.was_refused() && !turn.has_progressed()) at = later(at, retry);
  return at;
}

}  // namespace

void Endpoint::begin_turn(Time now) {
  Owners& owners = *owners_;
  Turn& turn = owners.turn;
  owners.transmitter.begin_turn(turn.begin(now));
  if (std::exchange(called_to_send_, false) && owners.paths.in_flight() == 0 && !turn.is_late() &&
      !owners.sessions.closed()) {
    owners.transmitter.transmit();
  }
  turn.look_into_rings();

  owners.sender.flush();  // packets sent by calls between turns
  owners.outgoing.reap(owners.nics);
  owners.sessions.take_nic_events();
  if (owners.sessions.closed()) return;  // only buffers that NICs hold are left
  owners.receiver.receive_all();
  owners.paths.judge_acks();
}

TurnResult Endpoint::finish_turn(Time now) {
  Owners& owners = *owners_;
  Turn& turn = owners.turn;
  owners.transmitter.begin_second_half(turn.begin_second_half(now));
  const Time reap_at = owners.outgoing.unreleased() > 0 ? turn.now() + kReapRetry : kNever;
  if (owners.sessions.closed()) return {.progressed = turn.has_progressed(), .wake_at = reap_at};
  expire_timers(owners);
  owners.incoming.give_grants();
  if (owners.allowance.pass(turn.now())) owners.incoming.watch_rings();
  owners.outbox.send_due(true);  // senders measure by these, so they must not queue behind data
  owners.transmitter.transmit();
  owners.outbox.send_due(false);
  owners.sessions.progress_closing();
  settle_touched(owners);
  owners.sender.flush();
  const TurnResult result{.progressed = turn.has_progressed(),
                          .wake_at = next_turn(owners, reap_at),
                          .warns = turn.warns()};
  turn.end(result.wake_at);
  return result;
}

}  // namespace hawser::proto
