// SPDX-License-Identifier: Apache-2.0
/* Collectives for C: hawser/collectives.hpp, function by function.
 *
 * That header says what each call does, what each status means, and who owns a buffer when. Here
 * the general rules of hawser/hawser.h hold, on pointers, versions and results. Only one thread may
 * use a router and all communicators on it. Destroy communicators first, then the router, then the
 * endpoint.
 *
 *   hawser_coll_reduction sum = {.op = HAWSER_COLL_SUM};
 *   status = hawser_coll_all_reduce(world, in, out, count, HAWSER_COLL_F32, &sum, &request);
 *   if (status == HAWSER_OK) status = hawser_coll_wait(world, request, NULL);
 */
#pragma once

#include "hawser/hawser.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hawser_coll_router hawser_coll_router;
typedef struct hawser_coll_communicator hawser_coll_communicator;

typedef uint32_t hawser_coll_rank;
#define HAWSER_COLL_ANY_RANK UINT32_MAX
#define HAWSER_COLL_MAX_STARTED 64u
#define HAWSER_COLL_MAX_MESSAGES 4096u
#define HAWSER_COLL_NO_COLOUR UINT32_MAX

typedef uint8_t hawser_coll_type;
enum {
  HAWSER_COLL_F32 = 0,
  HAWSER_COLL_F64,
  HAWSER_COLL_F16,
  HAWSER_COLL_BF16,
  HAWSER_COLL_I32,
  HAWSER_COLL_I64,
  HAWSER_COLL_I8,
  HAWSER_COLL_U8,
  HAWSER_COLL_F8E4M3,
  HAWSER_COLL_F8E5M2
};
/* Bytes of an element; 0 for other values. */
size_t hawser_coll_type_bytes(hawser_coll_type type);

typedef uint8_t hawser_coll_op;
enum {
  HAWSER_COLL_SUM = 0,
  HAWSER_COLL_PROD,
  HAWSER_COLL_MIN,
  HAWSER_COLL_MAX,
  HAWSER_COLL_AVERAGE,
  HAWSER_COLL_BIT_AND,
  HAWSER_COLL_BIT_OR,
  HAWSER_COLL_BIT_XOR,
  HAWSER_COLL_FUNCTION
};

/* out[i] = left[i] op right[i]. `out` may be `left` or `right`. It must not call into a router or
 * communicator. */
typedef void (*hawser_coll_function)(void* context, void* out, const void* left, const void* right,
                                     uint64_t count, hawser_coll_type type);

/* One with a function must live until the request is released. */
typedef struct hawser_coll_reduction {
  hawser_coll_function function; /* of HAWSER_COLL_FUNCTION; otherwise NULL */
  void* context;
  hawser_coll_op op;
  uint8_t reserved[7]; /* 0 */
} hawser_coll_reduction;

typedef struct hawser_coll_segment {
  uint64_t offset;
  uint64_t bytes;
} hawser_coll_segment;

/* All 0: none. It counts as complete. */
typedef struct hawser_coll_request {
  uint32_t slot;
  uint32_t generation;
} hawser_coll_request;

typedef struct hawser_coll_received {
  uint64_t bytes;
  hawser_coll_rank from;
  uint32_t reserved; /* 0 */
} hawser_coll_received;

/* Options of 0 have their defaults. A small_bytes of UINT32_MAX is the 0 of C++. */
typedef struct hawser_coll_config {
  size_t struct_size;
  const hawser_peer* peers; /* by rank; read in the call */
  uint32_t ranks;
  hawser_coll_rank rank;
  uint32_t id;
  uint32_t chunk_bytes;
  uint32_t pipeline;
  uint32_t max_active;
  uint32_t small_bytes;
  uint8_t follow_bandwidths; /* 0 or 1 */
  uint8_t reserved[3];       /* 0 */
  uint64_t check_bytes;      /* 1 is as good as the 0 of C++ */
} hawser_coll_config;

hawser_status hawser_coll_router_create(hawser_endpoint* endpoint, hawser_coll_router** router,
                                        char* error, size_t error_bytes);
void hawser_coll_router_destroy(hawser_coll_router* router); /* NULL: nothing */
void hawser_coll_router_progress(hawser_coll_router* router);
void hawser_coll_router_wait(hawser_coll_router* router, uint64_t timeout_ns);
size_t hawser_coll_router_take(hawser_coll_router* router, hawser_completion* completions,
                               size_t count);
int hawser_coll_router_quiet(const hawser_coll_router* router);

/* Sets the options so that `communicators` of them, and as many operations of the application, fit
 * an endpoint with these tunables: CommunicatorOptions::within. */
void hawser_coll_fit(hawser_coll_config* config, uint32_t max_operations,
                     uint32_t max_messages_per_peer, uint32_t communicators);
hawser_status hawser_coll_create(hawser_coll_router* router, const hawser_coll_config* config,
                                 hawser_coll_communicator** communicator, char* error,
                                 size_t error_bytes);
void hawser_coll_destroy(hawser_coll_communicator* communicator); /* NULL: nothing */
hawser_coll_rank hawser_coll_rank_of(const hawser_coll_communicator* communicator);
uint32_t hawser_coll_ranks(const hawser_coll_communicator* communicator);
uint32_t hawser_coll_id(const hawser_coll_communicator* communicator);

hawser_status hawser_coll_all_reduce(hawser_coll_communicator* communicator, const void* in,
                                     void* out, uint64_t count, hawser_coll_type type,
                                     const hawser_coll_reduction* reduction,
                                     hawser_coll_request* request);
hawser_status hawser_coll_reduce(hawser_coll_communicator* communicator, const void* in, void* out,
                                 uint64_t count, hawser_coll_type type,
                                 const hawser_coll_reduction* reduction, hawser_coll_rank root,
                                 hawser_coll_request* request);
hawser_status hawser_coll_reduce_scatter(hawser_coll_communicator* communicator, const void* in,
                                         void* out, uint64_t count, hawser_coll_type type,
                                         const hawser_coll_reduction* reduction,
                                         hawser_coll_request* request);
/* Arrays of segments have one for each rank. Like the buffers, they must live until the request is
 * released. */
hawser_status hawser_coll_reduce_scatter_v(hawser_coll_communicator* communicator, const void* in,
                                           const hawser_coll_segment* blocks, void* out,
                                           hawser_coll_type type,
                                           const hawser_coll_reduction* reduction,
                                           hawser_coll_request* request);
hawser_status hawser_coll_all_gather(hawser_coll_communicator* communicator, const void* in,
                                     void* out, uint64_t bytes, hawser_coll_request* request);
hawser_status hawser_coll_all_gather_v(hawser_coll_communicator* communicator, const void* in,
                                       void* out, const hawser_coll_segment* blocks,
                                       hawser_coll_request* request);
hawser_status hawser_coll_all_to_all(hawser_coll_communicator* communicator, const void* in,
                                     void* out, uint64_t bytes, hawser_coll_request* request);
hawser_status hawser_coll_all_to_all_v(hawser_coll_communicator* communicator, const void* in,
                                       const hawser_coll_segment* to, void* out,
                                       const hawser_coll_segment* from,
                                       hawser_coll_request* request);
hawser_status hawser_coll_broadcast(hawser_coll_communicator* communicator, void* data,
                                    uint64_t bytes, hawser_coll_rank root,
                                    hawser_coll_request* request);
hawser_status hawser_coll_gather(hawser_coll_communicator* communicator, const void* in, void* out,
                                 uint64_t bytes, hawser_coll_rank root,
                                 hawser_coll_request* request);
/* `blocks` is NULL at other ranks than the root, here and in scatter_v. */
hawser_status hawser_coll_gather_v(hawser_coll_communicator* communicator, const void* in,
                                   uint64_t bytes, void* out, const hawser_coll_segment* blocks,
                                   hawser_coll_rank root, hawser_coll_request* request);
hawser_status hawser_coll_scatter(hawser_coll_communicator* communicator, const void* in, void* out,
                                  uint64_t bytes, hawser_coll_rank root,
                                  hawser_coll_request* request);
hawser_status hawser_coll_scatter_v(hawser_coll_communicator* communicator, const void* in,
                                    const hawser_coll_segment* blocks, void* out, uint64_t bytes,
                                    hawser_coll_rank root, hawser_coll_request* request);
hawser_status hawser_coll_barrier(hawser_coll_communicator* communicator,
                                  hawser_coll_request* request);

/* `by_rank` has an entry for each rank. */
hawser_status hawser_coll_set_bandwidths(hawser_coll_communicator* communicator,
                                         const uint8_t* by_rank);
/* Fills in an entry for each rank. Returns 0, and fills in nothing, if all are equal. */
int hawser_coll_bandwidths(const hawser_coll_communicator* communicator, uint8_t* by_rank);

hawser_status hawser_coll_send(hawser_coll_communicator* communicator, const void* data,
                               uint64_t bytes, hawser_coll_rank to, uint32_t tag,
                               hawser_coll_request* request);
hawser_status hawser_coll_receive(hawser_coll_communicator* communicator, void* data,
                                  uint64_t bytes, hawser_coll_rank from, uint32_t tag,
                                  hawser_coll_request* request);

void hawser_coll_progress(hawser_coll_communicator* communicator);
/* `received` may be NULL. It is set by the end of a receive alone. */
hawser_status hawser_coll_test(hawser_coll_communicator* communicator, hawser_coll_request request,
                               hawser_coll_received* received);
hawser_status hawser_coll_wait(hawser_coll_communicator* communicator, hawser_coll_request request,
                               hawser_coll_received* received);
int hawser_coll_released(const hawser_coll_communicator* communicator, hawser_coll_request request);

/* `made` is NULL at ranks of HAWSER_COLL_NO_COLOUR. */
hawser_status hawser_coll_split(hawser_coll_communicator* communicator, uint32_t colour,
                                uint32_t key, hawser_coll_communicator** made, char* error,
                                size_t error_bytes);

/* `without` has `count` ranks, and may be NULL if there are none. Close the endpoint if it returns
 * HAWSER_NIC_ERROR, HAWSER_STORE_FULL or HAWSER_AGAIN (no memory), or if `error` is set (no id is
 * left). */
hawser_status hawser_coll_shrink(hawser_coll_communicator* communicator,
                                 const hawser_coll_rank* without, uint64_t count,
                                 hawser_coll_communicator** made, char* error, size_t error_bytes);

void hawser_coll_abort(hawser_coll_communicator* communicator, hawser_coll_rank failed,
                       hawser_status reason);
/* HAWSER_OK while the communicator works. Otherwise the status of its failure; `rank` and `text`
 * are set if they are not NULL. The text is valid as long as the communicator. */
hawser_status hawser_coll_failure(const hawser_coll_communicator* communicator,
                                  hawser_coll_rank* rank, const char** text);
int hawser_coll_idle(const hawser_coll_communicator* communicator);

#ifdef __cplusplus
}
#endif
