#include "sampler.h"

#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"

enum { PLAIN, HIT, RESUMED };

/* Recurrent layers are verified from token 0 on, so each request shows only some of them; attention
 * rows stand alone. */
static int pair_is_chosen(const sampler* s, uint32_t request, uint32_t sample, uint32_t shape) {
  uint64_t draw = mix64(s->seed + ((uint64_t)request << 24) + ((uint64_t)sample << 16) + shape);
  const geometry* g = s->geo;
  uint32_t of = g->layers[shape].is_state ? (g->num_state + 1) / 2 : (g->num_attention + 2) / 3;
  return draw % (of == 0 ? 1 : of) == 0;
}

static const double boost[3] = {0.6, 2.0, 6.0};

/* One of `of` layers of a kind shows rows of a request: how many that are. */
static uint64_t shown(uint64_t layers, uint64_t of) {
  uint64_t each = (layers + of - 1) / of;
  return each == 0 ? 0 : (layers + each - 1) / each;
}

/* Layers of which each request shows rows, about. */
static uint64_t shown_layers(const geometry* g) {
  return shown(g->num_state, 2) + shown(g->num_attention, 3);
}

static void set_rates(sampler* s, const workload* work) {
  double candidates =
      (double)(work->prompt_tokens + work->output_tokens) * (double)shown_layers(s->geo);
  double share = (double)s->max_rows / (candidates < 1 ? 1 : candidates);
  for (int i = 0; i < 3; ++i) {
    double rate = share * boost[i] > 1 ? 1 : share * boost[i];
    s->rate[i] = (uint64_t)(rate * 4294967296.0);
    s->quota_left[i] = (s->max_rows + 1) / 2;
  }
}

int sampler_open(sampler* s, const geometry* geo, const workload* work,
                 const engine_options* options) {
  memset(s, 0, sizeof *s);
  s->geo = geo;
  s->seed = mix64(options->seed + 9);
  s->work = work;
  s->max_rows = options->rows < 3 ? 3 : options->rows;
  if (options->serve) {
    s->each = options->rows;
    s->max_rows = (s->each + geo->num_layers) * work->count;
  }
  s->max_values = s->max_rows * geo->max_row;
  s->rows = claim_memory(s->max_rows, sizeof *s->rows, "rows to verify");
  s->values = claim_memory(s->max_values, sizeof *s->values, "values to verify");
  if (s->rows == NULL || s->values == NULL) return ENGINE_FAILED;
  set_rates(s, work);
  return ENGINE_OK;
}

void sampler_close(sampler* s) {
  free(s->rows);
  free(s->values);
  memset(s, 0, sizeof *s);
}

/* Of a request that arrived alone: what it computes last before its answer is kept in every case.
 */
static int is_drawn(const sampler* s, uint32_t request, uint32_t position, int class,
                    uint64_t draw) {
  const work_request* r = &s->work->requests[request];
  if (s->each == 0) return draw < s->rate[class];
  double rows = ((double)r->prompt_len + r->output_len) * r->samples;
  double share = (double)s->each * boost[class] / (rows * (double)shown_layers(s->geo));
  return position + 1 == r->prompt_len || (double)draw < share * 4294967296.0;
}

float* sampler_take(sampler* s, uint32_t request, uint32_t sample, uint32_t shape,
                    uint32_t position, uint32_t tags) {
  int class = (tags & ROW_AFTER_PREEMPTION) != 0
                  ? RESUMED
                  : ((tags & (ROW_AFTER_HIT | ROW_AFTER_FETCH)) != 0 ? HIT : PLAIN);
  uint32_t width = s->geo->layers[shape].row;
  if (s->quota_left[class] == 0 || s->num_rows == s->max_rows ||
      s->max_values - s->num_values < width)
    return NULL;
  if (!pair_is_chosen(s, request, sample, shape)) return NULL;
  uint64_t draw =
      mix64(s->seed ^ mix64(((uint64_t)request << 32) + position) ^ ((uint64_t)shape << 17)) &
      0xffffffffu;
  if (!is_drawn(s, request, position, class, draw)) return NULL;
  if (s->each == 0) --s->quota_left[class];
  s->rows[s->num_rows++] = (kept_row){request, sample, shape, position, tags, 0, s->num_values};
  float* to = s->values + s->num_values;
  s->num_values += width;
  return to;
}

int sampler_split(sampler* s, uint32_t request, sampler* rows) {
  uint64_t kept = 0;
  uint64_t values = 0;
  *rows = (sampler){.geo = s->geo, .work = s->work};
  rows->rows = claim_memory(s->num_rows, sizeof *rows->rows, "rows to verify");
  rows->values = claim_memory(s->num_values, sizeof *rows->values, "values to verify");
  if (rows->rows == NULL || rows->values == NULL) return ENGINE_FAILED;
  for (uint64_t i = 0; i < s->num_rows; ++i) {
    kept_row row = s->rows[i];
    uint32_t width = s->geo->layers[row.shape].row;
    int is_theirs = row.request == request;
    uint64_t* end = is_theirs ? &rows->num_values : &values;
    float* to = (is_theirs ? rows->values : s->values) + *end;
    memmove(to, s->values + row.offset, width * sizeof *to);
    row.offset = *end;
    *end += width;
    if (is_theirs) {
      rows->rows[rows->num_rows++] = row;
    } else {
      s->rows[kept++] = row;
    }
  }
  s->num_rows = kept;
  s->num_values = values;
  return ENGINE_OK;
}
