// The bytes of a shard: what is written, what never is, and the zeroes and copies of a step against a naive oracle.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "../c_api/api_rig.h"

namespace quire::test {
namespace {

struct Region {
  unsigned char* address = nullptr;
  uint64_t bytes = 0;
  quire_region_info info{};
};

std::vector<Region> regions_of(const Rig& rig, quire_memory* memory) {
  uint64_t count = 0;
  EXPECT_EQ(quire_config_list_regions(rig.config.get(), 0, nullptr, 0, 0, &count, nullptr), QUIRE_OK);
  std::vector<quire_region_info> infos(count);
  EXPECT_EQ(quire_config_list_regions(rig.config.get(), 0, infos.data(), sizeof(quire_region_info), count, &count, nullptr), QUIRE_OK);
  std::vector<Region> regions(count);
  for (uint32_t i = 0; i < count; ++i) {
    void* address = nullptr;
    EXPECT_EQ(quire_memory_get_region(memory, i, &address, &regions[i].bytes, nullptr), QUIRE_OK);
    regions[i].address = static_cast<unsigned char*>(address);
    regions[i].info = infos[i];
  }
  return regions;
}

uint64_t num_pages(const Rig& rig) {
  quire_config_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(quire_config_get_info(rig.config.get(), &info, nullptr), QUIRE_OK);
  return info.num_pages;
}

// Calls f(address) for every byte of the null page.
template <typename F>
void for_null_page(const Rig& rig, const std::vector<Region>& regions, F&& f) {
  for (const Region& region : regions) {
    for (uint64_t plane = 0; plane < region.info.num_planes; ++plane) {
      for (uint64_t i = 0; i < region.info.page_stride; ++i) f(region.address + plane * num_pages(rig) * region.info.page_stride + i);
    }
  }
}

std::vector<std::vector<unsigned char>> snapshot(const std::vector<Region>& regions) {
  std::vector<std::vector<unsigned char>> all;
  for (const Region& region : regions) all.emplace_back(region.address, region.address + region.bytes);
  return all;
}

class Layouts : public testing::TestWithParam<const char*> {};

TEST_P(Layouts, PoisonFillsEverythingButTheNullPage) {
  const Rig rig(GetParam(), 20);
  ASSERT_TRUE(rig.whole());
  const auto regions = regions_of(rig, rig.memory.get());
  for_null_page(rig, regions, [](const unsigned char* byte) { ASSERT_EQ(*byte, 0); });
  EXPECT_WORKS(quire_memory_poison(rig.memory.get(), rig.stream.get(), 0xa5, err));
  uint64_t poisoned = 0;
  uint64_t total = 0;
  uint64_t null_bytes = 0;
  for (const Region& region : regions) {
    total += region.bytes;
    poisoned += static_cast<uint64_t>(std::count(region.address, region.address + region.bytes, 0xa5));
  }
  for_null_page(rig, regions, [&](const unsigned char* byte) {
    ASSERT_EQ(*byte, 0);
    ++null_bytes;
  });
  EXPECT_EQ(poisoned + null_bytes, total);
}

// Tensor and paged view give the same addresses, and no two elements of the whole cache share a byte.
TEST_P(Layouts, EveryElementHasItsOwnAddress) {
  const Rig rig(GetParam(), 14);
  ASSERT_TRUE(rig.whole());
  const auto regions = regions_of(rig, rig.memory.get());
  auto seen = snapshot(regions);
  for (auto& bytes : seen) std::fill(bytes.begin(), bytes.end(), 0);
  const auto mark = [&](const unsigned char* address, uint64_t bytes) {
    for (size_t r = 0; r < regions.size(); ++r) {
      if (address < regions[r].address || address >= regions[r].address + regions[r].bytes) continue;
      for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(seen[r][static_cast<uint64_t>(address - regions[r].address) + i]++, 0);
      return;
    }
    FAIL() << "an address lies in no region";
  };
  for (const uint32_t layer : {0U, 2U}) {
    quire_layer_place place{};
    place.struct_size = sizeof place;
    EXPECT_WORKS(quire_config_get_place(rig.config.get(), layer, 0, &place, err));
    quire_lowering low{};
    low.struct_size = sizeof low;
    EXPECT_WORKS(quire_config_get_lowering(rig.config.get(), 0, place.group, &low, err));
    quire_paged_kv kv{};
    EXPECT_WORKS(quire_memory_get_paged_kv(rig.memory.get(), layer, 0, &kv, err));
    for (uint32_t side = 0; side < 2; ++side) {
      quire_tensor t{};
      quire_export what = QUIRE_INIT(quire_export);
      what.layer = layer, what.item = side;
      EXPECT_WORKS(quire_memory_get_tensor(rig.memory.get(), &what, &t, err));
      quire_tensor lowered_view{};
      what.kind = QUIRE_EXPORT_LOWERED;
      EXPECT_WORKS(quire_memory_get_tensor(rig.memory.get(), &what, &lowered_view, err));
      EXPECT_EQ(lowered_view.ndim, 4);
      EXPECT_EQ(static_cast<uint64_t>(lowered_view.shape[0]), kv.num_ids);
      ASSERT_EQ(t.shape[4], side == 0 ? 64 : 32);
      for (int64_t page = 0; page < t.shape[0]; ++page) {
        // Only pages of one group hold it; here layers of both kinds are checked one kind at a time.
        for (int64_t block = 0; block < t.shape[1]; ++block) {
          const auto part = static_cast<uint64_t>(block) / low.kernel_blocks_per_part;
          const auto k = static_cast<uint64_t>(block) % low.kernel_blocks_per_part;
          const uint64_t lowered = static_cast<uint64_t>(page) * low.page_factor + part * low.part_factor + k * low.block_factor;
          ASSERT_LT(lowered, kv.num_ids);
          for (int64_t token = 0; token < t.shape[2]; ++token) {
            for (int64_t head = 0; head < t.shape[3]; ++head) {
              const auto* by_tensor =
                  static_cast<unsigned char*>(t.data) + page * t.stride[0] + block * t.stride[1] + token * t.stride[2] + head * t.stride[3];
              const auto* by_view = static_cast<unsigned char*>(kv.side[side].base) + static_cast<int64_t>(lowered) * kv.side[side].unit +
                                    token * kv.side[side].stride_token + head * kv.side[side].stride_head;
              ASSERT_EQ(by_tensor, by_view);
              ASSERT_EQ(static_cast<unsigned char*>(lowered_view.data) + static_cast<int64_t>(lowered) * lowered_view.stride[0] +
                            token * lowered_view.stride[1] + head * lowered_view.stride[2],
                        by_view);
              for (int64_t d = 0; d < t.shape[4]; ++d) mark(by_tensor + d * t.stride[4], 2);
            }
          }
        }
      }
    }
  }
}

std::vector<quire_segment> segments_of(const Rig& rig, uint32_t group, uint32_t column, int32_t id) {
  uint64_t count = 0;
  Error e;
  quire_segment_query query = QUIRE_INIT(quire_segment_query);
  query.group = group, query.column = column;
  EXPECT_EQ(quire_config_list_segments(rig.config.get(), &query, &id, 1, nullptr, 0, &count, &e), QUIRE_OK) << e.message;
  std::vector<quire_segment> runs(count);
  EXPECT_EQ(quire_config_list_segments(rig.config.get(), &query, &id, 1, runs.data(), count, &count, &e), QUIRE_OK) << e.message;
  return runs;
}

using Bytes = std::vector<std::vector<unsigned char>>;  // by region

void oracle_zero(const Rig& rig, const std::vector<Region>& regions, const quire_zero& item, Bytes* bytes) {
  if (item.group != 0xffffffffU) {
    for (const quire_segment& run : segments_of(rig, item.group, item.column, item.id)) {
      std::fill_n((*bytes)[run.region].begin() + static_cast<int64_t>(run.offset), run.bytes, 0);
    }
    return;
  }
  for (size_t r = 0; r < regions.size(); ++r) {
    const quire_region_info& info = regions[r].info;
    for (uint64_t plane = 0; plane < info.num_planes; ++plane) {
      const uint64_t at = (plane * num_pages(rig) + static_cast<uint64_t>(item.id)) * info.page_stride;
      std::fill_n((*bytes)[r].begin() + static_cast<int64_t>(at), info.page_stride, 0);
    }
  }
}

void oracle_copy(const Rig& rig, const quire_copy& item, Bytes* bytes) {
  const auto from = segments_of(rig, item.group, item.column, item.source);
  const auto to = segments_of(rig, item.group, item.column, item.destination);
  ASSERT_EQ(from.size(), to.size());
  for (size_t k = 0; k < from.size(); ++k) {
    std::copy_n((*bytes)[from[k].region].begin() + static_cast<int64_t>(from[k].offset), from[k].bytes,
                (*bytes)[to[k].region].begin() + static_cast<int64_t>(to[k].offset));
  }
}

// Fills memory with noise, prepares the step and compares with what the oracle makes of its lists. Returns the number of copies.
uint64_t check_step(const Rig& rig, const std::vector<Region>& regions, quire_step step, std::mt19937_64* random) {
  for (const Region& region : regions) {
    std::generate(region.address, region.address + region.bytes, [&] { return static_cast<unsigned char>((*random)()); });
  }
  Bytes wanted = snapshot(regions);
  quire_copy copies[256];
  quire_zero zeroes[256];
  uint64_t num_copies = 0;
  uint64_t num_zeroes = 0;
  EXPECT_WORKS(quire_step_list_copies(step, copies, 256, &num_copies, err));
  EXPECT_WORKS(quire_step_list_zeroes(step, zeroes, 256, &num_zeroes, err));
  for (uint64_t i = 0; i < num_zeroes; ++i) oracle_zero(rig, regions, zeroes[i], &wanted);
  for (uint64_t i = 0; i < num_copies; ++i) oracle_copy(rig, copies[i], &wanted);
  EXPECT_WORKS(quire_memory_prepare_step(rig.memory.get(), step, rig.stream.get(), err));
  EXPECT_TRUE(snapshot(regions) == wanted) << num_copies << " copies, " << num_zeroes << " zeroes";
  return num_copies;
}

// Steps of a random little workload with forks.
TEST_P(Layouts, PrepareStepDoesExactlyWhatTheListsSay) {
  Rig rig(GetParam(), 30);
  ASSERT_TRUE(rig.whole());
  const auto regions = regions_of(rig, rig.memory.get());
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  uint64_t copies = 0;
  std::vector<quire_sequence_id> sequences;
  for (int round = 0; round < 100; ++round) {
    quire_sequence_id sequence = 0;
    if (sequences.size() < 3) {
      EXPECT_WORKS(quire_sequence_create(rig.cache.get(), nullptr, &sequence, err));
    } else if (sequences.size() >= 6 || random() % 4 == 0) {
      EXPECT_WORKS(quire_sequence_finish(rig.cache.get(), sequences.front(), err));
      sequences.erase(sequences.begin());
      continue;
    } else {
      EXPECT_WORKS(quire_sequence_fork(rig.cache.get(), sequences[random() % sequences.size()], &sequence, err));
    }
    sequences.push_back(sequence);
    std::vector<quire_symbol> symbols(1 + random() % 10);
    for (quire_symbol& symbol : symbols) symbol = static_cast<quire_symbol>(random() % 1000);
    quire_reserve_entry entry{};
    entry.sequence = sequence;
    quire_sequence_info known = QUIRE_INIT(quire_sequence_info);
    EXPECT_WORKS(quire_sequence_get_info(rig.cache.get(), sequence, &known, err));
    entry.symbols_position = known.known;
    entry.num_symbols = entry.num_tokens = static_cast<uint32_t>(symbols.size());
    quire_reserve_result result{};
    quire_step step{};
    EXPECT_WORKS(quire_reserve(rig.cache.get(), &entry, 1, symbols.data(), symbols.size(), &result, &step, err));
    if (step.id == 0) continue;
    copies += check_step(rig, regions, step, &random);
    quire_commit_entry commit{};
    commit.sequence = sequence;
    commit.num_accepted = result.num_tokens;
    EXPECT_WORKS(quire_commit(step, &commit, 1, nullptr, 0, err));
  }
  EXPECT_GT(copies, 5U);
}

INSTANTIATE_TEST_SUITE_P(Orders, Layouts, testing::Values("", "LPBJKTHD", "LPBJKHTD", "BLPJKTHD", "BJLPTHKD"),
                         [](const auto& one) { return one.param[0] == '\0' ? std::string("Default") : std::string(one.param); });

// Engine-owned bytes --------------------------------------------------------------------------------------------------------------

class Binding : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(rig_.whole());
    for (const Region& region : regions_of(rig_, rig_.memory.get())) {
      const uint64_t alignment = std::max<uint64_t>(region.info.alignment, 8);
      const uint64_t bytes = (region.bytes + alignment - 1) / alignment * alignment + alignment;
      bytes_.emplace_back(static_cast<unsigned char*>(std::aligned_alloc(alignment, bytes)), std::free);
      std::memset(bytes_.back().get(), 0x77, bytes);
      quire_memory_binding binding{};
      binding.struct_size = sizeof binding;
      binding.region = region.info.region;
      binding.address = bytes_.back().get();
      binding.bytes = region.info.bytes;
      binding.device_type = QUIRE_DEVICE_CPU;
      bindings_.push_back(binding);
      infos_.push_back(region.info);
    }
  }
  ~Binding() override { EXPECT_EQ(out_, nullptr); }

  // Expects a refusal after one change of the first binding.
  template <typename Change>
  void refused(const char* part, Change&& change) {
    auto wrong = bindings_;
    change(wrong);
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, part,
                 quire_memory_bind(rig_.device.get(), rig_.config.get(), 0, wrong.data(), wrong.size(), &out_, err));
  }

  Rig rig_{"LPBJKTHD", 16};
  std::vector<std::unique_ptr<unsigned char, void (*)(void*)>> bytes_;
  std::vector<quire_memory_binding> bindings_;
  std::vector<quire_region_info> infos_;
  quire_memory* out_ = nullptr;
};

TEST_F(Binding, RefusesWithValueAndLimit) {
  using All = std::vector<quire_memory_binding>;
  const std::string needs = std::to_string(infos_[0].bytes - 1) + " bytes, region 0 needs " + std::to_string(infos_[0].bytes);
  refused(needs.c_str(), [](All& all) { all[0].bytes -= 1; });
  if (infos_[0].alignment > 1) refused("is not aligned", [](All& all) { all[0].address = static_cast<char*>(all[0].address) + 1; });
  refused("address is NULL", [](All& all) { all[0].address = nullptr; });
  refused("device (2, 0), the memory's device is (1, 0)", [](All& all) { all[0].device_type = QUIRE_DEVICE_CUDA; });
  refused("device (1, 3)", [](All& all) { all[0].device_id = 3; });
  refused("region is 99", [](All& all) { all[0].region = 99; });
  refused("is missing", [](All& all) { all.pop_back(); });
  refused("bound twice", [](All& all) { all.push_back(all[0]); });
  refused("struct_size is 8", [](All& all) { all[0].struct_size = 8; });
  refused("reserved0 is 5", [](All& all) { all[0].reserved0 = 5; });
  refused("wraps", [](All& all) { all[0].bytes = UINT64_MAX; });
  if (infos_.size() > 1) refused("overlap", [](All& all) { all[1].address = all[0].address; });
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "shard 1",
               quire_memory_bind(rig_.device.get(), rig_.config.get(), 1, bindings_.data(), bindings_.size(), &out_, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "bindings is NULL",
               quire_memory_bind(rig_.device.get(), rig_.config.get(), 0, nullptr, 1, &out_, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "device is NULL", quire_memory_bind(nullptr, rig_.config.get(), 0, bindings_.data(), 1, &out_, err));
  for (const auto& bytes : bytes_) EXPECT_EQ(bytes.get()[0], 0x77);  // refused means untouched
}

TEST_F(Binding, WritesOnlyTheNullPageAndNeverFrees) {
  EXPECT_WORKS(quire_memory_bind(rig_.device.get(), rig_.config.get(), 0, bindings_.data(), bindings_.size(), &out_, err));
  const auto regions = regions_of(rig_, out_);
  uint64_t zeroes = 0;
  uint64_t null_bytes = 0;
  for_null_page(rig_, regions, [&](const unsigned char* byte) {
    ASSERT_EQ(*byte, 0);
    ++null_bytes;
  });
  for (const Region& region : regions) zeroes += static_cast<uint64_t>(std::count(region.address, region.address + region.bytes, 0));
  EXPECT_EQ(zeroes, null_bytes);
  quire_memory_release(out_);
  out_ = nullptr;
  for (const auto& bytes : bytes_) bytes.get()[1] = 1;  // still ours
}

TEST_F(Binding, OtherConfigAndTensorMemory) {
  const Rig other("", 16);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "different configs",
               quire_memory_prepare_step(rig_.memory.get(), quire_step{other.cache.get(), 1}, rig_.stream.get(), err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "stream belongs to device", quire_memory_poison(rig_.memory.get(), other.stream.get(), 1, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "shard 5", quire_memory_create(rig_.device.get(), rig_.config.get(), 5, &out_, err));
  quire_paged_kv kv{};
  EXPECT_FAILS(QUIRE_NOT_FOUND, "layer 1", quire_memory_get_paged_kv(rig_.memory.get(), 1, 0, &kv, err));
  quire_paged_state state{};
  EXPECT_FAILS(QUIRE_NOT_FOUND, "layer 0", quire_memory_get_paged_state(rig_.memory.get(), 0, 0, 0, &state, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "tensor 2", quire_memory_get_paged_state(rig_.memory.get(), 1, 0, 2, &state, err));
  ASSERT_EQ(quire_memory_get_paged_state(rig_.memory.get(), 1, 0, 0, &state, nullptr), QUIRE_OK);
  EXPECT_GT(state.num_ids, 0u) << "kernels check ids against it";
  void* address = nullptr;
  uint64_t bytes = 0;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "region 77", quire_memory_get_region(rig_.memory.get(), 77, &address, &bytes, err));
}

}  // namespace
}  // namespace quire::test
