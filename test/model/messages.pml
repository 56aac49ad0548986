/* SPDX-License-Identifier: Apache-2.0 */
/* A part of failover.pml: messages at both ends, and the paths of their sender. */

/* ---- send.cpp: done and released are two facts ---- */

#ifdef BUG_RELEASE_WITHOUT_REAP
#define REAPED(m) true
#else
#define REAPED(m) (unreaped[m] == 0)
#endif

/* The application sends from a buffer that it owns. */
inline send(m) {
  KEEP(failed, 1 << m); KEEP(released, 1 << m);
  PLUS(open, 1 << m); PLUS(to_send, FRAGMENTS_OF(m))
}

/* A message is done and no NIC reads from it any more: it is released and completes with ok. */
inline consider_release(m) {
  if
  :: ((done >> m) & 1) && !((completed >> m) & 1) && REAPED(m) ->
    PLUS(released, 1 << m);
    PLUS(completed, 1 << m)
  :: ((failed >> m) & 1) && unreaped[m] == 0 ->
    PLUS(released, 1 << m);
    if
    :: state[A] == READY -> send(m) /* a message of a later session, which waited for this */
    :: else
    fi
  :: else
  fi
}

inline finish_send(m) {
  if
  :: OPEN(m) ->
    assert((delivered[inc[A]] >> m) & 1); /* ok implies delivered */
    KEEP(open, 1 << m); PLUS(done, 1 << m);
    KEEP(to_send, FRAGMENTS_OF(m));
    consider_release(m)
  :: else
  fi
}

/* The lowest message number whose final status A lacks. */
inline find_floor() {
  floor = 0;
  do
  :: floor < MESSAGES && !OPEN(floor) -> floor++
  :: else -> break
  od
}

/* ---- path_acks.cpp, life_cycle.cpp ---- */

/* The packet in flight there is lost, and queued for retransmission. */
inline lose(p) {
  if
  :: in_flight[p] ->
    if
    :: OPEN(MESSAGE_OF(in_flight[p] - 1)) -> PLUS(to_send, 1 << (in_flight[p] - 1))
    :: else
    fi;
    in_flight[p] = 0
  :: else
  fi;
  elsewhere[p] = 0
}

inline probe(p) {
  say(A, p, PROBE, remote_token[A], 0, 0, 0);
  probe_out[p] = 1
}

inline suspect(p) {
  path[p] = SUSPECT; unanswered[p] = 0;
  lose(p);
  probe(p)
}

inline path_down(p) {
  path[p] = DOWN; unanswered[p] = 0; answered[p] = 0; probe_out[p] = 0;
#ifndef BUG_DOWN_WITHOUT_EVACUATION
  lose(p)
#endif
}

inline path_heard(p, full_probe) {
  unanswered[p] = 0; probe_out[p] = 0;
  if
  :: path[p] == SUSPECT -> path[p] = UP
  :: path[p] == DOWN -> path[p] = PROBING; answered[p] = full_probe
  :: path[p] == PROBING && full_probe ->
    answered[p]++;
    if
    :: answered[p] >= PROBES_UNTIL_UP -> path[p] = UP; answered[p] = 0
    :: else
    fi
  :: else
  fi
}

inline on_path_ack(p, ack) {
  if
  :: in_flight[p] && ack == in_flight[p] -> in_flight[p] = 0; elsewhere[p] = 0
#ifndef ANYTIME
  :: in_flight[p] && ack == ACK_PROBE -> lose(p) /* a gap */
#endif
  :: else
  fi;
#ifdef BUG_COMPLETE_AT_PATH_ACK
  if
  :: ack != ACK_NONE && ack != ACK_PROBE -> finish_send(MESSAGE_OF(ack - 1))
  :: else
  fi;
#endif
#ifndef ANYTIME
  if
  :: ack != ACK_NONE ->
    if
    :: in_flight[1 - p] -> elsewhere[1 - p] = 1
    :: else
    fi;
    path_heard(p, (ack == ACK_PROBE))
  :: else
  fi
#endif
}

/* The timers of a path: PTO while something is in flight, `probe_at` in the other states. */
inline expire_path(p) {
  if
  :: path[p] == UP && in_flight[p] ->
#ifndef BUG_NO_PTO
    if
#ifndef BUG_NO_SILENCE_RULE
    :: elsewhere[p] && path[1 - p] == UP -> suspect(p)
#endif
    :: else ->
      say(A, p, PROBE, remote_token[A], 0, 0, 0);
      if
      :: path[1 - p] == UP -> say(A, 1 - p, PROBE, remote_token[A], 0, 0, 0)
      :: else
      fi
    fi
#else
    skip
#endif
  :: path[p] == SUSPECT ->
    unanswered[p] = unanswered[p] + probe_out[p];
    lose(p);
    if
    :: unanswered[p] >= PROBES_UNTIL_DOWN -> path_down(p)
    :: else -> probe(p)
    fi
  :: path[p] == DOWN ->
#ifndef BUG_DOWN_IS_NEVER_PROBED
    say(A, p, PROBE, remote_token[A], 0, 0, 0)
#else
    skip
#endif
  :: path[p] == PROBING && probe_out[p] -> path_down(p)
  :: path[p] == PROBING && !probe_out[p] -> probe(p)
  :: else
  fi
}

/* A message without a packet under way and without its status asks for it. */
inline ask_status() {
  asks = 0; m = 0;
  do
  :: m < MESSAGES ->
    if
    :: ASKING(m) -> PLUS(asks, 1 << m)
    :: else
    fi;
    m++
  :: else -> break
  od;
  m = 0;
#ifndef BUG_NEVER_ASK
  if
  :: asks ->
    find_floor();
    say(A, 0, ENVELOPE, remote_token[A], asks, 0, floor);
    say(A, 1, ENVELOPE, remote_token[A], asks, 0, floor)
  :: else
  fi;
#endif
  asks = 0; floor = 0
}

/* Handles statuses and requests. */
inline on_control(p, ack, ends, wanted) {
  m = 0;
  do
  :: m < MESSAGES ->
    if
    :: (ends >> m) & 1 -> finish_send(m)
    :: else
    fi;
    m++
  :: else -> break
  od;
  m = 0;
  on_path_ack(p, ack);
  k = 0;
  do
  :: k < FRAGMENT_COUNT ->
    if
    :: ((wanted >> k) & 1) && OPEN(MESSAGE_OF(k)) && in_flight[0] != k + 1 &&
       in_flight[1] != k + 1 -> PLUS(to_send, 1 << k)
    :: else
    fi;
    k++
  :: else -> break
  od;
  k = 0
}

/* ---- arrivals.cpp ---- */

inline on_floor(floor_said) {
  if
  :: floor_said > remote_floor ->
    remote_floor = floor_said;
    KEEP(finished, (1 << remote_floor) - 1);
    KEEP(arrived, (1 << (remote_floor * FRAGMENTS)) - 1)
  :: else
  fi
}

#ifdef BUG_BITMAP_PER_PATH
#define HERE (arrived | (arrived >> 4))
#else
#define HERE arrived
#endif
#ifdef BUG_NO_DUPLICATE_CHECK
#define DUPLICATE false
#define WHOLE(m) (parts[m] >= FRAGMENTS)
#else
#ifdef BUG_BITMAP_PER_PATH
/* Bits 0-3: the fragments that came over path 0; 4-7: those of path 1. */
#define DUPLICATE ((arrived >> (k + 4 * p)) & 1)
#define WHOLE(m) (parts[m] >= FRAGMENTS)
#else
#define DUPLICATE ((arrived >> k) & 1)
#define WHOLE(m) ((arrived & FRAGMENTS_OF(m)) == FRAGMENTS_OF(m))
#endif
#endif

inline deliver(m) {
  assert(!((delivered[remote[B]] >> m) & 1)); /* at most once */
  assert((HERE & FRAGMENTS_OF(m)) == FRAGMENTS_OF(m)); /* and whole */
  PLUS(delivered[remote[B]], 1 << m);
#ifndef BUG_FORGET_FINISHED
  PLUS(finished, 1 << m)
#else
  KEEP(arrived, FRAGMENTS_OF(m)); parts[m] = 0
#endif
}

inline take_fragment(p, refused) {
  m = MESSAGE_OF(k);
  if
#ifndef BUG_NO_FLOOR_CHECK
  :: m < remote_floor -> skip /* below_floor */
#endif
  :: else ->
    if
    :: (finished >> m) & 1 -> skip /* duplicate_fragment; its status is sent again */
    :: !((finished >> m) & 1) && DUPLICATE -> skip /* duplicate_fragment */
    :: else ->
      if
      :: refused /* no_room, no_descriptor */
      :: else ->
#ifdef BUG_BITMAP_PER_PATH
        PLUS(arrived, 1 << (k + 4 * p));
#else
        PLUS(arrived, 1 << k);
#endif
#if defined(BUG_NO_DUPLICATE_CHECK) || defined(BUG_BITMAP_PER_PATH)
        parts[m]++;
#endif
        if
        :: WHOLE(m) -> deliver(m)
        :: else
        fi
      fi
    fi
  fi;
  m = 0
}

/* Finds the missing fragments of the messages that are asked about. */
inline find_missing() {
  k = 0; m = 0;
  do
  :: k < FRAGMENT_COUNT ->
    if
    :: ((x >> MESSAGE_OF(k)) & 1) && !((finished >> MESSAGE_OF(k)) & 1) &&
       !((HERE >> k) & 1) && MESSAGE_OF(k) >= remote_floor -> PLUS(m, 1 << k)
    :: else
    fi;
    k++
  :: else -> break
  od
}
