// An engine of a hybrid model, as a user of the C API builds one: the first layers of
// Qwen3-Next-80B in their own sizes. Every fourth is attention, the others are gated delta with a
// short convolution. A step reserves, makes its arrays, runs the driver's kernels of all layers,
// commits, and lets the tiers go on. Kernels read random numbers that are made once: projections
// and experts are no part of any time here.
#pragma once

#include <quire/quire.h>
#include <quire/tier.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "fixtures.h"

namespace quire::bench {

struct HybridOptions {
  uint32_t layers = 4;
  uint64_t pool_bytes = 0;
  uint64_t max_len = 0;
  uint32_t sequences = 1;  // at most, at the same time
  uint32_t chunk = 2048;   // tokens of a prompt in one step
  uint32_t threads = 0;    // of the driver; 0 = its default
};

struct HybridTier {
  std::string connector;
  std::string config;
  double ns_per_token = 0;
  bool is_peers = false;
};

class HybridEngine {
 public:
  using Prompt = std::vector<quire_symbol>;

  explicit HybridEngine(const HybridOptions& options);
  ~HybridEngine();
  HybridEngine(const HybridEngine&) = delete;
  HybridEngine& operator=(const HybridEngine&) = delete;

  quire_sequence_id open();
  void finish(quire_sequence_id sequence);
  // What the sequence lacks of the prompt, in chunks; without kernels where only what follows is
  // measured.
  void compute(quire_sequence_id sequence, const Prompt& prompt, bool kernels = true);
  // One token of each sequence.
  void decode(std::span<const quire_sequence_id> sequences);
  // Nothing that was computed is found any more.
  void forget();

  // From now on steps let the tier go on.
  void open_tier(const HybridTier& tier);
  // Gives up what is on its way.
  void close_tier();
  // Asks for the prompt every millisecond until the fetch has ended.
  quire_fetch_result fetch(quire_sequence_id sequence, const Prompt& prompt);
  // Offers the sequence up to there, and waits until the handle can be passed on.
  quire_offer offer(quire_sequence_id sequence, const Prompt& prompt, uint64_t end_token);
  // Until all of it can be read, or it has ended.
  void complete(const quire_offer& offer);
  quire_fetch_result fetch_from(const quire_peer& peer, quire_sequence_id sequence,  //
                                const Prompt& prompt);
  // One call of quire_tiers_run, which waits a millisecond at most.
  void run_tiers_once() { run_tiers(1'000'000, nullptr); }
  // Until all that was computed is stored.
  void settle();
  quire_tier_stats tier_stats() const;
  quire_tiers_stats tiers_stats() const;
  quire_cache_stats cache_stats() const;
  // Within quire_tiers_run, since the beginning.
  double tiers_seconds() const { return tiers_seconds_; }

 private:
  struct Layer;
  struct Inputs;

  void make_layers();
  void run(quire_step step, bool kernels = true);
  void run_layer(const Layer& layer, uint32_t tokens);
  void run_tiers(int64_t timeout_ns, std::vector<quire_fetch_result>* results);
  quire_sequence_info info(quire_sequence_id sequence) const;

  const HybridOptions options_;
  client::Runtime runtime_;
  client::Model model_;
  client::Config config_;
  client::Device device_;
  client::Cache cache_;
  quire_stream* stream_ = nullptr;
  quire_memory* memory_ = nullptr;
  quire_connector* connector_ = nullptr;
  quire_tiers* tiers_ = nullptr;
  std::vector<Layer> layers_;
  std::unique_ptr<Inputs> inputs_;
  std::vector<quire_batch> batches_;  // by group
  std::vector<std::max_align_t> arrays_;
  double tiers_seconds_ = 0;
};

// A prompt that no other number has.
HybridEngine::Prompt hybrid_prompt(uint64_t number, size_t tokens);

}  // namespace quire::bench
