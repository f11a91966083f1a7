/* Loads the plugin and calls it as NCCL's proxy does: `loader PLUGIN FOLDER TEST`, one process a rank, told by RANK and WORLD_SIZE. Handles go
 * through files of the folder, where NCCL has its bootstrap. Lines of the plugin's log come on standard error. It prints one line that says
 * what has been found right; the first fault ends it with status 1, and a wait without an end with status 3. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../net_v8.h"

#define WITHIN_SECONDS 30
#define LARGEST (4 << 20)

static const ncclNet_v8_t *net;
static const ncclCollNet_v8_t *coll;
static const char *folder;
static int rank, ranks, exchanges;

static void fail(int line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "loader.c:%d: rank %d: ", line, rank);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  _exit(1);
}

#define CHECK(is_right, ...) ((is_right) ? (void)0 : fail(__LINE__, __VA_ARGS__))
#define OK(call) CHECK((call) == ncclSuccess, "expected success of %s, found an error", #call)
#define FAILS(result, call)                                                                           \
  do {                                                                                                \
    int found_ = (call);                                                                              \
    CHECK(found_ == (int)(result), "expected %s (%d) of %s, found %d", #result, result, #call, found_);    \
  } while (0)

static void log_line(ncclDebugLogLevel level, unsigned long flags, const char *file, int line, const char *format, ...) {
  va_list arguments;
  char text[2048];
  (void)flags;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "log %d %s:%d %s\n", level, file, line, text);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static void too_late(int signal) {
  (void)signal;
  static const char text[] = "loader: expected an end, found none\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(4);
  _exit(3);
}

/* What every rank has, in rank order. */
static void all_gather(const void *mine, void *all, size_t size) {
  char name[512], temporary[600];
  snprintf(name, sizeof name, "%s/%d.%d", folder, exchanges, rank);
  snprintf(temporary, sizeof temporary, "%s.new", name);
  FILE *file = fopen(temporary, "w");
  CHECK(file != NULL && fwrite(mine, 1, size, file) == size && fclose(file) == 0 && rename(temporary, name) == 0, "no file %s", name);
  for (int peer = 0; peer < ranks; peer++) {
    snprintf(name, sizeof name, "%s/%d.%d", folder, exchanges, peer);
    while ((file = fopen(name, "r")) == NULL) usleep(1000);
    CHECK(fread((char *)all + peer * size, 1, size, file) == size, "a short file %s", name);
    fclose(file);
  }
  exchanges++;
}

static void barrier(void) {
  char mine = 0, all[64];
  all_gather(&mine, all, 1);
}

/* Descriptors that are open, when nothing opens or closes one any more: the library has threads of its own. */
static int descriptors(void) {
  int before = -1;
  for (int same = 0; same < 5; usleep(10000)) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all) != NULL) count++;
    closedir(all);
    same = count == before ? same + 1 : 0;
    before = count;
  }
  return before;
}

/* Messages. */

typedef struct {
  void *listener, *send, *recv;
} pair_t;

/* A connection to the next rank, and one from the one before, as NCCL makes them: it calls until there is one. */
static void connect_ring(pair_t *pair) {
  char mine[NCCL_NET_HANDLE_MAXSIZE], all[64 * NCCL_NET_HANDLE_MAXSIZE];
  *pair = (pair_t){0};
  memset(mine, 0xa5, sizeof mine);
  OK(net->listen(0, mine, &pair->listener));
  CHECK(pair->listener != NULL, "no listener");
  all_gather(mine, all, sizeof mine);
  char *next = all + (rank + 1) % ranks * NCCL_NET_HANDLE_MAXSIZE;
  while (pair->send == NULL || pair->recv == NULL) {
    if (pair->send == NULL) OK(net->connect(0, next, &pair->send, NULL));
    if (pair->recv == NULL) OK(net->accept(pair->listener, &pair->recv, NULL));
  }
  OK(net->closeListen(pair->listener));
}

static void close_ring(pair_t *pair) {
  OK(net->closeSend(pair->send));
  OK(net->closeRecv(pair->recv));
}

static void *registered(void *comm, void *data, size_t size) {
  void *mhandle = NULL;
  OK(net->regMr(comm, data, size, NCCL_PTR_HOST, &mhandle));
  return mhandle;
}

static unsigned char letter(int seed, size_t place) { return (unsigned char)(seed * 131 + place * 7 + (place >> 8) * 13 + (place >> 16)); }

static void fill(unsigned char *data, int seed, size_t size) {
  for (size_t i = 0; i < size; i++) data[i] = letter(seed, i);
}

static void expect_filled(const unsigned char *data, int seed, size_t size, int line) {
  for (size_t i = 0; i < size; i++)
    if (data[i] != letter(seed, i)) fail(line, "byte %zu of %zu of message %d is wrong", i, size, seed);
}

/* Eight messages in flight each way, of sizes that differ, into buffers with room behind. */
static void test_pingpong(void) {
  static const int SIZES[] = {0, 1, 7, 4096, 65537, 1 << 20, LARGEST, 3};
  enum { FLIGHT = 8, ROUNDS = 3 };
  int before = descriptors();
  pair_t pair;
  connect_ring(&pair);
  unsigned char *out = malloc((size_t)FLIGHT * LARGEST), *in = malloc((size_t)FLIGHT * (LARGEST + 16));
  void *of_out = registered(pair.send, out, (size_t)FLIGHT * LARGEST), *of_in = registered(pair.recv, in, (size_t)FLIGHT * (LARGEST + 16));
  int previous = (rank + ranks - 1) % ranks;
  for (int round = 0; round < ROUNDS; round++) {
    void *sent[FLIGHT] = {0}, *received[FLIGHT] = {0};
    int left = 2 * FLIGHT;
    bool is_sent[FLIGHT] = {0}, is_received[FLIGHT] = {0};
    memset(in, 0xee, (size_t)FLIGHT * (LARGEST + 16));
    for (int i = 0; i < FLIGHT; i++) fill(out + (size_t)i * LARGEST, rank * 100 + round * 10 + i, SIZES[(i + round) % 8]);
    /* In one round the receiver has posted before anybody sends, in another the messages wait for it. */
    for (int turn = 0; turn < 2; turn++) {
      if (turn == (round == 1)) {
        for (int i = 0; i < FLIGHT; i++) {
          void *to = in + (size_t)i * (LARGEST + 16);
          int room = SIZES[(i + round) % 8] + 16, tag = previous + i;
          OK(net->irecv(pair.recv, 1, &to, &room, &tag, &of_in, &received[i]));
          CHECK(received[i] != NULL, "no request of receive %d", i);
        }
      } else {
        for (int i = 0; i < FLIGHT; i++) {
          OK(net->isend(pair.send, out + (size_t)i * LARGEST, SIZES[(i + round) % 8], rank + i, of_out, &sent[i]));
          CHECK(sent[i] != NULL, "no request of send %d", i);
        }
      }
      if (turn == 0) barrier();
    }
    while (left > 0) {
      for (int i = 0; i < FLIGHT; i++) {
        int done = -1, size = -1;
        if (!is_sent[i]) {
          OK(net->test(sent[i], &done, &size));
          if (done) CHECK(size == SIZES[(i + round) % 8], "send %d says %d bytes", i, size);
          left -= is_sent[i] = done;
        }
        if (!is_received[i]) {
          size = -1;
          OK(net->test(received[i], &done, &size));
          if (!done) continue;
          CHECK(size == SIZES[(i + round) % 8], "receive %d says %d bytes, not %d", i, size, SIZES[(i + round) % 8]);
          unsigned char *data = in + (size_t)i * (LARGEST + 16);
          expect_filled(data, previous * 100 + round * 10 + i, size, __LINE__);
          for (int k = 0; k < 16; k++) CHECK(data[size + k] == 0xee, "receive %d wrote behind its message", i);
          is_received[i] = true;
          left--;
        }
      }
    }
  }
  void *flush = &flush;
  OK(net->iflush(pair.recv, 1, (void *[]){in}, (int[]){1}, &of_in, &flush));
  CHECK(flush == NULL, "a flush of host memory");
  OK(net->deregMr(pair.send, of_out));
  OK(net->deregMr(pair.recv, of_in));
  close_ring(&pair);
  CHECK(descriptors() == before, "%d descriptors before, %d after", before, descriptors());
  free(out), free(in);
}

/* As many as NCCL may have at once, and one more, which is to be asked for again. */
static void test_requests_run_out(void) {
  pair_t pair;
  connect_ring(&pair);
  unsigned char byte[NCCL_NET_MAX_REQUESTS + 1] = {0};
  void *mhandle = registered(pair.recv, byte, sizeof byte), *requests[NCCL_NET_MAX_REQUESTS + 1], *sent;
  int one = 1, tag = 0, done = 0;
  for (int i = 0; i <= NCCL_NET_MAX_REQUESTS; i++) {
    void *to = byte + i;
    requests[i] = &done;
    OK(net->irecv(pair.recv, 1, &to, &one, &tag, &mhandle, &requests[i]));
    CHECK((requests[i] == NULL) == (i == NCCL_NET_MAX_REQUESTS), "request %d is %p", i, requests[i]);
    for (int k = 0; k < i; k++) CHECK(requests[k] != requests[i], "request %d is request %d", i, k);
  }
  barrier();
  unsigned char letters[NCCL_NET_MAX_REQUESTS];
  void *of_letters = registered(pair.send, letters, sizeof letters);
  for (int i = 0; i < NCCL_NET_MAX_REQUESTS; i++) {
    letters[i] = 'a' + i;
    OK(net->isend(pair.send, letters + i, 1, 0, of_letters, &sent));
    for (done = 0; !done;) OK(net->test(sent, &done, NULL));
  }
  /* The last one first: all before it have come then, and a slot is free only when it was asked after. */
  for (int i = NCCL_NET_MAX_REQUESTS - 1; i >= 0; i--) {
    void *again = byte;
    for (done = 0; !done;) OK(net->test(requests[i], &done, NULL));
    if (i == 0) break;
    OK(net->irecv(pair.recv, 1, &again, &one, &tag, &mhandle, &sent));
    CHECK(sent == NULL, "a request in the place of one that has ended and was not asked after");
  }
  for (int i = 0; i < NCCL_NET_MAX_REQUESTS; i++) CHECK(byte[i] == 'a' + i, "message %d is %c", i, byte[i]);
  void *to = byte;
  OK(net->irecv(pair.recv, 1, &to, &one, &tag, &mhandle, &requests[0]));
  CHECK(requests[0] != NULL, "no request when all have ended");
  barrier();
  close_ring(&pair);
}

/* Tests a request to its end, which is to be an error. */
static void expect_error(ncclResult_t (*test)(void *, int *, int *), void *request, int expected) {
  int done = 0, size, found;
  do found = test(request, &done, &size);
  while (found == ncclSuccess && !done);
  CHECK(!done && found == expected, "expected error %d, found %d, done %d", expected, found, done);
  FAILS(expected, test(request, &done, &size));
  CHECK(!done, "done, after an error");
}

static void mismatch(int size, int tag, ncclResult_t expected) {
  pair_t pair;
  connect_ring(&pair);
  unsigned char data[200] = {0}, guarded[200];
  memset(guarded, 0xee, sizeof guarded);
  void *of_data = registered(pair.send, data, sizeof data), *of_guarded = registered(pair.recv, guarded, sizeof guarded), *request, *to = guarded;
  int room = 100, expected_tag = 5;
  if (rank == 0) {
    OK(net->isend(pair.send, data, size, tag, of_data, &request));
  } else {
    OK(net->irecv(pair.recv, 1, &to, &room, &expected_tag, &of_guarded, &request));
    expect_error(net->test, request, expected);
    for (int i = 0; i < 200; i++) CHECK(guarded[i] == 0xee, "byte %d is written", i);
    FAILS(expected, net->irecv(pair.recv, 1, &to, &room, &expected_tag, &of_guarded, &request));
    CHECK(request == NULL, "a request beside an error");
  }
  barrier();
  close_ring(&pair);
}

static void test_short_buffer(void) { mismatch(101, 5, ncclInvalidUsage); }
static void test_wrong_tag(void) { mismatch(100, 6, ncclInternalError); }

/* Rank 1 dies while messages are under way both ways, of which more are posted than sockets hold. */
static void test_peer_dies(void) {
  pair_t pair;
  connect_ring(&pair);
  unsigned char *data = calloc(2, 8 * LARGEST);
  void *of_send = registered(pair.send, data, 16 * LARGEST), *of_recv = registered(pair.recv, data, 16 * LARGEST), *send, *recv, *second, *to = data;
  int size = 8 * LARGEST, tag = 0, done;
  OK(net->isend(pair.send, data + size, size, 0, of_send, &send));
  OK(net->irecv(pair.recv, 1, &to, &size, &tag, &of_recv, &recv));
  OK(net->irecv(pair.recv, 1, &to, &size, &tag, &of_recv, &second));
  barrier();
  if (rank == 1) raise(SIGKILL);
  double began = now();
  expect_error(net->test, send, ncclRemoteError);
  expect_error(net->test, recv, ncclRemoteError);
  FAILS(ncclRemoteError, net->test(second, &done, NULL));
  CHECK(now() - began < 5, "%g s until an error", now() - began);
  close_ring(&pair);
}

static void test_nobody_listens(void) {
  void *listener, *send;
  char handle[NCCL_NET_HANDLE_MAXSIZE];
  ncclResult_t found;
  int before = descriptors();
  OK(net->listen(0, handle, &listener));
  OK(net->closeListen(listener));
  do found = net->connect(0, handle, &send, NULL);
  while (found == ncclSuccess && send == NULL);
  CHECK(found == ncclRemoteError && send == NULL, "found %d", found);
  CHECK(descriptors() == before, "descriptors are left");
}

/* A connection of somebody who has seen the handle: where the address and the cookie are is the plugin's. */
static int dial(const char *handle) {
  struct sockaddr_in at;
  memcpy(&at, handle + 8, sizeof at);
  CHECK(at.sin_family == AF_INET, "an address of family %d", at.sin_family);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "no connection");
  return fd;
}

static void expect_nobody(void *listener) {
  void *made;
  for (int i = 0; i < 10; i++) {
    OK(net->accept(listener, &made, NULL));
    CHECK(made == NULL, "a stranger is taken for a rank");
  }
}

/* Whoever does not know the cookie is not taken for a rank; those that say nothing keep no rank out, be they many. */
static void test_strangers(void) {
  enum { MANY = 40 };
  pair_t pair = {0};
  char mine[NCCL_NET_HANDLE_MAXSIZE], stranger[16] = "GET / HTTP/1.1\r", hello[16] = {0};
  int before = descriptors(), all[MANY];
  OK(net->listen(0, mine, &pair.listener));
  memcpy(hello, mine, 8);
  for (int i = 0; i < MANY; i++) {
    int wrong = dial(mine);
    if (i % 2 == 0) CHECK(send(wrong, stranger, 16, MSG_NOSIGNAL) == 16, "nothing sent");
    else CHECK(send(wrong, hello, 3, MSG_NOSIGNAL) == 3 && shutdown(wrong, SHUT_WR) == 0, "nothing sent");
    close(wrong);
  }
  expect_nobody(pair.listener);
  for (int i = 0; i < MANY; i++) all[i] = dial(mine);
  expect_nobody(pair.listener);
  /* One that knows it is heard to its end, though another comes meanwhile. */
  int slow = dial(mine);
  CHECK(send(slow, hello, 8, MSG_NOSIGNAL) == 8, "nothing sent");
  expect_nobody(pair.listener);
  int silent = dial(mine);
  expect_nobody(pair.listener);
  CHECK(send(slow, hello + 8, 8, MSG_NOSIGNAL) == 8, "nothing sent");
  while (pair.recv == NULL) OK(net->accept(pair.listener, &pair.recv, NULL));
  OK(net->closeRecv(pair.recv));
  for (int i = 0; i < MANY; i++) close(all[i]);
  close(slow);
  close(silent);
  /* Many at once are all ranks. */
  for (int i = 0; i < MANY; i++) CHECK(send(all[i] = dial(mine), hello, 16, MSG_NOSIGNAL) == 16, "nothing sent");
  for (int i = 0; i < MANY; i++) {
    for (pair.recv = NULL; pair.recv == NULL;) OK(net->accept(pair.listener, &pair.recv, NULL));
    OK(net->closeRecv(pair.recv));
    close(all[i]);
  }
  pair.recv = NULL;
  while (pair.send == NULL) OK(net->connect(0, mine, &pair.send, NULL));
  while (pair.recv == NULL) OK(net->accept(pair.listener, &pair.recv, NULL));
  unsigned char byte = 7, got = 0;
  void *of_send = registered(pair.send, &byte, 1), *of_recv = registered(pair.recv, &got, 1), *sent, *received, *to = &got;
  int one = 1, tag = 0, done = 0;
  OK(net->isend(pair.send, &byte, 1, 0, of_send, &sent));
  OK(net->irecv(pair.recv, 1, &to, &one, &tag, &of_recv, &received));
  while (!done) OK(net->test(received, &done, NULL));
  CHECK(got == 7, "got %d", got);
  close_ring(&pair);
  OK(net->closeListen(pair.listener));
  CHECK(descriptors() == before, "%d descriptors before, %d after", before, descriptors());
}

static void test_registration(void) {
  pair_t pair;
  connect_ring(&pair);
  unsigned char data[64];
  void *mhandle, *request, *to = data + 60;
  int size = 8, tag = 0;
  ncclNetProperties_v8_t properties;
  OK(net->getProperties(0, &properties));
  CHECK(properties.ptrSupport == NCCL_PTR_HOST && properties.maxRecvs == 1 && properties.regIsGlobal == 0, "properties");
  FAILS(ncclInternalError, net->getProperties(1, &properties));
  FAILS(ncclInvalidUsage, net->regMr(pair.send, data, 64, NCCL_PTR_CUDA, &mhandle));
  mhandle = registered(pair.send, data, 64);
  FAILS(ncclInternalError, net->isend(pair.send, data + 60, 8, 0, mhandle, &request));
  FAILS(ncclInternalError, net->isend(pair.send, data - 1, 8, 0, mhandle, &request));
  FAILS(ncclInternalError, net->isend(pair.send, data, 8, 0, NULL, &request));
  FAILS(ncclInternalError, net->isend(pair.send, data, -1, 0, mhandle, &request));
  FAILS(ncclInternalError, net->irecv(pair.recv, 1, &to, &size, &tag, &mhandle, &request));
  FAILS(ncclInternalError, net->irecv(pair.recv, 2, (void *[]){data, data}, (int[]){1, 1}, (int[]){0, 0}, (void *[]){mhandle, mhandle}, &request));
  OK(net->deregMr(pair.send, mhandle));
  barrier();
  close_ring(&pair);
}

/* NCCL leaves a network out that does not start, and asks CollNet for devices if it starts. */
static void test_no_manager(void) {
  int count = -1;
  FAILS(ncclSystemError, net->init(log_line));
  FAILS(ncclSystemError, net->init(log_line));
  OK(net->devices(&count));
  CHECK(count == 0, "%d devices", count);
  count = -1;
  OK(coll->init(log_line));
  OK(coll->devices(&count));
  CHECK(count == 0, "%d devices", count);
  OK(coll->devices(&count));
}

#include "loader_collectives.h"

static const struct {
  const char *name;
  void (*run)(void);
  bool is_started; /* by the test itself */
} TESTS[] = {
    {"pingpong", test_pingpong, false},
    {"requests_run_out", test_requests_run_out, false},
    {"short_buffer", test_short_buffer, false},
    {"wrong_tag", test_wrong_tag, false},
    {"peer_dies", test_peer_dies, false},
    {"nobody_listens", test_nobody_listens, false},
    {"strangers", test_strangers, false},
    {"registration", test_registration, false},
    {"no_manager", test_no_manager, true},
    COLLECTIVE_TESTS,
};

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  rank = atoi(getenv("RANK"));
  ranks = atoi(getenv("WORLD_SIZE"));
  folder = argv[2];
  signal(SIGALRM, too_late);
  alarm(WITHIN_SECONDS);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL, "%s", dlerror());
  net = dlsym(library, "ncclNetPlugin_v8");
  coll = dlsym(library, "ncclCollNetPlugin_v8");
  CHECK(net != NULL && coll != NULL, "%s", dlerror());
  for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++) {
    if (strcmp(TESTS[i].name, argv[3]) != 0) continue;
    if (!TESTS[i].is_started) {
      int count = 0;
      OK(net->init(log_line));
      OK(net->devices(&count));
      CHECK(count == 1, "%d devices", count);
    }
    TESTS[i].run();
    /* NCCL unloads it with its last communicator; the threads behind it go on. */
    dlclose(library);
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL, "the plugin is gone, with threads that run in it");
    printf("%s: right\n", argv[3]);
    return 0;
  }
  return 2;
}
