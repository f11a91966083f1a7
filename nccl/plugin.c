/* What both of NCCL's tables have. */
#include "plugin.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

static ncclDebugLogger_t logger = NULL;

void log_by(ncclDebugLogger_t with) { logger = with; }

void say(const char *file, int line, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (logger != NULL) logger(NCCL_LOG_WARN, NCCL_ALL, file, line, "NET/quincunx: %s", text);
}

ncclResult_t out_of_memory(void) { return FAIL(ncclSystemError, "expected memory, found none"); }

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

const char *environment(const char *name) {
  const char *value = getenv(name);
  return value == NULL || *value == 0 ? NULL : value;
}

socklen_t length_of(const address_t *address) {
  return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

qxEndpoint_t attached(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static bool has_tried = false;
  static qxEndpoint_t endpoint = NULL;
  pthread_mutex_lock(&lock);
  if (!has_tried) {
    has_tried = true;
    if (environment("QUINCUNX_MANAGER") == NULL) {
      say(__FILE__, __LINE__, "expected a manager in QUINCUNX_MANAGER, found none: NCCL's own networks are used; "
                              "start one (quincunx manager), and set it");
    } else if (qxAttach(&endpoint) != qxSuccess) {
      endpoint = NULL;
      say(__FILE__, __LINE__, "NCCL's own networks are used: %s", qxGetLastError());
    }
  }
  qxEndpoint_t found = endpoint;
  pthread_mutex_unlock(&lock);
  return found;
}

ncclResult_t count_devices(int *count) {
  *count = attached() != NULL;
  return ncclSuccess;
}

/* The address of this rank's frames, which others reach. */
static bool own_address(address_t *found) {
  char text[INET6_ADDRSTRLEN];
  memset(found, 0, sizeof *found);
  if (attached() == NULL || qxEndpointAddress(attached(), text, sizeof text) != qxSuccess) return false;
  found->any.sa_family = strchr(text, ':') == NULL ? AF_INET : AF_INET6;
  return inet_pton(found->any.sa_family, text, found->any.sa_family == AF_INET ? (void *)&found->v4.sin_addr : &found->v6.sin6_addr) == 1;
}

ncclResult_t get_properties(int device, ncclNetProperties_v8_t *properties) {
  if (device != 0) return FAIL(ncclInternalError, "expected device 0, found %d", device);
  *properties = (ncclNetProperties_v8_t){
      .name = "quincunx",
      .ptrSupport = NCCL_PTR_HOST,
      .speed = 10000,
      .maxComms = 65536,
      .maxRecvs = 1,
      .netDeviceType = NCCL_NET_DEVICE_HOST,
  };
  return ncclSuccess;
}

/* Memory that NCCL has named before it is used. */
typedef struct {
  char *data;
  size_t size;
} registration_t;

ncclResult_t register_memory(void *comm, void *data, size_t size, int type, void **mhandle) {
  (void)comm;
  if (type != NCCL_PTR_HOST) return FAIL(ncclInvalidUsage, "expected memory of the host (type %d), found type %d", NCCL_PTR_HOST, type);
  registration_t *registration = malloc(sizeof *registration);
  if (registration == NULL) return out_of_memory();
  *registration = (registration_t){data, size};
  *mhandle = registration;
  return ncclSuccess;
}

ncclResult_t deregister_memory(void *comm, void *mhandle) {
  (void)comm;
  free(mhandle);
  return ncclSuccess;
}

bool covers(const void *mhandle, const void *data, size_t size) {
  const registration_t *of = mhandle;
  if (size == 0) return true;
  /* Before the first byte this is more than any size. */
  size_t begin = of == NULL ? 0 : (uintptr_t)data - (uintptr_t)of->data;
  bool is_within = of != NULL && begin <= of->size && size <= of->size - begin;
  if (!is_within) say(__FILE__, __LINE__, "expected registered memory, found %zu bytes at %p outside of it", size, data);
  return is_within;
}

_Static_assert(sizeof(handle_t) <= NCCL_NET_HANDLE_MAXSIZE, "a handle that NCCL has room for");

/* Who has come and not said all yet. */
typedef struct {
  int fd;
  hello_t hello;
  size_t heard;
} guest_t;

#define GUESTS 16

typedef struct {
  int fd;
  uint64_t cookie;
  /* A stranger may say nothing for ever, a rank may take its time; of too many the one that has come first goes. */
  guest_t guests[GUESTS];
  unsigned next;
} listener_t;

ncclResult_t listen_at(int device, void *opaque, void **made) {
  if (device != 0) return FAIL(ncclInternalError, "expected device 0, found %d", device);
  handle_t handle = {0};
  socklen_t length = sizeof handle.at;
  listener_t *listener = calloc(1, sizeof *listener);
  if (listener == NULL) return out_of_memory();
  bool is_known = own_address(&handle.at) && qxEndpointRank(attached(), &handle.rank) == qxSuccess;
  for (int i = 0; i < GUESTS; i++) listener->guests[i].fd = -1;
  listener->fd = is_known ? socket(handle.at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
  if (listener->fd < 0 || bind(listener->fd, &handle.at.any, length_of(&handle.at)) != 0 || listen(listener->fd, SOMAXCONN) != 0 ||
      getsockname(listener->fd, &handle.at.any, &length) != 0 || getrandom(&handle.cookie, sizeof handle.cookie, 0) != sizeof handle.cookie) {
    const char *why = is_known ? strerror(errno) : "none";
    if (listener->fd >= 0) close(listener->fd);
    free(listener);
    return FAIL(ncclSystemError, "expected to listen at an address of this machine, found %s; see QUINCUNX_ADDRESS", why);
  }
  listener->cookie = handle.cookie;
  memset(opaque, 0, NCCL_NET_HANDLE_MAXSIZE);
  memcpy(opaque, &handle, sizeof handle);
  *made = listener;
  return ncclSuccess;
}

ncclResult_t close_listener(void *opaque) {
  listener_t *listener = opaque;
  for (int i = 0; i < GUESTS; i++)
    if (listener->guests[i].fd >= 0) close(listener->guests[i].fd);
  close(listener->fd);
  free(listener);
  return ncclSuccess;
}

/* A machine that has gone without a word is noticed where nothing is sent, too. */
static void prepare(int fd) {
  int on = 1, idle = 10, interval = 5, count = 4;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* Hears a guest: whether it has said all, and is no stranger. Strangers are sent away. */
static bool is_heard_out(const listener_t *listener, guest_t *guest) {
  ssize_t count = recv(guest->fd, (char *)&guest->hello + guest->heard, sizeof guest->hello - guest->heard, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count > 0 && (guest->heard += count) < sizeof guest->hello) return false;
  if (count > 0 && guest->hello.cookie == listener->cookie) return true;
  close(guest->fd);
  guest->fd = -1;
  return false;
}

int next_guest(void *opaque, int32_t *rank) {
  listener_t *listener = opaque;
  for (;;) {
    for (guest_t *guest = listener->guests; guest < listener->guests + GUESTS; guest++) {
      int fd = guest->fd;
      if (fd < 0 || !is_heard_out(listener, guest)) continue;
      guest->fd = -1;
      prepare(fd);
      *rank = guest->hello.rank;
      return fd;
    }
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return -1;
    guest_t *place = &listener->guests[listener->next++ % GUESTS];
    if (place->fd >= 0) close(place->fd);
    *place = (guest_t){.fd = fd};
  }
}

int socket_to(const handle_t *handle, int flags) {
  int fd = socket(handle->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) return FAIL(-1, "expected a socket, found %s", strerror(errno));
  prepare(fd);
  return fd;
}
