#include "line.h"

#include <stddef.h>
#include <string.h>

static void skip_blanks(line_cursor* c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t')) ++c->at;
}

int line_seek(line_cursor* c, const char* key) {
  size_t n = strlen(key);
  for (const char* p = c->at; p + n + 2 <= c->end; ++p) {
    if (*p != '"' || strncmp(p + 1, key, n) != 0 || p[n + 1] != '"') continue;
    line_cursor value = {p + n + 2, c->end};
    skip_blanks(&value);
    if (value.at == value.end || *value.at != ':') return 0;
    ++value.at;
    skip_blanks(&value);
    c->at = value.at;
    return 1;
  }
  return 0;
}

int line_count(line_cursor* c, uint64_t most, uint64_t* value) {
  uint64_t v = 0;
  const char* p = c->at;
  while (p < c->end && *p >= '0' && *p <= '9') {
    if (v > most / 10) return 0;
    v = v * 10 + (uint64_t)(*p++ - '0');
    if (v > most) return 0;
  }
  if (p == c->at) return 0;
  c->at = p;
  *value = v;
  return 1;
}

int line_field(line_cursor line, const char* key, uint64_t most, uint64_t* value) {
  return line_seek(&line, key) && line_count(&line, most, value);
}

uint64_t line_elements(line_cursor c) {
  if (c.at == c.end || *c.at != '[') return 0;
  uint64_t count = 0;
  int is_number = 0;
  for (++c.at; c.at < c.end && *c.at != ']'; ++c.at) {
    int is_digit = *c.at >= '0' && *c.at <= '9';
    count += (uint64_t)(is_digit && !is_number);
    is_number = is_digit;
  }
  return count;
}

int line_array(line_cursor* c, uint64_t most, uint64_t* values, uint64_t count) {
  if (c->at == c->end || *c->at != '[') return 0;
  ++c->at;
  for (uint64_t i = 0; i < count; ++i) {
    skip_blanks(c);
    if (i > 0 && (c->at == c->end || *c->at != ',')) return 0;
    c->at += i > 0;
    skip_blanks(c);
    if (!line_count(c, most, &values[i])) return 0;
  }
  skip_blanks(c);
  return c->at < c->end && *c->at == ']';
}
