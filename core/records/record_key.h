// Names of records. A key covers everything that changes the bytes of what it names and nothing
// else: a plan with other pages, blocks or devices finds the same records.
#pragma once

#include <string>
#include <string_view>

#include "core/events/prefix_digest.h"
#include "core/model/live_range.h"
#include "core/plan/cache_config.h"
#include "core/records/record_header.h"

namespace quire {

// One line for every fact of the model's caches that a record depends on, each "name = value".
// weights: what the engine calls the weights; nobody can derive it, and it must not be empty.
std::string fingerprint_text(const Config& config, std::string_view weights);
Fingerprint fingerprint_of(std::string_view text);

// What a shard has of a family, for keys: layers, slices and live range; not their order or
// blocks.
using PartName = std::array<uint8_t, 32>;
PartName part_name(const RecordShape& shape, const LiveRange& live);

// The same number where two records are of the same layers, in whatever order.
uint64_t caches_number(const RecordShape& shape);

// The record of tokens [begin, end) of a prefix with this name; a state: begin == end.
RecordKey record_key(const Fingerprint& fingerprint, const PartName& part, uint64_t begin, uint64_t end, const PrefixName& prefix);

}  // namespace quire
