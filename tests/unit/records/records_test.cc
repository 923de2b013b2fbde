// Records between plans: what one plan writes into records and another one reads is what direct runs from view to view copy, whatever
// blocks, orders and ranks both have.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "core/layout/runs.h"
#include "core/records/record_key.h"
#include "core/records/record_runs.h"
#include "tests/unit/plan/plans.h"

namespace quire {
namespace {

using plans::Options;

constexpr int32_t kPages = 40;

struct Geometry {
  uint32_t ranks = 1;
  uint32_t block = 16;
  const char* layout = "";
  const char* policy = "auto";
};

std::shared_ptr<const Config> plan_of(const Model& model, const Geometry& geometry) {
  Options options(geometry.policy, 0);
  options.memory.clear();
  options.raw.num_pages = kPages;
  options.raw.max_model_len = 128;
  options.raw.tensor_parallel = geometry.ranks;
  options.raw.block_tokens = geometry.block;
  options.layout = geometry.layout;
  const uint64_t bytes = uint64_t{1} << 30;
  options.memory.assign(1, bytes);
  auto made = plan(model, options.get());
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : nullptr;
}

// The bytes of every region of every shard.
struct Bytes {
  std::vector<std::vector<std::vector<uint8_t>>> of;  // [shard][region]

  explicit Bytes(const Config& config) {
    for (const ShardPlan& shard : config.shards) {
      auto& regions = of.emplace_back();
      for (const quire_region_info& region : shard.regions) regions.emplace_back(region.bytes, uint8_t{0});
    }
  }
  void fill(uint32_t seed) {
    std::mt19937 random(seed);
    for (auto& shard : of) {
      for (auto& region : shard) {
        for (uint8_t& byte : region) byte = static_cast<uint8_t>(random());
      }
    }
  }
};

// Ids of a sequence, [column][block] in each group; of states one block.
std::vector<std::vector<int32_t>> some_ids(const Config& config, uint64_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> pages;
  for (int32_t page = 1; page < kPages; ++page) pages.push_back(page);
  std::shuffle(pages.begin(), pages.end(), random);
  std::vector<std::vector<int32_t>> ids;
  size_t next = 0;
  for (const GroupPlan& group : config.groups) {
    const size_t blocks = group.is_state() ? 1 : ceil_div(tokens, group.block_tokens);
    std::vector<int32_t>& mine = ids.emplace_back();
    uint32_t part = 0;
    for (size_t i = 0; i < blocks * group.ids_per_block; ++i) {
      mine.push_back(pages.at(next) * static_cast<int32_t>(group.parts_per_page) + static_cast<int32_t>(part));
      if (++part == group.parts_per_page) part = 0, ++next;
    }
    if (part != 0) ++next;
  }
  return ids;
}

std::span<const int32_t> column_of(const std::vector<int32_t>& ids, const GroupPlan& group, uint32_t column) {
  const size_t blocks = ids.size() / group.ids_per_block;
  return std::span(ids).subspan(column * blocks, blocks);
}

void copy_run(const quire_run& run, const std::vector<std::vector<uint8_t>>& from, std::vector<std::vector<uint8_t>>* to) {
  for (uint64_t i = 0; i < run.count; ++i) {
    const uint64_t a = run.from_offset + i * static_cast<uint64_t>(run.from_stride),
                   b = run.to_offset + i * static_cast<uint64_t>(run.to_stride);
    std::memcpy((*to)[run.to_region].data() + b, from[run.from_region].data() + a, run.bytes);
  }
}

struct Party {
  std::shared_ptr<const Config> config;
  std::vector<std::vector<int32_t>> ids;
  Bytes bytes;

  Party(const Model& model, const Geometry& geometry, uint64_t tokens, uint32_t seed)
      : config(plan_of(model, geometry)), ids(some_ids(*config, tokens, seed)), bytes(*config) {}
  std::vector<int32_t> ids_of(const RecordFamily& family) const {
    std::vector<int32_t> all;
    for (const uint32_t g : family.groups) all.insert(all.end(), ids[g].begin(), ids[g].end());
    return all;
  }
};

// Straight from view to view.
void copy_directly(const Party& from, uint64_t tokens, Party* to) {
  std::vector<quire_run> runs;
  for (size_t p = 0; p < from.config->places.size(); ++p) {
    const CachePlace& a = from.config->places[p];
    const CachePlace& b = *to->config->find(a.layer, a.sub);
    const size_t q = static_cast<size_t>(&b - to->config->places.data());
    for (size_t s = 0; s < from.config->shards.size(); ++s) {
      for (size_t t = 0; t < to->config->shards.size(); ++t) {
        const PlaceViews &x = from.config->shards[s].views[p], &y = to->config->shards[t].views[q];
        const auto x_ids = column_of(from.ids[a.group.value], from.config->groups[a.group.value], a.column);
        const auto y_ids = column_of(to->ids[b.group.value], to->config->groups[b.group.value], b.column);
        runs.clear();
        const bool rows = x.kv.num_sides != 0;
        ASSERT_TRUE(!rows || append_runs({&x.kv, x_ids, "from"}, {&y.kv, y_ids, "to"}, 0, tokens, &runs).ok());
        for (size_t k = 0; k < x.states.size(); ++k) {
          ASSERT_TRUE(append_state_runs(x.states[k], x_ids[0], y.states[k], y_ids[0], &runs).ok());
        }
        for (const quire_run& run : runs) copy_run(run, from.bytes.of[s], &to->bytes.of[t]);
      }
    }
  }
}

void move(const PayloadRun& run, std::vector<std::vector<uint8_t>>* regions, std::vector<uint8_t>* payload, bool store) {
  for (uint64_t i = 0; i < run.count; ++i) {
    uint8_t* const page = (*regions)[run.region].data() + run.offset + i * static_cast<uint64_t>(run.stride);
    uint8_t* const record = payload->data() + run.payload_offset + i * static_cast<uint64_t>(run.payload_stride);
    std::memcpy(store ? record : page, store ? page : record, run.bytes);
  }
}

struct Record {
  RecordShape shape;
  std::vector<uint8_t> payload;
};

std::vector<Record> write_records(Party& from, uint64_t tokens) {
  std::vector<Record> records;
  for (uint32_t s = 0; s < from.config->shards.size(); ++s) {
    for (const RecordFamily& family : families_of(*from.config)) {
      Record record{RecordShape::of(*from.config, s, family), {}};
      if (record.shape.members.empty()) continue;
      auto runs = RecordRuns::make(*from.config, s, family, record.shape);
      EXPECT_TRUE(runs.ok()) << runs.status().message();
      EXPECT_TRUE(runs->is_whole());
      std::vector<PayloadRun> list;
      if (record.shape.is_state) {
        record.payload.resize(runs->block_bytes());
        runs->state(from.ids_of(family), &list);
      } else {
        EXPECT_EQ(runs->block_tokens(), from.config->groups[family.groups[0]].block_tokens);
        record.payload.resize(ceil_div(tokens, runs->block_tokens()) * runs->block_bytes());
        runs->tokens(0, tokens, from.ids_of(family), 0, 0, &list);
      }
      uint64_t bytes = 0;
      for (const PayloadRun& run : list) {
        move(run, &from.bytes.of[s], &record.payload, true);
        bytes += run.bytes * run.count;
      }
      EXPECT_EQ(bytes, record.payload.size());
      records.push_back(std::move(record));
    }
  }
  return records;
}

void read_records(std::vector<Record>& records, uint64_t tokens, Party* to) {
  for (Record& record : records) {
    std::vector<uint8_t> encoded;
    record.shape.encode(&encoded);
    EXPECT_EQ(record.shape.encoded_bytes(), encoded.size());
    auto shape = RecordShape::decode(encoded);
    ASSERT_TRUE(shape.ok());
    EXPECT_EQ(*shape, record.shape);
    const std::vector<RecordFamily> families = families_of(*to->config);
    const uint32_t group = to->config->find(shape->members[0].layer, shape->members[0].sub)->group.value;
    const auto family = std::find_if(families.begin(), families.end(), [&](const RecordFamily& each) {
      return std::find(each.groups.begin(), each.groups.end(), group) != each.groups.end();
    });
    for (uint32_t s = 0; s < to->config->shards.size(); ++s) {
      auto runs = RecordRuns::make(*to->config, s, *family, *shape);
      ASSERT_TRUE(runs.ok()) << runs.status().message();
      std::vector<PayloadRun> list;
      if (shape->is_state) {
        runs->state(to->ids_of(*family), &list);
      } else {
        runs->tokens(0, tokens, to->ids_of(*family), 0, 0, &list);
      }
      for (const PayloadRun& run : list) move(run, &to->bytes.of[s], &record.payload, false);
    }
  }
}

void travel(const Model& model, const Geometry& from, const Geometry& to) {
  constexpr uint64_t kTokens = 64;
  SCOPED_TRACE(std::string(from.policy) + " " + from.layout + " tp " + std::to_string(from.ranks) + " block " + std::to_string(from.block) +
               " -> " + to.policy + " " + to.layout + " tp " + std::to_string(to.ranks) + " block " + std::to_string(to.block));
  Party writer(model, from, kTokens, 1), reader(model, to, kTokens, 2), expected(model, to, kTokens, 2);
  writer.bytes.fill(3);
  // Replicated heads must hold the same on all ranks: what comes last wins on both ways otherwise.
  copy_directly(writer, kTokens, &expected);
  std::vector<Record> records = write_records(writer, kTokens);
  read_records(records, kTokens, &reader);
  EXPECT_TRUE(reader.bytes.of == expected.bytes.of);
}

TEST(Records, TravelBetweenPlans) {
  const Model model = plans::mixed(plans::attention(4, 64), 3, plans::state(4, 256, 8, 16, 32), 5);
  const Geometry all[] = {{1, 16, "", "auto"},        {2, 16, "BPJKTHD", "auto"}, {4, 32, "", "auto"},         {1, 64, "BJPKTHD", "auto"},
                          {2, 16, "BPJKHTD", "auto"}, {1, 16, "", "pack:1"},      {2, 32, "LBJKTHD", "pack:1"}};
  for (const Geometry& from : all) {
    for (const Geometry& to : all) travel(model, from, to);
  }
}

// Several groups of one live range, which policy auto has in one.
TEST(Records, TravelBetweenPolicies) {
  const Model states = plans::mixed(plans::attention(4, 64), 2, plans::state(4, 256, 8, 16, 32), 4);
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 8; ++i) {
    layers.push_back(plans::attention(2, 32, i % 4 == 0 ? 0 : 48));
    layers.back().layer = i;
  }
  auto windows = Model::create(layers, 4096);
  ASSERT_TRUE(windows.ok()) << windows.status().message();
  const Geometry all[] = {{1, 16, "", "auto"}, {2, 32, "BJPKTHD", "auto"}, {1, 16, "", "vllm"}, {2, 16, "", "vllm"}, {1, 32, "", "vllm"}};
  const Model* const models[] = {&states, &*windows};
  for (const Model* model : models) {
    const auto one = plan_of(*model, all[2]);
    EXPECT_GT(one->groups.size(), families_of(*one).size());
    EXPECT_EQ(families_of(*one).size(), families_of(*plan_of(*model, all[0])).size());
    for (const Geometry& from : all) {
      for (const Geometry& to : all) travel(*model, from, to);
    }
  }
}

TEST(Records, TravelBetweenPlansWithWindowsAndLatentRows) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 9; ++i) {
    layers.push_back(i % 3 == 0 ? plans::latent(96) : plans::attention(2, 32, i % 3 == 1 ? 48 : 0));
    layers.back().layer = i;
  }
  auto model = Model::create(layers, 4096);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const Geometry all[] = {{1, 16, "", "auto"}, {2, 32, "", "auto"}, {1, 64, "BJPKTHD", "auto"}};
  for (const Geometry& from : all) {
    for (const Geometry& to : all) travel(*model, from, to);
  }
}

// Policy vllm has them in one group with other layers.
TEST(Records, OfDraftsAreApart) {
  std::vector<quire_layer> layers(3, plans::attention(2, 32));
  for (uint32_t i = 0; i < layers.size(); ++i) layers[i].layer = i;
  layers[2].flags = QUIRE_LAYER_DRAFT;
  layers[2].look_ahead = 1;
  auto model = Model::create(layers, 4096);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::vector<std::vector<PartName>> names;
  for (const char* policy : {"vllm", "auto"}) {
    const auto config = plan_of(*model, {1, 16, "", policy});
    const std::vector<RecordFamily> families = families_of(*config);
    EXPECT_EQ(config->groups.size(), names.empty() ? 1U : 2U);
    ASSERT_EQ(families.size(), 2U);
    EXPECT_EQ(families[0].look_ahead, 0U);
    EXPECT_EQ(families[1].look_ahead, 1U);
    std::vector<PartName>& own = names.emplace_back();
    for (const RecordFamily& family : families) {
      own.push_back(part_name(RecordShape::of(*config, 0, family), config->groups[family.groups[0]].live));
    }
  }
  EXPECT_EQ(names[0], names[1]);
}

// Pages of all layers of a block move as one run, and neighbouring pages too.
TEST(Records, OfOneGeometryAreFewRuns) {
  const Model model = plans::mixed(plans::attention(8, 128), 16, plans::state(4, 256, 0, 0, 0), 0);
  const auto config = plan_of(model, {1, 16, "BPJKTHD", "auto"});
  const RecordFamily family = families_of(*config)[0];
  const RecordShape shape = RecordShape::of(*config, 0, family);
  auto runs = RecordRuns::make(*config, 0, family, shape);
  ASSERT_TRUE(runs.ok()) << runs.status().message();
  const int32_t parts = static_cast<int32_t>(config->groups[0].parts_per_page);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 4; ++i) ids.push_back((10 - 2 * i) * parts);
  std::vector<PayloadRun> list;
  runs->tokens(0, 64, ids, 0, 0, &list);
  EXPECT_EQ(list.size(), 4U);
  // A part of it: the window's tail.
  list.clear();
  runs->tokens(32, 64, std::span(ids).subspan(2), 2, 2, &list);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].payload_offset, 0U);
  EXPECT_EQ(list[1].payload_offset, runs->block_bytes());
}

// Somebody may write records of any blocks; those that would take long to work out are none.
TEST(Records, OfBlocksThatRarelyMeetAreRefused) {
  const Model model = plans::mixed(plans::attention(8, 128), 16, plans::state(4, 256, 0, 0, 0), 0);
  const auto config = plan_of(model, {1, 16, "BPJKTHD", "auto"});
  const RecordFamily family = families_of(*config)[0];
  const auto made = [&](uint32_t rows) {
    RecordShape shape = RecordShape::of(*config, 0, family);
    for (CacheSlice& slice : shape.slices) slice.rows = rows;
    shape.kernel_blocks = 1;
    return RecordRuns::make(*config, 0, family, shape);
  };
  EXPECT_TRUE(made(1056).ok());
  EXPECT_TRUE(made(1001).ok()) << "1,001 + 16 cells";
  auto refused = made(1023);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("meet too rarely"), std::string::npos) << refused.status().message();
}

Result<Model> sample(const std::filesystem::path& path) {
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  auto model = read_hf_config(text);
  return model.ok() ? std::move(model) : read_layer_file(text);
}

// Every family of every model has a shape without padding, which survives its bytes. Both policies name the same records.
TEST(Records, HaveNoPadding) {
  size_t records = 0, of_both = 0;
  for (const auto& file : std::filesystem::directory_iterator(QUIRE_SAMPLE_MODELS)) {
    if (file.path().extension() != ".json") continue;
    auto model = sample(file.path());
    ASSERT_TRUE(model.ok()) << file.path() << model.status().message();
    for (const uint32_t ranks : {1u, 2u}) {
      std::vector<std::set<PartName>> names;
      for (const char* policy : {"auto", "vllm"}) {
        Options options(policy, uint64_t{80} << 30);
        options.raw.tensor_parallel = ranks;
        options.raw.max_model_len = 4096;
        options.raw.flags = QUIRE_PLAN_FIT_LENGTH;
        auto made = plan(*model, options.get());
        if (!made.ok()) continue;
        const Config& config = **made;
        names.emplace_back();
        for (uint32_t s = 0; s < config.shards.size(); ++s) {
          for (const RecordFamily& family : families_of(config)) {
            const uint32_t g = family.groups[0];
            const RecordShape shape = RecordShape::of(config, s, family);
            if (shape.members.empty()) continue;
            auto runs = RecordRuns::make(config, s, family, shape);
            ASSERT_TRUE(runs.ok()) << file.path() << " " << policy << " group " << g << ": " << runs.status().message();
            EXPECT_TRUE(runs->is_whole()) << file.path() << " " << policy << " group " << g << " " << config.groups[g].order;
            EXPECT_EQ(runs->block_tokens(), shape.is_state ? 0 : config.groups[g].block_tokens) << file.path();
            names.back().insert(part_name(shape, config.groups[g].live));
            std::vector<uint8_t> bytes;
            shape.encode(&bytes);
            auto again = RecordShape::decode(bytes);
            ASSERT_TRUE(again.ok());
            EXPECT_EQ(*again, shape);
            ++records;
          }
        }
      }
      // Its blocks have several lengths, and upstream divides it by these.
      if (names.size() < 2 || file.path().filename() == "deepseek-v4-pro.json") continue;
      EXPECT_EQ(names[0], names[1]) << file.path() << ", " << ranks << " ranks";
      ++of_both;
    }
  }
  EXPECT_GT(records, 200U);
  EXPECT_GT(of_both, 60U);
}

TEST(Records, AreNamedByWhatChangesTheirBytes) {
  const Model model = plans::mixed(plans::attention(4, 64), 3, plans::state(4, 256, 8, 16, 32), 5);
  const auto one = plan_of(model, {1, 16, "", "auto"}), other = plan_of(model, {1, 64, "BJPKTHD", "auto"}),
             two = plan_of(model, {2, 16, "", "auto"});
  const std::string text = fingerprint_text(*one, "weights-1");
  EXPECT_EQ(text, fingerprint_text(*other, "weights-1"));
  EXPECT_EQ(text, fingerprint_text(*two, "weights-1"));
  EXPECT_NE(text, fingerprint_text(*one, "weights-2"));
  const Model wider = plans::mixed(plans::attention(4, 128), 3, plans::state(4, 256, 8, 16, 32), 5);
  EXPECT_NE(text.find("layer 2.0 = heads 4, width 64"), std::string::npos) << text;
  EXPECT_NE(text, fingerprint_text(*plan_of(wider, {1, 16, "", "auto"}), "weights-1"));
  const auto text_of = [](quire_layer_kind kind, uint64_t window, uint32_t sinks) {
    quire_layer layer = plans::attention(4, 64);
    layer.kind = kind;
    layer.window = window;
    layer.sink_tokens = sinks;
    return fingerprint_text(*plan_of(plans::mixed(plans::attention(4, 64), 1, layer, 1), {1, 16, "", "auto"}), "weights-1");
  };
  const std::string window = text_of(QUIRE_LAYER_SLIDING_WINDOW, 48, 0);
  EXPECT_NE(window, text_of(QUIRE_LAYER_SLIDING_WINDOW, 64, 0));
  EXPECT_NE(window, text_of(QUIRE_LAYER_SLIDING_WINDOW, 48, 4));
  EXPECT_NE(window, text_of(QUIRE_LAYER_CHUNKED, 48, 0));
  EXPECT_NE(text_of(QUIRE_LAYER_CHUNKED, 48, 0), text_of(QUIRE_LAYER_CHUNKED, 64, 0));
  EXPECT_NE(window.find(", window 48\n"), std::string::npos) << window;
  const auto name = [](const Config& config, uint32_t shard, uint32_t g) {
    return part_name(RecordShape::of(config, shard, families_of(config)[g]), config.groups[g].live);
  };
  EXPECT_EQ(name(*one, 0, 0), name(*other, 0, 0));
  EXPECT_NE(name(*one, 0, 0), name(*one, 0, 1));
  EXPECT_NE(name(*one, 0, 0), name(*two, 0, 0));
  EXPECT_NE(name(*two, 0, 0), name(*two, 1, 0));
  const Fingerprint print = fingerprint_of(text);
  const PrefixName prefix{1, 2, 3};
  EXPECT_NE(record_key(print, name(*one, 0, 0), 0, 16, prefix), record_key(print, name(*one, 0, 0), 0, 32, prefix));
  EXPECT_NE(record_key(print, name(*one, 0, 0), 0, 32, prefix), record_key(print, name(*one, 0, 0), 16, 32, prefix));
  EXPECT_NE(record_key(print, name(*one, 0, 0), 0, 16, prefix), record_key(print, name(*one, 0, 1), 0, 16, prefix));
  EXPECT_NE(record_key(print, name(*one, 0, 0), 0, 16, prefix), record_key(print, name(*one, 0, 0), 0, 16, PrefixName{1, 2, 4}));
}

}  // namespace
}  // namespace quire
