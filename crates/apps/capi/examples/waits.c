/* Whom the others wait for, asked while they wait; and what ranks hear that do not agree. Run by `quincunx run -n 2 -- ./waits`. */
#include <quincunx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(qxResult_t result, const char *what) {
  if (result != qxSuccess) {
    fprintf(stderr, "%s: %s: %s\n", what, qxGetErrorString(result), qxGetLastError());
    exit(1);
  }
}

int main(void) {
  qxComm_t world, pair;
  qxRequest_t barrier;
  char text[1024] = "";
  float value = 1;
  int rank;
  must(qxCommInit(&world), "qxCommInit");
  must(qxCommUserRank(world, &rank), "qxCommUserRank");
  must(qxCommSplit(world, 0, 0, &pair), "qxCommSplit");
  if (rank == 0) {
    must(qxBarrier(world, &barrier), "qxBarrier");
    /* The other rank comes when it has a message from here. */
    while (strstr(text, "rank 1 (") == NULL || strstr(text, "has not called it") == NULL)
      must(qxCommWaits(world, text, sizeof text), "qxCommWaits");
    printf("%s\n", text);
    must(qxSend(&value, 1, qxFloat32, 1, world, NULL), "qxSend");
    must(qxWait(barrier), "qxWait");
  } else {
    must(qxRecv(&value, 1, qxFloat32, 0, world, NULL), "qxRecv");
    must(qxBarrier(world, NULL), "qxBarrier");
  }
  /* One adds up, the other looks for the largest. */
  if (qxAllReduce(&value, &value, 1, qxFloat32, rank == 0 ? qxSum : qxMax, pair, NULL) != qxRemoteError) {
    fprintf(stderr, "expected an error, found %f\n", value);
    return 1;
  }
  printf("%s\n", qxGetLastError());
  must(qxCommDestroy(pair), "qxCommDestroy");
  must(qxCommDestroy(world), "qxCommDestroy");
  return 0;
}
