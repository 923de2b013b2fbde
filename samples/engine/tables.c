#include "tables.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

static int open_group(group_tables* g, const quire_group_info* info, const step_tables* t, uint32_t max_len) {
  uint64_t rows = (uint64_t)info->ids_per_block * t->max_rows;
  g->columns = info->ids_per_block;
  if (info->is_state) {
    g->state_read = claim_memory(rows, sizeof *g->state_read, "state slots");
    g->state_write = claim_memory(rows, sizeof *g->state_write, "state slots");
    return g->state_read == NULL || g->state_write == NULL ? ENGINE_FAILED : ENGINE_OK;
  }
  /* The longest row covers whole blocks. */
  g->pitch = ((uint64_t)max_len + info->block_tokens - 1) / info->block_tokens * (info->block_tokens / info->kernel_block_tokens);
  g->table = claim_memory(rows * g->pitch, sizeof *g->table, "block tables");
  g->slots = claim_memory((uint64_t)g->columns * t->max_tokens, sizeof *g->slots, "slots");
  return g->table == NULL || g->slots == NULL ? ENGINE_FAILED : ENGINE_OK;
}

int tables_open(step_tables* t, const rig* r, uint32_t max_len, uint32_t max_rows, uint32_t max_tokens) {
  memset(t, 0, sizeof *t);
  t->max_rows = max_rows;
  t->max_tokens = max_tokens;
  t->groups = claim_memory(r->info.num_groups, sizeof *t->groups, "tables");
  t->kv_len = claim_memory(max_rows, sizeof *t->kv_len, "lengths");
  t->query_indptr = claim_memory((uint64_t)max_rows + 1, sizeof *t->query_indptr, "offsets");
  if (t->groups == NULL || t->kv_len == NULL || t->query_indptr == NULL) return ENGINE_FAILED;
  t->num_groups = r->info.num_groups;
  for (uint32_t g = 0; g < t->num_groups; ++g) {
    int rc = open_group(&t->groups[g], &r->groups[g], t, max_len);
    if (rc != ENGINE_OK) return rc;
  }
  return ENGINE_OK;
}

void tables_close(step_tables* t) {
  for (uint32_t g = 0; g < t->num_groups; ++g) {
    free(t->groups[g].table);
    free(t->groups[g].slots);
    free(t->groups[g].state_read);
    free(t->groups[g].state_write);
  }
  free(t->groups);
  free(t->kv_len);
  free(t->query_indptr);
  memset(t, 0, sizeof *t);
}

static int fill_one(const rig* r, quire_step_id step, quire_fill fill) {
  quire_error err = {.struct_size = sizeof err};
  uint64_t written = 0;
  fill.struct_size = sizeof fill;
  if (quire_step_fill(r->cache, step, &fill, &written, &err) != QUIRE_OK) return complain_quire("fill", &err);
  return ENGINE_OK;
}

static int fill_group(const group_tables* g, const step_tables* t, const rig* r, quire_step_id step, uint32_t group) {
  quire_fill fill = {.group = group};
  uint64_t rows = t->max_rows;
  int rc = ENGINE_OK;
  if (g->table == NULL) {
    fill.capacity = rows * g->columns;
    fill.pitch = rows;
    fill.kind = QUIRE_FILL_STATE_READ;
    fill.destination = g->state_read;
    rc = fill_one(r, step, fill);
    fill.kind = QUIRE_FILL_STATE_WRITE;
    fill.destination = g->state_write;
    return rc != ENGINE_OK ? rc : fill_one(r, step, fill);
  }
  fill.kind = QUIRE_FILL_TABLE;
  fill.destination = g->table;
  fill.pitch = g->pitch;
  fill.column_pitch = rows * g->pitch;
  fill.capacity = fill.column_pitch * g->columns;
  rc = fill_one(r, step, fill);
  if (rc != ENGINE_OK) return rc;
  fill.kind = QUIRE_FILL_SLOTS;
  fill.destination = g->slots;
  fill.pitch = t->max_tokens;
  fill.column_pitch = t->max_tokens;
  fill.capacity = fill.pitch * g->columns;
  return fill_one(r, step, fill);
}

int tables_fill(step_tables* t, const rig* r, quire_step_id step) {
  quire_fill fill = {.kind = QUIRE_FILL_KV_LEN, .destination = t->kv_len, .capacity = t->max_rows, .pitch = 1};
  int rc = fill_one(r, step, fill);
  fill.kind = QUIRE_FILL_QUERY_INDPTR;
  fill.destination = t->query_indptr;
  fill.capacity = t->max_rows + 1;
  if (rc == ENGINE_OK) rc = fill_one(r, step, fill);
  for (uint32_t g = 0; g < t->num_groups && rc == ENGINE_OK; ++g) rc = fill_group(&t->groups[g], t, r, step, g);
  return rc;
}
