// SPDX-License-Identifier: Apache-2.0
/* The MPI program of allreduce.py: `mpi_allreduce BYTES COUNT` prints the median, in microseconds,
 * of COUNT all-reduces of that many bytes of f32. As in `hawser run`, a barrier comes before each,
 * and the time is that of the slowest rank. Wrong sums end the program. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_size(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long bytes = argc > 2 ? atol(argv[1]) : 0;
  const int count = argc > 2 ? atoi(argv[2]) : 0;
  if (bytes < 4 || count < 1) {
    fprintf(stderr, "usage: mpi_allreduce BYTES COUNT\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int elements = (int)(bytes / 4);
  float* in = malloc((size_t)bytes);
  float* out = malloc((size_t)bytes);
  double* took = malloc(sizeof(double) * (size_t)count);
  double* longest = malloc(sizeof(double) * (size_t)count);
  for (int i = 0; i < elements; ++i) in[i] = (float)(rank + i % 1000);
  for (int i = -1; i < count; ++i) { /* the first warms up */
    for (int j = 0; j < elements; ++j) out[j] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(in, out, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const double end = MPI_Wtime();
    if (i >= 0) took[i] = end - begin;
    for (int j = 0; j < elements; ++j) {
      if (out[j] == (float)(ranks * (j % 1000) + ranks * (ranks - 1) / 2)) continue;
      fprintf(stderr, "a sum is wrong\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Reduce(took, longest, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    qsort(longest, (size_t)count, sizeof(double), by_size);
    printf("%.3f\n", 1e6 * longest[count / 2]);
  }
  MPI_Finalize();
  return 0;
}
