// SPDX-License-Identifier: Apache-2.0
/* Several threads of each rank talk to their counterparts in other ranks, with tags of their own.
 */
#include <pthread.h>

#include "test/plugin/mpi/digest.h"

enum { kThreads = 3, kMessages = 200 };

static uint64_t sums[kThreads];

static void* talk(void* argument) {
  const int me = *(const int*)argument;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int in[50], out[50];
  for (int i = 0; i < kMessages; ++i) {
    for (int j = 0; j < 50; ++j) in[j] = rank * 7 + me * 1000 + i + j;
    MPI_Sendrecv(in, 1 + i % 50, MPI_INT, next, me, out, 50, MPI_INT, previous, me, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int j = 0; j < 1 + i % 50; ++j) sums[me] = sums[me] * 31u + (uint64_t)out[j];
  }
  return NULL;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int provided = 0;
  MPI_Query_thread(&provided);
  pthread_t threads[kThreads];
  int names[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    names[i] = i;
    /* If MPI has no thread support, the threads run one after the other. */
    if (provided == MPI_THREAD_MULTIPLE) pthread_create(&threads[i], NULL, talk, &names[i]);
  }
  for (int i = 0; i < kThreads; ++i) {
    if (provided == MPI_THREAD_MULTIPLE) {
      pthread_join(threads[i], NULL);
    } else {
      talk(&names[i]);
    }
  }
  mix(sums, sizeof sums);
  end("threads");
  return 0;
}
