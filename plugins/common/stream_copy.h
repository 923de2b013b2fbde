// Copies of much that is read again late, if ever: where it helps they pass the caches.
#pragma once

#include <cstdint>

namespace quire::plugins {

// As memcpy. What it writes is in sight of other threads after end_of_stream_copies() only.
void stream_copy(void* to, const void* from, uint64_t bytes);
void end_of_stream_copies();

}  // namespace quire::plugins
