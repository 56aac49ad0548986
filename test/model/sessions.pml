/* SPDX-License-Identifier: Apache-2.0 */
/* A part of failover.pml: sessions, at either end. */

/* ---- failure.cpp, session.cpp, handshake.cpp, closing.cpp ---- */

inline fail_peer(e) {
  state[e] = FAILED;
#if !RECONNECT
  ended = 1;
#endif
  if
  :: e == A ->
    PLUS(failed, open); open = 0; to_send = 0;
    in_flight[0] = 0; in_flight[1] = 0; elsewhere[0] = 0; elsewhere[1] = 0;
    path[0] = UP; path[1] = UP; probe_out[0] = 0; probe_out[1] = 0;
    unanswered[0] = 0; unanswered[1] = 0; answered[0] = 0; answered[1] = 0;
    m = 0;
    do
    :: m < MESSAGES ->
#ifdef BUG_FAILURE_RELEASES
      PLUS(released, failed);
#endif
      consider_release(m);
      m++
    :: else -> break
    od;
    m = 0
  :: else -> skip
  fi
}

inline draw_token(e) {
  token_of[e]++;
  cookie[e] = 0
}

inline begin_session(e) {
  assert((inc[e] & 7) < MOST_SESSIONS && (token_of[e] & 7) < 7); /* sessions without end */
  inc[e]++;
#ifdef BUG_OLD_TOKEN_AGAIN
  if
  :: token_of[e] == 0 -> token_of[e] = 1
  :: else
  fi
#else
  draw_token(e)
#endif
}

#define SAME_SESSION (remote[e] != 0 && from == remote[e] && token == remote_token[e])
#ifdef BUG_READY_WITHOUT_ECHO
#define ECHOES true
#else
#define ECHOES (state[e] != IDLE && x == token_of[e])
#endif
/* Whether a packet is newer than all that is known. Packets still in flight of an old session are
 * not, nor are those of an older incarnation. An echo of the own token proves a packet new. */
#ifdef BUG_OLD_HELLO
#define NEWER true
#else
#ifdef BUG_OLDER_INCARNATION_REPLACES
#define UNDOES false
#else
#define UNDOES (state[e] == ANSWERED && from < remote[e])
#endif
#ifdef BUG_ECHO_PROVES_NOTHING
#define NEWER (from > verified[e] && !UNDOES)
#else
#define NEWER (!UNDOES && (from > verified[e] || \
  (from == verified[e] && ECHOES && state[e] != READY)))
#endif
#endif

inline learn_session(e) {
  if
  :: state[e] == FAILED || state[e] == IDLE -> state[e] = IDLE; begin_session(e)
#ifndef BUG_TOKEN_KEPT_FOR_NEXT_INCARNATION
  /* The incarnation that was answered before may use the token. */
  :: state[e] == ANSWERED && from != remote[e] -> draw_token(e)
#endif
  :: else
  fi;
  remote[e] = from; remote_token[e] = token;
  if
  :: e == B -> arrived = 0; finished = 0; remote_floor = 0; m = 0;
    do
    :: m < MESSAGES -> parts[m] = 0; m++
    :: else -> break
    od;
    m = 0
  :: else
  fi
}

/* The application sends everything, except what a NIC still holds of an earlier session. */
inline become_ready(e) {
  state[e] = READY;
  verified[e] = remote[e];
  if
  :: e == A ->
    open = 0; done = 0; completed = 0; failed = 0; to_send = 0; m = 0;
    do
    :: m < MESSAGES ->
      if
      :: unreaped[m] == 0 -> send(m)
      :: else -> PLUS(failed, 1 << m)
      fi;
      m++
    :: else -> break
    od;
    m = 0
  :: else
  fi
}

#define MUST_PROVE (remote[e] != 0 || verified[e] != 0)

inline on_challenge(e, p) {
  if
  :: token == token_of[e] && (state[e] == CALLING || state[e] == ANSWERED) && !cookie[e] ->
    cookie[e] = 1;
    say(e, p, HELLO, token_of[e], remote_token[e], 1, 0)
  :: else
  fi
}

inline on_session(e, p) {
  if
  :: SAME_SESSION && state[e] == FAILED -> skip /* stale_session */
  :: !SAME_SESSION && (!NEWER || (type == WELCOME && !ECHOES)) -> skip /* stale_session */
  :: !SAME_SESSION && NEWER && type == HELLO && MUST_PROVE && !ECHOES && !y ->
    say(e, p, CHALLENGE, token, 0, 0, 0)
  :: else ->
    if
    :: !SAME_SESSION ->
      if
      :: state[e] == READY ->
        assert(!IN_SESSION(e)); /* no end loses a living session */
        fail_peer(e)
      :: else
      fi;
      learn_session(e)
    :: else
    fi;
    m = (state[e] == READY);
    if
    :: !m && ECHOES -> become_ready(e); m = 0
    :: !m && !ECHOES -> state[e] = ANSWERED
    :: else
    fi;
    if
    :: type == HELLO || !m -> say(e, p, WELCOME, token_of[e], remote_token[e], 0, 0)
    :: else
    fi;
    m = 0
  fi
}

/* Every packet of a session passes these checks. It should have this end's token. */
inline on_packet(e, p) {
  if
#ifndef BUG_NO_TOKEN_CHECK
  :: token != token_of[e] || state[e] == IDLE || state[e] == CALLING -> use = 0 /* wrong_token */
#endif
  :: else ->
    if
    :: state[e] == ANSWERED -> become_ready(e)
    :: else
    fi;
    use = (state[e] == READY);
    if
    :: type == RESET && use ->
      assert(!IN_SESSION(e)); /* a session fails for a reason */
      fail_peer(e); use = 0
    :: type != RESET && state[e] == FAILED ->
#ifndef BUG_NO_RESET
      say(e, p, RESET, remote_token[e], 0, 0, 0)
#else
      skip
#endif
    :: else
    fi
  fi;
  assert(!use || from == remote[e]) /* no packet of an old incarnation is used */
}
