// SPDX-License-Identifier: Apache-2.0
/* The program with which ofi.py times two ranks: `ping_pong BYTES COUNT` prints microseconds one
 * way, and the processor time of both ranks for each byte that moved, in nanoseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double processor_s(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void rounds(int rank, char* data, int bytes, int count) {
  for (int i = 0; i < count; ++i) {
    if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(data, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int bytes = argc > 2 ? atoi(argv[1]) : 0;
  const int count = argc > 2 ? atoi(argv[2]) : 0;
  if (bytes < 1 || count < 1 || ranks != 2) {
    fprintf(stderr, "usage, on two ranks: ping_pong BYTES COUNT\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  char* data = malloc((size_t)bytes);
  memset(data, 1, (size_t)bytes);
  rounds(rank, data, bytes, 1 + count / 5);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  const double used = processor_s();
  rounds(rank, data, bytes, count);
  const double took = MPI_Wtime() - begin;
  const double own = processor_s() - used;
  double both = 0;
  MPI_Reduce(&own, &both, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.3f %.4f\n", 5e5 * took / count, 5e8 * both / count / bytes);
  MPI_Finalize();
  return 0;
}
