#include "core/step/resume_points.h"

#include <algorithm>
#include <array>

namespace quire {

ResumePoints::ResumePoints(const Facts& facts, Pool& pool, const PrefixIndex& index, uint32_t max_sequences)
    : facts_(facts), pool_(pool), index_(index) {
  if (!facts.reuse || facts.strict_lru) return;
  for (const GroupFacts& g : facts.groups) {
    if (g.state) most_ += g.columns;
    if (g.falls) most_ += (g.block.ceil(g.live.longest_tail() + facts.config->hit_alignment_tokens) + 1) * g.columns;
  }
  const uint32_t kinds = facts.has_states ? 2 : 3;
  if (most_ <= kMostPages / kinds) kinds_ = kinds;
  most_ = std::min(most_, kMostPages);
  if (most_ == 0) return;
  counts_.resize(uint64_t{kinds_} * max_sequences);
  pages_.resize(most_ * counts_.size());
}

bool ResumePoints::begin(uint32_t sequence, ResumePoint kind) {
  if (!has(kind)) return false;
  end_point(point_of(sequence, kind));
  const uint64_t all = pool_.spares().num_pages(), spared = kind == ResumePoint::kPromptEnd ? ends_ : all - std::min(ends_, all);
  return spared * kLeastShare < pool_.num_pages();
}

// A prompt that is asked again resumes before its last token, so at its end a window reaches back one boundary more.
void ResumePoints::set(uint32_t sequence, ResumePoint kind, NodeId node) {
  if (facts_.has_states && index_.block_at(node, GroupId(facts_.first_state)).value == kNone) return;
  if (!begin(sequence, kind)) return;
  const uint64_t unit = facts_.config->match_unit_tokens, alignment = facts_.config->hit_alignment_tokens;
  const uint64_t position = index_.tokens(node);
  std::array<uint64_t, kMaxGroups> tail;
  uint64_t least = position;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    tail[g] = group.state ? position - std::min(position, unit) : position;
    const uint64_t back = kind == ResumePoint::kPromptEnd ? std::max<uint64_t>(alignment, group.block_tokens) : position % alignment;
    if (group.falls) tail[g] = group.live.tail_begin(position - std::min(position, back));
    least = std::min(least, tail[g]);
  }
  for (uint64_t at = position; at > least; at -= unit, node = index_.parent(node)) {
    for (uint32_t g = 0; g < facts_.num_groups; ++g) {
      if (at > tail[g]) add(sequence, kind, index_.block_at(node, GroupId(g)));
    }
  }
  done(sequence, kind);
}

void ResumePoints::done(uint32_t sequence, ResumePoint kind) {
  const uint32_t point = point_of(sequence, kind);
  for (Spared& one : std::span(pages_).subspan(most_ * point, counts_[point])) one.life = pool_.spare(one.page);
  if (kind == ResumePoint::kPromptEnd) ends_ += counts_[point];
}

// The end of the prompt last, so that it is evicted after the others.
void ResumePoints::end(uint32_t sequence) {
  if (most_ == 0) return;
  for (uint32_t kind = kinds_; kind > 0; --kind) end_point(sequence * kinds_ + kind - 1);
}

// The last one first: what lies deeper is evicted before what it needs.
void ResumePoints::end_point(uint32_t point) {
  const Spared* mine = pages_.data() + most_ * point;
  for (uint32_t i = 0; i < counts_[point]; ++i) pool_.end_spare(mine[i].page, mine[i].life);
  if (point % kinds_ == static_cast<uint32_t>(ResumePoint::kPromptEnd)) ends_ -= counts_[point];
  counts_[point] = 0;
}

uint64_t ResumePoints::host_bytes() const { return pages_.capacity() * sizeof(Spared) + counts_.capacity() * sizeof(uint32_t); }

std::vector<uint32_t> ResumePoints::spares() const {
  std::vector<uint32_t> spares(pool_.num_pages(), 0);
  for (size_t point = 0; point < counts_.size(); ++point) {
    for (uint32_t i = 0; i < counts_[point]; ++i) {
      const Spared& one = pages_[most_ * point + i];
      if (pool_.spares().life(one.page.value) == one.life) ++spares[one.page.value];
    }
  }
  return spares;
}

}  // namespace quire
