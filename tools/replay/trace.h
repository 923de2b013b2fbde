// Request traces in Mooncake's JSON lines: per request its lengths and one id per 512-token block of the prompt; equal ids mean equal text
// up to and including that block.
#pragma once

#include <quire/cache.h>

#include <cstdint>
#include <string>
#include <vector>

namespace quire::replay {

inline constexpr uint64_t kTraceBlockTokens = 512;

struct Request {
  uint64_t input_length = 0;   // tokens of the prompt, at least 1
  uint64_t output_length = 0;  // tokens generated, at least 1
  std::vector<uint64_t> hash_ids;
};

// Reads at most `limit` requests (0 = all) from a file, gzip allowed, or from standard input ("-").
// Throws std::runtime_error naming the line and the field.
std::vector<Request> read_trace(const std::string& path, uint64_t limit);

// Conversations of several turns under a few shared system prompts; the same for the same seed on every machine.
std::vector<Request> generate_trace(uint64_t requests, uint64_t seed);

// Symbols of a prompt: a function of (hash id, offset in its block), so equal ids give equal symbols.
void prompt_symbols(const Request& request, std::vector<quire_symbol>* symbols);

// The symbol that request number `index` generates at `position`; shared with no other request.
quire_symbol output_symbol(uint64_t index, uint64_t position);

}  // namespace quire::replay
