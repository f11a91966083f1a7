/* Messages between two ranks over TCP, one connection for each direction. A connection moves when NCCL posts something there or asks after
 * it: in the order of posting, which is the order that NCCL matches sends and receives by. */
#include "plugin.h"

typedef struct {
  uint32_t tag, size;
} header_t;

struct connection;
typedef struct {
  struct connection *of;
  bool is_used, is_done;
  char *data;
  header_t header; /* what is sent; of a receiver what is expected, the size at most */
  header_t heard;  /* what has come */
  size_t moved; /* header and data */
} message_t;

typedef struct connection {
  int fd;
  bool is_sender;
  ncclResult_t error;   /* of no use any more */
  unsigned first, next; /* those under way */
  message_t messages[NCCL_NET_MAX_REQUESTS];
} connection_t;

static connection_t *connection(int fd, bool is_sender) {
  connection_t *made = calloc(1, sizeof *made);
  if (made == NULL) {
    close(fd);
    return NULL;
  }
  made->fd = fd;
  made->is_sender = is_sender;
  return made;
}

static ncclResult_t close_connection(void *opaque) {
  connection_t *connection = opaque;
  close(connection->fd);
  free(connection);
  return ncclSuccess;
}

/* Without a manager NCCL takes the next network. */
static ncclResult_t net_init(ncclDebugLogger_t with) {
  log_by(with);
  return attached() != NULL ? ncclSuccess : ncclSystemError;
}

static ncclResult_t net_connect(int device, void *opaque, void **made, ncclNetDeviceHandle_v8_t **send_device) {
  (void)send_device;
  handle_t handle;
  memcpy(&handle, opaque, sizeof handle);
  *made = NULL;
  if (device != 0) return FAIL(ncclInternalError, "expected device 0, found %d", device);
  connection_t *begun = handle.begun;
  if (begun == NULL) {
    int fd = socket_to(&handle, SOCK_NONBLOCK);
    if (fd < 0) return ncclSystemError;
    begun = connection(fd, true);
    if (begun == NULL) return out_of_memory();
    if (connect(fd, &handle.at.any, length_of(&handle.at)) != 0 && errno != EINPROGRESS) begun->error = errno;
  }
  struct pollfd ready = {begun->fd, POLLOUT, 0};
  int why = begun->error;
  socklen_t length = sizeof why;
  if (why == 0 && poll(&ready, 1, 0) == 0) {
    handle.begun = begun;
  } else {
    handle.begun = NULL;
    if (why == 0) getsockopt(begun->fd, SOL_SOCKET, SO_ERROR, &why, &length);
    hello_t hello = {.cookie = handle.cookie};
    /* Nothing was sent before: there is room for it. */
    if (why == 0 && send(begun->fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) why = errno;
    if (why != 0) {
      close_connection(begun);
      begun = NULL;
    }
    *made = begun;
  }
  memcpy(opaque, &handle, sizeof handle);
  return why == 0 ? ncclSuccess : FAIL(ncclRemoteError, "expected a rank that listens, found %s; see whether it runs", strerror(why));
}

static ncclResult_t net_accept(void *listener, void **made, ncclNetDeviceHandle_v8_t **recv_device) {
  (void)recv_device;
  int32_t rank;
  int fd = next_guest(listener, &rank);
  *made = fd < 0 ? NULL : connection(fd, false);
  return fd >= 0 && *made == NULL ? out_of_memory() : ncclSuccess;
}

/* Whether all of a message has gone. */
static bool put(connection_t *to, message_t *message) {
  size_t whole = sizeof message->header + message->header.size;
  while (message->moved < whole) {
    size_t begun = message->moved < sizeof message->header ? message->moved : sizeof message->header;
    struct iovec parts[2] = {{(char *)&message->header + begun, sizeof message->header - begun},
                             {message->data + (message->moved - begun), message->header.size - (message->moved - begun)}};
    struct msghdr all = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t count = sendmsg(to->fd, &all, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN) to->error = FAIL(ncclRemoteError, "expected a peer that receives, found %s; see whether it runs", strerror(errno));
      return false;
    }
    message->moved += count;
  }
  return true;
}

/* Whether all of a message has come. */
static bool take(connection_t *from, message_t *message) {
  for (;;) {
    bool has_header = message->moved >= sizeof message->heard;
    size_t whole = sizeof message->heard + (has_header ? message->heard.size : 0);
    if (has_header && message->moved == whole) return true;
    char *to = has_header ? message->data + (message->moved - sizeof message->heard) : (char *)&message->heard + message->moved;
    ssize_t count = recv(from->fd, to, whole - message->moved, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) {
      const char *why = count == 0 ? "a closed connection" : strerror(errno);
      from->error = FAIL(ncclRemoteError, "expected a peer that sends, found %s; see whether it runs", why);
      return false;
    }
    message->moved += count;
    if (has_header || message->moved < sizeof message->heard) continue;
    if (message->heard.tag != message->header.tag)
      from->error = FAIL(ncclInternalError, "expected a message of tag %u, found tag %u", message->header.tag, message->heard.tag);
    else if (message->heard.size > message->header.size)
      from->error = FAIL(ncclInvalidUsage, "expected a message of %u bytes at most, found %u; see whether all ranks give one size",
                         message->header.size, message->heard.size);
    if (from->error != ncclSuccess) return false;
  }
}

static void advance(connection_t *connection) {
  while (connection->error == ncclSuccess && connection->first != connection->next) {
    message_t *message = &connection->messages[connection->first % NCCL_NET_MAX_REQUESTS];
    if (!(connection->is_sender ? put : take)(connection, message)) return;
    message->is_done = true;
    connection->first++;
  }
}

static ncclResult_t post(connection_t *connection, void *data, int size, int tag, void *mhandle, void **request) {
  *request = NULL;
  if (connection->error != ncclSuccess) return connection->error;
  if (size < 0 || !covers(mhandle, data, size)) return FAIL(ncclInternalError, "expected a message in registered memory, found %d bytes", size);
  message_t *message = &connection->messages[connection->next % NCCL_NET_MAX_REQUESTS];
  /* As many as NCCL may have: it asks again. */
  if (message->is_used) return ncclSuccess;
  *message = (message_t){.of = connection, .is_used = true, .data = data, .header = {(uint32_t)tag, (uint32_t)size}};
  connection->next++;
  *request = message;
  advance(connection);
  return ncclSuccess;
}

static ncclResult_t net_isend(void *connection, void *data, int size, int tag, void *mhandle, void **request) {
  return post(connection, data, size, tag, mhandle, request);
}

static ncclResult_t net_irecv(void *connection, int n, void **data, int *sizes, int *tags, void **mhandles, void **request) {
  if (n != 1) return FAIL(ncclInternalError, "expected one buffer of an irecv, found %d", n);
  return post(connection, data[0], sizes[0], tags[0], mhandles[0], request);
}

/* Memory of the host needs none. */
static ncclResult_t net_iflush(void *connection, int n, void **data, int *sizes, void **mhandles, void **request) {
  (void)connection, (void)n, (void)data, (void)sizes, (void)mhandles;
  *request = NULL;
  return ncclSuccess;
}

static ncclResult_t net_test(void *opaque, int *done, int *size) {
  message_t *message = opaque;
  connection_t *of = message->of;
  if (!message->is_done) advance(of);
  *done = message->is_done;
  if (!message->is_done) return of->error;
  if (size != NULL) *size = of->is_sender ? message->header.size : message->heard.size;
  message->is_used = false;
  return ncclSuccess;
}

__attribute__((visibility("default"))) const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "quincunx",
    .init = net_init,
    .devices = count_devices,
    .getProperties = get_properties,
    .listen = listen_at,
    .connect = net_connect,
    .accept = net_accept,
    .regMr = register_memory,
    .deregMr = deregister_memory,
    .isend = net_isend,
    .irecv = net_irecv,
    .iflush = net_iflush,
    .test = net_test,
    .closeSend = close_connection,
    .closeRecv = close_connection,
    .closeListen = close_listener,
};
