/* server.h: the engine's loop: continuous batching, chunked prefill, preemption, fork, prefix
 * reuse, two steps in flight. */
#ifndef ENGINE_SERVER_H_
#define ENGINE_SERVER_H_

#include <stdio.h>

#include "batch.h"
#include "forward.h"
#include "sampler.h"
#include "workload.h"

enum live_state { LIVE_FREE, LIVE_UNBORN, LIVE_WAITING, LIVE_RUNNING };
enum fetch_state { FETCH_NONE, FETCH_BEGUN, FETCH_ENDED };

/* One sample of one request, from admission to its last token. The engine keeps its symbols: a
 * preempted one starts again from them. */
typedef struct live {
  enum live_state state;
  quire_sequence_id id; /* 0 = no sequence yet */
  uint32_t request;
  uint32_t sample;
  uint32_t partner; /* slot of the second sample that waits for the fork, or NO_REQUEST */
  uint32_t epoch;   /* grows when the slot's rows in flight become void */
  uint32_t prompt_len;
  uint32_t end;         /* symbols of the whole sequence */
  uint32_t bound;       /* what the engine believes `end` to be before it sampled the last symbol */
  uint32_t known;       /* symbols the engine has */
  uint32_t given;       /* symbols the cache has: the next call starts there */
  uint32_t reserved;    /* tokens reserved, those in flight included */
  uint32_t prefill_end; /* symbols at admission: computing them is prefill */
  uint32_t hit;         /* tokens reused by the last match */
  uint32_t tags;        /* ROW_* of its rows */
  uint32_t admitted_before; /* 1 = this is not its first admission */
  uint64_t admission;       /* order of admission: the youngest is preempted first */
  enum fetch_state fetch;   /* of this admission: the tiers were asked */
  quire_fetch_id fetch_id;  /* if it is begun */
  uint64_t ask_again;       /* not before so many steps */
  uint32_t refusals;        /* fetches that found no room */
  uint64_t hand_overs;      /* of the pool when it was admitted */
  uint32_t* symbols;        /* [max_len + 2] */
  uint64_t* hashes;         /* [max_len + 3]: hashes[p + 1] = h(p) */
} live;

typedef struct step_row {
  quire_sequence_id id;
  uint32_t slot;
  uint32_t epoch;
  uint32_t position;
  uint32_t tokens;
} step_row;

typedef struct step_record {
  quire_step step; /* all zero = none */
  uint32_t num_rows;
  uint32_t num_tokens;
  step_row* rows; /* [max_live] */
  step_batch batch;
} step_record;

typedef struct server_counts {
  uint64_t requests, samples;
  uint64_t prompt_tokens;      /* of first admissions */
  uint64_t hit_tokens;         /* of these: not computed */
  uint64_t fetched_tokens;     /* of these: from tiers */
  uint64_t resumed_tokens;     /* symbols of sequences that came back */
  uint64_t resumed_hit_tokens; /* of these */
  uint64_t resumed_fetched_tokens;
  uint64_t computed_tokens; /* by all rows that counted */
  uint64_t late_tokens;     /* computed for rows whose sequence was gone */
  uint64_t generated_tokens;
  uint64_t steps, preemptions, forks, refusals, chunk_stops;
  uint64_t most_running;
  uint64_t fetch_bytes, fetch_ns; /* of fetches that are done */
  double seconds;
} server_counts;

struct stream;

typedef struct server {
  const engine_options* options;
  const geometry* geo;
  const workload* work;
  rig* rig;
  forward* forward;      /* NULL = bookkeeping only */
  sampler* sampler;      /* NULL = nothing is verified */
  FILE* outputs;         /* NULL = not written */
  struct stream* stream; /* requests arrive one by one; NULL = the workload is known */
  live* slots;           /* [max_live] */
  uint32_t max_live;
  uint32_t* running; /* slots, oldest admission first */
  uint32_t num_running;
  uint32_t* waiting; /* slots that were refused or preempted, oldest first */
  uint32_t num_waiting;
  uint32_t* ready;                 /* requests not begun, a queue */
  uint32_t ready_begin, ready_end; /* taken and put until now */
  uint32_t* samples_left;          /* [requests] */
  uint64_t* dependents;            /* [requests]: next request of the conversation, or NO_REQUEST */
  uint32_t cooldown;               /* steps without admissions after a preemption */
  double idle_since;               /* nothing could run since then; 0 = something can */
  uint64_t admissions;
  uint64_t done_requests;
  step_record records[2];
  quire_reserve_entry* entries; /* [max_live] */
  quire_reserve_result* results;
  quire_commit_entry* commits;
  uint32_t* entry_slot;
  quire_symbol* symbols; /* what one call passes */
  uint64_t max_symbols;
  uint64_t num_symbols; /* in use by the call being built */
  uint32_t num_entries;
  uint64_t* token_hash;    /* [budget] */
  quire_cache_stats stats; /* after the last step */
  server_counts counts;
} server;

/* Called after every step. Returns an exit code. */
typedef int (*step_done_fn)(void* user, server* s);

int server_open(server* s, const engine_options* options, const geometry* geo, const workload* work,
                rig* r, forward* f, sampler* kept, struct stream* arrivals, uint32_t max_live);
void server_close(server* s);
/* Serves the whole workload. */
int server_run(server* s, step_done_fn done, void* user);

/* The parts of a step: reserve.c and step.c. record->step.id 0 = nothing was admitted; in_flight:
 * another step is. */
int server_reserve(server* s, step_record* record, int in_flight);
int server_launch(server* s, step_record* record, const step_record* previous);
int server_commit(server* s, step_record* record);
/* Asks for the sequence of a request that has none. */
int server_open_sequence(server* s, live* l);
/* Tiers: fetch.c. Every step that was reserved must have been prepared. is_idle: nothing else can
 * run, so this waits for the tiers. */
int server_fetch(server* s, int is_idle);
/* Whether what they have in flight may let something run. */
int server_tiers_are_busy(server* s);
/* Waits until what is complete was stored. */
int server_settle(server* s);
/* Queues: queues.c. */
int queues_open(server* s);
void queues_close(server* s);
void queues_add(server* s, uint32_t request); /* it may begin */
void queues_refill(server* s);                /* begins ready requests: they wait for admission */
uint32_t queues_next(const server* s);        /* of those that wait so many may be admitted now */
/* Starts it, with so many tokens that it does not compute; `fetched` of them came from tiers. */
void queues_admit(server* s, uint32_t slot, uint32_t hit, uint32_t fetched);
int queues_preempt(server* s, uint32_t slot); /* running -> first in line */
int queues_finish(server* s, uint32_t slot);  /* running -> free; a next turn becomes ready */
int queues_fork(server* s,
                uint32_t slot); /* the partner of a running slot gets its sequence and runs */
void live_learn(live* l, uint32_t symbol); /* appends a symbol */
/* Faults on purpose, in fault.c. */
void fault_batch(const server* s, const step_record* record, const step_record* previous);
uint32_t fault_symbol(const server* s, const live* l, uint32_t position);

#endif
