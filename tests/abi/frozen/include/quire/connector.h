/* quire/connector.h: the interface of a connector module. A connector stores blocks elsewhere or
 * moves them. Keys are opaque bytes made by the host.
 *
 * A module is libquire_connector_<name>.so. It has one exported symbol, quire_connector_query, and
 * the ELF note of driver.h. A *ticket* is one submitted transfer. It ends exactly once: done,
 * failed or cancelled. Until then the host *pins* the blocks of the ticket and *fences* their
 * reuse.
 *
 * Obligations:
 *   C-1 query is as in D-1 of driver.h.
 *   C-2 submit never blocks; a ticket that is not accepted was not started.
 *   C-3 each accepted ticket completes exactly once, also on cancel and close.
 *   C-4 a load of an unknown key ends with NOT_FOUND; that is an answer, not a failure.
 *   C-5 no byte outside the ticket's ranges is touched.
 *   C-6 after a ticket completed, the connector does not touch its bytes. */
#ifndef QUIRE_CONNECTOR_H_
#define QUIRE_CONNECTOR_H_

#include <quire/base.h>
#include <quire/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIRE_CONNECTOR_ABI_VERSION 0x00000002u

/* The operation of a ticket. */
typedef int32_t quire_ticket_kind;
enum quire_ticket_kind_e {
  QUIRE_TICKET_STORE = 1,
  QUIRE_TICKET_LOAD = 2,
  QUIRE_TICKET_EXISTS = 3,
  QUIRE_TICKET_REMOVE = 4,
  QUIRE_TICKET_KIND_FORCE32 = -0x7fffffff
};

/* Flags of quire_connector_info: the connector's capabilities. */
#define QUIRE_CONNECTOR_PERSISTENT 0x1u   /* content survives the process */
#define QUIRE_CONNECTOR_SHARED 0x2u       /* other processes see the content */
#define QUIRE_CONNECTOR_REGISTERS 0x4u    /* bytes must be in registered regions */

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
  uint32_t reserved0;           /* 0 */
  uint64_t max_key_bytes;
  uint64_t device_types;        /* bit 1 << QUIRE_DEVICE_*: memory it can address directly */
} quire_connector_info;

/* One run of a ticket. Frozen, 24 bytes. */
typedef struct quire_ticket_run {
  uint64_t region;              /* id from region_register, or 0 */
  uint64_t address;
  uint64_t bytes;
} quire_ticket_run;

/* One transfer. Keys and runs are indices into arrays that are passed separately.
 * Frozen, 56 bytes. */
typedef struct quire_ticket {
  uint64_t ticket;              /* number chosen by the host, returned with the completion */
  quire_ticket_kind kind;
  uint32_t num_runs;
  uint64_t first_run;           /* into runs[] */
  uint64_t key_offset;          /* into keys[] */
  uint64_t key_bytes;
  int64_t deadline_ns;          /* on the host's clock; -1 = none */
  uint64_t checksum;            /* stores: of the payload; loads: expected, 0 = unknown */
} quire_ticket;

/* The end of a ticket. Frozen, 32 bytes. */
typedef struct quire_completion {
  uint64_t ticket;
  quire_code code;              /* OK, NOT_FOUND, CANCELLED, DEADLINE_EXCEEDED, DATA_LOSS,
                                 * UNAVAILABLE, ... */
  uint32_t flags;
  uint64_t bytes;
  uint64_t checksum;
} quire_completion;

/* The table of a connector. open, close, info, submit and poll are required. Other entries may be
 * absent; callers then get UNIMPLEMENTED. */
typedef struct quire_connector_api {
  uint32_t struct_size;
  uint32_t reserved0;
  quire_code (*open)(const quire_connector_options *options, quire_connector_instance **out,
                     quire_error *err);
  /* Completes all tickets (CANCELLED) before it returns. Poll them first. */
  void (*close)(quire_connector_instance *instance);
  quire_code (*info)(quire_connector_instance *instance, quire_connector_info *info,
                     quire_error *err);
  quire_code (*region_register)(quire_connector_instance *instance, void *address, uint64_t bytes,
                                quire_device_type device_type, int32_t device_id, uint64_t *region,
                                quire_error *err);
  quire_code (*region_unregister)(quire_connector_instance *instance, uint64_t region,
                                  quire_error *err);
  /* Accepts the first *accepted tickets. OK with fewer than n means: poll, then submit the rest. */
  quire_code (*submit)(quire_connector_instance *instance, const quire_ticket *tickets, uint64_t n,
                       const quire_ticket_run *runs, uint64_t num_runs, const uint8_t *keys,
                       uint64_t num_key_bytes, uint64_t *accepted, quire_error *err);
  /* Waits up to timeout_ns (0 = not at all) for completions. */
  quire_code (*poll)(quire_connector_instance *instance, int64_t timeout_ns,
                     quire_completion *items, uint64_t capacity, uint64_t *count, quire_error *err);
  /* Asks for an early end. The completion still comes, exactly once. */
  quire_code (*cancel)(quire_connector_instance *instance, uint64_t ticket, quire_error *err);
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
 *   submitted = in_flight + done + missing + failed + cancelled */
typedef struct quire_connector_stats {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t num_submitted;       /* accepted tickets */
  uint64_t num_in_flight;
  uint64_t num_done;            /* OK */
  uint64_t num_missing;         /* NOT_FOUND */
  uint64_t num_failed;          /* any other code */
  uint64_t num_cancelled;       /* CANCELLED */
  /* Completions of tickets that were not in flight. They are dropped. They are a defect of the
   * connector. */
  uint64_t num_strays;
  uint64_t num_bytes;           /* of completed tickets, as the connector reported */
} quire_connector_stats;

/* Reads the counters.
 * Thread: serialized on connector. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_connector_get_stats(quire_connector *connector,
                                               quire_connector_stats *stats, quire_error *err);
/* Submits tickets[n]. Their runs and keys are in runs[num_runs] and keys[num_key_bytes]. All arrays
 * are borrowed. The caller chooses the ticket numbers. A number that is in flight must not be used
 * again. *accepted: number of accepted tickets, from the first on. Poll, then submit the rest. The
 * bytes of an accepted ticket belong to the connector until its completion was polled. Blocks stay
 * pinned until then.
 * Thread: serialized on connector. Blocking: no.
 * Errors: INVALID_ARGUMENT (kind, number in flight, region missing although the connector needs
 * registered bytes, deadline below -1), OUT_OF_RANGE (runs or key outside the arrays, key too long,
 * bytes of a ticket beyond 63 bits): with these nothing was submitted; and the connector's. */
QUIRE_API quire_code quire_connector_submit(quire_connector *connector, const quire_ticket *tickets,
                                            uint64_t n, const quire_ticket_run *runs,
                                            uint64_t num_runs, const uint8_t *keys,
                                            uint64_t num_key_bytes, uint64_t *accepted,
                                            quire_error *err);
/* Writes completions to items[capacity], each ticket exactly once, in any order. Waits up to
 * timeout_ns (0 = not at all, -1 = forever) for the first. *count: number of completions.
 * Thread: serialized on connector. Blocking: up to timeout_ns.
 * Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (would wait forever with nothing in flight), and
 * the connector's. */
QUIRE_API quire_code quire_connector_poll(quire_connector *connector, int64_t timeout_ns,
                                          quire_completion *items, uint64_t capacity,
                                          uint64_t *count, quire_error *err);
/* Asks for an early end of a ticket. Its completion still comes, exactly once.
 * Thread: serialized on connector. Blocking: no.
 * Errors: NOT_FOUND (not in flight), UNIMPLEMENTED, and the connector's. */
QUIRE_API quire_code quire_connector_cancel(quire_connector *connector, uint64_t ticket,
                                            quire_error *err);
/* Registers bytes. Runs name them by *region. The bytes must outlive the registration.
 * Thread: serialized on connector. Blocking: yes.
 * Errors: INVALID_ARGUMENT (NULL, 0 bytes, device type), OUT_OF_RANGE (address + bytes),
 * UNIMPLEMENTED, and the connector's. */
QUIRE_API quire_code quire_connector_register_region(quire_connector *connector, void *address,
                                                     uint64_t bytes, quire_device_type device_type,
                                                     int32_t device_id, uint64_t *region,
                                                     quire_error *err);
/* Ends a registration.
 * Thread: serialized on connector. Blocking: yes.
 * Errors: NOT_FOUND, FAILED_PRECONDITION (a ticket in flight uses it), UNIMPLEMENTED. */
QUIRE_API quire_code quire_connector_unregister_region(quire_connector *connector, uint64_t region,
                                                       quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CONNECTOR_H_ */
