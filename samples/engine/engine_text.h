/* engine_text.h: what the engine says: complaints on standard error, numbers in a readable form. */
#ifndef ENGINE_TEXT_H_
#define ENGINE_TEXT_H_

#include <quire/base.h>
#include <stddef.h>
#include <stdint.h>

enum { ENGINE_OK = 0, ENGINE_MISMATCH = 1, ENGINE_USAGE = 2, ENGINE_FAILED = 3 }; /* exit codes */

/* One line on standard error: "engine: ...". Returns ENGINE_FAILED, so that callers can write
 * `return complain(...)`. */
int complain(const char* format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a failed call of the library: what was called, the status and the library's own
 * message. */
int complain_quire(const char* call, const quire_error* err);
/* calloc that complains: NULL means the complaint was made. what: for the message. */
void* claim_memory(uint64_t count, uint64_t size, const char* what);
/* "1,234,567" into text[32]; returns text. */
const char* grouped(uint64_t value, char text[32]);
/* "12.5 MiB" into text[32]; returns text. */
const char* sized(double bytes, char text[32]);
/* Seconds on a monotonic clock. */
double seconds_now(void);
/* Reads a whole file, "-" = standard input. *text: owned (free), NUL terminated. Complains and
 * returns an exit code. */
int read_whole_file(const char* path, uint64_t most_bytes, char** text, uint64_t* len);

#endif
