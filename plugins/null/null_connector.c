/* The null connector: keeps nothing. Stores are done at once and forgotten, look-ups find nothing,
 * loads and removals answer NOT_FOUND, a cancelled ticket ends CANCELLED.
 *
 * A template to copy. Tickets wait in a ring until they are polled, so each ends exactly once, in
 * order of submission. A file descriptor is readable while the ring has one; poll waits for it. The
 * library checks tickets, runs and keys before a connector sees them. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/note.h"

QUIRE_CONNECTOR_NOTE("null");

#define NULL_MAX_IN_FLIGHT 256u
#define NULL_MAX_REGIONS 64u

struct quire_connector_instance {
  pthread_mutex_t lock;
  int event;     /* counts 1 while the ring has a completion */
  uint64_t head; /* next completion to hand out; ring positions count up for ever */
  uint64_t tail; /* next free place */
  quire_completion ring[NULL_MAX_IN_FLIGHT];
  uint64_t region_bytes[NULL_MAX_REGIONS]; /* by id - 1; 0 = free */
};

__attribute__((format(printf, 3, 4))) static quire_code null_fail(quire_error* err, quire_code code, const char* format, ...) {
  va_list arguments;
  if (err != NULL && err->struct_size >= sizeof *err) {
    err->code = code;
    err->native_code = 0;
    err->native_domain = 0;
    snprintf(err->source, sizeof err->source, "%s", "connector:null");
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
  }
  return code;
}

static quire_code null_open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  quire_connector_instance* instance = calloc(1, sizeof *instance);
  (void)options;
  if (instance == NULL) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "no host memory for the connector instance");
  instance->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (instance->event < 0) {
    free(instance);
    return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "no file descriptor for the connector instance");
  }
  if (pthread_mutex_init(&instance->lock, NULL) != 0) {
    close(instance->event);
    free(instance);
    return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "pthread_mutex_init failed");
  }
  *out = instance;
  return QUIRE_OK;
}

/* No ticket touches bytes, so none has to be waited for. */
static void null_close(quire_connector_instance* instance) {
  close(instance->event);
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
  if (i == NULL_MAX_REGIONS) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "%u regions are registered already", NULL_MAX_REGIONS);
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
  return known ? QUIRE_OK : null_fail(err, QUIRE_NOT_FOUND, "region %llu is not registered", (unsigned long long)region);
}

/* Sums the bytes of a ticket. */
static uint64_t null_ticket_bytes(const quire_ticket* ticket, const quire_ticket_run* runs) {
  uint64_t bytes = 0;
  uint64_t i;
  for (i = 0; i < ticket->num_runs; ++i) bytes += runs[ticket->first_run + i].bytes * runs[ticket->first_run + i].count;
  return bytes;
}

/* Ends a ticket into its place in the ring. */
static void null_end(const quire_ticket* ticket, const quire_ticket_run* runs, quire_completion* end) {
  memset(end, 0, sizeof *end);
  end->ticket = ticket->ticket;
  switch (ticket->kind) {
    case QUIRE_TICKET_STORE:
      end->bytes = null_ticket_bytes(ticket, runs);
      break;
    case QUIRE_TICKET_LOOKUP:
      memset(ticket->sizes, 0, ticket->num_keys * sizeof *ticket->sizes);
      break;
    default:
      end->code = QUIRE_NOT_FOUND;
  }
}

/* Makes the descriptor readable while completions wait. Under the lock. */
static void null_signal(const quire_connector_instance* instance, int had_some) {
  const int has_some = instance->head != instance->tail;
  if (has_some && !had_some) eventfd_write(instance->event, 1);
  if (had_some && !has_some) {
    eventfd_t value;
    eventfd_read(instance->event, &value);
  }
}

static quire_code null_submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                              uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  uint64_t i;
  int had_some;
  (void)num_runs;
  (void)keys;
  (void)num_key_bytes;
  (void)err;
  pthread_mutex_lock(&instance->lock);
  had_some = instance->head != instance->tail;
  for (i = 0; i < n && instance->tail - instance->head < NULL_MAX_IN_FLIGHT; ++i) {
    null_end(&tickets[i], runs, &instance->ring[instance->tail++ % NULL_MAX_IN_FLIGHT]);
  }
  null_signal(instance, had_some);
  pthread_mutex_unlock(&instance->lock);
  *accepted = i;
  return QUIRE_OK;
}

/* Waits for a completion, which another thread may submit. */
static void null_wait(const quire_connector_instance* instance, int64_t timeout_ns) {
  struct pollfd readable = {instance->event, POLLIN, 0};
  int milliseconds = -1;
  if (timeout_ns >= 0) milliseconds = timeout_ns / 1000000 < INT_MAX ? (int)(timeout_ns / 1000000) + 1 : INT_MAX;
  while (poll(&readable, 1, milliseconds) < 0 && errno == EINTR) continue;
}

static quire_code null_poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity,
                            uint64_t* count, quire_error* err) {
  uint64_t n = 0;
  int had_some;
  (void)err;
  if (timeout_ns != 0) null_wait(instance, timeout_ns);
  pthread_mutex_lock(&instance->lock);
  had_some = instance->head != instance->tail;
  while (n < capacity && instance->head != instance->tail) items[n++] = instance->ring[instance->head++ % NULL_MAX_IN_FLIGHT];
  null_signal(instance, had_some);
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
    code = QUIRE_OK;
  }
  pthread_mutex_unlock(&instance->lock);
  return code == QUIRE_OK ? code : null_fail(err, code, "ticket %llu is not in flight", (unsigned long long)ticket);
}

static quire_code null_get_fd(quire_connector_instance* instance, int32_t* fd, quire_error* err) {
  (void)err;
  *fd = instance->event;
  return QUIRE_OK;
}

static quire_code null_health(quire_connector_instance* instance, quire_connector_health* health, quire_error* err) {
  quire_connector_health own;
  uint32_t bytes = health->struct_size < sizeof own ? health->struct_size : (uint32_t)sizeof own;
  (void)instance;
  (void)err;
  memset(&own, 0, sizeof own);
  own.struct_size = bytes;
  own.state = QUIRE_CONNECTOR_UP;
  memcpy(health, &own, bytes);
  return QUIRE_OK;
}

static quire_code null_list(quire_connector_instance* instance, uint64_t* cursor, quire_object_entry* items, uint64_t capacity,
                            uint64_t* count, uint8_t* keys, uint64_t num_key_bytes, quire_error* err) {
  (void)instance;
  (void)items;
  (void)capacity;
  (void)keys;
  (void)num_key_bytes;
  if (*cursor != 0) return null_fail(err, QUIRE_INVALID_ARGUMENT, "cursor: %llu, no listing goes on there", (unsigned long long)*cursor);
  *count = 0;
  return QUIRE_OK;
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
    .get_fd = null_get_fd,
    .health = null_health,
    .list = null_list,
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
    return null_fail(err, QUIRE_INCOMPATIBLE_ABI, "the null connector implements connector ABI 0.3 only");
  }
  *out = &null_manifest;
  return QUIRE_OK;
}
