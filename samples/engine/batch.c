#include "batch.h"

#include <stdlib.h>
#include <string.h>

#include "engine_text.h"

enum { ALIGNMENT = 16 };

int batch_open(step_batch* batch, const rig* r) {
  memset(batch, 0, sizeof *batch);
  batch->num_groups = r->info.num_groups;
  batch->groups = claim_memory(batch->num_groups, sizeof *batch->groups, "batches");
  return batch->groups == NULL ? ENGINE_FAILED : ENGINE_OK;
}

void batch_close(step_batch* batch) {
  free(batch->groups);
  free(batch->memory);
  memset(batch, 0, sizeof *batch);
}

static int grow(step_batch* batch, uint64_t needed) {
  uint64_t bytes = (2 * needed + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  free(batch->memory);
  batch->memory = aligned_alloc(ALIGNMENT, bytes);
  batch->bytes = batch->memory == NULL ? 0 : bytes;
  if (batch->memory == NULL) {
    return complain("no memory for the arrays of a step: %llu bytes", (unsigned long long)bytes);
  }
  return ENGINE_OK;
}

int batch_fill(step_batch* batch, quire_step step) {
  quire_error err = QUIRE_INIT(quire_error);
  for (;;) {
    quire_batch_options options = QUIRE_INIT(quire_batch_options);
    uint64_t needed = 0;
    options.memory = batch->memory;
    options.bytes = batch->bytes;
    quire_code code = quire_step_get_batch(step, &options, batch->groups, sizeof *batch->groups,
                                           batch->num_groups, &needed, &err);
    if (needed > batch->bytes) {
      if (grow(batch, needed) != ENGINE_OK) return ENGINE_FAILED;
      continue;
    }
    return code == QUIRE_OK ? ENGINE_OK : complain_quire("batch", &err);
  }
}

int32_t* batch_writable(const step_batch* batch, const int32_t* array) {
  return (int32_t*)batch->memory + (array - (const int32_t*)batch->memory);
}
