/* tables.h: the arrays of one step that kernels read: allocated once, refilled every step, so their addresses never change. */
#ifndef ENGINE_TABLES_H_
#define ENGINE_TABLES_H_

#include "rig.h"

typedef struct group_tables {
  uint32_t columns;
  uint64_t pitch;      /* token groups: lowered ids of a row */
  int32_t* table;      /* token groups: [columns][max_rows][pitch] */
  int64_t* slots;      /* token groups: [columns][max_tokens] */
  int32_t* state_read; /* state groups: [columns][max_rows] */
  int32_t* state_write;
} group_tables;

typedef struct step_tables {
  group_tables* groups; /* [num_groups] */
  uint32_t num_groups;
  uint32_t max_rows;
  uint32_t max_tokens;
  int32_t* kv_len;       /* [max_rows] */
  int32_t* query_indptr; /* [max_rows + 1] */
} step_tables;

int tables_open(step_tables* t, const rig* r, uint32_t max_len, uint32_t max_rows, uint32_t max_tokens);
void tables_close(step_tables* t);
/* Lets the cache write the arrays of a step in flight. */
int tables_fill(step_tables* t, const rig* r, quire_step_id step);

#endif
