// Request traces: per request its lengths and, as far as the trace knows, its content, so that
// equal prefixes are found again.
#pragma once

#include <quire/cache.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace quire::replay {

inline constexpr uint64_t kTraceBlockTokens = 512;  // of Mooncake's traces
inline constexpr uint64_t kBytesPerToken = 4;       // of traces that have text and no token ids

struct Request {
  uint64_t input_length = 0;   // tokens of the prompt, at least 1
  uint64_t output_length = 0;  // tokens generated, at least 1
  // Of traces without text: an id per block of the prompt. Equal ids mean equal text up to and
  // including that block.
  std::vector<uint64_t> hash_ids;
  uint64_t block_tokens = kTraceBlockTokens;  // tokens of such a block
  // Of traces with text: symbols of a conversation. The prompt is its first input_length, what is
  // generated follows.
  std::shared_ptr<const std::vector<quire_symbol>> text = nullptr;
  bool continues = false;  // the request before it in the trace: it starts when that one has ended
};

enum class Format {
  kAuto,
  // JSON lines: input_length, output_length, hash_ids; what `vllm bench serve --dataset-name
  // timed_trace` reads, too.
  kMooncake,
  // CSV with a heading: ContextTokens and GeneratedTokens (Azure), or Request tokens and Response
  // tokens (BurstGPT). No text is shared.
  kCsv,
  // A JSON array of conversations: "conversations" of {"from", "value"} or "messages" of {"role",
  // "content"}. A request per answer.
  kShareGpt,
  // JSON lines with "prompt" and, optional, "output_tokens" (a custom dataset of vLLM), or the JSON
  // of `vllm bench serve --save-detailed` with input_lens and output_lens.
  kVllm,
};

struct TraceOptions {
  Format format = Format::kAuto;  // auto: found from the first line
  uint64_t limit = 0;             // requests; 0 = all
  uint64_t block_tokens = kTraceBlockTokens;
};

// "auto", "mooncake", "csv", "sharegpt", "vllm". Throws std::invalid_argument.
Format format_of(const std::string& name);

// From a file, gzip allowed, or from standard input ("-"). Throws std::runtime_error with the file,
// the line and the field.
std::vector<Request> read_trace(const std::string& path, const TraceOptions& options = {});

// Conversations of several turns under a few shared system prompts; the same for the same seed on
// every machine.
std::vector<Request> generate_trace(uint64_t requests, uint64_t seed);

// Symbols of a prompt: its text, or a function of (hash id, offset in its block), so equal ids give
// equal symbols.
void prompt_symbols(const Request& request, std::vector<quire_symbol>* symbols);

// A symbol that is shared with no other request, for request number `index` and `position`.
quire_symbol output_symbol(uint64_t index, uint64_t position);

// What request number `index` generates at `position`: its text as far as it has one, else a symbol
// of its own.
quire_symbol generated_symbol(const Request& request, uint64_t index, uint64_t position);

}  // namespace quire::replay
