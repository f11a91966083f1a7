// What both peers do with a collective: time it, check it, and say it as one line of JSON. The peer brings its own
// AllReduce and barrier; this file knows no network.
//
// A case is written BYTES:ITERATIONS:WARM_UP; 0 bytes is a barrier. As in `quincunx perf`, the first repetition of the
// warm-up and the last of all are checked in every element, at every rank, and every repetition is timed by itself.
#ifndef MEASURE_H
#define MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  int rank, ranks;
  void (*all_reduce)(const float *input, float *output, size_t count);  // FP32 sum, not in place
  void (*barrier)(void);
} Peer;

static void give_up(const char *what) {
  fprintf(stderr, "expected %s\n", what);
  exit(2);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Processor time of this process, the kernel's on its behalf included.
static double processor_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *vector(size_t count) {
  // One element at least, so that a barrier needs no case of its own.
  float *made = calloc(count + 1, sizeof(float));
  if (!made) give_up("memory for a vector");
  return made;
}

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

// Small whole numbers: their sums are exact in whatever order they are made.
static float element(int rank, size_t index) { return (float)((index % 61) + (size_t)rank); }

static size_t wrong_elements(const Peer *peer, const float *output, size_t count) {
  size_t wrong = 0;
  float ranks = (float)peer->ranks, of_ranks = ranks * (ranks - 1) / 2;
  for (size_t i = 0; i < count; i++) wrong += output[i] != ranks * element(0, i) + of_ranks;
  return wrong;
}

static void once(const Peer *peer, const float *input, float *output, size_t count) {
  if (count) {
    peer->all_reduce(input, output, count);
  } else {
    peer->barrier();
  }
}

// Runs one case at this rank; rank 0 prints: the mean time of the slowest rank, its own median and 99th percentile,
// the wrong elements of all ranks, and the processor time of a repetition, the mean of all ranks.
static void measure(const Peer *peer, const char *text) {
  size_t bytes;
  int iterations, warm_up;
  if (sscanf(text, "%zu:%d:%d", &bytes, &iterations, &warm_up) != 3 || iterations < 1 || warm_up < 1 || bytes % sizeof(float))
    give_up("a case as BYTES:ITERATIONS:WARM_UP, bytes a multiple of 4, at least one of each repetition");
  size_t count = bytes / sizeof(float);
  float *input = vector(count), *output = vector(count);
  double *times = calloc((size_t)iterations, sizeof(double));
  if (!times) give_up("memory for the times");
  for (size_t i = 0; i < count; i++) input[i] = element(peer->rank, i);

  once(peer, input, output, count);
  size_t wrong = wrong_elements(peer, output, count);
  memset(output, 0, bytes);
  for (int i = 1; i < warm_up; i++) once(peer, input, output, count);

  peer->barrier();
  double start = seconds(), spent = processor_seconds();
  for (int i = 0; i < iterations; i++) {
    double begun = seconds();
    once(peer, input, output, count);
    times[i] = seconds() - begun;
  }
  double mean = (seconds() - start) / iterations;
  double processor = (processor_seconds() - spent) / iterations;
  wrong += wrong_elements(peer, output, count);
  qsort(times, (size_t)iterations, sizeof(double), ascending);

  // Each rank fills places of its own, so that the sum is a list of all.
  size_t ranks = (size_t)peer->ranks, me = (size_t)peer->rank;
  float *mine = vector(3 * ranks), *all = vector(3 * ranks);
  mine[me] = (float)(mean * 1e6);
  mine[ranks + me] = (float)wrong;
  mine[2 * ranks + me] = (float)(processor * 1e6);
  peer->all_reduce(mine, all, 3 * ranks);
  double slowest = 0, wrong_everywhere = 0, processors = 0;
  for (size_t rank = 0; rank < ranks; rank++) {
    if (all[rank] > slowest) slowest = all[rank];
    wrong_everywhere += all[ranks + rank];
    processors += all[2 * ranks + rank];
  }
  if (peer->rank == 0) {
    printf("{\"bytes\": %zu, \"mean_us\": %.3f, \"median_us\": %.3f, \"p99_us\": %.3f, \"wrong\": %.0f, "
           "\"rank_processor_us\": %.3f}\n", bytes, slowest,
           times[iterations / 2] * 1e6, times[(int)(iterations * 0.99)] * 1e6, wrong_everywhere, processors / peer->ranks);
    fflush(stdout);
  }
  free(input), free(output), free(times), free(mine), free(all);
}

#endif
