/* router_main.c: sends each prompt to a worker that computes it, and then with what that one offers
 * to a worker that decodes. A worker that died or is late costs its requests a second try. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "engine_text.h"
#include "wire.h"
#include "workload.h"

enum { MOST_WORKERS = 64, TICK_MS = 20, OFFER_BYTES = 384 };
enum stage { WAITING, PREFILLING, OFFERED, DECODING, ANSWERED };

typedef struct worker {
  wire wire;
  int is_decode;
  uint64_t slots; /* 0 = it has not greeted yet */
  uint64_t open;  /* requests that it has */
  int is_late;    /* it gets no more until it says something */
} worker;

typedef struct request {
  enum stage stage;
  uint64_t id; /* of this try */
  worker* at;
  double since;
  char offer[OFFER_BYTES]; /* "ADDRESS HANDLE END" */
} request;

static worker workers[MOST_WORKERS];
static request* requests;
static workload work;
static uint64_t tries, again, died, answered, multiple = 1, unit;
static uint64_t from_peers, recomputed, rows, mismatches;
static double patience = 3;

static request* find(const worker* w, uint64_t id) {
  for (uint32_t i = 0; i < work.count; ++i)
    if (requests[i].at == w && requests[i].id == id) return &requests[i];
  return NULL; /* an earlier try: it came too late */
}

static void move(request* r, enum stage stage) {
  r->stage = stage;
  r->at = NULL;
}

static void lose(worker* w) {
  for (uint32_t i = 0; i < work.count; ++i) {
    if (requests[i].at != w) continue;
    move(&requests[i], WAITING);
    ++again;
  }
  died += w->slots != 0;
  wire_close(&w->wire);
  w->slots = w->open = 0;
  w->is_late = 0;
}

static int greeted(worker* w, char* line) {
  w->is_decode = strcmp(wire_word(&line), "decode") == 0;
  w->slots = wire_number(&line);
  uint64_t other = wire_number(&line), x = multiple, y = other;
  for (uint64_t rest; y != 0; x = y, y = rest) rest = x % y;
  uint64_t units = wire_number(&line);
  if (w->slots == 0 || other == 0) return complain("a worker greets wrongly");
  if (unit != 0 && unit != units)
    return complain("workers have units of %" PRIu64 " and %" PRIu64
                    " tokens: give all the same --unit",
                    unit, units);
  multiple = multiple / x * other;
  unit = units;
  return ENGINE_OK;
}

static int take(worker* w, char* line) {
  const char* verb = wire_word(&line);
  if (strcmp(verb, "hello") == 0) return greeted(w, line);
  request* r = find(w, wire_number(&line));
  w->is_late = 0;
  --w->open;
  if (strcmp(verb, "offered") == 0) {
    if (r == NULL) return ENGINE_OK;
    (void)snprintf(r->offer, sizeof r->offer, "%s", line);
    move(r, OFFERED);
    return ENGINE_OK;
  }
  from_peers += wire_number(&line);
  recomputed += wire_number(&line);
  rows += wire_number(&line);
  mismatches += wire_number(&line);
  if (r == NULL) return ENGINE_OK;
  move(r, ANSWERED);
  if (++answered % 10 == 0) (void)printf("answered %" PRIu64 " of %u\n", answered, work.count);
  return ENGINE_OK;
}

static worker* choose(int is_decode) {
  worker* best = NULL;
  for (worker* w = workers; w < workers + MOST_WORKERS; ++w)
    if (w->is_decode == is_decode && !w->is_late && w->open < w->slots &&
        (best == NULL || w->open < best->open))
      best = w;
  return best;
}

static int is_up(int is_decode) { /* how many may answer */
  int n = 0;
  for (const worker* w = workers; w < workers + MOST_WORKERS; ++w)
    n += w->slots != 0 && w->is_decode == is_decode && !w->is_late;
  return n;
}

/* "prefill ID TENANT END N SYMBOLS", or "decode ID TENANT OUTPUT ADDRESS HANDLE END N SYMBOLS". */
static void send_to(worker* w, request* r) {
  const work_request* q = &work.requests[r - requests];
  size_t capacity = OFFER_BYTES + 128 + (size_t)q->prompt_len * 11;
  char* line = claim_memory(capacity, 1, "a line");
  uint64_t end = (q->prompt_len - 1) / multiple * multiple;
  if (line == NULL) return;
  r->id = ++tries;
  r->at = w;
  r->since = seconds_now();
  r->stage = w->is_decode ? DECODING : PREFILLING;
  ++w->open;
  int n = w->is_decode
              ? snprintf(line, capacity, "decode %" PRIu64 " %u %u %s", r->id, q->salt,
                         q->output_len, r->offer)
              : snprintf(line, capacity, "prefill %" PRIu64 " %u %" PRIu64, r->id, q->salt, end);
  n += snprintf(line + n, capacity - (size_t)n, " %u", q->prompt_len);
  for (uint32_t i = 0; i < q->prompt_len; ++i)
    n += snprintf(line + n, capacity - (size_t)n, " %u", q->symbols[i]);
  line[n++] = '\n';
  if (!wire_send(&w->wire, line, (size_t)n)) lose(w);
  free(line);
}

/* Whom nobody can compute for now, the worker that decodes computes itself. */
static void offer_nothing(request* r) {
  uint64_t end = (work.requests[r - requests].prompt_len - 1) / multiple * multiple;
  (void)snprintf(r->offer, sizeof r->offer, "- - %" PRIu64, end);
  move(r, OFFERED);
}

static void advance(request* r) {
  const work_request* q = &work.requests[r - requests];
  if (r->at != NULL && seconds_now() - r->since > patience) { /* it is stopped, or slow */
    r->at->is_late = 1;
    ++again;
    if (r->stage == PREFILLING)
      offer_nothing(r);
    else
      move(r, WAITING);
  }
  if (r->stage == WAITING && (q->after == NO_REQUEST || requests[q->after].stage == ANSWERED)) {
    worker* w = choose(0);
    if (!is_up(0) || q->prompt_len <= multiple)
      offer_nothing(r);
    else if (w != NULL)
      send_to(w, r);
  }
  if (r->stage == OFFERED) {
    worker* w = choose(1);
    if (w != NULL) send_to(w, r);
  }
}

/* Takes what workers say, and new workers. */
static int listen_round(int listener) {
  struct pollfd sockets[MOST_WORKERS + 1];
  int rc = ENGINE_OK;
  for (int i = 0; i < MOST_WORKERS; ++i)
    sockets[i] = (struct pollfd){.fd = workers[i].wire.fd, .events = POLLIN};
  sockets[MOST_WORKERS] = (struct pollfd){.fd = listener, .events = POLLIN};
  if (poll(sockets, MOST_WORKERS + 1, TICK_MS) < 0) return ENGINE_OK;
  for (int i = 0; i < MOST_WORKERS && rc == ENGINE_OK; ++i) {
    worker* w = &workers[i];
    if (w->wire.fd < 0 && (sockets[MOST_WORKERS].revents & POLLIN) != 0) {
      wire_open(&w->wire, accept(listener, NULL, NULL));
      sockets[MOST_WORKERS].revents = 0;
    } else if (sockets[i].revents != 0) {
      int is_there = wire_receive(&w->wire, 0);
      for (char* line = wire_line(&w->wire); line != NULL && rc == ENGINE_OK;
           line = wire_line(&w->wire))
        rc = take(w, line);
      if (!is_there) lose(w);
    }
  }
  return rc;
}

static int run(int listener, int prefill, int decode, double seconds) {
  double begin = seconds_now();
  int is_begun = 0;
  while (answered < work.count) {
    int rc = listen_round(listener);
    if (rc != ENGINE_OK) return rc;
    is_begun |= is_up(0) >= prefill && is_up(1) >= decode;
    for (uint32_t i = 0; i < work.count && is_begun; ++i) advance(&requests[i]);
    if (seconds_now() - begin > seconds) break;
  }
  (void)printf("%" PRIu64 " requests answered, %" PRIu64 " lost, %" PRIu64 " sent again; %" PRIu64
               " workers died\n",
               answered, work.count - answered, again, died);
  (void)printf("%" PRIu64 " tokens came from peers\n", from_peers);
  (void)printf("verified %" PRIu64 " rows, %" PRIu64 " mismatches, %" PRIu64 " recomputed\n", rows,
               mismatches, recomputed);
  if (mismatches != 0) return ENGINE_MISMATCH;
  if (answered < work.count)
    return complain("%" PRIu64 " requests were not answered in time", work.count - answered);
  return from_peers != 0 && rows != 0 ? ENGINE_OK : complain("nothing moved between processes");
}

int main(int argc, char** argv) {
  engine_options options;
  int done = 0;
  unsigned port = 0;
  if (argc < 7 || strcmp(argv[6], "--") != 0) {
    (void)fputs(
        "usage: quire_pd_router HOST:PORT PREFILL DECODE PATIENCE_MS SECONDS -- options of "
        "quire_engine\n",
        stderr);
    return ENGINE_USAGE;
  }
  int rc = options_parse(&options, argc - 6, argv + 6, &done);
  work.max_len = (uint32_t)options.max_len;
  if (rc == ENGINE_OK) rc = workload_converse(&work, &options);
  patience = strtod(argv[4], NULL) / 1000;
  requests = claim_memory(work.count, sizeof *requests, "requests");
  for (int i = 0; i < MOST_WORKERS; ++i) workers[i].wire.fd = -1;
  int listener = rc == ENGINE_OK && requests != NULL ? wire_listen(argv[1], &port) : -1;
  if (listener < 0) return rc != ENGINE_OK ? rc : ENGINE_FAILED;
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  (void)printf("port %u, %u requests\n", port, work.count);
  rc = run(listener, atoi(argv[2]), atoi(argv[3]), strtod(argv[5], NULL));
  for (worker* w = workers; w < workers + MOST_WORKERS; ++w) wire_close(&w->wire); /* they end */
  workload_free(&work);
  free(requests);
  return rc;
}
