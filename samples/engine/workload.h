/* workload.h: what is asked of the engine: requests from a trace or from a generator of
 * conversations. */
#ifndef ENGINE_WORKLOAD_H_
#define ENGINE_WORKLOAD_H_

#include <stdint.h>

#include "options.h"

#define NO_REQUEST 0xffffffffu

typedef struct work_request {
  uint32_t salt;       /* tenant: 0 or 1, see tenant_salt */
  uint32_t prompt_len; /* tokens */
  uint32_t output_len; /* tokens */
  uint32_t samples;    /* 1 or 2: a second one is forked after the prompt */
  uint32_t after;      /* request that must be done first, or NO_REQUEST */
  uint32_t turn;       /* generator: of its conversation, from 0 */
  uint32_t surprise;   /* 1 = the engine learns of the end only when it samples it */
  uint32_t num_blocks; /* traces: 512-token blocks of the prompt */
  uint64_t* blocks;    /* traces: their ids, owned */
  uint32_t* symbols;   /* generator: the prompt, owned */
} work_request;

typedef struct workload {
  work_request* requests;
  uint32_t count;
  uint32_t capacity;
  uint32_t skipped;       /* trace requests longer than max_len, left out */
  uint32_t max_len;       /* tokens */
  uint32_t block_tokens;  /* tokens that stand for a block of the trace */
  uint64_t prompt_tokens; /* of all requests */
  uint64_t output_tokens; /* of all samples */
} workload;

/* What a tenant is called: prefixes of tenants are never shared. */
const char* tenant_salt(uint32_t tenant);
void workload_free(workload* work);
/* Writes the prompt of a request: prompt_len symbols. */
void workload_prompt(const workload* work, uint32_t request, uint32_t* symbols);
/* Adds a request, taking over its arrays. Returns 0, or an exit code after having complained. */
int workload_add(workload* work, const work_request* request);
/* Reads the trace that the options name; requests longer than work->max_len are left out. Complains
 * and returns an exit code. */
int workload_read_trace(workload* work, const engine_options* options);
/* Parses the text of a trace; name: for messages. */
int workload_parse_trace(workload* work, const char* text, const char* name,
                         uint64_t most_requests);
/* Generator of conversations: shared system prompts, growing histories, template drift at the tail,
 * edits, two salts. */
int workload_converse(workload* work, const engine_options* options);

#endif
