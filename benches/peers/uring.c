// Whether io_uring would spare a node anything: eight merged datagrams a turn from one UDP socket to another over loopback, by
// sendmmsg and recvmmsg as the room `sockets` does it, and by one io_uring_enter with eight sends and eight receives (fixed files, deferred task
// work). Prints the processor time of each, six rounds in turns.
//
//   gcc -O2 -o uring uring.c -luring && ./uring 1040 62 4000     bytes of a frame, frames in a datagram, turns

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

#define DATAGRAMS 8
#define SLOT 65536

static void fail(const char *expected, int error) {
  fprintf(stderr, "uring: expected %s, found \"%s\"; it wants Linux 6.1 or newer, and nothing else at UDP port 4792\n", expected, strerror(error));
  exit(1);
}

static double processor_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void set(int socket, int level, int name, int value) {
  if (setsockopt(socket, level, name, &value, sizeof value)) fail("a socket option", errno);
}

static long by_calls(const int *sockets, struct mmsghdr *out, struct mmsghdr *in) {
  int sent = sendmmsg(sockets[0], out, DATAGRAMS, MSG_DONTWAIT);
  if (sent != DATAGRAMS) fail("all datagrams to be sent", errno);
  long bytes = 0;
  for (int received = 0; received < DATAGRAMS;) {
  int more = recvmmsg(sockets[1], in + received, DATAGRAMS - received, MSG_DONTWAIT, NULL);
  if (more < 0) fail("all datagrams to be received", errno);
  for (int i = 0; i < more; i++) bytes += in[received++].msg_len;
  }
  return bytes;
}

static long by_ring(struct io_uring *ring, struct mmsghdr *out, struct mmsghdr *in) {
  for (int i = 0; i < 2 * DATAGRAMS; i++) {
  struct io_uring_sqe *entry = io_uring_get_sqe(ring);
  int receives = i >= DATAGRAMS;
  if (receives) io_uring_prep_recvmsg(entry, 1, &in[i - DATAGRAMS].msg_hdr, 0);
  else io_uring_prep_sendmsg(entry, 0, &out[i].msg_hdr, 0);
  entry->flags |= IOSQE_FIXED_FILE;
  entry->user_data = receives;
  }
  io_uring_submit_and_wait(ring, 2 * DATAGRAMS);
  long bytes = 0;
  for (int i = 0; i < 2 * DATAGRAMS; i++) {
  struct io_uring_cqe *done;
  int error = io_uring_wait_cqe(ring, &done);
  if (error) fail("a completion", -error);
  if (done->res < 0) fail("sends and receives to succeed", -done->res);
  if (done->user_data) bytes += done->res;
  io_uring_cqe_seen(ring, done);
  }
  return bytes;
}

int main(int count, char **words) {
  if (count != 4) {
  fprintf(stderr, "uring: expected bytes of a frame, frames in a datagram and turns, found %d words; try 1040 62 4000\n", count - 1);
  return 2;
  }
  int frame = atoi(words[1]), frames = atoi(words[2]), turns = atoi(words[3]), length = frame * frames;
  if (frame < 1 || frames < 1 || frames > 64 || turns < 1 || length > 65507) {
  fprintf(stderr, "uring: expected at most 64 frames in 65507 bytes and a turn at least, found %d of %d and %d\n", frames, frame, turns);
  return 2;
  }
  int sockets[2];
  struct sockaddr_in addresses[2] = {0};
  for (int i = 0; i < 2; i++) {
  addresses[i].sin_family = AF_INET;
  addresses[i].sin_addr.s_addr = htonl(0x7f000001 + i);
  addresses[i].sin_port = htons(4792);
  sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
  set(sockets[i], SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(sockets[i], (struct sockaddr *)&addresses[i], sizeof addresses[i])) fail("a free port", errno);
  set(sockets[i], SOL_SOCKET, SO_RCVBUF, 4 << 20);
  set(sockets[i], SOL_SOCKET, SO_SNDBUF, 4 << 20);
  }
  set(sockets[0], SOL_UDP, UDP_SEGMENT, frame);
  set(sockets[1], SOL_UDP, UDP_GRO, 1);
  struct io_uring ring;
  struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
  int error = io_uring_queue_init_params(64, &ring, &params);
  if (!error) error = io_uring_register_files(&ring, sockets, 2);
  if (error) fail("a ring", -error);

  char *memory = calloc(2 * DATAGRAMS, SLOT), controls[DATAGRAMS][128];
  struct iovec pieces[2][DATAGRAMS];
  struct mmsghdr out[DATAGRAMS], in[DATAGRAMS];
  for (int round = 0; round < 6; round++) {
  for (int with_ring = 0; with_ring < 2; with_ring++) {
  double before = processor_seconds();
  long bytes = 0;
  for (int turn = 0; turn < turns; turn++) {
  memset(out, 0, sizeof out);
  memset(in, 0, sizeof in);
  for (int i = 0; i < DATAGRAMS; i++) {
  pieces[0][i] = (struct iovec){memory + i * SLOT, length};
  pieces[1][i] = (struct iovec){memory + (DATAGRAMS + i) * SLOT, SLOT};
  out[i].msg_hdr = (struct msghdr){.msg_name = &addresses[1], .msg_namelen = sizeof addresses[1], .msg_iov = &pieces[0][i], .msg_iovlen = 1};
  in[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[1][i], .msg_iovlen = 1, .msg_control = controls[i], .msg_controllen = sizeof controls[i]};
  }
  bytes += with_ring ? by_ring(&ring, out, in) : by_calls(sockets, out, in);
  }
  double each = (processor_seconds() - before) / turns / DATAGRAMS * 1e9;
  if (bytes != (long)turns * DATAGRAMS * length) fail("every byte", 0);
  printf("%-8s %d x %d bytes: %.0f ns a datagram, %.1f ns a frame\n", with_ring ? "io_uring" : "mmsg", frames, frame, each, each / frames);
  }
  }
  return 0;
}
