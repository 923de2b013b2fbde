/* quire/connector.h: what a connector module implements: it keeps or moves blocks elsewhere. Keys are opaque bytes made by the host.
 *
 * A module is libquire_connector_<name>.so with one exported symbol, quire_connector_query, and the ELF note of driver.h.
 * Words: a *ticket* is one submitted transfer; it reaches exactly one of done, failed, cancelled. The host *pins* the blocks of a ticket
 * until then and *fences* their reuse. Obligations:
 *   C-1 query as D-1. C-2 submit never blocks; what is not accepted was not started. C-3 each accepted ticket completes exactly once,
 *   also on cancel and close.
 *   C-4 NOT_FOUND is the answer to a load of an unknown key, not a failure. C-5 no byte outside the ticket's ranges is touched.
 *   C-6 after a ticket completed, the connector does not touch its bytes.
 */
#ifndef QUIRE_CONNECTOR_H_
#define QUIRE_CONNECTOR_H_

#include <quire/base.h>
#include <quire/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIRE_CONNECTOR_ABI_VERSION 0x00000001u

#define QUIRE_TICKET_STORE 1
#define QUIRE_TICKET_LOAD 2
#define QUIRE_TICKET_EXISTS 3
#define QUIRE_TICKET_REMOVE 4

/* What a connector can do. */
#define QUIRE_CONNECTOR_PERSISTENT 0x1u   /* content survives the process */
#define QUIRE_CONNECTOR_SHARED 0x2u       /* other processes see the content */
#define QUIRE_CONNECTOR_REGISTERS 0x4u    /* bytes must lie in registered regions */

typedef struct quire_connector_instance quire_connector_instance;

/* Descriptor. Since: 0.1 */
typedef struct quire_connector_options {
  uint32_t struct_size;
  uint32_t reserved0;
  const quire_host_api *host;   /* lives as long as the instance */
  quire_str config;             /* the connector's own settings as JSON text; borrowed */
  const void *next;             /* NULL */
} quire_connector_options;

/* Info. Since: 0.1 */
typedef struct quire_connector_info {
  uint32_t struct_size;
  uint32_t max_in_flight;       /* tickets; 0 = no own limit */
  uint64_t flags;               /* QUIRE_CONNECTOR_* */
  uint64_t max_key_bytes;
  uint64_t device_types;        /* bit 1 << QUIRE_DEVICE_*: bytes it can address directly */
} quire_connector_info;

/* One run of a ticket. Frozen, 24 bytes. Since: 0.1 */
typedef struct quire_ticket_run {
  uint64_t region;              /* id from region_register, or 0 */
  uint64_t address;
  uint64_t bytes;
} quire_ticket_run;

/* One transfer. Keys and runs are indices into the arrays given beside it. Frozen, 56 bytes. Since: 0.1 */
typedef struct quire_ticket {
  uint64_t ticket;              /* the host's number, returned with the completion */
  int32_t kind;                 /* QUIRE_TICKET_* */
  uint32_t num_runs;
  uint64_t first_run;           /* into runs[] */
  uint64_t key_offset;          /* into keys[] */
  uint64_t key_bytes;
  int64_t deadline_ns;          /* host clock; -1 = none */
  uint64_t checksum;            /* stores: of the payload; loads: expected, 0 = unknown */
} quire_ticket;

/* End of a ticket. Frozen, 32 bytes. Since: 0.1 */
typedef struct quire_completion {
  uint64_t ticket;
  quire_code code;              /* OK, NOT_FOUND, CANCELLED, DEADLINE_EXCEEDED, DATA_LOSS, UNAVAILABLE, ... */
  uint32_t flags;
  uint64_t bytes;
  uint64_t checksum;
} quire_completion;

/* The table; every entry but close may be absent, open, close, info, submit and poll are required. Since: 0.1 */
typedef struct quire_connector_api {
  uint32_t struct_size;
  uint32_t reserved0;
  quire_code (*open)(const quire_connector_options *options, quire_connector_instance **out, quire_error *err);
  /* Completes all tickets (CANCELLED) before it returns; poll them first. */
  void (*close)(quire_connector_instance *instance);
  quire_code (*info)(quire_connector_instance *instance, quire_connector_info *info, quire_error *err);
  quire_code (*region_register)(quire_connector_instance *instance, void *address, uint64_t bytes, int32_t device_type, int32_t device_id,
                                uint64_t *region, quire_error *err);
  quire_code (*region_unregister)(quire_connector_instance *instance, uint64_t region, quire_error *err);
  /* Accepts the first *accepted tickets; OK with fewer than n means: poll, then submit the rest. */
  quire_code (*submit)(quire_connector_instance *instance, const quire_ticket *tickets, uint64_t n, const quire_ticket_run *runs,
                       uint64_t num_runs, const uint8_t *keys, uint64_t num_key_bytes, uint64_t *accepted, quire_error *err);
  /* Waits up to timeout_ns (0 = not at all) for completions. */
  quire_code (*poll)(quire_connector_instance *instance, int64_t timeout_ns, quire_completion *items, uint64_t capacity, uint64_t *count,
                     quire_error *err);
  /* Asks for an early end; the completion still comes, exactly once. */
  quire_code (*cancel)(quire_connector_instance *instance, uint64_t ticket, quire_error *err);
} quire_connector_api;

/* The one exported symbol of a connector module. *out: owned by the module, lives forever.
 * Thread: any thread. Blocking: no. Errors: INCOMPATIBLE_ABI. Since: 0.1 */
QUIRE_API quire_code quire_connector_query(const quire_query *query, const quire_manifest **out, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CONNECTOR_H_ */
