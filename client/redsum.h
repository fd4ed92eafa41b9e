/* SPDX-License-Identifier: Apache-2.0 */
/**
 * redsum.h - the C interface of libredsum, and its only exported symbols.
 *
 * A process joins a job (redsum_init), gets the communicator of all its workers, submits collectives, waits for their
 * handles, and leaves (redsum_comm_close of the world communicator). When a worker is lost the others go on with
 * redsum_resume, and take new ones in with redsum_admit.
 *
 * Threads: every function may be called from any thread, except that collectives of one communicator must be submitted
 * in the same order on all ranks; threads that share a communicator order their calls themselves. No function of this
 * header blocks except redsum_init, redsum_comm_create, redsum_wait, redsum_resume, redsum_admit and redsum_comm_close,
 * and each of these ends by a limit. Errors: functions return a redsum_status; redsum_last_error() gives the text of
 * the calling thread's last failed call. Sizes are in bytes where a name says bytes, in elements where it says count;
 * times are in nanoseconds where a name ends in _ns. No function changes signal handlers, the floating-point
 * environment or the affinity of existing threads.
 */
#ifndef REDSUM_H
#define REDSUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define REDSUM_API __attribute__((visibility("default")))
#else
#define REDSUM_API
#endif

/** What a call ended with. The numbers are stable. */
typedef enum redsum_status {
  REDSUM_OK = 0,
  REDSUM_INVALID_ARGUMENT = 1, /**< wrong argument or variable; the text names it, its value and what is expected */
  REDSUM_UNSUPPORTED = 2,      /**< there is no such combination of element type, reduction and options */
  REDSUM_MISMATCH = 3,     /**< ranks asked for different things; the text names the field, the ranks and the values */
  REDSUM_PEER_LOST = 4,    /**< a worker is gone; the text names its rank and address */
  REDSUM_REDUCER_LOST = 5, /**< a reducer or the coordinator is gone, or there is none; the text names it */
  REDSUM_TIMEOUT = 6,      /**< a limit of time has passed; the text names who did not come */
  REDSUM_STALE = 7,        /**< a newer process has taken the place of this one */
  REDSUM_AUTH_FAILED = 8,  /**< the secrets differ, one side has none, or one is needed */
  REDSUM_VERSION_MISMATCH = 9,    /**< the versions of the protocol differ */
  REDSUM_PROTOCOL_ERROR = 10,     /**< a peer sent what the protocol does not allow */
  REDSUM_RESOURCE_EXHAUSTED = 11, /**< memory, descriptors or a limit of the pool do not suffice; the text says which */
  REDSUM_CLOSED = 12,             /**< the communicator was closed, or the job left, before the call was complete */
  REDSUM_INTERNAL = 13            /**< a bug of redsum's */
} redsum_status;

/** Element types. 16- and 8-bit floats are summed in fp32 and rounded once. */
typedef enum redsum_dtype {
  REDSUM_FP64 = 0,
  REDSUM_FP32 = 1,
  REDSUM_FP16 = 2,
  REDSUM_BF16 = 3,
  REDSUM_FP8_E4M3 = 4,
  REDSUM_FP8_E5M2 = 5,
  REDSUM_INT8 = 6,
  REDSUM_INT16 = 7,
  REDSUM_INT32 = 8,
  REDSUM_INT64 = 9,
  REDSUM_UINT8 = 10,
  REDSUM_UINT16 = 11,
  REDSUM_UINT32 = 12,
  REDSUM_UINT64 = 13,
  REDSUM_BOOL = 14,
  REDSUM_COMPLEX64 = 15,
  REDSUM_COMPLEX128 = 16
} redsum_dtype;

/** Reductions: a left fold in rank order. AVG divides the sum once by the number of contributors. */
typedef enum redsum_op { REDSUM_SUM = 0, REDSUM_PROD = 1, REDSUM_MIN = 2, REDSUM_MAX = 3, REDSUM_AVG = 4 } redsum_op;

/** Who sums for a job. The same on every rank. Server and direct mode give the same bits, and the ring too with
 * REDSUM_RING_ORDER_RANK. */
typedef enum redsum_mode {
  REDSUM_MODE_SERVER =
      0, /**< the reducers of the pool: a worker sends and receives S bytes per all-reduce of S bytes */
  REDSUM_MODE_DIRECT =
      1,               /**< the workers themselves, each an equal share: 2(n-1)/n x S bytes each way, no pool needed */
  REDSUM_MODE_RING = 2 /**< the workers, each with its two neighbours: 2(n-1)/n x S bytes each way in 2(n-1) steps, no
                          pool needed. Sums of 16- and 8-bit floats travel as fp32 on their first round */
} redsum_mode;

/** Where the fold of a chunk begins in a ring. The same on every rank. */
typedef enum redsum_ring_order {
  REDSUM_RING_ORDER_DEFAULT = 0, /**< as ring */
  REDSUM_RING_ORDER_RING = 1, /**< chunk k of an all-reduce at rank (k + 1) mod n, so that every link carries as much, a
                                 result for one rank behind that rank: the same bits on every rank and in every run with
                                 the same chunk size, but others than in server mode */
  REDSUM_RING_ORDER_RANK = 2  /**< rank 0, with the bits of server mode: up to 2 x S bytes each way */
} redsum_ring_order;

/** What a job in server mode does when it has lost all reducers of the pool. The same on every rank. */
typedef enum redsum_fallback {
  REDSUM_FALLBACK_DEFAULT = 0, /**< as direct */
  REDSUM_FALLBACK_NONE = 1,    /**< its calls end with reducer_lost */
  REDSUM_FALLBACK_DIRECT = 2   /**< its calls go on as in direct mode, with the same bits, until the pool has a reducer
                                  again. Workers that may not listen (data_address) cannot help with that */
} redsum_fallback;

typedef struct redsum_comm redsum_comm;     /**< an ordered group of workers */
typedef struct redsum_handle redsum_handle; /**< one submitted collective */

/**
 * How a process joins a job. Always start from redsum_options_init(), which sets the defaults and then what the
 * environment says: REDSUM_COORDINATOR, REDSUM_JOB_ID, REDSUM_SECRET_FILE, REDSUM_CHUNK_BYTES, REDSUM_WINDOW,
 * REDSUM_MODE (server, direct, ring), REDSUM_RING_ORDER (ring, rank), REDSUM_FALLBACK (none, direct),
 * REDSUM_MIN_WORKERS, REDSUM_MAX_WORKERS,
 * REDSUM_DATA_ADDRESS, REDSUM_INTERFACES,
 * REDSUM_INSECURE (1), REDSUM_*_TIMEOUT (seconds), and rank and world size from REDSUM_RANK/REDSUM_WORLD_SIZE,
 * RANK/WORLD_SIZE (torchrun), OMPI_COMM_WORLD_*, PMI_*, SLURM_PROCID/SLURM_NTASKS. Strings are copied by redsum_init.
 */
typedef struct redsum_options {
  size_t struct_bytes;          /**< sizeof(redsum_options) of the caller; set by redsum_options_init */
  const char* coordinator;      /**< host:port[,host:port...] */
  const char* job_id;           /**< [A-Za-z0-9._-]{1,64} without a leading dot */
  const char* secret_file;      /**< path of the pool's secret; NULL or "" for none */
  int32_t rank;                 /**< 0 .. world_size-1 */
  int32_t world_size;           /**< >= 1 */
  uint32_t chunk_bytes;         /**< 0: the pool chooses. 4096 .. 1048576, a multiple of 64; the same on every rank */
  uint32_t window;              /**< chunks in flight per shard; 0: the pool chooses. 1 .. 64 */
  int64_t connect_timeout_ns;   /**< until all ranks have joined and all lanes are open. Default 60 s */
  int64_t operation_timeout_ns; /**< of one collective, from its submission. Default 300 s */
  int64_t heartbeat_timeout_ns; /**< silence after which a peer is lost. Default 3 s */
  int32_t mode;                 /**< a redsum_mode. Default REDSUM_MODE_SERVER, or what REDSUM_MODE says */
  const char* data_address;     /**< host[:port] where this rank listens for the others, in direct mode and for rings;
                                     NULL or "": the interface that leads to the coordinator, any port
                                     (REDSUM_DATA_ADDRESS). Without a secret, REDSUM_INSECURE=1 and loopback it listens
                                     nowhere, and these are refused */
  int32_t ring_order;     /**< a redsum_ring_order. Default REDSUM_RING_ORDER_DEFAULT, or what REDSUM_RING_ORDER says */
  const char* interfaces; /**< the network card for this rank's data: names, prefixes with *, networks such
                             as 10.0.0.0/8, separated by commas, or ^ and such a list for all but these; the first that
                             matches counts. This rank listens there and its lanes come from that address; data_address,
                             where it is given, must lie on it. A loopback address is refused in a job whose coordinator
                             is reached by another. NULL or "": left to the system (REDSUM_INTERFACES) */
  int32_t fallback;       /**< a redsum_fallback. Default REDSUM_FALLBACK_DEFAULT, or what REDSUM_FALLBACK says */
  int32_t min_workers;    /**< with fewer workers redsum_resume waits for more. 0: more than half of those before. The
                             same on every rank (REDSUM_MIN_WORKERS) */
  int32_t max_workers; /**< more are not taken in. 0: as many as began. The same on every rank (REDSUM_MAX_WORKERS) */
} redsum_options;

/** One piece of a collective's data. A list of them is one collective, in that order, as if they were contiguous. */
typedef struct redsum_tensor {
  const void* input; /**< count elements, read until the call completes; natural alignment of the element is enough */
  void* output;      /**< count elements; may equal input (in place), must not overlap it or another piece otherwise */
  uint64_t count;    /**< elements; 0 is fine, with any pointers */
} redsum_tensor;

/** Options of one call. Zero-initialised = defaults (redsum_call_options_init writes them). */
typedef struct redsum_call_options {
  size_t struct_bytes;
  int32_t wire_dtype; /**< -1: as dtype. fp32 data may travel as REDSUM_BF16 or REDSUM_FP16, summed in fp32 */
  double prescale;    /**< every contribution is multiplied by this in the accumulator. Default 1 */
  double postscale;   /**< the sum (or average) is multiplied by this before rounding. Default 1 */
  int64_t timeout_ns; /**< 0: the communicator's operation_timeout_ns */
  const char* key;    /**< name for messages, at most 255 bytes; NULL for none. Must agree on all ranks. One call at a
                         time: until its handle was waited for, tested complete or freed */
  int32_t
      no_rollback; /**< 0: after an error a buffer in place equals its input, bit for bit. 1: undefined then, and no
                      copy is kept. Other memory for the output: undefined after an error; inputs are never written */
  int32_t ring; /**< 1: this call goes round the ring of the communicator's workers whatever the job's mode; the same on
                   every rank. 0: by the job's mode */
} redsum_call_options;

/** Called once when the handle is complete, on a thread of the library: do not block in it, do not submit from it. */
typedef void (*redsum_callback)(void* user, redsum_status status);

/** Version of the library that is loaded, such as "0.1.0"; static. */
REDSUM_API const char* redsum_version(void);
REDSUM_API const char* redsum_status_name(redsum_status status); /**< "ok", "invalid_argument", ...; static */
REDSUM_API const char* redsum_last_error(void);           /**< of this thread; valid until its next redsum call */
REDSUM_API size_t redsum_dtype_bytes(redsum_dtype dtype); /**< 0 for a number that is no dtype */
REDSUM_API redsum_status redsum_dtype_from_name(const char* name, redsum_dtype* dtype); /**< "fp32", "bf16", ... */
REDSUM_API redsum_status redsum_op_from_name(const char* name, redsum_op* op);          /**< "sum", "avg", ... */

/**
 * Write the defaults into the first struct_bytes bytes, and struct_bytes itself. The short forms below pass the size
 * that the caller was compiled with, so that a program goes on to work with a library whose structs have grown.
 */
REDSUM_API void redsum_options_init_sized(redsum_options* options, size_t struct_bytes);
REDSUM_API void redsum_call_options_init_sized(redsum_call_options* options, size_t struct_bytes);
static inline void redsum_options_init(redsum_options* options) {
  redsum_options_init_sized(options, sizeof *options);
}
static inline void redsum_call_options_init(redsum_call_options* options) {
  redsum_call_options_init_sized(options, sizeof *options);
}

/**
 * Joins the job and returns the communicator of all its workers. Blocks until every rank has joined, at most
 * connect_timeout_ns. A job that is there already takes the caller in when its workers call redsum_resume or
 * redsum_admit: its rank and the world's size are then those of the communicator, not those it asked for. A process
 * started again for a rank whose earlier one is still thought to be there supersedes that one, unless it answers.
 * Errors: invalid_argument, timeout (naming the ranks that did not come), auth_failed,
 * version_mismatch, resource_exhausted (the pool's memory budget), reducer_lost (no reducer).
 */
REDSUM_API redsum_status redsum_init(const redsum_options* options, redsum_comm** world);

/**
 * A communicator of some of the parent's ranks, in the order given; every member calls it with the same list, others do
 * not. The caller must be in the list. Blocks until all members have called, at most connect_timeout_ns.
 */
REDSUM_API redsum_status redsum_comm_create(redsum_comm* parent, const int32_t* ranks, size_t count,
                                            redsum_comm** comm);

/**
 * Waits for the communicator's calls (at most the operation timeout), then frees it. Closing the communicator that
 * redsum_init returned leaves the job: close the others before. Handles stay valid. NULL is fine. In server mode a
 * process that ends by exit() or return from main() first stays, at most for the operation timeout, until all ranks
 * have left: if a reducer is lost, they may need again what this rank contributed. Where this rank sums for the others
 * (direct mode, a job that fell back) leaving returns when they need it no more; after the operation timeout it goes
 * all the same.
 */
REDSUM_API redsum_status redsum_comm_close(redsum_comm* comm);

/** The caller's rank in the communicator, and how many ranks it has: the same until redsum_resume or redsum_admit. */
REDSUM_API int32_t redsum_comm_rank(const redsum_comm* comm);
REDSUM_API int32_t redsum_comm_size(const redsum_comm* comm);

/** One membership of a job: all but `rank` is the same on every worker. */
typedef struct redsum_membership {
  size_t struct_bytes; /**< sizeof(redsum_membership); set by the caller */
  uint64_t epoch;      /**< with which it began; grows */
  int32_t rank;        /**< the caller's */
  int32_t world_size;
  int32_t stayed;    /**< ranks below it were in the membership before, in the same order; the others are new and need
                          the state of the training from one of those. 0 in the first membership */
  uint64_t sequence; /**< the world's collectives go on with this number: the lowest that was not complete on every
                          worker that stayed. Who had completed it makes it again */
  int32_t waiting;   /**< so many workers wait to be taken in now; the workers hear of it at different times */
} redsum_membership;

/**
 * After an error of the world communicator (peer_lost, a timeout, a mismatch ...): the workers that are left go on
 * without those that are lost. Collective: every worker that is left calls it; those that wait to come in are taken in.
 * On success `world` is the communicator of the new membership, on the same handle: rank, size, and sequences that go
 * on with membership->sequence; other communicators of the job are closed, make them again. Averages divide by the
 * workers of the membership. Blocks until all have called and there are min_workers, at most connect_timeout_ns; when
 * yet another one is lost on the way it goes on without that one too. May be called again after an error. No other call
 * for the job may run meanwhile, but redsum_wait. `membership` may be NULL. Where nobody has come or gone and nothing
 * has failed it returns the membership that there is.
 * Errors: timeout (naming who has not called, or min_workers), stale (a newer process has this one's place), closed
 * (the coordinator is gone), reducer_lost (there is none).
 */
REDSUM_API redsum_status redsum_resume(redsum_comm* world, redsum_membership* membership);

/**
 * Takes in workers that wait, in a job that is well: as redsum_resume, but ends with the error of the world
 * communicator where it has one. Costs one message each way where nobody waits. Waits for the caller's own calls first.
 */
REDSUM_API redsum_status redsum_admit(redsum_comm* world, redsum_membership* membership);

/** The membership that there is. */
REDSUM_API redsum_status redsum_comm_membership(const redsum_comm* world, redsum_membership* membership);

/** What redsum_on_membership_change tells of. */
typedef enum redsum_membership_event {
  REDSUM_WORLD_FAILED = 0,    /**< the world communicator has ended with the error in the text: redsum_resume */
  REDSUM_WORKERS_WAIT = 1,    /**< workers wait to be taken in: redsum_admit */
  REDSUM_REDUCERS_CHANGED = 2 /**< the job goes on with other reducers; nothing is to be done */
} redsum_membership_event;
/** `text` is valid during the call. On a thread of the library: do not block in it, and call nothing of redsum's. */
typedef void (*redsum_membership_callback)(void* user, redsum_membership_event event, const char* text);
/** One per job; NULL: none any more. */
REDSUM_API redsum_status redsum_on_membership_change(redsum_comm* world, redsum_membership_callback callback,
                                                     void* user);

/**
 * Submits an all-reduce. `tensors` is copied, the memory it points to is not: it must stay until the handle completes.
 * On success *handle must be freed with redsum_handle_free. `options` may be NULL.
 * Errors at once: invalid_argument, unsupported, closed (or the error that closed the communicator).
 */
REDSUM_API redsum_status redsum_allreduce(redsum_comm* comm, const redsum_tensor* tensors, size_t tensor_count,
                                          redsum_dtype dtype, redsum_op op, const redsum_call_options* options,
                                          redsum_handle** handle);

/** Rank `root`'s input arrives in every rank's output (also the root's own, when it is other memory). */
REDSUM_API redsum_status redsum_broadcast(redsum_comm* comm, const redsum_tensor* tensors, size_t tensor_count,
                                          redsum_dtype dtype, int32_t root, const redsum_call_options* options,
                                          redsum_handle** handle);

/** The reduction arrives in rank `root`'s output alone; other ranks' outputs are not looked at and may be NULL. */
REDSUM_API redsum_status redsum_reduce(redsum_comm* comm, const redsum_tensor* tensors, size_t tensor_count,
                                       redsum_dtype dtype, redsum_op op, int32_t root,
                                       const redsum_call_options* options, redsum_handle** handle);

/**
 * The reduction of `input` (count elements for each rank, in the order of the ranks) is spread: this rank's `count`
 * elements of it arrive in `output`. In place: output = input + rank x count elements; otherwise they must not overlap.
 * After an error a buffer in place equals its input, as with an all-reduce. `_v`: counts[r] elements for rank r; one
 * for each rank of the communicator, copied, the same on every rank; 0 is fine, with any pointer for that part.
 */
REDSUM_API redsum_status redsum_reduce_scatter(redsum_comm* comm, const void* input, void* output, uint64_t count,
                                               redsum_dtype dtype, redsum_op op, const redsum_call_options* options,
                                               redsum_handle** handle);
REDSUM_API redsum_status redsum_reduce_scatter_v(redsum_comm* comm, const void* input, void* output,
                                                 const uint64_t* counts, redsum_dtype dtype, redsum_op op,
                                                 const redsum_call_options* options, redsum_handle** handle);

/**
 * Every rank's `input` (count elements) arrives in every rank's `output`, one after another in the order of the ranks.
 * In place: input = output + rank x count elements; otherwise they must not overlap. `_v`: as above.
 */
REDSUM_API redsum_status redsum_all_gather(redsum_comm* comm, const void* input, void* output, uint64_t count,
                                           redsum_dtype dtype, const redsum_call_options* options,
                                           redsum_handle** handle);
REDSUM_API redsum_status redsum_all_gather_v(redsum_comm* comm, const void* input, void* output, const uint64_t* counts,
                                             redsum_dtype dtype, const redsum_call_options* options,
                                             redsum_handle** handle);

/**
 * Exchanges: data that goes from worker to worker as it is, in every mode, over lanes between the workers (opened at
 * their first use; see data_address in redsum_options). A rank's call is complete when all it wants has arrived and
 * what it sends may be overwritten, which says nothing of other ranks. Between two ranks sends and receives match in
 * the order in which both submit them, apart from collectives; what differs (kind, dtype, count, key) ends the
 * communicator with mismatch. There is no recovery inside an exchange: when a rank is lost it ends with peer_lost.
 * Inputs are never written; an output is undefined after an error. Call options: wire_dtype and scales are refused,
 * ring is ignored.
 */

/**
 * Elements [r x count, (r + 1) x count) of `input` arrive at rank r, behind what ranks before this one have for it: its
 * elements [s x count, (s + 1) x count) of `output` come from rank s. Input and output must not overlap.
 * `_v`: input_counts[r] elements for rank r, output_counts[s] of rank s, one after another; one count for each rank,
 * copied; what rank s has for rank r must be what rank r expects of rank s. 0 is fine, with any pointer for no element.
 */
REDSUM_API redsum_status redsum_all_to_all(redsum_comm* comm, const void* input, void* output, uint64_t count,
                                           redsum_dtype dtype, const redsum_call_options* options,
                                           redsum_handle** handle);
REDSUM_API redsum_status redsum_all_to_all_v(redsum_comm* comm, const void* input, const uint64_t* input_counts,
                                             void* output, const uint64_t* output_counts, redsum_dtype dtype,
                                             const redsum_call_options* options, redsum_handle** handle);

/**
 * Every rank's `input` (count elements) arrives in rank `root`'s output (size x count elements), in the order of the
 * ranks; other ranks' outputs are not looked at. At the root in place: input = output + root x count elements.
 */
REDSUM_API redsum_status redsum_gather(redsum_comm* comm, const void* input, void* output, uint64_t count,
                                       redsum_dtype dtype, int32_t root, const redsum_call_options* options,
                                       redsum_handle** handle);
/** The other way round: rank r's output (count elements) is the r-th part of rank `root`'s input. */
REDSUM_API redsum_status redsum_scatter(redsum_comm* comm, const void* input, void* output, uint64_t count,
                                        redsum_dtype dtype, int32_t root, const redsum_call_options* options,
                                        redsum_handle** handle);

/**
 * `count` elements for rank `to` alone, which receives them with redsum_recv: the only calls that not every rank takes
 * part in. What nobody has asked for yet waits at the receiver, at most `window` chunks of `chunk_bytes` (see
 * redsum_stats): a send of at most that may complete before its receive is submitted, a larger one cannot. Numbers of
 * these calls (redsum_handle_sequence) are the rank's own. Barriers do not wait for them.
 */
REDSUM_API redsum_status redsum_send(redsum_comm* comm, const void* input, uint64_t count, redsum_dtype dtype,
                                     int32_t to, const redsum_call_options* options, redsum_handle** handle);
REDSUM_API redsum_status redsum_recv(redsum_comm* comm, void* output, uint64_t count, redsum_dtype dtype, int32_t from,
                                     const redsum_call_options* options, redsum_handle** handle);

/** Completes when every rank has submitted it and all earlier collectives of the communicator are complete everywhere.
 */
REDSUM_API redsum_status redsum_barrier(redsum_comm* comm, const redsum_call_options* options, redsum_handle** handle);

/** Waits at most timeout_ns (< 0: as long as the call itself may take). timeout: not complete yet, try again. Otherwise
 * the call's status. */
REDSUM_API redsum_status redsum_wait(redsum_handle* handle, int64_t timeout_ns);
REDSUM_API int redsum_test(const redsum_handle* handle); /**< 1: complete, redsum_wait returns at once; 0: not yet */
/** Runs `callback` once on completion; at once, on this thread, when the handle is complete already. One per handle. */
REDSUM_API redsum_status redsum_on_complete(redsum_handle* handle, redsum_callback callback, void* user);
REDSUM_API const char* redsum_handle_error(
    const redsum_handle* handle); /**< text, "" while pending or ok; lives as long as the handle */
/** Number of the collective in its communicator, the same on every rank, as error texts name it. */
REDSUM_API uint64_t redsum_handle_sequence(const redsum_handle* handle);
/** The epoch in which it completed; 0 before that, and after an error. */
REDSUM_API uint64_t redsum_handle_epoch(const redsum_handle* handle);
REDSUM_API uint32_t
redsum_handle_contributors(const redsum_handle* handle); /**< ranks that took part; valid after completion */
/** Frees the handle; the call itself goes on and its memory must stay until it ends. NULL is fine. */
REDSUM_API void redsum_handle_free(redsum_handle* handle);

/** Counters of one communicator's process, from its start. Written up to struct_bytes, which the caller sets. */
typedef struct redsum_statistics {
  size_t struct_bytes;
  uint64_t calls_submitted, calls_completed, calls_failed;
  uint64_t bytes_sent, bytes_received; /**< on this process' data lanes, with headers; in direct mode also those of
                                            its reducer, and the share that stays in the process counts */
  uint64_t send_calls, receive_calls;  /**< system calls of the worker's data path */
  uint64_t chunks_sent, chunks_received;
  uint32_t reducers, shards;    /**< of the current epoch */
  uint32_t chunk_bytes, window; /**< as agreed */
  uint32_t epoch;
  uint32_t small_bytes;       /**< as agreed: calls of at most so many payload bytes overtake others */
  uint64_t nonfinite_results; /**< elements of reductions' results that this process received as NaN or infinite, as
                                 they travel; REDSUM_CHECK_FINITE=1 names the inputs */
} redsum_statistics;
/** Writes what there is up to now. Errors: invalid_argument where struct_bytes is not set. */
REDSUM_API redsum_status redsum_stats(redsum_comm* comm, redsum_statistics* statistics);

/** Takes one line of the library's log, without its newline: level 0 error .. 3 trace. */
typedef void (*redsum_log_callback)(void* user, int level, const char* line);
/** Where the library's log lines go. NULL: REDSUM_DEBUG_FILE or stderr. See REDSUM_DEBUG. */
REDSUM_API void redsum_set_log(redsum_log_callback callback, void* user);

#ifdef __cplusplus
}
#endif
#endif /* REDSUM_H */
