// The cache: the only control flow over pool, prefix index and sequences. Semantics, units and
// errors are those of quire/cache.h, call by call; this class only drops the handles and pointers.
// Serialized, except probe and stats (shared lock).
#pragma once

#include <quire/events.h>
#include <quire/hold.h>
#include <quire/load.h>
#include <quire/pin.h>
#include <quire/step.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/events/event_ring.h"
#include "core/plan/cache_config.h"
#include "core/plan/capacity.h"
#include "core/step/step_reader.h"

namespace quire {

inline constexpr uint32_t kCacheFlags =
    QUIRE_CACHE_NO_PREFIX_REUSE | QUIRE_CACHE_STATES_IN_PLACE | QUIRE_CACHE_STATES_AT_BLOCKS | QUIRE_CACHE_STRICT_LRU;

struct MediaFacts;

struct LoadLimits {
  uint64_t tokens = 0;  // of one load
  uint32_t loads = 0;   // at the same time
};

// The time of pins, and of how long pages stay. Without a function, CLOCK_MONOTONIC.
struct CacheClock {
  quire_clock_fn now = nullptr;
  void* user = nullptr;
};

class Cache : public StepReader {
 public:
  static Result<std::unique_ptr<Cache>> create(std::shared_ptr<const Config> config,  //
                                               const quire_cache_options& options,    //
                                               CacheClock clock = {});
  // What caches with these options hold; the limits of sequences and entries do not count.
  static Result<Capacity> capacity(std::shared_ptr<const Config> config, const quire_cache_options& options, uint64_t tokens,
                                   uint64_t concurrency);
  ~Cache() override;

  const Config& config() const override;
  std::shared_ptr<const Config> shared_config() const;

  Result<SequenceId> sequence_create(const quire_identity* identity);
  Status sequence_finish(SequenceId sequence);
  Status sequence_preempt(SequenceId sequence);
  Status sequence_truncate(SequenceId sequence, uint64_t tokens);
  Result<SequenceId> sequence_fork(SequenceId parent);
  Status sequence_info(SequenceId sequence, quire_sequence_info* info);
  Status add_media(const uint8_t* digest, uint32_t length, quire_symbol* first);
  // The item that a media symbol stands for a position of. Errors: INVALID_ARGUMENT (never given
  // out).
  Status media_item(quire_symbol symbol, MediaFacts* item) const;

  // results.size() == entries.size(). *step is 0 when nothing was admitted.
  Status reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols,
                 std::span<quire_reserve_result> results, StepId* step);
  Status commit(StepId step, std::span<const quire_commit_entry> entries, std::span<const quire_symbol> symbols);
  Status abort(StepId step, bool not_launched = false);  // unstarted: no kernel of it ran

  LoadLimits load_limits() const;
  // Tokens that a connector brings; *step is 0 when there was no room. load_end: what of it did not
  // come.
  Status load_begin(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, quire_reserve_result* result, StepId* step);
  Status load_have(StepId step, std::span<uint64_t> have, uint64_t* count);
  // late: null, or what holds the blocks that may still be written.
  Status load_end(StepId step, std::span<const quire_load_failure> failures, uint64_t* committed, quire_hold_id* late = nullptr);

  // resume: 0, or hold of this only what resuming there needs, which may lie after `end`.
  // encoder: 0, or the number of the sequence's encoder tokens: all of them are held, too.
  Result<quire_hold_id> hold_begin(SequenceId sequence, uint64_t first, uint64_t end,  //
                                   uint64_t resume = 0, uint64_t encoder = 0);
  Status hold_end(quire_hold_id hold);
  Status hold_info(quire_hold_id hold, quire_hold_info* info) const;
  Status hold_ids(quire_hold_id hold, uint32_t group, std::span<int32_t> ids, uint64_t* count) const;
  // What the load has of the group: ids [column][block from its first token's on], or of a state
  // [column].
  Status load_ids(StepId step, uint32_t group, std::vector<int32_t>* ids);
  // Null: nothing is reported any more.
  Status watch_units(const quire_unit_options* options);
  uint64_t take_units(std::span<quire_unit> out);
  Status prefix_digests(const quire_identity* identity, std::span<const quire_symbol> symbols, std::span<const uint64_t> ends,
                        uint8_t* digests) const;
  // The same for a sequence's identity, and what its prompt would hit. identity: null, or for that,
  // as Identity encodes it.
  Status sequence_digests(SequenceId sequence, std::span<const quire_symbol> symbols,  //
                          std::span<const uint64_t> ends, uint8_t* digests,            //
                          std::string* identity = nullptr) const;
  Status sequence_probe(SequenceId sequence, std::span<const quire_symbol> symbols, quire_probe_result* result) const;

  Result<quire_pin_id> pin(const quire_identity* identity, std::span<const quire_symbol> symbols, const quire_pin_options& options,
                           uint64_t* tokens);
  Status unpin(quire_pin_id pin);
  Status pin_info(quire_pin_id pin, quire_pin_info* info);

  using StepReader::step_fill;
  Status step_info(StepId step, quire_step_info* info) override;
  Status step_fill(StepId step, std::span<const quire_fill> fills, uint64_t* written) override;
  Status step_batch(StepId step, const quire_batch_options& options, PutBatch put, void* user, uint64_t* bytes) override;
  Result<std::span<const quire_copy>> step_copies(StepId step) override;
  Result<std::span<const quire_zero>> step_zeroes(StepId step) override;
  // *size: the bytes needed; nothing is written where there are fewer, and nothing is an error
  // without any.
  Status step_export(StepId step, std::span<uint8_t> bytes, uint64_t* size);

  Status probe(const quire_identity* identity, std::span<const quire_symbol> symbols, quire_probe_result* result) const;
  // kinds: by group, what events call it; see event_kinds(). Empty: nothing.
  Status enable_events(const quire_event_options& options, std::span<const std::string> kinds = {});
  Status name_media(quire_symbol first, std::string_view identifier, int64_t placeholder);
  Status read_events(uint64_t from, std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const;
  Status snapshot_events(std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const;
  // Stored events of what is held of a group: of its blocks from number `first` to `end` of the
  // sequence, or of its state. Needs events. std::bad_alloc.
  void describe_hold(quire_hold_id hold, uint32_t group, uint64_t first, uint64_t end,  //
                     uint64_t most_bytes, std::vector<EventRecord>* out) const;

  void stats(quire_cache_stats* stats) const;
  // OUT_OF_RANGE: there is no such group.
  Status group_stats(uint32_t group, quire_group_stats* stats) const;
  Status reset();
  Status forget_blocks(uint32_t group, std::span<const int32_t> ids, uint64_t* forgotten);
  Status verify() const;

 private:
  struct Impl;
  explicit Cache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
