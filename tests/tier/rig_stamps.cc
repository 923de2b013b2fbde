// What the rig's kernels write and read: stamps of the prefix, and of what an encoder was given.
#include <algorithm>
#include <cstring>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
  return z ^ (z >> 32);
}

// hashes[n]: of the first n symbols. What the last text has as well is not computed again.
const std::vector<uint64_t>& hashes_of(const Text& text) {
  static Text last;
  static std::vector<uint64_t> hashes = {77};
  const auto same = std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin();
  hashes.resize(static_cast<size_t>(same) + 1);
  for (size_t i = static_cast<size_t>(same); i < text.size(); ++i) hashes.push_back(mix(hashes.back(), text[i]));
  last = text;
  return hashes;
}

}  // namespace

uint64_t Engine::stamp(const std::vector<uint64_t>& hashes, const Place& place, uint64_t token, uint32_t side, uint32_t head) {
  return mix(mix(hashes[token + 1], place.layer * 2 + side), head) | 1;
}

namespace {

// Where a slice's coordinate along the dimension that is cut lies in the whole tensor: each part is cut by itself, and
// neighbours can have the same slice.
uint64_t whole_coordinate(const quire_state_view& view, uint64_t at) {
  uint64_t begin = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint64_t repeats = std::max(view.shard_repeats[k], 1u), mine = view.shard_parts[k] / view.num_ranks;
    if (at < mine) return begin + view.rank / repeats * mine + at;
    at -= mine;
    begin += view.shard_parts[k] / repeats;
  }
  return view.rank * view.shape[view.shard_dim - 1] + at;  // one part
}

// Visits all elements of one state in their order: visit(address, number in the whole tensor, bytes).
template <typename Visit>
void each_element(const quire_state_view& view, std::byte* base, int32_t lowered, Visit visit) {
  const uint64_t bytes = view.dtype.bits / 8u;
  uint64_t n = 1;
  for (uint32_t k = 0; k < view.ndim; ++k) n *= view.shape[k];
  for (uint64_t i = 0; i < n; ++i) {
    int64_t at = view.offset + lowered * view.unit;
    uint64_t rest = i, number = 0, step = 1;
    for (uint32_t k = view.ndim; k-- > 0; rest /= view.shape[k], step *= 1000) {
      const uint64_t own = rest % view.shape[k];
      at += static_cast<int64_t>(own) * view.stride[k];
      number += step * (k + 1 == view.shard_dim ? whole_coordinate(view, own) : own);
    }
    visit(base + at, number, bytes);
  }
}

uint64_t element(uint64_t hash, uint32_t layer, uint64_t tensor, uint64_t index) {
  return mix(mix(hash, uint64_t{layer} * 8 + tensor + 1000), index);
}

}  // namespace

template <typename Visit>
void Engine::each_of_encoder(const Place& place, const Arrays& a, const Encoder& encoder, Visit visit) const {
  for (uint64_t token = 0; token < encoder.tokens; ++token) {
    const int32_t lowered = a.table[place.column * a.pitch + token / place.kv.block_tokens];
    for (uint32_t side = 0; side < place.kv.num_sides; ++side) {
      for (uint32_t head = 0; head < place.kv.num_heads; ++head) {
        std::byte* const at = place.base + place.kv.offset[side] + lowered * place.kv.unit[side] +
                              static_cast<int64_t>(token % place.kv.block_tokens) * place.kv.stride_token[side] +
                              head * place.kv.stride_head[side];
        const uint64_t of = mix(encoder.given, token);
        visit(at, mix(mix(of, place.layer * 2 + side), place.kv.first_head + head) | 1);
      }
    }
  }
}

void Engine::read(quire_step step, quire_sequence_id sequence, const Text& text, uint64_t position) {
  mirror(false);
  const std::vector<uint64_t>& hashes = hashes_of(text);
  for (const Place& place : places_) {
    const Arrays a = arrays_of(step, place);
    for (size_t t = 0; t < place.states.size(); ++t) {
      uint64_t wrong = 0;
      each_element(place.states[t], place.base, a.read[place.column], [&](const std::byte* at, uint64_t i, uint64_t bytes) {
        const uint64_t value = position == 0 ? 0 : element(hashes[position], place.layer, t, i);
        wrong += std::memcmp(at, &value, bytes) != 0 ? 1 : 0;
      });
      ASSERT_EQ(wrong, 0U) << "state of layer " << place.layer << " at " << position << ", tensor " << t;
    }
    if (place.kv.num_sides == 0) continue;
    const quire_layer& layer = options_.layers[place.layer];
    if (layer.kind == QUIRE_LAYER_CROSS) {
      uint64_t wrong = 0;
      each_of_encoder(place, a, encoder_of(sequence), [&](const std::byte* at, uint64_t stamp) {
        wrong += position > 0 && std::memcmp(at, &stamp, sizeof stamp) != 0 ? 1 : 0;
      });
      ASSERT_EQ(wrong, 0U) << "cross attention of layer " << place.layer << " at " << position << ", shard " << place.shard;
      continue;
    }
    uint64_t from = 0;
    if (layer.kind == QUIRE_LAYER_CHUNKED) from = position / layer.window * layer.window;
    if (layer.kind == QUIRE_LAYER_SLIDING_WINDOW && position + 1 > layer.window) from = position + 1 - layer.window;
    for (uint64_t token = 0; token < position; ++token) {
      if (token < from && token >= layer.sink_tokens) token = from;
      if (token >= position || is_guess(place, token, position)) break;
      const int32_t lowered = a.table[place.column * a.pitch + token / place.kv.block_tokens];
      for (uint32_t side = 0; side < place.kv.num_sides; ++side) {
        for (uint32_t head = 0; head < place.kv.num_heads; ++head) {
          const std::byte* at = place.base + place.kv.offset[side] + lowered * place.kv.unit[side] +
                                static_cast<int64_t>(token % place.kv.block_tokens) * place.kv.stride_token[side] +
                                head * place.kv.stride_head[side];
          uint64_t found = 0;
          std::memcpy(&found, at, sizeof found);
          ASSERT_EQ(found, stamp(hashes, place, token, side, place.kv.first_head + head))
              << "layer " << place.layer << " token " << token << " of " << position << " side " << side << " head " << head << " shard "
              << place.shard;
        }
      }
    }
  }
}

void Engine::write(quire_step step, quire_sequence_id sequence, const Text& text, uint64_t position, uint64_t end) {
  mirror(false);
  const std::vector<uint64_t>& hashes = hashes_of(text);
  for (const Place& place : places_) {
    const Arrays a = arrays_of(step, place);
    for (size_t t = 0; t < place.states.size(); ++t) {
      if (a.write[place.column] < 0) continue;
      each_element(place.states[t], place.base, a.write[place.column], [&](std::byte* at, uint64_t i, uint64_t bytes) {
        const uint64_t value = element(hashes[end], place.layer, t, i);
        std::memcpy(at, &value, bytes);
      });
    }
    if (options_.layers[place.layer].kind == QUIRE_LAYER_CROSS) {
      if (position > 0) continue;
      each_of_encoder(place, a, encoder_of(sequence), [](std::byte* at, uint64_t stamp) { std::memcpy(at, &stamp, sizeof stamp); });
      continue;
    }
    const uint64_t guesses = options_.guesses_before == 0 ? 0 : std::min<uint64_t>(position, options_.layers[place.layer].look_ahead);
    for (uint64_t token = position - guesses; token < end && place.kv.num_sides != 0; ++token) {
      const uint32_t block = place.kv.block_tokens;
      const int64_t slot = token < position ? int64_t{a.table[place.column * a.pitch + token / block]} * block + token % block
                                            : a.slots[place.column * (end - position) + token - position];
      if (slot < 0) continue;
      const int64_t lowered = slot / place.kv.block_tokens, row = slot % place.kv.block_tokens;
      for (uint32_t side = 0; side < place.kv.num_sides; ++side) {
        for (uint32_t head = 0; head < place.kv.num_heads; ++head) {
          std::byte* at = place.base + place.kv.offset[side] + lowered * place.kv.unit[side] + row * place.kv.stride_token[side] +
                          head * place.kv.stride_head[side];
          const uint64_t value = stamp(hashes, place, token, side, place.kv.first_head + head) ^ (is_guess(place, token, end) ? 2 : 0);
          std::memcpy(at, &value, sizeof value);
        }
      }
    }
  }
  mirror(true);
}

}  // namespace quire::test
