// The plainest peer: a ring over the kernel's TCP. AllReduce is a reduce-scatter and an all-gather of N - 1 steps each, the
// vector cut in N pieces; the barrier is a token that goes round twice. It sleeps in poll() when there is nothing to do.
//
//   tcp_ring RANK RANKS OWN_ADDRESS NEXT_ADDRESS CASE...        cases as measure.h writes them
//
// All ranks are started at about the same time; each ends by itself, with a message, if its neighbours stay silent.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

enum { PORT = 7000, SILENCE_MS = 20000, CONNECT_MS = 10000, RETRY_MS = 5 };

static int rank, ranks, to_next, from_previous;

static void fail(const char *what) {
  fprintf(stderr, "tcp_ring: rank %d: expected to %s, found \"%s\"\n", rank, what, strerror(errno));
  exit(1);
}

// Counts what send() or recv() moved; whether it was anything.
static bool moved(ssize_t bytes, size_t *done, const char *what) {
  if (bytes > 0) {
    *done += (size_t)bytes;
    return true;
  }
  if (bytes == 0) errno = ECONNRESET;
  if (errno != EAGAIN && errno != EINTR) fail(what);
  return false;
}

// Where received bytes go: as they are to `place`; or, with `addend`, as numbers, each plus its addend.
typedef struct {
  float *place;
  const float *addend;
  size_t bytes;
} Incoming;

// Sends and receives at once, so that a ring of full buffers cannot stand still.
static void exchange(const void *outgoing, size_t out_bytes, Incoming in) {
  // Sums are made while the bytes are still in the cache; what is less than a number waits for the rest of it.
  static _Alignas(64) char piece[64 << 10];
  size_t sent = 0, received = 0, held = 0, summed = 0;
  while (sent < out_bytes || received < in.bytes) {
    bool progress = false;
    if (sent < out_bytes)
      progress |= moved(send(to_next, (const char *)outgoing + sent, out_bytes - sent, MSG_NOSIGNAL), &sent, "send to the next rank");
    if (received < in.bytes && !in.addend) {
      progress |= moved(recv(from_previous, (char *)in.place + received, in.bytes - received, 0), &received, "receive from the rank before");
    } else if (received < in.bytes) {
      size_t room = sizeof piece - held, left = in.bytes - received, before = received;
      if (moved(recv(from_previous, piece + held, left < room ? left : room, 0), &received, "receive from the rank before")) {
        progress = true;
        held += received - before;
        const float *numbers = (const float *)(void *)piece;
        size_t whole = held / sizeof(float);
        for (size_t i = 0; i < whole; i++) in.place[summed + i] = in.addend[summed + i] + numbers[i];
        summed += whole;
        held -= whole * sizeof(float);
        memmove(piece, piece + whole * sizeof(float), held);
      }
    }
    if (progress) continue;
    // A negative descriptor is one that poll() passes over.
    struct pollfd ready[2] = {{.fd = sent < out_bytes ? to_next : -1, .events = POLLOUT},
                              {.fd = received < in.bytes ? from_previous : -1, .events = POLLIN}};
    if (poll(ready, 2, SILENCE_MS) == 0) {
      errno = ETIMEDOUT;
      fail("hear from a neighbour");
    }
  }
}

static size_t first_of(size_t count, int piece) { return count * (size_t)piece / (size_t)ranks; }

static size_t bytes_of(size_t count, int piece) {
  return (first_of(count, piece + 1) - first_of(count, piece)) * sizeof(float);
}

static void all_reduce(const float *input, float *output, size_t count) {
  for (int step = 0; step < ranks - 1; step++) {
    int out = (rank - step + ranks) % ranks, in = (rank - step - 1 + ranks) % ranks;
    const float *from = step ? output : input;
    exchange(from + first_of(count, out), bytes_of(count, out),
             (Incoming){output + first_of(count, in), input + first_of(count, in), bytes_of(count, in)});
  }
  for (int step = 0; step < ranks - 1; step++) {
    int out = (rank + 1 - step + ranks) % ranks, in = (rank - step + ranks) % ranks;
    exchange(output + first_of(count, out), bytes_of(count, out),
             (Incoming){output + first_of(count, in), NULL, bytes_of(count, in)});
  }
}

// The first lap says that all have come, the second that all may go.
static void barrier(void) {
  static float token[1];
  for (int lap = 0; lap < 2; lap++) {
    if (rank == 0) exchange(token, 1, (Incoming){NULL, NULL, 0});
    exchange(NULL, 0, (Incoming){token, NULL, 1});
    if (rank != 0) exchange(token, 1, (Incoming){NULL, NULL, 0});
  }
}

static struct sockaddr_in endpoint(const char *address) {
  struct sockaddr_in made = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  if (inet_pton(AF_INET, address, &made.sin_addr) != 1) give_up("an IPv4 address");
  return made;
}

static int tcp_socket(void) {
  int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) fail("make a socket");
  return made;
}

static void make_ready(int connection) {
  int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (fcntl(connection, F_SETFL, O_NONBLOCK)) fail("make a connection non-blocking");
}

static void join_ring(const char *own, const char *next) {
  struct sockaddr_in here = endpoint(own), there = endpoint(next);
  int listener = tcp_socket(), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 1)) fail("listen");
  for (int waited = 0;; waited += RETRY_MS) {
    to_next = tcp_socket();
    if (!connect(to_next, (struct sockaddr *)&there, sizeof there)) break;
    if (waited >= CONNECT_MS) fail("connect to the next rank");
    close(to_next);
    usleep(RETRY_MS * 1000);
  }
  struct pollfd called = {.fd = listener, .events = POLLIN};
  if (poll(&called, 1, CONNECT_MS) != 1) fail("be called by the rank before");
  from_previous = accept(listener, NULL, NULL);
  if (from_previous < 0) fail("be called by the rank before");
  close(listener);
  make_ready(to_next), make_ready(from_previous);
}

int main(int count, char **arguments) {
  if (count < 6) give_up("tcp_ring RANK RANKS OWN_ADDRESS NEXT_ADDRESS CASE...");
  rank = atoi(arguments[1]), ranks = atoi(arguments[2]);
  if (ranks < 2 || rank < 0 || rank >= ranks) give_up("two ranks or more, counted from 0");
  join_ring(arguments[3], arguments[4]);
  Peer peer = {.rank = rank, .ranks = ranks, .all_reduce = all_reduce, .barrier = barrier};
  for (int i = 5; i < count; i++) measure(&peer, arguments[i]);
  return 0;
}
