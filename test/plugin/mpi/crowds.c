// SPDX-License-Identifier: Apache-2.0
/* More at once than Hawser accepts from a peer: synchronous sends, receives, messages without a
 * posted receive, and messages that were probed for and not yet received. */
#include "test/plugin/mpi/digest.h"

static int next, previous;

static int* places(int count) { return (int*)room(sizeof(int) * (size_t)count); }

static void fill_places(int* out, int count) {
  for (int i = 0; i < count; ++i) out[i] = i * 7 + rank;
}

static MPI_Request* requests(int count) {
  return (MPI_Request*)room(sizeof(MPI_Request) * (size_t)count);
}

/* The receivers of these sends answer while they handle a completion. */
static void synchronous(int count) {
  int* in = places(count);
  int* out = places(count);
  MPI_Request* under_way = requests(2 * count);
  fill_places(out, count);
  for (int i = 0; i < count; ++i) {
    MPI_Irecv(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &under_way[i]);
  }
  for (int i = 0; i < count; ++i) {
    MPI_Issend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &under_way[count + i]);
  }
  MPI_Waitall(2 * count, under_way, MPI_STATUSES_IGNORE);
  mix(in, sizeof(int) * (size_t)count);
  free(under_way);
  free(out);
  free(in);
}

/* The last message is received first. */
static void unexpected(int count) {
  int* in = places(count);
  int* out = places(count);
  MPI_Request* under_way = requests(count);
  fill_places(out, count);
  for (int i = 0; i < count; ++i) {
    MPI_Isend(&out[i], 1, MPI_INT, next, i == count - 1 ? 2 : 1, MPI_COMM_WORLD, &under_way[i]);
  }
  MPI_Recv(&in[count - 1], 1, MPI_INT, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < count - 1; ++i) {
    MPI_Recv(&in[i], 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Waitall(count, under_way, MPI_STATUSES_IGNORE);
  mix(in, sizeof(int) * (size_t)count);
  free(under_way);
  free(out);
  free(in);
}

static void probed(int count) {
  int* out = places(count);
  MPI_Request* under_way = requests(count);
  MPI_Message* messages = (MPI_Message*)room(sizeof(MPI_Message) * (size_t)count);
  fill_places(out, count);
  for (int i = 0; i < count; ++i) {
    MPI_Isend(&out[i], 1, MPI_INT, next, i % 5, MPI_COMM_WORLD, &under_way[i]);
  }
  for (int i = 0; i < count; ++i) {
    MPI_Mprobe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &messages[i], MPI_STATUS_IGNORE);
  }
  for (int i = count - 1; i >= 0; --i) {
    int value = -1;
    MPI_Mrecv(&value, 1, MPI_INT, &messages[i], MPI_STATUS_IGNORE);
    mix_int(value);
  }
  MPI_Waitall(count, under_way, MPI_STATUSES_IGNORE);
  free(messages);
  free(under_way);
  free(out);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  next = (rank + 1) % ranks;
  previous = (rank + ranks - 1) % ranks;
  const int count = argc > 1 ? atoi(argv[1]) : 20000;
  synchronous(count);
  MPI_Barrier(MPI_COMM_WORLD);
  unexpected(count);
  MPI_Barrier(MPI_COMM_WORLD);
  probed(count / 10);
  end("crowds");
  return 0;
}
