/* Tokens for experts in C: every token goes to the ranks of two of eight experts, which multiply it by their number plus one, and comes back as the
 * weighted sum. Run by `quincunx run -n 4 -- ./experts`. */
#include <quincunx.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPERTS 8
#define TOPK 2
#define TOKENS 5
#define WIDTH 6
#define MAX_RANKS 8

static void must(qxResult_t result, const char *what) {
  if (result != qxSuccess) {
    fprintf(stderr, "%s: %s: %s\n", what, qxGetErrorString(result), qxGetLastError());
    exit(1);
  }
}

int main(void) {
  qxComm_t comm;
  qxExperts_t experts;
  int rank, ranks;
  must(qxCommInit(&comm), "qxCommInit");
  must(qxCommUserRank(comm, &rank), "qxCommUserRank");
  must(qxCommCount(comm, &ranks), "qxCommCount");
  must(qxExpertsInit(&experts, comm, EXPERTS, TOPK, TOKENS, WIDTH * sizeof(float), NULL), "qxExpertsInit");

  /* Not all ranks have as many tokens; the last has none. */
  size_t mine = rank == ranks - 1 ? 0 : (size_t)(TOKENS - rank % 2);
  float tokens[TOKENS * WIDTH], weights[TOKENS * TOPK], sums[TOKENS * WIDTH];
  int chosen[TOKENS * TOPK];
  for (size_t i = 0; i < mine * WIDTH; i++) tokens[i] = (float)(100 * rank + (int)i);
  for (size_t i = 0; i < mine * TOPK; i++) {
    chosen[i] = (int)(3 * i + (size_t)rank) % EXPERTS;
    weights[i] = 0.5f + (float)i;
  }
  static float came[MAX_RANKS * TOKENS * WIDTH], came_weights[MAX_RANKS * TOKENS * TOPK];
  static int sources[MAX_RANKS * TOKENS], came_experts[MAX_RANKS * TOKENS * TOPK];
  qxArrived arrived = {came, sources, came_experts, came_weights, 0};
  qxRequest_t request;
  must(qxDispatch(tokens, mine, WIDTH, qxFloat32, chosen, weights, NULL, &arrived, experts, &request), "qxDispatch");
  must(qxWait(request), "qxWait");

  /* What this rank's experts make of what has come, by the weights that have come with it. */
  int wrong = 0, each = EXPERTS / ranks;
  for (size_t token = 0; token < arrived.count; token++) {
    float scale = 0;
    for (size_t k = token * TOPK; k < (token + 1) * TOPK; k++)
      if (came_experts[k] / each == rank) scale += came_weights[k] * (float)(came_experts[k] + 1);
    wrong += scale == 0 || (int)came[token * WIDTH] / 100 != sources[token];
    for (size_t i = token * WIDTH; i < (token + 1) * WIDTH; i++) came[i] *= scale;
  }
  must(qxCombine(came, sums, WIDTH, qxFloat32, qxSum, experts, NULL), "qxCombine");
  for (size_t token = 0; token < mine; token++) {
    float scale = 0;
    for (size_t k = token * TOPK; k < (token + 1) * TOPK; k++) scale += weights[k] * (float)(chosen[k] + 1);
    for (size_t i = token * WIDTH; i < (token + 1) * WIDTH; i++) {
      float off = sums[i] - scale * tokens[i];
      wrong += off > 0.01f || off < -0.01f;
    }
  }

  /* What makes no sense is an answer, and nothing has begun. */
  size_t count = arrived.count;
  qxExperts_t others;
  wrong += qxExpertsInit(NULL, comm, EXPERTS, TOPK, TOKENS, 4, NULL) != qxInvalidArgument;
  wrong += qxExpertsInit(&others, NULL, EXPERTS, TOPK, TOKENS, 4, NULL) != qxInvalidArgument;
  wrong += qxExpertsInit(&others, comm, -1, TOPK, TOKENS, 4, NULL) != qxInvalidArgument;
  wrong += qxExpertsInit(&others, comm, EXPERTS, TOPK, 0, 4, NULL) != qxInvalidArgument;
  wrong += qxExpertsInit(&others, comm, EXPERTS, TOPK, TOKENS, 4, "nothing") == qxSuccess;
  wrong += qxExpertsDestroy(NULL) != qxInvalidArgument;
  chosen[0] = EXPERTS;
  wrong += qxDispatch(tokens, 1, WIDTH, qxFloat32, chosen, NULL, NULL, &arrived, experts, NULL) != qxInvalidArgument;
  chosen[0] = -1;
  wrong += qxDispatch(tokens, 1, WIDTH, qxFloat32, chosen, NULL, NULL, &arrived, experts, NULL) != qxInvalidArgument;
  wrong += qxDispatch(NULL, 1, WIDTH, qxFloat32, chosen, NULL, NULL, &arrived, experts, NULL) != qxInvalidArgument;
  wrong += qxDispatch(tokens, 1, WIDTH, qxFloat32, NULL, NULL, NULL, &arrived, experts, NULL) != qxInvalidArgument;
  wrong += qxDispatch(tokens, 1, WIDTH, qxFloat32, chosen, NULL, NULL, NULL, experts, NULL) != qxInvalidArgument;
  wrong += qxDispatch(tokens, 1, WIDTH, qxFloat32, chosen, NULL, NULL, &arrived, NULL, NULL) != qxInvalidArgument;
  wrong += qxDispatch(tokens, TOKENS + 1, WIDTH, qxFloat32, chosen, NULL, NULL, &arrived, experts, NULL) != qxInvalidArgument;
  wrong += qxCombine(came, sums, 1000, qxFloat32, qxSum, experts, NULL) != qxInvalidArgument;
  wrong += qxCombine(came, sums, WIDTH, qxFloat32, qxAvg, experts, NULL) != qxInvalidArgument;
  wrong += qxCombine(came, sums, WIDTH, qxFloat32, qxSum, NULL, NULL) != qxInvalidArgument;
  wrong += mine > 0 && qxCombine(came, NULL, WIDTH, qxFloat32, qxSum, experts, NULL) != qxInvalidArgument;

  wrong += arrived.count != count;
  must(qxExpertsDestroy(experts), "qxExpertsDestroy");
  must(qxCommDestroy(comm), "qxCommDestroy");
  printf("rank %d: %zu tokens came, %d wrong\n", rank, arrived.count, wrong);
  return wrong != 0;
}
