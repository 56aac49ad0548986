// SPDX-License-Identifier: Apache-2.0
/* Receives that are posted long before their sends, more than Hawser has places for, and ranks that
 * finalize while others still work: the last rank sends its last messages and leaves, and the
 * others receive those after they have worked on without it. */
#include <stdio.h>
#include <stdlib.h>

#include "test/plugin/mpi/digest.h"

enum { kLast = 3000, kLastTag = 5000, kRounds = 2000 };

/* The leaver's last messages, to rank 0. */
static void say_farewell(void) {
  for (int i = 0; i < kLast; ++i) MPI_Send(&i, 1, MPI_INT, 0, kLastTag, MPI_COMM_WORLD);
}

static int hear_farewell(void) {
  int right = 0;
  for (int i = 0; i < kLast; ++i) {
    int value = -1;
    MPI_Recv(&value, 1, MPI_INT, ranks - 1, kLastTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    right += value == i;
  }
  return right;
}

static int work_on(MPI_Comm staying, int count) {
  int right = 0;
  for (int round = 0; round < kRounds; ++round) {
    int own = 1;
    int sum = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, staying);
    right += sum == count;
  }
  return right;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int count = argc > 1 ? atoi(argv[1]) : 70000;
  const int stay = ranks - 1; /* ranks that stay */
  MPI_Comm staying = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < stay ? 0 : 1, rank, &staying);

  int* in = (int*)room(sizeof(int) * (size_t)count);
  MPI_Request* under_way = (MPI_Request*)room(sizeof(MPI_Request) * (size_t)count);
  const int previous = (rank + ranks - 1) % ranks;
  const int next = (rank + 1) % ranks;
  for (int i = 0; i < count; ++i) {
    in[i] = -1;
    MPI_Irecv(&in[i], 1, MPI_INT, previous, i % 1000, MPI_COMM_WORLD, &under_way[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD); /* all receives are posted before the first send */
  for (int i = 0; i < count; ++i) {
    const int value = i * 3 + rank;
    MPI_Send(&value, 1, MPI_INT, next, i % 1000, MPI_COMM_WORLD);
  }
  MPI_Waitall(count, under_way, MPI_STATUSES_IGNORE);
  long long right = 0;
  for (int i = 0; i < count; ++i) right += in[i] == i * 3 + previous;
  long long all = 0;
  MPI_Reduce(&right, &all, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  free(under_way);
  free(in);

  if (rank == stay) {
    say_farewell();
  } else {
    const int rounds = work_on(staying, stay);
    const int last = rank == 0 ? hear_farewell() : 0;
    if (rank == 0) printf("right %lld rounds %d last %d\n", all, rounds, last);
  }
  MPI_Comm_free(&staying);
  MPI_Finalize();
  return 0;
}
