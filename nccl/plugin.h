/* What both of NCCL's tables have: the log, the environment, registered memory, and who listens. */
#ifndef QUINCUNX_PLUGIN_H
#define QUINCUNX_PLUGIN_H

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Where a collective is called is a line of the program that calls NCCL, which nobody here knows. */
#define QX_NO_CALLED_AT
#include <quincunx.h>

#include "net_v8.h"

/* One line through NCCL's log. */
void say(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define FAIL(result, ...) (say(__FILE__, __LINE__, __VA_ARGS__), (result))
ncclResult_t out_of_memory(void);
void log_by(ncclDebugLogger_t with);

/* Seconds since some time. */
double now(void);
/* A variable; NULL if it is empty, too. */
const char *environment(const char *name);

/* The process's place in its job, from the first question for it on; NULL if there is none, why is said once then. It stays: NCCL does not say
 * when it is done for good. */
qxEndpoint_t attached(void);
ncclResult_t count_devices(int *count);
ncclResult_t get_properties(int device, ncclNetProperties_v8_t *properties);
/* Of host memory; `covers` says so if NCCL uses what it has not registered. */
ncclResult_t register_memory(void *comm, void *data, size_t size, int type, void **mhandle);
ncclResult_t deregister_memory(void *comm, void *mhandle);
bool covers(const void *mhandle, const void *data, size_t size);

typedef union {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} address_t;

socklen_t length_of(const address_t *address);

/* What a listener hands to those that connect to it, by NCCL. */
typedef struct {
  uint64_t cookie; /* who knows it is no stranger */
  address_t at;
  int rank;    /* of the job */
  void *begun; /* the connection that a connect has begun, at the process that connects */
} handle_t;

/* What comes first on a connection. */
typedef struct {
  uint64_t cookie;
  int32_t rank; /* in the communicator; 0 of messages */
  int32_t unused;
} hello_t;

ncclResult_t listen_at(int device, void *handle, void **listener);
ncclResult_t close_listener(void *listener);
/* The next one that has said the cookie, or -1 if there is none yet. Does not wait. */
int next_guest(void *listener, int32_t *rank);
/* A socket to whoever listens there, which is not connected yet; -1 if none can be had, which is said. */
int socket_to(const handle_t *handle, int flags);

#endif
