// Boundaries of running sequences where other requests resume. The blocks needed there leave the
// sequence's live range as it goes on. They would be evicted before the blocks that the sequence
// still holds, which are useless without them. They are spared until the sequence ends or is
// emptied, and age from then on like the rest.
#pragma once

#include <span>
#include <vector>

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/step/facts.h"

namespace quire {

// A sequence has at most one of each kind.
enum class ResumePoint : uint8_t {
  kPromptEnd,    // where the next request of the conversation resumes
  kHit,          // where the sequence resumed itself, or where what a load brought ends
  kBranchPoint,  // where its prompt diverges from that of an earlier request
};

class ResumePoints {
 public:
  // All are borrowed.
  ResumePoints(const Facts& facts, Pool& pool, const PrefixIndex& index, uint32_t max_sequences);

  // Requests can resume at the node, or at the last boundary before it. What was spared for the
  // sequence's previous point of that kind is not any more. In models with states nothing changes
  // where none is kept: nobody resumes there.
  void set(uint32_t sequence, ResumePoint kind, NodeId node);
  // The same for whoever knows the blocks: begin(), then, if that is true, add() for each of them,
  // the last one first, and done() once all of them are referenced.
  bool begin(uint32_t sequence, ResumePoint kind);
  void add(uint32_t sequence, ResumePoint kind, PartIndex head);
  void done(uint32_t sequence, ResumePoint kind);
  void end(uint32_t sequence);
  bool has(ResumePoint kind) const { return most_ > 0 && static_cast<uint32_t>(kind) < kinds_; }

  uint64_t host_bytes() const;
  // [page]: how often it is spared.
  std::vector<uint32_t> spares() const;

 private:
  // Of all pages one in so many is spared at most for ends of prompts, and as many for the other
  // kinds: in a small pool it would be the others' turn to be evicted too early.
  static constexpr uint64_t kLeastShare = 8;
  static constexpr uint64_t kMostPages = 4096;  // of one sequence; what is beyond is not spared

  uint32_t point_of(uint32_t sequence, ResumePoint kind) const {  //
    return sequence * kinds_ + static_cast<uint32_t>(kind);
  }
  void end_point(uint32_t point);

  const Facts& facts_;
  Pool& pool_;
  const PrefixIndex& index_;
  uint64_t ends_ = 0;  // pages spared for ends of prompts, each as often as it is, until that ends
  uint64_t most_ = 0;  // pages of one point
  // Points of one sequence: the first so many kinds. A state takes the bytes of thousands of
  // tokens, so models with states have no branch points.
  uint32_t kinds_ = 1;
  struct Spared {
    PageId page{0};
    uint32_t life = 0;  // of the page
  };
  std::vector<Spared> pages_;     // [point * most_ ..]: spared once each
  std::vector<uint32_t> counts_;  // [point]: those of a sequence in the order of kinds
};

inline void ResumePoints::add(uint32_t sequence, ResumePoint kind, PartIndex head) {
  const uint32_t point = point_of(sequence, kind);
  uint32_t& count = counts_[point];
  for (PartIndex p = head; p.value != kNone && count < most_; p = pool_.next_in_block(p)) {
    pages_[most_ * point + count++].page = pool_.page_of(p);
  }
}

}  // namespace quire
