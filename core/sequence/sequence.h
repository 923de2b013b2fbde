// Sequences: lengths, block tables, and the symbols that no node of the prefix index holds yet. All memory is allocated at creation.
//
//   positions   0 ......... published ......... committed ......... reserved
//   symbols                 |-------- kept here, in chunks of units ---------| known
//
// Tables carry ids; position i of a token table is the block of tokens [i * block_tokens, (i + 1) * block_tokens), id 0 where it is not
// resident. Groups of states have no table but blocks for the current state, those that rows in flight
// write, and spares to write the next ones into.
#pragma once

#include <quire/cache.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/plan/cache_config.h"

namespace quire {

// What a sequence holds of one group.
struct Holding {
  uint32_t num_blocks = 0;        // tokens: blocks in the table
  uint32_t first_live = 0;        // tokens: blocks [sink blocks, first_live) are gone
  uint32_t published_blocks = 0;  // tokens: blocks before are in the index, or were not worth it
  uint32_t settled = 0;           // tokens: blocks before are, or were while they were live, as the last row showed them
  PageId fill_page{0};            // others take holes in it only where nothing else is left
  PartIndex current{kNone};       // states: the state at `committed`, kNone at position 0
  PartIndex newest{kNone};        // states: the state at `reserved`; owned by a row in flight, or current
  uint32_t num_spares = 0;        // states: unpublished blocks nobody reads
};

// What decoding reads and writes stands first, in two cache lines.
struct alignas(64) Sequence {
  bool live = false;
  bool publishing = false;  // complete units go to the index
  // The block being filled may be another's, too: after a fork, or cut back into a published one.
  bool may_share = false;
  bool loading = false;  // a connector brings tokens of it
  bool lost = false;     // an abort undid rows that may have overwritten its state
  bool learned = false;  // its prompt's end was looked at; once, however often it is computed
  uint32_t generation = 0;
  uint32_t incarnation = 0;  // counts preemptions: rows in flight of an older one are dropped
  uint32_t in_flight = 0;    // steps with a row of this incarnation
  uint64_t mark = 0;         // last step that has a row of it
  uint64_t committed = 0;
  uint64_t reserved = 0;
  // To so many tokens, in every table that grows, the blocks are those that the last row showed. 0:
  // not known.
  uint64_t shown = 0;
  uint64_t known = 0;      // symbols
  uint64_t published = 0;  // tokens whose symbols the index holds; multiple of the unit
  uint64_t falls_at = 0;   // before so many committed tokens no block leaves a live range
  uint64_t prompt = 0;     // tokens, once they are known
  // Where groups that need everything would have resumed at the last match, if that is beyond the
  // hit.
  uint64_t branch_point = 0;
  uint32_t root = kNone;
  NodeId node{kNone};                                // deepest published node, held
  uint32_t first_chunk = kNone, last_chunk = kNone;  // where symbols are kept
  uint32_t dropped = 0;                              // symbols of the first one that are gone
  uint32_t encoder = 0;                              // tokens of the encoder that it attends to
  uint32_t flags = 0;
  uint64_t hit_tokens = 0;
  uint64_t paused = 0;      // others may resume there: last end of a chunk, fork and so on
  uint64_t shared = 0;      // of the prompt, what the index knew when it began
  uint64_t prompt_end = 0;  // where others would resume who share the prompt (0055)

  // Tokens before the output: what follows was decoded, and nobody is known to resume there.
  uint64_t before_output() const { return std::max(prompt, paused); }
};
static_assert(offsetof(Sequence, hit_tokens) <= 128);

class Sequences {
 public:
  // Tables for config.max_model_len tokens, of cross attention for the encoder's; symbols for symbols_in_flight tokens over all sequences,
  // 0 where no sequence publishes and none are kept; spares of each group of states.
  static Result<Sequences> create(const Config& config, uint32_t max_sequences, uint64_t symbols_in_flight, uint32_t max_spares = 1);

  // kNone when all are in use.
  uint32_t open();
  void close(uint32_t index);
  SequenceId id(uint32_t index) const { return SequenceId(index | uint64_t{sequences_[index].generation} << 32); }
  // kNone for ids that are stale or never were.
  uint32_t find(SequenceId id) const {
    const auto index = static_cast<uint32_t>(id.value);
    if (index >= sequences_.size()) return kNone;
    const Sequence& s = sequences_[index];
    return s.live && s.generation == id.value >> 32 ? index : kNone;
  }
  Sequence& at(uint32_t index) { return sequences_[index]; }
  const Sequence& at(uint32_t index) const { return sequences_[index]; }
  Holding& holding(uint32_t index, uint32_t group) { return holdings_[size_t{index} * num_groups_ + group]; }
  const Holding& holding(uint32_t index, uint32_t group) const { return holdings_[size_t{index} * num_groups_ + group]; }
  // One column of a token table, all max_blocks of it.
  std::span<int32_t> table(uint32_t index, uint32_t group, uint32_t column) {
    Table& t = tables_[group];
    return {t.ids.data() + (size_t{index} * t.columns + column) * t.pitch, t.max_blocks};
  }
  std::span<const int32_t> table(uint32_t index, uint32_t group, uint32_t column) const {
    const Table& t = tables_[group];
    return {t.ids.data() + (size_t{index} * t.columns + column) * t.pitch, t.max_blocks};
  }
  // States that a sequence owns and nobody reads; the first holding.num_spares count.
  std::span<PartIndex> spares(uint32_t index, uint32_t group) {
    return {spares_.data() + (size_t{index} * num_groups_ + group) * max_spares_, max_spares_};
  }
  std::span<const PartIndex> spares(uint32_t index, uint32_t group) const {
    return {spares_.data() + (size_t{index} * num_groups_ + group) * max_spares_, max_spares_};
  }
  uint32_t max_blocks(uint32_t group) const { return tables_[group].max_blocks; }
  uint32_t capacity() const { return static_cast<uint32_t>(sequences_.size()); }
  uint32_t num_live() const { return num_live_; }
  // Sequences that have tokens, reserved ones included.
  uint32_t num_begun() const { return num_begun_; }
  void set_reserved(Sequence* s, uint64_t tokens) {
    num_begun_ += (tokens > 0 ? 1 : 0) - (s->reserved > 0 ? 1 : 0);
    s->reserved = tokens;
  }

  // Symbols [published, known). Appending never fails within the declared bounds; false means a bound was wrong.
  bool append_symbols(uint32_t index, std::span<const quire_symbol> symbols);
  // One more in a chunk that has others already; false: it begins one, and nothing was done.
  bool append_symbol(uint32_t index, quire_symbol symbol) {
    Sequence& s = sequences_[index];
    const uint64_t in_chunk = in_last_chunk(s);
    if (in_chunk == 0 || !s.publishing) return false;
    chunk(s.last_chunk)[in_chunk] = symbol;
    ++s.known;
    return true;
  }
  // Forgets symbols from `known` on, which is at least `published`.
  void cut_symbols(uint32_t index, uint64_t known);
  // The first units, at most as many as there is room for; all must be complete. How many.
  uint32_t first_units(uint32_t index, std::span<const quire_symbol*> units) const {
    const Sequence& s = sequences_[index];
    uint32_t n = 0;
    size_t from = s.dropped;
    for (uint32_t c = s.first_chunk; n < units.size() && c != kNone; c = chunk_next_[c], from = 0) {
      const quire_symbol* const symbols = chunk(c);
      for (; n < units.size() && from < chunk_; from += unit_) units[n++] = symbols + from;
    }
    return n;
  }
  // Appends the symbols [published, known); there is room for them.
  void read_symbols(uint32_t index, std::vector<quire_symbol>* to) const;
  // Forgets the first `count` units, at least one and all complete, and moves `published` on.
  void drop_units(uint32_t index, uint32_t count);
  void drop_symbols(uint32_t index);
  // Copies the symbols [published, known) of another sequence.
  bool copy_symbols(uint32_t from, uint32_t to, uint64_t known);

  uint64_t host_bytes() const;
  Status verify() const;

 private:
  struct Table {
    uint32_t max_blocks = 0;
    uint32_t columns = 0;
    size_t pitch = 0;          // an odd number of cache lines: tables a power of two apart would share few sets of a cache
    std::vector<int32_t> ids;  // [sequence][column][block], rows `pitch` apart
  };
  static constexpr uint32_t kUsualChunk = 128;  // symbols; at least a unit
  // Symbols in the last chunk, 0 where it is full; chunks are a power of two most of the time.
  uint64_t in_last_chunk(const Sequence& s) const {
    const uint64_t symbols = s.dropped + s.known - s.published;
    return (chunk_ & (chunk_ - 1)) == 0 ? symbols & (chunk_ - 1) : symbols % chunk_;
  }
  quire_symbol* chunk(uint32_t c) { return symbols_.data() + size_t{c} * chunk_; }
  const quire_symbol* chunk(uint32_t c) const { return symbols_.data() + size_t{c} * chunk_; }
  void free_chunks(uint32_t first);
  void free_all_chunks(Sequence* s);
  uint32_t unit_ = 1;
  uint32_t chunk_ = 1;  // symbols
  uint32_t num_groups_ = 0;
  uint32_t num_live_ = 0;
  uint32_t num_begun_ = 0;
  uint32_t max_spares_ = 1;
  std::vector<Sequence> sequences_;
  std::vector<uint32_t> free_;
  std::vector<Holding> holdings_;  // [sequence][group]
  std::vector<PartIndex> spares_;  // [sequence][group][max_spares_]; empty without states
  std::vector<Table> tables_;      // by group
  std::vector<quire_symbol> symbols_;
  std::vector<uint32_t> chunk_next_;
  uint32_t free_chunk_ = kNone;
  uint64_t num_free_chunks_ = 0;
};

}  // namespace quire
