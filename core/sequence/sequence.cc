#include "core/sequence/sequence.h"

#include <algorithm>
#include <cstring>

#include "core/base/checked.h"

namespace quire {
namespace {

constexpr uint64_t kLine = 64 / sizeof(int32_t);

}  // namespace

Result<Sequences> Sequences::create(const Config& config, uint32_t max_sequences, uint64_t symbols_in_flight, uint32_t max_spares) {
  Sequences s;
  s.unit_ = config.match_unit_tokens;
  s.chunk_ = s.unit_ * std::max(kUsualChunk / s.unit_, 1u);
  s.num_groups_ = static_cast<uint32_t>(config.groups.size());
  s.sequences_.resize(max_sequences);
  s.holdings_.resize(size_t{max_sequences} * s.num_groups_);
  const bool states = std::any_of(config.groups.begin(), config.groups.end(), [](const GroupPlan& g) { return g.is_state(); });
  s.max_spares_ = max_spares;
  if (states) s.spares_.assign(size_t{max_sequences} * s.num_groups_ * max_spares, PartIndex(kNone));
  for (uint32_t i = max_sequences; i > 0; --i) s.free_.push_back(i - 1);
  for (const GroupPlan& group : config.groups) {
    Table table;
    if (!group.is_state()) {
      const uint64_t blocks = group.table_blocks(config.max_model_len);
      table.pitch = (ceil_div(blocks, kLine) | 1) * kLine;
      auto entries = checked_product({max_sequences, group.ids_per_block, table.pitch});
      if (!entries || *entries > (uint64_t{1} << 40)) {
        return fail(QUIRE_OUT_OF_RANGE, "block tables: %u sequences x %u columns x %llu blocks are too many entries", max_sequences,
                    group.ids_per_block, static_cast<unsigned long long>(blocks));
      }
      table.max_blocks = static_cast<uint32_t>(blocks);
      table.columns = group.ids_per_block;
      table.ids.assign(*entries, 0);
    }
    s.tables_.push_back(std::move(table));
  }
  // Each sequence has at most two partly filled chunks (its first and its last) and one of symbols known ahead.
  const uint64_t chunks = symbols_in_flight == 0 ? 0 : ceil_div(symbols_in_flight, s.chunk_) + uint64_t{3} * max_sequences;
  auto symbols = checked_mul(chunks, s.chunk_);
  if (!symbols || chunks >= kNone) return fail(QUIRE_OUT_OF_RANGE, "max_tokens_per_step: too many symbols in flight");
  s.symbols_.resize(*symbols);
  s.chunk_next_.resize(chunks);
  for (uint64_t c = chunks; c > 0; --c) {
    s.chunk_next_[c - 1] = s.free_chunk_;
    s.free_chunk_ = static_cast<uint32_t>(c - 1);
  }
  s.num_free_chunks_ = chunks;
  return s;
}

uint32_t Sequences::open() {
  if (free_.empty()) return kNone;
  uint32_t index = free_.back();
  free_.pop_back();
  Sequence& s = sequences_[index];
  uint32_t generation = s.generation + 1;
  s = Sequence{};
  s.generation = generation == 0 ? 1 : generation;
  s.live = true;
  for (uint32_t g = 0; g < num_groups_; ++g) holding(index, g) = Holding{};
  ++num_live_;
  return index;
}

void Sequences::close(uint32_t index) {
  drop_symbols(index);
  sequences_[index].live = false;
  free_.push_back(index);
  --num_live_;
}

bool Sequences::append_symbols(uint32_t index, std::span<const quire_symbol> symbols) {
  Sequence& s = sequences_[index];
  if (!s.publishing) {
    s.known += symbols.size();
    return true;
  }
  if (const uint64_t in_chunk = in_last_chunk(s); in_chunk != 0) {
    const size_t n = std::min<size_t>(symbols.size(), chunk_ - in_chunk);
    std::copy_n(symbols.begin(), n, chunk(s.last_chunk) + in_chunk);
    symbols = symbols.subspan(n);
    s.known += n;
  }
  if (symbols.empty()) return true;
  const uint64_t chunks = ceil_div(symbols.size(), chunk_);
  if (chunks > num_free_chunks_) return false;
  num_free_chunks_ -= chunks;
  // Free chunks are linked already as those of the sequence are to be.
  (s.last_chunk != kNone ? chunk_next_[s.last_chunk] : s.first_chunk) = free_chunk_;
  s.known += symbols.size();
  while (!symbols.empty()) {
    const size_t n = std::min<size_t>(symbols.size(), chunk_);
    s.last_chunk = free_chunk_;
    free_chunk_ = chunk_next_[free_chunk_];
    std::copy_n(symbols.begin(), n, chunk(s.last_chunk));
    symbols = symbols.subspan(n);
  }
  chunk_next_[s.last_chunk] = kNone;
  return true;
}

void Sequences::read_symbols(uint32_t index, std::vector<quire_symbol>* to) const {
  const Sequence& s = sequences_[index];
  uint64_t left = s.known - s.published;
  for (uint32_t c = s.first_chunk, from = s.dropped; left > 0 && c != kNone; c = chunk_next_[c], from = 0) {
    const size_t n = std::min<size_t>(left, chunk_ - from);
    to->insert(to->end(), chunk(c) + from, chunk(c) + from + n);
    left -= n;
  }
}

void Sequences::free_chunks(uint32_t first) {
  while (first != kNone) {
    uint32_t next = chunk_next_[first];
    chunk_next_[first] = free_chunk_;
    free_chunk_ = first;
    ++num_free_chunks_;
    first = next;
  }
}

void Sequences::free_all_chunks(Sequence* s) {
  free_chunks(s->first_chunk);
  s->first_chunk = s->last_chunk = kNone;
  s->dropped = 0;
}

// Chunks become free in the order in which they were taken, so what is kept next lies as this did.
void Sequences::drop_units(uint32_t index, uint32_t count) {
  Sequence& s = sequences_[index];
  s.published += uint64_t{count} * unit_;
  s.dropped += count * unit_;
  const bool nothing_is_left = s.published == s.known;
  if (s.dropped < chunk_ && !nothing_is_left) return;
  uint32_t last = s.first_chunk, freed = 1;
  for (; chunk_next_[last] != kNone && (nothing_is_left || s.dropped >= chunk_ * (freed + 1)); ++freed) last = chunk_next_[last];
  const uint32_t rest = chunk_next_[last];
  chunk_next_[last] = free_chunk_;
  free_chunk_ = s.first_chunk;
  num_free_chunks_ += freed;
  s.first_chunk = rest;
  s.dropped = nothing_is_left ? 0 : s.dropped - freed * chunk_;
  if (rest == kNone) s.last_chunk = kNone;
}

void Sequences::cut_symbols(uint32_t index, uint64_t known) {
  Sequence& s = sequences_[index];
  if (known >= s.known) return;
  s.known = known;
  if (!s.publishing) return;
  if (known == s.published) return free_all_chunks(&s);
  uint32_t c = s.first_chunk;
  for (uint64_t keep = ceil_div(s.dropped + known - s.published, chunk_); keep > 1; --keep) c = chunk_next_[c];
  free_chunks(chunk_next_[c]);
  chunk_next_[c] = kNone;
  s.last_chunk = c;
}

void Sequences::drop_symbols(uint32_t index) {  //
  free_all_chunks(&sequences_[index]);
}

bool Sequences::copy_symbols(uint32_t from, uint32_t to, uint64_t known) {
  const Sequence& source = sequences_[from];
  Sequence& target = sequences_[to];
  target.published = target.known = source.published;
  uint64_t from_symbol = source.dropped;
  for (uint32_t c = source.first_chunk; target.known < known; c = chunk_next_[c], from_symbol = 0) {
    const auto n = std::min<uint64_t>(chunk_ - from_symbol, known - target.known);
    if (!append_symbols(to, {chunk(c) + from_symbol, n})) return false;
  }
  return true;
}

uint64_t Sequences::host_bytes() const {
  uint64_t bytes = sequences_.capacity() * sizeof(Sequence) + holdings_.capacity() * sizeof(Holding) +
                   spares_.capacity() * sizeof(PartIndex) + symbols_.capacity() * 4 + chunk_next_.capacity() * 4 + free_.capacity() * 4;
  for (const Table& t : tables_) bytes += t.ids.capacity() * 4;
  return bytes;
}

Status Sequences::verify() const {
  uint64_t chunks = 0, live = 0;
  for (uint32_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    if (!s.live) continue;
    ++live;
    if (s.committed > s.reserved || (s.publishing && s.published > s.committed))
      return fail(QUIRE_INTERNAL, "sequence %u: lengths out of order", i);
    uint64_t mine = 0;
    uint32_t last = kNone;
    for (uint32_t c = s.first_chunk; c != kNone; last = c, c = chunk_next_[c]) ++mine;
    const uint64_t symbols = s.known - s.published;
    const uint64_t expected = s.publishing && symbols > 0 ? ceil_div(s.dropped + symbols, chunk_) : 0;
    const bool too_many_dropped = s.dropped >= chunk_ || (expected == 0 && s.dropped > 0);
    if (too_many_dropped) return fail(QUIRE_INTERNAL, "sequence %u: %u symbols dropped", i, s.dropped);
    if (mine != expected || last != s.last_chunk) return fail(QUIRE_INTERNAL, "sequence %u: wrong number of symbol chunks", i);
    chunks += mine;
  }
  if (live != num_live_ || live + free_.size() != sequences_.size()) return fail(QUIRE_INTERNAL, "sequences: %u live counted", num_live_);
  if (chunks + num_free_chunks_ != chunk_next_.size()) return fail(QUIRE_INTERNAL, "symbol chunks: some are lost");
  return {};
}

}  // namespace quire
