/* MPI's collectives through Quincunx's switches: a component of Open MPI 4.1's framework `coll`, beside `tuned` and `basic`.
 *
 * AllReduce, Reduce, Bcast, Barrier, Allgather, Reduce_scatter and Reduce_scatter_block run in the network where data type and operation are
 * ones that switches know; all else, and whatever runs where no manager can be had, is left to the component of the next lower priority.
 * Whether a call suits is told by what MPI makes equal at all ranks (operation, element, bytes), so that all of them tell the same.
 *
 * A communicator has a group in the network from its first such call on: its ranks agree by Open MPI's own collectives on whether all of them
 * can, rank 0 has the group made, and hands on its number. */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/group/group.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

/* Where a collective is called is a line of the MPI program, which nobody here knows. */
#define QX_NO_CALLED_AT
#include <quincunx.h>

/* How long a call of ours waits at a time before Open MPI's own messages have their turn. */
#define TURN_SECONDS 1e-4

/* Whether a communicator's calls run in the network. */
typedef enum { NOT_ASKED, BEING_ASKED, OURS, THEIRS } whose_t;

/* What the component of the next lower priority does: a function and the module that it is given. */
#define EACH(f) f(allreduce) f(reduce) f(bcast) f(barrier) f(allgather) f(reduce_scatter) f(reduce_scatter_block)

typedef struct {
  mca_coll_base_module_t super;
#define FIELD(name)                                 \
  mca_coll_base_module_##name##_fn_t next_##name;   \
  mca_coll_base_module_t *next_##name##_module;
  EACH(FIELD)
#undef FIELD
  whose_t whose;
  qxComm_t comm;
} mca_coll_quincunx_module_t;

OBJ_CLASS_DECLARATION(mca_coll_quincunx_module_t);

/* Hands a call on. */
#define NEXT(module, name, ...) ((module)->next_##name(__VA_ARGS__, (module)->next_##name##_module))

static int priority = 90;
static int seconds = 3600;
/* What is smaller or larger, in bytes of one rank, is handed on; zero is no limit. */
static unsigned long least_bytes = 0;
static unsigned long most_bytes = 0;

/* The process's place in its job, from the first call on. */
static qxEndpoint_t endpoint = NULL;
static bool has_tried = false;

/* The component. */

static int register_parameters(void);
static int close_component(void);
static int init_query(bool enable_progress_threads, bool enable_mpi_threads);
static mca_coll_base_module_t *comm_query(struct ompi_communicator_t *comm, int *found_priority);

mca_coll_base_component_t mca_coll_quincunx_component = {
    .collm_version =
        {
            MCA_COLL_BASE_VERSION_2_0_0,
            .mca_component_name = "quincunx",
            MCA_BASE_MAKE_VERSION(component, QX_MAJOR, QX_MINOR, 0),
            .mca_close_component = close_component,
            .mca_register_component_params = register_parameters,
        },
    .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

static void parameter(const char *name, const char *what, mca_base_var_type_t type, void *value) {
  mca_base_component_var_register(&mca_coll_quincunx_component.collm_version, name, what, type, NULL, 0, 0, OPAL_INFO_LVL_5,
                                  MCA_BASE_VAR_SCOPE_READONLY, value);
}

static int register_parameters(void) {
  parameter("priority", "Priority of the component: of several the highest has a call first", MCA_BASE_VAR_TYPE_INT, &priority);
  parameter("timeout", "Seconds that a call waits for the other ranks before it fails", MCA_BASE_VAR_TYPE_INT, &seconds);
  parameter("least_bytes", "Calls of fewer bytes of a rank are Open MPI's own", MCA_BASE_VAR_TYPE_UNSIGNED_LONG, &least_bytes);
  parameter("most_bytes", "Calls of more bytes of a rank are Open MPI's own; 0: of none", MCA_BASE_VAR_TYPE_UNSIGNED_LONG, &most_bytes);
  return OMPI_SUCCESS;
}

static int close_component(void) {
  if (endpoint != NULL) {
    /* MPI_Finalize has waited for all ranks: none needs an answer any more. */
    qxDetach(endpoint);
    endpoint = NULL;
  }
  return OMPI_SUCCESS;
}

static int init_query(bool enable_progress_threads, bool enable_mpi_threads) {
  (void)enable_progress_threads;
  (void)enable_mpi_threads;
  return OMPI_SUCCESS;
}

static void construct(mca_coll_quincunx_module_t *module) {
  memset((char *)module + sizeof module->super, 0, sizeof *module - sizeof module->super);
}

static void destruct(mca_coll_quincunx_module_t *module) {
#define RELEASE(name) \
  if (module->next_##name##_module != NULL) OBJ_RELEASE(module->next_##name##_module);
  EACH(RELEASE)
#undef RELEASE
  if (module->comm != NULL) qxCommDestroy(module->comm);
}

OBJ_CLASS_INSTANCE(mca_coll_quincunx_module_t, mca_coll_base_module_t, construct, destruct);

/* What a call has met that is not its end. */
static int failed(const char *what) {
  opal_output(0, "coll:quincunx: %s: %s", what, qxGetLastError());
  return OMPI_ERROR;
}

/* Why calls are handed on: once a reason, for there may be many communicators. */
static void hands_on(void) {
  static char last[512];
  const char *why = qxGetLastError();
  if (strncmp(why, last, sizeof last - 1) == 0) return;
  strncpy(last, why, sizeof last - 1);
  failed("Open MPI's own collectives are used");
}

/* Waits for a call's end. Messages of the program go on meanwhile: another rank may need one before it makes this call. */
static int finish(qxResult_t begun, qxRequest_t request, const char *what) {
  if (begun != qxSuccess) return failed(what);
  while (qxWaitFor(request, TURN_SECONDS) == qxInProgress) opal_progress();
  return qxWait(request) == qxSuccess ? OMPI_SUCCESS : failed(what);
}

/* Joins the job, if the environment names a manager. */
static bool is_attached(void) {
  if (!has_tried) {
    has_tried = true;
    if (getenv("QUINCUNX_MANAGER") == NULL) {
      opal_output(0, "coll:quincunx: expected a manager in QUINCUNX_MANAGER, found none: Open MPI's own collectives are used; "
                     "start one (quincunx manager) and hand it on (mpirun -x QUINCUNX_MANAGER)");
    } else if (qxAttach(&endpoint) != qxSuccess) {
      endpoint = NULL;
      hands_on();
    }
  }
  return endpoint != NULL;
}

/* A communicator's ranks in MPI_COMM_WORLD, in its order; NULL if one of them is of another job. */
static int *world_ranks(struct ompi_communicator_t *comm) {
  int size = ompi_comm_size(comm);
  int *ranks = malloc(sizeof(int) * size);
  opal_process_name_t first = ompi_group_get_proc_name(comm->c_local_group, 0);
  for (int place = 0; ranks != NULL && place < size; place++) {
    opal_process_name_t name = ompi_group_get_proc_name(comm->c_local_group, place);
    if (name.jobid != first.jobid) {
      free(ranks);
      return NULL;
    }
    ranks[place] = (int)name.vpid;
  }
  return ranks;
}

/* Whether all ranks say yes. */
static bool do_all(mca_coll_quincunx_module_t *module, struct ompi_communicator_t *comm, int mine) {
  int all = 0;
  return NEXT(module, allreduce, &mine, &all, 1, MPI_INT, MPI_MIN, comm) == OMPI_SUCCESS && all;
}

/* Whether the communicator's calls run in the network. Its first one asks: all ranks come here then. */
static bool is_ours(mca_coll_quincunx_module_t *module, struct ompi_communicator_t *comm) {
  if (module->whose != NOT_ASKED) return module->whose == OURS;
  /* What Open MPI's own collectives call of this communicator meanwhile is theirs, too. */
  module->whose = BEING_ASKED;
  int *ranks = world_ranks(comm), size = ompi_comm_size(comm);
  struct {
    qxGroupId id;
    int is_made;
  } group = {{{0, 0}}, 0};
  bool joined = false;
  if (do_all(module, comm, ranks != NULL && is_attached())) {
    if (ompi_comm_rank(comm) == 0) {
      group.is_made = qxMakeGroup(endpoint, ranks, size, &group.id) == qxSuccess;
      if (!group.is_made) hands_on();
    }
    if (NEXT(module, bcast, &group, sizeof group, MPI_BYTE, 0, comm) == OMPI_SUCCESS && group.is_made) {
      joined = qxCommInitGroup(&module->comm, endpoint, ranks, size, group.id) == qxSuccess;
      if (!joined) hands_on();
      joined = do_all(module, comm, joined);
    }
  }
  free(ranks);
  if (joined) {
    qxCommSetTimeout(module->comm, seconds);
  } else if (module->comm != NULL) {
    qxCommDestroy(module->comm);
    module->comm = NULL;
  }
  module->whose = joined ? OURS : THEIRS;
  return joined;
}

/* Elements that are added, and operations. What is the same number by another name is in the list by each of its names. */
static const struct {
  MPI_Datatype mpi;
  qxDataType_t ours;
  bool is_float;
} ELEMENTS[] = {
    {MPI_FLOAT, qxFloat32, true},          {MPI_DOUBLE, qxFloat64, true},         {MPI_REAL, qxFloat32, true},
    {MPI_DOUBLE_PRECISION, qxFloat64, true}, {MPI_REAL4, qxFloat32, true},        {MPI_REAL8, qxFloat64, true},
    {MPI_SIGNED_CHAR, qxInt8, false},      {MPI_INT8_T, qxInt8, false},           {MPI_UNSIGNED_CHAR, qxUint8, false},
    {MPI_UINT8_T, qxUint8, false},         {MPI_BYTE, qxUint8, false},            {MPI_SHORT, qxInt16, false},
    {MPI_INT16_T, qxInt16, false},         {MPI_INT, qxInt32, false},             {MPI_INT32_T, qxInt32, false},
    {MPI_INTEGER, qxInt32, false},         {MPI_INTEGER4, qxInt32, false},        {MPI_UNSIGNED, qxUint32, false},
    {MPI_UINT32_T, qxUint32, false},       {MPI_LONG, qxInt64, false},            {MPI_LONG_LONG, qxInt64, false},
    {MPI_INT64_T, qxInt64, false},         {MPI_INTEGER8, qxInt64, false},        {MPI_AINT, qxInt64, false},
    {MPI_OFFSET, qxInt64, false},          {MPI_COUNT, qxInt64, false},           {MPI_UNSIGNED_LONG, qxUint64, false},
    {MPI_UNSIGNED_LONG_LONG, qxUint64, false}, {MPI_UINT64_T, qxUint64, false},
};

static const struct {
  MPI_Op mpi;
  qxRedOp_t ours;
  bool for_floats;
} OPERATIONS[] = {
    {MPI_SUM, qxSum, true},        {MPI_PROD, qxProd, true},    {MPI_MAX, qxMax, true},       {MPI_MIN, qxMin, true},
    {MPI_BAND, qxBitAnd, false},   {MPI_BOR, qxBitOr, false},   {MPI_BXOR, qxBitXor, false},
};

#define LENGTH(list) (sizeof(list) / sizeof *(list))

/* A reduction as the network has it. */
typedef struct {
  qxDataType_t element;
  qxRedOp_t op;
} reduction_t;

/* Whether the network reduces so. */
static bool reduces(struct ompi_datatype_t *type, struct ompi_op_t *op, reduction_t *found) {
  for (size_t t = 0; t < LENGTH(ELEMENTS); t++) {
    if (ELEMENTS[t].mpi != type) continue;
    for (size_t o = 0; o < LENGTH(OPERATIONS); o++) {
      if (OPERATIONS[o].mpi != op || (ELEMENTS[t].is_float && !OPERATIONS[o].for_floats)) continue;
      *found = (reduction_t){ELEMENTS[t].ours, OPERATIONS[o].ours};
      return true;
    }
  }
  return false;
}

static size_t bytes_of(size_t count, struct ompi_datatype_t *type) {
  size_t size;
  ompi_datatype_type_size(type, &size);
  return count * size;
}

static bool is_within(size_t bytes) { return bytes >= least_bytes && (most_bytes == 0 || bytes <= most_bytes); }

/* Where elements lie that leave no room between them; NULL if they do. */
static char *data_of(const void *buffer, int count, struct ompi_datatype_t *type) {
  ptrdiff_t begin, extent;
  if (!ompi_datatype_is_contiguous_memory_layout(type, count)) return NULL;
  ompi_datatype_get_true_extent(type, &begin, &extent);
  return (char *)buffer + begin;
}

static int out_of_memory(size_t bytes) {
  opal_output(0, "coll:quincunx: expected memory for %zu bytes, found none", bytes);
  return OMPI_ERR_OUT_OF_RESOURCE;
}

/* Elements next to each other, and back. */
static int pack(const void *from, int count, struct ompi_datatype_t *type, char *to, size_t bytes, struct ompi_communicator_t *comm) {
  int place = 0;
  return PMPI_Pack(from, count, type, to, (int)bytes, &place, comm);
}

static int unpack(const char *from, size_t bytes, void *to, int count, struct ompi_datatype_t *type, struct ompi_communicator_t *comm) {
  int place = 0;
  return PMPI_Unpack(from, (int)bytes, &place, to, count, type, comm);
}

/* The calls. */

static int allreduce(const void *sbuf, void *rbuf, int count, struct ompi_datatype_t *type, struct ompi_op_t *op,
                     struct ompi_communicator_t *comm, mca_coll_base_module_t *base) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
  reduction_t as;
  qxRequest_t request;
  if (!reduces(type, op, &as) || count == 0 || !is_within(bytes_of(count, type)) || !is_ours(module, comm))
    return NEXT(module, allreduce, sbuf, rbuf, count, type, op, comm);
  if (sbuf == MPI_IN_PLACE) sbuf = rbuf;
  qxResult_t begun = qxAllReduce(sbuf, rbuf, count, as.element, as.op, module->comm, &request);
  return finish(begun, request, "MPI_Allreduce");
}

static int reduce(const void *sbuf, void *rbuf, int count, struct ompi_datatype_t *type, struct ompi_op_t *op, int root,
                  struct ompi_communicator_t *comm, mca_coll_base_module_t *base) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
  reduction_t as;
  qxRequest_t request;
  if (!reduces(type, op, &as) || count == 0 || !is_within(bytes_of(count, type)) || !is_ours(module, comm))
    return NEXT(module, reduce, sbuf, rbuf, count, type, op, root, comm);
  if (sbuf == MPI_IN_PLACE) sbuf = rbuf;
  qxResult_t begun = qxReduce(sbuf, rbuf, count, as.element, as.op, root, module->comm, &request);
  return finish(begun, request, "MPI_Reduce");
}

static int bcast(void *buffer, int count, struct ompi_datatype_t *type, int root, struct ompi_communicator_t *comm,
                 mca_coll_base_module_t *base) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
  size_t bytes = bytes_of(count, type);
  qxRequest_t request;
  /* What is not next to each other is packed, of which MPI counts bytes in an int. */
  if (bytes == 0 || bytes > INT_MAX || !is_within(bytes) || !is_ours(module, comm))
    return NEXT(module, bcast, buffer, count, type, root, comm);
  bool is_root = ompi_comm_rank(comm) == root;
  char *data = data_of(buffer, count, type), *packed = NULL;
  int result = OMPI_SUCCESS;
  if (data == NULL) {
    data = packed = malloc(bytes);
    if (packed == NULL) return out_of_memory(bytes);
    if (is_root) result = pack(buffer, count, type, packed, bytes, comm);
  }
  if (result == OMPI_SUCCESS) {
    qxResult_t begun = qxBroadcast(data, data, bytes, qxUint8, root, module->comm, &request);
    result = finish(begun, request, "MPI_Bcast");
  }
  if (result == OMPI_SUCCESS && packed != NULL && !is_root) result = unpack(packed, bytes, buffer, count, type, comm);
  free(packed);
  return result;
}

static int barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
  qxRequest_t request;
  if (!is_ours(module, comm)) return NEXT(module, barrier, comm);
  qxResult_t begun = qxBarrier(module->comm, &request);
  return finish(begun, request, "MPI_Barrier");
}

static int allgather(const void *sbuf, int scount, struct ompi_datatype_t *stype, void *rbuf, int rcount, struct ompi_datatype_t *rtype,
                     struct ompi_communicator_t *comm, mca_coll_base_module_t *base) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
  int ranks = ompi_comm_size(comm), rank = ompi_comm_rank(comm);
  size_t bytes = bytes_of(rcount, rtype), whole = bytes * ranks;
  qxRequest_t request;
  if (bytes == 0 || whole > INT_MAX || !is_within(bytes) || !is_ours(module, comm))
    return NEXT(module, allgather, sbuf, scount, stype, rbuf, rcount, rtype, comm);
  ptrdiff_t begin, extent;
  ompi_datatype_get_extent(rtype, &begin, &extent);
  bool in_place = sbuf == MPI_IN_PLACE;
  if (in_place) {
    sbuf = (char *)rbuf + (ptrdiff_t)rank * rcount * extent;
    scount = rcount;
    stype = rtype;
  }
  char *mine = data_of(sbuf, scount, stype), *all = data_of(rbuf, rcount * ranks, rtype);
  char *packed = NULL, *packed_all = NULL;
  int result = OMPI_SUCCESS;
  if (mine == NULL) {
    mine = packed = malloc(bytes);
    if (packed == NULL) return out_of_memory(bytes);
    result = pack(sbuf, scount, stype, packed, bytes, comm);
  }
  if (all == NULL) {
    all = packed_all = malloc(whole);
    if (packed_all == NULL) {
      free(packed);
      return out_of_memory(whole);
    }
  }
  if (result == OMPI_SUCCESS) {
    qxResult_t begun = qxAllGather(mine, all, bytes, qxUint8, module->comm, &request);
    result = finish(begun, request, "MPI_Allgather");
  }
  if (result == OMPI_SUCCESS && packed_all != NULL) result = unpack(packed_all, whole, rbuf, rcount * ranks, rtype, comm);
  free(packed);
  free(packed_all);
  return result;
}

/* A rank's part of the sum of all. In place the parts of all lie where this rank's own is put. */
static int scattered(const void *sbuf, void *rbuf, int count, struct ompi_datatype_t *type, reduction_t as,
                     mca_coll_quincunx_module_t *module, const char *what) {
  size_t bytes = bytes_of(count, type);
  bool in_place = sbuf == MPI_IN_PLACE;
  void *mine = in_place ? malloc(bytes) : rbuf;
  qxRequest_t request;
  if (mine == NULL) return out_of_memory(bytes);
  qxResult_t begun = qxReduceScatter(in_place ? rbuf : sbuf, mine, count, as.element, as.op, module->comm, &request);
  int result = finish(begun, request, what);
  if (in_place) {
    if (result == OMPI_SUCCESS) memcpy(rbuf, mine, bytes);
    free(mine);
  }
  return result;
}

static int reduce_scatter_block(const void *sbuf, void *rbuf, int count, struct ompi_datatype_t *type, struct ompi_op_t *op,
                                struct ompi_communicator_t *comm, mca_coll_base_module_t *base) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
  reduction_t as;
  if (!reduces(type, op, &as) || count == 0 || !is_within(bytes_of(count, type)) || !is_ours(module, comm))
    return NEXT(module, reduce_scatter_block, sbuf, rbuf, count, type, op, comm);
  return scattered(sbuf, rbuf, count, type, as, module, "MPI_Reduce_scatter_block");
}

/* The same, where all parts are as long as each other. */
static int reduce_scatter(const void *sbuf, void *rbuf, const int *counts, struct ompi_datatype_t *type, struct ompi_op_t *op,
                          struct ompi_communicator_t *comm, mca_coll_base_module_t *base) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
  reduction_t as;
  bool suits = reduces(type, op, &as) && counts[0] > 0 && is_within(bytes_of(counts[0], type));
  for (int rank = 1; rank < ompi_comm_size(comm); rank++) suits = suits && counts[rank] == counts[0];
  if (!suits || !is_ours(module, comm)) return NEXT(module, reduce_scatter, sbuf, rbuf, counts, type, op, comm);
  return scattered(sbuf, rbuf, counts[0], type, as, module, "MPI_Reduce_scatter");
}

/* Keeps what the component of the next lower priority does. */
static int enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm) {
  mca_coll_quincunx_module_t *module = (mca_coll_quincunx_module_t *)base;
#define KEEP(name)                                                       \
  module->next_##name = comm->c_coll->coll_##name;                       \
  module->next_##name##_module = comm->c_coll->coll_##name##_module;     \
  if (module->next_##name == NULL || module->next_##name##_module == NULL) { \
    module->next_##name##_module = NULL;                                 \
    return OMPI_ERR_NOT_FOUND;                                           \
  }                                                                      \
  OBJ_RETAIN(module->next_##name##_module);
  EACH(KEEP)
#undef KEEP
  return OMPI_SUCCESS;
}

static mca_coll_base_module_t *comm_query(struct ompi_communicator_t *comm, int *found_priority) {
  *found_priority = priority;
  if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) return NULL;
  mca_coll_quincunx_module_t *module = OBJ_NEW(mca_coll_quincunx_module_t);
  if (module == NULL) return NULL;
  module->super.coll_module_enable = enable;
#define OFFER(name) module->super.coll_##name = name;
  EACH(OFFER)
#undef OFFER
  return &module->super;
}
