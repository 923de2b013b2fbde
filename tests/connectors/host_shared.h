// What processes that share a store in tests agree on.
#pragma once

#include <string>

#include "tests/connectors/kit.h"

namespace quire {

inline constexpr uint64_t kSharedKeys = 400;
inline constexpr uint64_t kSharedChunk = 4096;

inline kit::Subject shared_subject() {
  kit::Subject subject;
  subject.connector = "host";
  return subject;
}

inline std::string shared_config(const std::string& name) {
  const std::string chunks = ", \"chunk_bytes\": " + std::to_string(kSharedChunk);
  return "{\"bytes\": \"4MiB\"" + chunks + ", \"shared\": \"" + name + "\"}";
}

// The only object that a key ever has; 300 tiny ones, 100 of up to 200 KiB. They do not all fit.
inline kit::Bytes shared_object(uint64_t number) {
  return kit::content(number, number < 300 ? 1 + number * 17 : 1 + (number - 300) * 2048);
}

}  // namespace quire
