#include "workload.h"

#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"

const char* tenant_salt(uint32_t tenant) {
  static const char* const names[] = {"tenant-0", "tenant-1"};
  return names[tenant & 1u];
}

int workload_add(workload* work, const work_request* request) {
  if (work->count == work->capacity) {
    uint32_t capacity = work->capacity == 0 ? 256 : work->capacity * 2;
    work_request* grown = realloc(work->requests, capacity * sizeof *grown);
    if (grown == NULL) return complain("no memory for %u requests", capacity);
    work->requests = grown;
    work->capacity = capacity;
  }
  work->requests[work->count++] = *request;
  work->prompt_tokens += request->prompt_len;
  work->output_tokens += (uint64_t)request->output_len * request->samples;
  return ENGINE_OK;
}

void workload_free(workload* work) {
  for (uint32_t i = 0; i < work->count; ++i) {
    free(work->requests[i].blocks);
    free(work->requests[i].symbols);
  }
  free(work->requests);
  memset(work, 0, sizeof *work);
}

void workload_prompt(const workload* work, uint32_t request, uint32_t* symbols) {
  const work_request* r = &work->requests[request];
  if (r->symbols != NULL) {
    memcpy(symbols, r->symbols, (uint64_t)r->prompt_len * sizeof *symbols);
    return;
  }
  for (uint32_t p = 0; p < r->prompt_len; ++p) {
    uint64_t block = r->blocks[p / work->block_tokens];
    symbols[p] = (uint32_t)(mix64(mix64(block + 1) + p % work->block_tokens) % VOCABULARY);
  }
}
