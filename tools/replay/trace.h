// Request traces: per request its lengths and, as far as the trace knows, its content, so that
// equal prefixes are found again.
#pragma once

#include <quire/cache.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace quire::replay {

inline constexpr uint64_t kTraceBlockTokens = 512;  // of Mooncake's traces
inline constexpr uint64_t kBytesPerToken = 4;       // of traces that have text and no token ids

// A block whose text begins with that of another, incomplete block.
struct Tail {
  uint64_t id = 0;      // of the incomplete block
  uint64_t tokens = 0;  // that it has
};
using Tails = std::unordered_map<uint64_t, Tail>;  // by the id of the block that goes on

struct Request {
  uint64_t input_length = 0;   // tokens of the prompt, at least 1
  uint64_t output_length = 0;  // tokens generated, at least 1
  // Of traces without text: an id per block of the prompt. Equal ids mean equal text up to and
  // including that block.
  std::vector<uint64_t> hash_ids;
  uint64_t block_tokens = kTraceBlockTokens;     // tokens of such a block
  std::shared_ptr<const Tails> tails = nullptr;  // see link_tails
  // Of traces with text: symbols of a conversation. The prompt is its first input_length, what is
  // generated follows.
  std::shared_ptr<const std::vector<quire_symbol>> text = nullptr;
  bool continues = false;   // the request before it in the trace: it starts when that one has ended
  uint64_t arrival_ms = 0;  // since the trace began; 0 where the trace does not tell
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

struct LinkedTails {
  uint64_t linked = 0;
  uint64_t tails = 0;  // prompts that end with an incomplete block
};

// Ids of a trace name whole blocks. So the incomplete last block of a prompt, its tail, never equals
// the block of the next turn, although its text does. This guesses which request goes on: the next
// one that has the same complete blocks and is at least as long. A prefix after which more than
// three different blocks follow is taken for a shared document, not for a conversation. From then
// on the block of the longer request begins with the text of the shorter one's. Requests with text
// stay as they are and are not counted.
LinkedTails link_tails(std::vector<Request>* trace);
// Counts the tails and links none.
uint64_t count_tails(const std::vector<Request>& trace);

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
