// SPDX-License-Identifier: Apache-2.0
/* The program with which ofi.py times many small messages: `message_rate BYTES COUNT` prints
 * microseconds a message, of COUNT windows of 64 sends that rank 1 answers with one. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWindow = 64 };

static void windows(int rank, char* data, int bytes, int count) {
  MPI_Request requests[kWindow];
  char answer = 0;
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < kWindow; ++j) {
      char* const at = data + (size_t)j * (size_t)bytes;
      if (rank == 0) MPI_Isend(at, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[j]);
      if (rank == 1) MPI_Irecv(at, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[j]);
    }
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) MPI_Recv(&answer, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&answer, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
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
    fprintf(stderr, "usage, on two ranks: message_rate BYTES COUNT\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  char* data = calloc(kWindow, (size_t)bytes);
  windows(rank, data, bytes, 1 + count / 5);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  windows(rank, data, bytes, count);
  if (rank == 0) printf("%.4f\n", 1e6 * (MPI_Wtime() - begin) / count / kWindow);
  MPI_Finalize();
  return 0;
}
