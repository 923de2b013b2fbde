/* sampler.h: results kept during the run for verification: which rows, and their values. */
#ifndef ENGINE_SAMPLER_H_
#define ENGINE_SAMPLER_H_

#include "geometry.h"
#include "options.h"
#include "workload.h"

/* What a row went through; a row may carry several. */
#define ROW_AFTER_HIT 0x1u        /* its request reads blocks that another request wrote */
#define ROW_AFTER_PREEMPTION 0x2u /* its request lost its blocks and came back */
#define ROW_AFTER_FORK 0x4u       /* a second sample sharing the prompt of the first */
#define ROW_HAND_OVER 0x8u        /* pages changed group while its request ran */
#define ROW_AFTER_FETCH 0x10u     /* its request reads blocks that came from a tier */
#define ROW_CLASSES 5

/* One (request, layer, token) over all heads. */
typedef struct kept_row {
  uint32_t request;
  uint32_t sample;
  uint32_t shape;    /* index into geometry.layers */
  uint32_t position; /* token */
  uint32_t tags;     /* ROW_* */
  uint32_t reserved0;
  uint64_t offset; /* into values */
} kept_row;

typedef struct sampler {
  const geometry* geo;
  kept_row* rows;
  float* values;
  uint64_t num_rows, max_rows;
  uint64_t num_values, max_values;
  uint64_t quota_left[3]; /* plain, after a hit, after preemption */
  uint64_t rate[3];       /* chance in 2^32 for each */
  uint64_t seed;
  const workload* work;
  uint64_t each; /* requests arrive one by one: about so many rows of each; 0 = they are known */
} sampler;

int sampler_open(sampler* s, const geometry* geo, const workload* work,
                 const engine_options* options);
void sampler_close(sampler* s);
/* Whether the row is kept; then its values go to the returned place (elements of
 * geometry.layers[shape].row), otherwise NULL. */
float* sampler_take(sampler* s, uint32_t request, uint32_t sample, uint32_t shape,
                    uint32_t position, uint32_t tags);
/* Moves the rows of a request to another sampler, which is to be closed in any case. Complains and
 * returns an exit code. */
int sampler_split(sampler* s, uint32_t request, sampler* rows);

#endif
