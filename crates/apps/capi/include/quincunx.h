/* Collectives computed inside the network, for programs in C. Names and meanings are close to those of nccl.h; what differs is said.
 *
 * Memory is the host's. Every call has a request as its last argument: where that is NULL the call returns when the operation has ended,
 * else at once, and the request is waited for with qxWait, which frees it. Buffers must not be touched until then. All ranks of a
 * communicator call the same collectives in the same order. In place is recvbuff == sendbuff, for qxAllGather sendbuff == recvbuff +
 * rank * count elements, for qxReduceScatter recvbuff == sendbuff + rank * count.
 *
 * No call aborts: misuse is qxInvalidArgument, a rank that has died qxRemoteError at all others; qxGetLastError says why in one line. If a
 * rank calls another collective than the others, or one of another type, operation, root or length, that is qxRemoteError at every rank: the
 * line names two ranks, what each has called, and where. */
#ifndef QUINCUNX_H
#define QUINCUNX_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QX_MAJOR 0
#define QX_MINOR 1
#define QX_UNIQUE_ID_BYTES 128

/* A rank's place in a group. */
typedef struct qxComm *qxComm_t;

/* An operation under way. */
typedef struct qxRequest *qxRequest_t;

/* What a job's nodes are called: all ranks must have the same, by whatever way they talk before. */
typedef struct {
  char internal[QX_UNIQUE_ID_BYTES];
} qxUniqueId;

/* A process's place in its job, with or without communicators. */
typedef struct qxEndpoint *qxEndpoint_t;

/* A group of some of a job's ranks, as the one that has made it tells the others of it. */
typedef struct {
  unsigned int internal[2];
} qxGroupId;

/* As in nccl.h, with the same numbers. */
typedef enum {
  qxSuccess = 0,
  qxSystemError = 2,     /* the endpoint is closed, or has lost its manager or its socket */
  qxInternalError = 3,   /* a fault of this library */
  qxInvalidArgument = 4, /* nothing has changed */
  qxRemoteError = 6,     /* a rank has died, or does not answer in time: the communicator is of no use any more */
  qxInProgress = 7
} qxResult_t;

/* As in nccl.h, with the same numbers as far as it has them. Of the last two a count is of tiles: 992 values in 1,024 bytes of MXFP8 and 112
 * in 64 of NVFP4, blocks with a scale each, which are added up and averaged alone. docs/wire.md has their bytes. */
typedef enum {
  qxInt8 = 0,
  qxUint8 = 1,
  qxInt32 = 2,
  qxUint32 = 3,
  qxInt64 = 4,
  qxUint64 = 5,
  qxFloat16 = 6,
  qxFloat32 = 7,
  qxFloat64 = 8,
  qxBfloat16 = 9,
  qxFloat8e4m3 = 10,
  qxFloat8e5m2 = 11,
  qxInt16 = 32,
  qxMxfp8 = 33,
  qxNvfp4 = 34
} qxDataType_t;

/* As in nccl.h; the bitwise ones are ours, for integers. Of an average every rank divides the sum, integers towards zero. */
typedef enum { qxSum = 0, qxProd = 1, qxMax = 2, qxMin = 3, qxAvg = 4, qxBitAnd = 32, qxBitOr = 33, qxBitXor = 34 } qxRedOp_t;

qxResult_t qxGetVersion(int *version);
const char *qxGetErrorString(qxResult_t result);
/* Why this thread's last call that did not succeed did not; valid until its next one. */
const char *qxGetLastError(void);

/* A name that no other job has. */
qxResult_t qxGetUniqueId(qxUniqueId *id);
/* All ranks call it. The manager and everything else are as the environment says: QUINCUNX_MANAGER, QUINCUNX_ADDRESS, QUINCUNX_DESIGN... */
qxResult_t qxCommInitRank(qxComm_t *comm, int nranks, qxUniqueId id, int rank);
/* The same with RANK, WORLD_SIZE and the job's name from the environment, as `quincunx run` and torchrun set it. */
qxResult_t qxCommInit(qxComm_t *comm);
/* Ranks of the same color become a communicator, in the old one's order; `key` is left unread. All ranks of the old one call it. */
qxResult_t qxCommSplit(qxComm_t comm, int color, int key, qxComm_t *newcomm);
/* Gives the communicator back: nothing may be begun there any more. It returns at once; when all ranks have called it, its memory in
 * switches and its queue pairs are free. Of the last communicator of a process it waits for the others, and leaves the network with
 * them: every rank calls it when nothing is under way. */
qxResult_t qxCommDestroy(qxComm_t comm);
/* Gives the communicator up, whatever is under way: that ends with qxRemoteError here, before this returns, and at the other ranks. No buffer
 * is read or written any more. Requests are freed by qxWait, as ever. */
qxResult_t qxCommAbort(qxComm_t comm);

/* For libraries that have communicators of their own, of any of a job's ranks. qxAttach joins the job, by the environment as qxCommInit does,
 * and waits for no other rank; qxDetach leaves it, and waits for none: nothing may be under way. One of a group's ranks calls qxMakeGroup
 * and tells the others the id, in whatever way they have; then each of them calls qxCommInitGroup, with the same ranks in the same order.
 * A communicator that is destroyed while the process is attached waits for nobody. */
qxResult_t qxAttach(qxEndpoint_t *endpoint);
qxResult_t qxDetach(qxEndpoint_t endpoint);
/* This process among the job's, from zero. */
qxResult_t qxEndpointRank(qxEndpoint_t endpoint, int *rank);
/* The address of this process's frames, as text: at most `size` bytes of it with the zero at its end. */
qxResult_t qxEndpointAddress(qxEndpoint_t endpoint, char *text, size_t size);
qxResult_t qxMakeGroup(qxEndpoint_t endpoint, const int *ranks, size_t nranks, qxGroupId *id);
qxResult_t qxCommInitGroup(qxComm_t *comm, qxEndpoint_t endpoint, const int *ranks, size_t nranks, qxGroupId id);

qxResult_t qxCommCount(qxComm_t comm, int *count);
qxResult_t qxCommUserRank(qxComm_t comm, int *rank);
/* How long operations that begin from now on may take, in seconds. */
qxResult_t qxCommSetTimeout(qxComm_t comm, double seconds);

/* Whom the communicator's ranks wait for, in words: what `quincunx group waits` prints, at most `size` bytes of it with the zero at its end.
 * It may be called from a thread beside one that waits. */
qxResult_t qxCommWaits(qxComm_t comm, char *text, size_t size);

/* The six primitives. Counts are in elements, as in nccl.h: of one rank's part for qxAllGather (sendcount) and qxReduceScatter (recvcount). */
qxResult_t qxAllReduce(const void *sendbuff, void *recvbuff, size_t count, qxDataType_t datatype, qxRedOp_t op, qxComm_t comm,
                       qxRequest_t *request);
qxResult_t qxReduce(const void *sendbuff, void *recvbuff, size_t count, qxDataType_t datatype, qxRedOp_t op, int root, qxComm_t comm,
                    qxRequest_t *request);
qxResult_t qxBroadcast(const void *sendbuff, void *recvbuff, size_t count, qxDataType_t datatype, int root, qxComm_t comm,
                       qxRequest_t *request);
qxResult_t qxReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, qxDataType_t datatype, qxRedOp_t op, qxComm_t comm,
                           qxRequest_t *request);
qxResult_t qxAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, qxDataType_t datatype, qxComm_t comm,
                       qxRequest_t *request);
qxResult_t qxBarrier(qxComm_t comm, qxRequest_t *request);

/* Messages between ranks, and collectives of those. Counts are of one rank's part. */
qxResult_t qxSend(const void *sendbuff, size_t count, qxDataType_t datatype, int peer, qxComm_t comm, qxRequest_t *request);
/* One message to several ranks, each of which calls qxRecv. It goes to each server of LOCAL_WORLD_SIZE ranks once: the rank there with
 * this one's place passes it on to the others. No group is made for it. */
qxResult_t qxMultiWrite(const void *sendbuff, size_t count, qxDataType_t datatype, const int *peers, size_t npeers, qxComm_t comm,
                        qxRequest_t *request);
qxResult_t qxRecv(void *recvbuff, size_t count, qxDataType_t datatype, int peer, qxComm_t comm, qxRequest_t *request);
qxResult_t qxAlltoAll(const void *sendbuff, void *recvbuff, size_t count, qxDataType_t datatype, qxComm_t comm, qxRequest_t *request);
qxResult_t qxGather(const void *sendbuff, void *recvbuff, size_t count, qxDataType_t datatype, int root, qxComm_t comm,
                    qxRequest_t *request);
qxResult_t qxScatter(const void *sendbuff, void *recvbuff, size_t count, qxDataType_t datatype, int root, qxComm_t comm,
                     qxRequest_t *request);

/* Experts on a communicator's ranks: rank r of n hosts the r-th of n parts. Each token goes to every rank that hosts one of its experts, once;
 * to another server of LOCAL_WORLD_SIZE ranks by way of the rank there with the sender's place, once for all of that server. */
typedef struct qxExperts *qxExperts_t;

/* What comes to a rank: the caller gives the places, of which all but the first may be NULL. The memory is the library's until the end. */
typedef struct {
  void *tokens;   /* room for nranks * maxtokens tokens; by rank and then by number */
  int *sources;   /* as many: the rank that each is of */
  int *experts;   /* topk for each token: all of its experts */
  float *weights; /* topk for each token */
  size_t count;   /* how many have come: the library's answer */
} qxArrived;

/* All ranks call it with the same numbers: topk experts of a token, at most maxtokens tokens of a rank at once, of at most maxbytes each. `design`
 * is what brings them; NULL: the one that sends to each server once; "direct": to each rank by itself. */
qxResult_t qxExpertsInit(qxExperts_t *experts, qxComm_t comm, int nexperts, int topk, size_t maxtokens, size_t maxbytes, const char *design);
/* Gives memory back, at once; a communicator's experts are destroyed before it. */
qxResult_t qxExpertsDestroy(qxExperts_t experts);
/* Brings ntokens tokens of count elements to their experts: topk in `chosen` for each. `weights`, as many, or NULL, go with them. `incoming`: how many
 * tokens come from each rank, where that is not announced (relay.announce=false), else NULL. All ranks call it, one without tokens, too. If a
 * rank dies, or expects more than come, that is qxRemoteError at all ranks; if it expects fewer, at itself at least. */
qxResult_t qxDispatch(const void *sendbuff, size_t ntokens, size_t count, qxDataType_t datatype, const int *chosen, const float *weights,
                      const size_t *incoming, qxArrived *arrived, qxExperts_t experts, qxRequest_t *request);
/* The way back of the last dispatch, which has ended: a vector of count elements for each token that has come, in the order of their coming; recvbuff
 * gets for each of this rank's own tokens the reduction over its ranks. What weights do is the caller's. */
qxResult_t qxCombine(const void *sendbuff, void *recvbuff, size_t count, qxDataType_t datatype, qxRedOp_t op, qxExperts_t experts,
                     qxRequest_t *request);

/* Waits for the end, and frees the request, however it has ended. */
qxResult_t qxWait(qxRequest_t request);
/* qxInProgress while it is under way; else how it has ended, and the request is to be freed with qxWait still. */
qxResult_t qxTest(qxRequest_t request);
/* The same, after so many seconds at most: for programs that have something else to do meanwhile. */
qxResult_t qxWaitFor(qxRequest_t request, double seconds);

/* Where this thread's next collective is called: messages about ranks that do not agree, or that are waited for, name the line. */
void qxCalledAt(const char *file, int line);

/* Calls say it by themselves. A program for which these names must be no macros defines QX_NO_CALLED_AT. */
#ifndef QX_NO_CALLED_AT
#define qxAllReduce(...) (qxCalledAt(__FILE__, __LINE__), qxAllReduce(__VA_ARGS__))
#define qxReduce(...) (qxCalledAt(__FILE__, __LINE__), qxReduce(__VA_ARGS__))
#define qxBroadcast(...) (qxCalledAt(__FILE__, __LINE__), qxBroadcast(__VA_ARGS__))
#define qxReduceScatter(...) (qxCalledAt(__FILE__, __LINE__), qxReduceScatter(__VA_ARGS__))
#define qxAllGather(...) (qxCalledAt(__FILE__, __LINE__), qxAllGather(__VA_ARGS__))
#define qxBarrier(...) (qxCalledAt(__FILE__, __LINE__), qxBarrier(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif

#endif
