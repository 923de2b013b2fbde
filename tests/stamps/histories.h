// The model of histories. A sequence is an identity and a vector of symbols. Each prefix of it has
// a hash, from which the stamps of all its tokens and states are made. The model knows which
// prefixes were ever computed, so that it can say that a hit was too long.
#pragma once

#include <quire/cache.h>

#include <deque>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/stamps/dice.h"

namespace quire::stamps {

// Who may share with whom.
struct Owner {
  std::string salt;
  std::string adapter;
  uint64_t epoch = 0;

  friend bool operator==(const Owner&, const Owner&) = default;
  // Two owners have equal roots if and only if they may share.
  uint64_t root() const;
  quire_identity describe(uint32_t flags) const;
};

// Symbols and the hashes of all their prefixes.
class History {
 public:
  explicit History(uint64_t root = 0) : hashes_{root} {}

  uint64_t size() const { return symbols_.size(); }
  const std::vector<quire_symbol>& symbols() const { return symbols_; }
  // hashes()[n] is that of the first n symbols.
  const std::vector<uint64_t>& hashes() const { return hashes_; }
  void append(quire_symbol symbol);
  void cut(uint64_t tokens);

 private:
  std::vector<quire_symbol> symbols_;
  std::vector<uint64_t> hashes_;
};

// Every prefix that somebody committed since the cache forgot everything. A hit is never anything
// else.
class Computed {
 public:
  void note(const History& history, uint64_t begin, uint64_t end);
  bool knows(const History& history, uint64_t tokens) const { return tokens == 0 || known_.count(history.hashes()[tokens]) != 0; }
  void forget() { known_.clear(); }

 private:
  std::unordered_set<uint64_t> known_;
};

// Prompts of which many begin alike: a few texts that everybody knows, earlier conversations,
// media.
class Phrases {
 public:
  Phrases(Dice* dice, uint64_t longest);
  // Those that everybody knows are theirs.
  void inherit(const Phrases& other) { stems_ = other.stems_; }
  void add_media(quire_symbol first, uint32_t length) { media_.emplace_back(first, length); }
  // The first symbols of a new sequence, which never has more than `most`.
  std::vector<quire_symbol> prompt(uint64_t most);
  quire_symbol next() { return static_cast<quire_symbol>(dice_->below(dice_->percent(70) ? 3 : 40)); }
  // Later prompts may go on from here.
  void remember(const std::vector<quire_symbol>& symbols, uint64_t tokens);
  // A text that was there before, to pin or to look for.
  const std::vector<quire_symbol>& known();

 private:
  Dice* dice_;
  std::vector<std::vector<quire_symbol>> stems_;
  std::deque<std::vector<quire_symbol>> conversations_;
  std::vector<std::pair<quire_symbol, uint32_t>> media_;
};

}  // namespace quire::stamps
