/* A connector that lies about ends: every ticket completes twice, and one completes that nobody submitted. */
#include <stdlib.h>
#include <string.h>

#include "common/note.h"

QUIRE_CONNECTOR_NOTE("twice");

struct quire_connector_instance {
  uint64_t tickets[64];
  uint64_t n;
};

static quire_code twice_open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  (void)options;
  (void)err;
  *out = calloc(1, sizeof **out);
  return *out == NULL ? QUIRE_RESOURCE_EXHAUSTED : QUIRE_OK;
}

static void twice_close(quire_connector_instance* instance) { free(instance); }

static quire_code twice_info(quire_connector_instance* instance, quire_connector_info* info, quire_error* err) {
  (void)instance;
  (void)err;
  info->max_in_flight = 64;
  return QUIRE_OK;
}

static quire_code twice_submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                               uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  uint64_t i;
  (void)runs;
  (void)num_runs;
  (void)keys;
  (void)num_key_bytes;
  (void)err;
  for (i = 0; i < n && instance->n < 64; ++i) instance->tickets[instance->n++] = tickets[i].ticket;
  *accepted = i;
  return QUIRE_OK;
}

static quire_code twice_poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity,
                             uint64_t* count, quire_error* err) {
  uint64_t n = 0;
  uint64_t i;
  (void)timeout_ns;
  (void)err;
  memset(items, 0, (size_t)capacity * sizeof *items);
  for (i = 0; i < instance->n && n + 2 < capacity; ++i) {
    items[n++].ticket = instance->tickets[i];
    items[n++].ticket = instance->tickets[i];
  }
  if (n != 0) items[n++].ticket = 4711;
  instance->n = 0;
  *count = n;
  return QUIRE_OK;
}

static const quire_connector_api twice_api = {
    .struct_size = sizeof twice_api,
    .open = twice_open,
    .close = twice_close,
    .info = twice_info,
    .submit = twice_submit,
    .poll = twice_poll,
};

static const quire_manifest twice_manifest = {
    .magic = QUIRE_MODULE_MAGIC,
    .struct_size = sizeof twice_manifest,
    .kind = QUIRE_MODULE_CONNECTOR,
    .abi_version = QUIRE_CONNECTOR_ABI_VERSION,
    .name = "twice",
    .version = "1",
    .sanitizers = QUIRE_MODULE_SANITIZERS,
    .api = &twice_api,
};

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  (void)query;
  (void)err;
  *out = &twice_manifest;
  return QUIRE_OK;
}
