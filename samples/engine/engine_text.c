#include "engine_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int complain(const char* format, ...) {
  va_list args;
  (void)fprintf(stderr, "engine: ");
  va_start(args, format);
  (void)vfprintf(stderr, format, args);
  va_end(args);
  (void)fprintf(stderr, "\n");
  return ENGINE_FAILED;
}

void* claim_memory(uint64_t count, uint64_t size, const char* what) {
  void* memory = NULL;
  if (count == 0) count = 1;
  if (size != 0 && count <= SIZE_MAX / size) memory = calloc((size_t)count, (size_t)size);
  if (memory == NULL)
    (void)complain("no memory for %s: %" PRIu64 " x %" PRIu64 " bytes", what, count, size);
  return memory;
}

const char* grouped(uint64_t value, char text[32]) {
  char digits[32];
  int n = snprintf(digits, sizeof digits, "%" PRIu64, value);
  int out = 0;
  for (int i = 0; i < n; ++i) {
    if (i > 0 && (n - i) % 3 == 0) text[out++] = ',';
    text[out++] = digits[i];
  }
  text[out] = '\0';
  return text;
}

const char* sized(double bytes, char text[32]) {
  static const char* const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  while (bytes >= 1024 && u < 4) {
    bytes /= 1024;
    ++u;
  }
  (void)snprintf(text, 32, u == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[u]);
  return text;
}

double seconds_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int slurp(FILE* file, const char* path, uint64_t most_bytes, char** text, uint64_t* len) {
  uint64_t capacity = 1u << 16;
  uint64_t used = 0;
  char* buffer = malloc(capacity);
  while (buffer != NULL) {
    used += fread(buffer + used, 1, capacity - used - 1, file);
    if (used + 1 < capacity) break;
    if (used > most_bytes) break;
    capacity *= 2;
    char* grown = realloc(buffer, capacity);
    if (grown == NULL) free(buffer);
    buffer = grown;
  }
  if (buffer == NULL) return complain("no memory to read %s", path);
  if (ferror(file) != 0 || used > most_bytes) {
    int too_long = used > most_bytes;
    free(buffer);
    if (too_long) return complain("%s is longer than %" PRIu64 " bytes", path, most_bytes);
    return complain("cannot read %s: %s", path, strerror(errno));
  }
  buffer[used] = '\0';
  *text = buffer;
  *len = used;
  return ENGINE_OK;
}

int read_whole_file(const char* path, uint64_t most_bytes, char** text, uint64_t* len) {
  if (strcmp(path, "-") == 0) return slurp(stdin, "standard input", most_bytes, text, len);
  FILE* file = fopen(path, "rb");
  if (file == NULL) return complain("cannot open %s: %s", path, strerror(errno));
  int rc = slurp(file, path, most_bytes, text, len);
  (void)fclose(file);
  return rc;
}
