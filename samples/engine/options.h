/* options.h: the command line. */
#ifndef ENGINE_OPTIONS_H_
#define ENGINE_OPTIONS_H_

#include <stdint.h>

#include "engine_settings.h"

enum memory_mode { MEMORY_DRIVER, MEMORY_ENGINE, MEMORY_NONE };
enum fault_kind { FAULT_NONE, FAULT_SWAP_BLOCK, FAULT_STALE_STATE, FAULT_OTHER_PREFIX };

typedef struct engine_options {
  /* model; 0 = as the model says */
  const char* model; /* config.json; NULL = a small built-in hybrid model */
  uint64_t layers;   /* first layers kept */
  uint64_t kv_heads; /* query heads scale with them */
  uint64_t head_dim;
  uint64_t state_heads; /* value heads of recurrent layers; key heads scale with them */
  uint64_t state_dim;
  uint64_t max_len; /* --context: tokens of one sequence */
  /* workload */
  const char* trace;     /* Mooncake JSONL, "-" = standard input; NULL = generator */
  uint64_t scale_tokens; /* tokens that stand for a 512-token block of the trace */
  uint64_t conversations;
  uint64_t turns;
  uint64_t open;     /* conversations open at once; the next begins when one ends */
  uint64_t requests; /* at most; 0 = all */
  uint64_t seed;
  /* requests one by one; 0 = the whole workload is known */
  int64_t list;              /* print the workload as lines of requests */
  int64_t serve;             /* read such lines, answer them */
  const char* events;        /* endpoint; NULL = none */
  const char* metrics;       /* address and port; NULL = none */
  const char* event_replays; /* endpoint; NULL = none */
  /* cache */
  int64_t memory; /* enum memory_mode */
  uint64_t pool_bytes;
  uint64_t pages;
  const char* policy;
  uint64_t block; /* tokens of a block of attention groups; 0 = 16 */
  const char* layout;
  int64_t no_reuse;
  /* tiers: the nearest first */
  const char* tiers[MOST_TIERS]; /* NAME:SETTINGS */
  uint64_t num_tiers;
  uint64_t peers;    /* bit i: tier i leads to other processes; set by samples/disaggregated */
  uint64_t unit;     /* tokens that are stored together; 0 = chosen */
  uint64_t token_ns; /* to compute a token of a prompt; 0 = all that is found is fetched */
  /* schedule */
  uint64_t batch;   /* requests running at once, forks not counted */
  uint64_t budget;  /* tokens computed in one step */
  uint64_t threads; /* of the CPU driver and of the verification */
  /* checks */
  int64_t verify;
  uint64_t rows;        /* most rows kept for verification; of each request if they are served */
  int64_t fault;        /* enum fault_kind */
  uint64_t check_every; /* quire_cache_verify every so many steps; 0 = never */
  /* output */
  const char* json;
  const char* outputs;
  int64_t progress;
} engine_options;

/* Fills the options with defaults and reads the command line. Returns ENGINE_OK, or an exit code
 * after having complained; *done is set when help was printed and nothing is left to do. */
int options_parse(engine_options* options, int argc, char** argv, int* done);
/* The word of a fault on the command line. */
const char* fault_name(int64_t fault);

#endif
