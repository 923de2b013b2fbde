#include "replay/content.h"

#include <algorithm>

namespace quire::replay {
namespace {

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// From the hash of a unit with all before it to its node: open addressing, because there are
// millions. Two units with equal hashes of 64 bits would be taken for one.
class Nodes {
 public:
  Nodes() : slots_(1u << 16) {}

  uint32_t find_or_add(uint64_t hash, uint32_t parent, std::vector<uint32_t>* parents) {
    if (2 * parents->size() >= slots_.size()) grow();
    Slot* slot = find(hash);
    if (slot->node == Content::kNone) {
      *slot = {hash, static_cast<uint32_t>(parents->size())};
      parents->push_back(parent);
    }
    return slot->node;
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t node = Content::kNone;
  };

  Slot* find(uint64_t hash) {
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].node != Content::kNone && slots_[at].hash != hash) at = (at + 1) & (slots_.size() - 1);
    return &slots_[at];
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.node != Content::kNone) *find(slot.hash) = slot;
    }
  }

  std::vector<Slot> slots_;
};

}  // namespace

Content content_of(const std::vector<Request>& trace, uint32_t unit_tokens, uint64_t max_output) {
  Content out;
  out.unit_tokens = unit_tokens;
  out.paths.resize(trace.size());
  Nodes nodes;
  std::vector<quire_symbol> symbols;
  for (size_t r = 0; r < trace.size(); ++r) {
    const Request& request = trace[r];
    prompt_symbols(request, &symbols);
    const uint64_t computed = request.input_length + std::min(request.output_length, max_output) - 1;
    for (uint64_t i = symbols.size(); i < computed; ++i) symbols.push_back(generated_symbol(request, r, i));
    const uint64_t units = computed / unit_tokens;
    out.paths[r].reserve(units);
    uint64_t hash = 0x9e3779b97f4a7c15u;
    uint32_t parent = Content::kNone;
    for (uint64_t u = 0; u < units; ++u) {
      // The symbols of a unit are mixed one by one, the prefix once: units behind it hash in turn.
      for (uint64_t i = u * unit_tokens; i < (u + 1) * unit_tokens; ++i) hash = (hash ^ symbols[i]) * 0x9fb21c651e98df25u;
      hash = mixed(hash);
      parent = nodes.find_or_add(hash, parent, &out.parents);
      out.paths[r].push_back(parent);
    }
  }
  return out;
}

}  // namespace quire::replay
