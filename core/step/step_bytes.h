// A step as bytes, for followers: what filling.h asks of a source, the lists of the step, and
// enough of the plan to recognise a different one. All numbers are little-endian.
//
//   u32 magic
//   u32 version
//   u64 bytes, this header included
//   u64 checksum of everything else
//   u64 digest of the plan
//   then LEB128 numbers, signed ones folded: a summary of the plan, the step, its rows, its ids by
//   group and row, copies, zeroes
//
// Ids are written as runs of equal differences. A prompt in consecutive blocks takes a few bytes,
// however long it is.
#pragma once

#include <quire/step.h>

#include <algorithm>
#include <span>

#include "core/base/checked.h"
#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/plan/cache_config.h"
#include "core/step/id_pieces.h"

namespace quire {

inline constexpr uint32_t kStepMagic = 0x70747371u;  // "qstp"
inline constexpr uint32_t kStepVersion = 2;
inline constexpr uint64_t kStepHeaderBytes = 32;

// Counts bytes, and writes them where there is room.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<uint8_t> bytes) : bytes_(bytes) {}
  void byte(uint8_t value) {
    if (size_ < bytes_.size()) bytes_[size_] = value;
    ++size_;
  }
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  void difference(int64_t value) { number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void fixed(uint64_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; ++i) byte(static_cast<uint8_t>(value >> 8 * i));
  }
  uint64_t size() const { return size_; }

 private:
  std::span<uint8_t> bytes_;
  uint64_t size_ = 0;
};

// Ids as runs of equal differences.
class IdWriter {
 public:
  explicit IdWriter(ByteWriter* to) : to_(to) {}
  void put(int32_t id) {
    const int64_t difference = int64_t{id} - last_;
    last_ = id;
    if (count_ > 0 && difference == difference_) {
      ++count_;
      return;
    }
    flush();
    difference_ = difference;
    count_ = 1;
  }
  void finish() {  // the list; the next one begins anew
    flush();
    last_ = 0;
  }

 private:
  void flush() {
    if (count_ == 0) return;
    to_->difference(difference_);
    to_->number(count_);
    count_ = 0;
  }

  ByteWriter* to_;
  int64_t last_ = 0, difference_ = 0;
  uint64_t count_ = 0;
};

// Reads what a ByteWriter wrote. After the end, or after bytes that are not a number, every result
// is 0 and good() is false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t number();
  int64_t difference() {
    const uint64_t folded = number();
    return static_cast<int64_t>(folded >> 1) ^ -static_cast<int64_t>(folded & 1);
  }
  uint64_t fixed(uint32_t bytes);
  // Ids from least to below limit.
  void ids(std::span<int32_t> out, int32_t least, uint64_t limit);
  bool good() const { return good_; }
  bool at_end() const { return good_ && at_ == bytes_.size(); }
  void spoil() { good_ = false; }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool good_ = true;
};

// The order of a group's numbers in the short plan, for messages.
inline constexpr const char* kGroupFacts[] = {"block_tokens", "kernel_block_tokens", "parts_per_page", "ids_per_block", "is_state"};
inline uint64_t group_fact(const GroupPlan& g, size_t fact) {
  const uint64_t all[] = {g.block_tokens, g.kernel_block_tokens, g.parts_per_page, g.ids_per_block, g.is_state() ? 1u : 0u};
  return all[fact];
}

// Whatever ids and bytes depend on: plans of one digest place everything alike.
uint64_t plan_digest(const Config& config);

// Writes size and checksum into the header of bytes that are complete otherwise.
void seal(std::span<uint8_t> bytes);
// Whether they are complete, unchanged and of this version. Errors: DATA_LOSS, INCOMPATIBLE_ABI.
Status check_seal(std::span<const uint8_t> bytes);

struct StepLists {
  StepId id;
  uint64_t digest;
  std::span<const quire_copy> copies;
  std::span<const quire_zero> zeroes;
};

template <typename Source>
void write_tokens(const Source& step, uint32_t g, size_t r, ByteWriter* to) {
  const GroupPlan& plan = step.config().groups[g];
  const uint64_t blocks = ceil_div(plan.live.fixed ? step.encoder(r) : step.end(r), plan.block_tokens);
  to->number(std::min<uint64_t>(step.settled(r, g), blocks));
  to->number(std::min<uint64_t>(step.here(r, g), blocks));
  for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
    IdWriter writer(to);
    each_piece(step, TableStretch{r, g, c, 0, blocks}, [&](auto ids) {
      for (const int32_t id : ids) writer.put(id);
    });
    writer.finish();
  }
}

template <typename Source>
void write_states(const Source& step, uint32_t g, size_t r, ByteWriter* to) {
  IdWriter writer(to);
  const auto put = [&](uint32_t, int32_t id) { writer.put(id); };
  step.state_read(r, g, put);
  step.state_write(r, g, put);
  writer.finish();
  to->number(step.num_writes(r, g));
  for (uint32_t i = 0; i < step.num_writes(r, g); ++i) to->number(step.write_end(r, g, i));
  for (uint32_t i = 0; i < step.num_writes(r, g); ++i) step.write(r, g, i, put);
  writer.finish();
}

// Everything but the seal.
template <typename Source>
void write_step(const Source& step, const StepLists& lists, ByteWriter* to) {
  const Config& config = step.config();
  to->fixed(kStepMagic, 4);
  to->fixed(kStepVersion, 4);
  to->fixed(0, 8);  // bytes and checksum: seal
  to->fixed(0, 8);
  to->fixed(lists.digest, 8);
  for (const uint64_t fact : {config.num_pages, config.max_model_len, uint64_t{config.groups.size()}}) to->number(fact);
  for (const GroupPlan& g : config.groups) {
    for (size_t fact = 0; fact < std::size(kGroupFacts); ++fact) to->number(group_fact(g, fact));
  }
  for (const uint64_t count : {lists.id.value, uint64_t{step.num_rows()}, uint64_t{lists.copies.size()}, uint64_t{lists.zeroes.size()}}) {
    to->number(count);
  }
  const bool encoder = std::any_of(config.groups.begin(), config.groups.end(), [](const GroupPlan& g) { return g.encoder_tokens > 0; });
  for (size_t r = 0; r < step.num_rows(); ++r) {
    to->number(step.position(r));
    to->number(step.num_tokens(r));
    if (encoder) to->number(step.encoder(r));
  }
  for (uint32_t g = 0; g < config.groups.size(); ++g) {
    for (size_t r = 0; r < step.num_rows(); ++r) {
      config.groups[g].is_state() ? write_states(step, g, r, to) : write_tokens(step, g, r, to);
    }
  }
  for (const quire_copy& c : lists.copies) {
    for (const uint32_t field :
         {c.group, c.column, static_cast<uint32_t>(c.source), static_cast<uint32_t>(c.destination), c.first_token, c.num_tokens}) {
      to->number(field);
    }
  }
  for (const quire_zero& z : lists.zeroes) {
    // The group of a whole page is 0.
    for (const uint32_t field : {z.group + 1, z.column, static_cast<uint32_t>(z.id)}) to->number(field);
  }
}

}  // namespace quire
