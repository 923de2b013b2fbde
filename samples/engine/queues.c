/* queues.c: who runs, who waits, and the life of one sample of a request. */
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "server.h"
#include "stream.h"
#include "values.h"

void live_learn(live* l, uint32_t symbol) {
  l->symbols[l->known] = symbol;
  l->hashes[l->known + 1] = prefix_step(l->hashes[l->known], symbol);
  ++l->known;
}

int queues_open(server* s) {
  uint32_t n = s->work->count;
  s->slots = claim_memory(s->max_live, sizeof *s->slots, "running requests");
  s->running = claim_memory(s->max_live, sizeof *s->running, "running requests");
  s->waiting = claim_memory(s->max_live, sizeof *s->waiting, "waiting requests");
  s->ready = claim_memory(n, sizeof *s->ready, "ready requests");
  s->samples_left = claim_memory(n, sizeof *s->samples_left, "requests");
  s->dependents = claim_memory(n, sizeof *s->dependents, "requests");
  if (s->slots == NULL || s->running == NULL || s->waiting == NULL || s->ready == NULL)
    return ENGINE_FAILED;
  if (s->samples_left == NULL || s->dependents == NULL) return ENGINE_FAILED;
  for (uint32_t i = 0; i < s->max_live; ++i) {
    s->slots[i].symbols =
        claim_memory((uint64_t)s->geo->max_len + 2, sizeof *s->slots[i].symbols, "symbols");
    s->slots[i].hashes =
        claim_memory((uint64_t)s->geo->max_len + 3, sizeof *s->slots[i].hashes, "prefix hashes");
    if (s->slots[i].symbols == NULL || s->slots[i].hashes == NULL) return ENGINE_FAILED;
  }
  for (uint32_t i = 0; i < n; ++i) s->dependents[i] = NO_REQUEST;
  for (uint32_t i = 0; i < n && s->stream == NULL; ++i) {
    uint32_t after = s->work->requests[i].after;
    if (after == NO_REQUEST) queues_add(s, i);
    if (after != NO_REQUEST) s->dependents[after] = i;
  }
  return ENGINE_OK;
}

void queues_add(server* s, uint32_t request) {
  s->samples_left[request] = s->work->requests[request].samples;
  s->ready[s->ready_end++ % s->work->count] = request;
}

void queues_close(server* s) {
  for (uint32_t i = 0; i < s->max_live && s->slots != NULL; ++i) {
    free(s->slots[i].symbols);
    free(s->slots[i].hashes);
  }
  free(s->slots);
  free(s->running);
  free(s->waiting);
  free(s->ready);
  free(s->samples_left);
  free(s->dependents);
}

static uint32_t free_slots(const server* s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->max_live; ++i) n += s->slots[i].state == LIVE_FREE;
  return n;
}

static uint32_t take_slot(server* s, uint32_t request, uint32_t sample, enum live_state state) {
  uint32_t slot = 0;
  while (s->slots[slot].state != LIVE_FREE) ++slot;
  live* l = &s->slots[slot];
  const work_request* r = &s->work->requests[request];
  uint32_t* symbols = l->symbols;
  uint64_t* hashes = l->hashes;
  uint32_t epoch = l->epoch;
  memset(l, 0, sizeof *l);
  l->state = state;
  l->request = request;
  l->sample = sample;
  l->partner = NO_REQUEST;
  l->epoch = epoch;
  l->prompt_len = r->prompt_len;
  l->end = r->prompt_len + r->output_len;
  l->bound = l->end + (r->surprise ? 8 : 0);
  if (l->bound > s->geo->max_len) l->bound = l->end;
  l->symbols = symbols;
  l->hashes = hashes;
  return slot;
}

static void begin_request(server* s, uint32_t request) {
  const work_request* r = &s->work->requests[request];
  uint32_t slot = take_slot(s, request, 0, LIVE_WAITING);
  live* l = &s->slots[slot];
  workload_prompt(s->work, request, l->symbols);
  l->hashes[0] = prefix_root(r->salt);
  for (uint32_t p = 0; p < r->prompt_len; ++p) live_learn(l, l->symbols[p]);
  if (r->samples > 1) l->partner = take_slot(s, request, 1, LIVE_UNBORN);
  s->waiting[s->num_waiting++] = slot;
}

void queues_refill(server* s) {
  while (s->num_waiting < s->options->batch && s->ready_begin != s->ready_end &&
         free_slots(s) >= 2) {
    begin_request(s, s->ready[s->ready_begin++ % s->work->count]);
  }
}

static void drop(uint32_t* list, uint32_t* count, uint32_t slot) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < *count; ++i) {
    if (list[i] != slot) list[kept++] = list[i];
  }
  *count = kept;
}

/* Waiting or unborn -> running, as the newest. */
static void start(server* s, uint32_t slot) {
  live* l = &s->slots[slot];
  drop(s->waiting, &s->num_waiting, slot);
  l->state = LIVE_RUNNING;
  l->admission = ++s->admissions;
  l->hand_overs = s->stats.hand_overs;
  s->running[s->num_running++] = slot;
  if (s->num_running > s->counts.most_running) s->counts.most_running = s->num_running;
}

uint32_t queues_next(const server* s) {
  uint64_t room = s->options->batch > s->num_running ? s->options->batch - s->num_running : 0;
  return room < s->num_waiting ? (uint32_t)room : s->num_waiting;
}

void queues_admit(server* s, uint32_t slot, uint32_t hit, uint32_t fetched) {
  live* l = &s->slots[slot];
  start(s, slot);
  l->hit = hit;
  l->prefill_end = l->known;
  l->tags &= ~(ROW_AFTER_HIT | ROW_AFTER_FETCH);
  if (hit > fetched) l->tags |= ROW_AFTER_HIT;
  if (fetched != 0) l->tags |= ROW_AFTER_FETCH;
  if (l->admitted_before) {
    l->tags |= ROW_AFTER_PREEMPTION;
    s->counts.resumed_tokens += l->known;
    s->counts.resumed_hit_tokens += hit;
    s->counts.resumed_fetched_tokens += fetched;
  } else {
    s->counts.prompt_tokens += l->known;
    s->counts.hit_tokens += hit;
    s->counts.fetched_tokens += fetched;
    if (s->stream != NULL) {
      stream_outcome* out = &s->stream->outcomes[l->request];
      out->prompt_tokens = l->known;
      out->hit_tokens = hit;
      out->fetched_tokens = fetched;
    }
  }
  l->admitted_before = 1;
}

int queues_preempt(server* s, uint32_t slot) {
  quire_error err = {.struct_size = sizeof err};
  live* l = &s->slots[slot];
  if (quire_sequence_preempt(s->rig->cache, l->id, &err) != QUIRE_OK)
    return complain_quire("preempt", &err);
  drop(s->running, &s->num_running, slot);
  ++l->epoch;
  l->state = LIVE_WAITING;
  l->given = 0;
  l->reserved = 0;
  l->fetch = FETCH_NONE;
  l->ask_again = 0;
  l->refusals = 0;
  memmove(s->waiting + 1, s->waiting, s->num_waiting * sizeof *s->waiting);
  s->waiting[0] = slot;
  ++s->num_waiting;
  ++s->counts.preemptions;
  return ENGINE_OK;
}

int queues_finish(server* s, uint32_t slot) {
  quire_error err = {.struct_size = sizeof err};
  live* l = &s->slots[slot];
  if (quire_sequence_finish(s->rig->cache, l->id, &err) != QUIRE_OK)
    return complain_quire("finish", &err);
  drop(s->running, &s->num_running, slot);
  ++l->epoch;
  l->state = LIVE_FREE;
  ++s->counts.samples;
  if (s->stream != NULL && l->sample == 0) {
    const work_request* r = &s->work->requests[l->request];
    memcpy(s->stream->outcomes[l->request].answer, l->symbols + r->prompt_len,
           r->output_len * sizeof *l->symbols);
  }
  if (--s->samples_left[l->request] != 0) return ENGINE_OK;
  ++s->done_requests;
  ++s->counts.requests;
  if (s->stream != NULL) stream_finish(s->stream, l->request);
  if (s->dependents[l->request] != NO_REQUEST) queues_add(s, s->dependents[l->request]);
  return ENGINE_OK;
}

int queues_fork(server* s, uint32_t slot) {
  quire_error err = {.struct_size = sizeof err};
  quire_sequence_info info = {.struct_size = sizeof info};
  live* parent = &s->slots[slot];
  live* child = &s->slots[parent->partner];
  if (quire_sequence_fork(s->rig->cache, parent->id, &child->id, &err) != QUIRE_OK)
    return complain_quire("fork", &err);
  if (quire_sequence_get_info(s->rig->cache, child->id, &info, &err) != QUIRE_OK)
    return complain_quire("fork", &err);
  uint32_t shared =
      (uint32_t)info.committed; /* the prompt: the first sampled symbols already differ */
  if (shared != parent->prompt_len || info.known != shared) {
    return complain(
        "fork: the child has %u committed tokens and %llu known symbols, the prompt has %u", shared,
        (unsigned long long)info.known, parent->prompt_len);
  }
  memcpy(child->symbols, parent->symbols, shared * sizeof *child->symbols);
  memcpy(child->hashes, parent->hashes, ((uint64_t)shared + 1) * sizeof *child->hashes);
  child->known = child->given = child->reserved = shared;
  child->prefill_end = shared;
  child->tags = ROW_AFTER_FORK;
  child->admitted_before = 1;
  start(s, parent->partner);
  parent->partner = NO_REQUEST;
  live_learn(child, next_symbol(child->hashes[shared], child->sample));
  ++s->counts.generated_tokens;
  ++s->counts.forks;
  return ENGINE_OK;
}
