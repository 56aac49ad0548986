/* SPDX-License-Identifier: Apache-2.0 */
/* A model of one-sided operations: an initiator A, an owner B, a fabric that loses, repeats and
 * reorders, and sessions that end at either end at any moment.
 *
 * The model has, with the names of docs/internals/protocol.md (§13):
 *   initiator   numbers, the repeated first fragment that asks, statuses, replies, strong order,
 *               what a completion says when the session has ended
 *   owner       numbers that are known, execution, the word from before that a reply keeps, the
 *               floor, replies that a NIC reads from the region, withdrawal, keys
 *   program     an operation that was not executed is posted again, until it has been
 *
 * The model abstracts from:
 *   - Paths and time, which failover.pml has. A packet is sent again whenever it pleases (SAFETY),
 *     or when nothing is under way (LIVE_COMPLETES).
 *   - The handshake, which sessions.pml has. One step makes both ends ready for a session with a
 *     number that no packet has had. An end that gives up doesn't tell the other one.
 *   - Bytes. An atomic adds 1 to a word. A read is a fetch of which only the reading counts. Writes
 *     of one fragment are atomics without a reply.
 *   - Lists of places. A place that is lacking is a loss.
 *
 * A world is a set of bounds (check.py names them). BUG_... compiles in a deliberate error, and
 * check.py demands that spin finds each of them.
 */
#define FETCH 1
#define READ 2
#define ADD 3
#define KIND(i) ((i) == 0 -> FIRST : SECOND)
#define AWAITS_REPLY(i) (KIND(i) != ADD)

mtype:packet = {OPERATION, STATUS, REPLY, WITHDRAWN_REPLY, REPLY_DONE};
mtype:phase = {NEW, HELD, UNSENT, SENT, ENDED};
mtype:result = {NONE, OK, REFUSED, WITHDRAWN, BEHIND_FAILURE, NOT_EXECUTED, EXECUTED, UNKNOWN};

/* Packets: type, session, operation, number, and
 *   OPERATION        floor, key       STATUS   1: delivered, 0: denied
 *   REPLY            note, value      WITHDRAWN_REPLY, REPLY_DONE   note */
chan there = [WIRE] of {mtype:packet, byte, byte, byte, byte, byte};
chan back = [WIRE] of {mtype:packet, byte, byte, byte, byte, byte};
byte losses = LOSSES, fails = FAILS, restarts = RESTARTS, withdrawals = WITHDRAWALS;

/* Sessions. 0: none. Both ends count from the session that was made last. */
byte session_of_a = 1, session_of_b = 1, newest = 1;
byte process = 1;  /* B's, which its keys name */
byte known = 1;    /* the process with which A is in a session */

/* A. */
mtype:phase phase[2] = NEW;
mtype:result result[2] = NONE;
byte number[2], note[2];
bit has_status[2], has_reply[2];
byte next_number, posts;

/* B. Its tables are of its session, by number. */
bit is_known[3], denied[3], replies[3];
byte kept[3];          /* the word from before */
byte operation_at[3], note_at[3];
byte remote_floor;
byte word;
bit exposed = 1, withdrawn; /* withdrawn: the program has its memory back */
bit nic[3];            /* a NIC holds a reply that reads from the region */

/* Only the checks use these. */
byte executed[2], before[2];

#define IS_OPEN(i) (phase[i] != NEW && phase[i] != ENDED)
#ifdef LIVE_COMPLETES
#define MAY_SEND (len(there) + len(back) == 0)
#define MAY_LOSE (losses > 0)
#define NOTE_LOSS losses--
#define MAY_REORDER false
#define NOTE_REORDER skip
#else
#define MAY_SEND true
#define MAY_LOSE true
#define NOTE_LOSS skip
#define MAY_REORDER true
#define NOTE_REORDER skip
#endif
/* The program has the key of B's first process. */
#ifdef BUG_KEYS_NAME_NO_PROCESS
#define KEY_IS_RIGHT true
#define KEY_IS_MINE true
#else
#define KEY_IS_RIGHT (known == 1)
#define KEY_IS_MINE (process == 1)
#endif
#define FORGET type = 0; session = 0; i = 0; n = 0; x = 0; y = 0

inline put(channel, kind, of_session, a, b, c, d) {
  if
  :: len(channel) == WIRE
  :: else -> channel!kind, of_session, a, b, c, d
  fi
}

/* ---- the owner ---- */

inline consider_withdrawn() {
  if
#ifdef BUG_WITHDRAWN_WITHOUT_REAP
  :: !exposed -> withdrawn = 1
#else
  :: !exposed && !nic[0] && !nic[1] && !nic[2] -> withdrawn = 1
#endif
  :: else
  fi
}



inline forget_session() {
  n = 0;
  do
  :: n < 3 ->
    is_known[n] = 0; denied[n] = 0; replies[n] = 0; kept[n] = 0; operation_at[n] = 0;
    note_at[n] = 0; n++
  :: else -> break
  od;
  n = 0;
  remote_floor = 0;
  consider_withdrawn()
}

inline on_floor(said) {
  if
  :: said > remote_floor ->
    remote_floor = said;
    n_floor = 0;
    do
    :: n_floor < remote_floor && n_floor < 3 -> is_known[n_floor] = 0; denied[n_floor] = 0; n_floor++
    :: else -> break
    od;
    n_floor = 0
  :: else
  fi
}

inline execute() {
  assert(exposed && process == 1);
  executed[i]++;
  assert(executed[i] == 1); /* at most once, whatever the sessions */
  assert(i == 0 || phase[0] == ENDED); /* the second one is strong */
  before[i] = word;
  word++
}

inline on_operation() {
  on_floor(x);
  if
  :: n < remote_floor -> skip /* below_floor */
  :: else ->
    if
#ifndef BUG_EXECUTE_AGAIN
    :: is_known[n]
#endif
    :: else ->
      is_known[n] = 1;
      if
      :: !exposed || !KEY_IS_MINE -> denied[n] = 1
      :: else ->
        kept[n] = word;
        execute();
        operation_at[n] = i; note_at[n] = y;
        replies[n] = AWAITS_REPLY(i)
      fi
    fi;
    put(back, STATUS, session_of_b, i, n, !denied[n], 0)
  fi
}

/* A reply leaves. That of a read goes through a NIC, which reads the region. */
inline send_reply(at) {
  if
  :: KIND(operation_at[at]) == READ && exposed -> nic[at] = 1
  :: KIND(operation_at[at]) == READ && !exposed ->
    put(back, WITHDRAWN_REPLY, session_of_b, operation_at[at], at, note_at[at], 0)
  :: else -> put(back, REPLY, session_of_b, operation_at[at], at, note_at[at], kept[at])
  fi
}

inline leave(at) {
  assert(!withdrawn); /* memory that the program has back is not read */
  nic[at] = 0;
  if
  :: session_of_b && replies[at] ->
    put(back, REPLY, session_of_b, operation_at[at], at, note_at[at], 0)
  :: else
  fi;
  consider_withdrawn()
}

/* The process dies and comes back. Its NICs' queues and its memory go with it. */
inline restart() {
  restarts--;
  process++;
  session_of_b = 0;
  nic[0] = 0; nic[1] = 0; nic[2] = 0;
  exposed = 1; withdrawn = 0; word = 0;
  forget_session()
}

#define MAY_REPLY(at) (MAY_SEND && session_of_b && replies[at] && !nic[at])

proctype Owner() {
  mtype:packet type;
  byte session, i, n, x, y, n_floor;
end:
  do
  :: d_step { len(there) > 0 ->
      there?type, session, i, n, x, y;
      if
      :: session != session_of_b || session == 0
      :: else ->
        if
        :: type == OPERATION -> on_operation()
        :: type == REPLY_DONE ->
          replies[n] = 0
#ifdef BUG_FORGOTTEN_WITH_THE_REPLY
          ; is_known[n] = 0
#endif
        fi
      fi;
      FORGET
    }
  :: d_step { MAY_REPLY(0) ->
      send_reply(0);
#ifdef BUG_REPLY_ONCE
      replies[0] = 0
#endif
    }
  :: d_step { MAY_REPLY(1) -> send_reply(1) }
  :: d_step { MAY_REPLY(2) -> send_reply(2) }
  :: d_step { nic[0] -> leave(0) }
  :: d_step { nic[1] -> leave(1) }
  :: d_step { nic[2] -> leave(2) }
  :: d_step { withdrawals > 0 && exposed -> withdrawals--; exposed = 0; consider_withdrawn() }
  :: d_step { restarts > 0 -> restart() }
  :: d_step { fails > 0 && session_of_b -> fails--; session_of_b = 0; forget_session() }
  od
}

/* ---- the initiator ---- */

inline number_it(o) {
  number[o] = next_number;
  next_number++;
  phase[o] = UNSENT
}

/* The lowest number without a final status. Fetches that have one wait for their replies. */
inline find_floor() {
  floor = next_number;
  o = 0;
  do
  :: o < 2 ->
    if
    :: (phase[o] == UNSENT || phase[o] == SENT) && !has_status[o] && number[o] < floor ->
      floor = number[o]
    :: else
    fi;
    o++
  :: else -> break
  od;
#ifdef BUG_FLOOR_OF_A_FETCH_TOO_HIGH
  floor = next_number;
#endif
  o = 0
}

inline release_strong() {
  if
  :: phase[1] == HELD && result[0] == OK -> number_it(1)
  :: phase[1] == HELD && result[0] != OK -> phase[1] = ENDED; result[1] = BEHIND_FAILURE
  :: else
  fi
}

inline end_operation(o, what) {
  assert(what != OK || executed[o] == 1);
  assert(what != OK || has_reply[o] || !AWAITS_REPLY(o));
  assert(what != REFUSED || executed[o] == 0);
  assert(what != NOT_EXECUTED || executed[o] == 0);
  assert(what != EXECUTED || executed[o] == 1);
  phase[o] = ENDED; result[o] = what; has_status[o] = 0;
  if
  :: o == 0 -> release_strong()
  :: else
  fi
}

/* The program posts, or posts again what was not executed. */
inline post(o) {
  posts++;
  note[o] = posts;
  result[o] = NONE;
  has_status[o] = 0;
  if
#ifndef BUG_STRONG_WAITS_FOR_NOTHING
  :: o == 1 && IS_OPEN(0) -> phase[1] = HELD
#endif
  :: else -> number_it(o)
  fi
}
#define MAY_POST(o) (session_of_a && KEY_IS_RIGHT && posts < MOST_POSTS && \
  ((o) == 0 || phase[0] != NEW) && \
  (phase[o] == NEW || (result[o] == NOT_EXECUTED && ((o) == 1 || phase[1] == NEW))))

inline send_operation(o) {
  find_floor();
  phase[o] = SENT;
  put(there, OPERATION, session_of_a, o, number[o], floor, note[o]);
  floor = 0
}

inline on_status() {
  if
  :: phase[i] == SENT && number[i] == n && x == 0 -> end_operation(i, REFUSED)
  :: phase[i] == SENT && number[i] == n && x == 1 ->
    has_status[i] = 1;
    if
#ifndef BUG_COMPLETE_AT_STATUS
    :: AWAITS_REPLY(i)
#endif
    :: else -> end_operation(i, OK)
    fi
  :: else
  fi
}

/* A reply ends the fetch that its note names. It is answered in any case. */
inline on_reply() {
  if
  :: (phase[i] == SENT && note[i] == x) ->
    if
    :: type == WITHDRAWN_REPLY -> end_operation(i, WITHDRAWN)
    :: else ->
      assert(KIND(i) != FETCH || y == before[i]);
      has_reply[i] = 1;
      end_operation(i, OK)
    fi
  :: else
  fi;
  put(there, REPLY_DONE, session_of_a, i, n, 0, 0)
}

inline fail_session() {
  o = 0;
  do
  :: o < 2 ->
    if
    :: phase[o] == SENT && has_status[o] -> end_operation(o, EXECUTED)
#ifndef BUG_SENT_COUNTS_AS_UNSENT
    :: phase[o] == SENT && !has_status[o] -> end_operation(o, UNKNOWN)
#else
    :: phase[o] == SENT && !has_status[o] -> end_operation(o, NOT_EXECUTED)
#endif
    :: phase[o] == UNSENT || phase[o] == HELD -> end_operation(o, NOT_EXECUTED)
    :: else
    fi;
    o++
  :: else -> break
  od;
  o = 0;
  session_of_a = 0
}

/* Both ends become ready for a new session. */
inline connect() {
  newest++;
  session_of_a = newest; session_of_b = newest;
  known = process;
  next_number = 0;
  forget_session()
}

proctype Initiator() {
  mtype:packet type;
  byte session, i, n, x, y, o, floor;
end:
  do
  :: d_step { MAY_POST(0) -> post(0) }
  :: d_step { MAY_POST(1) -> post(1) }
  :: d_step { MAY_SEND && (phase[0] == UNSENT || (phase[0] == SENT && !has_status[0])) -> send_operation(0) }
  :: d_step { MAY_SEND && (phase[1] == UNSENT || (phase[1] == SENT && !has_status[1])) -> send_operation(1) }
  :: d_step { len(back) > 0 ->
      back?type, session, i, n, x, y;
      if
      :: session != session_of_a || session == 0
      :: else ->
        if
        :: type == STATUS -> on_status()
        :: type == REPLY || type == WITHDRAWN_REPLY -> on_reply()
        fi
      fi;
      FORGET
    }
  :: d_step { fails > 0 && session_of_a -> fails--; fail_session() }
  /* The other end's silence. */
  :: d_step { session_of_a && session_of_b != session_of_a -> fail_session() }
  :: d_step { !session_of_a && newest < MOST_SESSIONS -> connect() }
  od
}

/* ---- the fabric ---- */

proctype Fabric() {
  mtype:packet type;
  byte session, i, n, x, y;
end:
  do
  :: d_step { MAY_LOSE && len(there) > 0 -> NOTE_LOSS; there??type, session, i, n, x, y; FORGET }
  :: d_step { MAY_LOSE && len(back) > 0 -> NOTE_LOSS; back??type, session, i, n, x, y; FORGET }
  :: d_step { MAY_REORDER && len(there) > 1 ->
      NOTE_REORDER; there?type, session, i, n, x, y; there!type, session, i, n, x, y; FORGET }
  :: d_step { MAY_REORDER && len(back) > 1 ->
      NOTE_REORDER; back?type, session, i, n, x, y; back!type, session, i, n, x, y; FORGET }
#ifdef WITNESS
  :: d_step { WITNESS -> assert(false) } /* not an error: check.py demands that it is reached */
#endif
  od
}

init {
  atomic { run Initiator(); run Owner(); run Fabric() }
}

#ifdef LIVE_COMPLETES
ltl completes { <> (result[0] == OK && result[1] == OK) }
#endif
