#include "row_oracle.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "recompute.h"
#include "values.h"

/* Shared by the threads; they take runs of rows of one (request, sample, layer). */
typedef struct hall {
  const sampler* kept;
  const geometry* geo;
  const workload* work;
  kept_row* rows;      /* sorted */
  uint64_t* run_begin; /* [num_runs + 1] */
  uint64_t num_runs;
  atomic_uint_fast64_t next_run;
  uint32_t longest; /* tokens */
} hall;

typedef struct judge {
  hall* shared;
  verdict verdict;
  pthread_t thread;
  int rc;
} judge;

void oracle_hashes(const workload* work, uint32_t request, uint32_t sample, uint32_t len,
                   uint32_t* prompt_space, uint64_t* hashes) {
  const work_request* r = &work->requests[request];
  uint64_t h = prefix_root(r->salt);
  workload_prompt(work, request, prompt_space);
  for (uint32_t p = 0; p < len; ++p) {
    h = prefix_step(h, p < r->prompt_len ? prompt_space[p] : next_symbol(h, sample));
    hashes[p] = h;
  }
}

static int by_run(const void* left, const void* right) {
  const kept_row* a = left;
  const kept_row* b = right;
  if (a->request != b->request) return a->request < b->request ? -1 : 1;
  if (a->sample != b->sample) return a->sample < b->sample ? -1 : 1;
  if (a->shape != b->shape) return a->shape < b->shape ? -1 : 1;
  return a->position == b->position ? 0 : (a->position < b->position ? -1 : 1);
}

static int same_run(const kept_row* a, const kept_row* b) {
  return a->request == b->request && a->sample == b->sample && a->shape == b->shape;
}

static void judge_row(verdict* v, const kept_row* row, const layer_shape* s, const float* got,
                      const double* want) {
  double wrong = 0;
  double size = 0;
  for (uint32_t i = 0; i < s->row; ++i) {
    double d = (double)got[i] - want[i];
    wrong += d * d;
    size += want[i] * want[i];
  }
  double error = size > 0 ? sqrt(wrong / size) : (wrong == 0 ? 0 : INFINITY);
  if (!(error <= ROW_TOLERANCE)) ++v->mismatches; /* NaN is a mismatch */
  if (isnan(error)) error = INFINITY;
  ++v->rows;
  ++*(s->is_state ? &v->state : &v->attention);
  ++v->kind_rows[s->is_state ? 3 : (s->window != 0 ? 1 : (s->chunk != 0 ? 2 : 0))];
  for (uint32_t c = 0; c < ROW_CLASSES; ++c) v->by_class[c] += (row->tags >> c) & 1u;
  if ((row->tags & ~ROW_HAND_OVER) == 0) ++v->plain;
  if (v->rows == 1 || error > v->worst) {
    v->worst = error;
    v->worst_row = *row;
  }
}

static void judge_run(judge* j, recompute* bench, uint64_t begin, uint64_t end) {
  const hall* h = j->shared;
  const kept_row* first = &h->rows[begin];
  const layer_shape* s = &h->geo->layers[first->shape];
  uint32_t len = h->rows[end - 1].position + 1;
  oracle_hashes(h->work, first->request, first->sample, len, bench->symbols, bench->hashes);
  recompute_begin(bench, s, len);
  for (uint64_t i = begin; i < end; ++i) {
    recompute_row(bench, h->rows[i].position);
    judge_row(&j->verdict, &h->rows[i], s, h->kept->values + h->rows[i].offset, bench->row);
  }
}

static void* judge_all(void* argument) {
  judge* j = argument;
  hall* h = j->shared;
  recompute bench;
  j->rc = recompute_open(&bench, h->geo, h->longest);
  for (;;) {
    uint64_t run = atomic_fetch_add(&h->next_run, 1);
    if (run >= h->num_runs || j->rc != ENGINE_OK) break;
    judge_run(j, &bench, h->run_begin[run], h->run_begin[run + 1]);
  }
  recompute_close(&bench);
  return NULL;
}

void oracle_merge(verdict* into, const verdict* v) {
  if (v->rows == 0) return;
  if (into->rows == 0 || v->worst > into->worst) {
    into->worst = v->worst;
    into->worst_row = v->worst_row;
  }
  into->rows += v->rows;
  into->mismatches += v->mismatches;
  into->plain += v->plain;
  into->attention += v->attention;
  into->state += v->state;
  for (int i = 0; i < ROW_CLASSES; ++i) into->by_class[i] += v->by_class[i];
  for (int i = 0; i < 4; ++i) into->kind_rows[i] += v->kind_rows[i];
}

static int divide(hall* h) {
  uint64_t n = h->kept->num_rows;
  h->rows = claim_memory(n, sizeof *h->rows, "rows to verify");
  h->run_begin = claim_memory(n + 1, sizeof *h->run_begin, "runs to verify");
  if (h->rows == NULL || h->run_begin == NULL) return ENGINE_FAILED;
  memcpy(h->rows, h->kept->rows, n * sizeof *h->rows);
  if (n != 0) qsort(h->rows, n, sizeof *h->rows, by_run);
  for (uint64_t i = 0; i < n; ++i) {
    if (i == 0 || !same_run(&h->rows[i - 1], &h->rows[i])) h->run_begin[h->num_runs++] = i;
    const work_request* r = &h->work->requests[h->rows[i].request];
    uint32_t len =
        h->rows[i].position + 1 > r->prompt_len ? h->rows[i].position + 1 : r->prompt_len;
    if (len > h->longest) h->longest = len;
  }
  h->run_begin[h->num_runs] = n;
  return ENGINE_OK;
}

static int judge_in_parallel(verdict* v, hall* h, uint32_t threads) {
  judge* judges = claim_memory(threads, sizeof *judges, "threads");
  if (judges == NULL) return ENGINE_FAILED;
  uint32_t started = 0;
  int rc = ENGINE_OK;
  for (; started < threads; ++started) {
    judges[started].shared = h;
    if (pthread_create(&judges[started].thread, NULL, judge_all, &judges[started]) != 0) break;
  }
  if (started == 0) rc = complain("no thread could be started for verification");
  for (uint32_t i = 0; i < started; ++i) {
    (void)pthread_join(judges[i].thread, NULL);
    if (judges[i].rc != ENGINE_OK) rc = judges[i].rc;
    oracle_merge(v, &judges[i].verdict);
  }
  free(judges);
  return rc;
}

int oracle_verify(verdict* v, const sampler* rows, const geometry* geo, const workload* work,
                  uint32_t threads) {
  double begin = seconds_now();
  hall h = {.kept = rows, .geo = geo, .work = work};
  memset(v, 0, sizeof *v);
  atomic_init(&h.next_run, 0);
  int rc = divide(&h);
  if (rc == ENGINE_OK) rc = judge_in_parallel(v, &h, threads);
  free(h.rows);
  free(h.run_begin);
  v->seconds = seconds_now() - begin;
  return rc;
}
