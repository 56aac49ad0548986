// SPDX-License-Identifier: Apache-2.0
/* Windows: every rank puts into, gets from and computes on the memory of all others. The argument
 * is the number of rounds.
 */
#include "test/plugin/mpi/digest.h"

enum { kInts = 5000 };

static int* memory;
static MPI_Win window;

/* Puts a block into each rank, and gets back the one that the rank before put into the next. */
static void copy_blocks(int round) {
  static int block[kInts], back[kInts];
  for (int i = 0; i < kInts; ++i) block[i] = rank * 1000 + round * 7 + i;
  MPI_Win_fence(0, window);
  for (int to = 0; to < ranks; ++to) {
    const int count = 1 + (round * 997 + to) % kInts;
    MPI_Put(block, count, MPI_INT, to, (MPI_Aint)rank * kInts, count, MPI_INT, window);
  }
  MPI_Win_fence(0, window);
  const int from = (rank + 1) % ranks, writer = (rank + ranks - 1) % ranks;
  const int count = 1 + (round * 997 + from) % kInts;
  MPI_Get(back, count, MPI_INT, from, (MPI_Aint)writer * kInts, count, MPI_INT, window);
  MPI_Win_fence(0, window);
  mix(back, sizeof back[0] * (size_t)count);
}

/* Adds to words of rank 0, and swaps one there. All have added before anyone looks. */
static void compute(int round) {
  int64_t sum = 0, before = 0, one = 1, mine = rank + 1;
  int64_t array[16];
  for (int i = 0; i < 16; ++i) array[i] = rank + i + round;
  const MPI_Aint words = (MPI_Aint)ranks * kInts / 2;
  MPI_Win_lock_all(0, window);
  /* The displacement unit is an int. */
  for (int i = 0; i < 20; ++i) {
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 2 * words, MPI_SUM, window);
    MPI_Win_flush(0, window);
  }
  MPI_Accumulate(array, 16, MPI_INT64_T, 0, 2 * words + 4, 16, MPI_INT64_T, MPI_SUM, window);
  MPI_Win_flush_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  /* Open MPI 4.1 crashes in a compare-and-swap on the memory of the caller itself. */
  if (rank == 1 + round % (ranks - 1)) {
    int64_t zero = 0;
    MPI_Compare_and_swap(&mine, &zero, &before, MPI_INT64_T, 0, 2 * words + 2, window);
    MPI_Win_flush(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Fetch_and_op(NULL, &sum, MPI_INT64_T, 0, 2 * words, MPI_NO_OP, window);
  MPI_Win_flush(0, window);
  mix(&sum, sizeof sum);
  MPI_Get(array, 16, MPI_INT64_T, 0, 2 * words + 4, 16, MPI_INT64_T, window);
  MPI_Win_flush(0, window);
  mix(array, sizeof array);
  MPI_Fetch_and_op(NULL, &before, MPI_INT64_T, 0, 2 * words + 2, MPI_NO_OP, window);
  MPI_Win_flush(0, window);
  mix(&before, sizeof before);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  /* Open MPI's windows over messages don't work with MPI_THREAD_MULTIPLE. */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc > 1 ? atoi(argv[1]) : 20;
  const MPI_Aint bytes = ((MPI_Aint)ranks * kInts + 100) * (MPI_Aint)sizeof(int);
  /* Ranks of one host would share memory that MPI allocates, and leave the network alone. */
  memory = (int*)room((size_t)bytes);
  MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  for (int round = 0; round < rounds; ++round) {
    copy_blocks(round);
    compute(round);
  }
  MPI_Win_free(&window);
  free(memory);
  end("windows");
  return 0;
}
