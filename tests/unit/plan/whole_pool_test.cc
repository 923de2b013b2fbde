// Random models of every kind of cache and codec, planned under every policy and order: pages are given to random groups, parts to random
// columns, and every item of every field is looked up twice, by strides and by lowered id. No byte of the pool belongs to two items, all
// lie in the strips of their page, their sum is the payload, and it is what the segments say.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "core/layout/codec.h"
#include "core/plan/cache_config.h"
#include "plans.h"

namespace quire {
namespace {

using plans::Options;

constexpr quire_dtype kByte{QUIRE_DTYPE_UINT, 8, 1};
constexpr quire_dtype kFloat8{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
constexpr int32_t kPages = 10;

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(static_cast<uint32_t>(seed)) {}

  uint32_t pick(uint32_t low, uint32_t high) { return low + random_() % (high - low + 1); }
  template <typename T, size_t N>
  T one_of(const T (&list)[N]) {
    return list[random_() % N];
  }

  std::vector<quire_layer> model() {
    std::vector<quire_layer> layers;
    const uint32_t shapes = pick(1, 2);
    std::vector<uint32_t> kinds;
    for (uint32_t i = 0, n = pick(1, 3); i < n; ++i) kinds.push_back(pick(1, 7));
    for (uint32_t i = 0, n = pick(2, 7); i < n; ++i) {
      std::vector<quire_layer> one = layer(shapes, kinds[random_() % kinds.size()]);
      for (uint32_t sub = 0; sub < one.size(); ++sub) {
        one[sub].struct_size = sizeof(quire_layer);
        one[sub].layer = i;
        one[sub].sub = sub;
        layers.push_back(one[sub]);
      }
    }
    return layers;
  }

  // A random order that the policy may take: half of them its own.
  std::string order(bool with_lanes) {
    if (pick(0, 1) == 0) return {};
    while (true) {
      std::string text = with_lanes ? "LPBJKTHD" : "PBJKTHD";
      std::shuffle(text.begin(), text.end(), random_);
      if (Order::parse(text).ok()) return text;
    }
  }

 private:
  std::vector<quire_layer> layer(uint32_t shapes, uint32_t kind) {
    switch (kind) {
      case 1: {
        quire_layer full = plans::attention(2 * pick(1, shapes), 4);
        full.head_dim_v = pick(0, 1) == 0 ? 4 : 6;
        return {full};
      }
      case 2:
        return {latent(4 * pick(1, 3), ratio())};
      case 3: {  // latent rows and the keys of their indexer, both compressed alike
        const uint32_t c = ratio();
        quire_layer keys = latent(2 * pick(1, 2), c);
        keys.kind = QUIRE_LAYER_INDEXER;
        return {latent(8, c), keys};
      }
      case 4: {
        quire_layer window = plans::attention(2, 4, 32);
        window.sink_tokens = pick(0, 1) * 4;
        return {window};
      }
      case 5:
        return {encoded()};
      case 6:
        return {record()};
      default:
        return {plans::state(3, 2 * pick(3, 6), 2, 2, 4)};
    }
  }

  uint32_t ratio() {
    const uint32_t ratios[] = {1, 4, 8, 32};
    return one_of(ratios);
  }

  static quire_layer latent(uint32_t width, uint32_t compress) {
    quire_layer out = plans::latent(width);
    out.compress_ratio = compress;
    return out;
  }

  // Codecs that hold a head of a kernel block.
  quire_layer encoded() {
    const uint32_t codecs[] = {QUIRE_CODEC_TILED, QUIRE_CODEC_SHUFFLED, QUIRE_CODEC_COLUMN_K, QUIRE_CODEC_AMX};
    quire_layer out = plans::attention(2, 16);
    out.codec = one_of(codecs);
    return out;
  }

  // Records, and rows whose scales are an array of their own behind them, perhaps of an aligned block.
  quire_layer record() {
    const bool split = pick(0, 1) == 1;
    quire_layer out = plans::latent(12);
    out.codec = split ? QUIRE_CODEC_BLOCK_SPLIT : QUIRE_CODEC_RECORD;
    out.dtype = kFloat8;
    out.compress_ratio = ratio();
    out.codec_params.data_bytes[0] = 8;
    out.codec_params.scale_bytes[0] = split ? 3 : 4;
    out.codec_params.tail_bytes[0] = 8;
    out.codec_params.scale_dtype = split ? kByte : kFloat32;
    out.codec_params.tail_dtype = kBFloat16;
    out.codec_params.block_alignment = pick(0, 1) * 64;
    return out;
  }

  std::mt19937 random_;
};

// Who a byte belongs to, over all regions of one shard.
class Owners {
 public:
  Owners(const Config& config, uint32_t shard) : shard_(config.shards[shard]) {
    for (const quire_region_info& region : shard_.regions) bytes_.emplace_back(region.bytes, 0);
  }

  // Bytes [at, at + count) of a region belong to an item of `page`. Empty, or what is wrong.
  std::string take(uint32_t region, int64_t at, uint64_t count, int32_t page) {
    const quire_region_info& where = shard_.regions[region];
    if (at < 0 || static_cast<uint64_t>(at) + count > where.bytes) return "outside of region " + std::to_string(region);
    const uint64_t plane = where.bytes / where.num_planes;
    const uint64_t strip = static_cast<uint64_t>(at) % plane / where.page_stride;
    const uint64_t last = (static_cast<uint64_t>(at) + count - 1) % plane / where.page_stride;
    if (strip != static_cast<uint64_t>(page) || last != strip) return "strip of page " + std::to_string(strip);
    for (uint64_t i = static_cast<uint64_t>(at); i < static_cast<uint64_t>(at) + count; ++i) {
      if (bytes_[region][i]++ != 0) return "byte " + std::to_string(i) + " is owned twice";
    }
    return {};
  }

  // Every item of every row of one cache in one part.
  void expect_part(uint32_t place, const quire_lowering& low, int32_t id, uint64_t* payload) {
    const PlaceViews& views = shard_.views[place];
    const auto page = static_cast<int32_t>(static_cast<uint32_t>(id) / low.parts_per_page);
    const uint32_t part = static_cast<uint32_t>(id) % low.parts_per_page;
    for (uint32_t k = 0; k < low.kernel_blocks_per_part; ++k) {
      const uint64_t lowered = static_cast<uint64_t>(page) * low.page_factor + part * low.part_factor + k * low.block_factor;
      ASSERT_LT(lowered, low.num_lowered_ids);
      const int64_t j = static_cast<int64_t>(part) * low.kernel_blocks_per_part + k;
      if (views.kv.num_sides != 0) {
        for (const quire_kv_field& field : fields_of(views.kv)) {
          const int64_t direct = page * views.kv.stride_page[field.side] + j * views.kv.stride_block[field.side];
          ASSERT_EQ(direct, static_cast<int64_t>(lowered) * views.kv.unit[field.side]);
          expect_field(views.kv, field, direct, page, payload);
        }
      }
    }
    for (const quire_state_view& state : views.states) {
      const int64_t direct = page * state.stride_page + part * state.stride_part;
      ASSERT_EQ(direct, static_cast<int64_t>(static_cast<uint64_t>(page) * low.page_factor + part * low.part_factor) * state.unit);
      uint64_t bytes = element_bytes(state.dtype);
      for (uint32_t d = 0; d < state.ndim; ++d) bytes *= state.shape[d];
      ASSERT_EQ(take(state.region, state.offset + direct, bytes, page), "") << "state of place " << place;
      *payload += bytes;
    }
  }

 private:
  void expect_field(const quire_kv_view& kv, const quire_kv_field& field, int64_t base, int32_t page, uint64_t* payload) {
    const uint64_t item = field.dtype.bits * uint64_t{field.dtype.lanes} / 8;
    for (uint32_t t = 0; t < kv.block_tokens; ++t) {
      for (uint32_t h = 0; h < kv.num_heads; ++h) {
        for (uint32_t i = 0; i < field.num_items; ++i) {
          const int64_t at = base + field.offset + h * field.stride_head + t / field.tile_tokens * field.stride_token_tile +
                             t % field.tile_tokens * field.stride_token + i / field.tile_items * field.stride_item_tile +
                             i % field.tile_items * field.stride_item;
          ASSERT_EQ(take(kv.region, at, item, page), "") << "side " << field.side << " role " << field.role << " t " << t << " h " << h;
          *payload += item;
        }
      }
    }
  }

  const ShardPlan& shard_;
  std::vector<std::vector<uint8_t>> bytes_;
};

void expect_injective(const Config& config, Maker* maker) {
  for (uint32_t s = 0; s < config.shards.size(); ++s) {
    Owners owners(config, s);
    for (int32_t page = 1; page < kPages; ++page) {
      const uint32_t g = maker->pick(0, static_cast<uint32_t>(config.groups.size()) - 1);
      const GroupPlan& group = config.groups[g];
      for (uint32_t q = 0; q < group.parts_per_page; ++q) {
        const uint32_t column = maker->pick(0, group.ids_per_block - 1);
        const auto id = static_cast<int32_t>(static_cast<uint32_t>(page) * group.parts_per_page + q);
        uint64_t items = 0;
        for (const uint32_t place : group.places) {
          if (config.places[place].column != column || config.shards[s].views[place].empty()) continue;
          owners.expect_part(place, config.shards[s].lowering[g], id, &items);
          if (testing::Test::HasFatalFailure()) return;
        }
        const auto runs = list_segments(config, s, g, column, id);
        ASSERT_TRUE(runs.ok()) << runs.status().message();
        uint64_t bytes = 0;
        for (const quire_segment& run : runs.value()) bytes += run.bytes;
        ASSERT_EQ(bytes, items) << "segments of group " << g << " column " << column;
      }
    }
  }
}

TEST(WholePool, NoByteBelongsToTwoItems) {
  const char* given = std::getenv("QUIRE_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::map<std::string, int> seen;
  int refused = 0;
  for (uint64_t round = 0; round < 300; ++round) {
    SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed + round));
    Maker maker(seed + round);
    const std::vector<quire_layer> layers = maker.model();
    auto model = Model::create(layers, 64);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const char* const policies[] = {"auto", "auto", "vllm", "pack:2"};
    Options options(maker.one_of(policies), 0);
    options.memory.clear();
    options.layout = maker.order(options.policy != "auto");
    options.raw.num_pages = 600;
    options.raw.max_tokens_in_flight = 8;
    options.raw.tensor_parallel = maker.pick(1, 2);
    options.raw.pipeline_parallel = maker.pick(1, 2);
    options.raw.context_parallel = maker.pick(0, 3) == 0 ? 2 : 1;
    auto made = plan(*model, options.get());
    if (!made.ok()) {  // what an order cannot express, or what a policy refuses
      const quire_code code = made.status().code();
      ASSERT_TRUE(code == QUIRE_NOT_REPRESENTABLE || code == QUIRE_INVALID_ARGUMENT) << made.status().message();
      ++refused;
      continue;
    }
    std::set<std::string> of_model{options.policy};
    for (const quire_layer& layer : layers) {
      of_model.insert("codec " + std::to_string(layer.codec));
      of_model.insert("kind " + std::to_string(layer.kind));
      if (layer.compress_ratio > 1) of_model.insert("compressed");
      if (layer.num_state_tensors == 0 && layer.head_dim_v != 0 && layer.head_dim_v != layer.head_dim_k) of_model.insert("K and V differ");
    }
    for (const std::string& what : of_model) ++seen[what];
    expect_injective(**made, &maker);
    if (HasFatalFailure()) return;
  }
  for (const char* what : {"auto", "vllm", "pack:2", "compressed", "K and V differ", "codec 0", "codec 1", "codec 2", "codec 3", "codec 4",
                           "codec 5", "codec 6"}) {
    EXPECT_GE(seen[what], 1) << what;
  }
  for (const int kind : {QUIRE_LAYER_FULL, QUIRE_LAYER_SLIDING_WINDOW, QUIRE_LAYER_MLA, QUIRE_LAYER_INDEXER, QUIRE_LAYER_STATE}) {
    EXPECT_GE(seen["kind " + std::to_string(kind)], 5) << kind;
  }
  std::printf("%d refused\n", refused);
  EXPECT_LT(refused, 200);
}

}  // namespace
}  // namespace quire
