/* row_oracle.h: the truth: rows recomputed from the workload alone, in double precision, without
 * calling any quire function. */
#ifndef ENGINE_ROW_ORACLE_H_
#define ENGINE_ROW_ORACLE_H_

#include "geometry.h"
#include "sampler.h"
#include "workload.h"

#define ROW_TOLERANCE 1e-2 /* relative L2 of a row */

typedef struct verdict {
  uint64_t rows;
  uint64_t mismatches;
  uint64_t by_class[ROW_CLASSES]; /* by bit of ROW_* */
  uint64_t plain;                 /* rows with no tag */
  uint64_t attention, state;      /* by layer kind */
  uint64_t kind_rows[4];          /* full, window, chunked, gated delta */
  double worst;                   /* relative L2 */
  kept_row worst_row;
  double seconds;
} verdict;

/* Compares all kept rows, on `threads` threads. Complains and returns an exit code (not for
 * mismatches: those are counted). */
int oracle_verify(verdict* v, const sampler* rows, const geometry* geo, const workload* work,
                  uint32_t threads);
/* Adds the counts of another verdict. */
void oracle_merge(verdict* into, const verdict* v);
/* h(p) for p < len of a sample's symbols, generated anew. Exposed for the test. */
void oracle_hashes(const workload* work, uint32_t request, uint32_t sample, uint32_t len,
                   uint32_t* prompt_space, uint64_t* hashes);

#endif
