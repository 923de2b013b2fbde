#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_text.h"
#include "line.h"
#include "server.h"

enum { MOST_OPEN = 256, READ_BYTES = 1 << 16, MOST_LINE_BYTES = 1 << 28 };
#define MOST_ID ((uint64_t)1 << 60)

/* Writing ------------------------------------------------------------------------------------ */

static void print_symbols(const char* name, const uint32_t* symbols, uint32_t n) {
  (void)printf("\"%s\": [", name);
  for (uint32_t i = 0; i < n; ++i) (void)printf(i == 0 ? "%u" : ", %u", symbols[i]);
  (void)printf("]");
}

int stream_list(const workload* work) {
  uint32_t* prompt = claim_memory(work->max_len, sizeof *prompt, "a prompt");
  if (prompt == NULL) return ENGINE_FAILED;
  for (uint32_t i = 0; i < work->count; ++i) {
    const work_request* r = &work->requests[i];
    workload_prompt(work, i, prompt);
    (void)printf("{\"id\": %u, ", i);
    if (r->after != NO_REQUEST) (void)printf("\"after\": %u, ", r->after);
    (void)printf("\"tenant\": %u, \"samples\": %u, \"output_length\": %u, ", r->salt, r->samples,
                 r->output_len);
    print_symbols("prompt", prompt, r->prompt_len);
    (void)printf("}\n");
  }
  free(prompt);
  return ENGINE_OK;
}

int stream_greet(const server* s) {
  const rig* r = s->rig;
  (void)printf(
      "{\"ready\": true, \"max_tokens\": %u, \"salts\": [\"%s\", \"%s\"], "
      "\"hash_seed\": \"%" PRIu64 "\", \"match_unit_tokens\": %u, \"groups\": [",
      s->work->max_len, tenant_salt(0), tenant_salt(1), s->options->seed,
      r->info.match_unit_tokens);
  for (uint32_t g = 0; g < r->info.num_groups; ++g) {
    const quire_group_info* group = &r->groups[g];
    (void)printf("%s{\"block_tokens\": %u, \"is_state\": %s, \"window\": %" PRIu64
                 ", \"chunk\": %" PRIu64 ", \"sink_tokens\": %" PRIu64 "}",
                 g == 0 ? "" : ", ", group->block_tokens, group->is_state ? "true" : "false",
                 group->window, group->chunk, group->sink_tokens);
  }
  (void)printf("]}\n");
  return fflush(stdout) == 0 ? ENGINE_OK : complain("cannot write to standard output");
}

/* Reading ------------------------------------------------------------------------------------ */

int stream_open(stream* st, workload* work) {
  memset(st, 0, sizeof *st);
  st->work = work;
  st->outcomes = claim_memory(MOST_OPEN, sizeof *st->outcomes, "open requests");
  st->is_open = claim_memory(MOST_OPEN, sizeof *st->is_open, "open requests");
  st->finished = claim_memory(MOST_OPEN, sizeof *st->finished, "open requests");
  st->text_capacity = READ_BYTES;
  st->text = claim_memory(st->text_capacity, 1, "lines of requests");
  if (st->outcomes == NULL || st->is_open == NULL || st->finished == NULL || st->text == NULL)
    return ENGINE_FAILED;
  const work_request none = {.after = NO_REQUEST};
  int rc = ENGINE_OK;
  while (rc == ENGINE_OK && work->count < MOST_OPEN) rc = workload_add(work, &none);
  return rc;
}

void stream_close(stream* st) {
  for (uint32_t i = 0; st->outcomes != NULL && i < st->work->count; ++i)
    free(st->outcomes[i].answer);
  free(st->outcomes);
  free(st->is_open);
  free(st->finished);
  free(st->text);
  memset(st, 0, sizeof *st);
}

int stream_is_busy(const stream* st) {
  return !st->has_ended || st->num_open != 0 || st->text_bytes != 0;
}

/* Returns NULL, or what is wrong with the line. */
static const char* parse_request(const stream* st, line_cursor line, uint64_t* id,
                                 work_request* r) {
  uint64_t tenant = 0;
  uint64_t samples = 1;
  uint64_t output = 0;
  line_cursor c = line;
  if (!line_field(line, "id", MOST_ID, id)) return "id is missing or not in 0 .. 2^60";
  if (!line_field(line, "output_length", st->work->max_len, &output) || output == 0)
    return "output_length is missing or not in 1 .. the longest sequence";
  if (line_seek(&c, "tenant") && !line_field(line, "tenant", 1, &tenant))
    return "tenant is not 0 or 1";
  c = line;
  if (line_seek(&c, "samples") && (!line_field(line, "samples", 2, &samples) || samples == 0))
    return "samples is not 1 or 2";
  if (!line_seek(&line, "prompt")) return "prompt is missing";
  uint64_t n = line_elements(line);
  if (n == 0 || n + output > st->work->max_len)
    return "prompt is empty, or does not fit with output_length in the longest sequence";
  uint64_t* numbers = claim_memory(n, sizeof *numbers, "a prompt");
  r->symbols = claim_memory(n, sizeof *r->symbols, "a prompt");
  int is_good = numbers != NULL && r->symbols != NULL && line_array(&line, INT32_MAX, numbers, n);
  for (uint64_t i = 0; is_good && i < n; ++i) r->symbols[i] = (uint32_t)numbers[i];
  free(numbers);
  if (!is_good) return "prompt is not an array of numbers below 2^31";
  r->salt = (uint32_t)tenant;
  r->samples = (uint32_t)samples;
  r->output_len = (uint32_t)output;
  r->prompt_len = (uint32_t)n;
  return NULL;
}

static int take_request(stream* st, server* s, const char* text, uint64_t bytes) {
  work_request r = {.after = NO_REQUEST};
  uint64_t id = 0;
  ++st->lines;
  if (bytes == 0) return ENGINE_OK;
  const char* wrong = parse_request(st, (line_cursor){text, text + bytes}, &id, &r);
  uint32_t* answer = wrong == NULL ? claim_memory(r.output_len, sizeof *answer, "an answer") : NULL;
  if (answer == NULL) {
    free(r.symbols);
    if (wrong == NULL) return ENGINE_FAILED;
    (void)complain("standard input, line %" PRIu64 ": %s (%u tokens)", st->lines, wrong,
                   st->work->max_len);
    return ENGINE_USAGE;
  }
  while (st->is_open[st->next_slot]) st->next_slot = (st->next_slot + 1) % st->work->count;
  uint32_t slot = st->next_slot;
  st->next_slot = (slot + 1) % st->work->count;
  st->is_open[slot] = 1;
  ++st->num_open;
  st->outcomes[slot] = (stream_outcome){.id = id, .answer = answer};
  st->work->requests[slot] = r;
  queues_add(s, slot);
  return ENGINE_OK;
}

/* Requests from the lines that are complete, as long as there are slots. */
static int take_lines(stream* st, server* s) {
  uint64_t begin = 0;
  int rc = ENGINE_OK;
  while (rc == ENGINE_OK && st->num_open < st->work->count) {
    const char* at = st->text + begin;
    const char* end = memchr(at, '\n', st->text_bytes - begin);
    if (end == NULL && !(st->has_ended && begin < st->text_bytes)) break;
    uint64_t bytes = end != NULL ? (uint64_t)(end - at) : st->text_bytes - begin;
    rc = take_request(st, s, at, bytes);
    begin += bytes + (end != NULL);
  }
  st->text_bytes -= begin;
  memmove(st->text, st->text + begin, st->text_bytes);
  return rc;
}

static int make_room(stream* st) {
  if (st->text_capacity - st->text_bytes >= READ_BYTES) return ENGINE_OK;
  if (st->text_capacity >= MOST_LINE_BYTES)
    return complain("standard input, line %" PRIu64 " is longer than %d bytes", st->lines + 1,
                    MOST_LINE_BYTES);
  char* grown = realloc(st->text, 2 * st->text_capacity);
  if (grown == NULL) return complain("no memory for lines of requests");
  st->text = grown;
  st->text_capacity *= 2;
  return ENGINE_OK;
}

int stream_read(stream* st, server* s, int timeout_ms) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  int rc = take_lines(st, s);
  /* Where all slots are taken the client waits: nothing more is read. */
  while (rc == ENGINE_OK && !st->has_ended && st->num_open < st->work->count) {
    int n = poll(&input, 1, st->num_open == 0 ? timeout_ms : 0);
    if (n == 0 || (n < 0 && errno == EINTR)) break;
    if (n < 0) return complain("cannot wait for standard input: %s", strerror(errno));
    rc = make_room(st);
    if (rc != ENGINE_OK) break;
    ssize_t got = read(STDIN_FILENO, st->text + st->text_bytes, READ_BYTES);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return complain("cannot read standard input: %s", strerror(errno));
    st->has_ended = got == 0;
    st->text_bytes += (uint64_t)got;
    rc = take_lines(st, s);
  }
  return rc;
}

/* Answering ---------------------------------------------------------------------------------- */

void stream_finish(stream* st, uint32_t request) { st->finished[st->num_finished++] = request; }

/* Bytes that all tiers wrote and read until now. */
static int tier_bytes(const tier_rack* rack, uint64_t* stored, uint64_t* loaded) {
  quire_error err = {.struct_size = sizeof err};
  for (uint32_t i = 0; i < rack->count; ++i) {
    quire_tier_stats stats = {.struct_size = sizeof stats};
    if (quire_tiers_get_tier_stats(rack->tiers, i, &stats, &err) != QUIRE_OK)
      return complain_quire("tier", &err);
    *stored += stats.bytes_stored;
    *loaded += stats.bytes_loaded;
  }
  return ENGINE_OK;
}

static int answer_one(stream* st, server* s, uint32_t slot, uint64_t batches, verdict* all) {
  stream_outcome* out = &st->outcomes[slot];
  const work_request* r = &st->work->requests[slot];
  uint64_t stored = 0;
  uint64_t loaded = 0;
  verdict v;
  memset(&v, 0, sizeof v);
  int rc = tier_bytes(&s->rig->rack, &stored, &loaded);
  if (rc == ENGINE_OK && s->sampler != NULL) {
    sampler rows;
    rc = sampler_split(s->sampler, slot, &rows);
    if (rc == ENGINE_OK) rc = oracle_verify(&v, &rows, s->geo, st->work, 1);
    sampler_close(&rows);
    oracle_merge(all, &v);
  }
  if (rc != ENGINE_OK) return rc;
  (void)printf("{\"id\": %" PRIu64 ", \"prompt_tokens\": %" PRIu64 ", \"hit_tokens\": %" PRIu64
               ", \"fetched_tokens\": %" PRIu64 ", \"computed_tokens\": %" PRIu64
               ", \"verified_rows\": %" PRIu64 ", \"mismatches\": %" PRIu64
               ", \"event_batches\": %" PRIu64 ", \"bytes_stored\": %" PRIu64
               ", \"bytes_loaded\": %" PRIu64 ", ",
               out->id, out->prompt_tokens, out->hit_tokens, out->fetched_tokens,
               out->computed_tokens, v.rows, v.mismatches, batches, stored, loaded);
  print_symbols("answer", out->answer, r->output_len);
  (void)printf("}\n");
  free(out->answer);
  *out = (stream_outcome){0};
  free(st->work->requests[slot].symbols);
  st->work->requests[slot] = (work_request){.after = NO_REQUEST};
  st->is_open[slot] = 0;
  --st->num_open;
  return ENGINE_OK;
}

int stream_answer(stream* st, server* s, uint64_t batches, verdict* all) {
  int rc = ENGINE_OK;
  if (st->num_finished == 0) return ENGINE_OK;
  for (uint32_t i = 0; i < st->num_finished && rc == ENGINE_OK; ++i)
    rc = answer_one(st, s, st->finished[i], batches, all);
  st->num_finished = 0;
  if (rc == ENGINE_OK && fflush(stdout) != 0) rc = complain("cannot write to standard output");
  return rc;
}
