// Families of random models under random plans: whatever records of single groups can say, the record of their family says, too.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <set>

#include "core/records/record_key.h"
#include "core/records/record_runs.h"
#include "core/records/record_shape.h"
#include "tests/unit/full_size.h"
#include "tests/unit/plan/plans.h"

namespace quire {
namespace {

using plans::Options;

template <typename... Values>
auto one_of(std::mt19937_64& random, Values... values) {
  const std::array all = {values...};
  return all[random() % all.size()];
}

std::vector<quire_layer> some_layers(std::mt19937_64& random) {
  std::vector<quire_layer> layers;
  const bool alike = random() % 3 == 0;
  const auto width = one_of(random, 32U, 64U);
  const auto heads = one_of(random, 2U, 4U, 8U);
  const uint64_t window = one_of(random, 48U, 128U);
  const quire_layer state = plans::state(4, one_of(random, 64U, 256U), one_of(random, 0U, 8U), 16, 32);
  const bool has_states = random() % 3 == 0, has_windows = random() % 2 == 0;
  for (uint64_t n = 2 + random() % 10; n > 0; --n) {
    const uint32_t h = alike ? heads : one_of(random, 2U, 4U, 8U), w = alike ? width : one_of(random, 32U, 64U, 128U);
    const uint64_t kind = random() % 6;
    if (kind == 0 && has_states) {
      layers.push_back(random() % 4 != 0 ? state : plans::state(3, 128, 4, 8, 8));
    } else if (kind == 1 && !alike) {
      layers.push_back(plans::latent(w));
    } else {
      layers.push_back(plans::attention(h, w, kind == 2 && has_windows ? window : 0));
      if (!alike && random() % 4 == 0) layers.back().head_dim_v = one_of(random, 32U, 64U);
      if (!alike && random() % 4 == 0) layers.back().dtype = kFloat32;
      if (random() % 5 == 0) {
        layers.back().flags = QUIRE_LAYER_DRAFT;
        layers.back().look_ahead = 1 + static_cast<uint32_t>(random() % 2);
      }
    }
    layers.back().layer = static_cast<uint32_t>(layers.size() - 1);
  }
  return layers;
}

bool makes(const Config& config, uint32_t shard, const RecordFamily& family, bool* empty, std::string* why) {
  const RecordShape shape = RecordShape::of(config, shard, family);
  *empty = shape.members.empty();
  if (*empty) return true;
  auto runs = RecordRuns::make(config, shard, family, shape);
  *why = runs.ok() ? "has holes" : std::string(runs.status().message());
  return runs.ok() && runs->is_whole();
}

TEST(Families, SayWhatTheirGroupsSay) {
  uint64_t seed = 1, rounds = test::full_or(20000, 1000), num_plans = 0, several = 0, neither = 0, split = 0;
  if (const char* const given = std::getenv("QUIRE_SEED")) seed = std::strtoull(given, nullptr, 10);
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    std::mt19937_64 random(s);
    const std::vector<quire_layer> layers = some_layers(random);
    auto model = Model::create(layers, 4096);
    if (!model.ok()) continue;
    std::vector<std::set<PartName>> names;
    const uint32_t ranks = one_of(random, 1U, 2U, 4U), stages = one_of(random, 1U, 1U, 2U), context_ranks = one_of(random, 1U, 1U, 2U);
    for (const char* policy : {"auto", "vllm", "pack:1", "pack:2", "pack:3"}) {
      Options options(policy, uint64_t{1} << 33);
      options.raw.max_model_len = 4096;
      options.raw.max_tokens_in_flight = 512;
      options.raw.tensor_parallel = ranks;
      options.raw.pipeline_parallel = stages;
      options.raw.context_parallel = context_ranks;
      options.raw.block_tokens = one_of(random, 16U, 32U);
      if (random() % 2 == 0) options.layout = one_of(random, "BPJKHTD", "BJPKTHD", "LBJKTHD", "BLPJKTHD", "BKPJTHD", "BJKPTHD", "BHPJKTD");
      auto made = plan(*model, options.get());
      if (!made.ok()) continue;
      ++num_plans;
      const Config& config = **made;
      for (uint32_t shard = 0; shard < config.shards.size(); ++shard) {
        for (const RecordFamily& family : families_of(config)) {
          several += family.groups.size() > 1 ? 1 : 0;
          bool all = true, empty = false;
          std::string why;
          for (const uint32_t g : family.groups) {
            const RecordFamily one{{g}, config.groups[g].ids_per_block, family.look_ahead};
            all = makes(config, shard, one, &empty, &why) && all;
          }
          const bool whole = makes(config, shard, family, &empty, &why);
          neither += !whole && !all ? 1 : 0;
          EXPECT_TRUE(whole || !all) << policy << " " << options.layout << ", " << family.groups.size() << " groups: " << why;
        }
      }
      std::set<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>> ranges;
      for (const RecordFamily& family : families_of(config)) {
        const LiveRange& live = config.groups[family.groups[0]].live;
        split += ranges.insert({live.window, live.sink, live.state, family.look_ahead}).second ? 0 : 1;
      }
    }
  }
  std::printf("%llu plans, %llu families of several groups, %llu that cannot be packed either way, %llu live ranges of several families\n",
              static_cast<unsigned long long>(num_plans), static_cast<unsigned long long>(several),
              static_cast<unsigned long long>(neither), static_cast<unsigned long long>(split));
}

}  // namespace
}  // namespace quire
