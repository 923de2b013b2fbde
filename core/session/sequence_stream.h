// A sequence as one stream of bytes: quire/session.h, call by call. The records are those of tiers,
// one after the other; what differs is who asks for them: nobody looks anything up.
#pragma once

#include <quire/session.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/memory/shard_memory.h"
#include "core/step/kv_cache.h"

namespace quire {

// Where the bytes of a cache are, and of which weights.
struct SessionPlace {
  std::string_view weights;
  std::vector<std::shared_ptr<Memory>> memories;  // by shard
  std::vector<std::shared_ptr<Stream>> streams;
};

using SessionWrite = std::function<Status(std::span<const uint8_t> bytes)>;
using SessionRead = std::function<Status(std::span<uint8_t> bytes)>;

// *info: zero before.
Status save_session(const std::shared_ptr<Cache>& cache, SequenceId sequence, const SessionPlace& place,
                    std::span<const quire_symbol> symbols, const SessionWrite& write, quire_session_info* info);
// symbols: room; the first info->num_tokens are written.
Status restore_session(const std::shared_ptr<Cache>& cache, SequenceId sequence,  // an empty one
                       const SessionPlace& place, const SessionRead& read,        // all of it
                       std::span<quire_symbol> symbols, quire_session_info* info);

}  // namespace quire
