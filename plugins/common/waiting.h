// Waiting for completions at a descriptor that is readable while there are some.
#pragma once

#include <quire/connector.h>

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <span>

namespace quire::plugins {

inline int64_t monotonic() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// As `poll` of quire_connector_api. take(items): how many completions it wrote.
template <typename Take>
uint64_t poll_at(int fd, int64_t timeout_ns, std::span<quire_completion> items, Take take) {
  const int64_t begin = timeout_ns > 0 ? monotonic() : 0;
  while (true) {
    const uint64_t n = take(items);
    if (n != 0 || items.empty() || timeout_ns == 0) return n;
    timespec rest = {};
    if (timeout_ns > 0) {
      const int64_t left = timeout_ns - std::min(timeout_ns, monotonic() - begin);
      if (left == 0) return 0;
      rest = {left / 1'000'000'000, left % 1'000'000'000};
    }
    pollfd readable = {fd, POLLIN, 0};
    ppoll(&readable, 1, timeout_ns > 0 ? &rest : nullptr, nullptr);
  }
}

}  // namespace quire::plugins
