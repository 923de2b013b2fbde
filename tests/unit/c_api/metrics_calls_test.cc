// Metrics are read by other threads while the engine runs.
#include <quire/metrics.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <sstream>
#include <thread>

#include "api_rig.h"

namespace quire::test {
namespace {

std::string metrics_of(const Rig& rig) {
  quire_metrics_source source{};
  source.cache = rig.cache.get();
  source.memory = rig.memory.get();
  std::string written(1 << 16, '\0');
  uint64_t count = 0;
  Error e;
  EXPECT_EQ(quire_metrics_write(&source, 1, QUIRE_METRICS_OPENMETRICS, written.data(), written.size(), &count, &e), QUIRE_OK) << e.message;
  written.resize(count);
  return written;
}

uint64_t value_of(const std::string& written, const std::string& sample) {
  const size_t at = written.find("\n" + sample + " ");
  EXPECT_NE(at, std::string::npos) << sample;
  return at == std::string::npos ? 0 : std::stoull(written.substr(at + sample.size() + 2));
}

// Reserves, prepares, writes and commits 20 tokens in a sequence of its own.
void serve(const Rig& rig, quire_symbol first) {
  quire_error* err = nullptr;
  std::array<quire_symbol, 20> symbols{};
  for (size_t i = 0; i < symbols.size(); ++i) symbols[i] = first + i;
  quire_reserve_entry want{};
  want.num_symbols = want.num_tokens = symbols.size();
  want.flags = QUIRE_ENTRY_MATCH;
  ASSERT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &want.sequence, err), QUIRE_OK);
  quire_reserve_result got{};
  quire_step step{};
  ASSERT_EQ(quire_reserve(rig.cache.get(), &want, 1, symbols.data(), symbols.size(), &got, &step, err), QUIRE_OK);
  ASSERT_EQ(got.code, QUIRE_OK);
  ASSERT_EQ(quire_memory_prepare_step(rig.memory.get(), step, rig.stream.get(), err), QUIRE_OK);
  std::array<unsigned char, 16> bytes{};
  ASSERT_EQ(quire_op_fill(rig.stream.get(), bytes.data(), 1, bytes.size(), err), QUIRE_OK);
  quire_commit_entry row{};
  row.sequence = want.sequence;
  row.num_accepted = got.num_tokens;  // a chunk may stop early
  ASSERT_EQ(quire_commit(step, &row, 1, nullptr, 0, err), QUIRE_OK);
  ASSERT_EQ(quire_sequence_finish(rig.cache.get(), want.sequence, err), QUIRE_OK);
}

// All samples of counters.
std::map<std::string, uint64_t> counters_of(const std::string& written) {
  std::map<std::string, uint64_t> found;
  std::istringstream lines(written);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (line[0] != '#' && line.find("_total") != std::string::npos) found[line.substr(0, space)] = std::stoull(line.substr(space + 1));
  }
  return found;
}

// A scraper takes a counter that falls for one that began again, and adds all of it.
TEST(MetricsCalls, NoCounterFallsWhenAStepIsAborted) {
  const Rig rig;
  serve(rig, 1);
  serve(rig, 1);
  Error e;
  std::array<quire_symbol, 20> symbols{};
  for (size_t i = 0; i < symbols.size(); ++i) symbols[i] = 1 + i;
  quire_reserve_entry want{};
  want.num_symbols = want.num_tokens = symbols.size();
  want.flags = QUIRE_ENTRY_MATCH;
  ASSERT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &want.sequence, &e), QUIRE_OK) << e.message;
  quire_reserve_result got{};
  quire_step step{};
  ASSERT_EQ(quire_reserve(rig.cache.get(), &want, 1, symbols.data(), symbols.size(), &got, &step, &e), QUIRE_OK) << e.message;
  ASSERT_GT(got.hit_tokens, 0U);
  const auto before = counters_of(metrics_of(rig));
  ASSERT_EQ(quire_abort(step, 0, &e), QUIRE_OK) << e.message;
  const auto after = counters_of(metrics_of(rig));
  ASSERT_EQ(before.size(), after.size());
  EXPECT_GT(after.size(), 30U);
  for (const auto& [sample, value] : before) EXPECT_GE(after.at(sample), value) << sample;
  EXPECT_EQ(after.at("quire_prefix_cache_queries_total"), 60U);
  EXPECT_EQ(after.at("quire_prefix_cache_hits_total"), 2U * got.hit_tokens);
  quire_cache_stats stats = QUIRE_INIT(quire_cache_stats);
  ASSERT_EQ(quire_cache_get_stats(rig.cache.get(), &stats, &e), QUIRE_OK);
  EXPECT_EQ(stats.matched_prompt_tokens, 40U);
  EXPECT_EQ(stats.aborted_prompt_tokens, 20U);
  EXPECT_EQ(stats.aborted_hit_tokens, got.hit_tokens);
  uint64_t aborted = 0;
  for (const uint64_t n : stats.aborted_miss_reasons) aborted += n;
  EXPECT_EQ(aborted, 1U);
}

// Callers of older headers have shorter structs of statistics.
TEST(MetricsCalls, StatisticsOfOlderHeadersAreNotOverrun) {
  const Rig rig;
  serve(rig, 1000);
  constexpr uint32_t kOlder = 424;
  static_assert(kOlder < sizeof(quire_cache_stats));
  quire_cache_stats stats;
  std::memset(&stats, 0xa5, sizeof stats);
  stats.struct_size = kOlder;
  Error e;
  ASSERT_EQ(quire_cache_get_stats(rig.cache.get(), &stats, &e), QUIRE_OK) << e.message;
  EXPECT_EQ(stats.struct_size, kOlder);
  EXPECT_EQ(stats.matched_prompt_tokens, 20U);
  std::array<unsigned char, sizeof stats> bytes{};
  std::memcpy(bytes.data(), &stats, sizeof stats);
  for (size_t i = kOlder; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], 0xa5U) << "byte " << i;
}

TEST(MetricsCalls, AreMadeWhileTheEngineRuns) {
  const Rig rig;
  constexpr uint64_t kRequests = 300;
  std::atomic<bool> is_done{false};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      uint64_t steps = 0, fills = 0;
      while (!is_done) {
        const std::string now = metrics_of(rig);
        const uint64_t next_steps = value_of(now, "quire_steps_total");
        const uint64_t next_fills = value_of(now, "quire_ops_total{driver=\"null\",device=\"0\",op=\"fill\",result=\"queued\"}");
        EXPECT_GE(next_steps, steps);  // counters never fall
        EXPECT_GE(next_fills, fills);
        steps = next_steps, fills = next_fills;
        ++reads;
      }
    });
  }
  for (uint64_t i = 0; i < kRequests; ++i) serve(rig, 1 + i / 3 * 1000);
  while (reads < 10) std::this_thread::yield();
  is_done = true;
  for (std::thread& reader : readers) reader.join();
  const std::string last = metrics_of(rig);
  EXPECT_EQ(value_of(last, "quire_steps_total"), kRequests);
  EXPECT_EQ(value_of(last, "quire_prepared_steps_total{driver=\"null\",device=\"0\",shard=\"0\"}"), kRequests);
  EXPECT_EQ(value_of(last, "quire_ops_total{driver=\"null\",device=\"0\",op=\"fill\",result=\"queued\"}"), kRequests);
  EXPECT_EQ(value_of(last, "quire_prefix_cache_queries_total"), kRequests * 20);
}

}  // namespace
}  // namespace quire::test
