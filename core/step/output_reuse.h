// Whether later prompts contain what sequences generated. Turns of a conversation do, unless the
// chat template drops the reasoning of earlier ones. Where few do, blocks after the prompt are
// evicted first when their sequence is finished, and prompts can use their room. One in eight
// sequences is a sample: its blocks age like others. A prompt that diverges at the end of a
// sample's prompt, or later, shows whether it contains the sample's output.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/facts.h"
#include "core/step/moving_mean.h"
#include "core/step/samples.h"

namespace quire {

class OutputReuse {
 public:
  // Both are borrowed.
  OutputReuse(const Facts& facts, PrefixIndex& index) : facts_(facts), index_(index) {}

  // A prompt of so many symbols begins, and this is its match. Looks at few nodes.
  void learn(const Match& match, uint64_t num_symbols) {
    if (match.deepest.value == kNone || match.was_longer) return;
    const uint8_t marks = index_.marks(match.deepest);
    if ((marks & kOutput) != 0) {
      reused_.add(1, kCovered);
      return;
    }
    // A prompt that ends here may be the same one again.
    const uint64_t next_end = index_.tokens(match.deepest) + facts_.config->match_unit_tokens;
    if ((marks & kBeforeOutput) == 0 || num_symbols <= next_end) return;
    reused_.add(0, kCovered);
    // Here and above it counts once: many other conversations may begin like this one.
    NodeId at = match.deepest;
    for (; (index_.marks(at) & kBeforeOutput) != 0; at = index_.parent(at)) {
      index_.marks(at) &= static_cast<uint8_t>(~kBeforeOutput);
    }
  }

  // The sequence ends: the tokens after which its blocks are evicted first; UINT64_MAX: none are.
  uint64_t cold_from(const Sequence& s) {
    uint64_t from = s.before_output();
    // checkpoint_interval keeps boundaries in the output, too.
    if (facts_.every) from = std::max(from, s.committed / facts_.spacing * facts_.spacing);
    if (facts_.strict_lru || !s.publishing) return UINT64_MAX;
    if (s.prompt == 0 || s.committed <= from) return UINT64_MAX;
    if (ended_.next()) {
      mark(s, from);
      return UINT64_MAX;
    }
    return reused_.count >= kFewest && reused_.mean < kFew ? from : UINT64_MAX;
  }

 private:
  // Of PrefixIndex::marks().
  static constexpr uint8_t kOutput = 0x40, kBeforeOutput = 0x20;
  // Templates end a prompt with some tokens that the next turn does not repeat.
  static constexpr uint64_t kTemplateTokens = 64;
  static constexpr uint64_t kFewest = 16, kCovered = 64;  // prompts
  static constexpr double kFew = 1. / 4;

  // Nothing that it shared when it began: others diverge there for other reasons.
  void mark(const Sequence& s, uint64_t from) {
    const uint64_t unit = facts_.config->match_unit_tokens;
    const uint64_t last = std::max(kTemplateTokens, unit);
    const uint64_t before = std::max(s.shared, from - std::min(from, last));
    const uint64_t alignment = facts_.config->hit_alignment_tokens;
    // The output must have blocks in the index.
    if (facts_.joint.quotient(s.committed) * alignment <= from) return;
    uint64_t end = index_.tokens(s.node);
    for (NodeId at = s.node; end > before; end -= unit, at = index_.parent(at)) {
      index_.marks(at) |= end > from ? kOutput : kBeforeOutput;
    }
  }

  const Facts& facts_;
  PrefixIndex& index_;
  MovingMean reused_;  // of prompts that reached the end of a sample's: those with its output
  Samples ended_;
};

}  // namespace quire
