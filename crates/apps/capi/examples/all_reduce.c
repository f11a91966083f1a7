/* The first AllReduce in C: every rank brings its number plus one, all get the sum. Run by `quincunx run -n 4 -- ./all_reduce`. */
#include <quincunx.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 100000

static void must(qxResult_t result, const char *what) {
  if (result != qxSuccess) {
    fprintf(stderr, "%s: %s: %s\n", what, qxGetErrorString(result), qxGetLastError());
    exit(1);
  }
}

int main(void) {
  qxComm_t comm;
  int rank, ranks;
  must(qxCommInit(&comm), "qxCommInit");
  must(qxCommUserRank(comm, &rank), "qxCommUserRank");
  must(qxCommCount(comm, &ranks), "qxCommCount");

  float *values = malloc(COUNT * sizeof *values);
  for (int i = 0; i < COUNT; i++) values[i] = (float)(rank + 1);
  must(qxAllReduce(values, values, COUNT, qxFloat32, qxSum, comm, NULL), "qxAllReduce");

  /* Two under way at once. */
  double mine = rank + 1, product;
  int numbers[64] = {0};
  qxRequest_t first, second;
  must(qxAllReduce(&mine, &product, 1, qxFloat64, qxProd, comm, &first), "qxAllReduce of doubles");
  must(qxAllGather(&rank, numbers, 1, qxInt32, comm, &second), "qxAllGather");
  must(qxWait(first), "qxWait");
  must(qxWait(second), "qxWait");

  /* One message to all others at once, which goes to each server once. */
  int others[1024], news = rank, heard = 0;
  for (int i = 1; i < ranks; i++) others[i - 1] = i;
  if (rank == 0) {
    news = 42;
    must(qxMultiWrite(&news, 1, qxInt32, others, ranks - 1, comm, NULL), "qxMultiWrite");
    heard = news;
  } else {
    must(qxRecv(&heard, 1, qxInt32, 0, comm, NULL), "qxRecv");
  }

  float sum = (float)(ranks * (ranks + 1)) / 2;
  double factorial = 1;
  int wrong = heard != 42;
  for (int i = 0; i < COUNT; i++) wrong += values[i] != sum;
  for (int i = 0; i < ranks; i++) {
    wrong += numbers[i] != i;
    factorial *= i + 1;
  }
  wrong += product != factorial;

  /* What makes no sense is an answer, not an abort. */
  wrong += qxAllReduce(values, values + 1, COUNT - 1, qxFloat32, qxSum, comm, NULL) != qxInvalidArgument;
  wrong += qxAllReduce(NULL, values, 1, qxFloat32, qxSum, comm, NULL) != qxInvalidArgument;
  wrong += qxAllReduce(values, values, 1, (qxDataType_t)77, qxSum, comm, NULL) != qxInvalidArgument;
  wrong += qxMultiWrite(&news, 1, qxInt32, NULL, 0, comm, NULL) != qxInvalidArgument;
  wrong += qxMultiWrite(&news, 1, qxInt32, &ranks, 1, comm, NULL) != qxInvalidArgument;
  wrong += qxBarrier(NULL, NULL) != qxInvalidArgument;

  must(qxCommDestroy(comm), "qxCommDestroy");
  if (rank == 0) printf("%d ranks, sum %g, product %g, %d wrong\n", ranks, sum, product, wrong);
  free(values);
  return wrong != 0;
}
