/* step.c: runs a reserved step's kernels and commits it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine_text.h"
#include "server.h"
#include "stream.h"
#include "values.h"

static int is_void(const server* s, const step_row* row) {
  return s->slots[row->slot].epoch != row->epoch;
}

typedef struct layer_watch {
  server* server;
  const step_record* record;
} layer_watch;

/* Writes the row of the last known symbol, from which the next one would be sampled: its key, the
 * symbols so far, and the layer's row as its length and its sum with signs that depend on the
 * place. The line does not depend on plan and reuse. A row that is computed again is written again.
 */
static void write_output(const server* s, const live* l, uint32_t shape, uint32_t position,
                         const float* row) {
  double sum = 0, squares = 0;
  for (uint32_t i = 0; i < s->geo->layers[shape].row; ++i) {
    squares += (double)row[i] * row[i];
    sum += (mix64(i) & 1) != 0 ? (double)row[i] : -(double)row[i];
  }
  (void)fprintf(s->outputs, "%u.%u.%u.%u %016llx %.6e %.6e\n", l->request, l->sample, position,
                shape, (unsigned long long)l->hashes[position + 1], sqrt(squares), sum);
}

/* Keeps sampled rows of a layer's results, and writes those that symbols come from. */
static void keep_rows(void* user, uint32_t shape, const float* out) {
  const layer_watch* w = user;
  server* s = w->server;
  uint32_t width = s->geo->layers[shape].row;
  for (uint32_t i = 0; i < w->record->num_rows; ++i) {
    const step_row* row = &w->record->rows[i];
    const live* l = &s->slots[row->slot];
    if (is_void(s, row)) continue;
    const float* rows = out + (uint64_t)w->record->batch.groups[0].query_indptr[i] * width;
    if (s->outputs != NULL && row->position + row->tokens == l->known) {
      write_output(s, l, shape, l->known - 1, rows + (row->tokens - UINT64_C(1)) * width);
    }
    if (s->sampler == NULL) continue;
    uint32_t tags = l->tags | (s->stats.hand_overs > l->hand_overs ? ROW_HAND_OVER : 0);
    for (uint32_t t = 0; t < row->tokens; ++t) {
      float* to = sampler_take(s->sampler, l->request, l->sample, shape, row->position + t, tags);
      if (to != NULL) memcpy(to, rows + (uint64_t)t * width, width * sizeof *to);
    }
  }
}

int server_launch(server* s, step_record* record, const step_record* previous) {
  quire_error err = {.struct_size = sizeof err};
  layer_watch watch = {s, record};
  if (s->forward == NULL) return ENGINE_OK;
  for (uint32_t i = 0; i < record->num_rows; ++i) {
    const step_row* row = &record->rows[i];
    const live* l = &s->slots[row->slot];
    uint64_t* to = s->token_hash + record->batch.groups[0].query_indptr[i];
    for (uint32_t t = 0; t < row->tokens; ++t)
      to[t] = is_void(s, row) ? mix64(row->position + t) : l->hashes[row->position + t + 1];
  }
  fault_batch(s, record, previous);
  if (quire_memory_prepare_step(s->rig->memory, record->step, s->rig->stream, &err) != QUIRE_OK) {
    return complain_quire("prepare step", &err);
  }
  return forward_run(s->forward, record->batch.groups, s->token_hash,
                     s->sampler != NULL || s->outputs != NULL ? keep_rows : NULL, &watch);
}

/* Builds the outcome of the rows: those that computed the last known symbol sample the next one. */
static void collect_outcomes(server* s, const step_record* record) {
  s->num_symbols = 0;
  for (uint32_t i = 0; i < record->num_rows; ++i) {
    const step_row* row = &record->rows[i];
    live* l = &s->slots[row->slot];
    quire_commit_entry* c = &s->commits[i];
    memset(c, 0, sizeof *c);
    c->sequence = row->id;
    c->symbols_offset = s->num_symbols;
    c->num_accepted = row->tokens;
    if (is_void(s, row)) {
      s->counts.late_tokens += row->tokens;
      continue;
    }
    s->counts.computed_tokens += row->tokens;
    if (s->stream != NULL) s->stream->outcomes[l->request].computed_tokens += row->tokens;
    if (row->position + row->tokens != l->known) continue;
    live_learn(l, next_symbol(l->hashes[l->known], l->sample));
    ++s->counts.generated_tokens;
    s->symbols[s->num_symbols++] = fault_symbol(s, l, l->known - 1);
    l->given = l->known;
    c->symbols_position = l->known - 1;
    c->num_symbols = 1;
  }
}

int server_commit(server* s, step_record* record) {
  quire_error err = {.struct_size = sizeof err};
  collect_outcomes(s, record);
  if (quire_commit(record->step, s->commits, record->num_rows, s->symbols, s->num_symbols, &err) !=
      QUIRE_OK) {
    return complain_quire("commit", &err);
  }
  ++s->counts.steps;
  for (uint32_t i = 0; i < record->num_rows; ++i) {
    const step_row* row = &record->rows[i];
    live* l = &s->slots[row->slot];
    if (is_void(s, row) || s->commits[i].num_symbols == 0) continue;
    int rc = l->partner != NO_REQUEST ? queues_fork(s, row->slot) : ENGINE_OK;
    if (rc == ENGINE_OK && l->known >= l->end) rc = queues_finish(s, row->slot);
    if (rc != ENGINE_OK) return rc;
  }
  record->step = (quire_step){0};
  return ENGINE_OK;
}
