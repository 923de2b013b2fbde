/* worker.h: a process that computes prompts and offers them, or fetches them and decodes. */
#ifndef DISAGGREGATED_WORKER_H_
#define DISAGGREGATED_WORKER_H_

#include "batch.h"
#include "forward.h"
#include "row_oracle.h"
#include "wire.h"

enum { MOST_JOBS = 64, ADDRESS_BYTES = 256 };

enum job_state {
  JOB_FREE,
  JOB_FETCHING, /* decode: its prompt is on the way */
  JOB_RUNNING,  /* it computes */
  JOB_OFFERING  /* prefill: all is computed, and a part is not offered yet */
};

/* One request, from its line to the answer. */
typedef struct job {
  enum job_state state;
  uint64_t id; /* of the router */
  quire_sequence_id sequence;
  uint32_t known;     /* symbols */
  uint32_t given;     /* of these: the cache has them */
  uint32_t committed; /* tokens */
  uint32_t end;       /* tokens to commit */
  uint32_t* symbols;  /* [prompt + output] */
  uint64_t* hashes;   /* [prompt + output]: h(p), see values.h */
  int is_matched;     /* reserved with QUIRE_ENTRY_MATCH */
  int is_checked;     /* what it found was compared */
  /* decode */
  char address[ADDRESS_BYTES]; /* of the process that has it; "-" = none has */
  quire_peer peer;
  quire_fetch_id fetch;
  uint32_t from_peer;  /* tokens */
  uint32_t recomputed; /* tokens that others had computed */
  sampler results;     /* all rows that it computed */
  uint64_t rows, mismatches;
  /* prefill */
  quire_offer offer;
  int is_said; /* the router knows of it */
} job;

typedef struct worker {
  engine_options options;
  int is_decode;
  uint64_t slots;
  int64_t deadline_ns; /* of a fetch */
  int breaks_rows;     /* the fault: a fetched row is damaged */
  char address[ADDRESS_BYTES];
  wire router;
  geometry geo;
  rig rig;
  forward forward;
  step_batch batch;
  workload work;        /* requests[i] is that of jobs[i] */
  uint64_t* token_hash; /* of a step */
  uint64_t youngest;    /* id: it and later ones wait for an older one; 0 = nobody waits */
  unsigned char* head;  /* one head of keys or values */
  job jobs[MOST_JOBS];
} worker;

/* Takes one line of the router, and does one round of work: fetches, offers, a step. *did: it
 * found something to do. Both complain and return an exit code. */
int worker_take(worker* w, char* line);
int worker_round(worker* w, int* did);

/* Compares the keys and values of the tokens that the step's row reads and that were there before
 * it with what the model computes for these tokens. */
void check_found(const worker* w, job* j, const quire_batch* batches, uint32_t row);
/* Damages one of them. */
void check_break(const worker* w, const quire_batch* batches, uint32_t row);
/* Keeps the results of a layer. rows: those of the job's tokens from `position` on. */
int check_keep(const worker* w, job* j, uint32_t shape, const float* rows, uint32_t position,
               uint32_t tokens);
/* Compares them with the oracle of the engine sample. Complains and returns an exit code. */
int check_results(const worker* w, job* j);

#endif
