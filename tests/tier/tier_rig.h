// An engine with tiers, as a user of the C API builds one: a model of a few layers, one cache,
// bytes in host memory, and stores that tests program. Its kernels write stamps: every element of
// every layer says of which prefix it was computed. So any byte that comes back can be checked,
// whoever wrote it.
#pragma once

#include <gtest/gtest.h>
#include <quire/quire.h>
#include <quire/session.h>
#include <quire/tier.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_store.h"

namespace quire::test {

void must(quire_code code, const quire_error& err, const char* what);

using Text = std::vector<quire_symbol>;
Text count_text(quire_symbol first, size_t n);

template <typename T, void (*Release)(T*)>
struct Releases {
  void operator()(T* object) const { Release(object); }
};
template <typename T, void (*Release)(T*)>
using Owned = std::unique_ptr<T, Releases<T, Release>>;

// The CPU's, or the one that QUIRE_TIER_DRIVER names, of the folder QUIRE_TIER_DRIVER_PATH. Its
// bytes may lie on a device that the host cannot read.
void choose_driver(quire_runtime_options* options);
bool is_on_device();  // that driver's bytes

// Time that tests move. A real one goes by itself, and tests move it on by `now`.
struct Clock {
  std::atomic<int64_t> now{1'000'000};
  quire_runtime* runtime = nullptr;

  explicit Clock(bool is_real = false);
  ~Clock();
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
};

struct EngineOptions {
  std::vector<quire_layer> layers;
  uint64_t pages = 320;
  uint32_t ranks = 1;
  uint32_t block = 16;
  std::string layout = {};
  uint64_t max_len = 1400;
  uint64_t max_load_tokens = 0;  // 0 = max_len
  uint64_t unit = 64;
  std::string weights = "test-weights";
  uint32_t reasons = QUIRE_UNIT_COMMITTED;
  std::vector<uint32_t> reasons_of = {};  // by tier, where they have reasons of their own
  uint64_t max_store_bytes = uint64_t{1} << 30;
  double ns_per_token = 0;
  uint32_t flags = 0;  // of the cache
  uint32_t keep = 0;   // quire_cache_options.keep_states
  uint64_t checkpoint_interval = 0;
  std::string connector = "fake_store";
  std::string settings = {};  // of a connector that is no fake and takes real time
  std::string policy = {};    // of the plan
  uint32_t plan_flags = 0;
  uint64_t retained = 0;              // tokens that windows keep before their range: policy vllm
  bool tiers_may_fail = false;        // what they answered is in tiers_error()
  std::vector<uint32_t> others = {};  // tensor-parallel sizes whose records are read, too
  bool may_refuse = false;            // the pool may be too small for what is asked for
  uint64_t event_ring_bytes = 0;      // of each tier; those of the cache: SHA-256, seed "7"
  bool has_cache_events = true;       // or it does not, although tiers are to
  bool is_peers = false;              // the tiers are peers; reasons 0
  uint32_t first_peer = 0;            // but for those before this one
  std::string peer = "peer:1";        // address of the one that is asked
  bool waits_for_offers = false;      // fetches wait for what an offer does not have yet
  // Layers of drafts do not know the tokens that follow: the last rows of a step that ends before
  // this token are guesses, and the next step writes them again.
  uint64_t guesses_before = 0;
  uint32_t host_shards = 0;  // bits of shards in host memory, whatever the driver is
};

quire_layer full_layer(uint32_t heads = 2, uint32_t width = 8);
quire_layer window_layer(uint64_t window, uint32_t sinks = 0);
quire_layer chunked_layer(uint64_t chunk);
quire_layer state_layer();
// States that ranks cut: a convolution of x, B and C, of which more than 2 ranks repeat B and C,
// and matrices of 8 heads.
quire_layer cut_state_layer();
quire_layer latent_layer();
// Of at most so many tokens of an encoder.
quire_layer cross_layer(uint64_t encoder_tokens, uint32_t heads = 2);
// One to three of all kinds, of a random size each.
std::vector<quire_layer> any_layers(std::mt19937_64& random);
// Models whose sequences are offered: of each kind of layers.
std::vector<std::vector<quire_layer>> offered_kinds();
// A store that offers go through.
FakeStoreOptions peers();
// A store that is late, full, slow, lies or forgets: in a way of its own for each seed.
FakeStoreOptions failing_store(uint64_t seed, uint64_t capacity_bytes);
Text first(const Text& text, uint64_t tokens);

// The environment's, or another number.
uint64_t number_of(const char* variable, uint64_t otherwise);

class Engine {
 public:
  Engine(Clock& clock, EngineOptions options, std::vector<FakeStore*> stores);
  ~Engine();

  // Computes the text in a sequence of its own, and ends it if asked. Returns the tokens that were
  // hit.
  uint64_t compute(const Text& text, bool finish = true);
  quire_sequence_id open(const quire_identity* identity = nullptr);
  void finish(quire_sequence_id sequence);
  // Its encoder was given this, and has so many tokens; before it is, all were given the same.
  void set_encoder(quire_sequence_id sequence, uint64_t given, uint64_t tokens) {  //
    encoders_[sequence] = {tokens, given};
  }
  bool has_encoder(quire_sequence_id sequence) const { return encoders_.count(sequence) > 0; }
  // Goes on from what the sequence has: to the whole text.
  void go_on(quire_sequence_id sequence, const Text& text);

  // Moves tiers on until nothing is in flight; time passes where stores wait for it.
  void settle();
  // One call.
  std::vector<quire_fetch_result> run();
  quire_fetch_id begin(quire_sequence_id sequence, const Text& text, int64_t deadline_ns = 0);
  // A whole fetch. The sequence's bytes are checked.
  quire_fetch_result fetch(quire_sequence_id sequence, const Text& text, int64_t deadline_ns = 0) {
    return wait_for(begin(sequence, text, deadline_ns), sequence, text);
  }
  // Offers what the sequence has through the first tier, and waits until it can be read.
  quire_offer offer(quire_sequence_id sequence, const Text& text);
  quire_code try_offer(quire_sequence_id sequence, const Text& text, quire_offer* out,  //
                       std::string* message, uint32_t tier = 0, uint64_t end_token = 0);
  // Offers what it has and will have, and waits until the handle can be passed on.
  quire_offer grow(quire_sequence_id sequence, const Text& text, uint64_t end_token);
  // Tokens of it that can be read; UINT64_MAX: it has ended.
  uint64_t offered(const quire_offer& offer) const;
  bool is_ready(const quire_offer& offer) const;
  quire_code withdraw(const quire_offer& offer);
  // As begin and fetch, from the peer that offers this.
  quire_fetch_id begin_from(const quire_offer& offer, quire_sequence_id sequence,  //
                            const Text& text, int64_t deadline_ns = 0);
  quire_code try_from(const quire_offer& offer, quire_sequence_id sequence, const Text& text,  //
                      quire_fetch_id* fetch, int64_t deadline_ns = 0, quire_error* err = nullptr);
  quire_fetch_result fetch_from(const quire_offer& offer, quire_sequence_id sequence,  //
                                const Text& text, int64_t deadline_ns = 0);
  // Every byte that computing the token after the committed ones reads is what `text` says.
  void check(quire_sequence_id sequence, const Text& text);
  // Writes rubbish over whatever the pool has free: reading what is not one's own shows.
  void forget_all();

  // A session of the sequence, which has these tokens.
  std::vector<uint8_t> save(quire_sequence_id sequence, const Text& text, quire_code expected = QUIRE_OK);
  // At most so many bytes of it can be written.
  quire_code try_save(quire_sequence_id sequence, const Text& text, uint64_t room, std::vector<uint8_t>* session, quire_session_info* info,
                      std::string* message);
  // Into a new sequence, whose bytes are checked.
  quire_sequence_id restore(const std::vector<uint8_t>& session, const Text& text, quire_session_info* info);
  quire_code try_restore(quire_sequence_id sequence, const std::vector<uint8_t>& session, quire_session_info* info, std::string* message,
                         uint64_t capacity = UINT64_MAX);
  const Text& restored() const { return restored_; }
  // Where it is set, the calls of sessions are made in it.
  std::function<quire_code(const std::function<quire_code()>& call)> around;

  // The next fetch that ends, looked for in small steps of time.
  quire_fetch_result wait();
  // Nothing is on its way, and nothing is held for that.
  void expect_nothing_left() const;

  quire_tier_stats tier(uint32_t index = 0) const;
  quire_tiers_stats stats() const;
  quire_cache_stats cache_stats() const;
  quire_sequence_info info(quire_sequence_id sequence) const;
  quire_cache* cache() const { return cache_.get(); }
  quire_config* config() const { return config_.get(); }
  quire_tiers* tiers() const { return tiers_.get(); }
  quire_connector* connector(uint32_t tier) const { return connectors_[tier].get(); }
  quire_memory* memory(uint32_t shard) const { return memories_[shard].get(); }
  quire_stream* stream(uint32_t shard) const { return streams_[shard].get(); }
  const quire_error& tiers_error() const { return tiers_error_; }
  void drop_tiers() { tiers_.reset(); }
  void verify() const;

  struct Target {
    uint32_t group = 0, shard = 0, columns = 1;
  };

 private:
  struct Place {  // of one layer on one shard
    uint32_t shard = 0, layer = 0, group = 0, column = 0;
    quire_kv_view kv{};  // num_sides 0: a state
    std::vector<quire_state_view> states;
    std::byte* base = nullptr;  // of the region, or of its shadow
  };
  struct Arrays {                // of a step of one row, lowered
    std::vector<int32_t> table;  // [column][pitch]
    uint64_t pitch = 0;
    std::vector<int64_t> slots;        // [column][token]
    std::vector<int32_t> read, write;  // [column]
  };
  quire_fetch_result wait_for(quire_fetch_id fetch, quire_sequence_id sequence, const Text& text);
  // To the next end of a store's ticket, or so far.
  void pass_time(int64_t otherwise);
  void make_places();
  void make_tiers();
  quire_step reserve(quire_sequence_id sequence, const Text& text, bool match, uint32_t tokens, quire_reserve_result* result);
  Arrays arrays_of(quire_step step, const Place& place) const;
  // As an engine does it that keeps tables on a device: it uploads what the step lists. What
  // kernels may read is then there.
  void upload(quire_step step, quire_sequence_id sequence);
  void read(quire_step step, quire_sequence_id sequence, const Text& text, uint64_t position);
  quire_device* device_of(uint32_t shard);
  // Regions on a device have shadows in host memory, which the stamps are written to and read from.
  void mirror(bool to_device);
  void write(quire_step step, quire_sequence_id sequence, const Text& text, uint64_t position,  //
             uint64_t end);
  // Visits the rows of an encoder's tokens in a layer: visit(address, stamp).
  struct Encoder {
    uint64_t tokens = 0, given = 0;
  };
  Encoder encoder_of(quire_sequence_id sequence) const {
    const auto found = encoders_.find(sequence);
    return found == encoders_.end() ? Encoder{} : found->second;
  }
  template <typename Visit>
  void each_of_encoder(const Place& place, const Arrays& a, const Encoder& encoder,  //
                       Visit visit) const;
  // Whether a step that ends there cannot know the row.
  bool is_guess(const Place& place, uint64_t token, uint64_t end) const {
    return end < options_.guesses_before && token + options_.layers[place.layer].look_ahead >= end;
  }
  static uint64_t stamp(const std::vector<uint64_t>& hashes, const Place& place, uint64_t token, uint32_t side, uint32_t head);

  Clock& clock_;
  EngineOptions options_;
  quire_error tiers_error_ = QUIRE_INIT(quire_error);
  std::vector<FakeStore*> stores_;
  Owned<quire_config, quire_config_release> config_;
  Owned<quire_device, quire_device_release> device_, host_device_;
  Owned<quire_cache, quire_cache_release> cache_;
  std::vector<Owned<quire_memory, quire_memory_release>> memories_;
  std::vector<Owned<quire_stream, quire_stream_release>> streams_;
  std::vector<Owned<quire_connector, quire_connector_release>> connectors_;
  Owned<quire_tiers, quire_tiers_release> tiers_;
  std::vector<quire_group_info> groups_;
  std::vector<Place> places_;
  std::map<quire_sequence_id, Encoder> encoders_;
  std::map<std::pair<size_t, void*>, std::vector<std::byte>> shadows_;  // by shard and address
  // Symbols of the last session.
  Text restored_;
  // Tables [column][pitch], by sequence and group.
  std::map<std::pair<quire_sequence_id, uint32_t>, std::vector<int32_t>> uploaded_;
};

// An engine that computed a text, wrote it to a store of its own, and forgot it.
struct Forgotten {
  Clock clock;
  FakeStore store;
  Engine engine;
  const Text text;

  Forgotten(EngineOptions options, size_t tokens, const FakeStoreOptions& of_store = {})
      : store(of_store), engine(clock, std::move(options), {&store}), text(count_text(1, tokens)) {
    engine.compute(text);
    engine.settle();
    engine.forget_all();
  }
  // A new sequence fetches the text.
  quire_fetch_result fetch() { return engine.fetch(engine.open(), text); }
  // And computes what is left of it.
  quire_fetch_result fetch_and_go_on() {
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_result got = engine.fetch(sequence, text);
    engine.go_on(sequence, text);
    return got;
  }
};

}  // namespace quire::test
