#include "replay/trace.h"

#include <algorithm>
#include <set>

namespace quire::replay {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64: a bijection that spreads neighbours apart
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

quire_symbol to_symbol(uint64_t hash) { return static_cast<quire_symbol>(hash & 0x7fffffffu); }

constexpr size_t kMostContinuations = 3;

// Up to a complete block: who has it, in order, and the ids that follow.
struct Prefix {
  std::vector<size_t> requests;
  std::set<uint64_t> next;
};
using Prefixes = std::unordered_map<uint64_t, Prefix>;  // by the id of the block

Prefixes prefixes_of(const std::vector<Request>& trace) {
  Prefixes out;
  for (size_t r = 0; r < trace.size(); ++r) {
    const Request& request = trace[r];
    if (request.text != nullptr) continue;
    for (size_t b = 0; b + 1 < request.hash_ids.size(); ++b) {
      Prefix& prefix = out[request.hash_ids[b]];
      prefix.requests.push_back(r);
      if (prefix.next.size() <= kMostContinuations) prefix.next.insert(request.hash_ids[b + 1]);
    }
  }
  return out;
}

bool has_tail(const Request& request) { return request.text == nullptr && request.input_length % request.block_tokens != 0; }

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
  for (uint64_t from = 0; from < request.input_length; from += request.block_tokens) {
    uint64_t id = request.hash_ids[from / request.block_tokens];
    uint64_t end = std::min(request.block_tokens, request.input_length - from);
    // From the end of the block to its begin: each text that it continues is shorter.
    while (end > 0) {
      const Tail* tail = nullptr;
      if (request.tails != nullptr) {
        const auto found = request.tails->find(id);
        if (found != request.tails->end()) tail = &found->second;
      }
      const uint64_t own = tail != nullptr ? std::min(tail->tokens, end) : 0;
      for (uint64_t i = own; i < end; ++i) (*symbols)[from + i] = to_symbol(mix(id * request.block_tokens + i));
      end = own;
      if (tail != nullptr) id = tail->id;
    }
  }
}

uint64_t count_tails(const std::vector<Request>& trace) {
  return static_cast<uint64_t>(std::count_if(trace.begin(), trace.end(), has_tail));
}

LinkedTails link_tails(std::vector<Request>* trace) {
  const Prefixes prefixes = prefixes_of(*trace);
  auto tails = std::make_shared<Tails>();
  LinkedTails out{0, count_tails(*trace)};
  for (size_t r = 0; r < trace->size(); ++r) {
    const Request& request = (*trace)[r];
    const size_t last = request.hash_ids.size() - 1;
    if (!has_tail(request) || last == 0) continue;
    const Prefix& prefix = prefixes.at(request.hash_ids[last - 1]);
    if (prefix.next.size() > kMostContinuations) continue;
    for (auto next = std::upper_bound(prefix.requests.begin(), prefix.requests.end(), r); next != prefix.requests.end(); ++next) {
      const Request& longer = (*trace)[*next];
      if (longer.hash_ids[last] == request.hash_ids[last] || longer.input_length < request.input_length) continue;
      (*tails)[longer.hash_ids[last]] = Tail{request.hash_ids[last], request.input_length % request.block_tokens};
      ++out.linked;
      break;
    }
  }
  for (Request& request : *trace) request.tails = tails;
  return out;
}

quire_symbol output_symbol(uint64_t index, uint64_t position) { return to_symbol(mix((index << 32 | position) ^ 0x5bd1e995u)); }

quire_symbol generated_symbol(const Request& request, uint64_t index, uint64_t position) {
  const bool has_text = request.text != nullptr && position < request.text->size();
  return has_text ? (*request.text)[position] : output_symbol(index, position);
}

}  // namespace quire::replay
