// SPDX-License-Identifier: Apache-2.0
/* Shared by the programs here: inputs that depend on their place, and a digest of all results. The
 * digest has to be the same over every transport. */
#pragma once

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static uint64_t digest = 1469598103934665603u;

/* FNV-1a, 64 bits. */
static inline void mix(const void* data, size_t bytes) {
  const unsigned char* byte = (const unsigned char*)data;
  for (size_t i = 0; i < bytes; ++i) digest = (digest ^ byte[i]) * 1099511628211u;
}
static inline void mix_int(int value) { mix(&value, sizeof value); }

static inline void fill(void* data, size_t bytes, unsigned seed) {
  unsigned char* byte = (unsigned char*)data;
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i < bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    byte[i] = (unsigned char)(state >> 24);
  }
}

static inline void* room(size_t bytes) {
  void* data = calloc(1, bytes + 1);
  if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return data;
}

static inline void begin(int* argc, char*** argv) {
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* Rank 0 prints one line: the digests of all ranks. */
static inline void end(const char* name) {
  uint64_t* all = (uint64_t*)room(sizeof(uint64_t) * (size_t)ranks);
  MPI_Gather(&digest, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("digest %s", name);
    for (int i = 0; i < ranks; ++i) printf(" %016llx", (unsigned long long)all[i]);
    printf("\n");
    fflush(stdout);
  }
  free(all);
  MPI_Finalize();
}
