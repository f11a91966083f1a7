/* The loader's tests of collectives: included by loader.c alone. Values are such that no order of additions rounds, so that results are
 * compared by their bits. */

#define FLIGHT 8

typedef struct {
  void *comm;
  int rank; /* in it */
} member_t;

/* A communicator of all ranks, of which rank `turn` is the first, as NCCL makes them: handles first, then all connect at once. */
static ncclResult_t try_connect_all(member_t *made, int turn, bool comes) {
  char mine[NCCL_NET_HANDLE_MAXSIZE], all[64 * NCCL_NET_HANDLE_MAXSIZE];
  void *listener = NULL, *handles[64];
  OK(coll->listen(0, mine, &listener));
  all_gather(mine, all, sizeof mine);
  for (int i = 0; i < ranks; i++) handles[i] = all + (i + turn) % ranks * NCCL_NET_HANDLE_MAXSIZE;
  made->comm = NULL;
  made->rank = (rank + ranks - turn) % ranks;
  ncclResult_t found = comes ? coll->connect(handles, ranks, made->rank, listener, &made->comm) : ncclSystemError;
  OK(coll->closeListen(listener));
  CHECK((found == ncclSuccess) == (made->comm != NULL), "result %d and communicator %p", found, made->comm);
  return found;
}

static member_t connect_all(int turn) {
  member_t made;
  OK(try_connect_all(&made, turn, true));
  return made;
}

/* Lets the test look at the network while the communicator is there. */
static void show(void) {
  char name[512];
  FILE *ready;
  barrier();
  snprintf(name, sizeof name, "%s/ready", folder);
  if (rank == 0) CHECK((ready = fopen(name, "w")) != NULL && fclose(ready) == 0, "no file %s", name);
  snprintf(name, sizeof name, "%s/seen", folder);
  while (access(name, F_OK) != 0) usleep(1000);
}

static void expect_device(void) {
  int count = 0;
  OK(coll->init(log_line));
  OK(coll->devices(&count));
  CHECK(count == 1, "%d devices of collectives", count);
}

/* A float of a sign, so many bits of exponent and of mantissa; of small whole numbers, which it can say. */
static unsigned small_float(int value, int exponent_bits, int mantissa_bits) {
  int sign = value < 0, left = sign ? -value : value, exponent = 0;
  if (left == 0) return 0;
  while (left >> (exponent + 1)) exponent++;
  unsigned mantissa = mantissa_bits >= exponent ? (left - (1 << exponent)) << (mantissa_bits - exponent) : (left - (1 << exponent)) >> (exponent - mantissa_bits);
  unsigned bias = (1u << (exponent_bits - 1)) - 1;
  return (unsigned)sign << (exponent_bits + mantissa_bits) | (exponent + bias) << mantissa_bits | mantissa;
}

static const int BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static void put(void *data, size_t place, ncclDataType_t type, int value) {
  union {
    float f32;
    double f64;
    int64_t i64;
    uint16_t u16;
    char bytes[8];
  } as;
  switch (type) {
    case ncclFloat32: as.f32 = value; break;
    case ncclFloat64: as.f64 = value; break;
    case ncclFloat16: as.u16 = small_float(value, 5, 10); break;
    case ncclBfloat16: as.u16 = small_float(value, 8, 7); break;
    case ncclFloat8e4m3: as.u16 = small_float(value, 4, 3); break;
    case ncclFloat8e5m2: as.u16 = small_float(value, 5, 2); break;
    default: as.i64 = value; break;
  }
  memcpy((char *)data + place * BYTES[type], as.bytes, BYTES[type]);
}

/* What a rank brings in at a place: few values of narrow types, signs of those that have them. */
static int brings(int who, size_t place, ncclDataType_t type, ncclRedOp_t op, int seed) {
  unsigned number = (unsigned)(place * 2654435761u + who * 40503u + seed * 9973u) >> 7;
  if (op == ncclProd) return 1 + number % 2;
  if (BYTES[type] == 1) return number % 3;
  int value = number % (BYTES[type] == 2 ? 30 : 100000);
  bool is_signed = type != ncclUint32 && type != ncclUint64;
  return is_signed && number % 5 == 0 ? -value : value;
}

static int reduced(size_t place, ncclDataType_t type, ncclRedOp_t op, int seed) {
  int result = brings(0, place, type, op, seed);
  for (int who = 1; who < ranks; who++) {
    int value = brings(who, place, type, op, seed);
    result = op == ncclSum ? result + value : op == ncclProd ? result * value : op == ncclMax ? (value > result ? value : result) : (value < result ? value : result);
  }
  return result;
}

static void *register_at(member_t *of, void *data, size_t size) {
  void *mhandle = NULL;
  OK(coll->regMr(of->comm, data, size, NCCL_PTR_HOST, &mhandle));
  return mhandle;
}

/* An AllReduce under way. */
typedef struct {
  member_t *of;
  unsigned char *send, *recv, *expected;
  void *of_send, *of_recv, *request;
  size_t bytes;
} reduction_t;

static reduction_t all_reduce(member_t *of, size_t count, ncclDataType_t type, ncclRedOp_t op, int seed) {
  reduction_t made = {.of = of, .bytes = count * BYTES[type]};
  made.send = malloc(made.bytes + 1), made.recv = malloc(made.bytes + 8), made.expected = malloc(made.bytes + 8);
  memset(made.recv, 0xee, made.bytes + 8);
  memset(made.expected, 0xee, made.bytes + 8);
  for (size_t i = 0; i < count; i++) {
    put(made.send, i, type, brings(of->rank, i, type, op, seed));
    put(made.expected, i, type, reduced(i, type, op, seed));
  }
  made.of_send = register_at(of, made.send, made.bytes);
  made.of_recv = register_at(of, made.recv, made.bytes);
  OK(coll->iallreduce(of->comm, made.send, made.recv, (int)count, type, op, made.of_send, made.of_recv, &made.request));
  CHECK(made.request != NULL, "no request");
  return made;
}

static void drop(reduction_t *of) {
  OK(coll->deregMr(of->of->comm, of->of_send));
  OK(coll->deregMr(of->of->comm, of->of_recv));
  free(of->send), free(of->recv), free(of->expected);
}

/* Whether it has ended; the result is right then. */
static bool has_ended(reduction_t *of, const char *what) {
  int done = -1, size = -1;
  if (of->request == NULL) return true;
  OK(coll->test(of->request, &done, &size));
  if (!done) return false;
  CHECK((size_t)size == of->bytes, "%s: %d bytes, not %zu", what, size, of->bytes);
  CHECK(memcmp(of->recv, of->expected, of->bytes + 8) == 0, "%s of %zu bytes is wrong", what, of->bytes);
  of->request = NULL;
  drop(of);
  return true;
}

static void expect_all(reduction_t *flight, int count, const char *what) {
  for (int left = count; left > 0;) {
    left = 0;
    for (int i = count - 1; i >= 0; i--) left += !has_ended(&flight[i], what);
  }
}

static void test_allreduce(void) {
  static const size_t COUNTS[] = {1, 3, 1000, 65541, 700000, 2, 255, 4096};
  static const ncclDataType_t TYPES[] = {ncclFloat32, ncclInt32, ncclBfloat16};
  reduction_t flight[48];
  expect_device();
  member_t world = connect_all(0);
  for (int t = 0; t < 3; t++) {
    for (int i = 0; i < FLIGHT; i++) flight[i] = all_reduce(&world, COUNTS[i], TYPES[t], ncclSum, i);
    expect_all(flight, FLIGHT, "sum");
  }
  /* Every type and operation of reduceSupport, all of them under way at once. */
  int count = 0;
  for (int type = 0; type < 12; type++)
    for (int op = 0; op < 4; op++, count++) flight[count] = all_reduce(&world, 77, type, op, count);
  expect_all(flight, count, "each type and operation");
  show();
  OK(coll->closeColl(world.comm));
}

/* Two communicators in which ranks have other numbers, and one after the other many, which leave nothing behind. */
static void test_communicators(void) {
  reduction_t flight[2 * FLIGHT];
  expect_device();
  member_t warm = connect_all(0);
  OK(coll->closeColl(warm.comm));
  int before = descriptors();
  member_t both[2] = {connect_all(0), connect_all(1)};
  for (int i = 0; i < 2 * FLIGHT; i++) {
    /* Only within a communicator have calls an order. */
    int which = rank % 2 ? i / FLIGHT : i % 2, number = rank % 2 ? i % FLIGHT : i / 2;
    flight[i] = all_reduce(&both[which], 500 + 3000 * number, ncclInt32, which ? ncclMax : ncclSum, number + 50 * which);
  }
  expect_all(flight, 2 * FLIGHT, "one of two communicators");
  OK(coll->closeColl(both[0].comm));
  OK(coll->closeColl(both[1].comm));
  for (int i = 0; i < 5; i++) {
    member_t again = connect_all(i % ranks);
    flight[0] = all_reduce(&again, 10, ncclFloat32, ncclSum, i);
    expect_all(flight, 1, "one of many communicators");
    OK(coll->closeColl(again.comm));
  }
  CHECK(descriptors() == before, "%d descriptors before, %d after", before, descriptors());
  show();
}

/* AllGather and ReduceScatter in windows of all parts, as NCCL's proxy cuts them: some end in the midst of a part, one has all. */
static void test_windows(void) {
  enum { COUNT = 6000, WINDOWS = 3 };
  static const size_t SIZES[WINDOWS] = {COUNT * 4, 7000 * 4, 0}; /* a part, more than one, all of them */
  size_t part = COUNT * 4, whole = part * ranks;
  expect_device();
  member_t world = connect_all(1);
  unsigned char *mine = malloc(whole), *all = malloc(whole), *expected = malloc(whole), *result = malloc(part), *expected_part = malloc(part);
  void *of_mine = register_at(&world, mine, whole), *of_all = register_at(&world, all, whole), *of_result = register_at(&world, result, part);
  for (int kind = 0; kind < 2; kind++) {
    for (int w = 0; w < WINDOWS; w++) {
      size_t window = SIZES[w] == 0 ? whole : SIZES[w], first = world.rank * part;
      void *requests[64];
      int count = 0, got[64];
      memset(all, 0xee, whole);
      memset(result, 0xee, part);
      for (size_t i = 0; i < COUNT * (size_t)ranks; i++) {
        put(mine, i, ncclInt32, brings(world.rank, i, ncclInt32, ncclSum, w));
        put(expected, i, ncclInt32, brings(i / COUNT, i % COUNT, ncclInt32, ncclSum, w));
      }
      for (size_t i = 0; i < COUNT; i++) put(expected_part, i, ncclInt32, reduced(world.rank * COUNT + i, ncclInt32, ncclSum, w));
      for (size_t offset = 0; offset < whole; offset += window, count++) {
        size_t bytes = offset + window > whole ? whole - offset : window, begin = offset > first ? offset : first;
        size_t end = offset + bytes < first + part ? offset + bytes : first + part, own = begin < end ? begin - first : 0;
        got[count] = kind == 0 ? (int)bytes : begin < end ? (int)(end - begin) : 0;
        ncclNetSGE_v8_t piece = {kind == 0 ? of_all : of_mine, (kind == 0 ? all : mine) + offset, (uint32_t)bytes};
        if (kind == 0) OK(coll->iallgather(world.comm, mine + own, 1, &piece, part, offset, bytes, of_mine, &requests[count]));
        else OK(coll->ireducescatter(world.comm, 1, &piece, result + own, part, offset, bytes, ncclInt32, ncclSum, of_result, &requests[count]));
        CHECK(requests[count] != NULL, "no request");
      }
      for (int i = 0; i < count; i++) {
        int done = 0, size = -1;
        while (!done) OK(coll->test(requests[i], &done, &size));
        CHECK(size == got[i], "window %d of kind %d says %d bytes, not %d", i, kind, size, got[i]);
      }
      if (kind == 0) {
        /* Gathered: what each rank has put at the beginning of its own. */
        CHECK(memcmp(all, expected, whole) == 0, "an AllGather in windows of %zu bytes is wrong", window);
      } else {
        CHECK(memcmp(result, expected_part, part) == 0, "a ReduceScatter in windows of %zu bytes is wrong", window);
      }
    }
  }
  show();
  OK(coll->deregMr(world.comm, of_mine));
  OK(coll->deregMr(world.comm, of_all));
  OK(coll->deregMr(world.comm, of_result));
  OK(coll->closeColl(world.comm));
  free(mine), free(all), free(expected), free(result), free(expected_part);
}

static void test_unsupported(void) {
  int supported = -1, data[8] = {0}, other[8];
  void *request = data, *mhandle;
  expect_device();
  for (int type = -1; type < 14; type++) {
    for (int op = -1; op < 7; op++) {
      OK(coll->reduceSupport(type, op, &supported));
      CHECK(supported == (type >= 0 && type < 12 && op >= 0 && op < 4), "type %d by operation %d: %d", type, op, supported);
    }
  }
  member_t world = connect_all(0);
  void *of_data = register_at(&world, data, sizeof data), *of_other = register_at(&world, other, sizeof other);
  ncclNetSGE_v8_t piece = {of_other, other, 32}, longer = {of_other, other, 36};
  FAILS(ncclInvalidUsage, coll->regMr(world.comm, data, 4, NCCL_PTR_CUDA, &mhandle));
#define REDUCE(result, ...)                                            \
  do {                                                                 \
    request = data;                                                    \
    FAILS(result, coll->iallreduce(world.comm, __VA_ARGS__, &request)); \
    CHECK(request == NULL, "a request beside an error");               \
  } while (0)
  REDUCE(ncclInvalidUsage, data, other, 4, ncclInt32, ncclAvg, of_data, of_other);
  REDUCE(ncclInvalidUsage, data, other, 4, (ncclDataType_t)12, ncclSum, of_data, of_other);
  REDUCE(ncclInternalError, data, other, -1, ncclInt32, ncclSum, of_data, of_other);
  REDUCE(ncclInternalError, data, other, 9, ncclInt32, ncclSum, of_data, of_other);
  REDUCE(ncclInternalError, data, other + 1, 8, ncclInt32, ncclSum, of_data, of_other);
  REDUCE(ncclInternalError, data, other, 4, ncclInt32, ncclSum, NULL, of_other);
#define GATHER(...) FAILS(ncclInternalError, coll->iallgather(world.comm, data, __VA_ARGS__, of_data, &request))
  GATHER(2, &piece, 16, 0, 32);
  GATHER(1, &piece, 16, 4, 32);
  GATHER(1, &piece, 16, 0, 28);
  GATHER(1, &longer, 18, 0, 36);
#define SCATTER(result, type, op, ...) FAILS(result, coll->ireducescatter(world.comm, 1, &piece, data, __VA_ARGS__, type, op, of_data, &request))
  SCATTER(ncclInvalidUsage, ncclInt32, ncclAvg, 16, 0, 32);
  SCATTER(ncclInternalError, ncclInt32, ncclSum, 18, 2, 32);
  SCATTER(ncclInternalError, ncclInt64, ncclSum, 20, 0, 32);
  OK(coll->iflush(world.comm, data, 4, of_data, &request));
  CHECK(request == NULL, "a flush of host memory");
  /* None of these has begun anything. */
  reduction_t after = all_reduce(&world, 100, ncclFloat32, ncclSum, 1);
  expect_all(&after, 1, "sum after errors");
  /* What the other ranks may have begun meanwhile is out of step from then on. */
  REDUCE(ncclInvalidArgument, data, data + 1, 4, ncclInt32, ncclSum, of_data, of_data);
  REDUCE(ncclInvalidArgument, data, other, 4, ncclInt32, ncclSum, of_data, of_other);
  OK(coll->closeColl(world.comm));
}

/* One that closes waits until the others do, so that nobody misses an answer of a process that has gone; but not for long. */
static void test_leave(void) {
  expect_device();
  for (int late = 0; late < 2; late++) {
    member_t world = connect_all(0);
    barrier();
    double began = now();
    if (rank == 1) usleep(late ? 3500000 : 500000);
    OK(coll->closeColl(world.comm));
    double took = now() - began;
    if (rank == 0) CHECK(late ? took > 1 && took < 3.4 : took > 0.4 && took < 1.9, "%g s until it is closed", took);
    barrier();
  }
}

/* Of each two ranks that cannot have a group both hear of it, and soon. */
static void expect_no_group(bool comes) {
  member_t none;
  expect_device();
  double began = now();
  FAILS(ncclSystemError, try_connect_all(&none, 0, comes));
  CHECK(now() - began < 10, "%g s until an error", now() - began);
  barrier();
}
static void test_no_switch(void) { expect_no_group(true); }
static void test_rank_stays_away(void) { expect_no_group(rank != 1); }

/* Rank 1 comes, hears of the group, and cannot join it: the others hear of that, and the group is given back. */
static void test_rank_cannot_join(void) {
  struct {
    unsigned group[2];
    int32_t is_made;
  } heard;
  char hello[16] = {0}, mine[NCCL_NET_HANDLE_MAXSIZE], all[64 * NCCL_NET_HANDLE_MAXSIZE], no = 0, verdict = 1;
  member_t none;
  void *listener;
  expect_device();
  if (rank != 1) {
    FAILS(ncclSystemError, try_connect_all(&none, 0, true));
  } else {
    OK(coll->listen(0, mine, &listener));
    all_gather(mine, all, sizeof mine);
    memcpy(hello, all, 8);
    hello[8] = 1;
    int fd = dial(all);
    CHECK(send(fd, hello, 16, MSG_NOSIGNAL) == 16 && recv(fd, &heard, sizeof heard, MSG_WAITALL) == sizeof heard, "no word of a group");
    CHECK(heard.is_made == 1, "no group");
    CHECK(send(fd, &no, 1, MSG_NOSIGNAL) == 1 && recv(fd, &verdict, 1, MSG_WAITALL) == 1 && verdict == 0, "no verdict");
    close(fd);
    OK(coll->closeListen(listener));
  }
  show();
}

static void expect_broken(member_t *world) {
  float data[4] = {0};
  void *mhandle = register_at(world, data, sizeof data), *request = data;
  CHECK(coll->iallreduce(world->comm, data, data, 4, ncclFloat32, ncclSum, mhandle, mhandle, &request) != ncclSuccess, "a call after an error");
  CHECK(request == NULL, "a request beside an error");
  OK(coll->closeColl(world->comm));
}

static void test_rank_dies(void) {
  reduction_t flight[FLIGHT];
  expect_device();
  member_t world = connect_all(0);
  for (int i = 0; i < FLIGHT; i++)
    if (rank != 1 || i < 2) flight[i] = all_reduce(&world, 200000, ncclFloat32, ncclSum, i);
  expect_all(flight, 2, "sum before a rank dies");
  barrier();
  if (rank == 1) raise(SIGKILL);
  double began = now();
  for (int i = 2; i < FLIGHT; i++) expect_error(coll->test, flight[i].request, ncclRemoteError);
  CHECK(now() - began < 15, "%g s until an error", now() - began);
  expect_broken(&world);
}

/* The test kills the switch when rank 0 says so: the group goes on among its hosts, and no sum is wrong. */
static void test_switch_dies(void) {
  char ready[512], killed[512];
  int is_killed = 0, all[64], after = 0;
  snprintf(ready, sizeof ready, "%s/ready", folder);
  snprintf(killed, sizeof killed, "%s/killed", folder);
  expect_device();
  member_t world = connect_all(0);
  for (int i = 0; after < 3; i++) {
    reduction_t flight[3];
    for (int k = 0; k < 3; k++) flight[k] = all_reduce(&world, 100000, ncclInt32, ncclSum, 3 * i + k);
    if (i == 2 && rank == 0) fclose(fopen(ready, "w"));
    expect_all(flight, 3, "sum beside a switch that dies");
    is_killed = access(killed, F_OK) == 0;
    all_gather(&is_killed, all, sizeof is_killed);
    after += all[0];
  }
  OK(coll->closeColl(world.comm));
}

/* Rank 0 leaves while a call is under way that rank 1 has not made: its buffers are NCCL's again at once, and rank 1 hears of it. */
static void test_abandoned(void) {
  expect_device();
  member_t world = connect_all(0);
  if (rank == 0) {
    reduction_t lost = all_reduce(&world, 300000, ncclFloat32, ncclSum, 1);
    double began = now();
    OK(coll->closeColl(world.comm));
    CHECK(now() - began < 5, "%g s until it is closed", now() - began);
    memset(lost.recv, 0x11, lost.bytes);
    barrier();
    barrier();
    for (size_t i = 0; i < lost.bytes; i++) CHECK(lost.recv[i] == 0x11, "byte %zu is written after the end", i);
  } else {
    barrier();
    double began = now();
    reduction_t lost = all_reduce(&world, 300000, ncclFloat32, ncclSum, 1);
    expect_error(coll->test, lost.request, ncclRemoteError);
    CHECK(now() - began < 15, "%g s until an error", now() - began);
    expect_broken(&world);
    barrier();
  }
}

/* Rank 1 does not call what rank 0 does, and lives. */
static void test_late(void) {
  expect_device();
  member_t world = connect_all(0);
  if (rank == 0) {
    double began = now();
    reduction_t lost = all_reduce(&world, 10, ncclFloat32, ncclSum, 1);
    expect_error(coll->test, lost.request, ncclRemoteError);
    CHECK(now() - began < 10, "%g s until an error", now() - began);
    barrier();
    expect_broken(&world);
  } else {
    barrier();
    OK(coll->closeColl(world.comm));
  }
}

/* Ranks that call other collectives than each other. */
static void test_disagreement(void) {
  expect_device();
  member_t world = connect_all(0);
  reduction_t lost = all_reduce(&world, 1000, rank == 0 ? ncclFloat32 : ncclInt32, ncclSum, 1);
  expect_error(coll->test, lost.request, ncclRemoteError);
  expect_broken(&world);
}

#define COLLECTIVE_TESTS                                                                                                                   \
  {"allreduce", test_allreduce, false}, {"communicators", test_communicators, false}, {"windows", test_windows, false},                      \
      {"unsupported", test_unsupported, false}, {"leave", test_leave, false}, {"no_switch", test_no_switch, false}, {"rank_stays_away", test_rank_stays_away, false},      \
      {"rank_cannot_join", test_rank_cannot_join, false},      \
      {"rank_dies", test_rank_dies, false}, {"switch_dies", test_switch_dies, false}, {"abandoned", test_abandoned, false},                  \
      {"late", test_late, false}, {"disagreement", test_disagreement, false}
