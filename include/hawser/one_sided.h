// SPDX-License-Identifier: Apache-2.0
/* One-sided operations for C: a part of hawser/hawser.h, which includes it. hawser/one_sided.hpp
 * says what each field means, hawser/engine.hpp what each call does, with its statuses. */
#pragma once

#include "hawser/hawser.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a region's key lets a peer do. */
typedef uint8_t hawser_region_access;
enum { HAWSER_REMOTE_WRITE = 1, HAWSER_REMOTE_READ = 2, HAWSER_REMOTE_ATOMIC = 4 };

/* 32 bytes, to be handed to peers by any means. */
typedef struct hawser_region_key {
  uint32_t region;
  uint32_t generation;
  uint64_t secret;
  uint64_t bytes; /* the length of the region */
  uint64_t process;
} hawser_region_key;

typedef struct hawser_region_stats {
  uint64_t unfinished_writes;
  uint64_t unfinished_from;
  uint64_t unfinished_to;
} hawser_region_stats;

typedef uint8_t hawser_atomic_operation;
enum {
  HAWSER_LOAD = 0,
  HAWSER_STORE,
  HAWSER_SWAP,
  HAWSER_COMPARE_AND_SWAP,
  HAWSER_ADD,
  HAWSER_BIT_AND,
  HAWSER_BIT_OR,
  HAWSER_BIT_XOR,
  HAWSER_MIN_SIGNED,
  HAWSER_MAX_SIGNED,
  HAWSER_MIN_UNSIGNED,
  HAWSER_MAX_UNSIGNED
};

typedef struct hawser_word_operation {
  uint64_t operand;
  uint64_t compare; /* of HAWSER_COMPARE_AND_SWAP */
  hawser_atomic_operation operation;
  uint8_t width;       /* bytes of the word: 4 or 8 */
  uint8_t reserved[6]; /* 0 */
} hawser_word_operation;

typedef struct hawser_expose_request {
  size_t struct_size;
  void* data;
  uint64_t bytes;
  uint64_t user_data; /* returned in notices about this region */
  hawser_region_access access;
  uint8_t reserved[7]; /* 0 */
} hawser_expose_request;

typedef struct hawser_signal {
  hawser_region_key key;
  uint64_t offset;
  hawser_word_operation word; /* HAWSER_ADD or HAWSER_STORE */
} hawser_signal;

typedef struct hawser_write_request {
  size_t struct_size;
  hawser_region_key key;
  uint64_t offset;
  const void* data;
  uint64_t bytes;
  const hawser_signal* signal; /* read in the call; NULL: none */
  uint64_t immediate;          /* of the notice */
  uint64_t user_data;
  hawser_peer peer;
  uint16_t channel;
  hawser_channel_owner owner;
  uint8_t notifies;    /* 1: the target's program gets a completion of kind HAWSER_NOTICE */
  uint8_t strong;      /* 1: after all that was posted before to the peer on the channel */
  uint8_t reserved[7]; /* 0 */
} hawser_write_request;

typedef struct hawser_read_request {
  size_t struct_size;
  hawser_region_key key;
  uint64_t offset;
  void* data;
  uint64_t bytes;
  uint64_t user_data;
  hawser_peer peer;
  uint16_t channel;
  hawser_channel_owner owner;
  uint8_t strong;
} hawser_read_request;

typedef struct hawser_atomic_request {
  size_t struct_size;
  hawser_region_key key;
  uint64_t offset;
  hawser_word_operation word;
  uint64_t user_data;
  hawser_peer peer;
  uint16_t channel;
  hawser_channel_owner owner;
  uint8_t fetches; /* 1: the completion's `immediate` is the word as it was before */
  uint8_t strong;
  uint8_t reserved[7]; /* 0 */
} hawser_atomic_request;

typedef struct hawser_flush_request {
  size_t struct_size;
  uint64_t user_data;
  hawser_peer peer;
  uint16_t channel;
  hawser_channel_owner owner;
  uint8_t reserved[1]; /* 0 */
} hawser_flush_request;

hawser_status hawser_expose(hawser_endpoint* endpoint, const hawser_expose_request* request,
                            hawser_region* region);
/* The call `region_key` of hawser/engine.hpp. */
hawser_status hawser_endpoint_region_key(const hawser_endpoint* endpoint, hawser_region region,
                                         hawser_region_key* key);
hawser_status hawser_endpoint_region_stats(const hawser_endpoint* endpoint, hawser_region region,
                                           hawser_region_stats* stats);
hawser_status hawser_withdraw(hawser_endpoint* endpoint, hawser_region region, uint64_t user_data,
                              hawser_operation* operation);
hawser_status hawser_write(hawser_endpoint* endpoint, const hawser_write_request* request,
                           hawser_operation* operation);
hawser_status hawser_read(hawser_endpoint* endpoint, const hawser_read_request* request,
                          hawser_operation* operation);
hawser_status hawser_atomic(hawser_endpoint* endpoint, const hawser_atomic_request* request,
                            hawser_operation* operation);
hawser_status hawser_flush_channel(hawser_endpoint* endpoint, const hawser_flush_request* request,
                                   hawser_operation* operation);

#ifdef __cplusplus
}
#endif
