// SPDX-License-Identifier: Apache-2.0
/* Communicators that the program makes, and datatypes that are not contiguous. */
#include <stddef.h>

#include "test/plugin/mpi/digest.h"

struct record {
  char kind;
  double value;
  int count[3];
};

static void splits(void) {
  MPI_Comm half, same, reordered;
  int sum = 0, size = 0, place = 0;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Comm_size(half, &size);
  MPI_Comm_rank(half, &place);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
  mix_int(size);
  mix_int(place);
  mix_int(sum);
  MPI_Comm_dup(MPI_COMM_WORLD, &same);
  /* Two communicators use the same tag, and each message arrives in its own. */
  int one = rank, two = rank + 100, got_one = 0, got_two = 0;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Request requests[2];
  MPI_Irecv(&got_two, 1, MPI_INT, MPI_ANY_SOURCE, 1, same, &requests[0]);
  MPI_Irecv(&got_one, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Send(&one, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
  MPI_Send(&two, 1, MPI_INT, next, 1, same);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  mix_int(got_one);
  mix_int(got_two);
  const int dims[1] = {ranks}, periods[1] = {1};
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &reordered);
  int left = 0, right = 0, from_left = 0;
  MPI_Cart_shift(reordered, 0, 1, &left, &right);
  MPI_Sendrecv(&rank, 1, MPI_INT, right, 2, &from_left, 1, MPI_INT, left, 2, reordered,
               MPI_STATUS_IGNORE);
  mix_int(from_left);
  MPI_Comm_free(&reordered);
  MPI_Comm_free(&same);
  MPI_Comm_free(&half);
}

/* Columns of a matrix, and records with holes. */
static void datatypes(int rows) {
  const int columns = 37, next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  double* matrix = (double*)room(sizeof(double) * (size_t)(rows * columns));
  for (int i = 0; i < rows * columns; ++i) matrix[i] = rank * 1000.0 + i;
  MPI_Datatype column, type;
  MPI_Type_vector(rows, 1, columns, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  MPI_Sendrecv(&matrix[1], 1, column, next, 1, &matrix[5], 1, column, previous, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  mix(matrix, sizeof(double) * (size_t)(rows * columns));
  const int lengths[3] = {1, 1, 3};
  const MPI_Aint places[3] = {offsetof(struct record, kind), offsetof(struct record, value),
                              offsetof(struct record, count)};
  const MPI_Datatype parts[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Datatype raw;
  MPI_Type_create_struct(3, lengths, places, parts, &raw);
  MPI_Type_create_resized(raw, 0, sizeof(struct record), &type);
  MPI_Type_commit(&type);
  struct record* in = (struct record*)room(sizeof(struct record) * (size_t)rows);
  struct record* out = (struct record*)room(sizeof(struct record) * (size_t)rows);
  for (int i = 0; i < rows; ++i) {
    in[i].kind = (char)('a' + (rank + i) % 26);
    in[i].value = rank + i * 0.5;
    for (int j = 0; j < 3; ++j) in[i].count[j] = rank * i + j;
  }
  MPI_Sendrecv(in, rows, type, previous, 2, out, rows, type, next, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < rows; ++i) {
    mix(&out[i].kind, 1);
    mix(&out[i].value, sizeof out[i].value);
    mix(out[i].count, sizeof out[i].count);
  }
  MPI_Type_free(&type);
  MPI_Type_free(&raw);
  MPI_Type_free(&column);
  free(out);
  free(in);
  free(matrix);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int i = 0; i < 10; ++i) splits();
  datatypes(argc > 1 ? atoi(argv[1]) : 3000);
  end("communicators");
  return 0;
}
