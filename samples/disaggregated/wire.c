#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "engine_text.h"

enum { READ_BYTES = 1 << 16, MOST_LINE_BYTES = 1 << 24, SEND_SECONDS = 1, BACKLOG = 16 };

/* A socket of the address: connected, or bound. */
static int open_socket(const char* address, int is_listener) {
  char host[256];
  const char* colon = strrchr(address, ':');
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo* found = NULL;
  int on = 1;
  if (colon == NULL || (size_t)(colon - address) >= sizeof host ||
      snprintf(host, sizeof host, "%.*s", (int)(colon - address), address) <= 0 ||
      getaddrinfo(host, colon + 1, &hints, &found) != 0) {
    (void)complain("%s is not an address like 127.0.0.1:7900", address);
    return -1;
  }
  int fd = socket(found->ai_family, SOCK_STREAM, 0);
  if (fd >= 0 && is_listener) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int failed = fd < 0 || (is_listener ? bind(fd, found->ai_addr, found->ai_addrlen)
                                      : connect(fd, found->ai_addr, found->ai_addrlen)) != 0;
  if (failed) (void)complain("%s: %s", address, strerror(errno));
  freeaddrinfo(found);
  if (!failed) return fd;
  if (fd >= 0) (void)close(fd);
  return -1;
}

int wire_listen(const char* address) {
  struct sockaddr_storage bound = {0};
  socklen_t size = sizeof bound;
  int fd = open_socket(address, 1);
  if (fd < 0) return -1;
  if (listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr*)&bound, &size) != 0) {
    (void)complain("%s: %s", address, strerror(errno));
    (void)close(fd);
    return -1;
  }
  (void)printf("port %u\n",
               ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6*)&bound)->sin6_port
                                                 : ((struct sockaddr_in*)&bound)->sin_port));
  (void)fflush(stdout);
  return fd;
}

int wire_connect(const char* address) { return open_socket(address, 0); }

void wire_open(wire* w, int fd) {
  const struct timeval patience = {.tv_sec = SEND_SECONDS};
  int on = 1;
  memset(w, 0, sizeof *w);
  w->fd = fd;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

void wire_close(wire* w) {
  if (w->fd >= 0) (void)close(w->fd);
  free(w->text);
  memset(w, 0, sizeof *w);
  w->fd = -1;
}

int wire_receive(wire* w, int timeout_ms) {
  struct pollfd input = {.fd = w->fd, .events = POLLIN};
  if (poll(&input, 1, timeout_ms) <= 0) return 1;
  w->bytes -= w->taken;
  if (w->taken != 0) memmove(w->text, w->text + w->taken, w->bytes);
  w->taken = 0;
  if (w->capacity - w->bytes < READ_BYTES) {
    size_t capacity = 2 * w->capacity + READ_BYTES;
    char* grown = capacity > MOST_LINE_BYTES ? NULL : realloc(w->text, capacity);
    if (grown == NULL) return 0;
    w->text = grown;
    w->capacity = capacity;
  }
  ssize_t got = recv(w->fd, w->text + w->bytes, READ_BYTES, 0);
  if (got < 0) return errno == EINTR;
  w->bytes += (size_t)got;
  return got != 0;
}

char* wire_line(wire* w) {
  char* line = w->bytes == w->taken ? NULL : w->text + w->taken;
  char* end = line == NULL ? NULL : memchr(line, '\n', w->bytes - w->taken);
  if (end == NULL) return NULL;
  *end = '\0';
  w->taken = (size_t)(end - w->text) + 1;
  return line;
}

int wire_send(wire* w, const char* text, size_t bytes) {
  while (bytes != 0) {
    ssize_t sent = send(w->fd, text, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return 0;
    text += sent;
    bytes -= (size_t)sent;
  }
  return 1;
}

unsigned long long wire_number(char** text) {
  char* end = *text;
  unsigned long long value = strtoull(*text, &end, 10);
  *text = end + (end != *text && *end == ' ');
  return value;
}

char* wire_word(char** text) {
  char* word = *text;
  size_t n = strcspn(word, " ");
  *text = word + n + (word[n] != '\0');
  word[n] = '\0';
  return word;
}
