// The peer that most clusters run: AllReduce and Barrier of the MPI library, whatever algorithm it was told to take.
//
//   mpirun ... mpi CASE...        cases as measure.h writes them
#include <mpi.h>

#include "measure.h"

static void all_reduce(const float *input, float *output, size_t count) {
  MPI_Allreduce(input, output, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

int main(int count, char **arguments) {
  MPI_Init(&count, &arguments);
  Peer peer = {.all_reduce = all_reduce, .barrier = barrier};
  MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.ranks);
  for (int i = 1; i < count; i++) measure(&peer, arguments[i]);
  return MPI_Finalize();
}
