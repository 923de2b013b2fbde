// quire_cpp/cache.hpp: runtime, model, plan, cache, sequences. Include quire.hpp.
#pragma once

#include "base.hpp"

namespace quire {
inline namespace QUIRE_CPP_MODE {

// The environment as it was read once, the modules, the log. Children keep it alive.
class Runtime : public Handle<quire_runtime, quire_runtime_release> {
 public:
  using Handle::Handle;
  // Reads QUIRE_DRIVER and its like, unless the options say otherwise. Errors: INVALID_ARGUMENT,
  // INCOMPATIBLE_ABI.
  static Returned<Runtime> create(const quire_runtime_options& options = make<quire_runtime_options>()) {
    return detail::get<Runtime>(quire_runtime_create, &options);
  }
  // Another reference to the same object.
  Runtime share() const { return Runtime(quire_runtime_retain(get())); }
  // Tries every module that can be found and says what became of each. Blocks: loads modules.
  // Allocates.
  Returned<std::vector<quire_probe_info>> probe() const { return detail::list<quire_probe_info, true>(quire_runtime_probe, get()); }
};

// What the layers of a model cache. Immutable.
class Model : public Handle<quire_model, quire_model_release> {
 public:
  using Handle::Handle;
  // From layers, ordered by (layer, sub). Errors: INVALID_ARGUMENT naming layer, field, value and
  // limit.
  static Returned<Model> create(std::span<const quire_layer> layers, uint64_t max_model_len) {
    return detail::get<Model>(quire_model_create, layers.data(), sizeof(quire_layer), layers.size(), max_model_len);
  }
  // From the text of a Hugging Face config.json. Errors: INVALID_ARGUMENT naming the field,
  // UNIMPLEMENTED (architecture).
  static Returned<Model> from_json(std::string_view json) { return detail::get<Model>(quire_model_from_json, text(json)); }
  // From a layer file. Errors: the same.
  static Returned<Model> from_layers(std::string_view json) { return detail::get<Model>(quire_model_from_layers, text(json)); }
  Model share() const { return Model(quire_model_retain(get())); }
  Returned<quire_model_info> info() const { return detail::get<quire_model_info>(quire_model_get_info, get()); }
  // The index-th cache; its strings live as long as the model. Errors: OUT_OF_RANGE.
  Returned<quire_layer> layer(uint32_t index) const { return detail::get<quire_layer>(quire_model_get_layer, get(), index); }
  // A table of text, one row per kind of cache. Allocates.
  Returned<std::string> describe() const { return detail::write(quire_model_describe, get()); }
};

// A plan: groups, pages, blocks, and the place of every byte. Immutable; any thread.
class Config : public Handle<quire_config, quire_config_release> {
 public:
  using Handle::Handle;
  // Plans a model's cache. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, RESOURCE_EXHAUSTED,
  // NOT_REPRESENTABLE, UNIMPLEMENTED (policy).
  static Returned<Config> create(const Model& model, const quire_plan_options& options) {
    return detail::get<Config>(quire_config_create, model.get(), &options);
  }
  Config share() const { return Config(quire_config_retain(get())); }
  Returned<quire_config_info> info() const { return detail::get<quire_config_info>(quire_config_get_info, get()); }
  Returned<quire_group_info> group(uint32_t group) const { return detail::get<quire_group_info>(quire_config_get_group, get(), group); }
  // Group, column and lane of a layer's cache. Errors: NOT_FOUND (layer without cache).
  Returned<quire_layer_place> place(uint32_t layer, uint32_t sub = 0) const {
    return detail::get<quire_layer_place>(quire_config_get_place, get(), layer, sub);
  }
  // Offsets and strides of a layer's token cache in a shard. Errors: NOT_FOUND, OUT_OF_RANGE
  // (shard).
  Returned<quire_kv_view> kv_view(uint32_t shard, uint32_t layer, uint32_t sub = 0) const {
    return detail::get<quire_kv_view>(quire_config_get_kv_view, get(), shard, layer, sub);
  }
  // The same of one tensor of a state.
  Returned<quire_state_view> state_view(uint32_t shard, uint32_t layer, uint32_t sub, uint32_t tensor) const {
    return detail::get<quire_state_view>(quire_config_get_state_view, get(), shard, layer, sub, tensor);
  }
  // How ids of a group become lowered ids.
  Returned<quire_lowering> lowering(uint32_t shard, uint32_t group) const {
    return detail::get<quire_lowering>(quire_config_get_lowering, get(), shard, group);
  }
  // Allocations of a shard. Allocates.
  Returned<std::vector<quire_region_info>> regions(uint32_t shard = 0) const {
    return detail::list<quire_region_info, true>(quire_config_list_regions, get(), shard);
  }
  // Where a codec keeps elements, scales and tail. Allocates.
  Returned<std::vector<quire_kv_field>> fields(uint32_t shard, uint32_t layer, uint32_t sub = 0) const {
    return detail::list<quire_kv_field, false>(quire_config_list_fields, get(), shard, layer, sub);
  }
  // Payload runs of ids as `query` selects them, in address order. Allocates.
  Returned<std::vector<quire_segment>> segments(const quire_segment_query& query, std::span<const int32_t> ids) const {
    return detail::list<quire_segment, false>(quire_config_list_segments, get(), &query, ids.data(), uint64_t{ids.size()});
  }
  // What a cache with these options (NULL = defaults) holds: sequences of `tokens` tokens (0 =
  // max_model_len), the longest of `concurrency` sequences.
  Returned<quire_capacity> capacity(uint64_t tokens = 0, uint64_t concurrency = 1, const quire_cache_options* options = nullptr) const {
    return detail::get<quire_capacity>(quire_config_get_capacity, get(), options, tokens, concurrency);
  }
  // What may be copied between two plans of one model, and how.
  Returned<quire_compatibility> compare(const Config& other) const {
    return detail::get<quire_compatibility>(quire_config_compare, get(), other.get());
  }
  // The plan explained as JSON. Allocates.
  Returned<std::string> describe_json() const { return detail::write(quire_config_describe_json, get()); }
};

// Runs that copy tokens [begin, end) of one view to another. Allocates. Errors: as
// quire_kv_view_list_runs.
inline Returned<std::vector<quire_run>> list_runs(const quire_kv_view& from, std::span<const int32_t> from_ids, const quire_kv_view& to,
                                                  std::span<const int32_t> to_ids, uint64_t begin, uint64_t end) {
  const quire_kv_blocks source{&from, from_ids.data(), from_ids.size()}, target{&to, to_ids.data(), to_ids.size()};
  return detail::list<quire_run, false>(quire_kv_view_list_runs, &source, &target, begin, end);
}
// The same from one id of a state to another. Allocates.
inline Returned<std::vector<quire_run>> list_runs(const quire_state_view& from, int32_t from_id, const quire_state_view& to,
                                                  int32_t to_id) {
  return detail::list<quire_run, false>(quire_state_view_list_runs, &from, from_id, &to, to_id);
}
// Digests of the complete blocks of tokens, quire_hash_bytes() each, back to back; returns how many
// blocks. Errors: OUT_OF_RANGE (room).
inline Returned<uint64_t> hash_blocks(const quire_hash_options& options, std::span<const int64_t> tokens, std::span<uint8_t> digests) {
  const uint32_t each = std::max(1U, quire_hash_bytes(options.algorithm));
  return detail::get<uint64_t>(quire_hash_blocks, &options, tokens.data(), uint64_t{tokens.size()}, digests.data(),
                               uint64_t{digests.size() / each});
}

// What Cache::pin holds: its id, and how many tokens of the prefix.
struct Pinned {
  quire_pin_id id = 0;
  uint64_t tokens = 0;
};

// A digest that names a prefix; see quire_prefix_digests.
using PrefixDigest = std::array<uint8_t, 32>;

class Hold;
class Load;
class Sequence;
class Step;
struct Unit;

// Bookkeeping: sequences, prefixes, tables, steps. Calls are serialized by the caller, but for
// probe, stats and events.
class Cache : public Handle<quire_cache, quire_cache_release> {
 public:
  using Handle::Handle;
  // All memory is allocated here. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (host memory).
  static Returned<Cache> create(const Runtime& runtime, const Config& config,
                                const quire_cache_options& options = make<quire_cache_options>()) {
    return detail::get<Cache>(quire_cache_create, runtime.get(), config.get(), &options);
  }
  Cache share() const { return Cache(quire_cache_retain(get())); }
  // An empty sequence. Errors: RESOURCE_EXHAUSTED (max_sequences, max_roots).
  Returned<Sequence> create_sequence(const quire_identity& identity = make<quire_identity>()) const;
  // Reserves one step over all entries. symbols: what the entries refer to. results[i] is the
  // answer to entries[i]. The Step is empty if no entry was admitted. Errors: INVALID_ARGUMENT
  // (results shorter than entries), OUT_OF_RANGE, FAILED_PRECONDITION (step_depth).
  Returned<Step> reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols,
                         std::span<quire_reserve_result> results) const;
  // Admits tokens that a connector will bring. The Load is empty if the entry was not admitted.
  // Errors: as quire_load_begin.
  Returned<Load> begin_load(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, quire_reserve_result& result) const;
  // Symbols of a media item of `length` positions, the same for the same digest. Errors:
  // INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
  Returned<quire_symbol> add_media(std::span<const uint8_t, 32> digest, uint32_t length) const {
    return detail::get<quire_symbol>(quire_cache_add_media, get(), digest.data(), length);
  }
  // What a prompt would hit now. Any thread.
  Returned<quire_probe_result> probe(std::span<const quire_symbol> symbols, const quire_identity& identity = make<quire_identity>()) const {
    return detail::get<quire_probe_result>(quire_probe, get(), &identity, symbols.data(), uint64_t{symbols.size()});
  }
  // Holds the longest prefix of symbols that is cached and that a sequence can resume after. It
  // ends with unpin. Unless its priority is QUIRE_PIN_HARD, it also ends when an entry could not be
  // admitted otherwise. Errors: NOT_FOUND (nothing is cached), RESOURCE_EXHAUSTED (max_pins,
  // pin_quota_tokens), FAILED_PRECONDITION (no prefix reuse).
  Returned<Pinned> pin(std::span<const quire_symbol> symbols, const quire_pin_options& options = make<quire_pin_options>(),
                       const quire_identity& identity = make<quire_identity>()) const {
    Result<Pinned> made;
    quire_pin(get(), &identity, symbols.data(), symbols.size(), &options, &made->tokens, &made->id, made.error().raw());
    return detail::finish(std::move(made));
  }
  // Ends a pin. Errors: NOT_FOUND (never was, given up, or its time is over).
  Returned<void> unpin(quire_pin_id pin) const { return detail::call(quire_unpin, get(), pin); }
  Returned<quire_pin_info> pin_info(quire_pin_id pin) const { return detail::get<quire_pin_info>(quire_pin_get_info, get(), pin); }
  // Takes over a hold that is known by its id; an id that is none is an error of its calls.
  Hold own_hold(quire_hold_id id) const;
  // Starts to report units, or changes what is reported. Units that wait are given up. Errors:
  // INVALID_ARGUMENT, FAILED_PRECONDITION (no prefix reuse), UNIMPLEMENTED (built without SHA-256).
  Returned<void> watch_units(const quire_unit_options& options) const { return detail::call(quire_cache_watch_units, get(), &options); }
  // Reports nothing any more.
  Returned<void> watch_no_units() const {
    return detail::call(quire_cache_watch_units, get(), static_cast<const quire_unit_options*>(nullptr));
  }
  // Takes up to `most` units, the oldest first, each with its hold. Allocates.
  Returned<std::vector<Unit>> take_units(size_t most) const;
  // Digests of prefixes of symbols, of these lengths, which increase. Any thread. Allocates.
  // Errors: INVALID_ARGUMENT (media symbols), OUT_OF_RANGE (ends), UNIMPLEMENTED.
  Returned<std::vector<PrefixDigest>> prefix_digests(std::span<const quire_symbol> symbols, std::span<const uint64_t> ends,
                                                     const quire_identity& identity = make<quire_identity>()) const {
    Result<std::vector<PrefixDigest>> digests(std::vector<PrefixDigest>(ends.size()));
    quire_prefix_digests(get(), &identity, symbols.data(), symbols.size(), ends.data(), ends.size(),
                         ends.empty() ? nullptr : (*digests)[0].data(), digests.error().raw());
    return detail::finish(std::move(digests));
  }
  // Counters since creation. Any thread.
  Returned<quire_cache_stats> stats() const { return detail::get<quire_cache_stats>(quire_cache_get_stats, get()); }
  // Pages of one group. Any thread. Errors: OUT_OF_RANGE (group).
  Returned<quire_group_stats> group_stats(uint32_t group) const {
    return detail::get<quire_group_stats>(quire_cache_get_group_stats, get(), group);
  }
  // Forgets what no sequence references; ends all pins. Errors: FAILED_PRECONDITION (steps in
  // flight).
  Returned<void> forget_all() const { return detail::call(quire_cache_reset, get()); }
  // Forgets published blocks of a group by id; returns blocks of all groups.
  Returned<uint64_t> forget_blocks(uint32_t group, std::span<const int32_t> ids) const {
    return detail::get<uint64_t>(quire_cache_forget_blocks, get(), group, ids.data(), uint64_t{ids.size()});
  }
  // Re-derives every invariant; O(pool). Errors: INTERNAL naming the one that is broken.
  Returned<void> verify() const { return detail::call(quire_cache_verify, get()); }
  // Events: see quire/events.h. `batch` is written on errors, too: it has the sizes needed.
  Returned<void> enable_events(const quire_event_options& options) const {
    return detail::call(quire_cache_enable_events, get(), &options);
  }
  Returned<void> name_media(quire_symbol first, std::string_view identifier, int64_t placeholder) const {
    return detail::call(quire_cache_name_media, get(), first, text(identifier), placeholder);
  }
  Returned<void> read_events(uint64_t from, std::span<quire_event> events, std::span<uint8_t> data, quire_event_batch& batch) const {
    return detail::call(quire_cache_read_events, get(), from, events.data(), uint64_t{events.size()}, data.data(), uint64_t{data.size()},
                        &batch);
  }
  Returned<void> snapshot_events(std::span<quire_event> events, std::span<uint8_t> data, quire_event_batch& batch) const {
    return detail::call(quire_cache_snapshot_events, get(), events.data(), uint64_t{events.size()}, data.data(), uint64_t{data.size()},
                        &batch);
  }
};

// Encodes events as one batch of vLLM's wire format. Allocates.
inline Returned<std::vector<uint8_t>> encode_events(std::span<const quire_event> events, std::span<const uint8_t> data,
                                                    const quire_event_encoding& encoding) {
  return detail::list<uint8_t, false>(quire_events_encode, events.data(), uint64_t{events.size()}, data.data(), uint64_t{data.size()},
                                      &encoding);
}

// Blocks of a cache that are neither evicted nor written to, until this is destroyed; keeps the
// cache alive. Ending changes the cache: serialize it like a call.
class Hold {
 public:
  Hold() noexcept = default;
  Hold(Cache cache, quire_hold_id id) noexcept : cache_(std::move(cache)), id_(id) {}
  Hold(Hold&& other) noexcept : cache_(std::move(other.cache_)), id_(std::exchange(other.id_, 0)) {}
  Hold& operator=(Hold&& other) noexcept {
    if (this != &other) {
      drop();
      cache_ = std::move(other.cache_);
      id_ = std::exchange(other.id_, 0);
    }
    return *this;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { drop(); }

  explicit operator bool() const noexcept { return id_ != 0; }
  quire_hold_id id() const noexcept { return id_; }                   // 0 when empty
  quire_hold_id release() noexcept { return std::exchange(id_, 0); }  // the caller's to end now
  Returned<quire_hold_info> info() const { return detail::get<quire_hold_info>(quire_hold_get_info, cache_.get(), id_); }
  // What it has of a group: [column][block], 0 where nothing is held. Allocates. Errors: NOT_FOUND,
  // OUT_OF_RANGE (group).
  Returned<std::vector<int32_t>> ids(uint32_t group) const {
    return detail::list<int32_t, false>(quire_hold_list_ids, cache_.get(), id_, group);
  }
  // Ends it; the bytes are no longer read. Errors: NOT_FOUND (empty, or ended by id).
  Returned<void> end() { return detail::call(quire_hold_end, cache_.get(), std::exchange(id_, 0)); }

 private:
  friend class Sequence;
  void drop() noexcept {
    if (id_ != 0) quire_hold_end(cache_.get(), id_, nullptr);
  }
  Cache cache_;
  quire_hold_id id_ = 0;
};

// A part of a sequence that became complete, with its hold; of the other fields see quire_unit.
struct Unit {
  quire_unit facts{};
  Hold hold;
};

inline Hold Cache::own_hold(quire_hold_id id) const { return Hold(share(), id); }

inline Returned<std::vector<Unit>> Cache::take_units(size_t most) const {
  Result<std::vector<Unit>> units;
  std::vector<quire_unit> taken(most);
  units->reserve(most);  // from here on no hold gets lost
  uint64_t count = 0;
  quire_cache_take_units(get(), taken.data(), taken.size(), &count, units.error().raw());
  for (uint64_t i = 0; units && i < count; ++i) units->push_back(Unit{taken[i], own_hold(taken[i].hold)});
  return detail::finish(std::move(units));
}

// A sequence of a cache, finished when this is destroyed; keeps the cache alive. Finishing changes
// the cache: serialize it like a call.
class Sequence {
 public:
  Sequence() noexcept = default;
  Sequence(Cache cache, quire_sequence_id id) noexcept : cache_(std::move(cache)), id_(id) {}
  Sequence(Sequence&& other) noexcept : cache_(std::move(other.cache_)), id_(std::exchange(other.id_, 0)) {}
  Sequence& operator=(Sequence&& other) noexcept {
    if (this != &other) {
      end();
      cache_ = std::move(other.cache_);
      id_ = std::exchange(other.id_, 0);
    }
    return *this;
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() { end(); }

  explicit operator bool() const noexcept { return id_ != 0; }
  quire_sequence_id id() const noexcept { return id_; }                   // for entries; 0 when empty
  quire_sequence_id release() noexcept { return std::exchange(id_, 0); }  // the caller's to finish now
  Returned<quire_sequence_info> info() const { return detail::get<quire_sequence_info>(quire_sequence_get_info, cache_.get(), id_); }
  // Ends it; its published blocks stay findable. Errors: NOT_FOUND (empty, or ended by id).
  Returned<void> finish() { return detail::call(quire_sequence_finish, cache_.get(), std::exchange(id_, 0)); }
  // Gives all its blocks back; it goes on with its symbols passed again.
  Returned<void> preempt() const { return detail::call(quire_sequence_preempt, cache_.get(), id_); }
  // Shortens it. Errors: OUT_OF_RANGE, FAILED_PRECONDITION naming the nearest legal length.
  Returned<void> truncate(uint64_t tokens) const { return detail::call(quire_sequence_truncate, cache_.get(), id_, tokens); }
  // Holds what it has of the committed tokens [first, end): see quire_hold_begin. Errors:
  // OUT_OF_RANGE, FAILED_PRECONDITION (a load, a state that is written in place),
  // RESOURCE_EXHAUSTED.
  Returned<Hold> hold(uint64_t first, uint64_t end) const;
  // Another sequence with the same committed tokens. Errors: RESOURCE_EXHAUSTED,
  // FAILED_PRECONDITION.
  Returned<Sequence> fork() const {
    Result<Sequence> child(Sequence(cache_.share(), 0));
    quire_sequence_fork(cache_.get(), id_, &child->id_, child.error().raw());
    return detail::finish(std::move(child));
  }

 private:
  friend class Cache;
  void end() noexcept {
    if (id_ != 0) quire_sequence_finish(cache_.get(), id_, nullptr);
  }
  Cache cache_;
  quire_sequence_id id_ = 0;
};

inline Returned<Hold> Sequence::hold(uint64_t first, uint64_t end) const {
  Result<Hold> made(Hold(cache_.share(), 0));
  quire_hold_begin(cache_.get(), id_, first, end, &made->id_, made.error().raw());
  return detail::finish(std::move(made));
}

inline Returned<Sequence> Cache::create_sequence(const quire_identity& identity) const {
  Result<Sequence> made(Sequence(share(), 0));
  quire_sequence_create(get(), &identity, &made->id_, made.error().raw());
  return detail::finish(std::move(made));
}

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
