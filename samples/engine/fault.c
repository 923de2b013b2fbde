/* fault.c: mistakes that an engine could make, made on purpose. They show that the verification
 * would catch them. */
#include <stddef.h>

#include "server.h"

uint32_t fault_symbol(const server* s, const live* l, uint32_t position) {
  if (s->options->fault == FAULT_OTHER_PREFIX) return 7; /* all prefixes look the same */
  return l->symbols[position];
}

/* Pairs of rows read each other's last but one block. A single row reads its own blocks in a wrong
 * order. */
static void swap_blocks(const step_batch* batch, const quire_batch* g, uint32_t block_tokens) {
  for (uint32_t column = 0; column < g->num_columns; ++column) {
    int32_t* table = batch_writable(batch, g->table) + column * g->table_column_pitch;
    for (uint32_t row = 0; row < g->num_rows; row += 2) {
      uint32_t other = row + 1 < g->num_rows ? row + 1 : row;
      uint32_t blocks = ((uint32_t)g->kv_len[row] + block_tokens - 1) / block_tokens;
      uint32_t others = ((uint32_t)g->kv_len[other] + block_tokens - 1) / block_tokens;
      uint64_t at = row * g->table_pitch + (blocks > 1 ? blocks - 2 : 0);
      uint64_t with =
          other * g->table_pitch + (others > 1 && other != row ? others - 2 : others - 1);
      int32_t kept = table[at];
      table[at] = table[with];
      table[with] = kept;
    }
  }
}

static int is_written(const quire_batch* g, uint32_t column, int32_t id) {
  const int32_t* writes = g->state_write + column * g->state_write_column_pitch;
  for (uint32_t row = 0; row < g->num_rows; ++row) {
    if (writes[row] == id) return 1;
  }
  return 0;
}

/* Rows that also ran in the previous step read the state that they read then. A state that another
 * row writes now is left out: rows of one kernel must not race, not even on purpose. */
static void keep_old_states(const step_record* record, const step_record* previous,
                            uint32_t group) {
  const quire_batch* g = &record->batch.groups[group];
  const quire_batch* old = &previous->batch.groups[group];
  int32_t* reads = batch_writable(&record->batch, g->state_read);
  for (uint32_t row = 0; row < record->num_rows; ++row) {
    for (uint32_t before = 0; before < previous->num_rows; ++before) {
      if (previous->rows[before].id != record->rows[row].id) continue;
      for (uint32_t column = 0; column < g->num_columns; ++column) {
        int32_t stale = old->state_read[column * old->state_read_column_pitch + before];
        if (!is_written(g, column, stale)) reads[column * g->state_read_column_pitch + row] = stale;
      }
    }
  }
}

void fault_batch(const server* s, const step_record* record, const step_record* previous) {
  for (uint32_t group = 0; group < record->batch.num_groups; ++group) {
    const quire_group_info* info = &s->rig->groups[group];
    if (s->options->fault == FAULT_SWAP_BLOCK && !info->is_state) {
      swap_blocks(&record->batch, &record->batch.groups[group], info->kernel_block_tokens);
    }
    if (s->options->fault == FAULT_STALE_STATE && info->is_state)
      keep_old_states(record, previous, group);
  }
}
