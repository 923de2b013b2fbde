/* wire.h: lines of text over TCP, between the router and its workers. README.md has the lines. */
#ifndef DISAGGREGATED_WIRE_H_
#define DISAGGREGATED_WIRE_H_

#include <stddef.h>

typedef struct wire {
  int fd;     /* -1 = closed */
  char* text; /* received */
  size_t bytes, capacity;
  size_t taken; /* of these: lines that were given out */
} wire;

/* address: HOST:PORT in numbers. Both complain and return a socket, or -1. wire_listen prints the
 * port: 0 takes a free one. */
int wire_listen(const char* address);
int wire_connect(const char* address);
void wire_open(wire* w, int fd);
void wire_close(wire* w);
/* Waits up to timeout_ms for something and reads it. Returns 0 when the other side is gone. */
int wire_receive(wire* w, int timeout_ms);
/* The next whole line without its end, NULL = none. It is valid until the next wire_receive. */
char* wire_line(wire* w);
/* Sends all of it. Returns 0 when the other side is gone, or took nothing for a second. */
int wire_send(wire* w, const char* text, size_t bytes);
/* The number that the text begins with, and moves past it and a blank. A text without one gives 0.
 */
unsigned long long wire_number(char** text);
/* The word that the text begins with, and moves past it. */
char* wire_word(char** text);

#endif
