/* stream.h: requests that arrive one by one, and what is answered: lines of JSON from standard
 * input to standard output. README.md describes the lines. */
#ifndef ENGINE_STREAM_H_
#define ENGINE_STREAM_H_

#include "options.h"
#include "row_oracle.h"
#include "workload.h"

struct server;

/* What a request has cost until now. */
typedef struct stream_outcome {
  uint64_t id; /* of the client */
  uint64_t prompt_tokens;
  uint64_t hit_tokens;      /* of these: not computed */
  uint64_t fetched_tokens;  /* of these: from tiers */
  uint64_t computed_tokens; /* also of what was computed again after a preemption */
  uint32_t* answer;         /* [output_len] of the first sample, owned */
} stream_outcome;

/* An open request takes a slot of the workload, which it gives back with its answer. */
typedef struct stream {
  workload* work;
  stream_outcome* outcomes; /* [work->count] */
  unsigned char* is_open;   /* [work->count] */
  uint32_t* finished;       /* [work->count]: to be answered */
  uint32_t num_finished;
  uint32_t num_open; /* the finished ones included */
  uint32_t next_slot;
  int has_ended;  /* standard input */
  uint64_t lines; /* read */
  char* text;     /* what was read and not parsed yet */
  uint64_t text_bytes, text_capacity;
} stream;

/* Writes one line per request of a workload, as stream_read reads them. */
int stream_list(const workload* work);

/* work: empty, with max_len; it gets slots. Complains and returns an exit code, as the next ones.
 */
int stream_open(stream* st, workload* work);
void stream_close(stream* st);
/* Says on standard output that requests are awaited, and what a router has to know: the layout of
 * prefixes, and where events are published. */
int stream_greet(const struct server* s);
/* Reads what has arrived. timeout_ms: how long to wait if nothing has; -1 = until something does.
 */
int stream_read(stream* st, struct server* s, int timeout_ms);
/* Whether requests are open, or may come. */
int stream_is_busy(const stream* st);
/* All samples of a request are done. */
void stream_finish(stream* st, uint32_t request);
/* Verifies the rows of what was finished, and answers. batches: of events, published until now. */
int stream_answer(stream* st, struct server* s, uint64_t batches, verdict* all);

#endif
