#include "core/step/resume_points.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quire {

ResumePoints::ResumePoints(const Facts& facts, Pool& pool, const PrefixIndex& index, uint32_t max_sequences)
    : facts_(facts), pool_(pool), index_(index) {
  if (!facts.reuse || facts.strict_lru) return;
  for (const GroupFacts& g : facts.groups) {
    if (g.state) most_ += g.columns;
    if (g.falls) most_ += (g.block.ceil(g.live.longest_tail()) + 2) * g.columns;
  }
  most_ = std::min(most_, kMostPages);
  pages_.resize(most_ * max_sequences);
  counts_.resize(max_sequences);
}

// A prompt that is asked again resumes before its last token, so a window reaches back one block more.
void ResumePoints::set(uint32_t sequence, NodeId node) {
  if (most_ == 0) return;
  end(sequence);
  const uint64_t position = index_.tokens(node), unit = facts_.config->match_unit_tokens;
  std::array<uint64_t, kMaxGroups> tail;
  uint64_t least = position;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    tail[g] = group.state ? position - std::min(position, unit) : position;
    if (group.falls) tail[g] = group.live.tail_begin(position - std::min<uint64_t>(position, group.block_tokens));
    least = std::min(least, tail[g]);
  }
  if (total_ * kLeastShare >= pool_.num_pages()) return;
  uint32_t& count = counts_[sequence];
  const std::span<Spared> mine(pages_.data() + most_ * sequence, most_);
  for (uint64_t at = position; at > least; at -= unit, node = index_.parent(node)) {
    for (uint32_t g = 0; g < facts_.num_groups; ++g) {
      if (at <= tail[g]) continue;
      for (PartIndex p = index_.block_at(node, GroupId(g)); p.value != kNone && count < most_; p = pool_.next_in_block(p)) {
        const PageId page = pool_.page_of(p);
        mine[count++] = Spared{page, pool_.spare(page)};
      }
    }
  }
  total_ += count;
}

// The last one first: what lies deeper is evicted before what it needs.
void ResumePoints::end(uint32_t sequence) {
  if (most_ == 0) return;
  const Spared* mine = pages_.data() + most_ * sequence;
  for (uint32_t i = 0; i < counts_[sequence]; ++i) pool_.end_spare(mine[i].page, mine[i].life);
  total_ -= std::exchange(counts_[sequence], 0);
}

uint64_t ResumePoints::host_bytes() const { return pages_.capacity() * sizeof(Spared) + counts_.capacity() * sizeof(uint32_t); }

std::vector<uint32_t> ResumePoints::spares() const {
  std::vector<uint32_t> spares(pool_.num_pages(), 0);
  for (size_t q = 0; q < counts_.size(); ++q) {
    for (uint32_t i = 0; i < counts_[q]; ++i) {
      const Spared& one = pages_[most_ * q + i];
      if (pool_.spares().life(one.page.value) == one.life) ++spares[one.page.value];
    }
  }
  return spares;
}

}  // namespace quire
