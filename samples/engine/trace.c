/* trace.c: requests from Mooncake's traces: JSON lines with the lengths and one id per 512 tokens
 * of the prompt. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "line.h"
#include "values.h"
#include "workload.h"

enum { TRACE_BLOCK = 512 }; /* tokens of a block in the trace */

/* Shrinks a length in tokens of the trace to tokens of this run. */
static uint64_t scale_len(const workload* work, uint64_t tokens) {
  uint64_t tail = (tokens % TRACE_BLOCK * work->block_tokens + TRACE_BLOCK - 1) / TRACE_BLOCK;
  return tokens / TRACE_BLOCK * work->block_tokens + tail;
}

/* Returns NULL, or what is wrong with the line. */
static const char* parse_line(workload* work, line_cursor line, work_request* r, int* too_long) {
  uint64_t input = 0;
  uint64_t output = 0;
  if (!line_field(line, "input_length", 1u << 30, &input) || input == 0)
    return "input_length is missing or not in 1 .. 2^30";
  if (!line_field(line, "output_length", 1u << 30, &output))
    return "output_length is missing or not in 0 .. 2^30";
  uint64_t prompt = scale_len(work, input);
  uint64_t reply = scale_len(work, output);
  if (reply == 0) reply = 1;
  *too_long = prompt + reply > work->max_len;
  if (*too_long) return NULL;
  r->prompt_len = (uint32_t)prompt;
  r->output_len = (uint32_t)reply;
  r->num_blocks = (uint32_t)((input + TRACE_BLOCK - 1) / TRACE_BLOCK);
  if (!line_seek(&line, "hash_ids")) return "hash_ids is missing";
  r->blocks = claim_memory(r->num_blocks, sizeof *r->blocks, "the blocks of a request");
  if (r->blocks == NULL) return "out of memory";
  if (!line_array(&line, UINT64_MAX / 16, r->blocks, r->num_blocks))
    return "hash_ids is not an array of one id per 512 tokens of input_length";
  return NULL;
}

int workload_parse_trace(workload* work, const char* text, const char* name,
                         uint64_t most_requests) {
  uint64_t number = 0;
  while (*text != '\0' && (most_requests == 0 || work->count < most_requests)) {
    size_t n = strcspn(text, "\n");
    line_cursor line = {text, text + n};
    work_request r = {.samples = 1, .after = NO_REQUEST};
    int too_long = 0;
    ++number;
    text += n + (text[n] == '\n');
    if (n == 0 || (n == 1 && line.at[0] == '\r')) continue;
    const char* wrong = parse_line(work, line, &r, &too_long);
    if (wrong != NULL) {
      free(r.blocks);
      (void)complain("%s, line %" PRIu64 ": %s", name, number, wrong);
      return ENGINE_USAGE;
    }
    if (too_long) {
      ++work->skipped;
      continue;
    }
    uint64_t owner = mix64(r.blocks[r.num_blocks > 1 ? 1 : 0] +
                           77); /* blocks after the system prompt tell conversations apart */
    r.salt = (uint32_t)(owner % 4 == 0);
    r.samples = mix64(owner + number) % 8 == 0 ? 2 : 1;
    r.surprise = (uint32_t)(mix64(number) & 1u);
    int rc = workload_add(work, &r);
    if (rc != ENGINE_OK) {
      free(r.blocks);
      return rc;
    }
  }
  if (work->count != 0) return ENGINE_OK;
  (void)complain(
      "%s: no request of at most %u tokens (%u longer ones left out; --scale-tokens shrinks them)",
      name, work->max_len, work->skipped);
  return ENGINE_USAGE;
}

int workload_read_trace(workload* work, const engine_options* options) {
  char* text = NULL;
  uint64_t len = 0;
  const char* name = strcmp(options->trace, "-") == 0 ? "standard input" : options->trace;
  if (read_whole_file(options->trace, (uint64_t)1 << 30, &text, &len) != ENGINE_OK)
    return ENGINE_USAGE;
  if (memchr(text, '\0', len) != NULL) {
    free(text);
    (void)complain("%s is not text; a .gz trace is read with: zcat FILE | engine --trace -", name);
    return ENGINE_USAGE;
  }
  int rc = workload_parse_trace(work, text, name, options->requests);
  free(text);
  return rc;
}
