#include "core/step/step_bytes.h"

namespace quire {
namespace {

// Not for secrets: a change of one word always changes the sum, any other with all but 2^-64.
class Checksum {
 public:
  void add(uint64_t word) {
    sum_ = (sum_ ^ word) * 0x9e3779b97f4a7c15u;
    sum_ ^= sum_ >> 29;
  }
  void add(std::span<const uint8_t> bytes) {
    for (size_t at = 0; at < bytes.size(); at += 8) {
      uint64_t word = 0;
      for (size_t i = 0; i < std::min<size_t>(8, bytes.size() - at); ++i) word |= uint64_t{bytes[at + i]} << 8 * i;
      add(word);
    }
    add(bytes.size());
  }
  uint64_t sum() const { return sum_; }

 private:
  uint64_t sum_ = 0x71756972652d7374u;
};

constexpr size_t kSizeAt = 8, kSumAt = 16;

uint64_t sum_of(std::span<const uint8_t> bytes) {
  Checksum sum;
  sum.add(bytes.first(kSumAt));
  sum.add(bytes.subspan(kSumAt + 8));
  return sum.sum();
}

void put_word(std::span<uint8_t> bytes, size_t at, uint64_t word) {
  for (size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<uint8_t>(word >> 8 * i);
}

}  // namespace

uint64_t ByteReader::number() {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 64 && good_ && at_ < bytes_.size(); shift += 7) {
    const uint8_t byte = bytes_[at_++];
    if (shift == 63 && byte > 1) break;  // beyond 64 bits
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  good_ = false;
  return 0;
}

uint64_t ByteReader::fixed(uint32_t bytes) {
  if (!good_ || bytes_.size() - at_ < bytes) {
    good_ = false;
    return 0;
  }
  uint64_t value = 0;
  for (uint32_t i = 0; i < bytes; ++i) value |= uint64_t{bytes_[at_++]} << 8 * i;
  return value;
}

void ByteReader::ids(std::span<int32_t> out, int32_t least, uint64_t limit) {
  int64_t id = 0;
  for (size_t i = 0; i < out.size() && good_;) {
    const int64_t step = difference();
    const uint64_t count = number();
    constexpr int64_t kFar = int64_t{1} << 32;
    if (count == 0 || count > out.size() - i || step < -kFar || step > kFar) return spoil();
    for (const size_t end = i + count; i < end; ++i) {
      id += step;
      if (id < least || id >= static_cast<int64_t>(limit)) return spoil();
      out[i] = static_cast<int32_t>(id);
    }
  }
}

uint64_t plan_digest(const Config& config) {
  Checksum sum;
  for (const uint64_t fact : {config.num_pages, config.max_model_len, uint64_t{config.context_parallel}, uint64_t{config.match_unit_tokens},
                              uint64_t{config.hit_alignment_tokens}, uint64_t{config.groups.size()}, uint64_t{config.places.size()},
                              uint64_t{config.shards.size()}}) {
    sum.add(fact);
  }
  for (const GroupPlan& g : config.groups) {
    for (size_t fact = 0; fact < std::size(kGroupFacts); ++fact) sum.add(group_fact(g, fact));
    for (const uint64_t fact : {g.live.sink, g.live.window, g.live.retained, g.live.chunk, uint64_t{g.live.state}, uint64_t{g.live.fixed},
                                uint64_t{g.kernel_blocks_per_part}, uint64_t{g.num_lanes}, uint64_t{g.look_ahead}, g.encoder_tokens,
                                g.payload_bytes_per_block, g.page_bytes_per_block, uint64_t{g.places.size()}}) {
      sum.add(fact);
    }
    sum.add(std::span(reinterpret_cast<const uint8_t*>(g.order.data()), g.order.size()));
  }
  for (const CachePlace& p : config.places) {
    for (const uint32_t fact : {p.layer, p.sub, p.cache, p.group.value, p.lane, p.index_in_lane, p.column, p.stage}) sum.add(fact);
  }
  for (const ShardPlan& s : config.shards) {
    sum.add(s.page_bytes);
    for (const quire_region_info& r : s.regions) {
      for (const uint64_t fact : {r.bytes, r.page_stride, r.num_planes}) sum.add(fact);
    }
    for (const quire_lowering& l : s.lowering) {
      for (const uint64_t fact : {uint64_t{l.parts_per_page}, uint64_t{l.kernel_blocks_per_part}, l.page_factor, l.part_factor,
                                  l.block_factor, l.num_lowered_ids}) {
        sum.add(fact);
      }
    }
  }
  return sum.sum();
}

void seal(std::span<uint8_t> bytes) {
  put_word(bytes, kSizeAt, bytes.size());
  put_word(bytes, kSumAt, sum_of(bytes));
}

Status check_seal(std::span<const uint8_t> bytes) {
  if (bytes.size() < kStepHeaderBytes) {
    return fail(QUIRE_DATA_LOSS, "size: %zu bytes, a step has at least %llu", bytes.size(),
                static_cast<unsigned long long>(kStepHeaderBytes));
  }
  ByteReader reader(bytes);
  if (reader.fixed(4) != kStepMagic) return fail(QUIRE_DATA_LOSS, "bytes: no step that was exported");
  if (const uint64_t version = reader.fixed(4); version != kStepVersion) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "bytes: version %llu of a step's format, this library reads %u",
                static_cast<unsigned long long>(version), kStepVersion);
  }
  if (const uint64_t size = reader.fixed(8); size != bytes.size()) {
    return fail(QUIRE_DATA_LOSS, "size: %zu bytes, the step had %llu", bytes.size(), static_cast<unsigned long long>(size));
  }
  if (reader.fixed(8) != sum_of(bytes)) return fail(QUIRE_DATA_LOSS, "bytes: the checksum is another one");
  return {};
}

}  // namespace quire
