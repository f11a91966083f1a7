/* Parts of all ranks that come and go: each is made, adds up, and is given back. Run by `quincunx run -n 4 -- ./parts`. */
#include <quincunx.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTS 100

static void must(qxResult_t result, const char *what) {
  if (result != qxSuccess) {
    fprintf(stderr, "%s: %s: %s\n", what, qxGetErrorString(result), qxGetLastError());
    exit(1);
  }
}

int main(void) {
  qxComm_t world, part;
  int number, ranks;
  must(qxCommInit(&world), "qxCommInit");
  must(qxCommCount(world, &ranks), "qxCommCount");
  for (number = 0; number < PARTS; number++) {
    float value = 1;
    must(qxCommSplit(world, 0, 0, &part), "qxCommSplit");
    must(qxAllReduce(&value, &value, 1, qxFloat32, qxSum, part, NULL), "qxAllReduce");
    if (value != (float)ranks) {
      fprintf(stderr, "expected %d, found %f\n", ranks, value);
      return 1;
    }
    must(qxCommDestroy(part), "qxCommDestroy");
  }
  printf("%d parts, destroyed\n", PARTS);
  fflush(stdout);
  /* Whoever wants to see what is left presses return. */
  getchar();
  must(qxCommDestroy(world), "qxCommDestroy");
  return 0;
}
