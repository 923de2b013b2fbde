#include "plugins/mooncake/sizes.h"

#include <new>
#include <utility>

namespace quire::mooncake {
namespace {

constexpr size_t kMostOfAMap = 32768;

}  // namespace

uint64_t Sizes::find(const std::string& key) {
  const std::lock_guard guard(lock_);
  for (const Map* map : {&younger_, &older_}) {
    if (const auto found = map->find(key); found != map->end()) return found->second;
  }
  return 0;
}

void Sizes::set(const std::string& key, uint64_t bytes) {
  const std::lock_guard guard(lock_);
  if (younger_.size() >= kMostOfAMap) older_ = std::exchange(younger_, {});
  try {
    younger_[key] = bytes;
  } catch (const std::bad_alloc&) {
    older_.erase(key);  // which may have had another size
  }
}

void Sizes::forget(const std::string& key) {
  const std::lock_guard guard(lock_);
  younger_.erase(key);
  older_.erase(key);
}

}  // namespace quire::mooncake
