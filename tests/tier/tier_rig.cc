#include "tests/tier/tier_rig.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace quire::test {

void must(quire_code code, const quire_error& err, const char* what) { ASSERT_EQ(code, QUIRE_OK) << what << ": " << err.message; }

namespace {

quire_str text_of(const std::string& text) { return {text.data(), text.size()}; }

int64_t real_time() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

Text count_text(quire_symbol first, size_t n) {
  Text text(n);
  for (size_t i = 0; i < n; ++i) text[i] = first + static_cast<quire_symbol>(i);
  return text;
}

Clock::Clock(bool is_real) {
  quire_error err = QUIRE_INIT(quire_error);
  static const bool kRegistered = quire_register_connector(fake_store_query, nullptr) == QUIRE_OK;
  EXPECT_TRUE(kRegistered);
  quire_runtime_options own = QUIRE_INIT(quire_runtime_options);
  own.header_abi = QUIRE_ABI_VERSION;
  own.flags = QUIRE_RUNTIME_NO_ENV;
  own.num_threads = 1;
  own.connector_path = {QUIRE_MODULES, std::strlen(QUIRE_MODULES)};
  choose_driver(&own);
  own.clock = [](void* time) { return static_cast<const std::atomic<int64_t>*>(time)->load(); };
  if (is_real) own.clock = [](void* more) { return static_cast<const std::atomic<int64_t>*>(more)->load() + real_time(); };
  own.clock_user = &now;
  must(quire_runtime_create(&own, &runtime, &err), err, "runtime");
}

Clock::~Clock() { quire_runtime_release(runtime); }

Engine::Engine(Clock& clock, EngineOptions options, std::vector<FakeStore*> stores)
    : clock_(clock), options_(std::move(options)), stores_(std::move(stores)) {
  quire_error err = QUIRE_INIT(quire_error);
  for (uint32_t i = 0; i < options_.layers.size(); ++i) options_.layers[i].layer = i;
  quire_model* model = nullptr;
  must(quire_model_create(options_.layers.data(), sizeof(quire_layer), options_.layers.size(), options_.max_len, &model, &err), err,
       "model");
  quire_plan_options plan = QUIRE_INIT(quire_plan_options);
  plan.num_pages = options_.pages;
  plan.tensor_parallel = options_.ranks;
  plan.block_tokens = options_.block;
  plan.layout = text_of(options_.layout);
  plan.max_tokens_in_flight = 512;
  plan.policy = text_of(options_.policy);
  plan.flags = options_.plan_flags;
  plan.vllm.retained_tokens = options_.retained;
  quire_config* config = nullptr;
  const quire_code code = quire_config_create(model, &plan, &config, &err);
  config_.reset(config);
  quire_model_release(model);
  if (code == QUIRE_RESOURCE_EXHAUSTED && options_.may_refuse) return;  // there is no config then
  must(code, err, "config");
  quire_device* device = nullptr;
  must(quire_device_open(clock_.runtime, 0, &device, &err), err, "device");
  device_.reset(device);
  quire_cache_options own = QUIRE_INIT(quire_cache_options);
  own.max_tokens_per_step = 256;
  own.max_sequences = 16;
  own.flags = options_.flags;
  own.keep_states = options_.keep;
  own.checkpoint_interval = options_.checkpoint_interval;
  own.max_load_tokens = options_.max_load_tokens != 0 ? options_.max_load_tokens : options_.max_len;
  own.hash_seed = 5;
  quire_cache* cache = nullptr;
  must(quire_cache_create(clock_.runtime, config, &own, &cache, &err), err, "cache");
  cache_.reset(cache);
  if (options_.event_ring_bytes != 0 && options_.has_cache_events) {
    quire_event_options events = QUIRE_INIT(quire_event_options);
    events.algorithm = QUIRE_HASH_SHA256_CBOR;
    events.seed = {"7", 1};
    must(quire_cache_enable_events(cache, &events, &err), err, "events");
  }
  quire_config_info info = QUIRE_INIT(quire_config_info);
  must(quire_config_get_info(config, &info, &err), err, "info");
  for (uint32_t s = 0; s < info.num_shards; ++s) {
    quire_memory* memory = nullptr;
    must(quire_memory_create(device_of(s), config, s, &memory, &err), err, "memory");
    memories_.emplace_back(memory);
    quire_stream* stream = nullptr;
    must(quire_stream_create(device_of(s), 0, &stream, &err), err, "stream");
    streams_.emplace_back(stream);
    must(quire_memory_poison(memory, stream, 0xa5, &err), err, "poison");
  }
  for (uint32_t g = 0; g < info.num_groups; ++g) {
    groups_.push_back(QUIRE_INIT(quire_group_info));
    must(quire_config_get_group(config, g, &groups_.back(), &err), err, "group");
  }
  make_places();
  make_tiers();
}

Engine::~Engine() {
  drop_tiers();
  verify();
}

void Engine::make_places() {
  quire_error err = QUIRE_INIT(quire_error);
  for (uint32_t s = 0; s < memories_.size(); ++s) {
    quire_device_info device = QUIRE_INIT(quire_device_info);
    must(quire_device_get_info(device_of(s), &device, &err), err, "device info");
    for (const quire_layer& layer : options_.layers) {
      quire_layer_place at = QUIRE_INIT(quire_layer_place);
      must(quire_config_get_place(config_.get(), layer.layer, 0, &at, &err), err, "place");
      Place place;
      place.shard = s;
      place.layer = layer.layer;
      place.group = at.group;
      place.column = at.column;
      uint32_t region = 0;
      if (layer.kind == QUIRE_LAYER_STATE) {
        for (uint32_t t = 0; t < layer.num_state_tensors; ++t) {
          place.states.push_back(QUIRE_INIT(quire_state_view));
          must(quire_config_get_state_view(config_.get(), s, layer.layer, 0, t, &place.states.back(), &err), err, "state view");
        }
        region = place.states[0].region;
      } else {
        place.kv = QUIRE_INIT(quire_kv_view);
        must(quire_config_get_kv_view(config_.get(), s, layer.layer, 0, &place.kv, &err), err, "view");
        region = place.kv.region;
      }
      void* address = nullptr;
      uint64_t bytes = 0;
      must(quire_memory_get_region(memories_[s].get(), region, &address, &bytes, &err), err, "region");
      place.base = static_cast<std::byte*>(address);
      if (device.device_type != QUIRE_DEVICE_CPU) {
        std::vector<std::byte>& shadow = shadows_[{s, address}];
        shadow.resize(bytes);
        place.base = shadow.data();
      }
      places_.push_back(std::move(place));
    }
  }
}

void Engine::make_tiers() {
  std::vector<std::string> settings;
  for (const FakeStore* store : stores_) settings.push_back(store->config());
  if (!options_.settings.empty()) settings.push_back(options_.settings);
  if (settings.empty()) return;
  quire_error err = QUIRE_INIT(quire_error);
  std::vector<quire_tier> tiers;
  for (const std::string& each : settings) {
    quire_connector* connector = nullptr;
    must(quire_connector_open(clock_.runtime, text_of(options_.connector), text_of(each), &connector, &err), err, "connector");
    connectors_.emplace_back(connector);
    quire_tier tier{};
    tier.connector = connector;
    tier.reasons = tiers.size() < options_.reasons_of.size() ? options_.reasons_of[tiers.size()] : options_.reasons;
    tier.max_store_bytes = options_.max_store_bytes;
    if (options_.is_peers && tiers.size() >= options_.first_peer) tier.flags = QUIRE_TIER_PEERS, tier.reasons = 0;
    tiers.push_back(tier);
  }
  std::vector<quire_memory*> memories;
  std::vector<quire_stream*> streams;
  for (const auto& memory : memories_) memories.push_back(memory.get());
  for (const auto& stream : streams_) streams.push_back(stream.get());
  quire_tiers_options own = QUIRE_INIT(quire_tiers_options);
  own.weights = text_of(options_.weights);
  own.memories = memories.data();
  own.streams = streams.data();
  own.tiers = tiers.data();
  own.num_tiers = tiers.size();
  own.unit_tokens = options_.unit;
  own.ns_per_token = options_.ns_per_token;
  own.tensor_parallel = options_.others.data();
  own.num_tensor_parallel = options_.others.size();
  own.event_ring_bytes = options_.event_ring_bytes;
  quire_tiers* made = nullptr;
  const quire_code code = quire_tiers_create(cache_.get(), &own, &made, &tiers_error_);
  if (!options_.tiers_may_fail) must(code, tiers_error_, "tiers");
  tiers_.reset(made);
}

quire_sequence_id Engine::open(const quire_identity* identity) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_sequence_id sequence = 0;
  must(quire_sequence_create(cache_.get(), identity, &sequence, &err), err, "sequence");
  for (const quire_layer& layer : options_.layers) {
    if (layer.kind == QUIRE_LAYER_CROSS) set_encoder(sequence, 77, layer.encoder_tokens / 2 + 1);
  }
  return sequence;
}

void Engine::finish(quire_sequence_id sequence) {
  quire_error err = QUIRE_INIT(quire_error);
  must(quire_sequence_finish(cache_.get(), sequence, &err), err, "finish");
}

quire_step Engine::reserve(quire_sequence_id sequence, const Text& text, bool match, uint32_t tokens, quire_reserve_result* result) {
  quire_error err = QUIRE_INIT(quire_error);
  const quire_sequence_info now = info(sequence);
  quire_reserve_entry e{};
  e.sequence = sequence;
  e.symbols_position = now.known;
  e.symbols_offset = now.known;
  e.num_symbols = static_cast<uint32_t>((match ? text.size() : std::min<uint64_t>(text.size(), now.reserved + tokens)) -
                                        std::min<uint64_t>(now.known, text.size()));
  e.num_tokens = tokens;
  e.flags = match ? QUIRE_ENTRY_MATCH : 0;
  e.encoder_tokens = now.reserved == 0 ? encoder_of(sequence).tokens : 0;
  quire_step step{};
  must(quire_reserve(cache_.get(), &e, 1, text.data(), text.size(), result, &step, &err), err, "reserve");
  EXPECT_TRUE(result->code == QUIRE_OK || (options_.may_refuse && result->code == QUIRE_RESOURCE_EXHAUSTED)) << result->code;
  if (result->code != QUIRE_OK) return step;
  for (size_t s = 0; s < memories_.size(); ++s) {
    must(quire_memory_prepare_step(memories_[s].get(), step, streams_[s].get(), &err), err, "prepare");
    must(quire_stream_synchronize(streams_[s].get(), -1, &err), err, "synchronize");
  }
  upload(step, sequence);
  return step;
}

void Engine::go_on(quire_sequence_id sequence, const Text& text) {
  quire_error err = QUIRE_INIT(quire_error);
  for (quire_sequence_info now = info(sequence); now.committed < text.size(); now = info(sequence)) {
    quire_reserve_result result{};
    const quire_step step =
        reserve(sequence, text, now.reserved == 0, static_cast<uint32_t>(std::min<uint64_t>(256, text.size() - now.committed)), &result);
    if (result.code != QUIRE_OK) return;
    read(step, sequence, text, result.position);
    write(step, sequence, text, result.position, result.position + result.num_tokens);
    quire_commit_entry c{};
    c.sequence = sequence;
    c.num_accepted = result.num_tokens;
    must(quire_commit(step, &c, 1, nullptr, 0, &err), err, "commit");
    if (::testing::Test::HasFatalFailure()) return;
  }
}

uint64_t Engine::compute(const Text& text, bool ends) {
  const quire_sequence_id sequence = open();
  go_on(sequence, text);
  const uint64_t hit = info(sequence).hit_tokens;
  if (ends) finish(sequence);
  return hit;
}

void Engine::check(quire_sequence_id sequence, const Text& text) {
  quire_error err = QUIRE_INIT(quire_error);
  ASSERT_LT(info(sequence).reserved, text.size());
  quire_reserve_result result{};
  const quire_step step = reserve(sequence, text, info(sequence).reserved == 0, 1, &result);
  if (result.code != QUIRE_OK) return;
  read(step, sequence, text, result.position);
  must(quire_abort(step, QUIRE_ABORT_NOT_LAUNCHED, &err), err, "abort");
}

std::vector<quire_fetch_result> Engine::run() {
  quire_error err = QUIRE_INIT(quire_error);
  std::vector<quire_fetch_result> results(16);
  uint64_t n = 0;
  const int64_t timeout = options_.settings.empty() ? 0 : 1'000'000;  // until something has ended
  must(quire_tiers_run(tiers_.get(), timeout, results.data(), results.size(), &n, &err), err, "run");
  results.resize(n);
  return results;
}

void Engine::pass_time(int64_t otherwise) {
  if (!options_.settings.empty()) return;
  int64_t next = INT64_MAX;
  for (const FakeStore* store : stores_) next = std::min(next, store->next_end_ns());
  clock_.now = next != INT64_MAX && next > clock_.now ? next : clock_.now + otherwise;
}

quire_fetch_result Engine::wait() {
  for (int turns = 0; turns < 10000; ++turns) {
    const std::vector<quire_fetch_result> results = run();
    if (!results.empty()) return results[0];
    clock_.now += 100'000;
  }
  ADD_FAILURE() << "no fetch ends";
  return {};
}

void Engine::settle() {
  for (int idle = 0; idle < 3;) {
    const uint64_t taken = stats().units_taken, holds = cache_stats().holds;
    EXPECT_TRUE(run().empty());
    uint64_t in_flight = 0;
    for (const auto& connector : connectors_) {
      quire_connector_stats own = QUIRE_INIT(quire_connector_stats);
      EXPECT_EQ(quire_connector_get_stats(connector.get(), &own, nullptr), QUIRE_OK);
      in_flight += own.num_in_flight;
    }
    pass_time(in_flight > 0 ? 50'000 : 0);  // the next end may be of another engine, who does not look
    const bool quiet = in_flight == 0 && stats().units_taken == taken && cache_stats().holds == holds;
    idle = quiet ? idle + 1 : 0;
  }
}

quire_fetch_id Engine::begin(quire_sequence_id sequence, const Text& text, int64_t deadline_ns) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_id fetch = 0;
  const quire_code code = quire_fetch_begin(tiers_.get(), sequence, text.data(), text.size(), deadline_ns, &fetch, &err);
  EXPECT_EQ(code, QUIRE_OK) << err.message;
  return fetch;
}

quire_fetch_result Engine::wait_for(quire_fetch_id fetch, quire_sequence_id sequence, const Text& text) {
  quire_fetch_result got{};
  for (int turns = 0; turns < 100000 && got.fetch == 0; ++turns) {
    const std::vector<quire_fetch_result> results = run();
    if (!results.empty()) got = results[0];
    pass_time(100'000);
  }
  EXPECT_EQ(got.fetch, fetch);
  EXPECT_EQ(got.sequence, sequence);
  EXPECT_EQ(got.committed, info(sequence).committed);
  if (got.committed > 0) check(sequence, text);
  return got;
}

void Engine::forget_all() {
  quire_error err = QUIRE_INIT(quire_error);
  must(quire_cache_reset(cache_.get(), &err), err, "reset");
}

void Engine::expect_nothing_left() const {
  EXPECT_EQ(stats().quarantined, 0U);
  EXPECT_EQ(stats().fetches_in_progress, 0U);
  EXPECT_EQ(stats().units_in_flight, 0U);
  EXPECT_EQ(tier().bytes_in_flight, 0U);
  EXPECT_EQ(cache_stats().holds, 0U);
  EXPECT_EQ(cache_stats().loads, 0U);
  verify();
}

quire_tier_stats Engine::tier(uint32_t index) const {
  quire_tier_stats s = QUIRE_INIT(quire_tier_stats);
  EXPECT_EQ(quire_tiers_get_tier_stats(tiers_.get(), index, &s, nullptr), QUIRE_OK);
  return s;
}

quire_tiers_stats Engine::stats() const {
  quire_tiers_stats s = QUIRE_INIT(quire_tiers_stats);
  EXPECT_EQ(quire_tiers_get_stats(tiers_.get(), &s, nullptr), QUIRE_OK);
  return s;
}

quire_cache_stats Engine::cache_stats() const {
  quire_cache_stats s = QUIRE_INIT(quire_cache_stats);
  EXPECT_EQ(quire_cache_get_stats(cache_.get(), &s, nullptr), QUIRE_OK);
  return s;
}

quire_sequence_info Engine::info(quire_sequence_id sequence) const {
  quire_sequence_info s = QUIRE_INIT(quire_sequence_info);
  EXPECT_EQ(quire_sequence_get_info(cache_.get(), sequence, &s, nullptr), QUIRE_OK);
  return s;
}

}  // namespace quire::test
