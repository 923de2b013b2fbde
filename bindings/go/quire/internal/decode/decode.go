// Package decode is the decode loop of a C program, for the benchmark beside the one in Go; and the processor time of a thread.
package decode

/*
#include <quire/quire.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct c_loop {
  quire_cache *cache;
  uint32_t rows;
  quire_reserve_entry *wants;
  quire_reserve_result *got;
  quire_commit_entry *done;
  quire_symbol *symbols;
  quire_batch_options options;
  quire_error err;
} c_loop;

static c_loop *c_loop_new(void *cache, const uint64_t *ids, uint32_t rows, uint32_t pitch) {
  c_loop *l = (c_loop *)calloc(1, sizeof *l);
  uint32_t i;
  l->cache = (quire_cache *)cache, l->rows = rows, l->err.struct_size = sizeof l->err;
  l->wants = (quire_reserve_entry *)calloc(rows, sizeof *l->wants);
  l->got = (quire_reserve_result *)calloc(rows, sizeof *l->got);
  l->done = (quire_commit_entry *)calloc(rows, sizeof *l->done);
  l->symbols = (quire_symbol *)calloc(rows, sizeof *l->symbols);
  for (i = 0; i < rows; ++i) {
    l->wants[i].sequence = l->done[i].sequence = ids[i];
    l->wants[i].num_tokens = l->done[i].num_accepted = l->done[i].num_symbols = 1;
    l->done[i].symbols_offset = l->symbols[i] = i;
  }
  l->options.struct_size = sizeof l->options, l->options.bytes = ((uint64_t)pitch + 8) * 16 * rows;
  l->options.memory = aligned_alloc(16, l->options.bytes);
  return l;
}
static int c_loop_run(c_loop *l, int steps) {
  quire_batch batch;
  uint64_t bytes;
  for (int s = 0; s < steps; ++s) {
    quire_step step;
    if (quire_reserve(l->cache, l->wants, l->rows, 0, 0, l->got, &step, &l->err) != QUIRE_OK || step.id == 0) return 1;
    batch.struct_size = sizeof batch;
    if (quire_step_get_batch(step, &l->options, &batch, sizeof batch, 1, &bytes, &l->err) != QUIRE_OK) return 2;
    for (uint32_t i = 0; i < l->rows; ++i) l->done[i].symbols_position = l->got[i].position + 1;
    if (quire_commit(step, l->done, l->rows, l->symbols, l->rows, &l->err) != QUIRE_OK) return 3;
  }
  return 0;
}
static void c_loop_free(c_loop *l) {
  free(l->options.memory);
  free(l->wants), free(l->got), free(l->done), free(l->symbols), free(l);
}
static int64_t c_thread_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
*/
import "C"

import "unsafe"

// Loop is the loop over sequences that have their prompts.
type Loop struct{ l *C.c_loop }

// New makes the loop over the cache's sequences; pitch: blocks of the longest.
func New(cache unsafe.Pointer, ids []uint64, pitch int) Loop {
	return Loop{C.c_loop_new(cache, (*C.uint64_t)(&ids[0]), C.uint32_t(len(ids)), C.uint32_t(pitch))}
}

// Run does so many steps in C; 0 when all of them went well.
func (l Loop) Run(steps int) int { return int(C.c_loop_run(l.l, C.int(steps))) }

// Free gives its memory back.
func (l Loop) Free() { C.c_loop_free(l.l) }

// ThreadNs is the processor time of this thread, nanoseconds.
func ThreadNs() int64 { return int64(C.c_thread_ns()) }
