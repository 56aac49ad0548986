// SPDX-License-Identifier: Apache-2.0
/* The public API for C, and for languages that call C: hawser/engine.hpp, function by function.
 *
 * hawser/engine.hpp and hawser/status.hpp say what each call does, which threads may make it, what
 * each status means and who owns a buffer when. hawser/types.hpp says what each field of a request
 * and of a completion means. Enumerators have the same numbers. Nothing throws.
 *
 * Pointers must not be NULL, except where a comment allows it, and except for 0 bytes or elements.
 * Results are written only with HAWSER_OK. `error` and `why`, if not NULL, get a sentence with any
 * other status, cut to their room with its terminating 0.
 *
 * Versions. A program passes the HAWSER_ABI_VERSION that it was compiled with to
 * hawser_engine_create, which refuses a version that this library does not offer. Within a version,
 * structs that a caller fills in may grow at their end: struct_size is the caller's sizeof, and
 * fields beyond it are 0. HAWSER_INVALID_ARGUMENT answers a struct_size of 0 or above the library's
 * own, and reserved bytes that are not 0. Structs that the library fills in never change.
 *
 * Cancellation (pthread_cancel). Only hawser_wait is a cancellation point, at its start and where
 * it blocks: the cancelled thread ends without a completion, and others can go on using the
 * endpoint. A thread whose cancellation type is asynchronous must not call any function here, as
 * with nearly all of POSIX.
 *
 * Stacks. docs/api.md has a table of the stack that the functions need.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAWSER_ABI_VERSION 3u

typedef struct hawser_engine hawser_engine;
typedef struct hawser_endpoint hawser_endpoint;

/* A peer. The low 16 bits are its place, below max_peers: see PeerId in hawser/types.hpp. */
typedef uint32_t hawser_peer;
#define HAWSER_PEER_PLACE(peer) ((peer)&0xffffu)
typedef uint64_t hawser_operation;
typedef uint64_t hawser_message; /* a claimed message */
typedef uint64_t hawser_registration;
typedef uint64_t hawser_region; /* exposed memory */

#define HAWSER_ANY_PEER UINT32_MAX
#define HAWSER_NO_OPERATION UINT64_MAX
#define HAWSER_NO_MESSAGE UINT64_MAX
#define HAWSER_NO_REGISTRATION UINT64_MAX
#define HAWSER_NO_REGION UINT64_MAX
#define HAWSER_MAX_MESSAGE_BYTES ((UINT64_C(1) << 40) - 1)
#define HAWSER_MOST_PIECES 8u /* of a message */
#define HAWSER_MAX_ADDRESS_BYTES 2048u

typedef uint8_t hawser_status;
enum {
  HAWSER_OK = 0,
  HAWSER_AGAIN,
  HAWSER_INVALID_ARGUMENT,
  HAWSER_UNKNOWN_PEER,
  HAWSER_UNKNOWN_OPERATION,
  HAWSER_TOO_LATE,
  HAWSER_TRUNCATED,
  HAWSER_CANCELLED,
  HAWSER_PEER_UNREACHABLE,
  HAWSER_PEER_TIMEOUT,
  HAWSER_PEER_RESTARTED,
  HAWSER_PEER_CLOSED,
  HAWSER_ENDPOINT_CLOSED,
  HAWSER_UNSUPPORTED,
  HAWSER_NIC_ERROR,
  HAWSER_STORE_FULL,
  HAWSER_IN_USE,
  HAWSER_OVERLAPPING,
  HAWSER_TOO_LARGE,
  HAWSER_LOCK_LIMIT,
  HAWSER_NO_ROUTE,
  HAWSER_PEER_FULL,
  HAWSER_ACCESS_DENIED,
  HAWSER_STALE_REGION,
  HAWSER_REGION_WITHDRAWN,
  HAWSER_MISALIGNED,
  HAWSER_PREDECESSOR_FAILED
};
/* "ok", "again", ...; "?" for other values. */
const char* hawser_status_name(hawser_status status);
/* 1 for the statuses that mean that the session with the peer is gone. */
int hawser_is_peer_failure(hawser_status status);

/* The event that completes a send. */
typedef uint8_t hawser_level;
enum {
  HAWSER_ACCEPTED =
      0,           /* all bytes are in the receiver's memory; a receive need not be posted yet */
  HAWSER_DELIVERED /* matched and placed in the receive's buffer (a synchronous send) */
};

typedef uint8_t hawser_collective;
enum {
  HAWSER_NO_COLLECTIVE = 0,
  HAWSER_ALL_REDUCE,
  HAWSER_REDUCE_SCATTER,
  HAWSER_ALL_GATHER,
  HAWSER_ALL_TO_ALL,
  HAWSER_BROADCAST,
  HAWSER_BARRIER
};

/* The caller's knowledge of the traffic pattern: hawser::Hint. It never changes what is delivered,
 * and its values are not checked. All 0: nothing is known. */
typedef struct hawser_hint {
  uint32_t group;
  uint16_t members;
  uint16_t step;
  uint16_t steps;
  hawser_collective collective;
  uint8_t priority;
} hawser_hint;

/* Who uses a channel. Each owner has a range; a channel outside it is HAWSER_INVALID_ARGUMENT. */
typedef uint8_t hawser_channel_owner;
enum {
  HAWSER_APPLICATION = 0, /* 0 to 0x7fff */
  HAWSER_COLLECTIVES,     /* 0x8000 to 0xbfff: the collective library */
  HAWSER_ADAPTER          /* 0xc000 to 0xffff: libfabric, NCCL */
};

/* For `ignore` of a request: any tag matches. */
#define HAWSER_ANY_TAG UINT64_MAX

/* Requests. Their fields mean what those of hawser/types.hpp do, and a field that is not named is
 * 0. Name `peer` always: 0 is a peer like any other.
 *
 *   hawser_send_request request = {.struct_size = sizeof request, .peer = peer, .tag = 42,
 *                                  .data = data, .bytes = bytes};
 *   status = hawser_send(endpoint, &request, &operation);
 */
typedef struct hawser_piece {
  void* data;
  uint64_t bytes;
} hawser_piece;

typedef struct hawser_send_request {
  size_t struct_size;
  const void* data;
  uint64_t bytes; /* at most HAWSER_MAX_MESSAGE_BYTES */
  uint64_t tag;
  uint64_t immediate; /* travels with the message to the receive's completion */
  uint64_t user_data; /* returned in this side's completion, not sent */
  hawser_hint hint;
  hawser_peer peer; /* the receiver: never HAWSER_ANY_PEER */
  uint16_t channel;
  hawser_level level; /* any other value than the two is HAWSER_INVALID_ARGUMENT */
  hawser_channel_owner owner;
  uint8_t reserved[4];        /* 0 */
  const hawser_piece* pieces; /* instead of `data` and `bytes`; the call copies the list */
  size_t piece_count;         /* 0: there is no list */
} hawser_send_request;

typedef struct hawser_receive_request {
  size_t struct_size;
  void* data;
  uint64_t bytes;
  uint64_t tag;
  uint64_t ignore; /* bits of the tag that don't count; 0: the whole tag counts */
  uint64_t user_data;
  hawser_hint hint;
  hawser_peer peer; /* or HAWSER_ANY_PEER */
  uint16_t channel;
  hawser_channel_owner owner;
  uint8_t reserved[5];        /* 0 */
  const hawser_piece* pieces; /* as in hawser_send_request */
  size_t piece_count;
} hawser_receive_request;

typedef struct hawser_probe_request {
  size_t struct_size;
  uint64_t tag;
  uint64_t ignore;
  hawser_peer peer; /* or HAWSER_ANY_PEER */
  uint16_t channel;
  hawser_channel_owner owner;
  uint8_t reserved[1]; /* 0 */
} hawser_probe_request;

typedef struct hawser_claimed_request {
  size_t struct_size;
  void* data;
  uint64_t bytes;
  uint64_t user_data;
  hawser_hint hint;
  uint8_t reserved[4];        /* 0 */
  const hawser_piece* pieces; /* as in hawser_send_request */
  size_t piece_count;
} hawser_claimed_request;

typedef uint8_t hawser_operation_kind;
enum {
  HAWSER_SEND = 0,
  HAWSER_RECEIVE,
  HAWSER_WRITE,
  HAWSER_READ,
  HAWSER_ATOMIC,
  HAWSER_FLUSH,
  HAWSER_WITHDRAW,
  HAWSER_NOTICE /* no operation: a peer's write was placed, and tells so */
};

typedef struct hawser_completion {
  hawser_operation operation;
  uint64_t user_data;
  uint64_t tag;
  uint64_t bytes; /* 0 if a receive or read failed, unless `truncated`; some may be written */
  uint64_t message_bytes;
  uint64_t immediate;
  hawser_peer peer;
  uint16_t channel;
  hawser_operation_kind kind;
  hawser_status status;
  uint8_t released; /* 0: a second completion will return the bytes */
  uint8_t outcome_unknown;
  uint8_t executed;
  uint8_t reserved[13];
} hawser_completion;

typedef struct hawser_envelope {
  uint64_t tag;
  uint64_t bytes;
  uint64_t immediate;
  hawser_peer peer;
  uint32_t reserved;
} hawser_envelope;

/* ---- engines ---- */

typedef struct hawser_tunable {
  const char* name;
  uint64_t value;
} hawser_tunable;

typedef struct hawser_engine_config {
  size_t struct_size;
  const char* const* nics; /* "udp:127.0.0.1", ..., or lists such as "if:eth0"; no NIC twice */
  size_t nic_count;
  const hawser_tunable* tunables; /* those that differ from their default */
  size_t tunable_count;
  const char* faults;          /* NULL: no fault layer */
  uint32_t threads;            /* engine threads; 0: inline progress */
  uint64_t ignore_environment; /* 1: HAWSER_<TUNABLE> variables don't override `tunables` */
} hawser_engine_config;

/* Opens an engine. End it with hawser_engine_destroy, after all its endpoints.
 *   HAWSER_OK: *engine is set.
 *   HAWSER_UNSUPPORTED: this library does not offer that ABI version.
 *   HAWSER_INVALID_ARGUMENT: the configuration is wrong.
 *   HAWSER_AGAIN: memory is short.
 *   HAWSER_NIC_ERROR: any other failure. */
hawser_status hawser_engine_create(uint32_t abi_version, const hawser_engine_config* config,
                                   hawser_engine** engine, char* error, size_t error_bytes);
void hawser_engine_destroy(hawser_engine* engine);
size_t hawser_engine_nic_count(const hawser_engine* engine);
hawser_status hawser_engine_inject_fault(hawser_engine* engine, size_t nic, const char* spec);

/* Checks the words of `spec` against docs/faults.md. It needs no engine, and therefore accepts a
 * word that a particular NIC can't do.
 *   HAWSER_OK: all words are right.
 *   HAWSER_INVALID_ARGUMENT: `error` is about the first wrong word. */
hawser_status hawser_check_faults(const char* spec, char* error, size_t error_bytes);

/* Reads row `i` of the table of tunables. Returns 0 if there is no such row. The strings are
 * static. Any of the pointers may be NULL. */
int hawser_tunable_row(size_t i, const char** name, const char** unit, const char** reason,
                       uint64_t* default_value, uint64_t* minimum, uint64_t* maximum);

/* ---- NICs of this host, addresses: hawser/nics.hpp, hawser/address.hpp ---- */

typedef struct hawser_host_nic {
  char name[128]; /* cut like device, with its terminating 0 */
  char device[64];
  uint64_t bits_per_second; /* 0: not known */
  uint32_t mtu;             /* 0: not known */
  uint8_t up;
  uint8_t loopback;
  uint8_t usable;        /* among the NICs to use together: hawser::usable_nics() */
  uint8_t address_state; /* 0: preferred; 1: deprecated; 2: tentative; 3: duplicate (RFC 4862) */
} hawser_host_nic;

/* Fills in the first `count` NICs of this host. Returns how many there are; 0 also if HAWSER_NICS
 * is set and chooses nothing, or memory is short. */
size_t hawser_host_nics(hawser_host_nic* nics, size_t count);

/* Writes the short form of `address` to `out`. Returns its length in bytes; 0 if `address` is not
 * an address or its first NIC doesn't fit. */
size_t hawser_shorten_address(const void* address, size_t bytes, void* out, size_t out_bytes);
/* Returns the id of the endpoint that the address names; 0 if it is not an address. */
uint64_t hawser_endpoint_id_of(const void* address, size_t bytes);
/* Describes the address, cut to `text_bytes` with its terminating 0. Returns the whole length. */
size_t hawser_describe_address(const void* address, size_t bytes, char* text, size_t text_bytes);

/* ---- endpoints ---- */

/* Tracing. hawser/trace.hpp says what the hook sees, and what it may do. */
typedef uint8_t hawser_trace_kind;
enum {
  HAWSER_TRACE_PACKET_SENT = 0,
  HAWSER_TRACE_PACKET_RETRANSMITTED,
  HAWSER_TRACE_PACKET_RECEIVED,
  HAWSER_TRACE_PACKET_DROPPED,
  HAWSER_TRACE_PACKET_ACKNOWLEDGED,
  HAWSER_TRACE_PACKET_LOST,
  HAWSER_TRACE_PACKET_LATE,
  HAWSER_TRACE_REQUEST_SENT,
  HAWSER_TRACE_REQUEST_RECEIVED,
  HAWSER_TRACE_GRANT_GIVEN,
  HAWSER_TRACE_GRANT_RECEIVED,
  HAWSER_TRACE_PTO,
  HAWSER_TRACE_PATH_PROBE,
  HAWSER_TRACE_MESSAGE_PROBE,
  HAWSER_TRACE_PATH_STATE,
  HAWSER_TRACE_SESSION_STATE,
  HAWSER_TRACE_MESSAGE_BEGUN,
  HAWSER_TRACE_MESSAGE_STATUS,
  HAWSER_TRACE_SEND_COMPLETED,
  HAWSER_TRACE_RECEIVE_COMPLETED
};
#define HAWSER_NO_TRACE_NUMBER UINT64_MAX
#define HAWSER_NO_TRACE_INDEX UINT32_MAX
#define HAWSER_NO_TRACE_NIC UINT8_MAX

typedef struct hawser_trace_record {
  uint64_t time_ns;
  uint64_t endpoint_id;
  uint64_t operation;
  uint64_t message;
  uint64_t path_number;
  uint32_t peer;
  uint32_t fragment;
  uint32_t bytes;
  uint32_t detail;
  hawser_trace_kind kind;
  uint8_t cause;
  uint8_t nic;
  uint8_t remote_nic;
  uint8_t slot;
  uint8_t generation;
  uint8_t more; /* of packets: messages in it after `message` */
  uint8_t reserved;
} hawser_trace_record;

typedef void (*hawser_trace_hook)(void* context, const hawser_trace_record* record);

/* "packet_sent", ..., and the name of a record's cause ("" if its kind has none). "?" for a value
 * that is not a kind. */
const char* hawser_trace_kind_name(hawser_trace_kind kind);
const char* hawser_trace_cause_name(hawser_trace_kind kind, uint8_t cause);

typedef struct hawser_endpoint_config {
  size_t struct_size;
  uint64_t endpoint_id;
  uint64_t epoch;
  const void* job_secret;
  size_t job_secret_bytes;
  hawser_trace_hook trace; /* NULL: no trace */
  void* trace_context;
  uint64_t inject_bytes; /* most bytes of hawser_inject, at most 65536; 0: the default, 256 */
} hawser_endpoint_config;

/* `config` may be NULL. Statuses and `error` are as for hawser_engine_create. */
hawser_status hawser_endpoint_create(hawser_engine* engine, const hawser_endpoint_config* config,
                                     hawser_endpoint** endpoint, char* error, size_t error_bytes);
/* Closes the endpoint first. */
void hawser_endpoint_destroy(hawser_endpoint* endpoint);

/* The address blob. The endpoint owns it. */
const void* hawser_endpoint_address(const hawser_endpoint* endpoint, size_t* bytes);
/* Names the endpoint with this address as a peer.
 *   HAWSER_OK: `peer` is set.
 *   HAWSER_AGAIN: max_peers are in use.
 *   HAWSER_INVALID_ARGUMENT: not an address, or this endpoint's own.
 *   HAWSER_NO_ROUTE: no NIC here can send to any NIC that the address names.
 *   HAWSER_ENDPOINT_CLOSED: this endpoint is closing. */
hawser_status hawser_connect(hawser_endpoint* endpoint, const void* address, size_t bytes,
                             hawser_peer* peer);
hawser_status hawser_disconnect(hawser_endpoint* endpoint, hawser_peer peer);
void hawser_close(hawser_endpoint* endpoint);

/* ---- messages; statuses and ownership are those of hawser/engine.hpp. A request that is NULL is
 * HAWSER_INVALID_ARGUMENT ---- */

hawser_status hawser_send(hawser_endpoint* endpoint, const hawser_send_request* request,
                          hawser_operation* operation);
/* For at most inject_bytes bytes. Only a send that failed has a completion, whose operation is
 * HAWSER_NO_OPERATION. */
hawser_status hawser_inject(hawser_endpoint* endpoint, const hawser_send_request* request);
hawser_status hawser_receive(hawser_endpoint* endpoint, const hawser_receive_request* request,
                             hawser_operation* operation);
hawser_status hawser_probe(hawser_endpoint* endpoint, const hawser_probe_request* request,
                           hawser_envelope* envelope);
hawser_status hawser_claim(hawser_endpoint* endpoint, const hawser_probe_request* request,
                           hawser_envelope* envelope, hawser_message* message);
hawser_status hawser_receive_claimed(hawser_endpoint* endpoint, hawser_message message,
                                     const hawser_claimed_request* request,
                                     hawser_operation* operation);
hawser_status hawser_put_back(hawser_endpoint* endpoint, hawser_message message);
hawser_status hawser_cancel(hawser_endpoint* endpoint, hawser_operation operation);
void hawser_flush(hawser_endpoint* endpoint);
size_t hawser_poll(hawser_endpoint* endpoint, hawser_completion* completions, size_t count);
size_t hawser_wait(hawser_endpoint* endpoint, hawser_completion* completions, size_t count,
                   uint64_t timeout_ns);
int hawser_fd(const hawser_endpoint* endpoint);

/* ---- registration of memory (docs/registration.md); `why` says what to do ---- */

/* A part of another device's memory: hawser::DmabufRange. Set `fd` always: 0 is a descriptor. */
typedef struct hawser_dmabuf_range {
  size_t struct_size;
  uint64_t offset;
  uint64_t bytes;
  const void* address;
  int fd;
  uint8_t reserved[4]; /* 0 */
} hawser_dmabuf_range;

hawser_status hawser_register_memory(hawser_endpoint* endpoint, const void* data, uint64_t bytes,
                                     hawser_registration* registration, char* why,
                                     size_t why_bytes);
hawser_status hawser_register_dmabuf(hawser_endpoint* endpoint, const hawser_dmabuf_range* range,
                                     hawser_registration* registration, char* why,
                                     size_t why_bytes);
hawser_status hawser_deregister_memory(hawser_endpoint* endpoint, hawser_registration registration,
                                       char* why, size_t why_bytes);
void hawser_release_memory(hawser_endpoint* endpoint, hawser_registration registration);

/* ---- looking inside; statuses: HAWSER_OK, or HAWSER_AGAIN where memory is short ---- */

/* One array holds the endpoint's counters, gauges, and drops by reason. Reads the name of the i-th
 * one and what it counts, both static strings. Returns 0 if there are fewer. Within an ABI version
 * their number may grow and a name's place may change: search for the name. */
int hawser_stat_row(size_t i, const char** name, const char** text);
/* Fills in the first `count` values. */
hawser_status hawser_stats(const hawser_endpoint* endpoint, uint64_t* values, size_t count);

typedef uint8_t hawser_path_state;
enum { HAWSER_PATH_UP = 0, HAWSER_PATH_SUSPECT, HAWSER_PATH_DOWN, HAWSER_PATH_PROBING };

typedef struct hawser_nic_stats {
  char name[64]; /* cut, with its terminating 0 */
  uint64_t packets_sent;
  uint64_t data_packets_sent;
  uint64_t bytes_sent;
  uint64_t packets_received;
  uint64_t bytes_received;
  uint64_t packets_lost;
  uint64_t retransmits;
  uint64_t overruns;
  uint64_t srtt_ns;
  uint64_t window_bytes;
  uint64_t bytes_in_flight;
  hawser_path_state state;
  uint8_t reserved[7];
} hawser_nic_stats;

/* Fills in up to `*count` NICs, then sets `*count` to how many there are. */
hawser_status hawser_endpoint_nic_stats(const hawser_endpoint* endpoint, hawser_nic_stats* nics,
                                        size_t* count);

typedef struct hawser_path_stats {
  uint64_t srtt_ns;
  uint64_t rttvar_ns;
  uint64_t min_fabric_delay_ns;
  uint64_t delivered_bytes;
  uint64_t window_bytes;
  uint64_t bytes_in_flight;
  uint64_t packets_sent;
  uint64_t packets_lost;
  uint8_t slot;
  uint8_t generation;
  uint8_t local_nic;
  uint8_t remote_nic;
  hawser_path_state state;
  uint8_t reserved[3];
} hawser_path_stats;

typedef struct hawser_peer_stats {
  uint64_t endpoint_id;
  uint64_t sends_pending;
  uint64_t last_heard_ns_ago;
  uint8_t established;
  hawser_status failure;
  uint8_t at_rest;         /* long quiet: it has no paths until it is woken */
  uint8_t failure_reason;  /* a hawser_reason: why it failed; hawser_reason_text has a sentence */
  uint32_t fragment_bytes; /* payload of a full packet, as the ways carry it now; 0: no session */
  uint32_t session_bytes;  /* the most that it may be in this session */
} hawser_peer_stats;

/* The same for the paths of one peer; may also return HAWSER_UNKNOWN_PEER. */
hawser_status hawser_endpoint_peer_stats(const hawser_endpoint* endpoint, hawser_peer peer,
                                         hawser_peer_stats* stats, hawser_path_stats* paths,
                                         size_t* count);

typedef uint8_t hawser_event_kind;
enum {
  HAWSER_NIC_DOWN = 0,
  HAWSER_NIC_UP,
  HAWSER_PATH_DOWN_EVENT,
  HAWSER_PATH_UP_EVENT,
  HAWSER_PEER_ESTABLISHED,
  HAWSER_PEER_FAILED,
  HAWSER_NIC_MOVED,
  HAWSER_PATH_SUSPECT_EVENT,
  HAWSER_PATH_PROBING_EVENT,
  HAWSER_PEER_CALLING,
  HAWSER_VERDICT_REACHED,
  HAWSER_VERDICT_WITHDRAWN,
  HAWSER_OPERATION_STALLED,
  HAWSER_PEER_REFUSED
};

typedef uint8_t hawser_reason;
enum {
  HAWSER_REASON_NONE = 0,
  HAWSER_REASON_DRIVER,
  HAWSER_REASON_PEER_SAID,
  HAWSER_REASON_MOVED,
  HAWSER_REASON_SILENCE,
  HAWSER_REASON_REQUESTS,
  HAWSER_REASON_PROBE_TIMEOUTS,
  HAWSER_REASON_ONLY_SMALL,
  HAWSER_REASON_UNANSWERED,
  HAWSER_REASON_ANSWERED,
  HAWSER_REASON_PROVEN,
  HAWSER_REASON_ASKED,
  HAWSER_REASON_HANDSHAKE,
  HAWSER_REASON_STATUS,
  HAWSER_REASON_WITNESSES,
  HAWSER_REASON_WORKS_AGAIN,
  HAWSER_REASON_WIDER_VERDICT,
  HAWSER_REASON_SESSION_ENDED,
  HAWSER_REASON_NO_WAY,
  HAWSER_REASON_AWAITS_PATH,
  HAWSER_REASON_AWAITS_ANSWER,
  HAWSER_REASON_AWAITS_FRAGMENTS,
  HAWSER_REASON_AWAITS_MESSAGE,
  HAWSER_REASON_NO_PLACE,
  HAWSER_REASON_NEVER_HEARD,
  HAWSER_REASON_UNHEARD,
  HAWSER_REASON_ONE_WAY,
  HAWSER_REASON_NICS_DOWN,
  HAWSER_REASON_STALE_EPOCH,
  HAWSER_REASON_GAVE_UP
};
/* "nic_down", "driver" and a sentence, ...; "?" for other values. The strings are static. */
const char* hawser_event_name(hawser_event_kind kind);
const char* hawser_reason_name(hawser_reason reason);
const char* hawser_reason_text(hawser_reason reason);

typedef uint8_t hawser_blame;
enum {
  HAWSER_BLAME_NOBODY = 0,
  HAWSER_BLAME_LOCAL_NIC,
  HAWSER_BLAME_REMOTE_NIC,
  HAWSER_BLAME_LINK
};

typedef struct hawser_event {
  uint64_t endpoint_id;
  uint64_t time_ns;
  uint64_t number; /* from 0; a gap shows that events were lost */
  hawser_peer peer;
  hawser_event_kind kind;
  hawser_reason reason;
  hawser_status status;
  hawser_blame blame;
  uint8_t nic;
  uint8_t remote_nic;
  uint8_t reserved[6];
} hawser_event;

size_t hawser_poll_events(hawser_endpoint* endpoint, hawser_event* events, size_t count);

typedef struct hawser_verdict {
  uint64_t endpoint_id;
  uint64_t since_ns;
  hawser_peer peer;
  hawser_blame blame;
  hawser_reason reason;
  uint8_t nic;
  uint8_t remote_nic;
} hawser_verdict;

/* Fills in up to `*count` of the verdicts that stand, then sets `*count` to how many there are. */
hawser_status hawser_endpoint_verdicts(const hawser_endpoint* endpoint, hawser_verdict* verdicts,
                                       size_t* count);

#ifdef __cplusplus
}
#endif

#include "hawser/one_sided.h"
