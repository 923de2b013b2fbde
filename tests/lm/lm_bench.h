// lm_bench.h: a recorded model under test: steps of its sequences, and how far their logits are
// from those that transformers computed (tests/lm/record.py).
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "stepper.h"

namespace lm_parity {

// A folder of tests/golden/data/lm: a checkpoint, token ids and the logits of every token.
struct Recorded {
  explicit Recorded(const std::filesystem::path& folder);

  std::filesystem::path folder;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<lm::Matrix> logits;
  std::vector<std::shared_ptr<const lm::Matrix>> encoder_inputs;  // of models with an encoder
  // tokens that the first two sequences have in common
  size_t shared = 0;
};

// What the rows of one case add up to.
struct Score {
  double difference = 0;  // squares
  double reference = 0;
  uint64_t rows = 0;
  uint64_t clear = 0;      // rows whose best token has a margin above the bar
  uint64_t top_equal = 0;  // of those, the same token is best
  uint64_t hit_tokens = 0;
  uint64_t logits = 0;
  uint64_t differ = 0;  // logits that are off by more than the bar times the largest of their row
  std::string note;

  void add(std::span<const float> got, std::span<const float> wanted, double bar);
  double relative() const { return reference == 0 ? 0 : std::sqrt(difference / reference); }
  bool passes(double bar) const { return rows != 0 && relative() <= bar && top_equal == clear; }
};

// A sequence of a case: which recorded one, and how far it goes.
struct Track {
  size_t recorded = 0;
  lm::Live live;
  size_t end = 0;
  bool is_done() const { return live.committed >= end; }
};

// A model with a cache of its own for one case.
class Bench {
 public:
  Bench(lm::LoadedModel& model, const Recorded& recorded, const lm::KvSettings& settings,  //
        double bar)
      : recorded_(recorded), bar_(bar), kv_(model.config, settings), stepper_(kv_, *model.family) {
    kv_.allocate();
  }

  const Recorded& recorded() const { return recorded_; }
  lm::Kv& kv() { return kv_; }
  const lm::Stepper& stepper() const { return stepper_; }
  Score& score() { return score_; }

  // salt: sequences of different salts share nothing.
  Track track(size_t recorded, std::string_view salt = {}) const;
  // Reserves a step in which every track that is not done has up to `tokens` tokens.
  lm::Flight reserve(std::span<Track* const> tracks, uint32_t tokens, uint32_t flags = 0) const;
  // Adds the rows of a step that ran to the score; the first `accepted` of each row, 0 = all.
  void compare(const lm::Flight& flight, std::span<Track* const> tracks, uint32_t accepted = 0);
  // Reserve, run, compare, commit.
  lm::Flight step(std::span<Track* const> tracks, uint32_t tokens, uint32_t flags = 0);
  // Steps until all tracks are done.
  void finish(std::span<Track* const> tracks, std::span<const uint32_t> chunks);
  void verify() const { kv_.cache().verify(); }

 private:
  const Recorded& recorded_;
  double bar_;
  lm::Kv kv_;
  lm::Stepper stepper_;
  Score score_;
};

// The cases, by name; each plays on a fresh bench.
struct Case {
  const char* name;
  void (*prepare)(lm::KvSettings& settings);  // NULL = as they are
  void (*play)(Bench& bench);
  bool only_states = false;  // of models with recurrent layers
  bool only_reuse = false;   // of models whose prefixes are shared: those without an encoder
};
std::span<const Case> cases();

}  // namespace lm_parity
