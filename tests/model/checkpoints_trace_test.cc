// Kept states on a trace of conversations, in units of 512 tokens: which share of what attention alone would hit do they reach,
// how many are kept, and which go where they have a budget, by what they cost and by age, beside an oracle that knows who asks next.
// "Ideal" is attention with memory for everything. QUIRE_TRACE names a published
// trace; without it one of our own is generated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/client.h"
#include "replay/trace.h"

namespace quire {
namespace {

constexpr uint64_t kUnit = replay::kTraceBlockTokens;
constexpr uint64_t kInterval = 8192;
#ifdef NDEBUG
constexpr uint64_t kRequests = 0;  // all
#else
constexpr uint64_t kRequests = 600;
#endif

struct Trace {
  std::vector<replay::Request> requests;
  uint64_t longest = 0, units = 0, ideal = 0;
};

// Leading ids that somebody brought before, less what leaves a token to compute.
uint64_t known_units(const std::unordered_set<uint64_t>& known, const replay::Request& request) {
  uint64_t units = 0;
  while ((units + 1) * kUnit < request.input_length && known.contains(request.hash_ids[units])) ++units;
  return units;
}

// Conversations that begin with long prompts of very different lengths under one system prompt. Less than half are continued, soon or
// late: the statistics of published traces of chats, where a third of the tokens was seen before.
std::vector<replay::Request> conversations(uint64_t requests) {
  std::mt19937_64 random(11);
  const auto draw = [&random](uint64_t below) { return random() % below; };
  std::vector<replay::Request> out, open;
  uint64_t next_id = 1;
  while (out.size() < requests) {
    replay::Request request;
    if (!open.empty() && draw(100) < 45) {
      // One of the last, of the last ten, hundred or thousand with equal probability: some come back late.
      const uint64_t back = draw(std::min<uint64_t>(open.size(), uint64_t{1} << draw(13)));
      request = open[open.size() - 1 - back];
      open.erase(open.end() - 1 - static_cast<long>(back));
      request.hash_ids.resize(request.input_length / kUnit);  // the last block was not complete
      request.input_length += 100 + draw(3000);
    } else {
      request.hash_ids.push_back(0);
      request.input_length = kUnit + 200 + draw(uint64_t{1} << (9 + draw(8)));  // up to 65,000 tokens, half of them below 4,000
    }
    request.output_length = 100;
    while (request.hash_ids.size() * kUnit < request.input_length) request.hash_ids.push_back(next_id++);
    if (request.input_length < 120000) open.push_back(request);
    out.push_back(std::move(request));
  }
  return out;
}

// path: NULL = conversations of our own.
Trace read(const char* path) {
  Trace t;
  t.requests = path != nullptr ? replay::read_trace(path, {.limit = kRequests}) : conversations(kRequests != 0 ? kRequests : 8000);
  std::unordered_set<uint64_t> known;
  for (const replay::Request& r : t.requests) {
    t.longest = std::max(t.longest, r.input_length);
    t.ideal += known_units(known, r) * kUnit;
    known.insert(r.hash_ids.begin(), r.hash_ids.begin() + static_cast<long>(r.input_length / kUnit));
  }
  t.units = known.size();
  return t;
}

// A layer of attention and some of states in blocks of a unit: every block of attention is a page, and every state one for each of its
// layers.
client::Config plan(const Trace& trace, uint64_t pages, uint32_t state_layers) {
  std::vector<quire_layer> layers(1 + state_layers, client::sized<quire_layer>());
  layers[0].kind = QUIRE_LAYER_FULL;
  layers[0].num_kv_heads = layers[0].num_q_heads = 1;
  layers[0].head_dim_k = layers[0].head_dim_v = 16;
  layers[0].dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  for (uint32_t i = 1; i <= state_layers; ++i) {
    layers[i].kind = QUIRE_LAYER_STATE;
    layers[i].layer = i;
    layers[i].state_kind = QUIRE_STATE_GENERIC;
    layers[i].num_state_tensors = 1;
    layers[i].state[0] = {{QUIRE_DTYPE_FLOAT, 32, 1}, 3, {8, 32, 32, 0}};
  }
  quire_model* model = nullptr;
  client::Error error;
  client::check(quire_model_create(layers.data(), sizeof layers[0], layers.size(), trace.longest + kUnit, &model, &error), error);
  const client::Model owned(model);
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str("vllm");
  options.num_pages = pages;
  options.block_tokens = kUnit;
  return client::plan(model, options);
}

struct Want {
  uint64_t interval = kInterval;
  uint32_t keep = QUIRE_KEEP_EVERY | QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION;
  uint32_t flags = 0;
  uint64_t budget = 0;  // states
  uint64_t pages = 0;   // 0: for everything
  uint32_t state_layers = 1;
};

struct Got {
  uint64_t hits = 0;
  uint64_t state_bytes = 0;  // of one
  quire_cache_stats stats{};
};

// Computes one request chunk by chunk, each as long as the cache lets it be, and finishes it; the hit.
uint64_t serve(quire_cache* cache, const std::vector<quire_symbol>& prompt, uint64_t per_step) {
  client::Error error;
  quire_sequence_id sequence = 0;
  client::check(quire_sequence_create(cache, nullptr, &sequence, &error), error);
  auto probed = client::sized<quire_probe_result>();
  client::check(quire_probe(cache, nullptr, prompt.data(), prompt.size(), &probed, &error), error);
  const uint64_t hit = probed.hit_tokens;
  for (uint64_t done = 0; done < prompt.size();) {
    quire_reserve_entry entry{};
    entry.sequence = sequence;
    entry.symbols_position = entry.symbols_offset = done;
    entry.num_symbols = static_cast<uint32_t>(prompt.size() - done);
    entry.num_tokens = entry.num_symbols;
    entry.flags = (prompt.size() - std::max(done, hit) <= per_step ? QUIRE_ENTRY_PROMPT_END : 0) | (done == 0 ? QUIRE_ENTRY_MATCH : 0);
    quire_reserve_result result{};
    quire_step step{};
    client::check(quire_reserve(cache, &entry, 1, prompt.data(), prompt.size(), &result, &step, &error), error);
    if (result.code != QUIRE_OK) throw client::Failure(result.code, "a request was refused");
    done = result.position + result.num_tokens;
    const quire_commit_entry accepted = {sequence, 0, 0, 0, result.num_tokens};
    client::check(quire_commit(step, &accepted, 1, nullptr, 0, &error), error);
  }
  client::check(quire_sequence_finish(cache, sequence, &error), error);
  return hit;
}

Got run(const Trace& trace, const Want& want) {
  const uint64_t snapshots = want.interval < kInterval ? trace.units : trace.units / 4 + trace.requests.size() * 2;
  const client::Config config =
      plan(trace, want.pages != 0 ? want.pages : trace.units + snapshots * want.state_layers + 1024, want.state_layers);
  auto options = client::sized<quire_cache_options>();
  options.max_sequences = 2;
  options.max_tokens_per_step = static_cast<uint32_t>(want.flags & QUIRE_CACHE_STATES_AT_BLOCKS ? trace.longest : kInterval);
  options.checkpoint_interval = want.interval;
  options.keep_states = want.keep;
  options.flags = want.flags;
  options.hash_seed = 1;
  Got got;
  client::Error error;
  for (uint32_t g = 0; g <= want.state_layers; ++g) {
    auto group = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config.get(), g, &group, &error), error);
    got.state_bytes += group.is_state != 0 ? group.page_bytes_per_block : 0;
  }
  options.checkpoint_bytes = want.budget * got.state_bytes;
  quire_cache* created = nullptr;
  client::check(quire_cache_create(nullptr, config.get(), &options, &created, &error), error);
  const client::Cache cache(created);
  std::vector<quire_symbol> prompt;
  for (const replay::Request& request : trace.requests) {
    replay::prompt_symbols(request, &prompt);
    got.hits += serve(cache.get(), prompt, options.max_tokens_per_step);
  }
  client::check(quire_cache_verify(cache.get(), &error), error);
  got.stats = client::sized<quire_cache_stats>();
  client::check(quire_cache_get_stats(cache.get(), &got.stats, &error), error);
  return got;
}

// Keeps at the same boundaries, but only what somebody asks for again, and gives up what is asked for last.
uint64_t oracle(const Trace& trace, uint64_t budget) {
  std::unordered_map<uint64_t, std::vector<uint64_t>> asks;  // by id: requests that could resume behind it
  for (uint64_t r = 0; r < trace.requests.size(); ++r) {
    for (uint64_t u = 0; (u + 1) * kUnit < trace.requests[r].input_length; ++u) asks[trace.requests[r].hash_ids[u]].push_back(r);
  }
  const auto next = [&](uint64_t id, uint64_t now) {
    const std::vector<uint64_t>& of = asks[id];
    const auto at = std::upper_bound(of.begin(), of.end(), now);
    return at == of.end() ? UINT64_MAX : *at;
  };
  std::unordered_map<uint64_t, uint64_t> kept;  // id: the next that asks
  std::set<std::pair<uint64_t, uint64_t>> order;
  std::unordered_set<uint64_t> known;
  uint64_t hits = 0;
  for (uint64_t r = 0; r < trace.requests.size(); ++r) {
    const replay::Request& request = trace.requests[r];
    const uint64_t units = request.input_length / kUnit, full = known_units(known, request);
    uint64_t hit = full;
    while (hit > 0 && !kept.contains(request.hash_ids[hit - 1])) --hit;
    hits += hit * kUnit;
    std::set<uint64_t> ends = {units};
    for (uint64_t end = (hit * kUnit / kInterval + 1) * kInterval / kUnit; end <= units; end += kInterval / kUnit) ends.insert(end);
    if (full > hit) ends.insert(full);
    for (uint64_t u = 1; u <= units; ++u) {
      const uint64_t id = request.hash_ids[u - 1], when = next(id, r);
      const auto old = kept.find(id);
      if (old != kept.end()) {
        order.erase({old->second, id});
        kept.erase(old);
      } else if (u <= hit || !ends.contains(u)) {
        continue;
      }
      if (when == UINT64_MAX || (kept.size() >= budget && order.rbegin()->first <= when)) continue;
      if (kept.size() >= budget) {
        kept.erase(order.rbegin()->second);
        order.erase(std::prev(order.end()));
      }
      kept[id] = when;
      order.insert({when, id});
    }
    known.insert(request.hash_ids.begin(), request.hash_ids.begin() + static_cast<long>(units));
  }
  return hits;
}

class CheckpointTrace : public testing::Test {
 protected:
  void SetUp() override { trace_ = read(std::getenv("QUIRE_TRACE")); }
  double share(uint64_t hits) const { return static_cast<double>(hits) / static_cast<double>(trace_.ideal); }
  Trace trace_;
};

TEST_F(CheckpointTrace, FewSnapshotsReachAlmostAllOfWhatAttentionWouldHit) {
  Want all;
  all.interval = kUnit;
  all.keep = QUIRE_KEEP_EVERY;
  all.flags = QUIRE_CACHE_STATES_AT_BLOCKS;
  const Got every = run(trace_, all), few = run(trace_, {});
  const uint64_t all_kept = every.stats.checkpoint_bytes / every.state_bytes, few_kept = few.stats.checkpoint_bytes / few.state_bytes;
  std::printf("every 512 tokens: %.4f of ideal, %llu snapshots\nprompt end, every %llu, junction: %.4f of ideal, %llu snapshots (1/%.1f)\n",
              share(every.hits), static_cast<unsigned long long>(all_kept), static_cast<unsigned long long>(kInterval), share(few.hits),
              static_cast<unsigned long long>(few_kept), static_cast<double>(all_kept) / static_cast<double>(few_kept));
  EXPECT_EQ(every.hits, trace_.ideal);
  EXPECT_EQ(few.stats.checkpoints_given_up + few.stats.evicted_blocks, 0u);
  EXPECT_GE(share(few.hits), kRequests == 0 ? 0.975 : 0.9);
  EXPECT_LE(few_kept * 5, all_kept);
}

TEST_F(CheckpointTrace, UnderABudgetCostHitsMoreThanAge) {
  const Got room = run(trace_, {});
  const uint64_t need = room.stats.checkpoint_bytes / room.state_bytes;
  std::printf("need: %llu states\nbudget   by cost  by age   oracle\n", static_cast<unsigned long long>(need));
  for (const uint64_t part : {2, 4, 8, 16, 32}) {
    Want want;
    want.budget = need / part;
    const Got cost = run(trace_, want);
    want.flags = QUIRE_CACHE_STRICT_LRU;
    const Got age = run(trace_, want);
    const uint64_t most = oracle(trace_, want.budget);
    std::printf("1/%-2llu     %.4f   %.4f   %.4f\n", static_cast<unsigned long long>(part), share(cost.hits), share(age.hits), share(most));
    EXPECT_LE(cost.stats.checkpoint_bytes, want.budget * cost.state_bytes);
    EXPECT_GT(cost.stats.checkpoints_given_up, 0u);
    EXPECT_EQ(cost.stats.evicted_blocks, cost.stats.checkpoints_given_up) << "the pool has room for all of attention";
    if (kRequests == 0) {
      EXPECT_GE(share(cost.hits), share(age.hits));
      EXPECT_LE(cost.hits, most);
    }
  }
}

TEST_F(CheckpointTrace, InAPoolThatIsTooSmallNothingIsLostAgainstAge) {
  const Got room = run(trace_, {});
  const uint64_t states = room.stats.checkpoint_bytes / room.state_bytes;
  for (const uint32_t layers : {1u, 12u}) {
    std::printf("a state is as large as %llu tokens: %llu pages would hold all\npool     by cost  by age\n",
                static_cast<unsigned long long>(layers * kUnit), static_cast<unsigned long long>(trace_.units + states * layers));
    for (const uint64_t part : {2, 4, 8, 16}) {
      Want want;
      want.state_layers = layers;
      want.pages = (trace_.units + states * layers) / part + trace_.longest / kUnit + 2 * layers;
      const Got cost = run(trace_, want);
      want.flags = QUIRE_CACHE_STRICT_LRU;
      const Got age = run(trace_, want);
      std::printf("1/%-2llu     %.4f   %.4f\n", static_cast<unsigned long long>(part), share(cost.hits), share(age.hits));
      if (kRequests == 0) {
        EXPECT_GE(share(cost.hits), share(age.hits) - 0.001);
      }
    }
  }
}

}  // namespace
}  // namespace quire
