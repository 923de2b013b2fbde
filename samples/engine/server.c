#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "stream.h"

enum { MOST_IDLE_ROUNDS = 64, TIERS_WAIT_MS = 20 };

static int open_records(server* s) {
  for (int i = 0; i < 2; ++i) {
    s->records[i].rows = claim_memory(s->max_live, sizeof *s->records[i].rows, "rows");
    if (s->records[i].rows == NULL) return ENGINE_FAILED;
    int rc = batch_open(&s->records[i].batch, s->rig);
    if (rc != ENGINE_OK) return rc;
  }
  return ENGINE_OK;
}

int server_open(server* s, const engine_options* options, const geometry* geo, const workload* work,
                rig* r, forward* f, sampler* kept, struct stream* arrivals, uint32_t max_live) {
  memset(s, 0, sizeof *s);
  s->stream = arrivals;
  s->options = options;
  s->geo = geo;
  s->work = work;
  s->rig = r;
  s->forward = f;
  s->sampler = kept;
  s->max_live = max_live;
  s->stats.struct_size = sizeof s->stats;
  s->max_symbols = rig_symbols_per_step(options, geo->max_len);
  s->entries = claim_memory(max_live, sizeof *s->entries, "reserve entries");
  s->results = claim_memory(max_live, sizeof *s->results, "reserve results");
  s->commits = claim_memory(max_live, sizeof *s->commits, "commit entries");
  s->entry_slot = claim_memory(max_live, sizeof *s->entry_slot, "reserve entries");
  s->symbols = claim_memory(s->max_symbols + max_live, sizeof *s->symbols, "symbols of a step");
  s->token_hash = claim_memory(options->budget, sizeof *s->token_hash, "hashes of a step");
  if (s->entries == NULL || s->results == NULL || s->commits == NULL || s->entry_slot == NULL)
    return ENGINE_FAILED;
  if (s->symbols == NULL || s->token_hash == NULL) return ENGINE_FAILED;
  int rc = queues_open(s);
  return rc != ENGINE_OK ? rc : open_records(s);
}

void server_close(server* s) {
  queues_close(s);
  for (int i = 0; i < 2; ++i) {
    free(s->records[i].rows);
    batch_close(&s->records[i].batch);
  }
  free(s->entries);
  free(s->results);
  free(s->commits);
  free(s->entry_slot);
  free(s->symbols);
  free(s->token_hash);
  memset(s, 0, sizeof *s);
}

static int look_after(server* s, step_done_fn done, void* user) {
  quire_error err = {.struct_size = sizeof err};
  uint64_t every = s->options->check_every;
  if (every != 0 && s->counts.steps % every == 0 &&
      quire_cache_verify(s->rig->cache, &err) != QUIRE_OK) {
    return complain_quire("verify cache", &err);
  }
  return done != NULL ? done(user, s) : ENGINE_OK;
}

static int has_more(const server* s) {
  return s->stream != NULL ? stream_is_busy(s->stream) : s->done_requests < s->work->count;
}

static int has_live(const server* s) {
  return s->stream == NULL || s->num_running + s->num_waiting != 0 ||
         s->ready_begin != s->ready_end;
}

/* Where nothing is left to do, this waits for requests. Tiers still store what was computed. */
static int read_requests(server* s, const step_record* record) {
  int patience = s->rig->rack.tiers != NULL ? TIERS_WAIT_MS : -1;
  if (s->stream == NULL) return ENGINE_OK;
  return stream_read(s->stream, s, record->step.id == 0 && !has_live(s) ? patience : 0);
}

/* While a step runs the next one is reserved; then the first is committed. */
int server_run(server* s, step_done_fn done, void* user) {
  double begin = seconds_now();
  uint32_t now = 0;
  uint32_t idle = 0;
  quire_error err = {.struct_size = sizeof err};
  int rc = server_fetch(s, 0);
  if (rc == ENGINE_OK) rc = server_reserve(s, &s->records[0], 0);
  while (rc == ENGINE_OK && has_more(s)) {
    step_record* record = &s->records[now];
    step_record* next = &s->records[1 - now];
    int in_flight = record->step.id != 0;
    rc = read_requests(s, record);
    if (rc == ENGINE_OK && in_flight) rc = server_launch(s, record, next);
    if (rc == ENGINE_OK) rc = server_fetch(s, idle != 0);
    if (rc == ENGINE_OK) rc = server_reserve(s, next, in_flight);
    if (rc == ENGINE_OK && in_flight) rc = server_commit(s, record);
    if (rc == ENGINE_OK) rc = look_after(s, done, user);
    idle = in_flight || next->step.id != 0 || !has_live(s) ? 0 : idle + 1;
    if (idle == 0) s->idle_since = 0;
    if (rc == ENGINE_OK && idle > MOST_IDLE_ROUNDS && !server_tiers_are_busy(s))
      rc = complain("no request can go on: %u running, %u waiting", s->num_running, s->num_waiting);
    now = 1 - now;
  }
  if (rc == ENGINE_OK && s->records[now].step.id != 0)
    rc = server_commit(s, &s->records[now]); /* late rows of the last requests */
  s->counts.seconds = seconds_now() - begin;
  if (rc == ENGINE_OK) rc = server_settle(s);
  if (rc == ENGINE_OK && quire_cache_get_stats(s->rig->cache, &s->stats, &err) != QUIRE_OK)
    rc = complain_quire("stats", &err);
  return rc;
}
