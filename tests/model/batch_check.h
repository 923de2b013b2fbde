// The batches of a step against the fills of the same step, array by array, in the step's own shape
// and in a fixed one.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "core/step/step_reader.h"

namespace quire::model {

class BatchCheck {
 public:
  // Empty, or the first array that differs.
  std::string compare(StepReader& reader, StepId step) {
    quire_step_info info{};
    if (!reader.step_info(step, &info).ok()) return "no such step";
    for (uint32_t shard = 0; shard < reader.config().shards.size(); ++shard) {
      for (const uint32_t more : {0u, 3u}) {
        options_ = {};
        options_.struct_size = sizeof options_;
        options_.shard = shard;
        if (more != 0) {
          options_.flags = QUIRE_BATCH_MAX_PITCH;
          options_.num_rows = info.num_rows + more;
          options_.num_tokens = static_cast<uint32_t>(info.num_tokens) + more;
        }
        std::string wrong = in_this_shape(reader, step);
        if (!wrong.empty()) return wrong;
      }
    }
    return "";
  }

 private:
  static constexpr uint64_t kFar = uint64_t{1} << 40;  // where "the device" has the block

  std::string in_this_shape(StepReader& reader, StepId step) {
    uint64_t bytes = 0;
    batches_.clear();
    const PutBatch put = [](void* user, uint32_t, const quire_batch& batch) {
      static_cast<std::vector<quire_batch>*>(user)->push_back(batch);
    };
    if (!reader.step_batch(step, options_, put, &batches_, &bytes).ok() || !batches_.empty()) return "batch: size";
    memory_.assign(bytes / sizeof(Line) + 1, Line{});
    options_.memory = memory_.data();
    options_.bytes = bytes - 1;
    if (reader.step_batch(step, options_, put, &batches_, &bytes).code() != QUIRE_OUT_OF_RANGE) return "batch: a byte too few is taken";
    if (std::memcmp(memory_.data(), std::vector<Line>(memory_.size()).data(), bytes) != 0) return "batch: written without room";
    options_.bytes = bytes;
    options_.address = reinterpret_cast<const void*>(kFar);
    if (!reader.step_batch(step, options_, put, &batches_, &bytes).ok()) return "batch";
    if (std::memcmp(&memory_.back(), std::vector<Line>(1).data(), sizeof(Line)) != 0) return "batch: beyond its bytes";
    if (batches_.size() != reader.config().groups.size()) return "batch: groups";
    for (uint64_t i = 0; i < bytes / sizeof(uint32_t); ++i) {
      if (reinterpret_cast<const uint32_t*>(memory_.data())[i] == 0x5a5a5a5aU) return "batch: bytes that nobody wrote";
    }
    for (uint32_t g = 0; g < batches_.size(); ++g) {
      std::string wrong = of_group(reader, step, g, bytes);
      if (!wrong.empty()) return "batch of group " + std::to_string(g) + ": " + wrong;
    }
    return "";
  }

  std::string of_group(StepReader& reader, StepId step, uint32_t g, uint64_t bytes) {
    const GroupPlan& plan = reader.config().groups[g];
    const quire_batch& b = batches_[g];
    if (b.group != g || b.num_columns != plan.ids_per_block) return "group, num_columns";
    const auto same_column = [&](quire_fill_kind kind, const void* array, uint64_t pitch, uint64_t column_pitch, uint32_t column) {
      quire_fill fill{};
      fill.struct_size = sizeof fill;
      fill.kind = kind;
      fill.group = g;
      fill.shard = options_.shard;
      fill.pitch = pitch;
      fill.first_column = column;
      fill.num_columns = 1;
      fill.num_rows = options_.num_rows;
      fill.num_tokens = options_.num_tokens;
      uint64_t needed = 0;
      (void)reader.step_fill(step, fill, &needed);
      if (needed == 0) return true;
      const uint64_t element = kind == QUIRE_FILL_SLOTS ? 8 : 4;
      const uint64_t offset = reinterpret_cast<uint64_t>(array) - kFar + column * column_pitch * element;
      if (column == 0 && offset % 16 != 0) return false;
      if (offset % element != 0 || offset + needed * element > bytes) return false;
      const char* mine = reinterpret_cast<const char*>(memory_.data()) + offset;
      expected_.assign(needed * element / 8 + 1, 0x5a5a5a5a5a5a5a5aU);
      fill.destination = expected_.data();
      fill.capacity = needed;
      if (!reader.step_fill(step, fill, &needed).ok()) return false;
      return std::memcmp(mine, expected_.data(), needed * element) == 0;
    };
    const auto same = [&](quire_fill_kind kind, const void* array, uint64_t pitch, uint64_t column_pitch) {
      for (uint32_t column = 0; column < (column_pitch != 0 ? plan.ids_per_block : 1); ++column) {
        if (!same_column(kind, array, pitch, column_pitch, column)) return false;
      }
      return true;
    };
    if (!same(QUIRE_FILL_QUERY_INDPTR, b.query_indptr, 1, 0)) return "query_indptr";
    if (!same(QUIRE_FILL_POSITIONS, b.positions, 1, 0)) return "positions";
    if (!same(QUIRE_FILL_KV_LEN, b.kv_len, 1, 0)) return "kv_len";
    if (!plan.is_state()) {
      if (b.state_read != nullptr || b.state_write != nullptr) return "states of a group of tokens";
      if (!same(QUIRE_FILL_TABLE, b.table, b.table_pitch, b.table_column_pitch)) return "table";
      if (!plan.live.fixed && b.num_slots != b.num_tokens) return "num_slots";
      return same(QUIRE_FILL_SLOTS, b.slots, 0, b.slots_column_pitch) ? "" : "slots";
    }
    if (b.table != nullptr || b.slots != nullptr) return "tables of a group of states";
    if (!same(QUIRE_FILL_STATE_READ, b.state_read, 1, b.state_read_column_pitch)) return "state_read";
    if (b.state_write_indptr == nullptr) {
      return same(QUIRE_FILL_STATE_WRITE, b.state_write, 1, b.state_write_column_pitch) ? "" : "state_write";
    }
    if (!same(QUIRE_FILL_STATE_WRITE_INDPTR, b.state_write_indptr, 1, 0)) return "state_write_indptr";
    if (!same(QUIRE_FILL_STATE_WRITE_ENDS, b.state_write_ends, 1, 0)) return "state_write_ends";
    return same(QUIRE_FILL_STATE_WRITES, b.state_write, 1, b.state_write_column_pitch) ? "" : "state_write";
  }

  struct alignas(16) Line {
    uint64_t words[2] = {0x5a5a5a5a5a5a5a5aU, 0x5a5a5a5a5a5a5a5aU};
  };
  quire_batch_options options_{};
  std::vector<Line> memory_;
  std::vector<quire_batch> batches_;
  std::vector<uint64_t> expected_;
};

}  // namespace quire::model
