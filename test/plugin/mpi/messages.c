// SPDX-License-Identifier: Apache-2.0
/* Point to point: wildcards, probes, matched probes, cancelled receives, synchronous and ready
 * sends, persistent requests, many requests at once, messages to oneself, every size. */
#include "test/plugin/mpi/digest.h"

static int next_rank, previous_rank;

/* A ring of sends and receives of every kind of send. */
static void every_size(size_t most) {
  unsigned char* in = (unsigned char*)room(most);
  unsigned char* out = (unsigned char*)room(most);
  for (size_t bytes = 0; bytes <= most; bytes = bytes < 4 ? bytes + 1 : bytes * 3 - 1) {
    MPI_Request request;
    MPI_Status status;
    int count = 0;
    fill(in, bytes, (unsigned)bytes + (unsigned)rank);
    MPI_Irecv(out, (int)bytes, MPI_BYTE, previous_rank, 3, MPI_COMM_WORLD, &request);
    MPI_Ssend(in, (int)bytes, MPI_BYTE, next_rank, 3, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    mix_int(count);
    mix_int(status.MPI_SOURCE);
    mix(out, bytes);
    MPI_Sendrecv(in, (int)bytes, MPI_BYTE, previous_rank, 4, out, (int)bytes, MPI_BYTE, next_rank,
                 4, MPI_COMM_WORLD, &status);
    mix(out, bytes);
    MPI_Sendrecv(in, (int)bytes, MPI_BYTE, rank, 5, out, (int)bytes, MPI_BYTE, rank, 5,
                 MPI_COMM_WORLD, &status);
    mix(out, bytes);
  }
  free(out);
  free(in);
}

/* Rank 0 receives from any source. The sum it builds doesn't depend on the order. */
static void wildcards(int messages) {
  if (rank == 0) {
    uint64_t sum = 0;
    for (int i = 0; i < messages * (ranks - 1); ++i) {
      int value[2];
      MPI_Status status;
      MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      if (value[0] != status.MPI_SOURCE || value[1] != status.MPI_TAG) MPI_Abort(MPI_COMM_WORLD, 3);
      sum += (uint64_t)value[0] * 1000003u + (uint64_t)value[1];
    }
    mix(&sum, sizeof sum);
  } else {
    for (int i = 0; i < messages; ++i) {
      const int value[2] = {rank, i};
      MPI_Send(value, 2, MPI_INT, 0, i, MPI_COMM_WORLD);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void probes(int messages) {
  for (int i = 0; i < messages; ++i) {
    const int bytes = (i * 7919) % 100000;
    unsigned char* in = (unsigned char*)room((size_t)bytes);
    MPI_Request request;
    MPI_Status status;
    int count = 0;
    fill(in, (size_t)bytes, (unsigned)(rank + i));
    MPI_Isend(in, bytes, MPI_BYTE, next_rank, i, MPI_COMM_WORLD, &request);
    unsigned char* out = NULL;
    if (i % 2 == 0) {
      MPI_Probe(previous_rank, i, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &count);
      out = (unsigned char*)room((size_t)count);
      MPI_Recv(out, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
    } else {
      MPI_Message message;
      MPI_Mprobe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &message, &status);
      MPI_Get_count(&status, MPI_BYTE, &count);
      out = (unsigned char*)room((size_t)count);
      MPI_Mrecv(out, count, MPI_BYTE, &message, &status);
    }
    mix_int(count);
    mix_int(status.MPI_SOURCE);
    mix(out, (size_t)count);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(out);
    free(in);
  }
}

static void cancelled(void) {
  int value = -1, flag = 0;
  MPI_Request request;
  MPI_Status status;
  MPI_Irecv(&value, 1, MPI_INT, previous_rank, 777, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  mix_int(flag);
  MPI_Barrier(MPI_COMM_WORLD);
  /* The message goes to the next receive. */
  MPI_Sendrecv(&rank, 1, MPI_INT, next_rank, 777, &value, 1, MPI_INT, previous_rank, 777,
               MPI_COMM_WORLD, &status);
  mix_int(value);
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
  mix_int(flag);
  MPI_Barrier(MPI_COMM_WORLD); /* what comes next would be found */
}

/* Posts all receives first, in the reverse order of their tags. */
static void outstanding(int count) {
  MPI_Request* requests = (MPI_Request*)room(2 * sizeof(MPI_Request) * (size_t)count);
  int* in = (int*)room(sizeof(int) * (size_t)count);
  int* out = (int*)room(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i) {
    MPI_Irecv(&out[i], 1, MPI_INT, previous_rank, count - 1 - i, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < count; ++i) {
    in[i] = rank * count + i;
    MPI_Isend(&in[i], 1, MPI_INT, next_rank, i, MPI_COMM_WORLD, &requests[count + i]);
  }
  MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
  mix(out, sizeof(int) * (size_t)count);
  free(out);
  free(in);
  free(requests);
}

static void persistent(int rounds) {
  int in = 0, out = 0;
  MPI_Request requests[2];
  MPI_Recv_init(&out, 1, MPI_INT, previous_rank, 9, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(&in, 1, MPI_INT, next_rank, 9, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < rounds; ++i) {
    in = rank + i;
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    mix_int(out);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  next_rank = (rank + 1) % ranks;
  previous_rank = (rank + ranks - 1) % ranks;
  const int rounds = argc > 3 ? atoi(argv[3]) : 1;
  for (int i = 0; i < rounds; ++i) {
    every_size(argc > 1 ? (size_t)atol(argv[1]) : 1000000);
    wildcards(300);
    probes(60);
    cancelled();
    outstanding(argc > 2 ? atoi(argv[2]) : 3000);
    persistent(50);
  }
  end("messages");
  return 0;
}
