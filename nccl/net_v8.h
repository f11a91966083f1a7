/* What NCCL expects of a network plugin, version 8 (NCCL 2.20 and newer): layouts and numbers, written down anew from NCCL's description of
 * the interface, so that building needs no NCCL. Nothing here is ours to change. */
#ifndef QUINCUNX_NET_V8_H
#define QUINCUNX_NET_V8_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11
} ncclDataType_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;

typedef enum { NCCL_LOG_NONE = 0, NCCL_LOG_VERSION = 1, NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 } ncclDebugLogLevel;
/* Parts of NCCL that a line is about, as bits. */
enum { NCCL_INIT = 1, NCCL_NET = 16 };
#define NCCL_ALL (~0ul)
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file, int line, const char *format, ...);

#define NCCL_NET_HANDLE_MAXSIZE 128
/* Requests of a connection at once, at most. */
#define NCCL_NET_MAX_REQUESTS 32

enum { NCCL_PTR_HOST = 1, NCCL_PTR_CUDA = 2, NCCL_PTR_DMABUF = 4 };

typedef enum { NCCL_NET_DEVICE_HOST = 0, NCCL_NET_DEVICE_UNPACK = 1 } ncclNetDeviceType;

typedef struct ncclNetDeviceHandle_v8 ncclNetDeviceHandle_v8_t;

typedef struct {
  char *name;
  char *pciPath;   /* in /sys; NULL: none */
  uint64_t guid;   /* of the NIC */
  int ptrSupport;  /* NCCL_PTR_... */
  int regIsGlobal; /* registrations are not a connection's */
  int speed;       /* Mbit/s */
  int port;
  float latency; /* 0: NCCL's own figure */
  int maxComms;
  int maxRecvs; /* buffers of an irecv */
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
} ncclNetProperties_v8_t;

/* Messages between two ranks. A connect or accept that gives NULL is called again; so is an isend or irecv whose request is NULL. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(ncclDebugLogger_t logger);
  ncclResult_t (*devices)(int *count);
  ncclResult_t (*getProperties)(int device, ncclNetProperties_v8_t *properties);
  ncclResult_t (*listen)(int device, void *handle, void **listen_comm);
  ncclResult_t (*connect)(int device, void *handle, void **send_comm, ncclNetDeviceHandle_v8_t **send_device);
  ncclResult_t (*accept)(void *listen_comm, void **recv_comm, ncclNetDeviceHandle_v8_t **recv_device);
  ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
  ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd, void **mhandle);
  ncclResult_t (*deregMr)(void *comm, void *mhandle);
  ncclResult_t (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle, void **request);
  ncclResult_t (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request);
  ncclResult_t (*iflush)(void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **request);
  ncclResult_t (*test)(void *request, int *done, int *sizes);
  ncclResult_t (*closeSend)(void *send_comm);
  ncclResult_t (*closeRecv)(void *recv_comm);
  ncclResult_t (*closeListen)(void *listen_comm);
  ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **device_mhandle);
  ncclResult_t (*irecvConsumed)(void *recv_comm, int n, void *request);
} ncclNet_v8_t;

typedef struct {
  void *mhandle;
  void *address;
  uint32_t size;
} ncclNetSGE_v8_t;

/* Collectives. Those with a window are called for pieces of the vector of all ranks' parts, `bytesPerRank` each in rank order: bytes
 * `windowOffset` to `windowOffset + windowBytes` of it. A rank's own buffer begins where its part and the window do. */
typedef struct {
  const char *name;
  ncclResult_t (*init)(ncclDebugLogger_t logger);
  ncclResult_t (*devices)(int *count);
  ncclResult_t (*getProperties)(int device, ncclNetProperties_v8_t *properties);
  ncclResult_t (*listen)(int device, void *handle, void **listen_comm);
  ncclResult_t (*connect)(void *handles[], int nranks, int rank, void *listen_comm, void **coll_comm);
  ncclResult_t (*reduceSupport)(ncclDataType_t type, ncclRedOp_t op, int *supported);
  ncclResult_t (*regMr)(void *coll_comm, void *data, size_t size, int type, void **mhandle);
  ncclResult_t (*regMrDmaBuf)(void *coll_comm, void *data, size_t size, int type, uint64_t offset, int fd, void **mhandle);
  ncclResult_t (*deregMr)(void *coll_comm, void *mhandle);
  ncclResult_t (*iallreduce)(void *coll_comm, void *send, void *recv, int count, ncclDataType_t type, ncclRedOp_t op, void *send_mhandle,
                             void *recv_mhandle, void **request);
  ncclResult_t (*iallgather)(void *coll_comm, void *send, int parts, ncclNetSGE_v8_t *recv_parts, size_t bytes_per_rank,
                             size_t window_offset, size_t window_bytes, void *send_mhandle, void **request);
  ncclResult_t (*ireducescatter)(void *coll_comm, int parts, ncclNetSGE_v8_t *send_parts, void *recv, size_t bytes_per_rank,
                                 size_t window_offset, size_t window_bytes, ncclDataType_t type, ncclRedOp_t op, void *recv_mhandle,
                                 void **request);
  ncclResult_t (*iflush)(void *coll_comm, void *data, int size, void *mhandle, void **request);
  ncclResult_t (*test)(void *request, int *done, int *size);
  ncclResult_t (*closeColl)(void *coll_comm);
  ncclResult_t (*closeListen)(void *listen_comm);
} ncclCollNet_v8_t;

#endif
