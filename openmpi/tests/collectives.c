/* An MPI program that knows nothing of Quincunx: it calls what the component takes, and what it leaves alone, and checks every element by
 * arithmetic of its own. It prints one line by rank 0, and ends with 1 if a rank has found anything wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong = 0, rank, ranks;
/* Whether all calls are to run in switches: an argument, whatever it is, says so. */
static int is_ours;

static void check(int is_right, const char *what) {
  if (is_right) return;
  if (wrong++ < 10) fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
}

/* Every type and operation that C has names for, of values that no order of additions rounds. */
#define REDUCE(type, mpi, count)                                                                       \
  do {                                                                                                 \
    type *mine = malloc((count) * sizeof(type)), *all = malloc((count) * sizeof(type));                \
    for (int i = 0; i < (count); i++) mine[i] = (type)((i + rank) % 5 + 1);                            \
    MPI_Allreduce(mine, all, count, mpi, MPI_SUM, comm);                                               \
    int is_right = 1;                                                                                  \
    for (int i = 0; i < (count); i++) {                                                                \
      type sum = 0;                                                                                    \
      for (int r = 0; r < size; r++) sum += (type)((i + rank_of[r]) % 5 + 1);                          \
      is_right &= all[i] == sum;                                                                       \
    }                                                                                                  \
    check(is_right, "MPI_SUM of " #mpi);                                                               \
    MPI_Allreduce(MPI_IN_PLACE, mine, count, mpi, MPI_MAX, comm);                                      \
    is_right = 1;                                                                                      \
    for (int i = 0; i < (count); i++) {                                                                \
      type most = 0;                                                                                   \
      for (int r = 0; r < size; r++) {                                                                 \
        type value = (type)((i + rank_of[r]) % 5 + 1);                                                 \
        most = value > most ? value : most;                                                            \
      }                                                                                                \
      is_right &= mine[i] == most;                                                                     \
    }                                                                                                  \
    check(is_right, "MPI_MAX in place of " #mpi);                                                      \
    free(mine), free(all);                                                                             \
  } while (0)

static void reductions(MPI_Comm comm) {
  int size, place, *rank_of;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &place);
  rank_of = malloc(size * sizeof *rank_of);
  MPI_Allgather(&rank, 1, MPI_INT, rank_of, 1, MPI_INT, comm);
  check(rank_of[place] == rank, "MPI_Allgather");
  REDUCE(float, MPI_FLOAT, 1);
  REDUCE(float, MPI_FLOAT, 5000);
  REDUCE(double, MPI_DOUBLE, 301);
  REDUCE(signed char, MPI_SIGNED_CHAR, 77);
  REDUCE(unsigned char, MPI_UNSIGNED_CHAR, 77);
  REDUCE(short, MPI_SHORT, 33);
  REDUCE(int, MPI_INT, 1025);
  REDUCE(unsigned, MPI_UNSIGNED, 12);
  REDUCE(long, MPI_LONG, 260);
  REDUCE(unsigned long long, MPI_UNSIGNED_LONG_LONG, 7);
  /* What switches do not know. */
  REDUCE(unsigned short, MPI_UNSIGNED_SHORT, 33);
  REDUCE(long double, MPI_LONG_DOUBLE, 9);

  int bits = (1 << place) | (1 << 20), found = 0, is_any = place == 1, is_found = 0, number = place + 2, product = 1;
  MPI_Allreduce(&bits, &found, 1, MPI_INT, MPI_BOR, comm);
  check(found == (((1 << size) - 1) | 1 << 20), "MPI_BOR");
  MPI_Allreduce(&bits, &found, 1, MPI_INT, MPI_BAND, comm);
  check(found == (size == 1 ? bits : 1 << 20), "MPI_BAND");
  MPI_Allreduce(&bits, &found, 1, MPI_INT, MPI_BXOR, comm);
  check(found == (((1 << size) - 1) | (size % 2) << 20), "MPI_BXOR");
  MPI_Allreduce(&number, &found, 1, MPI_INT, MPI_MIN, comm);
  check(found == 2, "MPI_MIN");
  MPI_Allreduce(&number, &found, 1, MPI_INT, MPI_PROD, comm);
  for (int r = 0; r < size; r++) product *= r + 2;
  check(found == product, "MPI_PROD");
  /* What is negative if its first bit is a sign. */
  unsigned char octet = place == 0 ? 200 : 100, most_octet;
  MPI_Allreduce(&octet, &most_octet, 1, MPI_UNSIGNED_CHAR, MPI_MAX, comm);
  check(most_octet == 200, "MPI_MAX of MPI_UNSIGNED_CHAR");
  unsigned word = place == 0 ? 1u << 31 : 7, most_word;
  MPI_Allreduce(&word, &most_word, 1, MPI_UNSIGNED, MPI_MAX, comm);
  check(most_word == 1u << 31, "MPI_MAX of MPI_UNSIGNED");
  unsigned long wide = place == 0 ? 1ul << 63 : 7, most_wide;
  MPI_Allreduce(&wide, &most_wide, 1, MPI_UNSIGNED_LONG, MPI_MAX, comm);
  /* Open MPI 4.1.4's own says 7. */
  check(!is_ours || most_wide == 1ul << 63, "MPI_MAX of MPI_UNSIGNED_LONG");
  MPI_Allreduce(&is_any, &is_found, 1, MPI_INT, MPI_LOR, comm);
  check(is_found == (size > 1), "MPI_LOR");

  for (int root = 0; root < size; root++) {
    double mine[400], sum[400];
    for (int i = 0; i < 400; i++) mine[i] = i * (place + 1);
    MPI_Reduce(mine, place == root ? sum : NULL, 400, MPI_DOUBLE, MPI_SUM, root, comm);
    int is_right = 1;
    for (int i = 0; place == root && i < 400; i++) is_right &= sum[i] == i * size * (size + 1) / 2.0;
    check(is_right, "MPI_Reduce");
    MPI_Reduce(place == root ? MPI_IN_PLACE : mine, place == root ? mine : NULL, 400, MPI_DOUBLE, MPI_SUM, root, comm);
    for (int i = 0; place == root && i < 400; i++) is_right &= mine[i] == i * size * (size + 1) / 2.0;
    check(is_right, "MPI_Reduce in place");

    long all[300];
    for (int i = 0; i < 300; i++) all[i] = place == root ? i * 7 + root : -1;
    MPI_Bcast(all, 300, MPI_LONG, root, comm);
    for (int i = 0; i < 300; i++) is_right &= all[i] == i * 7 + root;
    check(is_right, "MPI_Bcast");
    /* A column of a matrix, every third number, at the root and next to each other elsewhere; and the other way round. */
    MPI_Datatype column;
    MPI_Type_vector(100, 1, 3, MPI_LONG, &column);
    MPI_Type_commit(&column);
    for (int of_root = 0; of_root < 2; of_root++) {
      int has_column = (place == root) == of_root, step = has_column ? 3 : 1;
      for (int i = 0; i < 300; i++) all[i] = place == root ? i / step : -1;
      MPI_Bcast(all, has_column ? 1 : 100, has_column ? column : MPI_LONG, root, comm);
      for (int i = 0; i < 100; i++) is_right &= all[i * step] == i;
      for (int i = 0; i < 300; i++) is_right &= place == root || all[i] == -1 || (i % step == 0 && i / step < 100);
      check(is_right, "MPI_Bcast of a column");
    }
    MPI_Type_free(&column);
    /* Numbers next to each other that do not begin where the buffer does. */
    MPI_Datatype behind;
    int ten = 10, five = 5;
    MPI_Type_indexed(1, &ten, &five, MPI_LONG, &behind);
    MPI_Type_commit(&behind);
    for (int i = 0; i < 300; i++) all[i] = place == root ? i : -1;
    MPI_Bcast(all, 1, behind, root, comm);
    for (int i = 0; i < 300; i++) is_right &= all[i] == (place == root || (i >= 5 && i < 15) ? i : -1);
    check(is_right, "MPI_Bcast of what begins later");
    MPI_Type_free(&behind);
  }

  int counts[64], parts[64 * 5], part[5];
  for (int r = 0; r < size; r++) counts[r] = 5;
  for (int i = 0; i < size * 5; i++) parts[i] = i + place;
  int is_right = 1, others = size * (size - 1) / 2;
  MPI_Reduce_scatter_block(parts, part, 5, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < 5; i++) is_right &= part[i] == size * (place * 5 + i) + others;
  check(is_right, "MPI_Reduce_scatter_block");
  MPI_Reduce_scatter(parts, part, counts, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < 5; i++) is_right &= part[i] == size * (place * 5 + i) + others;
  check(is_right, "MPI_Reduce_scatter of equal parts");
  for (int r = 0; r < size; r++) counts[r] = r == 0 ? 4 : r == 1 ? 6 : 5;
  MPI_Reduce_scatter(parts, part, counts, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < (place == 0 ? 4 : 5); i++) is_right &= part[i] == size * ((place == 1 ? 4 : place * 5) + i) + others;
  check(is_right, "MPI_Reduce_scatter of parts that differ");
  MPI_Reduce_scatter_block(MPI_IN_PLACE, parts, 5, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < 5; i++) is_right &= parts[i] == size * (place * 5 + i) + others;
  check(is_right, "MPI_Reduce_scatter_block in place");

  /* Rows of pairs with a gap, gathered in place. */
  MPI_Datatype pair, spaced;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, 3 * sizeof(int), &spaced);
  MPI_Type_commit(&spaced);
  int rows[64 * 3];
  for (int i = 0; i < size * 3; i++) rows[i] = i / 3 == place && i % 3 < 2 ? i : -1;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rows, 1, spaced, comm);
  for (int i = 0; i < size * 3; i++) is_right &= rows[i] == (i % 3 < 2 ? i : -1);
  check(is_right, "MPI_Allgather in place of pairs with a gap");
  MPI_Type_free(&pair);
  MPI_Type_free(&spaced);
  MPI_Barrier(comm);
  free(rank_of);
}

/* A message of more bytes than Open MPI sends ahead, to a rank that takes it before it comes to a collective where its sender waits already. */
static void messages_go_on(MPI_Comm comm) {
  int size, count = 1 << 20, here = 1, all;
  int *numbers = calloc(count, sizeof *numbers);
  MPI_Request sent;
  MPI_Comm_size(comm, &size);
  if (rank == 0) {
    for (int i = 0; i < count; i++) numbers[i] = i;
    MPI_Isend(numbers, count, MPI_INT, 1, 5, comm, &sent);
  } else if (rank == 1) {
    MPI_Recv(numbers, count, MPI_INT, 0, 5, comm, MPI_STATUS_IGNORE);
    check(numbers[count - 1] == count - 1, "a message");
  }
  MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_SUM, comm);
  check(all == size, "a collective beside a message");
  if (rank == 0) MPI_Wait(&sent, MPI_STATUS_IGNORE);
  free(numbers);
}

/* More communicators, one after the other, than a switch has room for at once. */
static void come_and_go(void) {
  for (int i = 0; i < 50; i++) {
    int here = 1, all = 0;
    MPI_Comm again;
    MPI_Comm_dup(MPI_COMM_WORLD, &again);
    MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_SUM, again);
    check(all == ranks, "a communicator of fifty");
    MPI_Comm_free(&again);
  }
}

int main(int argc, char **argv) {
  is_ours = argc > 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  reductions(MPI_COMM_WORLD);
  messages_go_on(MPI_COMM_WORLD);
  /* The ranks the other way round; the odd and the even ones; one alone. */
  MPI_Comm turned, halves, alone;
  MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - rank, &turned);
  reductions(turned);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &halves);
  reductions(halves);
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
  reductions(alone);
  come_and_go();
  MPI_Comm_free(&turned);
  MPI_Comm_free(&halves);
  /* `alone` is left to MPI_Finalize. */
  int all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %d wrong\n", ranks, all_wrong);
  MPI_Finalize();
  return all_wrong != 0;
}
