/* router_main.c: sends each prompt to a worker that computes it, and then with what that one offers
 * to a worker that decodes. A worker that died or is late costs its requests a second try. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "engine_text.h"
#include "wire.h"
#include "workload.h"

enum { MOST_WORKERS = 64, TICK_MS = 20, OFFER_BYTES = 384 };
enum { FETCHED, RECOMPUTED, ROWS, WRONG, COUNTS };
enum stage { WAITING, PREFILLING, OFFERED, DECODING, ANSWERED };

typedef unsigned long long number;
typedef struct worker {
  wire wire;
  number slots;           /* 0 = it has not greeted yet */
  number open;            /* requests that it has */
  double heard;           /* when it said something */
  int is_decode, is_late; /* late: it gets no more until it says something again */
} worker;

typedef struct request {
  enum stage stage;
  number id; /* of this try */
  worker* at;
  char offer[OFFER_BYTES]; /* "ADDRESS HANDLE END" */
} request;

static worker workers[MOST_WORKERS];
static request* requests;
static workload work;
static const char usage[] = "quire_pd_router HOST:PORT WORKERS PATIENCE_MS SECONDS -- WORKLOAD\n";
static number unit, greetings, tries, again, answered, counts[COUNTS];

static void move(request* r, enum stage stage) {
  again += stage == WAITING;
  r->stage = stage;
  r->at = NULL;
}

/* Its requests go elsewhere: its socket was closed, or it is stopped. */
static void lose(worker* w, int is_dead) {
  for (request* r = requests; r < requests + work.count; ++r)
    if (r->at == w) move(r, WAITING);
  w->is_late = 1;
  if (!is_dead) return;
  wire_close(&w->wire);
  *w = (worker){.wire.fd = -1};
}

static int greeted(worker* w, char* line) {
  w->is_decode = strcmp(wire_word(&line), "decode") == 0;
  w->slots = wire_number(&line);
  number tokens = wire_number(&line);
  if (unit == 0) unit = tokens;
  if (unit == 0 || unit != tokens) return complain("all workers need the same --unit");
  ++greetings;
  return ENGINE_OK;
}

static int take(worker* w, char* line) {
  const char* verb = wire_word(&line);
  request* r = requests;
  w->heard = seconds_now();
  w->is_late = 0;
  if (strcmp(verb, "alive") == 0) return ENGINE_OK;
  if (strcmp(verb, "hello") == 0) return greeted(w, line);
  if (strcmp(verb, "offered") != 0) --w->open; /* freed, done */
  if (strcmp(verb, "freed") == 0) return ENGINE_OK;
  number id = wire_number(&line);
  while (r < requests + work.count && (r->at != w || r->id != id)) ++r;
  int is_late = r == requests + work.count; /* somebody else has it now */
  if (strcmp(verb, "offered") == 0) {
    if (is_late) return ENGINE_OK; /* its lease ends the offer */
    move(r, OFFERED);
    return snprintf(r->offer, sizeof r->offer, "%s", line) > 0 ? ENGINE_OK : ENGINE_FAILED;
  }
  for (int i = 0; i < COUNTS; ++i) counts[i] += wire_number(&line);
  if (is_late) return ENGINE_OK;
  move(r, ANSWERED);
  if (++answered % 10 == 0) (void)printf("answered %llu of %u\n", answered, work.count);
  return ENGINE_OK;
}

/* Slots of the workers that may answer. */
static number slots_of(int is_decode) {
  number n = 0;
  for (const worker* w = workers; w < workers + MOST_WORKERS; ++w)
    n += w->is_decode == is_decode && !w->is_late ? w->slots : 0;
  return n;
}

/* Sends it to the worker that has the fewest, if one has a free slot. */
static void send_on(request* r, int is_decode) {
  const work_request* q = &work.requests[r - requests];
  worker* to = NULL;
  char* line = NULL;
  size_t bytes = 0;
  for (worker* w = workers; w < workers + MOST_WORKERS; ++w)
    if (w->is_decode == is_decode && !w->is_late && w->open < w->slots &&
        (to == NULL || w->open < to->open))
      to = w;
  FILE* out = to == NULL ? NULL : open_memstream(&line, &bytes);
  if (out == NULL) return;
  r->id = ++tries;
  r->at = to;
  r->stage = is_decode ? DECODING : PREFILLING;
  ++to->open;
  (void)fprintf(out, is_decode ? "decode" : "prefill");
  (void)fprintf(out, " %llu %u %u ", r->id, q->salt, q->prompt_len);
  if (is_decode) (void)fprintf(out, "%u %s", q->output_len, r->offer);
  if (!is_decode) (void)fprintf(out, "%llu", (q->prompt_len - 1) / unit * unit);
  for (uint32_t i = 0; i < q->prompt_len; ++i) (void)fprintf(out, " %u", q->symbols[i]);
  if (fputc('\n', out) == EOF || fclose(out) != 0 || !wire_send(&to->wire, line, bytes))
    lose(to, 1);
  free(line);
}

static void advance(double patience) {
  number ahead = 0; /* offers hold blocks: no more of them than can be read at once */
  for (worker* w = workers; w < workers + MOST_WORKERS; ++w)
    if (w->slots != 0 && seconds_now() - w->heard > patience) lose(w, 0);
  for (const request* r = requests; r < requests + work.count; ++r)
    ahead += r->stage == PREFILLING || r->stage == OFFERED;
  for (request* r = requests; r < requests + work.count; ++r) {
    const work_request* q = &work.requests[r - requests];
    int is_next = q->after == NO_REQUEST || requests[q->after].stage == ANSWERED;
    if (r->stage == WAITING && is_next && ahead < slots_of(1)) {
      ++ahead;
      (void)snprintf(r->offer, sizeof r->offer, "- - %llu", (q->prompt_len - 1) / unit * unit);
      if (slots_of(0) != 0 && q->prompt_len > unit)
        send_on(r, 0);
      else
        move(r, OFFERED); /* the decode worker computes all of it */
    }
    if (r->stage == OFFERED) send_on(r, 1);
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
  for (worker* w = workers; w < workers + MOST_WORKERS && rc == ENGINE_OK; ++w) {
    if (w->wire.fd < 0 && sockets[MOST_WORKERS].revents != 0) {
      wire_open(&w->wire, accept(listener, NULL, NULL));
      sockets[MOST_WORKERS].revents = 0;
    } else if (sockets[w - workers].revents != 0) {
      int is_there = wire_receive(&w->wire, 0);
      for (char* l = wire_line(&w->wire); l != NULL && rc == ENGINE_OK; l = wire_line(&w->wire))
        rc = take(w, l);
      if (!is_there) lose(w, 1);
    }
  }
  return rc;
}

static int report(void) {
  number lost = work.count - answered;
  (void)printf(
      "%llu requests answered, %llu lost, %llu sent again; %llu tokens from peers\nverified %llu "
      "rows, %llu mismatches, %llu recomputed\n",
      answered, lost, again, counts[FETCHED], counts[ROWS], counts[WRONG], counts[RECOMPUTED]);
  if (counts[WRONG] != 0) return ENGINE_MISMATCH;
  if (lost != 0) return complain("not all requests were answered in time");
  return counts[FETCHED] != 0 ? ENGINE_OK : complain("nothing moved between processes");
}

int main(int argc, char** argv) {
  engine_options options;
  int done = 0;
  if (argc < 6 || strcmp(argv[5], "--") != 0)
    return fputs(usage, stderr) < 0 ? ENGINE_FAILED : ENGINE_USAGE;
  double patience = strtod(argv[3], NULL) / 1000, end = seconds_now() + strtod(argv[4], NULL);
  int rc = options_parse(&options, argc - 5, argv + 5, &done);
  work.max_len = (uint32_t)options.max_len;
  if (rc == ENGINE_OK) rc = workload_converse(&work, &options);
  requests = claim_memory(work.count, sizeof *requests, "requests");
  for (int i = 0; i < MOST_WORKERS; ++i) workers[i].wire.fd = -1;
  int listener = rc == ENGINE_OK && requests != NULL ? wire_listen(argv[1]) : -1;
  if (listener < 0) return rc != ENGINE_OK ? rc : ENGINE_FAILED;
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  while (rc == ENGINE_OK && answered < work.count && seconds_now() < end) {
    rc = listen_round(listener);
    if (greetings >= strtoull(argv[2], NULL, 10)) advance(patience);
  }
  if (rc == ENGINE_OK) rc = report();
  for (worker* w = workers; w < workers + MOST_WORKERS; ++w) wire_close(&w->wire); /* they end */
  workload_free(&work);
  free(requests);
  return rc;
}
