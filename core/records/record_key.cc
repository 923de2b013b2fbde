#include "core/records/record_key.h"

#include <algorithm>

#include "core/events/block_hash.h"
#include "core/records/checksum.h"

namespace quire {
namespace {

std::string numbers(std::initializer_list<uint64_t> values) {
  std::string text;
  for (const uint64_t value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

std::string type_of(const quire_dtype& dtype) { return numbers({dtype.code, dtype.bits, std::max<uint64_t>(dtype.lanes, 1)}); }

std::string rows_of(const quire_kv_view& kv) {
  const quire_codec_params& c = kv.codec_params;
  std::string text = "heads " + std::to_string(kv.model_heads) + ", width " + std::to_string(kv.head_dim[0]);
  if (kv.num_sides > 1) text += " and " + std::to_string(kv.head_dim[1]);
  text += ", type " + type_of(kv.dtype) + ", tokens per row " + std::to_string(std::max(kv.tokens_per_row, 1u));
  text += ", codec " + numbers({static_cast<uint64_t>(kv.codec), c.data_bytes[0], c.data_bytes[1], c.scale_bytes[0], c.scale_bytes[1],
                                c.tail_bytes[0], c.tail_bytes[1], c.scale_elements, c.tile});
  return text + ", " + type_of(c.data_dtype) + ", " + type_of(c.scale_dtype) + ", " + type_of(c.tail_dtype);
}

// Extents over all ranks.
std::string tensor_of(const quire_state_view& view) {
  std::string text = "type " + type_of(view.dtype) + ", shape";
  uint64_t parts = 0;
  for (uint32_t k = 0; k < 4; ++k) parts += view.shard_parts[k] / std::max(view.shard_repeats[k], 1u);
  for (uint32_t k = 0; k < view.ndim; ++k) {
    const bool split = k + 1 == view.shard_dim;
    text += " " + std::to_string(!split ? view.shape[k] : parts != 0 ? parts : view.shape[k] * view.num_ranks);
  }
  return text;
}

std::string cache_of(const PlaceViews& views) {
  if (views.kv.num_sides != 0) return rows_of(views.kv);
  std::string text;
  for (const quire_state_view& state : views.states) text += (text.empty() ? "" : "; ") + tensor_of(state);
  return text;
}

// The tokens that a layer reads decide what later layers cache. Nothing is said of those that read all.
std::string range_of(const LiveRange& live) {
  std::string text;
  if (live.window != 0) text += ", window " + std::to_string(live.window);
  if (live.chunk != 0) text += ", chunk " + std::to_string(live.chunk);
  if (live.sink != 0) text += ", sinks " + std::to_string(live.sink);
  return text;
}

std::array<uint8_t, 32> sha256(std::string_view bytes) { return BlockHasher::sha256(bytes).bytes; }

void put(uint64_t value, std::string* out) {
  for (int i = 0; i < 8; ++i) *out += static_cast<char>(value >> 8 * i);
}

}  // namespace

std::string fingerprint_text(const Config& config, std::string_view weights) {
  std::string text = "record version = " + std::to_string(kRecordVersion) + "\nweights = " + printable(weights) + "\n";
  for (size_t p = 0; p < config.places.size(); ++p) {
    const auto has = [p](const ShardPlan& shard) { return !shard.views[p].empty(); };
    const auto shard = std::find_if(config.shards.begin(), config.shards.end(), has);
    if (shard == config.shards.end()) continue;
    text += "layer " + std::to_string(config.places[p].layer) + "." + std::to_string(config.places[p].sub) + " = " +
            cache_of(shard->views[p]) + range_of(config.places[p].live) + "\n";
  }
  return text;
}

Fingerprint fingerprint_of(std::string_view text) { return sha256(text); }

uint64_t caches_number(const RecordShape& shape) {
  std::vector<uint64_t> caches;
  caches.reserve(shape.members.size());
  for (const RecordMember& member : shape.members) caches.push_back(uint64_t{member.layer} << 32 | member.sub);
  std::sort(caches.begin(), caches.end());
  return checksum(caches.data(), caches.size() * sizeof caches[0]);
}

PartName part_name(const RecordShape& shape, const LiveRange& live) {
  std::string bytes = "quire part 1";
  for (const uint64_t number : {live.sink, live.window, live.chunk, uint64_t{live.state}, uint64_t{live.fixed}}) put(number, &bytes);
  std::vector<RecordMember> members = shape.members;
  std::sort(members.begin(), members.end());
  for (const RecordMember& member : members) {
    const CacheSlice& slice = shape.slices[member.slice];
    for (const uint32_t number : {member.layer, member.sub, slice.first_head, slice.num_heads, slice.context_rank, slice.context_ranks}) {
      put(number, &bytes);
    }
    put(slice.tensors.size(), &bytes);
    for (const StateSlice& tensor : slice.tensors) {
      put(tensor.rank, &bytes);
      put(tensor.num_ranks, &bytes);
    }
  }
  return sha256(bytes);
}

RecordKey record_key(const Fingerprint& fingerprint, const PartName& part, uint64_t begin, uint64_t end, const PrefixName& prefix) {
  std::string bytes = "quire record 1";
  for (const std::array<uint8_t, 32>* name : {&fingerprint, &part, &prefix}) bytes.append(name->begin(), name->end());
  put(begin, &bytes);
  put(end, &bytes);
  return sha256(bytes);
}

}  // namespace quire
