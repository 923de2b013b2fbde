#include "plugins/redis/shards.h"

#include <algorithm>
#include <string>

namespace quire::redis {
namespace {

constexpr uint32_t kPoints = 160;  // of a server: shares differ by about a twelfth

// Part of what is stored: it may never change.
uint64_t hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;  // FNV-1a, then the mix of splitmix64
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

}  // namespace

Shards::Shards(const std::vector<Address>& servers) {
  points_.reserve(servers.size() * kPoints);
  for (uint32_t server = 0; server < servers.size(); ++server) {
    for (uint32_t i = 0; i < kPoints; ++i) points_.emplace_back(hash(servers[server].text + "#" + std::to_string(i)), server);
  }
  std::sort(points_.begin(), points_.end());
}

uint32_t Shards::of(std::string_view key) const {
  const auto next = std::upper_bound(points_.begin(), points_.end(), std::pair(hash(key), UINT32_MAX));
  return next != points_.end() ? next->second : points_.front().second;
}

}  // namespace quire::redis
