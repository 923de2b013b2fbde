/* batch.h: the arrays of one step that kernels read, of all groups. */
#ifndef ENGINE_BATCH_H_
#define ENGINE_BATCH_H_

#include "rig.h"

typedef struct step_batch {
  quire_batch* groups; /* [num_groups]: they point into memory */
  uint32_t num_groups;
  void* memory;
  uint64_t bytes; /* of memory */
} step_batch;

int batch_open(step_batch* batch, const rig* r);
void batch_close(step_batch* batch);
/* Lets the cache write the arrays of a step in flight. The memory grows when a step needs more. */
int batch_fill(step_batch* batch, quire_step step);
/* The same array, to write into it. array: a pointer of one of the groups. */
int32_t* batch_writable(const step_batch* batch, const int32_t* array);

#endif
