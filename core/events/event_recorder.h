// Records what is published and forgotten, and reports it at the end of a call. Off until start().
// The cache calls it; it calls nobody.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "core/events/event_log.h"
#include "core/plan/cache_config.h"
#include "core/pool/pool.h"
#include "core/prefix/index.h"

namespace quire {

class EventRecorder {
 public:
  // All are borrowed.
  EventRecorder(const Config& config, const PrefixIndex& index, const Pool& pool) : config_(config), index_(index), pool_(pool) {}

  bool enabled() const { return log_ != nullptr; }
  // A log for start(). kinds: by group, what events call it; empty: nothing.
  Result<std::unique_ptr<EventLog>> make_log(const quire_event_options& options, std::span<const std::string> kinds) const;
  void start(std::unique_ptr<EventLog> log);

  // The calls below need a log. std::bad_alloc where there is no memory for the names.
  SymbolNames& names() { return log_->names; }
  // Those below find memory, or record that events were lost: the call that is recorded was decided
  // and cannot be undone.
  void name_root_like(uint32_t root, uint32_t other);
  // The block that ends at the node can be found from now on.
  void published(uint32_t root, NodeId node, uint32_t group, PartIndex head);
  // It cannot be found any more. Its node may be gone.
  void forgotten(PartIndex head);
  // Everything was forgotten.
  void cleared() { log_->cleared(); }
  // Whether published() was called since the last report().
  bool has_announced() const { return !announced_.empty(); }
  void report(uint32_t root);

  // Any thread. FAILED_PRECONDITION without a log.
  Status read(uint64_t from, std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const;
  // What can be found now, as if it had just been published.
  Status snapshot(std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const;
  // Appends stored events of these blocks, in the order of their tokens, as if they had just been
  // published: one of each run without a gap.
  // kNone, and what has no name, is left out. Needs a log. std::bad_alloc.
  void describe(uint32_t group, std::span<const PartIndex> heads, uint64_t most_bytes,  //
                std::vector<EventRecord>* out) const;

 private:
  // A block that was published in the present call and is not reported yet.
  struct Announced {
    uint32_t group = 0;
    uint64_t end = 0;  // tokens
    NodeId node;
    PartIndex head{kNone};
  };

  template <typename Body>
  void record(Body body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      lose_events();
    }
  }
  void lose_events();
  void report_announced(uint32_t root);
  Digest digest_of(NodeId node, uint32_t root);
  // Where the block that ends at a node begins.
  NodeId block_begin(NodeId node, uint32_t group) const;
  void add_symbols(NodeId node, uint32_t group, std::vector<NodeId>* path, EventBuilder* builder) const;

  const Config& config_;
  const PrefixIndex& index_;
  const Pool& pool_;
  std::unique_ptr<EventLog> log_;
  std::atomic<EventLog*> readable_{nullptr};  // the same, for readers without the cache's lock
  std::vector<Announced> announced_;
  std::vector<NodeId> hash_path_, symbol_path_;
};

}  // namespace quire
