// quire_cpp/step.hpp: steps, loads, batches, followers. Include quire.hpp.
#pragma once

#include <quire/ops.h>

#include "cache.hpp"

namespace quire {
inline namespace QUIRE_CPP_MODE {

// Where StepView::fill writes: quire_fill without its destination. pitch 0 = all of the
// destination.
struct FillAt {
  uint32_t group = 0, shard = 0, first_column = 0, num_columns = 0;
  uint64_t pitch = 0, column_pitch = 0;
  int64_t fill_value = 0;
  uint32_t num_rows = 0, num_tokens = 0;  // of arrays of a fixed shape
};

// One array for fill_arrays.
inline quire_fill fill_of(quire_fill_kind kind, void* to, uint64_t capacity, const FillAt& at) noexcept {
  auto one = make<quire_fill>();
  one.kind = kind, one.group = at.group, one.shard = at.shard;
  one.first_column = at.first_column, one.num_columns = at.num_columns;
  one.destination = to, one.capacity = capacity, one.pitch = at.pitch == 0 ? capacity : at.pitch;
  one.column_pitch = at.column_pitch, one.fill_value = at.fill_value;
  one.num_rows = at.num_rows, one.num_tokens = at.num_tokens;
  return one;
}
// kind: any but QUIRE_FILL_SLOTS, whose elements are int64.
inline quire_fill array_of(quire_fill_kind kind, std::span<int32_t> to, const FillAt& at = {}) noexcept {
  return fill_of(kind == QUIRE_FILL_SLOTS ? 0 : kind, to.data(), to.size(), at);
}
inline quire_fill slots_of(std::span<int64_t> to, const FillAt& at = {}) noexcept {
  return fill_of(QUIRE_FILL_SLOTS, to.data(), to.size(), at);
}

// What can be read of a step or load in flight: a step of a cache, a load, or a step that a
// follower imported. A value to copy freely; it keeps nothing alive and ends nothing.
class StepView {
 public:
  StepView() noexcept = default;
  explicit StepView(quire_step raw) noexcept : raw_(raw) {}

  explicit operator bool() const noexcept { return raw_.id != 0; }
  quire_step get() const noexcept { return raw_; }  // for calls of the C headers
  uint64_t id() const noexcept { return raw_.id; }  // 0: there is no step, or it ended
  Returned<quire_step_info> info() const { return detail::get<quire_step_info>(quire_step_get_info, raw_); }
  // Writes one array of int32; returns the number of elements. Errors: INVALID_ARGUMENT, NOT_FOUND,
  // OUT_OF_RANGE (too little room: nothing is written, and the Result has the number that is needed
  // in addition to the error).
  Returned<uint64_t> fill(quire_fill_kind kind, std::span<int32_t> to, const FillAt& at = {}) const {
    if (kind == QUIRE_FILL_SLOTS) {
      return detail::finish(Result<uint64_t>(Error(QUIRE_INVALID_ARGUMENT, "kind: QUIRE_FILL_SLOTS is int64: call fill_slots")));
    }
    return fill_any(kind, to.data(), to.size(), at);
  }
  // The same for QUIRE_FILL_SLOTS, whose elements are int64.
  Returned<uint64_t> fill_slots(std::span<int64_t> to, const FillAt& at = {}) const {
    return fill_any(QUIRE_FILL_SLOTS, to.data(), to.size(), at);
  }
  // Writes all arrays in one call, or none. fills: from array_of and slots_of. written[i], if
  // wanted: the elements that fills[i] needs. Errors: as fill; INVALID_ARGUMENT (none, or more than
  // QUIRE_MAX_FILLS).
  Returned<void> fill_arrays(std::span<const quire_fill> fills, std::span<uint64_t> written = {}) const {
    std::array<uint64_t, QUIRE_MAX_FILLS> own;
    if (!written.empty() && written.size() < fills.size()) {
      return detail::finish(Result<void>(Error(QUIRE_INVALID_ARGUMENT, "written: fewer than fills")));
    }
    return detail::call(quire_step_fill, raw_, fills.data(), sizeof(quire_fill), uint64_t{fills.size()},
                        written.empty() ? own.data() : written.data());
  }
  // What must be copied and zeroed before the kernels run; returns how many there are. Errors:
  // NOT_FOUND, OUT_OF_RANGE (room).
  Returned<uint64_t> copies(std::span<quire_copy> to) const {
    return detail::get<uint64_t>(quire_step_list_copies, raw_, to.data(), uint64_t{to.size()});
  }
  Returned<uint64_t> zeroes(std::span<quire_zero> to) const {
    return detail::get<uint64_t>(quire_step_list_zeroes, raw_, to.data(), uint64_t{to.size()});
  }
  // Writes the step as bytes for followers; returns how many there are. An empty span asks for the
  // size. Errors: as quire_step_export.
  Returned<uint64_t> export_bytes(std::span<uint8_t> to) const {
    return detail::get<uint64_t>(quire_step_export, raw_, static_cast<void*>(to.data()), uint64_t{to.size()});
  }

 protected:
  quire_step take() noexcept { return std::exchange(raw_, quire_step{}); }
  quire_step* slot() noexcept { return &raw_; }  // where C writes a new one

 private:
  Returned<uint64_t> fill_any(quire_fill_kind kind, void* to, uint64_t capacity, const FillAt& at) const {
    const quire_fill one = fill_of(kind, to, capacity, at);
    Result<uint64_t> written;
    quire_step_fill(raw_, &one, sizeof one, 1, &*written, written.error().raw());
    return detail::finish(std::move(written));
  }
  quire_step raw_{};
};

// A step in flight. It is aborted when this is destroyed before its commit. Keeps the cache alive.
// Steps commit in the order of their reserves.
class Step : public StepView {
 public:
  Step() noexcept = default;
  Step(Cache cache, quire_step raw) noexcept : StepView(raw), cache_(std::move(cache)) {}
  Step(Step&& other) noexcept : StepView(other.take()), cache_(std::move(other.cache_)) {}
  Step& operator=(Step&& other) noexcept {
    if (this != &other) {
      end();
      StepView::operator=(StepView(other.take()));
      cache_ = std::move(other.cache_);
    }
    return *this;
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() { end(); }

  const Cache& cache() const noexcept { return cache_; }
  quire_step release() noexcept { return take(); }  // the caller's to commit or abort now
  // Accepts results: rows in row order. On an error the step is still in flight. Errors:
  // INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND, FAILED_PRECONDITION (not the oldest).
  Returned<void> commit(std::span<const quire_commit_entry> rows, std::span<const quire_symbol> symbols = {}) {
    Result<void> done;
    const quire_code code = quire_commit(get(), rows.data(), rows.size(), symbols.data(), symbols.size(), done.error().raw());
    if (code == QUIRE_OK) take();
    return detail::finish(std::move(done));
  }
  // Undoes this step and all later ones; flags: QUIRE_ABORT_*.
  Returned<void> abort(uint32_t flags = 0) {
    Result<void> done;
    const quire_code code = quire_abort(get(), flags, done.error().raw());
    if (code == QUIRE_OK || code == QUIRE_NOT_FOUND) take();
    return detail::finish(std::move(done));
  }

 private:
  friend class Cache;
  void end() noexcept {
    if (*this) quire_abort(get(), 0, nullptr);
  }
  Cache cache_;
};

// What Load::end_late says: the tokens that the sequence has now, and what may still be written.
struct EndedLoad {
  uint64_t committed = 0;
  Hold late;  // empty if nothing may
};

// Tokens that a connector brings: a step of one row. Only end() ends it. Keeps nothing alive.
class Load : public StepView {
 public:
  using StepView::StepView;
  // For each group the position before which all is cached that the load needs: those tokens have
  // no slots. Returns the number of groups; an empty span asks for it. Errors: NOT_FOUND,
  // OUT_OF_RANGE (room).
  Returned<uint64_t> have(std::span<uint64_t> tokens) const {
    return detail::get<uint64_t>(quire_load_get_have, get(), tokens.data(), uint64_t{tokens.size()});
  }
  // Returns the tokens that the sequence has now. failures: the tokens that did not arrive. Errors:
  // as quire_load_end.
  Returned<uint64_t> end(std::span<const quire_load_failure> failures = {}) {
    Result<uint64_t> committed;
    const quire_code code = quire_load_end(get(), failures.data(), failures.size(), &*committed, nullptr, committed.error().raw());
    if (code == QUIRE_OK) take();
    return detail::finish(std::move(committed));
  }
  // The same where a transfer that was given up may still write what `failures` names. End the hold
  // when it is proved that nothing is written any more. cache: the load's.
  Returned<EndedLoad> end_late(const Cache& cache, std::span<const quire_load_failure> failures) {
    Result<EndedLoad> ended;
    quire_hold_id late = 0;
    const quire_code code = quire_load_end(get(), failures.data(), failures.size(), &ended->committed, &late, ended.error().raw());
    if (code == QUIRE_OK) take();
    if (late != 0) ended->late = cache.own_hold(late);
    return detail::finish(std::move(ended));
  }

 private:
  friend class Cache;  // writes the slot
};

// A rank of a plan in another process. It imports the steps of the leader's cache and answers as
// that cache would.
class Follower : public Handle<quire_follower, quire_follower_release> {
 public:
  using Handle::Handle;
  // options: those of the leader's cache. All memory is allocated here. Errors: INVALID_ARGUMENT,
  // RESOURCE_EXHAUSTED (host memory).
  static Returned<Follower> create(const Config& config, const quire_cache_options& options = make<quire_cache_options>()) {
    return detail::get<Follower>(quire_follower_create, config.get(), &options);
  }
  Follower share() const { return Follower(quire_follower_retain(get())); }
  // Imports what StepView::export_bytes wrote. The step can be read until step_depth further steps
  // are imported. Errors: as quire_follower_import.
  Returned<StepView> import(std::span<const uint8_t> bytes) const {
    Result<quire_step> step;
    quire_follower_import(get(), bytes.data(), bytes.size(), &*step, step.error().raw());
    return detail::finish(step ? Result<StepView>(StepView(*step)) : Result<StepView>(step.error()));
  }
};

// The arrays of a step that the ops read, of all groups of one shard, in one block of host memory.
// Make one for each step in flight and fill it for every step: the block grows when a step needs
// more, and never shrinks.
class Batch {
 public:
  Batch() noexcept = default;
  Batch(Batch&& other) noexcept { swap(other); }
  Batch& operator=(Batch&& other) noexcept {
    Batch(std::move(other)).swap(*this);
    return *this;
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  // options: shard and shape. Set options.memory and options.bytes to write into memory of the
  // engine, for example pinned memory. That block does not grow. Errors: INVALID_ARGUMENT (an empty
  // config).
  static Returned<Batch> create(const Config& config, const quire_batch_options& options = make<quire_batch_options>()) {
    Result<Batch> made;
    auto info = make<quire_config_info>();
    if (quire_config_get_info(config.get(), &info, made.error().raw()) == QUIRE_OK) {
      made->groups_.assign(info.num_groups, make<quire_batch>());
      made->options_ = options;
      made->is_own_ = options.memory == nullptr;
    }
    return detail::finish(std::move(made));
  }

  // Writes the arrays of a step. What an earlier call wrote is overwritten. Errors: as
  // quire_step_get_batch.
  Returned<void> fill(const StepView& step) {
    Result<void> done;
    for (;;) {
      uint64_t needed = 0;
      quire_step_get_batch(step.get(), &options_, groups_.data(), sizeof(quire_batch), groups_.size(), &needed, done.error().raw());
      const bool is_short = (done || done.code() == QUIRE_OUT_OF_RANGE) && is_own_ && needed > options_.bytes;
      if (done && !is_short) bytes_ = needed;
      if (!is_short) return detail::finish(std::move(done));
      block_.resize(static_cast<size_t>(std::max(needed, 2 * options_.bytes) + sizeof(Chunk) - 1) / sizeof(Chunk));
      options_.memory = block_.data();
      options_.bytes = block_.size() * sizeof(Chunk);
    }
  }
  // Of one group. The pointers are valid until the next fill.
  const quire_batch& operator[](size_t group) const noexcept { return groups_[group]; }
  std::span<const quire_batch> groups() const noexcept { return groups_; }
  // The bytes that the last fill wrote, for example to copy them to a device.
  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(options_.memory), static_cast<size_t>(bytes_)};
  }
  // Where kernels see these bytes; see quire_batch_options. It holds for the next fill.
  void set_address(const void* address) noexcept { options_.address = address; }

 private:
  struct alignas(16) Chunk {
    std::byte bytes[16];
  };
  void swap(Batch& other) noexcept {
    groups_.swap(other.groups_);
    block_.swap(other.block_);
    std::swap(options_, other.options_);
    std::swap(bytes_, other.bytes_);
    std::swap(is_own_, other.is_own_);
  }
  std::vector<quire_batch> groups_;
  std::vector<Chunk> block_;
  quire_batch_options options_ = make<quire_batch_options>();
  uint64_t bytes_ = 0;
  bool is_own_ = true;
};

// An attention op with all that a layer says of it: the causal flag, window, chunk, sink tokens,
// softcap and head_dim_v. Errors: INVALID_ARGUMENT (a layer that is not attention).
inline Returned<quire_attention> attention_of(const quire_layer& layer) {
  return detail::get<quire_attention>(quire_attention_from_layer, &layer);
}

inline Returned<Step> Cache::reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols,
                                     std::span<quire_reserve_result> results) const {
  if (results.size() < entries.size()) {
    return detail::finish(Result<Step>(Error(QUIRE_INVALID_ARGUMENT, "results: fewer than entries")));
  }
  Result<Step> step(Step(share(), {}));
  quire_reserve(get(), entries.data(), entries.size(), symbols.data(), symbols.size(), results.data(), step->slot(), step.error().raw());
  return detail::finish(std::move(step));
}

inline Returned<Load> Cache::begin_load(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols,
                                        quire_reserve_result& result) const {
  Result<Load> load;
  quire_load_begin(get(), &entry, symbols.data(), symbols.size(), &result, load->slot(), load.error().raw());
  return detail::finish(std::move(load));
}

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
