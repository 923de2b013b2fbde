// Every number of the statistics is in the text once, under the name and the labels that
// docs/metrics.md gives it.
#include "tests/metrics/metrics_text.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/metrics/wanted.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

struct Error : quire_error {
  Error() : quire_error(QUIRE_INIT(quire_error)) {}
};

quire_str str(const std::string& text) { return {text.data(), text.size()}; }

// An engine in which something of most kinds has happened.
struct Busy {
  Clock clock;
  FakeStore near, far;
  Engine engine;

  static EngineOptions options() {
    EngineOptions options;
    options.layers = {full_layer(), state_layer(), window_layer(40, 4)};
    options.pages = 160;
    options.others = {};
    return options;
  }
  Busy() : engine(clock, options(), {&near, &far}) {
    for (quire_symbol first = 1; first <= 6; ++first) {
      engine.compute(count_text(1000 * first, 400));
      engine.settle();
    }
    engine.forget_all();
    const Text text = count_text(1000, 400);
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_result got = engine.fetch(sequence, text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    engine.go_on(sequence, text);
    engine.finish(sequence);
    EXPECT_GT(engine.compute(text), 0U);  // a hit
    engine.fetch(engine.open(), count_text(77, 90));
    quire_error err = QUIRE_INIT(quire_error);
    quire_cache* const cache = engine.cache();
    // Different numbers of what a swapped name would hide.
    quire_sequence_id other = 0;
    const quire_sequence_id root = engine.open();
    engine.go_on(root, count_text(9000, 48));
    for (int i = 0; i < 2; ++i) must(quire_sequence_fork(cache, root, &other, &err), err, "fork");
    for (int i = 0; i < 3; ++i) {
      const quire_sequence_id one = engine.open();
      engine.go_on(one, count_text(9000, 48));
      must(quire_sequence_preempt(cache, one, &err), err, "preempt");
    }
    std::array<unsigned char, 64> bytes{};
    must(quire_op_fill(engine.stream(0), bytes.data(), 1, bytes.size(), &err), err, "fill");
  }
  quire_metrics_source source(const std::string& labels = "") const {
    return {engine.cache(), engine.tiers(), engine.memory(0), str(labels), nullptr};
  }
};

// The samples of one family by their labels.
std::map<std::string, double> of(const std::map<std::string, Family>& families, const std::string& family) {
  const auto at = families.find(family);
  EXPECT_NE(at, families.end()) << family;
  return at == families.end() ? std::map<std::string, double>{} : at->second.samples;
}

TEST(MetricsText, HasEveryNumberOfTheStatistics) {
  const Busy busy;
  const quire_cache_stats cache = busy.engine.cache_stats();
  const quire_tiers_stats tiers = busy.engine.stats();
  ASSERT_GT(cache.hit_tokens, 0U);
  ASSERT_GT(cache.evicted_pages, 0U);
  ASSERT_GT(tiers.tokens_fetched, 0U);
  ASSERT_EQ(cache.forks, 2U);
  ASSERT_EQ(cache.preemptions, 3U);
  const auto families = read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS);
  Wanted want;
  want.cache(cache);
  want.tiers(tiers);
  for (uint32_t t = 0; t < 2; ++t) {
    want.tier(t, busy.engine.tier(t));
    quire_connector_stats tickets = QUIRE_INIT(quire_connector_stats);
    quire_connector_health health = QUIRE_INIT(quire_connector_health);
    Error err;
    must(quire_connector_get_stats(busy.engine.connector(t), &tickets, &err), err, "tickets");
    must(quire_connector_get_health(busy.engine.connector(t), &health, &err), err, "health");
    ASSERT_GT(tickets.num_done, 0U);
    ASSERT_GT(health.num_objects, 0U);
    want.connector("tier=\"" + std::to_string(t) + ":" + busy.engine.tier(t).name + "\"", tickets, health);
  }
  std::map<std::string, double> got;
  for (const auto& [name, family] : families) got.insert(family.samples.begin(), family.samples.end());
  for (const auto& [sample, value] : want.samples) {
    ASSERT_TRUE(got.contains(sample)) << sample;
    EXPECT_DOUBLE_EQ(got[sample], value) << sample;
    got.erase(sample);
  }
  // What is left is said of devices and of the plan, and buckets of histograms.
  for (const auto& [sample, value] : got) {
    const auto is = [&s = sample](const char* begin) { return s.starts_with(std::string("quire_") + begin); };
    EXPECT_TRUE(is("device_info") || is("ops_total") || is("memory_") || is("prepared_steps") || is("cache_config_info") ||
                is("cache_group_info") || is("connector_store_seconds") || is("connector_load_seconds") || is("connector_lookup_seconds") ||
                is("fetch_seconds") || is("kv_block_") || is("group_pages"))
        << sample;
  }
}

TEST(MetricsText, OffersAreCounted) {
  FakeStoreOptions peers;
  peers.offers = true;
  Clock clock;
  FakeStore store(peers);
  EngineOptions options;
  options.layers = {full_layer()};
  options.is_peers = true;
  Engine engine(clock, options, {&store});
  const Text text = count_text(1000, 321);
  const quire_sequence_id sequence = engine.open();
  engine.go_on(sequence, Text(text.begin(), text.end() - 1));
  engine.offer(sequence, text);
  EXPECT_EQ(engine.withdraw(engine.offer(sequence, text)), QUIRE_OK);
  engine.offer(sequence, text);
  engine.run();
  const quire_metrics_source source = {engine.cache(), engine.tiers(), nullptr, {}, nullptr};
  const auto families = read(write({source}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS);
  EXPECT_EQ(of(families, "quire_offers").at("quire_offers_total"), 3);
  EXPECT_EQ(of(families, "quire_offers_in_progress").at("quire_offers_in_progress"), 2);
}

TEST(MetricsText, FetchesThatEndedAreInTheHistogram) {
  const Busy busy;
  const quire_tiers_stats tiers = busy.engine.stats();
  uint64_t ended = 0;
  for (const uint64_t n : tiers.outcomes) ended += n;
  EXPECT_EQ(ended, tiers.fetches);
  uint64_t counted = 0;
  for (const uint64_t n : tiers.fetch_latency) counted += n;
  EXPECT_EQ(counted, ended);
  EXPECT_GT(tiers.fetch_ns, 0U);
  // Of the second text, of 90 tokens, 89 can be asked for; of the first, 399.
  EXPECT_EQ(tiers.tokens_asked, 399U + 89U);
  const auto samples = of(read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS), "quire_fetch_seconds");
  EXPECT_EQ(samples.at("quire_fetch_seconds_count"), static_cast<double>(ended));
  EXPECT_EQ(samples.at("quire_fetch_seconds_bucket{le=\"+Inf\"}"), static_cast<double>(ended));
  EXPECT_DOUBLE_EQ(samples.at("quire_fetch_seconds_sum"), static_cast<double>(tiers.fetch_ns) / 1e9);
}

TEST(MetricsText, PagesOfGroupsAreThoseOfThePool) {
  const Busy busy;
  const auto families = read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS);
  std::map<std::string, double> sums;
  size_t groups = 0;
  for (const auto& [sample, value] : of(families, "quire_group_pages")) {
    const bool cached = sample.find("state=\"cached\"") != std::string::npos;
    groups += cached ? 1 : 0;
    sums[cached ? "cached" : "used"] += value;
  }
  const quire_cache_stats cache = busy.engine.cache_stats();
  EXPECT_GT(groups, 1U);
  EXPECT_GT(sums["cached"], 0);
  EXPECT_EQ(sums["cached"], static_cast<double>(cache.pages_evictable));
  EXPECT_EQ(sums["used"], static_cast<double>(cache.pages_used));
}

TEST(MetricsText, SpansOfGroupsAreTogetherThoseOfTheCache) {
  const Busy busy;
  const quire_cache_stats cache = busy.engine.cache_stats();
  std::array<uint64_t, 3> sums{};
  for (uint32_t group = 0; group < 3; ++group) {
    auto stats = quire_group_stats{};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(quire_cache_get_group_stats(busy.engine.cache(), group, &stats, nullptr), QUIRE_OK);
    EXPECT_LT(stats.page_lifetime_ns, cache.page_lifetime_ns) << group;
    const std::array<const uint64_t*, 3> spans = {stats.page_lifetime, stats.page_idle, stats.page_reuse_gap};
    for (size_t i = 0; i < spans.size(); ++i) sums[i] += std::accumulate(spans[i], spans[i] + 32, uint64_t{0});
  }
  const std::array<const uint64_t*, 3> spans = {cache.page_lifetime, cache.page_idle, cache.page_reuse_gap};
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_GT(sums[i], 0U);
    EXPECT_EQ(sums[i], std::accumulate(spans[i], spans[i] + 32, uint64_t{0}));
  }
}

TEST(MetricsText, ResidencyIsThreeHistograms) {
  const Busy busy;
  const quire_cache_stats cache = busy.engine.cache_stats();
  const auto families = read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS);
  const auto check = [&](const std::string& name, std::span<const uint64_t> counts, uint64_t sum_ns) {
    const auto samples = of(families, name);
    uint64_t count = 0, below_a_second = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      count += counts[i];
      below_a_second += i <= 10 ? counts[i] : 0;
    }
    EXPECT_GT(count, 0U) << name;
    EXPECT_EQ(samples.at(name + "_count"), static_cast<double>(count));
    EXPECT_DOUBLE_EQ(samples.at(name + "_sum"), static_cast<double>(sum_ns) / 1e9);
    EXPECT_EQ(samples.at(name + "_bucket{le=\"1.024\"}"), static_cast<double>(below_a_second));
    EXPECT_EQ(samples.at(name + "_bucket{le=\"+Inf\"}"), static_cast<double>(count));
    EXPECT_TRUE(samples.contains(name + "_bucket{le=\"0.001\"}"));
  };
  check("quire_kv_block_lifetime_seconds", cache.page_lifetime, cache.page_lifetime_ns);
  check("quire_kv_block_idle_before_evict_seconds", cache.page_idle, cache.page_idle_ns);
  check("quire_kv_block_reuse_gap_seconds", cache.page_reuse_gap, cache.page_reuse_gap_ns);
}

TEST(MetricsText, LatenciesOfConnectorsAreHistograms) {
  const Busy busy;
  const auto families = read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS);
  for (const char* operation : {"store", "load", "lookup"}) {
    const std::string name = std::string("quire_connector_") + operation + "_seconds";
    const auto samples = of(families, name);
    for (const char* tier : {"0:", "1:"}) {
      std::map<double, double> buckets;
      double count = -1, sum = -1;
      for (const auto& [sample, value] : samples) {
        if (sample.find(std::string("tier=\"") + tier) == std::string::npos) continue;
        const size_t le = sample.find("le=\"");
        if (sample.starts_with(name + "_count")) count = value;
        if (sample.starts_with(name + "_sum")) sum = value;
        if (le == std::string::npos) continue;
        const std::string bound = sample.substr(le + 4, sample.find('"', le + 4) - le - 4);
        buckets[bound == "+Inf" ? INFINITY : std::stod(bound)] = value;
      }
      ASSERT_EQ(buckets.size(), 25U);
      EXPECT_DOUBLE_EQ(buckets.begin()->first, 8e-6);
      double before = 0;
      for (const auto& [bound, value] : buckets) {
        EXPECT_GE(value, before) << bound;
        before = value;
      }
      EXPECT_EQ(buckets.rbegin()->second, count);
      EXPECT_GE(sum, 0);
      const double least = std::string(operation) == "store" ? 1 : 0;
      EXPECT_GE(count, least) << name << tier;
    }
  }
}

TEST(MetricsText, OpsAndBytesOfTheDevice) {
  const Busy busy;
  const std::string labels = "engine=\"7\"";
  const auto families = read(write({busy.source(labels)}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS);
  double fills = -1, others = 0;
  for (const auto& [sample, value] : of(families, "quire_ops")) {
    EXPECT_NE(sample.find("engine=\"7\",driver=\"cpu\""), std::string::npos) << sample;
    if (sample.find("op=\"fill\",result=\"queued\"") != std::string::npos) {
      fills = value;
    } else {
      others += value;
    }
  }
  EXPECT_EQ(fills, 1);
  EXPECT_EQ(others, 0);
  quire_error err = QUIRE_INIT(quire_error);
  EXPECT_EQ(quire_op_fill(busy.engine.stream(0), nullptr, 1, 8, &err), QUIRE_INVALID_ARGUMENT);  // refused before the driver has it
  const auto memory = of(families, "quire_memory_bytes");
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_NE(memory.begin()->first.find("shard=\"0\""), std::string::npos);
  void* address = nullptr;
  uint64_t bytes = 0;
  must(quire_memory_get_region(busy.engine.memory(0), 0, &address, &bytes, &err), err, "region");
  EXPECT_GE(memory.begin()->second, static_cast<double>(bytes));
  EXPECT_GT(of(families, "quire_prepared_steps").begin()->second, 0);
  EXPECT_GT(of(families, "quire_memory_zeroed_bytes").begin()->second, 0);
}

TEST(MetricsText, BothFormsSayTheSame) {
  const Busy busy;
  const auto open = read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS);
  const auto plain = read(write({busy.source()}, QUIRE_METRICS_PROMETHEUS), QUIRE_METRICS_PROMETHEUS);
  std::map<std::string, double> a, b;
  for (const auto& [name, family] : open) a.insert(family.samples.begin(), family.samples.end());
  for (const auto& [name, family] : plain) {
    b.insert(family.samples.begin(), family.samples.end());
    EXPECT_NE(family.type, "info");
    EXPECT_TRUE(family.unit.empty());
    EXPECT_EQ(family.type == "counter", name.ends_with("_total")) << name;
  }
  EXPECT_EQ(a, b);
  EXPECT_EQ(open.at("quire_cache_config").type, "info");
  EXPECT_EQ(open.at("quire_kv_offload_load_bytes").unit, "bytes");
  EXPECT_EQ(open.at("quire_fetch_seconds").unit, "seconds");
}

TEST(MetricsText, SeveralEnginesStandInTheSameFamilies) {
  const Busy first;
  const Busy second;
  const std::string of_first = "model_name=\"a\",engine=\"0\"", of_second = "model_name=\"b\"";
  quire_metrics_source apart = second.source(of_second);
  apart.memory = nullptr;
  apart.tiers = nullptr;
  const std::string text = write({first.source(of_first), apart}, QUIRE_METRICS_OPENMETRICS);
  const auto families = read(text, QUIRE_METRICS_OPENMETRICS);  // fails where a family comes twice
  const auto samples = of(families, "quire_sequences");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_TRUE(samples.contains("quire_sequences{engine=\"0\",model_name=\"a\"}"));
  EXPECT_TRUE(samples.contains("quire_sequences{model_name=\"b\"}"));
  EXPECT_EQ(of(families, "quire_fetches_in_progress").size(), 1U);
}

// quire_tiers_run may wait for seconds: nobody waits with it.
TEST(MetricsText, IsReadWhileTiersWaitForATransfer) {
  Clock clock;
  FakeStoreOptions slow;
  slow.latency_ns = 3'600'000'000'000;
  FakeStore store(slow);
  EngineOptions options;
  options.layers = {full_layer()};
  Engine engine(clock, options, {&store});
  engine.compute(count_text(1, 200));
  engine.run();
  ASSERT_GT(engine.stats().units_in_flight, 0U);
  std::atomic<bool> has_begun{false}, has_ended{false};
  std::thread waiting([&] {
    has_begun = true;
    uint64_t count = 0;
    quire_fetch_result result{};
    quire_error err = QUIRE_INIT(quire_error);
    must(quire_tiers_run(engine.tiers(), 2'000'000'000, &result, 1, &count, &err), err, "run");
    has_ended = true;
  });
  while (!has_begun) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(write({{nullptr, engine.tiers(), nullptr, {}, nullptr}}, QUIRE_METRICS_OPENMETRICS).empty());
    EXPECT_GT(engine.stats().units_in_flight, 0U);
  }
  EXPECT_FALSE(has_ended);
  clock.now += 3'700'000'000'000;
  waiting.join();
  engine.settle();
}

TEST(MetricsText, NothingIsAText) {
  EXPECT_EQ(write({}, QUIRE_METRICS_OPENMETRICS), "# EOF\n");
  EXPECT_EQ(write({}, QUIRE_METRICS_PROMETHEUS), "");
  EXPECT_EQ(write({quire_metrics_source{}}, QUIRE_METRICS_OPENMETRICS), "# EOF\n");
}

std::string refusal(const std::vector<quire_metrics_source>& sources) {
  uint64_t count = 0;
  Error err;
  EXPECT_EQ(quire_metrics_write(sources.data(), sources.size(), QUIRE_METRICS_OPENMETRICS, nullptr, 0, &count, &err),
            QUIRE_INVALID_ARGUMENT);
  return err.message;
}

TEST(MetricsText, SourcesThatCannotBeToldApartAreRefused) {
  const Busy busy;
  const std::string one = "a=\"1\",b=\"2\"", other = "b=\"2\",a=\"1\"";
  EXPECT_NE(refusal({busy.source(one), busy.source(other)}).find("sources[1].labels: another cache"), std::string::npos);
  quire_metrics_source tiers = busy.source(other), memory = tiers;
  tiers.cache = memory.cache = nullptr;
  tiers.memory = nullptr, memory.tiers = nullptr;
  EXPECT_NE(refusal({busy.source(one), tiers}).find("another set of tiers"), std::string::npos);
  EXPECT_NE(refusal({busy.source(one), memory}).find("another memory of this shard"), std::string::npos);
}

TEST(MetricsText, LabelsAreCheckedAndKept) {
  const Busy busy;
  const std::string good = R"(model_name="a \"b\" \\ \n é",_x9="")";
  const auto samples = of(read(write({busy.source(good)}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS), "quire_sequences");
  EXPECT_EQ(samples.begin()->first, R"(quire_sequences{_x9="",model_name="a \"b\" \\ \n é"})");
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"a", "'=' expected at byte 1"},
      {"a=", "'\"' expected at byte 2"},
      {"a=1", "'\"' expected at byte 2"},
      {"a=\"1", "'\"' expected at byte 4"},
      {"a=\"1\"b=\"2\"", "',' expected at byte 5"},
      {"a=\"1\",", "a name expected at byte 6"},
      {",a=\"1\"", "a name expected at byte 0"},
      {"1a=\"1\"", "a name expected at byte 0"},
      {"a-b=\"1\"", "'=' expected at byte 1"},
      {"a =\"1\"", "'=' expected at byte 1"},
      {"a=\"\\t\"", "an escape is"},
      {"a=\"1\\", "an escape is"},
      {"a=\"1\n\"", "next line"},
      {std::string("a=\"\0\"", 5), "next line"},
      {"a=\"1\",a=\"2\"", "'a' stands twice"},
      {"__a=\"1\"", "Prometheus' own"},
      {"le=\"1\"", "'le' is a label of quire's own"},
      {"tier=\"1\"", "'tier' is a label of quire's own"},
      {"a=\"\xff\"", "not UTF-8"},
      {"a=\"\xc0\xaf\"", "not UTF-8"},
      {"a=\"\xed\xa0\x80\"", "not UTF-8"},
      {"a=\"\xf4\x90\x80\x80\"", "not UTF-8"},
      {"a=\"\xc3", "not UTF-8"},
      {std::string("a=\"") + std::string(5000, 'x') + "\"", "the limit is 4096"},
  };
  for (const auto& [labels, message] : bad) {
    const std::string got = refusal({busy.source(labels)});
    EXPECT_NE(got.find(message), std::string::npos) << labels << ": " << got;
    EXPECT_TRUE(got.starts_with("sources[")) << got;
  }
}

// Labels that quire adds cannot be given: every one of them is refused.
TEST(MetricsText, AllLabelsOfItsOwnAreRefused) {
  const Busy busy;
  std::set<std::string> own;
  for (const auto& [name, family] : read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS)) {
    for (const auto& [sample, value] : family.samples) {
      for (size_t at = sample.find("=\""); at != std::string::npos; at = sample.find("=\"", at + 1)) {
        const size_t begin = sample.find_last_of("{,", at);
        own.insert(sample.substr(begin + 1, at - begin - 1));
      }
    }
  }
  EXPECT_GE(own.size(), 15U);
  for (const std::string& name : own) {
    const std::string labels = name + "=\"1\"";
    EXPECT_NE(refusal({busy.source(labels)}).find("quire's own"), std::string::npos) << name;
  }
}

// docs/metrics.md has a row for every family, with its type, its labels and its help, and no other.
TEST(MetricsText, IsDocumented) {
  const Busy busy;
  std::set<std::string> rows;
  for (const auto& [name, family] : read(write({busy.source()}, QUIRE_METRICS_OPENMETRICS), QUIRE_METRICS_OPENMETRICS)) {
    const std::string suffix = family.type == "counter" ? "_total" : family.type == "info" ? "_info" : "";
    std::string labels;
    const std::string sample = family.samples.begin()->first;
    for (size_t at = sample.find("=\""); at != std::string::npos; at = sample.find("=\"", at + 1)) {
      const size_t begin = sample.find_last_of("{,", at);
      const std::string label = sample.substr(begin + 1, at - begin - 1);
      if (label == "le") continue;
      labels.append(labels.empty() ? "`" : ", `").append(label).append("`");
    }
    rows.insert("| `" + name + suffix + "` | " + family.type + " | " + labels + " | " + family.help.substr(0, family.help.size() - 1) +
                " |");
  }
  std::ifstream page(QUIRE_DOCS "/metrics.md");
  std::string line;
  size_t found = 0;
  while (std::getline(page, line)) {
    if (!line.starts_with("| `quire_") || line.find("_total[") != std::string::npos) continue;
    EXPECT_TRUE(rows.contains(line)) << line;
    ++found;
  }
  EXPECT_EQ(found, rows.size());
}

TEST(MetricsText, TheDashboardAsksForWhatIsThere) {
  const Busy busy;
  const auto families = read(write({busy.source()}, QUIRE_METRICS_PROMETHEUS), QUIRE_METRICS_PROMETHEUS);
  std::ifstream file(QUIRE_DOCS "/grafana/quire.json");
  const std::string board((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::set<std::string> asked;
  for (size_t at = board.find("quire_"); at != std::string::npos; at = board.find("quire_", at + 1)) {
    std::string name = board.substr(at, board.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at) - at);
    if (name.ends_with("_bucket")) name.resize(name.size() - 7);
    EXPECT_TRUE(families.contains(name)) << name;
    asked.insert(name);
  }
  EXPECT_GE(asked.size(), 20U);
}

// For parsers that others wrote: openmetrics.sh.
TEST(MetricsText, IsWrittenToFiles) {
  const char* folder = std::getenv("QUIRE_METRICS_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "QUIRE_METRICS_FOLDER says where to";
  const Busy busy;
  const Busy other;
  const std::string first = R"(model_name="a \"b\" \\ \n é",engine="0")", second = "engine=\"1\"";
  const std::vector<quire_metrics_source> sources = {busy.source(first), other.source(second)};
  std::ofstream(std::string(folder) + "/open.txt") << write(sources, QUIRE_METRICS_OPENMETRICS);
  std::ofstream(std::string(folder) + "/plain.txt") << write(sources, QUIRE_METRICS_PROMETHEUS);
}

}  // namespace
}  // namespace quire::test
