#include "tests/stamps/histories.h"

#include <algorithm>

namespace quire::stamps {

uint64_t Owner::root() const {
  uint64_t hash = chained(epoch, salt.size());
  for (const char c : salt) hash = chained(hash, static_cast<uint64_t>(static_cast<unsigned char>(c)));
  hash = chained(hash, adapter.size() + 1000);
  for (const char c : adapter) hash = chained(hash, static_cast<uint64_t>(static_cast<unsigned char>(c)));
  return hash;
}

quire_identity Owner::describe(uint32_t flags) const {
  quire_identity identity = QUIRE_INIT(quire_identity);
  identity.flags = flags;
  identity.salt = {salt.data(), salt.size()};
  identity.adapter = {adapter.data(), adapter.size()};
  identity.epoch = epoch;
  return identity;
}

void History::append(quire_symbol symbol) {
  symbols_.push_back(symbol);
  hashes_.push_back(chained(hashes_.back(), symbol));
}

void History::cut(uint64_t tokens) {
  symbols_.resize(tokens);
  hashes_.resize(tokens + 1);
}

void Computed::note(const History& history, uint64_t begin, uint64_t end) {
  for (uint64_t n = begin + 1; n <= end; ++n) known_.insert(history.hashes()[n]);
}

Phrases::Phrases(Dice* dice, uint64_t longest) : dice_(dice) {
  for (uint64_t i = dice->between(1, 4); i > 0; --i) {
    std::vector<quire_symbol> stem;
    // Some stems begin as an earlier one does.
    if (!stems_.empty() && dice->percent(50)) stem.assign(stems_[0].begin(), stems_[0].begin() + static_cast<long>(stems_[0].size() / 2));
    const uint64_t length = std::max<uint64_t>(dice->between(longest / 4 + 1, longest / 2 + 1), stem.size());
    while (stem.size() < length) stem.push_back(next());
    stems_.push_back(std::move(stem));
  }
}

std::vector<quire_symbol> Phrases::prompt(uint64_t most) {
  std::vector<quire_symbol> out;
  if (!dice_->percent(4)) out = known();
  if (dice_->percent(12)) out.resize(dice_->between(0, out.size()));
  if (!media_.empty() && dice_->percent(30)) {
    const auto [first, length] = media_[dice_->below(media_.size())];
    for (uint32_t i = 0; i < length; ++i) out.push_back(first + i);
  }
  const uint64_t tail = dice_->percent(75) ? dice_->between(1, 6) : dice_->between(1, 40);
  for (uint64_t i = 0; i < tail; ++i) out.push_back(next());
  if (out.size() > most) out.resize(most);
  return out;
}

void Phrases::remember(const std::vector<quire_symbol>& symbols, uint64_t tokens) {
  if (tokens == 0) return;
  conversations_.emplace_back(symbols.begin(), symbols.begin() + static_cast<long>(tokens));
  if (conversations_.size() > 12) conversations_.pop_front();
}

const std::vector<quire_symbol>& Phrases::known() {
  if (conversations_.empty() || dice_->percent(50)) return stems_[dice_->below(stems_.size())];
  return conversations_[dice_->below(conversations_.size())];
}

}  // namespace quire::stamps
