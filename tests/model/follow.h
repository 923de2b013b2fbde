// A follower beside a cache: it takes steps over as bytes and must answer everything as the cache does, bit for bit.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/step/follower.h"
#include "core/step/kv_cache.h"
#include "tests/model/batch_check.h"

namespace quire::model {

inline constexpr quire_fill_kind kAllKinds[] = {
    QUIRE_FILL_TABLE,        QUIRE_FILL_RAW_TABLE,        QUIRE_FILL_TABLE_INDPTR, QUIRE_FILL_TABLE_INDICES,
    QUIRE_FILL_SLOTS,        QUIRE_FILL_STATE_READ,       QUIRE_FILL_STATE_WRITE,  QUIRE_FILL_STATE_WRITE_INDPTR,
    QUIRE_FILL_STATE_WRITES, QUIRE_FILL_STATE_WRITE_ENDS, QUIRE_FILL_KV_LEN,       QUIRE_FILL_QUERY_INDPTR,
    QUIRE_FILL_POSITIONS,    QUIRE_FILL_UPDATE_INDPTR,    QUIRE_FILL_UPDATE_FIRST, QUIRE_FILL_UPDATE_INDICES,
    QUIRE_FILL_SLOTS_INDPTR};

class Follow {
 public:
  Follow(std::shared_ptr<const Config> config, const quire_cache_options& options) {
    auto made = Follower::create(std::move(config), options);
    if (made.ok()) follower_ = std::move(made.value());
  }
  Follower& follower() { return *follower_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

  // The step goes over; empty, or what went wrong.
  std::string take(Cache& cache, StepId step) {
    uint64_t size = 0;
    Status status = cache.step_export(step, {}, &size);
    if (!status.ok()) return "export: " + status.message();
    bytes_.resize(size);
    status = cache.step_export(step, bytes_, &size);
    if (!status.ok()) return "export: " + status.message();
    StepId taken;
    status = follower_->step_import(bytes_, &taken);
    if (!status.ok()) return "import: " + status.message();
    return taken == step ? "" : "the step has another id";
  }
  // Empty, or the first thing that the follower answers otherwise.
  std::string compare(Cache& cache, StepId step) {
    quire_step_info mine{}, theirs{};
    if (!follower_->step_info(step, &mine).ok() || !cache.step_info(step, &theirs).ok()) return "no such step";
    if (mine.num_rows != theirs.num_rows || mine.num_tokens != theirs.num_tokens) return "step_info";
    const auto& groups = cache.config().groups;
    for (uint32_t shard = 0; shard < cache.config().shards.size(); ++shard) {
      for (uint32_t g = 0; g < groups.size(); ++g) {
        for (const quire_fill_kind kind : kAllKinds) {
          if (!same(cache, step, kind, g, shard)) return "kind " + std::to_string(kind) + " of group " + std::to_string(g);
        }
      }
    }
    for (StepReader* reader : {static_cast<StepReader*>(&cache), static_cast<StepReader*>(follower_.get())}) {
      std::string wrong = batches_.compare(*reader, step);
      if (!wrong.empty()) return wrong;
    }
    auto copies = cache.step_copies(step), copies_here = follower_->step_copies(step);
    auto zeroes = cache.step_zeroes(step), zeroes_here = follower_->step_zeroes(step);
    if (!copies_here.ok() || !equal(*copies, *copies_here)) return "copies";
    if (!zeroes_here.ok() || !equal(*zeroes, *zeroes_here)) return "zeroes";
    return "";
  }

 private:
  template <typename T>
  static bool equal(std::span<const T> a, std::span<const T> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
  }
  // Buffers of 0x5a where nobody writes; the pitch of tables leaves room behind the rows.
  bool same(Cache& cache, StepId step, quire_fill_kind kind, uint32_t group, uint32_t shard) {
    const Config& config = cache.config();
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = kind;
    fill.group = group;
    fill.shard = shard;
    if (kind == QUIRE_FILL_TABLE || kind == QUIRE_FILL_RAW_TABLE) {
      fill.pitch = std::max(config.max_model_len, config.groups[group].encoder_tokens) + 3;
    }
    fill.fill_value = -9;
    uint64_t needed[2] = {0, 0};
    // Without room: what is needed.
    const Status refused = cache.step_fill(step, fill, &needed[0]), refused_here = follower_->step_fill(step, fill, &needed[1]);
    if (refused.code() != refused_here.code() || refused.message() != refused_here.message() || needed[0] != needed[1]) return false;
    if (refused.code() == QUIRE_INVALID_ARGUMENT && needed[0] == 0) return true;  // not of this group
    for (int i = 0; i < 2; ++i) {
      out_[i].assign((needed[0] + 1) * 2, 0x5a5a5a5a);
      fill.destination = out_[i].data();
      fill.capacity = needed[0];
      StepReader& reader = i == 0 ? static_cast<StepReader&>(cache) : *follower_;
      if (!reader.step_fill(step, fill, &needed[i]).ok()) return false;
    }
    return out_[0] == out_[1];
  }

  std::unique_ptr<Follower> follower_;
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> out_[2];
  BatchCheck batches_;
};

}  // namespace quire::model
