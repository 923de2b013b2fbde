/* line.h: reads one line of JSON by the names of its fields. Fields may stand in any order; what
 * is not asked for is skipped. The values are numbers and arrays of numbers, never nested. */
#ifndef ENGINE_LINE_H_
#define ENGINE_LINE_H_

#include <stdint.h>

/* The text that is left. */
typedef struct line_cursor {
  const char* at;
  const char* end;
} line_cursor;

/* Finds "key": and moves past it. Returns whether it is there. */
int line_seek(line_cursor* c, const char* key);
/* Reads a number of at most `most`, itself at most 2^60, and moves past it. Returns whether it is
 * one. */
int line_count(line_cursor* c, uint64_t most, uint64_t* value);
/* seek and count from the begin of the line, without moving. Returns whether it is there. */
int line_field(line_cursor line, const char* key, uint64_t most, uint64_t* value);
/* The elements of the array that begins here; 0 if it is empty or none. */
uint64_t line_elements(line_cursor c);
/* Reads an array of `count` numbers of at most `most`. */
int line_array(line_cursor* c, uint64_t most, uint64_t* values, uint64_t count);

#endif
