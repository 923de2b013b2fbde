// What replaying a trace works on: why comparisons end, requests, and the cache of a trace.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/events/block_hash.h"
#include "core/step/kv_cache.h"
#include "tests/golden/golden.h"

namespace quire::golden {

// Why a comparison ends. The first are numbered differences.
enum class End {
  kMedia = 5,       // positions of a picture are the picture
  kForgotten = 14,  // what was computed behind an evicted block goes with it
  kNotOffered = 100,
};

struct Stop {
  End end;
  std::string reason;
};

struct Difference {
  std::string what;
};

inline void require(bool equal, const std::string& what) {
  if (!equal) throw Difference{what};
}

inline std::string tell(const std::string& name, int64_t expected, int64_t is) {
  return name + ": expected " + std::to_string(expected) + ", is " + std::to_string(is);
}

struct Request {
  std::vector<int64_t> tokens;
  uint64_t prompt = 0;
  std::string salt, adapter;
  uint64_t adapter_number = 0;
  std::vector<std::string> identifiers;
  std::vector<MediaItem> media;
  std::vector<quire_symbol> pictured;  // symbols of positions that pictures cover; 0 elsewhere
  std::vector<Digest> hashes;
  bool skip = false;
  std::optional<SequenceId> sequence;
};

// One side of a replay: the cache that is built for a trace, its requests with their hashes, and what it tells.
class ReplayedCache {
 public:
  explicit ReplayedCache(const json& head) : head_(head), config_(head.at("config")) {
    auto hasher = BlockHasher::create(config_.at("hash") == "sha256_cbor" ? QUIRE_HASH_SHA256_CBOR : QUIRE_HASH_XXHASH_CBOR,
                                      config_.at("seed").get<std::string>());
    if (hasher.ok()) hasher_ = std::make_unique<BlockHasher>(std::move(*hasher));
    unit_ = config_.at("hash_block_size");
    stop_ = unsupported();
    if (!stop_) build();
  }

 protected:
  std::optional<Stop> unsupported() {
    static const std::map<std::string, std::string> kinds{{"full", "full_attention"},
                                                          {"mla", "mla_attention"},
                                                          {"hidden_state", "mla_attention"},
                                                          {"sliding_window", "sliding_window"},
                                                          {"sliding_window_mla", "sliding_window_mla"},
                                                          {"chunked", "chunked_local_attention"},
                                                          {"mamba", "mamba"},
                                                          {"cross", "cross_attention"}};
    const json& res = head_.at("res");
    if (res.contains("error")) return Stop{End::kNotOffered, "a refused configuration"};
    if (config_.at("groups").empty()) return Stop{End::kNotOffered, "no groups"};
    bool finer_states = false;
    for (const json& group : config_.at("groups")) {
      const json& spec = group.at("spec");
      const auto kind = kinds.find(spec.at("kind"));
      if (kind == kinds.end()) return Stop{End::kNotOffered, "groups of kind " + spec.at("kind").get<std::string>()};
      kinds_.push_back(kind->second);
      if (spec.at("kind") == "mamba") {
        if (states_ && branches_ != spec.value("spec_blocks", 0u)) return Stop{End::kNotOffered, "groups with different branches"};
        states_ = true;
        branches_ = spec.value("spec_blocks", 0u);
        at_blocks_ = spec.at("mode") == "all";
        finer_states = finer_states || (spec.at("mode") == "align" && spec.at("block_size") > unit_);
      }
    }
    partial_ = res.value("partial_hits", finer_states);
    return std::nullopt;
  }

  GroupPlan plan_of(size_t g) const {
    const json& spec = config_.at("groups")[g].at("spec");
    GroupPlan plan;
    plan.live.window = spec.at("kind").get<std::string>().rfind("sliding", 0) == 0 ? spec.at("window").get<uint64_t>() : 0;
    plan.live.retained = plan.live.window == 0 ? 0 : spec.value("extra_retained", uint64_t{0});
    plan.live.chunk = spec.at("kind") == "chunked" ? spec.at("chunk").get<uint64_t>() : 0;
    // Groups with one spec are drafted together.
    for (const json& drafted : head_.at("res").at("eagle_groups")) {
      if (config_.at("groups")[drafted.get<size_t>()].at("spec") == spec)
        plan.look_ahead = std::max(1U, config_.value("prefill_lookahead", 1U));
    }
    plan.live.state = spec.at("kind") == "mamba";
    plan.live.fixed = spec.at("kind") == "cross";
    // More than any pool has: upstream knows no limit.
    plan.encoder_tokens = plan.live.fixed ? (config_.at("num_blocks").get<uint64_t>() + 128) * spec.at("block_size").get<uint64_t>() : 0;
    plan.block_tokens =
        static_cast<uint32_t>(spec.at("block_size").get<uint64_t>() * (plan.live.state ? uint64_t{1} : config_.value("dcp", uint64_t{1})));
    plan.kernel_block_tokens = plan.block_tokens;
    return plan;
  }

  void build() {
    auto config = std::make_shared<Config>();
    const json& alignment = head_.at("res").at("alignment");
    uint64_t lcm = 1;
    for (size_t g = 0; g < kinds_.size(); ++g) {
      const GroupPlan plan = plan_of(g);
      lcm = std::lcm(lcm, uint64_t{plan.block_tokens});
      config->groups.push_back(plan);
    }
    if (unit_ > lcm || lcm % unit_ != 0) unit_ = lcm;
    config->match_unit_tokens = static_cast<uint32_t>(unit_);
    config->hit_alignment_tokens = static_cast<uint32_t>(std::max(lcm, alignment.is_null() ? lcm : alignment.get<uint64_t>()));
    if (partial_) config->hit_alignment_tokens = config->match_unit_tokens;
    config->num_pages = config_.at("num_blocks");
    config->max_model_len = config_.at("max_model_len");
    config->max_tokens_in_flight = config->max_model_len;
    config->prefix_reuse = config_.at("caching");
    ShardPlan shard;
    for (const GroupPlan& g : config->groups) {
      quire_lowering l{};
      l.parts_per_page = l.kernel_blocks_per_part = 1;
      l.page_factor = 1;
      l.num_lowered_ids = config->num_pages * g.parts_per_page;
      shard.lowering.push_back(l);
    }
    config->shards.push_back(shard);
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 64;
    options.step_depth = 1;
    options.max_tokens_per_step = static_cast<uint32_t>(config->max_model_len);
    options.hash_seed = 11;
    options.keep_states = QUIRE_KEEP_EVERY | QUIRE_KEEP_ASKED;
    const json retention = config_.value("retention", json());
    if (retention == 0) options.keep_states = QUIRE_KEEP_ASKED;
    if (!retention.is_null()) options.checkpoint_interval = retention.get<uint64_t>();
    options.max_media = 1 << 16;
    options.num_state_branches = branches_;
    options.flags =
        QUIRE_CACHE_STRICT_LRU | (states_ ? QUIRE_CACHE_STATES_IN_PLACE : 0U) | (at_blocks_ ? QUIRE_CACHE_STATES_AT_BLOCKS : 0U);
    hash_block_ = config_.at("hash_block_size");
    options.watermark_pages = head_.at("res").at("watermark_blocks");
    step_tokens_ = options.max_tokens_per_step;
    auto cache = Cache::create(config, options);
    if (!cache.ok()) {
      stop_ = Stop{End::kNotOffered, "cache: " + cache.status().message()};
      return;
    }
    plan_ = config;
    cache_ = std::move(*cache);
    if (!config_.at("events").get<bool>() || hasher_ == nullptr) return;
    quire_event_options how{};
    how.struct_size = sizeof how;
    how.algorithm = config_.at("hash") == "sha256_cbor" ? QUIRE_HASH_SHA256_CBOR : QUIRE_HASH_XXHASH_CBOR;
    const std::string seed = config_.at("seed");
    how.seed = {seed.data(), seed.size()};
    const Status enabled = cache_->enable_events(how, kinds_);
    if (!enabled.ok()) stop_ = Stop{End::kNotOffered, "events: " + enabled.message()};
  }

  // Requests and their hashes; independent of any cache.
  void request_op(const std::string& name, const json& op) {
    Request& r = requests_[op.at("r")];
    if (name == "add") {
      r = Request{};
      r.salt = op.value("salt", std::string());
      if (op.contains("lora")) r.adapter = op.at("lora")[0], r.adapter_number = op.at("lora")[1];
      r.skip = op.value("skip", false);
      const json media = op.value("mm", json::array());
      r.identifiers.reserve(media.size());
      for (const json& item : media) {
        r.identifiers.push_back(item.at("id"));
        r.media.push_back({r.identifiers.back(), item.at("offset"), item.at("length")});
      }
    }
    const auto more = name == "add" ? tokens_of(op.at("tok")) : tokens_of(json::array({op.at("tok")}));
    r.tokens.insert(r.tokens.end(), more.begin(), more.end());
    if (name == "add") r.prompt = r.tokens.size();
    if (name == "add" && !r.media.empty() && !stop_) picture(&r);
    if (!op.contains("res")) return;  // a flow: only its events are told
    const json& res = op.at("res");
    require(res.at("tokens") == r.tokens.size(), tell("tokens", res.at("tokens"), static_cast<int64_t>(r.tokens.size())));
    if (!config_.at("caching").get<bool>() || hasher_ == nullptr) return;
    const uint64_t block = config_.at("hash_block_size");
    const KeySource source{r.adapter, r.salt, r.media, {}, 0, 0};
    BlockKeys keys(source, 0);
    Digest parent = hasher_->none();
    r.hashes.clear();
    for (uint64_t end = block; end <= r.tokens.size(); end += block) {
      const auto extra = keys.of_block(static_cast<int64_t>(end - block), static_cast<int64_t>(end));
      parent = hasher_->hash(parent.view(), std::span(r.tokens).subspan(end - block, block), extra);
      r.hashes.push_back(parent);
    }
    require(res.at("hashes") == r.hashes.size(), tell("hashes", res.at("hashes"), static_cast<int64_t>(r.hashes.size())));
    if (res.contains("last_hash") && !res.at("last_hash").is_null() && !r.hashes.empty()) {
      const std::string is = hex_of(r.hashes.back().view().last(8));
      require(res.at("last_hash") == is, "last_hash: expected " + res.at("last_hash").get<std::string>() + ", is " + is);
    }
    compared_ = true;
  }

  std::vector<quire_symbol> symbols_of(const Request& r) const {
    std::vector<quire_symbol> symbols(r.tokens.begin(), r.tokens.end());
    for (size_t i = 0; i < r.pictured.size(); ++i) symbols[i] = r.pictured[i] != 0 ? r.pictured[i] : symbols[i];
    return symbols;
  }

  // Upstream tells blocks apart by their tokens and by the item and its offset; so do symbols of one position each.
  void picture(Request* r) {
    pictures_ = true;
    r->pictured.assign(r->tokens.size(), 0);
    for (const MediaItem& item : r->media) {
      for (int64_t i = 0; i < item.length && item.position + i < static_cast<int64_t>(r->tokens.size()); ++i) {
        const std::string name =
            std::string(item.identifier) + "/" + std::to_string(i) + "/" + std::to_string(r->tokens[item.position + i]);
        auto [known, fresh] = picture_symbols_.try_emplace(name, 0);
        if (fresh) {
          uint8_t digest[32] = {};
          const uint64_t number = picture_symbols_.size();
          std::memcpy(digest, &number, sizeof number);
          const Status added = cache_->add_media(digest, 1, &known->second);
          require(added.ok(), added.message());
        }
        r->pictured[static_cast<size_t>(item.position + i)] = known->second;
      }
    }
  }

  quire_identity identity_of(const Request& r) const {
    quire_identity identity{};
    identity.struct_size = sizeof identity;
    identity.salt = {r.salt.data(), r.salt.size()};
    identity.adapter = {r.adapter.data(), r.adapter.size()};
    identity.adapter_number = r.adapter_number;
    return identity;
  }

  uint64_t probe(const Request& r) const {
    const auto symbols = symbols_of(r);
    const quire_identity identity = identity_of(r);
    quire_probe_result result{};
    result.struct_size = sizeof result;
    const Status ok = cache_->probe(&identity, symbols, &result);
    require(ok.ok(), ok.message());
    return result.hit_tokens;
  }

  quire_cache_stats stats_now() const {
    quire_cache_stats stats{};
    stats.struct_size = sizeof stats;
    cache_->stats(&stats);
    return stats;
  }

  // What was told since the last time.
  struct Told {
    std::vector<quire_event> events;
    std::vector<uint8_t> data;
  };
  Told told() {
    Told t;
    t.events.resize(4096);
    t.data.resize(1 << 20);
    quire_event_batch batch{};
    const Status ok = cache_->read_events(next_event_, t.events, t.data, &batch);
    require(ok.ok(), ok.message());
    t.events.resize(batch.num_events);
    next_event_ = batch.next;
    return t;
  }

  json json_of(const quire_event& e, const uint8_t* data) const {
    if (e.type == QUIRE_EVENT_CLEARED) return {{"t", "cleared"}};
    const bool whole = !config_.value("int_hashes", true);
    auto name = [&](uint64_t offset) { return hex_of({data + offset + (whole ? 0 : e.hash_bytes - 8), whole ? e.hash_bytes : size_t{8}}); };
    json hashes = json::array();
    for (uint32_t i = 0; i < e.num_hashes; ++i) hashes.push_back(name(e.hashes_offset + uint64_t{i} * e.hash_bytes));
    if (e.type == QUIRE_EVENT_REMOVED) return {{"t", "removed"}, {"h", hashes}, {"g", e.group}};
    uint64_t digest = 0xcbf29ce484222325U;
    std::vector<int64_t> tokens(e.num_tokens);
    std::copy_n(data + e.tokens_offset, e.num_tokens * 8, reinterpret_cast<uint8_t*>(tokens.data()));
    for (int64_t token : tokens) {
      for (int shift = 0; shift < 32; shift += 8) digest = (digest ^ (static_cast<uint64_t>(token) >> shift & 0xff)) * 0x100000001b3U;
    }
    std::string digits;
    for (int shift = 56; shift >= 0; shift -= 8) {
      const auto byte = static_cast<uint8_t>(digest >> shift);
      digits += hex_of({&byte, 1});
    }
    json out{{"t", "stored"}, {"h", hashes}, {"p", nullptr}, {"n", e.num_tokens}, {"f", digits}, {"bs", e.block_tokens}, {"g", e.group}};
    if (e.parent_bytes != 0) out["p"] = name(e.parent_offset);
    const auto text = [&](uint64_t offset, uint64_t bytes) { return std::string(reinterpret_cast<const char*>(data) + offset, bytes); };
    out["k"] = text(e.kind_offset, e.kind_bytes);
    if (e.window != 0) out["w"] = e.window;
    if (e.adapter_bytes != 0) out["lora"] = {text(e.adapter_offset, e.adapter_bytes), e.adapter_number};
    return out;
  }

  static uint64_t round_up(uint64_t a, uint64_t b) { return (a + b - 1) / b * b; }

  json head_, config_;
  std::unique_ptr<BlockHasher> hasher_;
  uint64_t unit_ = 1;
  std::vector<std::string> kinds_;
  std::optional<Stop> stop_;
  bool compared_ = false;
  uint64_t next_event_ = 0;
  uint64_t step_tokens_ = 0;
  uint64_t hash_block_ = 1;
  uint32_t branches_ = 0;
  bool states_ = false, at_blocks_ = false;
  bool partial_ = false;  // hits end at multiples of the unit, inside blocks
  std::shared_ptr<const Config> plan_;
  std::unique_ptr<Cache> cache_;
  std::map<std::string, Request> requests_;
  bool pictures_ = false;  // from here on events are told with other hashes
  std::map<std::string, quire_symbol> picture_symbols_;
};

}  // namespace quire::golden
