/* The C code of docs/tiers.md, block after block in one function. It is compiled with the one header that the page names, and never
 * called. */
#include <quire/quire.h>
#include <stdio.h>
#include <string.h>

static quire_str text(const char* from) {
  quire_str s;
  s.data = from;
  s.len = strlen(from);
  return s;
}

typedef struct rig {
  quire_runtime* runtime;
  quire_cache* cache;
  quire_memory* memory;
  quire_stream* stream;
  quire_sequence_id sequence;
  quire_connector* link;
} rig;

quire_code guide_tiers(const rig* r, const quire_symbol* prompt, uint64_t n, quire_session_write_fn write_file,
                       quire_session_read_fn read_file, void* file);

quire_code guide_tiers(const rig* r, const quire_symbol* prompt, uint64_t n, quire_session_write_fn write_file,
                       quire_session_read_fn read_file, void* file) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_runtime* runtime = r->runtime;
  quire_cache* cache = r->cache;
  quire_memory* memory = r->memory;
  quire_stream* stream = r->stream;
  quire_sequence_id sequence = r->sequence;
  quire_connector* link = r->link;
  quire_fetch_id fetch = 0;
  quire_fetch_result results[4];
  quire_reserve_result got;
  quire_step step;
  quire_symbol symbols[64];
  const uint64_t capacity = 4, num_symbols = 64, end = 64;
  uint64_t count = 0;
#include "tiers_c.inc"
  return err.code;
}
