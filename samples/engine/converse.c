/* converse.c: the built-in workload. Conversations grow turn by turn; what a later turn sends is
 * what the engine really answered, because the answer is a function of the prefix. The template
 * ends a prompt with symbols that the history does not show again in some conversations (drift at
 * the tail), users edit earlier messages, system prompts are shared, and two salts keep tenants
 * apart.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"
#include "workload.h"

enum { ROLE_SYSTEM = 1, ROLE_USER, ROLE_ASSISTANT, ROLE_END, ROLE_THINK, SYSTEM_PROMPTS = 3 };

typedef struct conversation {
  uint64_t seed;
  uint32_t salt;
  uint32_t drifts; /* the tail of the template is not repeated in the history */
  uint32_t last; /* request of the previous turn; at first that of the conversation whose place this
                    one takes */
  uint32_t turn;
  uint32_t len;         /* symbols of the history */
  uint32_t before_user; /* history before the last user message: an edit goes back to here */
  uint32_t closed;      /* no room for another turn */
  uint32_t* history;    /* [max_len] */
} conversation;

static uint32_t draw(uint64_t seed, uint32_t low, uint32_t high) {
  return low + (uint32_t)(mix64(seed) % (high - low + 1));
}

static uint32_t put_message(uint32_t* out, uint32_t role, uint64_t seed, uint32_t n) {
  out[0] = role;
  for (uint32_t i = 0; i < n; ++i) out[1 + i] = (uint32_t)(mix64(seed + 31 + i) % VOCABULARY);
  out[n + 1] = ROLE_END;
  return n + 2;
}

/* Appends what the engine will answer after `prompt`, as the history shows it. */
static void put_reply(conversation* c, uint32_t salt, const uint32_t* prompt, uint32_t prompt_len,
                      uint32_t reply_len) {
  uint64_t h = prefix_root(salt);
  for (uint32_t p = 0; p < prompt_len; ++p) h = prefix_step(h, prompt[p]);
  c->history[c->len++] = ROLE_ASSISTANT;
  if (!c->drifts) c->history[c->len++] = ROLE_THINK;
  for (uint32_t i = 0; i < reply_len; ++i) {
    uint32_t symbol = next_symbol(h, 0);
    h = prefix_step(h, symbol);
    c->history[c->len++] = symbol;
  }
  c->history[c->len++] = ROLE_END;
}

static int put_turn(workload* work, conversation* c, uint64_t seed) {
  uint32_t user = draw(seed + 1, 16, 96);
  uint32_t reply = draw(seed + 2, 16, 64);
  if (mix64(seed + 3) % 8 == 0 && c->before_user != 0)
    c->len = c->before_user; /* the user edits the last message */
  if (c->len + user + reply + 8 > work->max_len) {
    c->closed = 1;
    return ENGINE_OK;
  }
  c->before_user = c->len;
  c->len += put_message(c->history + c->len, ROLE_USER, mix64(seed + 4), user);
  work_request r = {.salt = c->salt, .output_len = reply, .after = c->last, .turn = c->turn++};
  r.prompt_len = c->len + 2;
  r.samples = mix64(seed + 5) % 6 == 0 ? 2 : 1;
  r.surprise = (uint32_t)(mix64(seed + 6) & 1u);
  r.symbols = claim_memory(r.prompt_len, sizeof *r.symbols, "a prompt");
  if (r.symbols == NULL) return ENGINE_FAILED;
  memcpy(r.symbols, c->history, c->len * sizeof *r.symbols);
  r.symbols[c->len] = ROLE_ASSISTANT;
  r.symbols[c->len + 1] = ROLE_THINK;
  int rc = workload_add(work, &r);
  if (rc != ENGINE_OK) {
    free(r.symbols);
    return rc;
  }
  c->last = work->count - 1;
  put_reply(c, c->salt, r.symbols, r.prompt_len, reply);
  return ENGINE_OK;
}

static int open_conversation(workload* work, conversation* c, uint64_t seed, uint32_t index) {
  uint32_t system = index % SYSTEM_PROMPTS;
  uint32_t len = draw(seed + 100 + system, 200, 520);
  if (len + 2 > work->max_len / 2) len = work->max_len / 2 - 2;
  c->seed = mix64(seed + 1000 + index);
  c->salt = index / SYSTEM_PROMPTS % 2;
  c->drifts = index % 3 == 1;
  c->history = claim_memory(work->max_len, sizeof *c->history, "a conversation");
  if (c->history == NULL) return ENGINE_FAILED;
  c->len = put_message(c->history, ROLE_SYSTEM, mix64(seed + 200 + system), len);
  return ENGINE_OK;
}

/* The conversations [first, first + n) are open together; each takes the place of one that ended,
 * *places. */
static int converse_together(workload* work, const engine_options* options, uint32_t first,
                             uint32_t n, uint32_t* places) {
  uint64_t seed = mix64(options->seed);
  conversation* all = claim_memory(n, sizeof *all, "conversations");
  int rc = all == NULL ? ENGINE_FAILED : ENGINE_OK;
  for (uint32_t i = 0; i < n && rc == ENGINE_OK; ++i) {
    rc = open_conversation(work, &all[i], seed, first + i);
    all[i].last = places[i];
  }
  for (uint32_t turn = 0; turn < options->turns && rc == ENGINE_OK; ++turn) {
    for (uint32_t i = 0; i < n && rc == ENGINE_OK; ++i) {
      if (options->requests != 0 && work->count >= options->requests) break;
      if (!all[i].closed) rc = put_turn(work, &all[i], mix64(all[i].seed + turn));
    }
  }
  for (uint32_t i = 0; i < n && all != NULL; ++i) {
    places[i] = all[i].last;
    free(all[i].history);
  }
  free(all);
  return rc;
}

int workload_converse(workload* work, const engine_options* options) {
  uint32_t count = (uint32_t)options->conversations;
  uint32_t together = options->open < count ? (uint32_t)options->open : count;
  uint32_t* places = claim_memory(together, sizeof *places, "conversations");
  int rc = places == NULL ? ENGINE_FAILED : ENGINE_OK;
  for (uint32_t i = 0; i < together && places != NULL; ++i) places[i] = NO_REQUEST;
  for (uint32_t first = 0; first < count && rc == ENGINE_OK; first += together) {
    rc = converse_together(work, options, first,
                           count - first < together ? count - first : together, places);
  }
  free(places);
  if (rc != ENGINE_OK || work->count != 0) return rc;
  (void)complain("no conversation fits %u tokens (--context)", work->max_len);
  return ENGINE_USAGE;
}
