#include "core/step/media.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

namespace quire {
namespace {

void name_by_digest(const Media::Item& item, SymbolNames* names) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (uint8_t byte : item.digest) name += kDigits[byte >> 4], name += kDigits[byte & 15];
  names->name_media(item.first, item.length, std::move(name), 0);
}

// All bits of the symbols; one by one each would wait for the one before.
quire_symbol bits_of(std::span<const quire_symbol> symbols) {
  constexpr size_t kStretch = 16;
  std::array<quire_symbol, kStretch> each{};
  for (; symbols.size() >= kStretch; symbols = symbols.subspan(kStretch)) {
    for (size_t k = 0; k < kStretch; ++k) each[k] |= symbols[k];
  }
  const quire_symbol rest = std::accumulate(symbols.begin(), symbols.end(), quire_symbol{0}, std::bit_or<>());
  return std::accumulate(each.begin(), each.end(), rest, std::bit_or<>());
}

}  // namespace

Status Media::add(const uint8_t* digest, uint32_t length, SymbolNames* names, quire_symbol* first) {
  if (length == 0) return invalid("length: 0, at least 1");
  for (const Item& known : items_) {
    if (std::memcmp(known.digest.data(), digest, known.digest.size()) != 0) continue;
    if (known.length != length) return invalid("length: %u, the same digest was added with %u", length, known.length);
    *first = known.first;
    return {};
  }
  if (items_.size() >= max_items_)
    return fail(QUIRE_RESOURCE_EXHAUSTED, "max_media: all %llu are in use", static_cast<unsigned long long>(max_items_));
  if (next_symbol_ + length > uint64_t{1} << 32) return fail(QUIRE_RESOURCE_EXHAUSTED, "media symbols: 2^31 positions are in use");
  Item added{};
  std::memcpy(added.digest.data(), digest, added.digest.size());
  added.length = length;
  added.first = static_cast<quire_symbol>(next_symbol_);
  if (names != nullptr) name_by_digest(added, names);
  items_.push_back(added);
  next_symbol_ += length;
  *first = added.first;
  return {};
}

const Media::Item* Media::find(quire_symbol first) const {
  const auto at = std::find_if(items_.begin(), items_.end(), [first](const Item& item) { return item.first == first; });
  return at == items_.end() ? nullptr : &*at;
}

const Media::Item* Media::item_of(quire_symbol symbol) const {
  const auto after =
      std::upper_bound(items_.begin(), items_.end(), symbol, [](quire_symbol x, const Item& item) { return x < item.first; });
  if (after == items_.begin()) return nullptr;
  const Item& item = *(after - 1);
  return symbol - item.first < item.length ? &item : nullptr;
}

void Media::name_all(SymbolNames* names) const {
  for (const Item& item : items_) name_by_digest(item, names);
}

Status Media::check_all(std::span<const quire_symbol> symbols, size_t entry) const {
  if (is_token_id(bits_of(symbols))) return {};
  const quire_symbol largest = *std::max_element(symbols.begin(), symbols.end());
  if (largest < next_symbol_) return {};
  return invalid("entries[%zu]: symbol %u is neither a token id below 2^31 nor a media symbol given out so far", entry, largest);
}

}  // namespace quire
