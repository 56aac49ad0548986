/* SPDX-License-Identifier: Apache-2.0 */
/* A model of failover: two endpoints A and B, two paths, messages from A to B.
 *
 * The model has, with the names of the code (proto/) and of docs/internals/protocol.md:
 *   sender      a message is UNDER WAY, ASKING or DONE (§7); its fragments go over paths, are lost
 *               by the gap rule or by evacuation, and are sent again (transmit, path_acks, send.cpp)
 *   paths       UP, SUSPECT, DOWN, PROBING at A, with silence, evacuation, probes, PTO, and the
 *               driver's events (life_cycle.cpp, §10)
 *   receiver    a fragment's claim, finished entries, the floor, statuses (arrivals.cpp)
 *   sessions    IDLE, CALLING, ANSWERED, READY, FAILED at both ends, incarnations, HELLO, WELCOME,
 *               RESET, peer_timeout, a process that dies and comes back (handshake, session,
 *               failure, closing.cpp, §6 and §12)
 *   fabric      loss, duplication, delay, reordering between the paths; NICs that die and return;
 *               packets that wait in a NIC, which reads the sender's buffer when they leave
 *
 * The model abstracts from:
 *   - Time. With ANYTIME (safety) every timer may fire at any moment, every packet may be lost, and
 *     every path may be used or evacuated at any time, whatever its state. This covers all races of
 *     the paths and more, so paths have no states there. Without it (liveness) paths have states,
 *     there are LOSSES losses, and timers fire when nothing is in flight, except for EARLY of them.
 *     peer_timeout fires in TIMEOUTS cases at most: the model assumes that a living path brings a
 *     packet within it.
 *   - Path numbers. An acknowledgement names the copy. The acknowledgement of a probe is a gap
 *     for the data before it. One data packet is in flight on a path at a time. Path numbers don't
 *     filter old copies here, so the receiver meets more of them than in reality.
 *   - Messages go one way, and B answers on the packet's path. B's own path states, its layer-2
 *     requests, grants, congestion, matching and cancels are left out: they make things faster or
 *     are tested elsewhere (test/protocol). NO_ROOM and a lack of descriptors are REFUSALS: a
 *     packet arrives and is acknowledged, but its payload is not kept.
 *   - Tokens are numbers that an end never uses twice. MACs and sequences are against forgers, of
 *     which there are none here (handshake_fuzzer has them). A cookie is valid for the incarnation
 *     that it was given to.
 *   - Binding: both paths are bound, to different NICs of both ends, so there is nothing to bridge.
 *
 * This file has the state and the processes. messages.pml has the steps of messages and paths, and
 * sessions.pml those of sessions.
 *
 * A world is a set of bounds (check.py names them). BUG_... compiles in a deliberate error, and
 * check.py demands that spin finds each of them.
 */
/* Incarnations are 8 * epoch + counter of sessions; 0 is none. */
#define EPOCH(i) ((i) >> 3)
#define INCARNATIONS 16
#define FRAGMENT_COUNT (MESSAGES * FRAGMENTS)
#define ALL_FRAGMENTS ((1 << FRAGMENT_COUNT) - 1)
#define ALL_MESSAGES ((1 << MESSAGES) - 1)
#define MESSAGE_OF(k) ((k) / FRAGMENTS)
#define FRAGMENTS_OF(m) (((1 << FRAGMENTS) - 1) << ((m) * FRAGMENTS))
#define KEEP(set, what) set = (set) & (255 - (what))
#define PLUS(set, what) set = (set) | (what)

#define A 0
#define B 1
#define OTHER(e) (1 - (e))
#define PROBES_UNTIL_DOWN 2
#define PROBES_UNTIL_UP 2
#define ACK_NONE 0
#define ACK_PROBE 7 /* else fragment + 1 */

mtype:packet = {HELLO, WELCOME, CHALLENGE, RESET, DATA, PROBE, ENVELOPE, CONTROL};
mtype:session = {IDLE, CALLING, ANSWERED, READY, FAILED};
mtype:path = {UP, SUSPECT, DOWN, PROBING};

/* Packets: type, receiver's token (HELLO, WELCOME: the sender's), sender's incarnation (in other
 * packets only the checks use it), and
 *   HELLO, WELCOME  echo, cookie, -      DATA      fragment, -, floor
 *   ENVELOPE        messages, -, floor   CONTROL   acknowledged, finished, requested */
chan there[2] = [WIRE] of {mtype:packet, byte, byte, byte, byte, byte};
chan back[2] = [WIRE] of {mtype:packet, byte, byte, byte, byte, byte};
/* Sends that A's NICs have taken and not yet read: token, incarnation, fragment, floor. */
chan taken[2] = [QUEUE] of {byte, byte, byte, byte};

/* The fabric, and how many times each thing may go wrong. */
bit dead[2];
byte losses = LOSSES, dups = DUPS, deaths = DEATHS, refusals = REFUSALS, early = EARLY;
byte timeouts = TIMEOUTS, restarts = RESTARTS;

/* Sessions: state, own incarnation and token, those of the peer, the newest that was READY here. */
mtype:session state[2] = IDLE;
byte inc[2], token_of[2], remote[2], remote_token[2], verified[2];
bit cookie[2]; /* a CHALLENGE of our HELLO has come, so we can prove that we are here now */

/* A, the sender. */
mtype:path path[2] = UP;
byte in_flight[2];   /* fragment + 1 of the data packet in flight */
byte unanswered[2], answered[2];
bit probe_out[2], elsewhere[2]; /* elsewhere: the other path was acknowledged since */
byte to_send;        /* fragments that were never sent, or are queued for retransmission */
byte open;           /* messages without a final status */
byte completed;      /* ok, and the application knows it */
byte failed;         /* messages that ended with their session */
byte done;           /* final status ok, but a NIC may hold on to the buffer */
byte released;       /* messages whose buffer is the application's again */
byte unreaped[MESSAGES];

/* B, the receiver. */
byte arrived, finished, remote_floor;
byte parts[MESSAGES]; /* fragments counted, for the errors that don't look at `arrived` */
/* The messages that the application has, by A's incarnation; only the checks use it. */
byte delivered[INCARNATIONS];
bit ended; /* a session failed, in worlds where ends don't call again */

#define BUSY(m) ((to_send & FRAGMENTS_OF(m)) != 0 || \
  (in_flight[0] && MESSAGE_OF(in_flight[0] - 1) == m) || \
  (in_flight[1] && MESSAGE_OF(in_flight[1] - 1) == m))
#define OPEN(m) ((open >> (m)) & 1)
#define ASKING(m) (OPEN(m) && !BUSY(m))
#ifdef ANYTIME
#define USABLE(p) true
#else
#define USABLE(p) (path[p] == UP || (path[p] == SUSPECT && path[1 - (p)] != UP))
#endif
#define CAN_SEND(p) (state[A] == READY && to_send != 0 && USABLE(p) && in_flight[p] == 0 && \
  len(taken[p]) < QUEUE)
#define QUIET (len(there[0]) + len(there[1]) + len(back[0]) + len(back[1]) + len(taken[0]) + \
  len(taken[1]) == 0 && !CAN_SEND(0) && !CAN_SEND(1))
/* Whether both ends are in the same session. */
#define IN_SESSION(e) (state[e] == READY && state[OTHER(e)] == READY && \
  token_of[e] == remote_token[OTHER(e)] && token_of[OTHER(e)] == remote_token[e])

/* Puts a packet into the fabric. A full queue or a dead NIC drops it. All else that may happen to a
 * packet is a choice of the process Fabric and of the receiver. */
inline put(channel, p, kind, to, sender, a, b, c) {
  if
  :: dead[p] || len(channel) == WIRE
  :: else -> channel!kind, to, sender, a, b, c
  fi
}

inline say(e, p, kind, to, a, b, c) {
  if
  :: e == A -> put(there[p], p, kind, to, inc[e], a, b, c)
  :: else -> put(back[p], p, kind, to, inc[e], a, b, c)
  fi
}

#include "messages.pml"
#include "sessions.pml"

/* ---- processes; each step is part of a turn, and chooses who goes on and what goes wrong ---- */

#define FORGET token = 0; from = 0; x = 0; y = 0; z = 0; k = 0; m = 0; type = 0; use = 0

/* A packet arrives. If `again` is set, it stays to arrive once more. */
inline take(channel, again) {
  if
  :: again -> dups--; channel?<type, token, from, x, y, z>
  :: else -> channel?type, token, from, x, y, z
  fi
}

inline arrive_at_sender(p, again) {
  take(back[p], again);
  if
  :: dead[p]
  :: !dead[p] && (type == HELLO || type == WELCOME) -> on_session(A, p)
  :: !dead[p] && type == CHALLENGE -> on_challenge(A, p)
  :: else ->
    on_packet(A, p);
    if
    :: use && type == CONTROL -> on_control(p, x, y, z)
    :: else
    fi
  fi;
  FORGET
}

inline arrive_at_receiver(p, again, refused) {
  take(there[p], again);
  if
  :: dead[p]
  :: !dead[p] && (type == HELLO || type == WELCOME) -> on_session(B, p)
  :: !dead[p] && type == CHALLENGE -> on_challenge(B, p)
  :: else ->
    on_packet(B, p);
    if
    :: use && type == DATA ->
      on_floor(z);
      k = x; take_fragment(p, refused);
      say(B, p, CONTROL, remote_token[B], x + 1, finished, 0)
    :: use && type == PROBE -> say(B, p, CONTROL, remote_token[B], ACK_PROBE, finished, 0)
    :: use && type == ENVELOPE ->
      on_floor(z);
      find_missing();
      say(B, p, CONTROL, remote_token[B], ACK_NONE, finished, m)
    :: else
    fi
  fi;
  FORGET
}

inline transmit(p) {
  k = 0;
  do
  :: !((to_send >> k) & 1) -> k++
  :: else -> break
  od;
  KEEP(to_send, 1 << k);
  in_flight[p] = k + 1;
  unreaped[MESSAGE_OF(k)]++;
  find_floor();
#ifdef BUG_FLOOR_TOO_HIGH
  floor = MESSAGE_OF(k) + 1;
#endif
  taken[p]!remote_token[A], inc[A], k, floor;
  k = 0; floor = 0
}

proctype Sender() {
  byte token, from, x, y, z, k, m, floor;
  mtype:packet type;
  bit use;
end:
  do
  :: d_step { len(back[0]) > 0 -> arrive_at_sender(0, 0) }
  :: d_step { len(back[1]) > 0 -> arrive_at_sender(1, 0) }
  :: d_step { len(back[0]) > 0 && dups > 0 -> arrive_at_sender(0, 1) }
  :: d_step { len(back[1]) > 0 && dups > 0 -> arrive_at_sender(1, 1) }
  :: d_step { CAN_SEND(0) -> transmit(0) }
  :: d_step { CAN_SEND(1) -> transmit(1) }
  od
}

#define ARRIVED(p) (len(there[p]) > 0 && len(back[p]) < WIRE)

proctype Receiver() {
  byte token, from, x, y, z, k, m;
  mtype:packet type;
  bit use;
end:
  do
  :: d_step { ARRIVED(0) -> arrive_at_receiver(0, 0, 0) }
  :: d_step { ARRIVED(1) -> arrive_at_receiver(1, 0, 0) }
  :: d_step { ARRIVED(0) && dups > 0 -> arrive_at_receiver(0, 1, 0) }
  :: d_step { ARRIVED(1) && dups > 0 -> arrive_at_receiver(1, 1, 0) }
#if REFUSALS > 0
  :: d_step { ARRIVED(0) && refusals > 0 -> refusals--; arrive_at_receiver(0, 0, 1) }
  :: d_step { ARRIVED(1) && refusals > 0 -> refusals--; arrive_at_receiver(1, 0, 1) }
#endif
  od
}

/* An end calls, or calls again. After a failure it calls only if its application does. */
inline call_again(e) {
  if
  :: state[e] == IDLE || (state[e] == FAILED && RECONNECT) -> state[e] = CALLING; remote[e] = 0; remote_token[e] = 0; begin_session(e)
  :: else
  fi;
  if
  :: state[e] == CALLING || state[e] == ANSWERED ->
    say(e, 0, HELLO, token_of[e], remote_token[e], cookie[e], 0);
    say(e, 1, HELLO, token_of[e], remote_token[e], cookie[e], 0)
  :: else
  fi
}

/* B waits for messages, and now and then checks that A is still there. */
inline keepalive() {
  if
#ifndef BUG_NO_KEEPALIVE
  :: state[B] == READY ->
    say(B, 0, PROBE, remote_token[B], 0, 0, 0);
    say(B, 1, PROBE, remote_token[B], 0, 0, 0)
#endif
  :: else
  fi
}

#ifdef ANYTIME
#define IN_TIME true
#define NOTE_EARLY skip
#define LOSE true
#define NOTE_LOSS skip
#else
#define IN_TIME (early > 0)
#define NOTE_EARLY early--
#define LOSE (losses > 0)
#define NOTE_LOSS losses--
#endif

proctype Timers() {
  byte m, asks, floor;
end:
  do
#ifndef ANYTIME
  :: d_step {
      QUIET ->
#ifdef SESSIONS
      call_again(A); call_again(B); keepalive();
#endif
      if
      :: state[A] == READY -> expire_path(0); expire_path(1); ask_status()
      :: else
      fi
    }
#endif
  /* Packets that are late, but not lost. */
#ifdef ANYTIME
  :: d_step { in_flight[0] -> lose(0) }
  :: d_step { in_flight[1] -> lose(1) }
#else
  :: d_step { IN_TIME && path[0] == UP && in_flight[0] -> NOTE_EARLY; suspect(0) }
  :: d_step { IN_TIME && path[1] == UP && in_flight[1] -> NOTE_EARLY; suspect(1) }
  :: d_step { IN_TIME && state[A] == READY -> NOTE_EARLY; expire_path(0) }
  :: d_step { IN_TIME && state[A] == READY -> NOTE_EARLY; expire_path(1) }
#endif
  :: d_step { IN_TIME && state[A] == READY -> NOTE_EARLY; ask_status() }
#ifdef SESSIONS
  :: d_step { IN_TIME && state[A] != READY -> NOTE_EARLY; call_again(A) }
  :: d_step { IN_TIME && state[B] != READY -> NOTE_EARLY; call_again(B) }
  :: d_step { IN_TIME && state[B] == READY -> NOTE_EARLY; keepalive() }
#endif
  od
}

/* A NIC reads the fragment in place, and gives it back. */
inline leave(p) {
  taken[p]?token, from, k, floor;
  m = MESSAGE_OF(k);
  assert(!((released >> m) & 1)); /* a released buffer is not read */
  put(there[p], p, DATA, token, from, k, 0, floor);
  unreaped[m]--;
  consider_release(m);
  token = 0; from = 0; k = 0; floor = 0; m = 0
}

inline lose_one(channel) {
  NOTE_LOSS;
  channel?type, token, from, x, y, z;
  type = 0; token = 0; from = 0; x = 0; y = 0; z = 0
}

/* A's NIC dies, which its driver reports, or B's NIC, or the cable. */
inline die(p, told) {
  deaths--;
  dead[p] = 1;
  if
  :: told && path[p] != DOWN -> path_down(p)
  :: else
  fi
}

/* A process dies, its NICs' queues with it, and comes back as a new incarnation. */
inline restart(e) {
  restarts--;
  fail_peer(e);
  state[e] = IDLE; remote[e] = 0; remote_token[e] = 0; verified[e] = 0;
  inc[e] = (EPOCH(inc[e]) + 1) << 3;
  token_of[e] = inc[e];
  if
  :: e == A ->
    do
    :: len(taken[0]) > 0 -> taken[0]?token, from, k, floor
    :: len(taken[1]) > 0 -> taken[1]?token, from, k, floor
    :: else -> break
    od;
    do
    :: m < MESSAGES -> unreaped[m] = 0; m++
    :: else -> break
    od;
    released = ALL_MESSAGES
  :: else
  fi;
  token = 0; from = 0; k = 0; floor = 0; m = 0
}

proctype Fabric() {
  byte token, from, x, y, z, k, floor, m;
  mtype:packet type;
end:
  do
  :: d_step { len(taken[0]) > 0 -> leave(0) }
  :: d_step { len(taken[1]) > 0 -> leave(1) }
  :: d_step { LOSE && len(there[0]) > 0 -> lose_one(there[0]) }
  :: d_step { LOSE && len(there[1]) > 0 -> lose_one(there[1]) }
  :: d_step { LOSE && len(back[0]) > 0 -> lose_one(back[0]) }
  :: d_step { LOSE && len(back[1]) > 0 -> lose_one(back[1]) }
#if DEATHS > 0
  :: d_step { deaths > 0 && !dead[0] && !(KEEP_ONE && dead[1]) -> die(0, 0) }
  :: d_step { deaths > 0 && !dead[1] && !(KEEP_ONE && dead[0]) -> die(1, 0) }
  :: d_step { deaths > 0 && !dead[0] && !(KEEP_ONE && dead[1]) && state[A] == READY -> die(0, 1) }
  :: d_step { deaths > 0 && !dead[1] && !(KEEP_ONE && dead[0]) && state[A] == READY -> die(1, 1) }
  :: d_step { dead[0] -> dead[0] = 0 }
  :: d_step { dead[1] -> dead[1] = 0 }
#endif
#if TIMEOUTS > 0
  :: d_step { timeouts > 0 && state[A] == READY && open -> timeouts--; fail_peer(A) }
  :: d_step { timeouts > 0 && state[B] == READY -> timeouts--; fail_peer(B) }
#endif
#ifdef WITNESS
  :: d_step { WITNESS -> assert(false) } /* not an error: check.py demands that it is reached */
#endif
#if RESTARTS > 0
  :: d_step { restarts > 0 && inc[A] > 0 -> restart(A) }
  :: d_step { restarts > 0 && inc[B] > 0 -> restart(B) }
#endif
  od
}

init {
  atomic {
    byte m;
    released = ALL_MESSAGES;
#ifndef SESSIONS
    inc[A] = 1; inc[B] = 1; remote[A] = 1; remote[B] = 1;
    token_of[A] = 1; token_of[B] = 1; remote_token[A] = 1; remote_token[B] = 1;
    become_ready(A); become_ready(B);
#endif
    run Sender(); run Receiver(); run Timers(); run Fabric()
  }
}

#ifdef LIVE_COMPLETES
/* Everything completes. */
ltl completes { <> (completed == ALL_MESSAGES) }
#endif
#ifdef LIVE_TOLD
/* A session that one end has given up ends at the other one too, if something is pending there. */
ltl told { [] ((ended -> <> (state[A] != READY || open == 0)) && (ended -> <> (state[B] != READY))) }
#endif
