// The history of published blocks, for routers: hashes of the blocks that are in the index, and a
// ring of numbered events. Exists only on request. Recording is serialized with the mutating calls
// of the cache. Reading takes the ring's own lock and may run concurrently with them.
#pragma once

#include <quire/events.h>

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/events/block_hash.h"
#include "core/events/event_ring.h"

namespace quire {

struct EventGroup {
  std::string kind;
  uint64_t window = 0;
  uint32_t block_tokens = 0;
};

// What symbols and roots mean outside: tokens, identifiers, names.
class SymbolNames {
 public:
  struct Root {
    std::string adapter, salt;
    uint64_t adapter_number = 0;
    bool named = false;  // last: a copy that found no memory half way names nothing
  };
  void name_root(uint32_t root, const quire_identity& identity);
  void name_root_like(uint32_t root, uint32_t other);
  void name_media(quire_symbol first, uint32_t length, std::string identifier, int64_t placeholder);
  // std::bad_alloc if there was no memory for its names. Readers then lose the blocks under it; the
  // blocks do not get the names of others.
  const Root& root(uint32_t root) const {
    if (root >= roots_.size() || !roots_[root].named) throw std::bad_alloc();
    return roots_[root];
  }
  // Tokens of symbols at positions from `begin` on, and the media among them by position.
  // Identifiers are borrowed from this object.
  void resolve(std::span<const quire_symbol> symbols, uint64_t begin, std::vector<int64_t>* tokens, std::vector<MediaItem>* items) const;

 private:
  struct Media {
    quire_symbol first;
    uint32_t length;
    int64_t placeholder;
    std::string identifier;
  };
  std::vector<Media> media_;  // by first symbol
  std::vector<Root> roots_;
};

// Builds a stored event: start, then for every block its symbols and its digest, then finish.
class EventBuilder {
 public:
  explicit EventBuilder(const SymbolNames& names) : names_(&names) {}
  void start(const EventGroup& group, GroupId id, uint32_t root, const Digest* parent, uint64_t first_token);
  void add_symbols(std::span<const quire_symbol> symbols) { symbols_.insert(symbols_.end(), symbols.begin(), symbols.end()); }
  void add_block(const Digest& digest);
  uint64_t bytes() const { return record_.data.size() + tokens_.size() * 8 + hashes_.size() + keys_.size(); }
  const EventRecord& finish();

 private:
  const SymbolNames* names_;
  const EventGroup* group_ = nullptr;
  uint32_t root_ = 0;
  uint64_t position_ = 0;  // of symbols_[0]
  std::vector<quire_symbol> symbols_;
  std::vector<MediaItem> items_;
  std::vector<int64_t> tokens_, block_tokens_;
  std::vector<ExtraKey> extra_;
  std::string hashes_, keys_;
  EventRecord record_;
};

class EventLog {
 public:
  static Result<std::unique_ptr<EventLog>> create(const quire_event_options& options, std::vector<EventGroup> groups, uint64_t part_slots);

  SymbolNames names;
  const EventGroup& group(GroupId id) const { return groups_[id.value]; }
  EventBuilder& builder() { return builder_; }

  // The digest of a match unit: its symbols under a root, from position `begin` on.
  Digest hash_unit(const Digest& parent, std::span<const quire_symbol> symbols, uint32_t root, uint64_t begin);
  const Digest& none() const { return hasher_.none(); }
  // Of published blocks, by head; size 0 = not published.
  const Digest& digest(PartIndex head) const { return blocks_[head.value].digest; }
  // Size 0 = starts its sequence.
  const Digest& parent(PartIndex head) const { return blocks_[head.value].parent; }

  // A block can be found from now on. It has a place in the queue of the cache, which reports it at
  // the end of the call. Several blocks may have one name: a salt and an adapter of the same text,
  // or media with equal names. A name is stored with the first of them and removed with the last
  // one. An empty digest is no name: such a block is not entered.
  void enter(GroupId group, PartIndex head, const Digest& digest, const Digest& parent, uint32_t queued);
  // Whether the block waits at that place of the queue, or anywhere: it was not forgotten since.
  bool waits(PartIndex head, uint32_t queued) const { return blocks_[head.value].queued == queued; }
  bool waits(PartIndex head) const { return blocks_[head.value].queued != kNone; }
  // Exactly one of the blocks of a name that readers know is.
  bool reported(PartIndex head) const { return blocks_[head.value].reported; }
  // The block leaves the queue. True: its name is new to readers, so this block is reported.
  bool report(PartIndex head);
  // It cannot be found any more. Of what was never reported nothing is said now.
  void leave(PartIndex head);

  // Where events go.
  EventRing& ring() { return ring_; }
  const EventRing& ring() const { return ring_; }
  void cleared();  // nothing that is named now can be found

 private:
  struct Block {
    Digest digest, parent;
    uint32_t group = 0;
    uint32_t next = kNone;    // in its bucket
    uint32_t queued = kNone;  // place in the queue of what is to be reported
    bool reported = false;
    uint64_t era = 0;
  };
  EventLog(BlockHasher hasher, std::vector<EventGroup> groups, uint64_t ring_bytes);
  void removed(uint32_t group, const Digest& digest);
  uint32_t* bucket_of(const Digest& digest);
  uint32_t alike(const Block& block, uint32_t head, bool reported);

  BlockHasher hasher_;
  std::vector<EventGroup> groups_;
  EventBuilder builder_;
  std::vector<Block> blocks_;      // by head
  std::vector<uint32_t> buckets_;  // by digest: the first head
  uint64_t era_ = 1;               // names of earlier ones were cleared
  std::vector<int64_t> tokens_;
  std::vector<MediaItem> items_;
  std::vector<ExtraKey> extra_;
  EventRecord record_;
  EventRing ring_;
};

}  // namespace quire
