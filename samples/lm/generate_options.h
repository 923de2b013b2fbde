// generate_options.h: the command line of quire_generate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kv.h"
#include "linear.h"
#include "sampling.h"

namespace lm {

struct GenerateOptions {
  std::filesystem::path model;
  std::vector<std::string> prompts;
  std::vector<std::vector<int32_t>> token_prompts;
  std::string requests;  // a file of requests, one JSON object per line
  bool chat = false;
  std::string system;
  uint32_t max_tokens = 128;
  uint32_t samples = 1;
  Sampling sampling;
  bool ignore_stops = false;
  KvSettings kv;
  std::string weights = "auto";
  std::filesystem::path draft;
  uint32_t draft_tokens = 4;
  bool json = false;
  bool ids = false;    // print token ids
  bool quiet = false;  // no status line
};

// Reads the command line. Nothing: the program ends with *status.
std::optional<GenerateOptions> read_options(int argc, char** argv, int* status);
// auto: by the checkpoint's type and the processor.
ProductType product_type(const std::string& weights, const class Checkpoint& checkpoint);

}  // namespace lm
