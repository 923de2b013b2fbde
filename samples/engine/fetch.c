/* fetch.c: before a request is admitted the tiers are asked for its prompt. While they look and
 * load, others run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine_text.h"
#include "server.h"

enum {
  RETRY_STEPS = 4,
  MOST_REFUSALS = 3,
  IDLE_NS = 100000000,
  MOST_IDLE_SECONDS = 60,
  MOST_SETTLE_SECONDS = 30
};

static int begin_fetch(server* s, uint32_t slot, int* is_full) {
  live* l = &s->slots[slot];
  quire_error err = {.struct_size = sizeof err};
  int rc = server_open_sequence(s, l);
  if (rc != ENGINE_OK) return rc;
  for (uint32_t p = 0; p < l->known; ++p) s->symbols[p] = fault_symbol(s, l, p);
  quire_code code =
      quire_fetch_begin(s->rig->rack.tiers, l->id, s->symbols, l->known, 0, &l->fetch_id, &err);
  *is_full = code == QUIRE_RESOURCE_EXHAUSTED;
  if (code == QUIRE_OK) l->fetch = FETCH_BEGUN;
  return code == QUIRE_OK || *is_full ? ENGINE_OK : complain_quire("fetch", &err);
}

/* Those that would be admitted next. */
static int begin_fetches(server* s) {
  int is_full = 0;
  int rc = ENGINE_OK;
  queues_refill(s);
  for (uint32_t i = 0; i < queues_next(s) && rc == ENGINE_OK && !is_full; ++i) {
    const live* l = &s->slots[s->waiting[i]];
    /* Where nothing runs there are no steps to wait for. */
    int is_time = l->ask_again <= s->counts.steps || s->num_running == 0;
    if (l->fetch == FETCH_NONE && is_time) rc = begin_fetch(s, s->waiting[i], &is_full);
  }
  return rc;
}

/* One call. Where host memory is short for a moment nothing is lost, and the next call goes on. */
static int run_tiers(server* s, int64_t timeout, quire_fetch_result* results, uint64_t capacity,
                     uint64_t* n) {
  quire_error err = {.struct_size = sizeof err};
  quire_code code = quire_tiers_run(s->rig->rack.tiers, timeout, results, capacity, n, &err);
  if (code == QUIRE_OK) return ENGINE_OK;
  *n = 0;
  return code == QUIRE_RESOURCE_EXHAUSTED ? ENGINE_OK : complain_quire("tiers", &err);
}

/* With tokens it runs: what is left of its prompt is computed. Without, it is admitted as if there
 * were no tiers. */
static int take_result(server* s, const quire_fetch_result* r) {
  quire_error err = {.struct_size = sizeof err};
  quire_sequence_info info = {.struct_size = sizeof info};
  uint32_t slot = 0;
  while (slot < s->max_live &&
         (s->slots[slot].fetch != FETCH_BEGUN || s->slots[slot].fetch_id != r->fetch))
    ++slot;
  if (slot == s->max_live) return complain("fetch %" PRIu64 " ended, but never began", r->fetch);
  live* l = &s->slots[slot];
  l->fetch = FETCH_ENDED;
  if (r->outcome == QUIRE_FETCH_DONE) {
    s->counts.fetch_bytes += r->bytes;
    s->counts.fetch_ns += (uint64_t)r->elapsed_ns;
  }
  if (r->committed == 0) {
    /* Others will end and leave room. A load needs all of its blocks at once, so one that finds
     * none again and again is computed, chunk by chunk. */
    if (r->outcome == QUIRE_FETCH_NO_ROOM && s->num_running != 0 && ++l->refusals < MOST_REFUSALS) {
      l->fetch = FETCH_NONE;
      l->ask_again = s->counts.steps + RETRY_STEPS;
    }
    return ENGINE_OK;
  }
  if (quire_sequence_get_info(s->rig->cache, l->id, &info, &err) != QUIRE_OK)
    return complain_quire("sequence info", &err);
  if (info.committed != r->committed || r->committed >= l->known || r->hit_tokens > r->committed)
    return complain("fetch: request %u: %" PRIu64 " tokens of %u", l->request, r->committed,
                    l->known);
  l->given = (uint32_t)info.known;
  l->reserved = (uint32_t)r->committed;
  queues_admit(s, slot, (uint32_t)r->committed, (uint32_t)(r->committed - r->hit_tokens));
  return ENGINE_OK;
}

int server_fetch(server* s, int is_idle) {
  quire_fetch_result results[32];
  uint64_t n = 0;
  if (s->rig->rack.tiers == NULL) return ENGINE_OK;
  int rc = s->cooldown == 0 || s->num_running == 0 ? begin_fetches(s) : ENGINE_OK;
  int64_t timeout = is_idle ? IDLE_NS : 0;
  do {
    if (rc == ENGINE_OK)
      rc = run_tiers(s, timeout, results, sizeof results / sizeof results[0], &n);
    for (uint64_t i = 0; i < n && rc == ENGINE_OK; ++i) rc = take_result(s, &results[i]);
    timeout = 0;
  } while (rc == ENGINE_OK && n == sizeof results / sizeof results[0]);
  return rc;
}

/* What is in flight holds blocks, and will let them go. */
int server_tiers_are_busy(server* s) {
  quire_tiers_stats stats;
  if (s->rig->rack.tiers == NULL || tiers_read(&s->rig->rack, &stats) != ENGINE_OK) return 0;
  int busy = stats.fetches_in_progress + stats.units_in_flight + stats.quarantined != 0;
  double now = seconds_now();
  if (s->idle_since == 0) s->idle_since = now;
  return busy && now - s->idle_since < MOST_IDLE_SECONDS;
}

int server_settle(server* s) {
  quire_tiers_stats stats;
  double begin = seconds_now();
  if (s->rig->rack.tiers == NULL) return ENGINE_OK;
  for (;;) {
    uint64_t n = 0;
    uint64_t taken = 0;
    int rc = tiers_read(&s->rig->rack, &stats);
    taken = stats.units_taken;
    if (rc == ENGINE_OK) rc = run_tiers(s, IDLE_NS, NULL, 0, &n);
    if (rc == ENGINE_OK) rc = tiers_read(&s->rig->rack, &stats);
    if (rc != ENGINE_OK) return rc;
    if (stats.units_taken == taken && stats.units_in_flight == 0) return ENGINE_OK;
    if (seconds_now() - begin > MOST_SETTLE_SECONDS) return ENGINE_OK;
  }
}
