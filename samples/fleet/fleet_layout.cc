#include "fleet_layout.h"

#include <quire/quire.h>

#include <algorithm>
#include <numeric>

#include "failure.h"

namespace fleet {
namespace {

constexpr quire_hash_algorithm kAlgorithm = QUIRE_HASH_SHA256_CBOR;

}  // namespace

uint64_t Group::tail_begin(uint64_t p) const {
  if (chunk != 0) return p / chunk * chunk;
  if (window == 0) return 0;
  return p + 1 > window ? p + 1 - window : 0;
}

uint64_t Layout::hit_alignment() const {
  uint64_t tokens = unit;
  for (const Group& group : groups) tokens = std::lcm(tokens, group.block_tokens);
  return tokens;
}

std::vector<uint64_t> Layout::names(const std::vector<int64_t>& prompt, uint64_t tenant) const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_hash_options options = QUIRE_INIT(quire_hash_options);
  const std::string& salt = salts.at(tenant);
  options.algorithm = kAlgorithm;
  options.seed = {hash_seed.data(), hash_seed.size()};
  options.salt = {salt.data(), salt.size()};
  options.block_tokens = static_cast<uint32_t>(unit);
  const size_t bytes = quire_hash_bytes(kAlgorithm);
  std::vector<uint8_t> digests(prompt.size() / unit * bytes);
  uint64_t count = 0;
  if (quire_hash_blocks(&options, prompt.data(), prompt.size(), digests.data(),
                        digests.size() / bytes, &count, &err) != QUIRE_OK)
    throw Failure(std::string("cannot hash a prompt: ") + err.message);
  std::vector<uint64_t> names(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t b = bytes - 8; b < bytes; ++b) names[i] = names[i] << 8 | digests[i * bytes + b];
  }
  return names;
}

Layout layout_of(const nlohmann::json& greeting) {
  Layout layout;
  layout.unit = greeting.at("match_unit_tokens");
  layout.hash_seed = greeting.at("hash_seed");
  layout.salts = greeting.at("salts").get<std::vector<std::string>>();
  for (const nlohmann::json& g : greeting.at("groups")) {
    layout.groups.push_back({g.at("block_tokens"), g.at("is_state"), g.at("window"), g.at("chunk"),
                             g.at("sink_tokens")});
  }
  return layout;
}

}  // namespace fleet
