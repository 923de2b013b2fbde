// What tests of holds and of units ask a cache.
#pragma once

#include <quire/hold.h>

#include <string>
#include <string_view>
#include <vector>

#include "fixture.h"

namespace quire {

inline const GroupSketch kWindow{LiveRange{.window = 8}, 4, 1, 1};

inline std::vector<int32_t> ids_of(const Fixture& f, quire_hold_id hold, uint32_t group) {
  uint64_t n = 0;
  EXPECT_TRUE(f.cache->hold_ids(hold, group, {}, &n).ok());
  std::vector<int32_t> ids(n);
  const Status ok = f.cache->hold_ids(hold, group, ids, &n);
  EXPECT_TRUE(ok.ok()) << ok.message();
  return ids;
}

inline std::string digest(const Fixture& f, const std::vector<quire_symbol>& symbols, std::string_view salt = {}) {
  quire_identity identity{};
  identity.salt = {salt.data(), salt.size()};
  const uint64_t end = symbols.size();
  std::string out(32, '\0');
  const Status ok = f.cache->prefix_digests(&identity, symbols, {&end, 1}, reinterpret_cast<uint8_t*>(out.data()));
  EXPECT_TRUE(ok.ok()) << ok.message();
  return out;
}
inline std::string name_of(const quire_unit& unit) { return {reinterpret_cast<const char*>(unit.digest), 32}; }

inline void watch(Fixture& f, uint64_t tokens, uint32_t reasons, uint32_t waiting = 0) {
  quire_unit_options options{};
  options.unit_tokens = tokens;
  options.reasons = reasons;
  options.max_waiting = waiting;
  const Status ok = f.cache->watch_units(&options);
  ASSERT_TRUE(ok.ok()) << ok.message();
}

inline std::vector<quire_unit> take(Fixture& f, size_t most = 64) {
  std::vector<quire_unit> units(most);
  units.resize(f.cache->take_units(units));
  const Status sound = f.cache->verify();
  EXPECT_TRUE(sound.ok()) << sound.message();
  return units;
}
inline void end_all(Fixture& f, const std::vector<quire_unit>& units) {
  for (const quire_unit& u : units) EXPECT_TRUE(f.cache->hold_end(u.hold).ok());
}

}  // namespace quire
