// SPDX-License-Identifier: Apache-2.0
/* docs/ranks.cpp in C:
 *
 *   ranks_c RANK RANKS FOLDER [NIC ...]     in each process; FOLDER is an empty one that all share
 */
#include <hawser/collectives.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 1 << 20, kMostRanks = 250, kLooks = 600, kPath = 4096 };
static const uint64_t kLook_ns = UINT64_C(100000000);
static float gradient[kCount];

static void fail(const char* what, const char* why) {
  fprintf(stderr, "ranks_c: %s: %s\n", what, why);
  exit(1);
}

static void name_file(char* path, const char* folder, uint32_t rank, const char* end) {
  if (snprintf(path, kPath, "%s/%u%s", folder, rank, end) >= kPath) {
    fail(folder, "its name is too long");
  }
}

/* A reader sees the whole address or no file, because a rename takes place at once. */
static void write_address(const hawser_endpoint* endpoint, const char* folder, uint32_t rank) {
  char part[kPath];
  char file[kPath];
  size_t bytes = 0;
  const void* address = hawser_endpoint_address(endpoint, &bytes);
  name_file(part, folder, rank, ".part");
  name_file(file, folder, rank, "");
  FILE* out = fopen(part, "wb");
  const int is_written = out != NULL && fwrite(address, 1, bytes, out) == bytes;
  if (out == NULL || fclose(out) != 0 || !is_written || rename(part, file) != 0) {
    fail(file, "can't be written: make a folder first, and name it at all ranks");
  }
}

static void connect_rank(hawser_endpoint* endpoint, const char* folder, uint32_t rank,
                         hawser_peer* peer) {
  char file[kPath];
  unsigned char address[HAWSER_MAX_ADDRESS_BYTES];
  name_file(file, folder, rank, "");
  for (int look = 0; look < kLooks; ++look) {
    FILE* in = fopen(file, "rb");
    const size_t bytes = in == NULL ? 0 : fread(address, 1, sizeof address, in);
    if (in != NULL) fclose(in);
    if (bytes > 0) {
      const hawser_status status = hawser_connect(endpoint, address, bytes, peer);
      if (status != HAWSER_OK) fail(file, hawser_status_name(status));
      return;
    }
    hawser_wait(endpoint, NULL, 0, kLook_ns); /* nothing is posted: this lets the time pass */
  }
  fail(file, "not there for a minute. Were all ranks started?");
}

static void check(const hawser_coll_communicator* world, hawser_status status, const char* what) {
  if (status == HAWSER_OK) return;
  const char* why = hawser_status_name(status);
  hawser_coll_failure(world, NULL, &why);
  fail(what, why);
}

static void work(hawser_coll_communicator* world) {
  const hawser_coll_reduction average = {.op = HAWSER_COLL_AVERAGE};
  const uint32_t rank = hawser_coll_rank_of(world);
  uint64_t seed = rank == 0 ? 4711 : 0;
  hawser_coll_request first;
  hawser_coll_request second;
  for (int i = 0; i < kCount; ++i) gradient[i] = (float)(rank + 1);
  check(world, hawser_coll_broadcast(world, &seed, sizeof seed, 0, &first), "broadcast");
  check(
      world,
      hawser_coll_all_reduce(world, gradient, gradient, kCount, HAWSER_COLL_F32, &average, &second),
      "all-reduce");
  check(world, hawser_coll_wait(world, first, NULL), "broadcast");
  check(world, hawser_coll_wait(world, second, NULL), "all-reduce");
  printf("rank %u of %u: seed %llu, average %.1f\n", rank, hawser_coll_ranks(world),
         (unsigned long long)seed, (double)gradient[kCount - 1]);
  /* Others may still need acknowledgements from this rank, so all leave together. */
  check(world, hawser_coll_barrier(world, &first), "barrier");
  check(world, hawser_coll_wait(world, first, NULL), "barrier");
}

int main(int argc, char** argv) {
  char why[1000] = "";
  char own[2][32];
  const char* own_nics[2] = {own[0], own[1]};
  const uint32_t rank = argc > 2 ? (uint32_t)atoi(argv[1]) : 1;
  const uint32_t ranks = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
  if (argc < 4 || rank >= ranks || ranks > kMostRanks) {
    fprintf(stderr, "usage: ranks_c RANK RANKS FOLDER [NIC ...], with RANK below RANKS\n");
    return 2;
  }
  snprintf(own[0], sizeof own[0], "udp:127.0.1.%u", (rank + 1) % 256);
  snprintf(own[1], sizeof own[1], "udp:127.0.2.%u", (rank + 1) % 256);
  const hawser_engine_config engine_config = {
      .struct_size = sizeof engine_config,
      .nics = argc > 4 ? (const char* const*)argv + 4 : own_nics,
      .nic_count = argc > 4 ? (size_t)argc - 4 : 2};
  hawser_engine* engine = NULL;
  hawser_endpoint* endpoint = NULL;
  hawser_coll_router* router = NULL;
  hawser_coll_communicator* world = NULL;
  if (hawser_engine_create(HAWSER_ABI_VERSION, &engine_config, &engine, why, sizeof why) !=
          HAWSER_OK ||
      hawser_endpoint_create(engine, NULL, &endpoint, why, sizeof why) != HAWSER_OK ||
      hawser_coll_router_create(endpoint, &router, why, sizeof why) != HAWSER_OK) {
    fail("start", why);
  }
  write_address(endpoint, argv[3], rank);
  hawser_peer peers[kMostRanks] = {0};
  for (uint32_t other = 0; other < ranks; ++other) {
    if (other != rank) connect_rank(endpoint, argv[3], other, &peers[other]);
  }
  const hawser_coll_config config = {
      .struct_size = sizeof config, .peers = peers, .ranks = ranks, .rank = rank, .id = 1};
  if (hawser_coll_create(router, &config, &world, why, sizeof why) != HAWSER_OK) {
    fail("communicator", why);
  }
  work(world);
  hawser_coll_destroy(world);
  hawser_coll_router_destroy(router);
  hawser_endpoint_destroy(endpoint);
  hawser_engine_destroy(engine);
  return 0;
}
