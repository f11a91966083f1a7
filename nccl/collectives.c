/* CollNet's collectives, in switches: a communicator of NCCL's is a group of the job's ranks, and each call one of libquincunx, which returns
 * at once. The functions of one communicator are called by one thread at a time; all of a process share the endpoint alone. */
#include "plugin.h"

#include <fcntl.h>
#include <limits.h>

/* How long ranks wait for each other to make a group, and one that leaves for the others, in seconds. */
#define MEET_SECONDS 60
#define LEAVE_SECONDS 2

static const char *const TIMEOUT = "NCCL_QUINCUNX_TIMEOUT";

struct collective;

typedef struct {
  qxComm_t group;
  int rank, ranks;
  ncclResult_t error;           /* of no use any more */
  struct collective *under_way; /* in no order */
} coll_comm_t;

/* One call of NCCL's: calls of libquincunx, begun in the order in which all ranks do. */
typedef struct collective {
  coll_comm_t *of;
  struct collective *before, *after;
  int size; /* bytes that this rank gets */
  int count, ended;
  bool has_failed;
  qxRequest_t parts[];
} collective_t;

/* libquincunx's results have NCCL's numbers. */
static ncclResult_t as_nccl(qxResult_t result) { return (ncclResult_t)result; }

/* Seconds that a collective may take, if the environment says so; else 0, and libquincunx has its own limit. */
static double limit_seconds(void) { return environment(TIMEOUT) == NULL ? 0 : strtod(environment(TIMEOUT), NULL); }

static double meet_seconds(void) {
  double limit = limit_seconds();
  return limit > 0 && limit < MEET_SECONDS ? limit : MEET_SECONDS;
}

static ncclResult_t coll_init(ncclDebugLogger_t with) {
  log_by(with);
  return ncclSuccess;
}

/* Sends or receives all of it; false if the peer goes, or takes too long. */
static bool exchange(int fd, void *data, size_t size, bool sends) {
  for (size_t moved = 0; moved < size;) {
    char *rest = (char *)data + moved;
    ssize_t count = sends ? send(fd, rest, size - moved, MSG_NOSIGNAL) : recv(fd, rest, size - moved, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    moved += count;
  }
  return true;
}

static void limit_waits(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  double seconds = meet_seconds();
  struct timeval limit = {(time_t)seconds, (suseconds_t)((seconds - (time_t)seconds) * 1e6)};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* Rank 0 has all others come; another rank goes there. Sockets by rank, -1 where there is none; whether all are there. */
static bool meet(const handle_t *first, int ranks, int rank, void *listener, int *sockets) {
  if (rank != 0) {
    hello_t hello = {.cookie = first->cookie, .rank = rank};
    int fd = sockets[0] = socket_to(first, 0);
    if (fd < 0) return false;
    limit_waits(fd);
    return connect(fd, &first->at.any, length_of(&first->at)) == 0 && exchange(fd, &hello, sizeof hello, true);
  }
  int missing = ranks - 1;
  for (double end = now() + meet_seconds(); missing > 0 && now() < end;) {
    int32_t who;
    int fd = next_guest(listener, &who);
    if (fd < 0) {
      usleep(1000);
    } else if (who < 1 || who >= ranks || sockets[who] >= 0) {
      close(fd);
    } else {
      limit_waits(fd);
      sockets[who] = fd;
      missing--;
    }
  }
  return missing == 0;
}

/* Rank 0 makes the group and tells the others; they join only if all of them can. */
static bool join(const int *members, coll_comm_t *comm, bool are_all_here, const int *sockets) {
  struct {
    qxGroupId id;
    int32_t is_made;
  } group = {.is_made = 0};
  if (comm->rank == 0) {
    group.is_made = are_all_here && qxMakeGroup(attached(), members, comm->ranks, &group.id) == qxSuccess;
    if (are_all_here && !group.is_made) say(__FILE__, __LINE__, "%s", qxGetLastError());
  }
  char is_joined = 0, have_all = 1;
  for (int peer = 0; peer < comm->ranks; peer++)
    if (sockets[peer] >= 0 && !exchange(sockets[peer], &group, sizeof group, comm->rank == 0)) have_all = 0;
  if (have_all && group.is_made) {
    is_joined = qxCommInitGroup(&comm->group, attached(), members, comm->ranks, group.id) == qxSuccess;
    if (!is_joined) say(__FILE__, __LINE__, "%s", qxGetLastError());
  }
  /* All hear of one that has not, so that none waits for it. */
  have_all = have_all && is_joined;
  if (comm->rank != 0) {
    char mine = have_all;
    return exchange(sockets[0], &mine, 1, true) && exchange(sockets[0], &have_all, 1, false) && have_all;
  }
  for (int peer = 1; peer < comm->ranks; peer++) {
    char theirs = 0;
    if (sockets[peer] < 0 || !exchange(sockets[peer], &theirs, 1, false) || !theirs) have_all = 0;
  }
  for (int peer = 1; peer < comm->ranks; peer++)
    if (sockets[peer] >= 0) exchange(sockets[peer], &have_all, 1, true);
  return have_all;
}

static ncclResult_t coll_connect(void *handles[], int ranks, int rank, void *listener, void **made) {
  coll_comm_t *comm = calloc(1, sizeof *comm);
  int *sockets = malloc(sizeof *sockets * ranks), *members = malloc(sizeof *members * ranks);
  handle_t first;
  bool is_joined = false;
  *made = NULL;
  if (comm != NULL && sockets != NULL && members != NULL) {
    for (int each = ranks - 1; each >= 0; each--) {
      memcpy(&first, handles[each], sizeof first);
      members[each] = first.rank;
      sockets[each] = -1;
    }
    comm->rank = rank;
    comm->ranks = ranks;
    bool are_here = meet(&first, ranks, rank, listener, sockets);
    if (!are_here) say(__FILE__, __LINE__, "expected all of %d ranks to come to rank 0 in %g s, found one missing", ranks, meet_seconds());
    if (are_here || rank == 0) is_joined = join(members, comm, are_here, sockets);
    for (int each = 0; each < ranks; each++)
      if (sockets[each] >= 0) close(sockets[each]);
    if (!is_joined && comm->group != NULL) qxCommAbort(comm->group);
    if (is_joined && limit_seconds() > 0) qxCommSetTimeout(comm->group, limit_seconds());
  }
  free(sockets);
  free(members);
  if (is_joined) {
    *made = comm;
    return ncclSuccess;
  }
  free(comm);
  return FAIL(ncclSystemError, "expected a group of %d ranks in the network, found none at rank %d; NCCL goes on without", ranks, rank);
}

/* Bytes of an element; 0 of what the network does not add up. An average is NCCL's own: of all its ranks, not of these. */
static size_t reduced(ncclDataType_t type, ncclRedOp_t op) {
  static const char BYTES[] = {[ncclInt8] = 1,    [ncclUint8] = 1,   [ncclInt32] = 4,   [ncclUint32] = 4,   [ncclInt64] = 8,      [ncclUint64] = 8,
                               [ncclFloat16] = 2, [ncclFloat32] = 4, [ncclFloat64] = 8, [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1};
  return (unsigned)type < sizeof BYTES && (unsigned)op <= ncclMin ? (size_t)BYTES[type] : 0;
}

static ncclResult_t coll_reduce_support(ncclDataType_t type, ncclRedOp_t op, int *supported) {
  *supported = reduced(type, op) != 0;
  return ncclSuccess;
}

/* A call of so many parts, each put at `next` and then kept. NULL if it cannot begin; why is said. */
static collective_t *begin(coll_comm_t *comm, int parts, size_t size) {
  if (comm->error != ncclSuccess) return NULL;
  collective_t *call = calloc(1, sizeof *call + sizeof(qxRequest_t) * parts);
  if (call == NULL) {
    comm->error = out_of_memory();
    return NULL;
  }
  *call = (collective_t){.of = comm, .after = comm->under_way, .size = (int)size};
  if (call->after != NULL) call->after->before = call;
  comm->under_way = call;
  return call;
}

static qxRequest_t *next(collective_t *call) { return &call->parts[call->count]; }

static void keep(collective_t *call, qxResult_t begun) {
  if (begun == qxSuccess) call->count++;
  else if (call->of->error == ncclSuccess) call->of->error = FAIL(as_nccl(begun), "%s", qxGetLastError());
}

/* What NCCL hears of a call that was to begin. What has begun of one that failed ends with its communicator. */
static ncclResult_t answer(coll_comm_t *comm, collective_t *call, void **request) {
  *request = comm->error == ncclSuccess ? call : NULL;
  return comm->error;
}

static ncclResult_t coll_iallreduce(void *opaque, void *send, void *recv, int count, ncclDataType_t type, ncclRedOp_t op, void *send_mhandle,
                                    void *recv_mhandle, void **request) {
  coll_comm_t *comm = opaque;
  size_t element = reduced(type, op), size = element * (size_t)count;
  *request = NULL;
  if (element == 0) return FAIL(ncclInvalidUsage, "expected a type and an operation of reduceSupport, found %d and %d", type, op);
  if (count < 0 || size > INT_MAX) return FAIL(ncclInternalError, "expected 0 to %d bytes, found %d elements of %zu", INT_MAX, count, element);
  if (!covers(send_mhandle, send, size) || !covers(recv_mhandle, recv, size)) return ncclInternalError;
  collective_t *call = begin(comm, 1, size);
  if (call != NULL) keep(call, qxAllReduce(send, recv, count, (qxDataType_t)type, (qxRedOp_t)op, comm->group, next(call)));
  return answer(comm, call, request);
}

/* Bytes of a rank's part that lie in a window of all parts, and where in the window they begin. */
typedef struct {
  size_t per_rank, offset, bytes;
} window_t;

static size_t overlap(window_t window, int rank, size_t *at) {
  size_t first = rank * window.per_rank, last = first + window.per_rank, end = window.offset + window.bytes;
  if (first < window.offset) first = window.offset;
  if (last > end) last = end;
  *at = first - window.offset;
  return last > first ? last - first : 0;
}

static bool is_window(const coll_comm_t *comm, window_t window, int parts, const ncclNetSGE_v8_t *whole, size_t element) {
  bool is_right = parts == 1 && whole->size == window.bytes && window.bytes <= INT_MAX && window.offset + window.bytes <= window.per_rank * comm->ranks &&
                  window.per_rank % element == 0 && window.offset % element == 0 && window.bytes % element == 0;
  if (!is_right)
    say(__FILE__, __LINE__, "expected a window of whole elements in %d parts of %zu bytes, in one buffer, found bytes %zu to %zu in %d of %u",
        comm->ranks, window.per_rank, window.offset, window.offset + window.bytes, parts, parts > 0 ? whole->size : 0);
  return is_right;
}

static bool is_whole(const coll_comm_t *comm, window_t window) { return window.bytes == window.per_rank * comm->ranks; }

static ncclResult_t coll_iallgather(void *opaque, void *send, int parts, ncclNetSGE_v8_t *to, size_t per_rank, size_t offset, size_t bytes,
                                    void *send_mhandle, void **request) {
  coll_comm_t *comm = opaque;
  window_t window = {per_rank, offset, bytes};
  size_t at;
  *request = NULL;
  if (!is_window(comm, window, parts, to, 1)) return ncclInternalError;
  if (!covers(send_mhandle, send, overlap(window, comm->rank, &at)) || !covers(to->mhandle, to->address, bytes)) return ncclInternalError;
  collective_t *call = begin(comm, comm->ranks, bytes);
  if (call != NULL && is_whole(comm, window)) {
    keep(call, qxAllGather(send, to->address, per_rank, qxUint8, comm->group, next(call)));
  } else if (call != NULL) {
    for (int root = 0; root < comm->ranks && comm->error == ncclSuccess; root++) {
      size_t size = overlap(window, root, &at);
      if (size > 0) keep(call, qxBroadcast(send, (char *)to->address + at, size, qxUint8, root, comm->group, next(call)));
    }
  }
  return answer(comm, call, request);
}

static ncclResult_t coll_ireducescatter(void *opaque, int parts, ncclNetSGE_v8_t *from, void *recv, size_t per_rank, size_t offset, size_t bytes,
                                        ncclDataType_t type, ncclRedOp_t op, void *recv_mhandle, void **request) {
  coll_comm_t *comm = opaque;
  window_t window = {per_rank, offset, bytes};
  size_t element = reduced(type, op), at, mine = overlap(window, comm->rank, &at);
  *request = NULL;
  if (element == 0) return FAIL(ncclInvalidUsage, "expected a type and an operation of reduceSupport, found %d and %d", type, op);
  if (!is_window(comm, window, parts, from, element)) return ncclInternalError;
  if (!covers(from->mhandle, from->address, bytes) || !covers(recv_mhandle, recv, mine)) return ncclInternalError;
  collective_t *call = begin(comm, comm->ranks, mine);
  if (call != NULL && is_whole(comm, window)) {
    keep(call, qxReduceScatter(from->address, recv, per_rank / element, (qxDataType_t)type, (qxRedOp_t)op, comm->group, next(call)));
  } else if (call != NULL) {
    for (int root = 0; root < comm->ranks && comm->error == ncclSuccess; root++) {
      size_t size = overlap(window, root, &at);
      if (size == 0) continue;
      const char *data = (char *)from->address + at;
      keep(call, qxReduce(data, recv, size / element, (qxDataType_t)type, (qxRedOp_t)op, root, comm->group, next(call)));
    }
  }
  return answer(comm, call, request);
}

/* Memory of the host needs none. */
static ncclResult_t coll_iflush(void *comm, void *data, int size, void *mhandle, void **request) {
  (void)comm, (void)data, (void)size, (void)mhandle;
  *request = NULL;
  return ncclSuccess;
}

static void forget(collective_t *call) {
  if (call->after != NULL) call->after->before = call->before;
  if (call->before != NULL) call->before->after = call->after;
  else call->of->under_way = call->after;
  free(call);
}

static ncclResult_t coll_test(void *opaque, int *done, int *size) {
  collective_t *call = opaque;
  *done = 0;
  while (call->ended < call->count) {
    if (qxTest(call->parts[call->ended]) == qxInProgress) return call->of->error;
    qxResult_t ended = qxWait(call->parts[call->ended++]);
    if (ended == qxSuccess) continue;
    if (call->of->error == ncclSuccess) call->of->error = FAIL(as_nccl(ended), "%s", qxGetLastError());
    call->has_failed = true;
  }
  if (call->has_failed) return call->of->error;
  *done = 1;
  if (size != NULL) *size = call->size;
  forget(call);
  return ncclSuccess;
}

/* Leaves a group of which nothing is under way when all have come so far, or after a while. Of one in which something is, NCCL may take the
 * buffers away as soon as this returns. */
static ncclResult_t coll_close(void *opaque) {
  coll_comm_t *comm = opaque;
  qxRequest_t barrier;
  if (comm->under_way == NULL && comm->error == ncclSuccess) {
    /* A request that others keep waiting is left to itself. */
    if (qxBarrier(comm->group, &barrier) == qxSuccess && qxWaitFor(barrier, LEAVE_SECONDS) != qxInProgress) qxWait(barrier);
    qxCommDestroy(comm->group);
  } else {
    qxCommAbort(comm->group);
  }
  while (comm->under_way != NULL) {
    collective_t *call = comm->under_way;
    while (call->ended < call->count) qxWait(call->parts[call->ended++]);
    forget(call);
  }
  free(comm);
  return ncclSuccess;
}

__attribute__((visibility("default"))) const ncclCollNet_v8_t ncclCollNetPlugin_v8 = {
    .name = "quincunx",
    .init = coll_init,
    .devices = count_devices,
    .getProperties = get_properties,
    .listen = listen_at,
    .connect = coll_connect,
    .reduceSupport = coll_reduce_support,
    .regMr = register_memory,
    .deregMr = deregister_memory,
    .iallreduce = coll_iallreduce,
    .iallgather = coll_iallgather,
    .ireducescatter = coll_ireducescatter,
    .iflush = coll_iflush,
    .test = coll_test,
    .closeColl = coll_close,
    .closeListen = close_listener,
};
