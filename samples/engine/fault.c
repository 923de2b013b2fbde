/* fault.c: mistakes that an engine could make, made on purpose, so that the verification shows that it would see them. */
#include <stddef.h>

#include "server.h"

uint32_t fault_symbol(const server* s, const live* l, uint32_t position) {
  return s->options->fault == FAULT_OTHER_PREFIX ? 7 : l->symbols[position]; /* every prefix looks like every other */
}

/* Pairs of rows read each other's last but one block; a lone row reads its own blocks in a wrong order. */
static void swap_blocks(const server* s, step_record* record, uint32_t group) {
  const group_tables* g = &record->tables.groups[group];
  uint32_t block = s->rig->groups[group].kernel_block_tokens;
  for (uint32_t column = 0; column < g->columns; ++column) {
    int32_t* table = g->table + (uint64_t)column * record->tables.max_rows * g->pitch;
    for (uint32_t row = 0; row < record->num_rows; row += 2) {
      uint32_t other = row + 1 < record->num_rows ? row + 1 : row;
      uint32_t blocks = ((uint32_t)record->tables.kv_len[row] + block - 1) / block;
      uint32_t others = ((uint32_t)record->tables.kv_len[other] + block - 1) / block;
      uint64_t at = (uint64_t)row * g->pitch + (blocks > 1 ? blocks - 2 : 0);
      uint64_t with = (uint64_t)other * g->pitch + (others > 1 && other != row ? others - 2 : others - 1);
      int32_t kept = table[at];
      table[at] = table[with];
      table[with] = kept;
    }
  }
}

static int is_written(const step_record* record, const int32_t* writes, int32_t id) {
  for (uint32_t row = 0; row < record->num_rows; ++row) {
    if (writes[row] == id) return 1;
  }
  return 0;
}

/* Rows that also ran in the previous step read the state they read then, unless its place belongs to another row by now: rows of one kernel
 * must not race, not even on purpose.
 */
static void keep_old_states(step_record* record, const step_record* previous, uint32_t group) {
  const group_tables* g = &record->tables.groups[group];
  const group_tables* old = &previous->tables.groups[group];
  for (uint32_t row = 0; row < record->num_rows; ++row) {
    for (uint32_t before = 0; before < previous->num_rows; ++before) {
      if (previous->rows[before].id != record->rows[row].id) continue;
      for (uint32_t column = 0; column < g->columns; ++column) {
        uint64_t line = (uint64_t)column * record->tables.max_rows;
        int32_t stale = old->state_read[line + before];
        if (!is_written(record, g->state_write + line, stale)) g->state_read[line + row] = stale;
      }
    }
  }
}

void fault_tables(const server* s, step_record* record, const step_record* previous) {
  for (uint32_t group = 0; group < record->tables.num_groups; ++group) {
    int is_state = record->tables.groups[group].table == NULL;
    if (s->options->fault == FAULT_SWAP_BLOCK && !is_state) swap_blocks(s, record, group);
    if (s->options->fault == FAULT_STALE_STATE && is_state) keep_old_states(record, previous, group);
  }
}
