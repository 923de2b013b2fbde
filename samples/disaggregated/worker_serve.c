/* worker_serve.c: the wiring. A prefill worker computes a prompt, chunk by chunk, offers it and
 * says where; a decode worker fetches it, computes what did not come, and decodes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"
#include "worker.h"

enum { MOST_RESULTS = 16, MOST_LINE = 512 };

static int is_done(const job* j) { return j->committed == j->end; }

static void free_job(worker* w, job* j) {
  quire_error err = QUIRE_INIT(quire_error);
  if (j->sequence != 0) (void)quire_sequence_finish(w->rig.cache, j->sequence, &err);
  free(j->symbols);
  free(j->hashes);
  sampler_close(&j->results);
  memset(j, 0, sizeof *j);
}

static int say(worker* w, const char* line, int bytes) {
  return wire_send(&w->router, line, (size_t)bytes) ? ENGINE_OK : complain("the router is gone");
}

/* Requests ----------------------------------------------------------------------------------- */

static int open_job(worker* w, job* j, uint64_t tenant, uint32_t output, uint32_t prompt,
                    char* line) {
  quire_error err = QUIRE_INIT(quire_error);
  const char* salt = tenant_salt((uint32_t)tenant);
  quire_identity identity = QUIRE_INIT(quire_identity);
  identity.salt = (quire_str){salt, strlen(salt)};
  j->symbols = claim_memory(prompt + output, sizeof *j->symbols, "a request");
  j->hashes = claim_memory(prompt + output, sizeof *j->hashes, "a request");
  if (j->symbols == NULL || j->hashes == NULL) return ENGINE_FAILED;
  uint64_t h = prefix_root((uint32_t)tenant);
  for (j->known = 0; j->known < prompt; ++j->known) {
    j->symbols[j->known] = (uint32_t)wire_number(&line);
    h = j->hashes[j->known] = prefix_step(h, j->symbols[j->known]);
  }
  w->work.requests[j - w->jobs] = (work_request){.salt = (uint32_t)tenant,
                                                 .prompt_len = prompt,
                                                 .output_len = output,
                                                 .samples = 1,
                                                 .symbols = j->symbols};
  if (quire_sequence_create(w->rig.cache, &identity, &j->sequence, &err) != QUIRE_OK)
    return complain_quire("sequence", &err);
  return ENGINE_OK;
}

static void read_handle(uint8_t handle[16], const char* text) {
  for (int i = 0; i < 16; ++i) {
    unsigned byte = 0;
    if (sscanf(text + (size_t)i * 2, "%2x", &byte) != 1) return;
    handle[i] = (uint8_t)byte;
  }
}

static int begin_fetch(worker* w, job* j) {
  quire_error err = QUIRE_INIT(quire_error);
  if (strcmp(j->address, "-") == 0) {
    j->state = JOB_RUNNING;
    return ENGINE_OK;
  }
  j->peer.tier = w->rig.rack.count - 1;
  j->peer.flags = QUIRE_PEER_GROWS;
  j->peer.address = (quire_str){j->address, strlen(j->address)};
  if (quire_fetch_begin_peer(w->rig.rack.tiers, j->sequence, j->symbols, j->known, w->deadline_ns,
                             &j->peer, &j->fetch, &err) != QUIRE_OK) {
    return complain_quire("fetch", &err);
  }
  j->state = JOB_FETCHING;
  return ENGINE_OK;
}

static int begin_offer(worker* w, job* j);

int worker_take(worker* w, char* line) {
  job* j = w->jobs;
  const char* verb = wire_word(&line);
  while (j < w->jobs + w->slots && j->state != JOB_FREE) ++j;
  if (strcmp(verb, w->is_decode ? "decode" : "prefill") != 0 || j == w->jobs + w->slots)
    return complain("the router says '%s', with %" PRIu64 " slots here", verb, w->slots);
  j->id = wire_number(&line);
  uint64_t tenant = wire_number(&line);
  uint64_t prompt = wire_number(&line);
  uint32_t output = 0;
  if (w->is_decode) {
    output = (uint32_t)wire_number(&line);
    (void)snprintf(j->address, sizeof j->address, "%s", wire_word(&line));
    j->peer.struct_size = sizeof j->peer;
    read_handle(j->peer.handle, wire_word(&line));
    j->peer.end_token = wire_number(&line);
  } else {
    j->end = (uint32_t)wire_number(&line);
  }
  if (prompt == 0 || prompt > w->geo.max_len || output > w->geo.max_len - prompt ||
      j->end > prompt || (w->is_decode && output == 0))
    return complain("the router asks for %" PRIu64 " + %u tokens", prompt, output);
  int rc = open_job(w, j, tenant, output, (uint32_t)prompt, line);
  j->state = JOB_RUNNING;
  if (!w->is_decode) return rc != ENGINE_OK ? rc : begin_offer(w, j);
  j->end = (uint32_t)prompt + output - 1; /* the last token that is sampled is not computed */
  return rc != ENGINE_OK ? rc : begin_fetch(w, j);
}

/* Offers ------------------------------------------------------------------------------------- */

static int say_offered(worker* w, job* j, int is_offered) {
  char line[MOST_LINE];
  char handle[33] = "-";
  for (int i = 0; i < 16 && is_offered; ++i)
    (void)snprintf(handle + (size_t)i * 2, 3, "%02x", j->offer.handle[i]);
  j->is_said = 1;
  return say(w, line,
             snprintf(line, sizeof line, "offered %" PRIu64 " %s %s %u\n", j->id,
                      is_offered ? w->address : "-", handle, j->end));
}

/* The prompt is not needed here any more: what is offered stays as long as the offer does. */
static int let_go(worker* w, job* j) {
  char line[MOST_LINE];
  int n = snprintf(line, sizeof line, "freed %" PRIu64 "\n", j->id);
  int rc = j->is_said ? ENGINE_OK : say_offered(w, j, 0);
  free_job(w, j);
  return rc != ENGINE_OK ? rc : say(w, line, n);
}

/* Before anything is computed: the offer grows with the sequence, and its reader loads each chunk
 * while the next one is computed. */
static int begin_offer(worker* w, job* j) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_code code = quire_offer_begin(w->rig.rack.tiers, j->sequence, j->symbols, j->known, j->end,
                                      w->rig.rack.count - 1, &j->offer, &err);
  if (code == QUIRE_OK) return ENGINE_OK;
  if (code != QUIRE_RESOURCE_EXHAUSTED) return complain_quire("offer", &err);
  return let_go(w, j); /* the other offers take all the room that offers have */
}

static int follow_offer(worker* w, job* j) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_offer_info standing = QUIRE_INIT(quire_offer_info);
  quire_code code = quire_offer_get_info(w->rig.rack.tiers, j->offer.handle, &standing, &err);
  if (code == QUIRE_NOT_FOUND) return let_go(w, j); /* its reader does not wait any more */
  if (code != QUIRE_OK) return complain_quire("offer", &err);
  int rc = standing.is_ready && !j->is_said ? say_offered(w, j, 1) : ENGINE_OK;
  return rc == ENGINE_OK && standing.num_tokens == j->end ? let_go(w, j) : rc;
}

/* Fetches ------------------------------------------------------------------------------------ */

static int take_result(worker* w, const quire_fetch_result* r) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_sequence_info now = QUIRE_INIT(quire_sequence_info);
  job* j = w->jobs;
  while (j->state != JOB_FETCHING || j->fetch != r->fetch) ++j;
  j->state = JOB_RUNNING;
  if (r->committed == 0) return ENGINE_OK; /* it is reserved as if nobody had been asked */
  if (quire_sequence_get_info(w->rig.cache, j->sequence, &now, &err) != QUIRE_OK)
    return complain_quire("sequence", &err);
  j->committed = (uint32_t)now.committed;
  j->given = (uint32_t)now.known;
  j->from_peer = (uint32_t)(r->committed - r->hit_tokens);
  return ENGINE_OK;
}

static int run_tiers(worker* w, int64_t timeout_ns) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_result results[MOST_RESULTS];
  uint64_t n = 0;
  quire_code code = quire_tiers_run(w->rig.rack.tiers, timeout_ns, results, MOST_RESULTS, &n, &err);
  if (code == QUIRE_RESOURCE_EXHAUSTED) return ENGINE_OK; /* nothing is lost: the next call */
  if (code != QUIRE_OK) return complain_quire("tiers", &err);
  int rc = ENGINE_OK;
  for (uint64_t i = 0; i < n && rc == ENGINE_OK; ++i) rc = take_result(w, &results[i]);
  return rc;
}

/* Steps -------------------------------------------------------------------------------------- */

typedef struct step {
  worker* worker;
  quire_step step;
  uint32_t count; /* entries */
  job* jobs[MOST_JOBS];
  quire_reserve_entry entries[MOST_JOBS];
  quire_reserve_result results[MOST_JOBS];
  quire_commit_entry outcomes[MOST_JOBS]; /* by row, as the next */
  job* rows[MOST_JOBS];
  uint32_t num_rows;
  quire_symbol* symbols; /* [num_symbols] */
  uint32_t num_symbols;
  int rc;
} step;

static void append_symbols(step* s, const job* j, uint32_t begin, uint32_t end) {
  memcpy(s->symbols + s->num_symbols, j->symbols + begin, (end - begin) * sizeof *s->symbols);
  s->num_symbols += end - begin;
}

/* Up to `budget` tokens of a job. An empty sequence matches what the cache has. */
static uint32_t add_entry(step* s, job* j, uint32_t budget) {
  uint32_t most = j->known < j->end ? j->known : j->end; /* symbols to compute now */
  uint32_t tokens = most - j->committed < budget ? most - j->committed : budget;
  int is_match = j->committed == 0 && j->given == 0;
  uint32_t end = is_match ? most : j->committed + tokens;
  quire_reserve_entry* e = &s->entries[s->count];
  *e = (quire_reserve_entry){.sequence = j->sequence, .num_tokens = tokens};
  e->symbols_position = j->given;
  e->symbols_offset = s->num_symbols;
  e->num_symbols = end > j->given ? end - j->given : 0;
  if (e->num_symbols != 0) append_symbols(s, j, j->given, end);
  uint32_t prompt = s->worker->work.requests[j - s->worker->jobs].prompt_len;
  if (is_match) e->flags = QUIRE_ENTRY_MATCH;
  if (!is_match && !j->is_matched && end == prompt && j->committed < prompt)
    e->flags = QUIRE_ENTRY_PROMPT_END;
  s->jobs[s->count++] = j;
  return tokens;
}

/* The running job with the smallest id above other's (NULL: of all). NULL: there is none. */
static job* next_oldest(worker* w, const job* other) {
  job* oldest = NULL;
  for (job* j = w->jobs; j < w->jobs + w->slots; ++j) {
    int is_later = j->state == JOB_RUNNING && (other == NULL || j->id > other->id);
    if (is_later && (oldest == NULL || j->id < oldest->id)) oldest = j;
  }
  return oldest;
}

/* Oldest first. Those that gave up their blocks wait until something older went on. */
static int reserve(step* s) {
  worker* w = s->worker;
  quire_error err = QUIRE_INIT(quire_error);
  uint32_t budget = (uint32_t)w->options.budget;
  for (job* j = next_oldest(w, NULL); j != NULL && budget != 0; j = next_oldest(w, j))
    if (w->youngest == 0 || j->id < w->youngest) budget -= add_entry(s, j, budget);
  if (s->count == 0) w->youngest = 0;
  if (s->count == 0) return ENGINE_OK;
  if (quire_reserve(w->rig.cache, s->entries, s->count, s->symbols, s->num_symbols, s->results,
                    &s->step, &err) != QUIRE_OK) {
    return complain_quire("reserve", &err);
  }
  for (uint32_t i = 0; i < s->count; ++i) {
    const quire_reserve_result* r = &s->results[i];
    job* j = s->jobs[i];
    if (r->reason == QUIRE_REFUSAL_NO_ROOM || r->reason == QUIRE_REFUSAL_STEP_FULL) continue;
    if (r->code != QUIRE_OK)
      return complain("reserve: %.*s", (int)quire_refusal_text(r->reason).len,
                      quire_refusal_text(r->reason).data);
    quire_sequence_info now = QUIRE_INIT(quire_sequence_info);
    if (quire_sequence_get_info(w->rig.cache, j->sequence, &now, &err) != QUIRE_OK)
      return complain_quire("sequence", &err);
    j->given = (uint32_t)now.known;
    j->is_matched |= (s->entries[i].flags & QUIRE_ENTRY_MATCH) != 0;
    j->committed = (uint32_t)r->position;
    s->rows[r->row] = j;
    s->outcomes[r->row] =
        (quire_commit_entry){.sequence = j->sequence, .num_accepted = r->num_tokens};
    ++s->num_rows;
  }
  return ENGINE_OK;
}

static void keep_layer(void* user, uint32_t shape, const float* out) {
  step* s = user;
  const worker* w = s->worker;
  uint64_t width = w->geo.layers[shape].row;
  for (uint32_t row = 0; row < s->num_rows && s->rc == ENGINE_OK; ++row) {
    const float* rows = out + (uint64_t)w->batch.groups[0].query_indptr[row] * width;
    s->rc = check_keep(w, s->rows[row], shape, rows, s->rows[row]->committed,
                       s->outcomes[row].num_accepted);
  }
}

/* The first step of a prompt that was found: everything that it found is compared. */
static void look_at(step* s, uint32_t row) {
  worker* w = s->worker;
  job* j = s->rows[row];
  uint32_t wanted = (uint32_t)j->peer.end_token;
  if (j->is_checked) return;
  j->is_checked = 1;
  if (wanted > j->committed) j->recomputed += wanted - j->committed; /* also after a restart */
  if (w->breaks_rows && j->from_peer != 0) check_break(w, w->batch.groups, row);
  check_found(w, j, w->batch.groups, row);
}

static int compute(step* s) {
  worker* w = s->worker;
  quire_error err = QUIRE_INIT(quire_error);
  int rc = batch_fill(&w->batch, s->step);
  if (rc != ENGINE_OK) return rc;
  if (quire_memory_prepare_step(w->rig.memory, s->step, w->rig.stream, &err) != QUIRE_OK ||
      quire_stream_synchronize(w->rig.stream, -1, &err) != QUIRE_OK) {
    return complain_quire("prepare step", &err);
  }
  for (uint32_t row = 0; row < s->num_rows; ++row) {
    const job* j = s->rows[row];
    memcpy(w->token_hash + w->batch.groups[0].query_indptr[row], j->hashes + j->committed,
           s->outcomes[row].num_accepted * sizeof *w->token_hash);
    if (w->is_decode) look_at(s, row);
  }
  rc =
      forward_run(&w->forward, w->batch.groups, w->token_hash, w->is_decode ? keep_layer : NULL, s);
  return rc != ENGINE_OK ? rc : s->rc;
}

/* No request that was asked found room: the latest one that has blocks gives them up. It waits
 * until an older one went on, and then starts again from whatever prefix is still cached. *did: an
 * older one may go on now; otherwise the round ends idle, until quarantined blocks come back. */
static int make_room(worker* w, int* did) {
  quire_error err = QUIRE_INIT(quire_error);
  job* last = NULL;
  for (job* j = next_oldest(w, NULL); j != NULL; j = next_oldest(w, j))
    if (j->committed != 0) last = j;
  *did = last != NULL && last != next_oldest(w, NULL);
  if (last == NULL) return ENGINE_OK;
  int rc = last->results.num_rows != 0 ? check_results(w, last) : ENGINE_OK;
  last->results.num_rows = last->results.num_values = 0;
  if (quire_sequence_preempt(w->rig.cache, last->sequence, &err) != QUIRE_OK)
    return complain_quire("preempt", &err);
  last->committed = last->given = 0;
  last->is_matched = last->is_checked = 0;
  w->youngest = *did ? last->id : 0;
  fprintf(stderr, "request %" PRIu64 " starts again: the pool is full\n", last->id);
  return rc;
}

/* A job that computed its last known symbol samples the next one. */
static int commit(step* s) {
  quire_error err = QUIRE_INIT(quire_error);
  s->num_symbols = 0;
  for (uint32_t row = 0; row < s->num_rows; ++row) {
    job* j = s->rows[row];
    quire_commit_entry* c = &s->outcomes[row];
    j->committed += c->num_accepted;
    if (j->committed != j->known || is_done(j)) continue;
    uint64_t h = j->hashes[j->known - 1];
    j->symbols[j->known] = next_symbol(h, 0);
    j->hashes[j->known] = prefix_step(h, j->symbols[j->known]);
    c->symbols_position = j->known++;
    c->symbols_offset = s->num_symbols;
    c->num_symbols = 1;
    append_symbols(s, j, j->known - 1, j->known);
    j->given = j->known;
  }
  if (quire_commit(s->step, s->outcomes, s->num_rows, s->symbols, s->num_symbols, &err) != QUIRE_OK)
    return complain_quire("commit", &err);
  return ENGINE_OK;
}

static int answer(worker* w, job* j) {
  char line[MOST_LINE];
  int rc = check_results(w, j);
  int n = snprintf(line, sizeof line, "done %" PRIu64 " %u %u %" PRIu64 " %" PRIu64 "\n", j->id,
                   j->from_peer, j->recomputed, j->rows, j->mismatches);
  free_job(w, j);
  return rc != ENGINE_OK ? rc : say(w, line, n);
}

int worker_round(worker* w, int* did) {
  step s = {.worker = w};
  int transfers = 0;
  int running = 0;
  for (const job* j = w->jobs; j < w->jobs + w->slots; ++j) {
    transfers |= j->state == JOB_FETCHING || j->state == JOB_OFFERING;
    running |= j->state == JOB_RUNNING;
  }
  int rc = run_tiers(w, transfers && !running ? 1000000 : 0);
  for (job* j = w->jobs; j < w->jobs + w->slots && rc == ENGINE_OK; ++j)
    if (j->state != JOB_FREE && !w->is_decode) rc = follow_offer(w, j);
  s.symbols = claim_memory((uint64_t)w->geo.max_len * w->slots, sizeof *s.symbols, "a step");
  if (rc == ENGINE_OK && s.symbols == NULL) rc = ENGINE_FAILED;
  if (rc == ENGINE_OK) rc = reserve(&s);
  if (rc == ENGINE_OK && s.step.id != 0) rc = compute(&s);
  if (s.step.id != 0) w->youngest = 0;
  int is_stuck = w->is_decode && s.count != 0 && s.step.id == 0 && !transfers;
  if (rc == ENGINE_OK && is_stuck) rc = make_room(w, &is_stuck);
  if (rc == ENGINE_OK && s.step.id != 0) rc = commit(&s);
  free(s.symbols);
  *did = transfers || s.step.id != 0 || is_stuck;
  for (job* j = w->jobs; j < w->jobs + w->slots && rc == ENGINE_OK; ++j) {
    if (j->state != JOB_RUNNING || !is_done(j)) continue;
    j->state = JOB_OFFERING;
    if (w->is_decode) rc = answer(w, j);
  }
  return rc;
}
