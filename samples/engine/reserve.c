/* reserve.c: builds one reserve call and takes its answers: running requests first, oldest first,
 * then those that wait. */
#include <string.h>

#include "engine_text.h"
#include "server.h"

enum { COOLDOWN_STEPS = 4 };

static quire_identity identity_of(const server* s, const live* l) {
  quire_identity identity = {.struct_size = sizeof identity};
  if (s->options->fault == FAULT_OTHER_PREFIX) return identity;
  const char* salt = tenant_salt(s->work->requests[l->request].salt);
  identity.salt = (quire_str){salt, strlen(salt)};
  return identity;
}

/* Symbols from `given` to `end` are appended to those already in the call. */
static quire_reserve_entry* add_entry(server* s, uint32_t slot, uint32_t tokens, uint32_t end) {
  const live* l = &s->slots[slot];
  quire_reserve_entry* e = &s->entries[s->num_entries];
  memset(e, 0, sizeof *e);
  e->sequence = l->id;
  e->symbols_position = l->given;
  e->symbols_offset = s->num_symbols;
  e->num_symbols = end > l->given ? end - l->given : 0;
  e->num_tokens = tokens;
  for (uint32_t p = l->given; p < end; ++p) s->symbols[s->num_symbols++] = fault_symbol(s, l, p);
  s->entry_slot[s->num_entries++] = slot;
  return e;
}

static uint32_t plan_running(server* s, uint32_t budget) {
  for (uint32_t i = 0; i < s->num_running && budget != 0; ++i) {
    const live* l = &s->slots[s->running[i]];
    uint32_t tokens = l->known > l->reserved
                          ? l->known - l->reserved
                          : 1; /* 1: its symbol comes with the commit of the step in flight */
    if (l->known <= l->reserved && l->reserved + 1 >= l->bound)
      continue; /* its last result is in flight */
    if (tokens > budget) tokens = budget;
    uint32_t end = l->reserved + tokens < l->known ? l->reserved + tokens : l->known;
    if (s->num_symbols + (end > l->given ? end - l->given : 0) > s->max_symbols) break;
    quire_reserve_entry* e = add_entry(s, s->running[i], tokens, end);
    if (l->reserved < l->prefill_end && l->reserved + tokens >= l->prefill_end)
      e->flags |= QUIRE_ENTRY_PROMPT_END;
    budget -= tokens;
  }
  return budget;
}

int server_open_sequence(server* s, live* l) {
  quire_error err = {.struct_size = sizeof err};
  quire_identity identity = identity_of(s, l);
  if (l->id == 0 && quire_sequence_create(s->rig->cache, &identity, &l->id, &err) != QUIRE_OK)
    return complain_quire("sequence", &err);
  return ENGINE_OK;
}

static int plan_admission(server* s, uint32_t slot, uint32_t* budget) {
  live* l = &s->slots[slot];
  quire_error err = {.struct_size = sizeof err};
  quire_identity identity = identity_of(s, l);
  quire_probe_result found = {.struct_size = sizeof found};
  int rc = server_open_sequence(s, l);
  if (rc != ENGINE_OK) return rc;
  quire_reserve_entry* e = add_entry(s, slot, 0, l->known);
  if (quire_probe(s->rig->cache, &identity, s->symbols + e->symbols_offset, e->num_symbols, &found,
                  &err) != QUIRE_OK) {
    return complain_quire("probe", &err);
  }
  uint32_t rest = l->known - (uint32_t)found.hit_tokens;
  e->num_tokens = rest < *budget ? rest : *budget;
  e->flags = QUIRE_ENTRY_MATCH | (e->num_tokens == rest ? QUIRE_ENTRY_PROMPT_END : 0);
  *budget -= e->num_tokens;
  return ENGINE_OK;
}

static int plan_waiting(server* s, uint32_t budget) {
  queues_refill(s);
  for (uint32_t i = 0; i < queues_next(s) && budget != 0; ++i) {
    const live* l = &s->slots[s->waiting[i]];
    if (s->num_symbols + l->known > s->max_symbols) break;
    if (s->rig->rack.tiers != NULL && l->fetch != FETCH_ENDED) continue;
    int rc = plan_admission(s, s->waiting[i], &budget);
    if (rc != ENGINE_OK) return rc;
  }
  return ENGINE_OK;
}

/* Asks how many symbols the cache took. It may keep only those of the chunk; the rest of the prompt
 * is passed again. */
static int ask_given(server* s, live* l) {
  quire_error err = {.struct_size = sizeof err};
  quire_sequence_info info = {.struct_size = sizeof info};
  if (quire_sequence_get_info(s->rig->cache, l->id, &info, &err) != QUIRE_OK)
    return complain_quire("sequence info", &err);
  l->given = (uint32_t)info.known;
  return ENGINE_OK;
}

/* Answers of one call; *refused counts running requests without room. */
static int take_answers(server* s, step_record* record, uint32_t* refused) {
  for (uint32_t i = 0; i < s->num_entries; ++i) {
    const quire_reserve_result* r = &s->results[i];
    live* l = &s->slots[s->entry_slot[i]];
    if (r->code == QUIRE_RESOURCE_EXHAUSTED) {
      ++s->counts.refusals;
      *refused += l->state == LIVE_RUNNING;
      continue;
    }
    if (r->code != QUIRE_OK) {
      quire_str name = quire_code_name(r->code);
      return complain("reserve: request %u: %.*s", l->request, (int)name.len, name.data);
    }
    if (r->row >= s->max_live || r->position + r->num_tokens > s->geo->max_len) {
      return complain("reserve: request %u: row %u or position %llu + %u is out of range",
                      l->request, r->row, (unsigned long long)r->position, r->num_tokens);
    }
    if (l->state == LIVE_WAITING) queues_admit(s, s->entry_slot[i], r->hit_tokens, 0);
    l->reserved = (uint32_t)r->position + r->num_tokens;
    if (s->entries[i].num_symbols != 0 && ask_given(s, l) != ENGINE_OK) return ENGINE_FAILED;
    s->counts.chunk_stops += (r->flags & QUIRE_RESULT_CHUNK_STOP) != 0;
    record->rows[r->row] =
        (step_row){l->id, s->entry_slot[i], l->epoch, (uint32_t)r->position, r->num_tokens};
    record->num_tokens += r->num_tokens;
    ++record->num_rows;
  }
  return ENGINE_OK;
}

static int does_not_fit(const server* s, uint32_t slot) {
  const live* l = &s->slots[slot];
  return complain(
      "request %u: %u tokens do not fit in the pool of %llu pages alone; raise --pool or lower "
      "--context",
      l->request, l->known, (unsigned long long)s->rig->info.num_pages);
}

int server_reserve(server* s, step_record* record, int in_flight) {
  quire_error err = {.struct_size = sizeof err};
  uint32_t refused = 0;
  record->step = (quire_step){0};
  record->num_rows = record->num_tokens = 0;
  s->num_entries = 0;
  s->num_symbols = 0;
  uint32_t budget = plan_running(s, (uint32_t)s->options->budget);
  int rc = s->cooldown == 0 || s->num_running == 0 ? plan_waiting(s, budget) : ENGINE_OK;
  if (s->cooldown != 0) --s->cooldown;
  if (rc != ENGINE_OK || s->num_entries == 0) return rc;
  if (quire_reserve(s->rig->cache, s->entries, s->num_entries, s->symbols, s->num_symbols,
                    s->results, &record->step, &err) != QUIRE_OK) {
    return complain_quire("reserve", &err);
  }
  if (quire_cache_get_stats(s->rig->cache, &s->stats, &err) != QUIRE_OK)
    return complain_quire("stats", &err);
  rc = take_answers(s, record, &refused);
  if (rc != ENGINE_OK) return rc;
  if (record->step.id == 0 && !in_flight) {
    if (s->num_running <= 1 && refused == s->num_running && !server_tiers_are_busy(s))
      return does_not_fit(s, s->entry_slot[0]);
  }
  if (refused !=
      0) { /* the youngest makes room; its blocks come free when the steps in flight are done */
    s->cooldown = COOLDOWN_STEPS;
    rc = queues_preempt(s, s->running[s->num_running - 1]);
  }
  if (rc == ENGINE_OK && record->step.id != 0) rc = batch_fill(&record->batch, record->step);
  return rc;
}
