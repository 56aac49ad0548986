// SPDX-License-Identifier: Apache-2.0
/* Windows: every rank puts into, gets from and computes on the memory of all others. The argument
 * is the number of rounds.
 */
#include "test/plugin/mpi/digest.h"

enum { kInts = 5000 };

static int* memory;
static MPI_Win window;
static int compares = 1;

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
  /* Open MPI 4.1 crashes in a compare-and-swap on the memory of the caller itself, and on memory
   * that it allocated on the caller's host. */
  if (compares && rank == 1 + round % (ranks - 1)) {
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

/* Each rank puts into its two neighbours only, which wait for it and for nobody else. */
static void post_and_start(int round) {
  static int block[kInts];
  for (int i = 0; i < kInts; ++i) block[i] = rank * 3001 + round * 11 + i;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  const int others[2] = {next, before};
  const int count = 1 + (round * 1231) % kInts;
  MPI_Group all, neighbours;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, next == before ? 1 : 2, others, &neighbours);
  MPI_Win_post(neighbours, 0, window);
  MPI_Win_start(neighbours, 0, window);
  MPI_Put(block, count, MPI_INT, next, (MPI_Aint)rank * kInts, count, MPI_INT, window);
  MPI_Put(block, count, MPI_INT, before, (MPI_Aint)rank * kInts, count, MPI_INT, window);
  MPI_Win_complete(window);
  MPI_Win_wait(window);
  mix(memory + (size_t)next * kInts, sizeof(int) * (size_t)count);
  mix(memory + (size_t)before * kInts, sizeof(int) * (size_t)count);
  MPI_Group_free(&neighbours);
  MPI_Group_free(&all);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* All ranks read, change and write the same block of rank 0, one at a time. */
static void lock_out_others(void) {
  const MPI_Aint place = (MPI_Aint)ranks * kInts + 60;
  int block[10];
  for (int i = 0; i < 5; ++i) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(block, 10, MPI_INT, 0, place, 10, MPI_INT, window);
    MPI_Win_flush(0, window);
    for (int k = 0; k < 10; ++k) block[k] += (rank + 1) * (k + 1);
    MPI_Put(block, 10, MPI_INT, 0, place, 10, MPI_INT, window);
    MPI_Win_unlock(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Get(block, 10, MPI_INT, 0, place, 10, MPI_INT, window);
  MPI_Win_unlock(0, window);
  mix(block, sizeof block);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Memory that joins a window and leaves it again. */
static void attach_and_detach(MPI_Win open, int round) {
  const int count = 100 + (round * 457) % kInts;
  int* const part = (int*)room(sizeof(int) * (size_t)count);
  int* const block = (int*)room(sizeof(int) * (size_t)count);
  MPI_Aint* const places = (MPI_Aint*)room(sizeof(MPI_Aint) * (size_t)ranks);
  for (int i = 0; i < count; ++i) block[i] = rank * 5003 + round + i;
  MPI_Win_attach(open, part, (MPI_Aint)sizeof(int) * count);
  MPI_Aint place;
  MPI_Get_address(part, &place);
  MPI_Allgather(&place, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD);
  const int next = (rank + 1) % ranks;
  MPI_Win_lock(MPI_LOCK_SHARED, next, 0, open);
  MPI_Put(block, count, MPI_INT, next, places[next], count, MPI_INT, open);
  MPI_Win_unlock(next, open);
  MPI_Barrier(MPI_COMM_WORLD);
  mix(part, sizeof(int) * (size_t)count);
  MPI_Win_detach(open, part);
  MPI_Barrier(MPI_COMM_WORLD);
  free(places);
  free(block);
  free(part);
}

static void use_window(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    copy_blocks(round);
    compute(round);
    post_and_start(round);
    lock_out_others();
  }
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  /* Open MPI's windows over messages don't work with MPI_THREAD_MULTIPLE. */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc > 1 ? atoi(argv[1]) : 20;
  const MPI_Aint bytes = ((MPI_Aint)ranks * kInts + 100) * (MPI_Aint)sizeof(int);
  int* const created = (int*)room((size_t)bytes);
  memory = created;
  MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  use_window(rounds);
  free(created);
  /* Ranks of one host may share this memory, and leave the network alone. */
  MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memset(memory, 0, (size_t)bytes);
  compares = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  use_window(rounds / 5 + 1);
  MPI_Win open;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &open);
  for (int round = 0; round < rounds; ++round) attach_and_detach(open, round);
  MPI_Win_free(&open);
  end("windows");
  return 0;
}
