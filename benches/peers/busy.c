/* A rank that is always busy, for restarts.py: begins an AllReduce of 256 KiB before the one before has ended and looks at every element of
   every sum, until standard input is closed at rank 0. Says how many have ended, and in the end how many were wrong. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <quincunx.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define COUNT (64 << 10)

static int values[2][COUNT];

static void must(qxResult_t result, const char *what) {
  if (result == qxSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, qxGetErrorString(result), qxGetLastError());
  exit(1);
}

/* Whether nobody will say anything any more. */
static int is_over(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  char byte;
  return poll(&input, 1, 0) > 0 && read(0, &byte, 1) <= 0;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

int main(void) {
  qxComm_t comm;
  int rank, ranks, over = 0, wrong = 0;
  long ended = 0, last = -1;
  must(qxCommInit(&comm), "qxCommInit");
  must(qxCommUserRank(comm, &rank), "qxCommUserRank");
  must(qxCommCount(comm, &ranks), "qxCommCount");
  qxRequest_t requests[2];
  double told = seconds();
  for (long number = 0; last < 0 || ended <= last; number++) {
    if (last < 0) {
      /* The first element says whether rank 0 wants to end. */
      int *buffer = values[number % 2];
      over = over || (rank == 0 && is_over());
      buffer[0] = over;
      for (int i = 1; i < COUNT; i++) buffer[i] = (int)(number % 1000) + rank;
      must(qxAllReduce(buffer, buffer, COUNT, qxInt32, qxSum, comm, &requests[number % 2]), "qxAllReduce");
    }
    if (number == 0) continue;
    must(qxWait(requests[ended % 2]), "qxWait");
    const int *sums = values[ended % 2];
    int expected = (int)(ended % 1000) * ranks + ranks * (ranks - 1) / 2, differ = 0;
    for (int i = 1; i < COUNT; i++) differ |= sums[i] != expected;
    wrong += differ;
    /* All ranks learn it from the same sum; the one after it has begun already. */
    if (sums[0] > 0 && last < 0) last = ended + 1;
    ended++;
    if (seconds() - told > 0.05) {
      told = seconds();
      printf("%ld\n", ended);
      fflush(stdout);
    }
  }
  printf("%ld\nwrong %d\n", ended, wrong);
  fflush(stdout);
  must(qxCommDestroy(comm), "qxCommDestroy");
  return 0;
}
