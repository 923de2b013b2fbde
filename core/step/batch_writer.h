// The arrays of a step that ops read, of all groups, in one block of memory (quire_step_get_batch).
// What each array holds is what the fill of its kind writes; this file only lays them out.
#pragma once

#include <quire/step.h>

#include <cstring>

#include "core/step/filling.h"
#include "core/step/step_reader.h"

namespace quire {

template <typename Source>
class BatchWriter {
 public:
  BatchWriter(const Source& source, const quire_batch_options& options) : source_(source), o_(options) {}

  // The shape. The caller checks `shard`, `memory` and `address` for alignment.
  Status check() const {
    if (o_.shard >= config().shards.size()) return fail(QUIRE_OUT_OF_RANGE, "shard: %u of %zu", o_.shard, config().shards.size());
    if (o_.num_rows != 0 && o_.num_rows < source_.num_rows()) {
      return fail(QUIRE_OUT_OF_RANGE, "num_rows: %u, the step has %zu", o_.num_rows, static_cast<size_t>(source_.num_rows()));
    }
    if (o_.num_tokens != 0 && o_.num_tokens < source_.num_tokens()) {
      return fail(QUIRE_OUT_OF_RANGE, "num_tokens: %u, the step has %llu", o_.num_tokens,
                  static_cast<unsigned long long>(source_.num_tokens()));
    }
    return {};
  }

  // The bytes needed; nothing is written. Errors: products beyond 63 bits.
  Result<uint64_t> measure() {
    begin(nullptr);
    return finish(nullptr, nullptr);
  }
  // Into memory that measure() found large enough.
  void write(PutBatch put, void* user) {
    begin(static_cast<unsigned char*>(o_.memory));
    (void)finish(put, user);
  }

 private:
  const Config& config() const { return source_.config(); }
  uint64_t rows() const { return o_.num_rows != 0 ? o_.num_rows : source_.num_rows(); }
  uint64_t tokens() const { return o_.num_tokens != 0 ? o_.num_tokens : source_.num_tokens(); }
  bool fixed_shape() const { return o_.num_rows != 0 && o_.num_tokens != 0; }

  void begin(unsigned char* memory) {
    memory_ = memory;
    used_ = 0;
    status_ = {};
  }

  // One array: room for it, its content where there is memory, and where kernels find it.
  struct Placed {
    const void* at = nullptr;
    uint64_t column_pitch = 0;
    unsigned char* here = nullptr;  // for this host
    template <typename T>
    const T* as() const {
      return static_cast<const T*>(at);
    }
  };
  Placed place(quire_fill_kind kind, uint32_t group, uint64_t pitch, uint64_t at_least = 0) {
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = kind;
    fill.group = group;
    fill.shard = o_.shard;
    fill.pitch = pitch;
    fill.num_rows = o_.num_rows;
    fill.num_tokens = o_.num_tokens;
    FillTarget target{nullptr, 0, config().groups[group].ids_per_block, 0, 0};
    auto elements = Filling<Source>(source_, fill, &target).measure();
    if (!elements.ok()) {
      if (status_.ok()) status_ = elements.take_status();
      return {};
    }
    const uint64_t bytes = kind == QUIRE_FILL_SLOTS ? sizeof(int64_t) : sizeof(int32_t);
    const auto size = checked_mul(std::max(*elements, at_least), bytes);
    const auto end = size ? checked_add(used_, *size) : size;
    if (!end || *end > kMaxBlock) {
      if (status_.ok()) status_ = fail(QUIRE_OUT_OF_RANGE, "batch: the arrays pass 2^62 bytes");
      return {};
    }
    const uint64_t offset = used_;
    used_ = (*end + kAlignment - 1) / kAlignment * kAlignment;
    if (memory_ == nullptr) return {};
    fill.destination = target.destination = memory_ + offset;
    Filling<Source>(source_, fill, &target).write();
    const auto* base = o_.address != nullptr ? static_cast<const unsigned char*>(o_.address) : memory_;
    std::memset(memory_ + offset + *size, 0, used_ - offset - *size);
    return {base + offset, target.column_pitch, memory_ + offset};
  }
  // Fills the rest of a list that has a fixed length, so that nothing of an earlier step remains.
  template <typename T>
  void pad(const Placed& placed, uint32_t columns, uint64_t begin, uint64_t end, T value) const {
    if (placed.here == nullptr) return;
    for (uint32_t c = 0; c < columns; ++c) {
      T* column = reinterpret_cast<T*>(placed.here) + c * placed.column_pitch;
      if (begin < end) std::fill(column + begin, column + end, value);
    }
  }

  Result<uint64_t> finish(PutBatch put, void* user) {
    quire_batch shared{};
    shared.struct_size = sizeof shared;
    shared.num_rows = static_cast<uint32_t>(rows());
    shared.num_tokens = static_cast<uint32_t>(tokens());
    shared.query_indptr = place(QUIRE_FILL_QUERY_INDPTR, 0, 1).template as<int32_t>();
    shared.positions = place(QUIRE_FILL_POSITIONS, 0, 1).template as<int32_t>();
    Placed lengths;  // of all groups but those of cross attention
    bool have_lengths = false;
    for (uint32_t g = 0; g < config().groups.size() && status_.ok(); ++g) {
      quire_batch batch = shared;
      const GroupPlan& group = config().groups[g];
      batch.group = g;
      batch.num_columns = group.ids_per_block;
      if (!group.live.fixed && !have_lengths) {
        lengths = place(QUIRE_FILL_KV_LEN, g, 1);
        have_lengths = true;
      }
      batch.kv_len = (group.live.fixed ? place(QUIRE_FILL_KV_LEN, g, 1) : lengths).template as<int32_t>();
      if (group.is_state()) {
        states(g, &batch);
      } else {
        tables(g, group, &batch);
      }
      if (put != nullptr && status_.ok()) put(user, g, batch);
    }
    if (!status_.ok()) return std::move(status_);
    return used_;
  }

  void tables(uint32_t g, const GroupPlan& group, quire_batch* batch) {
    quire_fill fill{};
    fill.group = g;
    fill.shard = o_.shard;
    FillTarget none{};
    const Filling<Source> lengths(source_, fill, &none);
    uint64_t pitch = (o_.flags & QUIRE_BATCH_MAX_PITCH) != 0 ? group.table_pitch(config().max_model_len) : 1;
    uint64_t slots = 0;
    for (size_t r = 0; r < source_.num_rows(); ++r) {
      pitch = std::max(pitch, lengths.row_length(r));
      slots += lengths.num_new(r);
    }
    const Placed table = place(QUIRE_FILL_TABLE, g, pitch);
    // A fixed shape has room for the encoders of all its rows.
    const uint64_t encoders = group.live.fixed && fixed_shape() ? rows() * group.encoder_tokens : 0;
    const Placed places = place(QUIRE_FILL_SLOTS, g, encoders);
    batch->table = table.template as<int32_t>();
    batch->table_pitch = pitch;
    batch->table_column_pitch = table.column_pitch;
    batch->slots = places.template as<int64_t>();
    batch->num_slots = !group.live.fixed ? tokens() : fixed_shape() ? encoders : slots;
    if (encoders != 0) pad<int64_t>(places, batch->num_columns, slots, encoders, -1);
    batch->slots_column_pitch = places.column_pitch;
  }

  void states(uint32_t g, quire_batch* batch) {
    const Placed read = place(QUIRE_FILL_STATE_READ, g, 1);
    batch->state_read = read.template as<int32_t>();
    batch->state_read_column_pitch = read.column_pitch;
    const bool lists = source_.writes_lists();
    const uint64_t most = lists && fixed_shape() ? rows() + tokens() : 0;  // one per token, and one at the end of a row
    const Placed write = place(lists ? QUIRE_FILL_STATE_WRITES : QUIRE_FILL_STATE_WRITE, g, lists ? most : 1);
    batch->state_write = write.template as<int32_t>();
    batch->state_write_column_pitch = write.column_pitch;
    if (!lists) return;
    batch->state_write_indptr = place(QUIRE_FILL_STATE_WRITE_INDPTR, g, 1).template as<int32_t>();
    const Placed ends = place(QUIRE_FILL_STATE_WRITE_ENDS, g, 1, most);
    batch->state_write_ends = ends.template as<int32_t>();
    uint64_t count = 0;
    for (size_t r = 0; r < source_.num_rows(); ++r) count += source_.num_writes(r, g);
    pad<int32_t>(write, batch->num_columns, count, most, -1);
    pad<int32_t>(ends, 1, count, most, 0);
  }

  static constexpr uint64_t kAlignment = 16;
  static constexpr uint64_t kMaxBlock = uint64_t{1} << 62;

  const Source& source_;
  const quire_batch_options& o_;
  unsigned char* memory_ = nullptr;
  uint64_t used_ = 0;
  Status status_;
};

// *bytes: those needed. Nothing else is written where there are fewer, and nothing is an error
// where the caller asks for the size only.
template <typename Source>
Status write_batch(const Source& source, const quire_batch_options& options, PutBatch put, void* user, uint64_t* bytes) {
  BatchWriter<Source> writer(source, options);
  QUIRE_RETURN_IF_ERROR(writer.check());
  auto needed = writer.measure();
  if (!needed.ok()) return needed.take_status();
  *bytes = *needed;
  if (options.memory == nullptr && options.bytes == 0) return {};
  if (options.bytes < *needed) {
    return fail(QUIRE_OUT_OF_RANGE, "bytes: %llu, %llu needed", static_cast<unsigned long long>(options.bytes),
                static_cast<unsigned long long>(*needed));
  }
  writer.write(put, user);
  return {};
}

}  // namespace quire
