// The bytes of an engine: every region of every shard, at the addresses that quire's views state.
// Each row of a token cache and each tensor of a state begins with a stamp of 64 bits, made of the
// history that it was computed from and of the cache that it belongs to. Where a cache has a codec,
// every byte of a row is stamped: elements, scales and tail of all heads. Steps are carried out as
// an engine does it: zeroes, copies, then all rows write, then all rows read what attention may see
// and compare it. Pages change hands between groups, so what one group leaves is what the next one
// finds. A block that a row writes must not hold anything that another group or another owner
// wrote: it was zeroed, or its content is the owner's.
#pragma once

#include <quire/load.h>
#include <quire/memory.h>

#include <array>
#include <cstddef>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "tests/stamps/held_bytes.h"
#include "tests/stamps/row_places.h"
#include "tests/stamps/taken_step.h"

namespace quire::stamps {

// Never 0, so that what was zeroed is not a stamp.
inline uint64_t stamped(uint64_t hash, uint64_t salt) { return ((hash ^ salt) * 0x9e3779b97f4a7c15ull) | 1; }

// Whether one of the failures has a token of the group.
bool fails(std::span<const quire_load_failure> failures, uint32_t group, uint64_t token);

// One tensor of one state on one shard.
struct StatePlace {
  uint32_t layer = 0;
  uint32_t group = 0;
  uint32_t column = 0;
  std::byte* base = nullptr;
  int64_t unit = 0;
  uint64_t salt = 0;
  bool beside = false;  // of a slice that is not the first one, as RowPlace
};

// Regions begin where drivers want them.
template <typename T>
struct PageAllocator {
  static constexpr std::align_val_t kAlignment{4096};
  using value_type = T;

  PageAllocator() = default;
  template <typename Other>
  explicit PageAllocator(const PageAllocator<Other>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* at, size_t) { ::operator delete(at, kAlignment); }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }
};
using PageBytes = std::vector<std::byte, PageAllocator<std::byte>>;

class StampedBytes {
 public:
  explicit StampedBytes(const Plan* plan);

  // The regions of a shard, for a memory that is bound to them.
  std::vector<quire_memory_binding> bindings(uint32_t shard);
  // Others write here, too: who wrote what is not compared any more, only what is read.
  void ignore_owners() { ignores_owners_ = true; }

  // Zeroes and copies. Steps and loads are prepared in the order of their ids.
  void prepare(TakenStep* step);
  // Writes and checks. Throws Mismatch with sequence, position, group, expected and found stamp.
  void run(TakenStep* step);
  // A load's tokens and states arrive, all but those of the failures, which become rubbish.
  void bring(const TakenStep& load, std::span<const quire_load_failure> failures);
  // Whether a table's entry for a kernel block is of no block.
  bool is_null(uint32_t shard, uint32_t group, uint64_t kernel_block, int32_t lowered) const;
  // Of a load: tokens that it need not bring are what they should be.
  void check_shared(const TakenStep& load);
  // Of a hold: all rows and states, in some order, as they are now.
  std::vector<uint64_t> held_values(const HeldBytes& held) const;
  // They are those of the text, which is as long as they are and a token more.
  void check_held(const HeldBytes& held, const TakenRow& text);
  // Some of what a load has lost comes late, and is rubbish.
  void write_late(const LateLoad& late, Dice& dice);
  // Before a commit: the symbol after the last accepted token is another one than was drafted.
  void correct_drafts(const TakenStep& step, size_t row, uint64_t token, const History& text);
  uint64_t reads() const { return reads_; }
  // By codec. Where every byte is stamped, a row is read in pieces, and each of them counts.
  const std::array<uint64_t, kNumCodecs>& reads_of_codecs() const { return reads_of_codecs_; }

 private:
  struct ShardBytes {
    std::vector<PageBytes> regions;
    std::vector<std::vector<uint32_t>> tags;  // of the regions: one for each tag_bytes()
    std::vector<quire_region_info> infos;
    std::vector<quire_lowering> lowering;  // by group
    std::vector<RowPlace> rows;
    std::vector<StatePlace> states;
  };
  void add_shard(uint32_t shard);
  void add_places(uint32_t shard, size_t layer);
  void zero(const quire_zero& zero);
  void zero_page(ShardBytes* shard, uint64_t page);
  void copy(const quire_copy& copy);
  template <typename Visit>
  void each_row(const ShardBytes& shard, const RowPlace& place, int32_t id, uint64_t first, uint64_t end, const Visit& visit) const;
  template <typename Visit>
  void each_held_row(const HeldBytes& held, const ShardBytes& shard, const RowPlace& place, const Visit& visit) const;
  const std::byte* held_state(const HeldBytes& held, const ShardBytes& shard, const StatePlace& place) const;
  static bool lost_row(const RowPlace& place, uint64_t position, std::span<const quire_load_failure> failures);
  // The last state that the only row of a step writes; -1 = none.
  static int32_t written_state(const StatePlace& place, const quire_batch& batch);
  static std::byte* slot_of(const RowPlace& place, int64_t slot, uint64_t position);
  uint64_t tag_bytes() const { return plan_.coded ? 1 : 4; }
  static uint64_t stamp(const RowPlace& place, const TakenRow& row, uint64_t position);
  bool fits(const RowPlace& place, uint64_t position, uint64_t expected, uint64_t found) const;
  bool dead_behind(uint32_t group, uint64_t position, uint64_t end) const;
  static uint32_t tag_of(const RowPlace& place, const TakenRow& row);
  static void put(const RowPlace& place, const TakenRow& row, std::byte* at, uint64_t value);
  void check_block(const RowPlace& place, const TakenRow& row, int64_t slot, uint64_t position) const;
  static std::span<const int64_t> slots_of(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t row);
  void write_row(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t row);
  void write_ahead(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t row);
  void read_row(const RowPlace& place, const quire_batch& batch, const TakenStep& step, size_t row);
  void read_range(const RowPlace& place, const int32_t* table, const TakenRow& row, uint64_t from, uint64_t to);
  void count(const RowPlace& place, uint64_t reads) {
    reads_ += reads;
    reads_of_codecs_[static_cast<size_t>(place.codec)] += reads;
  }
  void run_state(const StatePlace& place, const quire_batch& batch, const TakenStep& step, size_t row);
  [[noreturn]] void report(const char* what, uint32_t layer, uint32_t group, const TakenRow& row, uint64_t position, uint64_t expected,
                           uint64_t found) const;

  const Plan& plan_;
  std::vector<ShardBytes> shards_;
  bool ignores_owners_ = false;
  uint64_t reads_ = 0;
  std::array<uint64_t, kNumCodecs> reads_of_codecs_{};
};

// Visits the addresses of the rows of an id that hold one of the tokens [first, end) of its block.
template <typename Visit>
void StampedBytes::each_row(const ShardBytes& shard, const RowPlace& place, int32_t id, uint64_t first, uint64_t end,
                            const Visit& visit) const {
  const quire_lowering& l = shard.lowering[place.group];
  const auto v = static_cast<uint64_t>(id);
  for (uint64_t t = first / place.ratio; t * place.ratio < end; ++t) {
    if (t % place.ranks != place.rank) continue;
    const uint64_t k = t * place.ratio / place.kernel_block;
    const uint64_t in_block = (t - k * place.kernel_block / place.ratio) / place.ranks;
    const uint64_t lowered = v / l.parts_per_page * l.page_factor + v % l.parts_per_page * l.part_factor + k * l.block_factor;
    visit(place.base + static_cast<int64_t>(lowered) * place.unit + place.row_offset(in_block), t);
  }
}

}  // namespace quire::stamps
