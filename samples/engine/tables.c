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

static quire_fill* add_array(quire_fill* fill, quire_fill_kind kind, uint32_t group, void* to, uint64_t capacity, uint64_t pitch) {
  *fill = (quire_fill){.struct_size = sizeof *fill, .kind = kind, .group = group, .destination = to, .capacity = capacity, .pitch = pitch};
  return fill + 1;
}

static quire_fill* add_group(quire_fill* fill, const group_tables* g, const step_tables* t, uint32_t group) {
  uint64_t rows = t->max_rows;
  if (g->table == NULL) {
    fill = add_array(fill, QUIRE_FILL_STATE_READ, group, g->state_read, rows * g->columns, rows);
    return add_array(fill, QUIRE_FILL_STATE_WRITE, group, g->state_write, rows * g->columns, rows);
  }
  fill = add_array(fill, QUIRE_FILL_TABLE, group, g->table, rows * g->pitch * g->columns, g->pitch);
  fill[-1].column_pitch = rows * g->pitch;
  fill = add_array(fill, QUIRE_FILL_SLOTS, group, g->slots, (uint64_t)t->max_tokens * g->columns, t->max_tokens);
  fill[-1].column_pitch = t->max_tokens;
  return fill;
}

/* All arrays of the step in one call. */
int tables_fill(step_tables* t, const rig* r, quire_step_id step) {
  quire_fill all[QUIRE_MAX_FILLS];
  uint64_t written[QUIRE_MAX_FILLS];
  quire_error err = {.struct_size = sizeof err};
  quire_fill* end = add_array(all, QUIRE_FILL_KV_LEN, 0, t->kv_len, t->max_rows, 1);
  end = add_array(end, QUIRE_FILL_QUERY_INDPTR, 0, t->query_indptr, t->max_rows + 1, 1);
  for (uint32_t g = 0; g < t->num_groups; ++g) end = add_group(end, &t->groups[g], t, g);
  if (quire_step_fill(r->cache, step, all, sizeof all[0], (uint64_t)(end - all), written, &err) != QUIRE_OK) {
    return complain_quire("fill", &err);
  }
  return ENGINE_OK;
}
