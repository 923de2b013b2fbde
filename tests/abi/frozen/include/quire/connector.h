/* quire/connector.h: the interface of a connector module. A connector keeps objects elsewhere: in
 * other memory, on disk, in a store. An object is bytes under a key. Keys are opaque bytes that the
 * caller chooses. An object is written once and never changed. Engines use connectors through
 * quire/tier.h; this header is for authors of connectors, and for other stores of one's own.
 *
 * A module is libquire_connector_<name>.so. It has one exported symbol, quire_connector_query, and
 * the ELF note of driver.h. A *ticket* is one submitted transfer or look-up. It ends exactly once:
 * done, failed or cancelled. Until then the caller leaves the bytes of the ticket alone.
 *
 * Obligations:
 *   C-1 query is as in D-1 of driver.h.
 *   C-2 submit never blocks. A ticket that is not accepted was not started. Arrays given to submit
 *       are read before it returns; what a connector needs later it copies.
 *   C-3 each accepted ticket completes exactly once, also on cancel and close.
 *   C-4 a load of an unknown key ends with NOT_FOUND; that is an answer, not a failure.
 *   C-5 no byte outside the ticket's runs is touched. A load writes each byte of its runs or ends
 *       with an error.
 *   C-6 a ticket completes once the connector certainly touches its bytes no more.
 *       This is also true for CANCELLED, DEADLINE_EXCEEDED and any other error. A connector whose
 *       engine cannot prove this moves bytes through memory of its own.
 *   C-7 submit, poll and cancel may be called concurrently. At most one thread polls.
 *   C-8 an object is found whole or not at all, whenever the process or the machine stops. */
#ifndef QUIRE_CONNECTOR_H_
#define QUIRE_CONNECTOR_H_

#include <quire/base.h>
#include <quire/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIRE_CONNECTOR_ABI_VERSION 0x00000003u

/* The operation of a ticket. */
typedef int32_t quire_ticket_kind;
enum quire_ticket_kind_e {
  /* Keeps an object. If the key exists, the object there stays and the ticket is done with
   * QUIRE_COMPLETION_EXISTED. RESOURCE_EXHAUSTED: there is no room. */
  QUIRE_TICKET_STORE = 1,
  /* Reads the parts of an object that the runs name. OUT_OF_RANGE: the object is shorter. */
  QUIRE_TICKET_LOAD = 2,
  /* Says which of several objects exist, and marks these as recently used. */
  QUIRE_TICKET_LOOKUP = 3,
  /* Forgets an object. NOT_FOUND: there is none. */
  QUIRE_TICKET_REMOVE = 4,
  QUIRE_TICKET_KIND_FORCE32 = -0x7fffffff
};

/* Flags of quire_connector_info: the connector's capabilities. */
#define QUIRE_CONNECTOR_PERSISTENT 0x1u /* objects survive the process */
#define QUIRE_CONNECTOR_SHARED 0x2u     /* other processes see the objects */
#define QUIRE_CONNECTOR_REGISTERS 0x4u  /* bytes must be in registered regions */
/* Reading a part of an object costs about as much as the part, not as the whole object. */
#define QUIRE_CONNECTOR_RANGES 0x8u
/* Bytes pass through memory of the connector. A ticket then ends soon after it is cancelled. */
#define QUIRE_CONNECTOR_STAGES 0x10u

typedef struct quire_connector_instance quire_connector_instance;

/* Options of an instance. Descriptor. */
typedef struct quire_connector_options {
  uint32_t struct_size;
  uint32_t reserved0;
  const quire_host_api *host;   /* lives as long as the instance */
  quire_str config;             /* the connector's own settings as JSON text; borrowed */
} quire_connector_options;

/* Properties of a connector. Info. */
typedef struct quire_connector_info {
  uint32_t struct_size;
  uint32_t flags;               /* QUIRE_CONNECTOR_* */
  uint32_t max_in_flight;       /* tickets; 0 = no limit of its own */
  uint32_t alignment;           /* addresses and sizes at multiples move without a copy; 0 = 1 */
  uint64_t max_key_bytes;       /* 0 = no limit */
  uint64_t device_types;        /* bit 1 << QUIRE_DEVICE_*: memory it can address directly */
  uint64_t max_object_bytes;    /* 0 = no limit */
  uint64_t best_object_bytes;   /* smaller objects move more slowly per byte; 0 = unknown */
} quire_connector_info;

/* Whether a connector works now. */
typedef int32_t quire_connector_state;
enum quire_connector_state_e {
  QUIRE_CONNECTOR_UP = 0,
  QUIRE_CONNECTOR_FULL = 1,      /* loads work, stores are refused for now */
  QUIRE_CONNECTOR_READ_ONLY = 2, /* loads work, stores never do */
  QUIRE_CONNECTOR_DOWN = 3,      /* tickets fail at once; it may come back */
  QUIRE_CONNECTOR_STATE_FORCE32 = -0x7fffffff
};

/* Health of a connector. 0 = unknown. Info. */
typedef struct quire_connector_health {
  uint32_t struct_size;
  quire_connector_state state;
  uint64_t capacity_bytes;
  uint64_t used_bytes;
  uint64_t num_objects;
  uint64_t num_evicted;          /* objects that made room for others, since it was opened */
  uint64_t num_damaged;          /* objects that were found to be unusable and were removed */
} quire_connector_health;

/* `count` pieces of `bytes` bytes. In memory they are `stride` bytes apart, in the object
 * `object_stride` bytes. Pieces do not overlap. Frozen, 56 bytes. */
typedef struct quire_ticket_run {
  uint64_t region;              /* id from region_register, or 0 */
  uint64_t address;             /* of the first piece */
  uint64_t bytes;               /* of a piece; at least 1 */
  uint64_t count;               /* at least 1 */
  int64_t stride;               /* at least `bytes`, or at most -bytes; any if count is 1 */
  uint64_t object_offset;       /* of the first piece */
  int64_t object_stride;        /* as stride */
} quire_ticket_run;

/* One ticket. Keys and runs are indices into arrays that are passed separately.
 * Frozen, 88 bytes. */
typedef struct quire_ticket {
  uint64_t ticket;              /* number chosen by the host, returned with the completion */
  quire_ticket_kind kind;
  int32_t priority;             /* of tickets that wait, those of higher priority start first */
  uint64_t first_run;           /* into runs[] */
  uint32_t num_runs;            /* STORE and LOAD: at least 1. Otherwise 0 */
  uint32_t num_keys;            /* LOOKUP: at least 1. Otherwise 1 */
  uint64_t key_offset;          /* into keys[]: num_keys keys without gaps */
  uint64_t key_bytes;           /* of each key; at least 1 */
  uint64_t object_bytes;        /* STORE: size. The runs name each byte once. Otherwise 0 */
  /* LOOKUP: [num_keys], size of each object, 0 = there is none. Written before the completion.
   * Otherwise NULL. */
  uint64_t *sizes;
  /* LOOKUP: nanoseconds for which objects that are found are not evicted, if the connector can
   * promise it (QUIRE_COMPLETION_LEASED); a REMOVE ends that. 0 = none. */
  int64_t lease_ns;
  /* Absolute, on the runtime's clock (quire_runtime_options.clock); -1 = none, 0 = long past. C-6
   * holds after it, too. */
  int64_t deadline_ns;
} quire_ticket;

/* The object existed, and the store wrote nothing. */
#define QUIRE_COMPLETION_EXISTED 0x1u
/* The objects that were found have the lease that was asked for. */
#define QUIRE_COMPLETION_LEASED 0x2u

/* The end of a ticket. Frozen, 32 bytes. */
typedef struct quire_completion {
  uint64_t ticket;
  quire_code code;              /* OK, NOT_FOUND, CANCELLED, DEADLINE_EXCEEDED, DATA_LOSS,
                                 * UNAVAILABLE, RESOURCE_EXHAUSTED, ... */
  uint32_t flags;               /* QUIRE_COMPLETION_* */
  uint64_t bytes;               /* moved */
  uint64_t num_found;           /* LOOKUP */
} quire_completion;

/* One object in a listing. Frozen, 32 bytes. */
typedef struct quire_object_entry {
  uint64_t key_offset;          /* into the keys of the listing */
  uint64_t key_bytes;
  uint64_t object_bytes;
  uint64_t reserved0;           /* 0 */
} quire_object_entry;

/* The table of a connector. open, close, info, submit and poll are required. Other entries may be
 * absent; callers then get UNIMPLEMENTED. */
typedef struct quire_connector_api {
  uint32_t struct_size;
  uint32_t reserved0;
  quire_code (*open)(const quire_connector_options *options, quire_connector_instance **out,
                     quire_error *err);
  /* Ends all tickets (CANCELLED) before it returns. Their completions are not polled any more. */
  void (*close)(quire_connector_instance *instance);
  quire_code (*info)(quire_connector_instance *instance, quire_connector_info *info,
                     quire_error *err);
  quire_code (*region_register)(quire_connector_instance *instance, void *address, uint64_t bytes,
                                quire_device_type device_type, int32_t device_id, uint64_t *region,
                                quire_error *err);
  quire_code (*region_unregister)(quire_connector_instance *instance, uint64_t region,
                                  quire_error *err);
  /* Accepts the first *accepted tickets. OK with fewer than n means: poll, then submit the rest.
   * Also on error the first *accepted tickets were started. The library has checked all that is
   * given here: fields, runs, keys, regions, and that no number is in flight. */
  quire_code (*submit)(quire_connector_instance *instance, const quire_ticket *tickets, uint64_t n,
                       const quire_ticket_run *runs, uint64_t num_runs, const uint8_t *keys,
                       uint64_t num_key_bytes, uint64_t *accepted, quire_error *err);
  /* Waits up to timeout_ns (0 = not at all, -1 = forever) for completions. */
  quire_code (*poll)(quire_connector_instance *instance, int64_t timeout_ns,
                     quire_completion *items, uint64_t capacity, uint64_t *count, quire_error *err);
  /* Asks for an early end. The completion still comes, exactly once. */
  quire_code (*cancel)(quire_connector_instance *instance, uint64_t ticket, quire_error *err);
  /* *fd: readable while completions wait to be polled. It belongs to the instance. */
  quire_code (*get_fd)(quire_connector_instance *instance, int32_t *fd, quire_error *err);
  /* Thread: any thread. Never blocks. */
  quire_code (*health)(quire_connector_instance *instance, quire_connector_health *health,
                       quire_error *err);
  /* Lists objects. *cursor: 0 at first, 0 again after the last one; then *count may be 0. At most
   * `capacity` entries and num_key_bytes bytes of keys at once. An object that is stored or removed
   * meanwhile may be listed or not; any other one is listed once. OUT_OF_RANGE: the next key does
   * not fit. May block. */
  quire_code (*list)(quire_connector_instance *instance, uint64_t *cursor,
                     quire_object_entry *items, uint64_t capacity, uint64_t *count, uint8_t *keys,
                     uint64_t num_key_bytes, quire_error *err);
} quire_connector_api;

/* The one exported symbol of a connector module. *out: owned by the module, valid forever.
 * Thread: any thread. Blocking: no. Errors: INCOMPATIBLE_ABI. */
QUIRE_API quire_code quire_connector_query(const quire_query *query, const quire_manifest **out,
                                           quire_error *err);

/* Registers a connector without a file. It takes precedence over any file of its name. Call this
 * before creating the runtime that uses the connector. The library implements this function and all
 * functions below.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, ALREADY_EXISTS, INCOMPATIBLE_ABI. */
QUIRE_API quire_code quire_register_connector(quire_module_query_fn query, quire_error *err);

/* A loaded connector with its tickets, as the engine uses it. */
typedef struct quire_connector quire_connector;

/* Loads the connector `name` (or an absolute path) and opens an instance with its own settings.
 * Keeps the runtime alive. config: JSON text, borrowed; empty = none. *out: owned.
 * Thread: any thread. Blocking: yes, loads modules.
 * Errors: NOT_FOUND (name), INVALID_ARGUMENT, INCOMPATIBLE_ABI, and the connector's. */
QUIRE_API quire_code quire_connector_open(quire_runtime *runtime, quire_str name, quire_str config,
                                          quire_connector **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_connector *quire_connector_retain(quire_connector *connector);
/* Drops a reference; NULL is allowed. Dropping the last one cancels all tickets in flight. It
 * returns when the connector no longer touches their bytes.
 * Thread: any thread. Blocking: yes, last one. */
QUIRE_API void quire_connector_release(quire_connector *connector);
/* Reads the properties that the connector reported when it was opened.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_connector_get_info(quire_connector *connector,
                                              quire_connector_info *info, quire_error *err);

/* Tickets of a connector since it was opened. Info.
 *   submitted = in_flight + done + missing + failed + cancelled
 * Latencies run from submit to poll. Element i of a latency array counts tickets that took less
 * than 2^i microseconds and not less than half of that. The last element counts the rest, too. */
typedef struct quire_connector_stats {
  uint32_t struct_size;
  uint32_t num_regions;         /* registered now */
  uint64_t num_submitted;       /* accepted tickets */
  uint64_t num_in_flight;
  uint64_t num_done;            /* OK */
  uint64_t num_missing;         /* NOT_FOUND */
  uint64_t num_failed;          /* any other code */
  uint64_t num_cancelled;       /* CANCELLED */
  /* Completions of tickets that were not in flight. They are dropped. They are a defect of the
   * connector. */
  uint64_t num_strays;
  uint64_t bytes_stored;        /* of stores that are done, as the connector reported */
  uint64_t bytes_loaded;
  uint64_t bytes_in_flight;     /* of the runs of stores and loads */
  uint64_t num_existed;         /* stores of objects that existed */
  uint64_t keys_looked_up;
  uint64_t keys_found;
  uint64_t store_latency[32];
  uint64_t load_latency[32];
  uint64_t lookup_latency[32];
  uint64_t store_ns;            /* sums of the latencies */
  uint64_t load_ns;
  uint64_t lookup_ns;
} quire_connector_stats;

/* Reads the counters.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_connector_get_stats(quire_connector *connector,
                                               quire_connector_stats *stats, quire_error *err);
/* Asks the connector how it is.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, UNIMPLEMENTED, and the connector's. */
QUIRE_API quire_code quire_connector_get_health(quire_connector *connector,
                                                quire_connector_health *health, quire_error *err);
/* Submits tickets[n]. Their runs and keys are in runs[num_runs] and keys[num_key_bytes]. All arrays
 * are borrowed. The caller chooses the ticket numbers. A number that is in flight must not be used
 * again. *accepted: number of accepted tickets, from the first on, also if the connector reports an
 * error. Poll, then submit the rest.
 *
 * Until the completion of an accepted ticket was polled, its bytes and its `sizes` stay. Nobody
 * writes the bytes of a store. Nobody reads or writes those of a load. Blocks of a cache are held
 * (quire_hold_begin) or belong to a load in progress (quire_load_begin). Kernels that wrote the
 * bytes must be done.
 * Thread: any thread, also while another thread polls. Blocking: no.
 * Errors: INVALID_ARGUMENT (a field of a ticket or run; number in flight; region unknown, or
 * missing although the connector needs registered bytes), OUT_OF_RANGE (runs or keys outside the
 * arrays, key or object too long, a run outside its region or its object, sums beyond 63 bits):
 * with these nothing was submitted; FAILED_PRECONDITION (tiers use the connector); and the
 * connector's. */
QUIRE_API quire_code quire_connector_submit(quire_connector *connector, const quire_ticket *tickets,
                                            uint64_t n, const quire_ticket_run *runs,
                                            uint64_t num_runs, const uint8_t *keys,
                                            uint64_t num_key_bytes, uint64_t *accepted,
                                            quire_error *err);
/* Writes completions to items[capacity], each ticket exactly once, in any order. Waits up to
 * timeout_ns (0 = not at all, -1 = forever) for the first. *count: number of completions.
 * Thread: one thread at a time. Blocking: up to timeout_ns.
 * Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (would wait forever with nothing in flight;
 * another thread polls; tiers use the connector), and the connector's. */
QUIRE_API quire_code quire_connector_poll(quire_connector *connector, int64_t timeout_ns,
                                          quire_completion *items, uint64_t capacity,
                                          uint64_t *count, quire_error *err);
/* Asks for an early end of a ticket. Its completion still comes, exactly once.
 * Thread: any thread. Blocking: no.
 * Errors: NOT_FOUND (not in flight), FAILED_PRECONDITION (tiers use the connector), UNIMPLEMENTED,
 * and the connector's. */
QUIRE_API quire_code quire_connector_cancel(quire_connector *connector, uint64_t ticket,
                                            quire_error *err);
/* Returns a file descriptor for poll(2), select(2) or epoll(7). It is readable while completions
 * wait to be polled. Do not read from it or close it.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, UNIMPLEMENTED. */
QUIRE_API quire_code quire_connector_get_fd(quire_connector *connector, int32_t *fd,
                                            quire_error *err);
/* Lists the objects that the connector has; see `list` of quire_connector_api.
 * - *cursor: 0 at the first call. The call writes what to pass next; 0 = that was all.
 * - items[capacity], keys[num_key_bytes]: written. *count: number of items.
 * Thread: serialized on connector. Blocking: yes.
 * Errors: INVALID_ARGUMENT (cursor), OUT_OF_RANGE (a key does not fit), UNIMPLEMENTED, and the
 * connector's. */
QUIRE_API quire_code quire_connector_list(quire_connector *connector, uint64_t *cursor,
                                          quire_object_entry *items, uint64_t capacity,
                                          uint64_t *count, uint8_t *keys, uint64_t num_key_bytes,
                                          quire_error *err);
/* Registers bytes. Runs name them by *region. The bytes must outlive the registration.
 * Thread: any thread. Blocking: yes.
 * Errors: INVALID_ARGUMENT (NULL, 0 bytes, device type), OUT_OF_RANGE (address + bytes),
 * RESOURCE_EXHAUSTED (64 regions are registered), UNIMPLEMENTED, and the connector's. */
QUIRE_API quire_code quire_connector_register_region(quire_connector *connector, void *address,
                                                     uint64_t bytes, quire_device_type device_type,
                                                     int32_t device_id, uint64_t *region,
                                                     quire_error *err);
/* Ends a registration.
 * Thread: any thread. Blocking: yes.
 * Errors: NOT_FOUND, FAILED_PRECONDITION (a ticket in flight uses it), UNIMPLEMENTED. */
QUIRE_API quire_code quire_connector_unregister_region(quire_connector *connector, uint64_t region,
                                                       quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CONNECTOR_H_ */
