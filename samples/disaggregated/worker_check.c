/* worker_check.c: what a worker found in its cache and what it computed, against the truth. */
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"
#include "worker.h"

/* Element 0 of a head of a token, where the step's row reads it. */
static unsigned char* head_of(const quire_paged_kv* kv, const quire_batch* batch, uint32_t row,
                              uint32_t side, uint32_t token, uint32_t head) {
  const quire_paged_side* s = &kv->side[side];
  const int32_t* table = batch->table + kv->column * batch->table_column_pitch;
  int64_t id = table[row * batch->table_pitch + token / kv->block_tokens];
  return (unsigned char*)s->base + id * s->unit + token % kv->block_tokens * s->stride_token +
         head * s->stride_head;
}

static int is_equal(const worker* w, const layer_shape* s, const quire_paged_kv* kv,
                    const quire_batch* batch, uint32_t row, uint32_t token, uint64_t hash) {
  uint32_t bytes = dtype_bytes(s->dtype);
  for (uint32_t side = 0; side < kv->num_sides; ++side) {
    uint32_t dim = side == 0 ? s->dim_k : s->dim_v;
    for (uint32_t h = 0; h < s->kv_heads; ++h) {
      const unsigned char* at = head_of(kv, batch, row, side, token, h);
      values_store(value_seed(hash, s->layer, side == 0 ? VALUE_KEY : VALUE_VALUE, h), s->dtype,
                   w->head, dim);
      for (uint32_t d = 0; d < dim; ++d) {
        if (memcmp(at + d * kv->side[side].stride_dim, w->head + (uint64_t)d * bytes, bytes) != 0)
          return 0;
      }
    }
  }
  return 1;
}

/* Whether a layer's query at `position` reads the key. */
static int is_read(const layer_shape* s, uint32_t key, uint32_t position) {
  if (s->chunk != 0) return key / s->chunk == position / s->chunk;
  return s->window == 0 || key < s->sink_tokens || key + s->window > position;
}

static int has_keys(const layer_shape* s) {
  return !s->is_state && s->source == s->layer && s->source_sub == s->sub;
}

void check_found(const worker* w, job* j, const quire_batch* batches, uint32_t row) {
  for (uint32_t i = 0; i < w->geo.num_layers; ++i) {
    const layer_shape* s = &w->geo.layers[i];
    const quire_paged_kv* kv = &w->forward.views[i].attention.kv;
    if (!has_keys(s)) continue;
    for (uint32_t token = 0; token < j->committed; ++token) {
      if (!is_read(s, token, j->committed)) continue;
      ++j->rows;
      j->mismatches += !is_equal(w, s, kv, &batches[kv->group], row, token, j->hashes[token]);
    }
  }
}

void check_break(const worker* w, const quire_batch* batches, uint32_t row) {
  for (uint32_t i = 0; i < w->geo.num_layers; ++i) {
    const quire_paged_kv* kv = &w->forward.views[i].attention.kv;
    if (!has_keys(&w->geo.layers[i])) continue;
    *head_of(kv, &batches[kv->group], row, 0, 0, 0) ^= 0xff;
    return;
  }
}

int check_keep(const worker* w, job* j, uint32_t shape, const float* rows, uint32_t position,
               uint32_t tokens) {
  sampler* kept = &j->results;
  uint64_t width = w->geo.layers[shape].row;
  if (kept->rows == NULL) {
    kept->max_rows = (uint64_t)j->end * w->geo.num_layers;
    kept->rows = claim_memory(kept->max_rows, sizeof *kept->rows, "rows to verify");
    kept->values =
        claim_memory(kept->max_rows * w->geo.max_row, sizeof *kept->values, "values to verify");
  }
  if (kept->rows == NULL || kept->values == NULL) return ENGINE_FAILED;
  for (uint32_t t = 0; t < tokens; ++t) {
    kept->rows[kept->num_rows++] = (kept_row){.request = (uint32_t)(j - w->jobs),
                                              .shape = shape,
                                              .position = position + t,
                                              .offset = kept->num_values};
    memcpy(kept->values + kept->num_values, rows + t * width, width * sizeof *rows);
    kept->num_values += width;
  }
  return ENGINE_OK;
}

int check_results(const worker* w, job* j) {
  verdict v = {0};
  int rc = oracle_verify(&v, &j->results, &w->geo, &w->work, 1);
  j->rows += v.rows;
  j->mismatches += v.mismatches;
  return rc;
}
