/* The null connector: keeps nothing. Stores are done at once and forgotten, loads and look-ups answer NOT_FOUND, a cancelled ticket ends
 * CANCELLED. A template to copy: tickets wait in a ring until they are polled, so each ends exactly once, in order of submission. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/note.h"

QUIRE_CONNECTOR_NOTE("null");

#define NULL_MAX_IN_FLIGHT 256u
#define NULL_MAX_REGIONS 64u

struct quire_connector_instance {
  pthread_mutex_t lock;
  uint64_t head; /* next completion to hand out; ring positions count up for ever */
  uint64_t tail; /* next free place */
  quire_completion ring[NULL_MAX_IN_FLIGHT];
  uint64_t region_bytes[NULL_MAX_REGIONS]; /* by id - 1; 0 = free */
};

static quire_code null_fail(quire_error* err, quire_code code, const char* message) {
  if (err != NULL && err->struct_size >= sizeof *err) {
    err->code = code;
    err->native_code = 0;
    err->native_domain = 0;
    snprintf(err->source, sizeof err->source, "%s", "connector:null");
    snprintf(err->message, sizeof err->message, "%s", message);
  }
  return code;
}

static quire_code null_open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  quire_connector_instance* instance = calloc(1, sizeof *instance);
  (void)options;
  if (instance == NULL) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "no host memory for the connector instance");
  if (pthread_mutex_init(&instance->lock, NULL) != 0) {
    free(instance);
    return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "pthread_mutex_init failed");
  }
  *out = instance;
  return QUIRE_OK;
}

static void null_close(quire_connector_instance* instance) {
  pthread_mutex_destroy(&instance->lock);
  free(instance);
}

static quire_code null_info(quire_connector_instance* instance, quire_connector_info* info, quire_error* err) {
  quire_connector_info own;
  uint32_t bytes = info->struct_size < sizeof own ? info->struct_size : (uint32_t)sizeof own;
  (void)instance;
  (void)err;
  memset(&own, 0, sizeof own);
  own.struct_size = bytes;
  own.max_in_flight = NULL_MAX_IN_FLIGHT;
  own.max_key_bytes = UINT64_MAX;
  own.device_types = UINT64_MAX; /* it touches no byte, so it can address every device's */
  memcpy(info, &own, bytes);
  return QUIRE_OK;
}

static quire_code null_region_register(quire_connector_instance* instance, void* address, uint64_t bytes, int32_t device_type,
                                       int32_t device_id, uint64_t* region, quire_error* err) {
  uint64_t i;
  (void)address;
  (void)device_type;
  (void)device_id;
  pthread_mutex_lock(&instance->lock);
  for (i = 0; i < NULL_MAX_REGIONS && instance->region_bytes[i] != 0; ++i) continue;
  if (i < NULL_MAX_REGIONS) instance->region_bytes[i] = bytes;
  pthread_mutex_unlock(&instance->lock);
  if (i == NULL_MAX_REGIONS) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "64 regions are registered already");
  *region = i + 1;
  return QUIRE_OK;
}

/* No ticket ever touches bytes, so none is in the way. */
static quire_code null_region_unregister(quire_connector_instance* instance, uint64_t region, quire_error* err) {
  int known;
  pthread_mutex_lock(&instance->lock);
  known = region >= 1 && region <= NULL_MAX_REGIONS && instance->region_bytes[region - 1] != 0;
  if (known) instance->region_bytes[region - 1] = 0;
  pthread_mutex_unlock(&instance->lock);
  return known ? QUIRE_OK : null_fail(err, QUIRE_NOT_FOUND, "no region of that number is registered");
}

/* Sums the bytes of a ticket whose runs were checked. */
static uint64_t null_ticket_bytes(const quire_ticket* ticket, const quire_ticket_run* runs) {
  uint64_t bytes = 0;
  uint64_t i;
  for (i = 0; i < ticket->num_runs; ++i) bytes += runs[ticket->first_run + i].bytes;
  return bytes;
}

static quire_code null_check(const quire_ticket* ticket, uint64_t num_runs, uint64_t num_key_bytes, quire_error* err) {
  if (ticket->kind < QUIRE_TICKET_STORE || ticket->kind > QUIRE_TICKET_REMOVE) {
    return null_fail(err, QUIRE_INVALID_ARGUMENT, "a ticket's kind is none of QUIRE_TICKET_*");
  }
  if (ticket->first_run > num_runs || ticket->num_runs > num_runs - ticket->first_run) {
    return null_fail(err, QUIRE_OUT_OF_RANGE, "a ticket's runs lie outside runs[]");
  }
  if (ticket->key_offset > num_key_bytes || ticket->key_bytes > num_key_bytes - ticket->key_offset) {
    return null_fail(err, QUIRE_OUT_OF_RANGE, "a ticket's key lies outside keys[]");
  }
  return QUIRE_OK;
}

static quire_code null_submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                              uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  uint64_t i;
  (void)keys;
  *accepted = 0;
  for (i = 0; i < n; ++i) {
    quire_code code = null_check(&tickets[i], num_runs, num_key_bytes, err);
    if (code != QUIRE_OK) return code;
  }
  pthread_mutex_lock(&instance->lock);
  for (i = 0; i < n && instance->tail - instance->head < NULL_MAX_IN_FLIGHT; ++i) {
    quire_completion* end = &instance->ring[instance->tail++ % NULL_MAX_IN_FLIGHT];
    int done = tickets[i].kind == QUIRE_TICKET_STORE || tickets[i].kind == QUIRE_TICKET_REMOVE;
    memset(end, 0, sizeof *end);
    end->ticket = tickets[i].ticket;
    end->code = done ? QUIRE_OK : QUIRE_NOT_FOUND;
    end->bytes = tickets[i].kind == QUIRE_TICKET_STORE ? null_ticket_bytes(&tickets[i], runs) : 0;
    end->checksum = tickets[i].kind == QUIRE_TICKET_STORE ? tickets[i].checksum : 0;
  }
  *accepted = i;
  pthread_mutex_unlock(&instance->lock);
  return QUIRE_OK;
}

static quire_code null_poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity,
                            uint64_t* count, quire_error* err) {
  uint64_t n = 0;
  (void)timeout_ns; /* tickets end when they are submitted: there is never anything to wait for */
  (void)err;
  pthread_mutex_lock(&instance->lock);
  while (n < capacity && instance->head != instance->tail) items[n++] = instance->ring[instance->head++ % NULL_MAX_IN_FLIGHT];
  pthread_mutex_unlock(&instance->lock);
  *count = n;
  return QUIRE_OK;
}

static quire_code null_cancel(quire_connector_instance* instance, uint64_t ticket, quire_error* err) {
  uint64_t i;
  quire_code code = QUIRE_NOT_FOUND;
  pthread_mutex_lock(&instance->lock);
  for (i = instance->head; i != instance->tail; ++i) {
    quire_completion* end = &instance->ring[i % NULL_MAX_IN_FLIGHT];
    if (end->ticket != ticket) continue;
    end->code = QUIRE_CANCELLED;
    end->bytes = 0;
    end->checksum = 0;
    code = QUIRE_OK;
  }
  pthread_mutex_unlock(&instance->lock);
  return code == QUIRE_OK ? code : null_fail(err, code, "no ticket of that number is in flight");
}

static const quire_connector_api null_api = {
    .struct_size = sizeof(quire_connector_api),
    .open = null_open,
    .close = null_close,
    .info = null_info,
    .region_register = null_region_register,
    .region_unregister = null_region_unregister,
    .submit = null_submit,
    .poll = null_poll,
    .cancel = null_cancel,
};

/* An extension op, in one form: a C function that libffi calls. */
static uint64_t null_tickets_in_flight(void) { return NULL_MAX_IN_FLIGHT; }

static const quire_extension_entry null_op_entries[] = {
    {sizeof(quire_extension_entry),
     1,
     {"null.max_in_flight", 18},
     {"u64()", 5},
     {"tickets that an instance takes before it wants to be polled", 59},
     (quire_native_fn)null_tickets_in_flight,
     NULL},
};

static const quire_extension_table null_ops = {sizeof(quire_extension_table), sizeof(quire_extension_entry), 1, null_op_entries};

static const quire_manifest null_manifest = {
    .magic = QUIRE_MODULE_MAGIC,
    .struct_size = sizeof(quire_manifest),
    .kind = QUIRE_MODULE_CONNECTOR,
    .abi_version = QUIRE_CONNECTOR_ABI_VERSION,
    .name = "null",
    .version = "0.2.0",
    .sanitizers = QUIRE_MODULE_SANITIZERS,
    .api = &null_api,
    .ops = &null_ops,
};

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  if (query->abi_min > QUIRE_CONNECTOR_ABI_VERSION || query->abi_max < QUIRE_CONNECTOR_ABI_VERSION) {
    return null_fail(err, QUIRE_INCOMPATIBLE_ABI, "the null connector implements connector ABI 0.2 only");
  }
  *out = &null_manifest;
  return QUIRE_OK;
}
