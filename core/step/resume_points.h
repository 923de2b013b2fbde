// Where the next request of a conversation resumes: the end of the prompt of a running sequence.
// The blocks needed there leave the sequence's live range as it goes on. They would be evicted
// before the blocks that the sequence still holds, which are useless without them. They are spared
// until the sequence ends or is emptied, and age from then on like the rest.
#pragma once

#include <span>
#include <vector>

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/step/facts.h"

namespace quire {

class ResumePoints {
 public:
  // All are borrowed.
  ResumePoints(const Facts& facts, Pool& pool, const PrefixIndex& index, uint32_t max_sequences);

  // The sequence can be resumed at the node. What was spared for it before is not any more.
  void set(uint32_t sequence, NodeId node);
  void end(uint32_t sequence);

  uint64_t host_bytes() const;
  // [page]: how many sequences it is spared for.
  std::vector<uint32_t> spares() const;

 private:
  // Of all pages one in so many is spared at most: in a small pool it would be the others' turn to
  // be evicted too early.
  static constexpr uint64_t kLeastShare = 8;
  static constexpr uint64_t kMostPages = 4096;  // of one sequence; what is beyond is not spared

  const Facts& facts_;
  Pool& pool_;
  const PrefixIndex& index_;
  uint64_t total_ = 0;  // spares of all sequences
  uint64_t most_ = 0;   // pages of one sequence
  struct Spared {
    PageId page{0};
    uint32_t life = 0;  // of the page
  };
  std::vector<Spared> pages_;     // [sequence * most_ ..]: spared once each
  std::vector<uint32_t> counts_;  // [sequence]
};

}  // namespace quire
