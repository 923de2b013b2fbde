// Metrics are read by other threads while the engine runs.
#include <quire/metrics.h>

#include <array>
#include <atomic>
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
