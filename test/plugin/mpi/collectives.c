// SPDX-License-Identifier: Apache-2.0
/* Every collective, for counts from 0 to the argument. The sums are of integers, or of doubles that
 * are small integers, and so exact in any order. */
#include "test/plugin/mpi/digest.h"

static void reductions(int count, int* in, int* out, double* real, double* sums) {
  const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_BAND, MPI_BOR};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
    MPI_Allreduce(in, out, count, MPI_INT, ops[i], MPI_COMM_WORLD);
    mix(out, sizeof(int) * (size_t)count);
  }
  for (int i = 0; i < count; ++i) real[i] = (double)(in[i] & 1023);
  MPI_Allreduce(real, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  mix(sums, sizeof(double) * (size_t)count);
  MPI_Reduce(real, sums, count, MPI_DOUBLE, MPI_MAX, count % ranks, MPI_COMM_WORLD);
  if (rank == count % ranks) mix(sums, sizeof(double) * (size_t)count);
  MPI_Scan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  mix(out, sizeof(int) * (size_t)count);
  memset(out, 0, sizeof(int) * (size_t)count);
  MPI_Exscan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank > 0) mix(out, sizeof(int) * (size_t)count);
  MPI_Reduce_scatter_block(in, out, count / ranks, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  mix(out, sizeof(int) * (size_t)(count / ranks));
}

static void copies(int count, int* in, int* all) {
  const size_t n = (size_t)count, bytes = sizeof(int) * n;
  if (rank == count % ranks) fill(all, bytes, (unsigned)count);
  MPI_Bcast(all, count, MPI_INT, count % ranks, MPI_COMM_WORLD);
  mix(all, bytes);
  MPI_Gather(in, count, MPI_INT, all, count, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) mix(all, bytes * (size_t)ranks);
  MPI_Allgather(in, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
  mix(all, bytes * (size_t)ranks);
  int* other = (int*)room(bytes * (size_t)ranks);
  MPI_Alltoall(all, count, MPI_INT, other, count, MPI_INT, MPI_COMM_WORLD);
  mix(other, bytes * (size_t)ranks);
  MPI_Scatter(other, count, MPI_INT, all, count, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  mix(all, bytes);
  free(other);
}

/* The i-th part has count + i elements. */
static void unequal(int count, int* in, int* all) {
  int* counts = (int*)room(sizeof(int) * (size_t)ranks);
  int* places = (int*)room(sizeof(int) * (size_t)ranks);
  int total = 0;
  for (int i = 0; i < ranks; ++i) {
    counts[i] = count + i;
    places[i] = total;
    total += counts[i];
  }
  MPI_Allgatherv(in, counts[rank], MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
  mix(all, sizeof(int) * (size_t)total);
  MPI_Gatherv(in, counts[rank], MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) mix(all, sizeof(int) * (size_t)total);
  MPI_Scatterv(all, counts, places, MPI_INT, in, counts[rank], MPI_INT, 0, MPI_COMM_WORLD);
  mix(in, sizeof(int) * (size_t)counts[rank]);
  int* out = (int*)room(sizeof(int) * (size_t)total);
  MPI_Reduce_scatter(all, out, counts, MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
  mix(out, sizeof(int) * (size_t)counts[rank]);
  int* sent = (int*)room(sizeof(int) * (size_t)ranks);
  int* from = (int*)room(sizeof(int) * (size_t)ranks);
  for (int i = 0; i < ranks; ++i) {
    sent[i] = i < total / ranks ? 1 : 0;
    from[i] = i;
  }
  int* got = (int*)room(sizeof(int) * (size_t)ranks);
  for (int i = 0; i < ranks; ++i) got[i] = sent[rank];
  MPI_Alltoallv(all, sent, from, MPI_INT, out, got, from, MPI_INT, MPI_COMM_WORLD);
  mix(out, sizeof(int) * (size_t)ranks);
  free(got);
  free(from);
  free(sent);
  free(out);
  free(places);
  free(counts);
}

static void without_blocking(int count, int* in, int* out) {
  MPI_Request requests[3];
  int* all = (int*)room(sizeof(int) * (size_t)(count * ranks));
  int sum = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
  MPI_Iallreduce(&count, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  MPI_Iallgather(in, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD, &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  mix_int(sum);
  mix(all, sizeof(int) * (size_t)(count * ranks));
  memcpy(out, in, sizeof(int) * (size_t)count);
  MPI_Ibcast(out, count, MPI_INT, ranks - 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  mix(out, sizeof(int) * (size_t)count);
  free(all);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int most = argc > 1 ? atoi(argv[1]) : 20000;
  const size_t bytes = sizeof(double) * (size_t)(most + ranks + 1) * (size_t)(ranks + 1);
  int* in = (int*)room(bytes);
  int* out = (int*)room(bytes);
  double* real = (double*)room(bytes);
  double* sums = (double*)room(bytes);
  const int rounds = argc > 2 ? atoi(argv[2]) : 1;
  for (int round = 0; round < rounds; ++round) {
    for (int count = 0; count <= most; count = count < 4 ? count + 1 : count * 5) {
      fill(in, sizeof(int) * (size_t)(count + ranks), (unsigned)(rank * 1000 + count + round));
      for (int i = 0; i < count + ranks; ++i) in[i] &= 0xffffff;
      reductions(count, in, out, real, sums);
      copies(count, in, out);
      unequal(count, in, out);
      without_blocking(count, in, out);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  free(sums);
  free(real);
  free(out);
  free(in);
  end("collectives");
  return 0;
}
