#include "plugins/file/file_index.h"

namespace quire::file {

Entry* Index::find_any(std::string_view key) {
  Folder& folder = folders_[folder_of(key)];
  const auto at = folder.find(key);
  return at != folder.end() ? &at->second : nullptr;
}

Entry* Index::find(std::string_view key) {
  Entry* const entry = find_any(key);
  return entry != nullptr && !entry->leaving ? entry : nullptr;
}

// What can fail for want of memory comes first.
Entry* Index::put(std::string_view key, uint64_t bytes, int64_t used) {
  Entry* entry = find_any(key);
  if (entry == nullptr) {
    Folder& folder = folders_[folder_of(key)];
    if (free_slots_.empty()) {
      if (free_slots_.capacity() <= slots_.size()) free_slots_.reserve(2 * slots_.size() + 64);
      slots_.push_back(nullptr);
      free_slots_.push_back(static_cast<uint32_t>(slots_.size() - 1));
    }
    const auto at = folder.try_emplace(std::string(key)).first;
    entry = &at->second;
    entry->key = at->first;
    entry->used = entry->written_use = used;
    try {
      by_use_.emplace_hint(by_use_.end(), used, entry);
    } catch (...) {
      folder.erase(at);
      throw;
    }
    entry->slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[entry->slot] = entry;
  }
  charged_bytes_ += charge_of(bytes) - charge_of(entry->bytes);
  entry->bytes = bytes;
  entry->seen = scan_;
  return entry;
}

void Index::erase(Entry* entry) {
  charged_bytes_ -= charge_of(entry->bytes);
  by_use_.erase({entry->used, entry});
  slots_[entry->slot] = nullptr;
  free_slots_.push_back(entry->slot);
  Folder& folder = folders_[folder_of(entry->key)];
  folder.erase(folder.find(entry->key));
}

void Index::touch(Entry* entry, int64_t used) {
  if (used > entry->used) move(entry, used);
}

void Index::move(Entry* entry, int64_t used) {
  auto node = by_use_.extract({entry->used, entry});
  entry->used = used;
  node.value().first = used;
  by_use_.insert(by_use_.end(), std::move(node));
}

std::vector<Entry*> Index::unseen(unsigned folder) {
  std::vector<Entry*> out;
  for (auto& [key, entry] : folders_[folder]) {
    if (entry.seen != scan_) out.push_back(&entry);
  }
  return out;
}

}  // namespace quire::file
