// kv.h: the memory of a model: plan, cache, bytes, sequences. With pass.h the only part of this
// engine that calls quire.
//
//   Kv kv(config, settings);   // reads config.json, plans; no bytes yet
//   kv.allocate();             // cache, device, memory
//   ... stepper.h reserves, runs and commits steps
#pragma once

#include <quire/quire.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#define QUIRE_EXCEPTIONS
#include <quire.hpp>

#include "model_config.h"

namespace lm {

struct KvSettings {
  // Type of cached keys and values and of states: "fp32", "bf16", "model" for what config.json
  // says, or "auto": keys and values as config.json says, states fp32. A state of bf16 is rounded
  // where a chunk ends, so that results depend on chunks a little.
  std::string dtype = "auto";
  std::string policy;  // of the plan; empty = auto
  uint64_t pool_bytes = uint64_t{512} << 20;
  uint64_t pages = 0;    // instead of pool_bytes
  uint64_t max_len = 0;  // of a sequence; 0 = as long as the model and the pool allow
  uint32_t max_sequences = 16;
  uint32_t max_step_tokens = 512;
  uint32_t step_depth = 1;
  uint32_t drafts = 0;               // draft tokens of a row that may be accepted one by one
  uint32_t threads = 0;              // of the driver; 0 = all cores
  uint32_t cache_flags = 0;          // QUIRE_CACHE_*
  uint64_t checkpoint_interval = 0;  // tokens between the states that are kept; 0 = the plan's
  bool reuse = true;                 // prefixes are shared
  bool poison = false;               // fill the pool first, so that reads of what nobody wrote show
};

class Kv {
 public:
  // Plans. Errors (quire::Exception): an architecture that quire does not know, too little memory;
  // the message says which length would fit.
  Kv(const ModelConfig& config, const KvSettings& settings);
  void allocate();

  const KvSettings& settings() const { return settings_; }
  const quire::Model& model() const { return model_; }
  const quire::Config& config() const { return config_; }
  quire_config_info info() const { return config_.info(); }
  const quire::Cache& cache() const { return cache_; }
  const quire::Memory& memory() const { return memory_; }
  const quire::Stream& stream() const { return stream_; }
  quire::Batch& batch() { return batch_; }
  const std::string& device_name() const { return device_name_; }
  uint64_t bytes() const;  // of all regions
  uint64_t max_len() const { return info().max_model_len; }

  // What a layer caches, by kind: a layer may have attention, cross attention and a state.
  const quire_layer& attention_of(int64_t layer) const;
  const quire_layer& cross_of(int64_t layer) const;
  const quire_layer& state_of(int64_t layer) const;
  bool has_states() const;
  bool has_encoder() const;

  // Tests: every attention reads a wrong first block, and states begin with zero.
  void break_tables(bool wrong) { tables_are_wrong_ = wrong; }
  bool tables_are_wrong() const { return tables_are_wrong_; }

 private:
  const quire_layer& layer_of(int64_t layer, const char* what,
                              bool (*fits)(const quire_layer&)) const;

  KvSettings settings_;
  quire::Runtime runtime_;
  quire::Model model_;
  quire::Config config_;
  std::vector<quire_layer> layers_;
  quire::Cache cache_;
  quire::Device device_;
  quire::Memory memory_;
  quire::Stream stream_;
  quire::Batch batch_;
  std::string device_name_;
  bool tables_are_wrong_ = false;
};

}  // namespace lm
