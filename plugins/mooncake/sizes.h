// Sizes of objects as they were last seen. Mooncake says in one call which of many keys exist, but
// the size of each in a call of its own. What is remembered saves these calls. An object never
// changes; where another process removed one and stored another size, the next load shows it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace quire::mooncake {

class Sizes {
 public:
  // 0: it is not known.
  uint64_t find(const std::string& key);
  // Without memory it is not remembered.
  void set(const std::string& key, uint64_t bytes);
  void forget(const std::string& key);

 private:
  using Map = std::unordered_map<std::string, uint64_t>;

  std::mutex lock_;
  // When the younger one is full, the older one is forgotten.
  Map younger_, older_;
};

}  // namespace quire::mooncake
