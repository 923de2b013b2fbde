// Media items and the symbols that stand for their positions. No symbol is given out twice.
#pragma once

#include <quire/step.h>

#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/events/event_log.h"

namespace quire {

class Media {
 public:
  struct Item {
    uint8_t digest[32];
    uint32_t length;
    quire_symbol first;
  };

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
  Status check_symbols(std::span<const quire_symbol> symbols, size_t entry) const;
  uint64_t host_bytes() const { return items_.capacity() * sizeof(Item); }

 private:
  std::vector<Item> items_;
  uint64_t max_items_;
  uint64_t next_symbol_ = uint64_t{1} << 31;
};

}  // namespace quire
