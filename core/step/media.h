// Media items and the symbols that stand for their positions. No symbol is given out twice.
#pragma once

#include <quire/step.h>

#include <array>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/events/event_log.h"

namespace quire {

struct MediaFacts {
  std::array<uint8_t, 32> digest{};
  uint32_t length = 0;  // positions
  quire_symbol first = 0;
};

class Media {
 public:
  using Item = MediaFacts;

  explicit Media(uint64_t max_items) : max_items_(max_items) { items_.reserve(max_items); }

  // *first: the first symbol of the item, the same for the same digest. names: null, or where the
  // item is named by its digest.
  Status add(const uint8_t* digest, uint32_t length, SymbolNames* names, quire_symbol* first);
  // Null where no item has this first symbol.
  const Item* find(quire_symbol first) const;
  // The item that a media symbol stands for a position of; null where it was never given out.
  const Item* item_of(quire_symbol symbol) const;
  // Names all items by their digests.
  void name_all(SymbolNames* names) const;
  // A media symbol that was never given out could stand for an item that is added later.
  Status check_symbols(std::span<const quire_symbol> symbols, size_t entry) const {
    const bool decodes = symbols.size() <= 1;
    if (decodes && (symbols.empty() || is_token_id(symbols[0]))) return {};
    return check_all(symbols, entry);
  }
  uint64_t host_bytes() const { return items_.capacity() * sizeof(Item); }

 private:
  static bool is_token_id(quire_symbol symbol) { return symbol >> 31 == 0; }
  Status check_all(std::span<const quire_symbol> symbols, size_t entry) const;

  std::vector<Item> items_;
  uint64_t max_items_;
  uint64_t next_symbol_ = uint64_t{1} << 31;
};

}  // namespace quire
