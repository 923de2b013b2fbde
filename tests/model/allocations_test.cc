// Every allocation fails once, and from there on: a script of calls through the exported functions is run again and again, and each time
// the next allocation fails. The call that meets it says RESOURCE_EXHAUSTED (or succeeds without it), has changed nothing, and succeeds
// when it is made again; in the end every byte was given back.
#include "tests/unit/allocations.h"
#include "tests/unit/c_api/api_rig.h"

namespace quire::test {
namespace {

constexpr uint64_t kPrompt = 64;

class Script {
 public:
  explicit Script(const char* policy) : policy_(policy) {
    for (uint32_t i = 0; i < 4; ++i) layers_[i] = i % 2 == 0 ? attention_layer(i) : state_layer(i);
    for (uint64_t i = 0; i < kPrompt; ++i) prompt_[i] = static_cast<quire_symbol>(i);
  }
  ~Script() {
    quire_cache_release(cache_);
    quire_config_release(config_);
    quire_model_release(model_);
  }

  // The calls, in order; each is one of the exported functions.
  static constexpr int kCalls = 17;
  quire_code call(int i, quire_error* err) {
    switch (i) {
      case 0:
        return quire_model_create(layers_, sizeof layers_[0], 4, 512, &model_, err);
      case 1:
        return plan(err);
      case 2:
        return create(err);
      case 3:
        return events(err);
      case 4:
        return quire_cache_add_media(cache_, digest_, 4, &media_, err);
      case 5:
        return quire_cache_name_media(cache_, media_, text("a picture whose name is longer than a short string"), 7, err);
      case 6:
        return open("a salt that is longer than any string that fits in itself", &first_, err);
      case 7:
        return open("another salt, of which there has to be a copy somewhere", &second_, err);
      case 8:
        return reserve(first_, err);
      case 9:
        return commit(first_, err);
      case 10:
        return quire_sequence_fork(cache_, first_, &third_, err);
      case 11:
        return reserve(second_, err);
      case 12:
        return quire_abort(step_, 0, err);
      case 13:
        return quire_sequence_finish(cache_, first_, err);
      case 14:
        return pin(err);
      case 15:
        return read(err);
      default:
        return quire_cache_reset(cache_, err);
    }
  }

  // What the outside sees of the cache.
  std::vector<uint64_t> look() {
    std::vector<uint64_t> out;
    if (cache_ == nullptr) return out;
    Error error;
    quire_cache_stats stats{};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(quire_cache_get_stats(cache_, &stats, &error), QUIRE_OK);
    const auto* words = reinterpret_cast<const uint64_t*>(&stats);
    out.assign(words, words + sizeof stats / 8);
    for (quire_sequence_id id : {first_, second_, third_}) {
      quire_sequence_info info{};
      info.struct_size = sizeof info;
      if (quire_sequence_get_info(cache_, id, &info, &error) != QUIRE_OK) continue;
      out.insert(out.end(), {info.committed, info.reserved, info.known, info.num_parts});
    }
    EXPECT_EQ(quire_cache_verify(cache_, &error), QUIRE_OK) << error.message;
    return out;
  }

 private:
  quire_code plan(quire_error* err) {
    quire_plan_options options{};
    options.struct_size = sizeof options;
    options.policy = text(policy_);
    options.num_pages = 64;
    return quire_config_create(model_, &options, &config_, err);
  }
  quire_code create(quire_error* err) {
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 4;
    options.max_tokens_per_step = 256;
    options.max_roots = 8;
    options.max_media = 4;
    options.hash_seed = 7;
    return quire_cache_create(nullptr, config_, &options, &cache_, err);
  }
  quire_code events(quire_error* err) {
    quire_event_options options{};
    options.struct_size = sizeof options;
    options.algorithm = QUIRE_HASH_SHA256_CBOR;
    options.seed = text("0");
    options.ring_bytes = 1 << 16;
    return quire_cache_enable_events(cache_, &options, err);
  }
  quire_code open(const char* salt, quire_sequence_id* out, quire_error* err) {
    quire_identity identity{};
    identity.struct_size = sizeof identity;
    identity.salt = text(salt);
    return quire_sequence_create(cache_, &identity, out, err);
  }
  quire_code reserve(quire_sequence_id id, quire_error* err) {
    quire_reserve_entry entry{};
    entry.sequence = id;
    entry.num_symbols = entry.num_tokens = kPrompt;
    entry.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END;
    quire_reserve_result result{};
    const quire_code code = quire_reserve(cache_, &entry, 1, prompt_, kPrompt, &result, &step_, err);
    if (code == QUIRE_OK) {
      EXPECT_EQ(result.code, QUIRE_OK);
      tokens_ = result.num_tokens;
    }
    return code;
  }
  quire_code commit(quire_sequence_id id, quire_error* err) {
    const quire_commit_entry entry = {id, 0, 0, 0, tokens_};
    return quire_commit(step_, &entry, 1, nullptr, 0, err);
  }
  quire_code pin(quire_error* err) {
    quire_identity identity{};
    identity.struct_size = sizeof identity;
    identity.salt = text("a salt that is longer than any string that fits in itself");
    quire_pin_id pinned = 0;
    uint64_t tokens = 0;
    const quire_code code = quire_pin(cache_, &identity, prompt_, kPrompt, nullptr, &tokens, &pinned, err);
    EXPECT_EQ(tokens > 0, code == QUIRE_OK);
    return code;
  }
  quire_code read(quire_error* err) {
    quire_event_batch batch{};
    batch.struct_size = sizeof batch;
    return quire_cache_snapshot_events(cache_, events_, 64, data_, sizeof data_, &batch, err);
  }

  const char* policy_;
  quire_layer layers_[4];
  quire_symbol prompt_[kPrompt];
  uint8_t digest_[32] = {9};
  quire_model* model_ = nullptr;
  quire_config* config_ = nullptr;
  quire_cache* cache_ = nullptr;
  quire_symbol media_ = 0;
  quire_sequence_id first_ = 0, second_ = 0, third_ = 0;
  quire_step step_{};
  uint32_t tokens_ = 0;
  quire_event events_[64];
  alignas(8) uint8_t data_[1 << 16];
};

// Runs the script with the n-th allocation failing; false: there are not so many.
bool run(const char* policy, int64_t n, bool ever) {
  const int64_t before = alive;
  int64_t left = n;
  bool met = false;
  {
    auto script = std::make_unique<Script>(policy);
    for (int i = 0; i < Script::kCalls; ++i) {
      const std::vector<uint64_t> seen = met ? std::vector<uint64_t>() : script->look();
      Error error;
      until = left;
      for_ever = ever;
      failed = 0;
      armed = !met;
      quire_code code = script->call(i, &error);
      armed = false;
      left = until;
      if (failed > 0) {
        met = true;
        EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << "call " << i << ": " << code << " " << error.message;
        if (code != QUIRE_OK) {
          EXPECT_EQ(script->look(), seen) << "call " << i << " has changed something";
          Error again;
          code = script->call(i, &again);
          EXPECT_EQ(code, QUIRE_OK) << "call " << i << " once more: " << again.message;
        }
      }
      EXPECT_EQ(code, QUIRE_OK) << "call " << i << ": " << error.message;
      if (code != QUIRE_OK) return false;
    }
    script->look();
  }
#ifdef NDEBUG  // builds that catch misuse of handles remember those that were released; there LeakSanitizer counts
  EXPECT_EQ(alive, before) << "something was not given back";
#else
  static_cast<void>(before);
#endif
  return met;
}

TEST(Allocations, EachFailsOnceAndFromThereOnAndNothingIsLostOrLeft) {
  uint64_t runs = 0;
  run("vllm", 1 << 30, false);  // what is allocated once for ever
  for (const char* policy : {"vllm", "auto", "pack:2"}) {
    for (const bool ever : {false, true}) {
      int64_t n = 0;
      while (run(policy, n, ever) && !::testing::Test::HasFailure()) ++n, ++runs;
      ASSERT_FALSE(::testing::Test::HasFailure()) << policy << ", allocation " << n << (ever ? " and all behind it" : "");
      EXPECT_GT(n, 50) << policy;
    }
  }
  std::printf("%llu runs, one for each allocation\n", static_cast<unsigned long long>(runs));
}

}  // namespace
}  // namespace quire::test
