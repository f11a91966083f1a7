/* What both of NCCL's tables have. */
#include "plugin.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

/* How long a stranger may take to say who it is. */
#define HELLO_SECONDS 5

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

static bool resolve(const char *host, const char *port, int flags, address_t *found) {
  struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = flags}, *list;
  if (getaddrinfo(host, port, &hints, &list) != 0) return false;
  memcpy(found, list->ai_addr, list->ai_addrlen);
  freeaddrinfo(list);
  return true;
}

static bool of_interface(const char *name, address_t *found) {
  struct ifaddrs *all;
  bool is_found = false;
  if (getifaddrs(&all) != 0) return false;
  for (struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
    if (each->ifa_addr == NULL || strcmp(each->ifa_name, name) != 0) continue;
    int family = each->ifa_addr->sa_family;
    /* One of IPv4 goes before. */
    if (family != AF_INET && (family != AF_INET6 || is_found)) continue;
    memcpy(found, each->ifa_addr, family == AF_INET ? sizeof found->v4 : sizeof found->v6);
    is_found = true;
    if (family == AF_INET) break;
  }
  freeifaddrs(all);
  return is_found;
}

/* The one from which the first manager is reached. */
static bool towards_manager(address_t *found) {
  char host[256];
  snprintf(host, sizeof host, "%.*s", (int)strcspn(environment("QUINCUNX_MANAGER"), ","), environment("QUINCUNX_MANAGER"));
  char *colon = strrchr(host, ':'), *name = host;
  if (colon == NULL) return false;
  *colon = 0;
  if (*name == '[') *strchrnul(++name, ']') = 0;
  address_t manager;
  socklen_t length = sizeof *found;
  if (!resolve(name, colon + 1, 0, &manager)) return false;
  int fd = socket(manager.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool is_found = connect(fd, &manager.any, length_of(&manager)) == 0 && getsockname(fd, &found->any, &length) == 0;
  close(fd);
  return is_found;
}

static bool own_address(address_t *found) {
  const char *address = environment("QUINCUNX_ADDRESS"), *interface = environment("QUINCUNX_INTERFACE");
  memset(found, 0, sizeof *found);
  bool is_found = address != NULL     ? resolve(address, NULL, AI_NUMERICHOST, found)
                  : interface != NULL ? of_interface(interface, found)
                                      : towards_manager(found);
  if (is_found) found->v4.sin_port = 0; /* at the same place in IPv6 */
  return is_found;
}

bool has_address(void) {
  address_t address;
  return own_address(&address);
}

bool has_manager(void) {
  static bool is_said = false;
  if (environment("QUINCUNX_MANAGER") != NULL) return true;
  if (!__atomic_exchange_n(&is_said, true, __ATOMIC_RELAXED))
    say(__FILE__, __LINE__, "expected a manager in QUINCUNX_MANAGER, found none: NCCL's own networks are used; start one (quincunx manager) and set it");
  return false;
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
  size_t begin = of == NULL ? 0 : (size_t)((const char *)data - of->data);
  bool is_within = of != NULL && (const char *)data >= of->data && begin <= of->size && size <= of->size - begin;
  if (!is_within) say(__FILE__, __LINE__, "expected registered memory, found %zu bytes at %p outside of it", size, data);
  return is_within;
}

_Static_assert(sizeof(handle_t) <= NCCL_NET_HANDLE_MAXSIZE, "a handle that NCCL has room for");

typedef struct {
  int fd;
  uint64_t cookie;
  /* Who has come and not said all yet. */
  int guest;
  hello_t hello;
  size_t heard;
  double until;
} listener_t;

ncclResult_t listen_as(int device, int32_t rank, void *opaque, void **made) {
  if (device != 0) return FAIL(ncclInternalError, "expected device 0, found %d", device);
  handle_t handle = {.rank = rank};
  socklen_t length = sizeof handle.at;
  listener_t *listener = calloc(1, sizeof *listener);
  if (listener == NULL) return out_of_memory();
  bool is_known = own_address(&handle.at);
  listener->guest = -1;
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
  if (listener->guest >= 0) close(listener->guest);
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

int next_guest(void *opaque, int32_t *rank) {
  listener_t *listener = opaque;
  for (;;) {
    if (listener->guest < 0) {
      listener->guest = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (listener->guest < 0) return -1;
      listener->heard = 0;
      listener->until = now() + HELLO_SECONDS;
    }
    char *rest = (char *)&listener->hello + listener->heard;
    ssize_t count = recv(listener->guest, rest, sizeof listener->hello - listener->heard, 0);
    if (count > 0) listener->heard += count;
    int guest = listener->guest;
    if (listener->heard == sizeof listener->hello && listener->hello.cookie == listener->cookie) {
      listener->guest = -1;
      prepare(guest);
      *rank = listener->hello.rank;
      return guest;
    }
    bool waits = listener->heard < sizeof listener->hello && (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)));
    if (waits && now() < listener->until) return -1;
    close(guest);
    listener->guest = -1;
  }
}

int socket_to(const handle_t *handle, int flags) {
  int fd = socket(handle->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) return FAIL(-1, "expected a socket, found %s", strerror(errno));
  prepare(fd);
  return fd;
}
