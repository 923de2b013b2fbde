#include "replay/trace.h"

#include <algorithm>

namespace quire::replay {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64: a bijection that spreads neighbours apart
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

quire_symbol to_symbol(uint64_t hash) { return static_cast<quire_symbol>(hash & 0x7fffffffu); }

}  // namespace

std::vector<Request> generate_trace(uint64_t requests, uint64_t seed) {
  struct Conversation {
    std::vector<uint64_t> blocks;  // complete ones
    uint64_t tokens = 0;
  };
  std::vector<Conversation> open(std::min<uint64_t>(64, requests));
  std::vector<Request> trace;
  uint64_t state = seed;
  uint64_t next_id = 1000;
  const auto draw = [&state](uint64_t below) { return mix(state += 0x9e3779b97f4a7c15u) % below; };
  while (trace.size() < requests) {
    Conversation& conversation = open[draw(open.size())];
    if (conversation.tokens == 0 || draw(8) == 0) {  // a new conversation: one of 4 system prompts of 1 to 4 blocks
      const uint64_t system = draw(4);
      conversation.blocks.clear();
      for (uint64_t i = 0; i <= system; ++i) conversation.blocks.push_back(100 * system + i);
      conversation.tokens = conversation.blocks.size() * kTraceBlockTokens;
    }
    conversation.tokens += 100 + draw(1900);
    while ((conversation.blocks.size() + 1) * kTraceBlockTokens <= conversation.tokens) conversation.blocks.push_back(next_id++);
    Request request;
    request.input_length = conversation.tokens;
    request.output_length = 20 + draw(380);
    request.hash_ids = conversation.blocks;
    request.hash_ids.push_back(next_id++);  // the last, incomplete block is a text of its own
    request.hash_ids.resize((request.input_length + kTraceBlockTokens - 1) / kTraceBlockTokens);
    trace.push_back(std::move(request));
  }
  return trace;
}

void prompt_symbols(const Request& request, std::vector<quire_symbol>* symbols) {
  symbols->resize(request.input_length);
  if (request.text != nullptr) {
    std::copy_n(request.text->begin(), request.input_length, symbols->begin());
    return;
  }
  for (uint64_t i = 0; i < request.input_length; ++i) {
    const uint64_t block = i / request.block_tokens;
    (*symbols)[i] = to_symbol(mix(request.hash_ids[block] * request.block_tokens + i % request.block_tokens));
  }
}

quire_symbol output_symbol(uint64_t index, uint64_t position) { return to_symbol(mix((index << 32 | position) ^ 0x5bd1e995u)); }

quire_symbol generated_symbol(const Request& request, uint64_t index, uint64_t position) {
  const bool has_text = request.text != nullptr && position < request.text->size();
  return has_text ? (*request.text)[position] : output_symbol(index, position);
}

}  // namespace quire::replay
