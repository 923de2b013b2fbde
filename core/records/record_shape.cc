#include "core/records/record_shape.h"

#include <algorithm>
#include <cinttypes>
#include <set>

#include "core/base/checked.h"
#include "core/layout/order.h"
#include "core/layout/runs.h"

namespace quire {
namespace {

// Bounds of what a record of somebody else may ask for.
constexpr uint32_t kMostMembers = 4096, kMostTensors = 8;
constexpr uint32_t kMostRows = 1u << 20, kMostKernelBlocks = 1u << 16;
constexpr uint64_t kMostTokens = uint64_t{1} << 24;  // of a block
constexpr uint64_t kMostBlocks = uint64_t{1} << 14, kMostElements = uint64_t{1} << 36;

void put(uint64_t value, uint32_t bytes, std::vector<uint8_t>* out) {
  for (uint32_t i = 0; i < bytes; ++i) out->push_back(static_cast<uint8_t>(value >> 8 * i));
}

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t take(uint32_t bytes) {
    if (bytes_.size() < bytes) good_ = false;
    if (!good_) return 0;
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; ++i) value |= uint64_t{bytes_[i]} << 8 * i;
    bytes_ = bytes_.subspan(bytes);
    return value;
  }
  uint32_t word() { return static_cast<uint32_t>(take(4)); }
  bool done() const { return good_ && bytes_.empty(); }
  // More than there can be bytes for is refused before anything is made of it.
  uint32_t count(uint32_t most, uint32_t bytes_each) {
    const uint32_t n = word();
    if (n > most || uint64_t{n} * bytes_each > bytes_.size()) good_ = false;
    return good_ ? n : 0;
  }
  bool good() const { return good_; }

 private:
  std::span<const uint8_t> bytes_;
  bool good_ = true;
};

// As encode() writes them; a slice without its tensors.
constexpr uint32_t kTensorBytes = 8 + 4 * 4 + 4 * 4 + 4 * 8, kSliceBytes = 24, kMemberBytes = 12;

// B stands first, and lanes lie one behind the other: their layers are told apart by P alone, or by L where a lane has one.
std::string record_order(const std::string& order) {
  std::string out = "B";
  const bool layers = order.find('P') != std::string::npos;
  for (const char letter : order) {
    if (letter == 'B' || (letter == 'L' && layers)) continue;
    out += letter;
  }
  return out;
}

uint32_t look_ahead_of(const GroupPlan& group, const CachePlace& place) { return group.reads_ahead() ? place.look_ahead : 0; }

StateSlice slice_of(const quire_state_view& view) {
  StateSlice slice;
  slice.num_ranks = view.num_ranks;
  slice.rank = view.rank;
  std::copy_n(view.shard_parts, 4, slice.parts.begin());
  std::copy_n(view.shard_repeats, 4, slice.repeats.begin());
  std::copy_n(view.shape, 4, slice.shape.begin());
  return slice;
}

CacheSlice slice_of(const PlaceViews& views) {
  CacheSlice slice;
  for (const quire_state_view& state : views.states) slice.tensors.push_back(slice_of(state));
  if (views.kv.num_sides == 0) return slice;
  slice.first_head = views.kv.first_head;
  slice.num_heads = views.kv.num_heads;
  slice.rows = views.kv.block_tokens;
  slice.context_rank = views.kv.context_rank;
  slice.context_ranks = std::max(views.kv.context_ranks, 1u);
  return slice;
}

// Views of the cache on any shard that has it; null: none has.
const PlaceViews* own_views(const Config& config, uint32_t layer, uint32_t sub) {
  const CachePlace* const place = config.find(layer, sub);
  if (place == nullptr) return nullptr;
  const size_t p = static_cast<size_t>(place - config.places.data());
  for (const ShardPlan& shard : config.shards) {
    if (!shard.views[p].empty()) return &shard.views[p];
  }
  return nullptr;
}

Result<MemberShape> member_shape(const RecordShape& shape, const RecordMember& member, const PlaceViews& own, uint32_t index) {
  const CacheSlice& slice = shape.slices[member.slice];
  MemberShape m;
  m.layer = member.layer;
  const bool by_lane = shape.order.find('L') != std::string::npos;
  m.lane = by_lane ? index : 0;
  m.index = by_lane ? 0 : index;
  const bool alike = shape.is_state ? slice.tensors.size() == own.states.size() : own.kv.num_sides != 0;
  if (own.states.empty() == shape.is_state || !alike) return invalid("record: layer %u has other tensors", member.layer);
  if (shape.is_state) {
    for (size_t t = 0; t < own.states.size(); ++t) {
      quire_state_tensor tensor{own.states[t].dtype, own.states[t].ndim, {}};
      std::copy_n(slice.tensors[t].shape.begin(), 4, tensor.shape);
      uint64_t elements = 1;
      for (uint32_t k = 0; k < tensor.ndim; ++k) elements = checked_mul(elements, tensor.shape[k]).value_or(0);
      if (elements == 0 || elements > kMostElements) return invalid("record: layer %u has a state of no legal extent", member.layer);
      m.tensors.push_back(tensor);
    }
    return m;
  }
  if (slice.rows == 0 || slice.rows > kMostRows || slice.num_heads == 0 || slice.num_heads > own.kv.model_heads) {
    return invalid("record: layer %u has blocks of %u rows and %u heads", member.layer, slice.rows, slice.num_heads);
  }
  m.num_sides = own.kv.num_sides;
  m.num_heads = slice.num_heads;
  m.width[0] = own.kv.head_dim[0];
  m.width[1] = own.kv.head_dim[1];
  m.rows = slice.rows;
  m.tokens_per_row = own.kv.tokens_per_row;
  m.dtype = own.kv.dtype;
  m.codec = own.kv.codec;
  m.codec_params = own.kv.codec_params;
  m.codec_params.block_alignment = 0;  // records have no padding
  return m;
}

// What the layout cannot know.
Status number_views(const CacheSlice& slice, const PlaceViews& own, PlaceViews* views) {
  if (views->kv.num_sides != 0) {
    quire_kv_view& kv = views->kv;
    kv.first_head = slice.first_head;
    kv.model_heads = own.kv.model_heads;
    kv.context_rank = slice.context_rank;
    kv.context_ranks = slice.context_ranks;
    QUIRE_RETURN_IF_ERROR(check_view(kv, "record"));
    const std::string other = difference_of_rows(kv, own.kv);
    return other.empty() ? Status() : invalid("record: %s", other.c_str());
  }
  for (size_t t = 0; t < views->states.size(); ++t) {
    quire_state_view& state = views->states[t];
    state.shard_dim = own.states[t].shard_dim;
    state.num_ranks = slice.tensors[t].num_ranks;
    state.rank = slice.tensors[t].rank;
    std::copy_n(slice.tensors[t].parts.begin(), 4, state.shard_parts);
    std::copy_n(slice.tensors[t].repeats.begin(), 4, state.shard_repeats);
    QUIRE_RETURN_IF_ERROR(check_view(state, "record"));
    const std::string other = difference_of_states(state, own.states[t]);
    if (!other.empty()) return invalid("record: %s", other.c_str());
  }
  return {};
}

}  // namespace

bool RecordFamily::has(const Config& config, const CachePlace& place) const {
  return look_ahead_of(config.groups[place.group.value], place) == look_ahead;
}

std::string layer_by_layer(const std::string& order) {
  const bool has_blocks = order.find('J') != std::string::npos;
  std::string out = has_blocks ? "BJP" : "BP";
  for (const char letter : order) {
    if (letter != 'B' && letter != 'P' && letter != 'L' && letter != 'J') out += letter;
  }
  return out;
}

std::vector<RecordFamily> families_of(const Config& config) {
  std::vector<RecordFamily> families;
  for (uint32_t g = 0; g < config.groups.size(); ++g) {
    const GroupPlan& group = config.groups[g];
    for (const uint32_t p : group.places) {
      const uint32_t look_ahead = look_ahead_of(group, config.places[p]);
      const auto known = std::find_if(families.begin(), families.end(), [&](const RecordFamily& family) {
        const GroupPlan& first = config.groups[family.groups[0]];
        return family.look_ahead == look_ahead && first.live == group.live && first.block_tokens == group.block_tokens &&
               first.kernel_blocks_per_part == group.kernel_blocks_per_part;
      });
      RecordFamily& family = known == families.end() ? families.emplace_back() : *known;
      if (!family.groups.empty() && family.groups.back() == g) continue;
      family.groups.push_back(g);
      family.columns += group.ids_per_block;
      family.look_ahead = look_ahead;
    }
  }
  return families;
}

RecordShape RecordShape::of(const Config& config, uint32_t shard, const RecordFamily& family) {
  const GroupPlan& first = config.groups[family.groups[0]];
  RecordShape shape;
  shape.order = family.groups.size() == 1 ? record_order(first.order) : layer_by_layer(first.order);
  shape.is_state = first.is_state();
  shape.kernel_blocks = first.kernel_blocks_per_part;
  for (const uint32_t group : family.groups) {
    for (const uint32_t p : config.groups[group].places) {
      const PlaceViews& views = config.shards[shard].views[p];
      if (views.empty() || !family.has(config, config.places[p])) continue;
      const CacheSlice slice = slice_of(views);
      const auto known = std::find(shape.slices.begin(), shape.slices.end(), slice);
      const auto index = static_cast<uint32_t>(known - shape.slices.begin());
      if (known == shape.slices.end()) shape.slices.push_back(slice);
      shape.members.push_back({config.places[p].layer, config.places[p].sub, index});
    }
  }
  return shape;
}

uint64_t RecordShape::encoded_bytes() const {
  uint64_t bytes = 20 + order.size() + members.size() * kMemberBytes;
  for (const CacheSlice& slice : slices) bytes += kSliceBytes + slice.tensors.size() * kTensorBytes;
  return bytes;
}

void RecordShape::encode(std::vector<uint8_t>* out) const {
  put(order.size(), 4, out);
  out->insert(out->end(), order.begin(), order.end());
  put(is_state ? 1 : 0, 4, out);
  put(kernel_blocks, 4, out);
  put(slices.size(), 4, out);
  for (const CacheSlice& slice : slices) {
    for (const uint32_t number : {slice.first_head, slice.num_heads, slice.rows, slice.context_rank, slice.context_ranks})
      put(number, 4, out);
    put(slice.tensors.size(), 4, out);
    for (const StateSlice& tensor : slice.tensors) {
      put(tensor.num_ranks, 4, out);
      put(tensor.rank, 4, out);
      for (const uint32_t part : tensor.parts) put(part, 4, out);
      for (const uint32_t repeat : tensor.repeats) put(repeat, 4, out);
      for (const uint64_t extent : tensor.shape) put(extent, 8, out);
    }
  }
  put(members.size(), 4, out);
  for (const RecordMember& member : members) {
    for (const uint32_t number : {member.layer, member.sub, member.slice}) put(number, 4, out);
  }
}

Result<RecordShape> RecordShape::decode(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  RecordShape shape;
  for (uint32_t n = in.count(kNumLetters, 1); n > 0; --n) shape.order += static_cast<char>(in.take(1));
  const uint32_t state = in.word();
  shape.is_state = state == 1;
  shape.kernel_blocks = in.word();
  for (uint32_t n = in.count(kMostMembers, kSliceBytes); n > 0; --n) {
    CacheSlice slice;
    for (uint32_t* number : {&slice.first_head, &slice.num_heads, &slice.rows, &slice.context_rank, &slice.context_ranks})
      *number = in.word();
    for (uint32_t t = in.count(kMostTensors, kTensorBytes); t > 0; --t) {
      StateSlice tensor;
      tensor.num_ranks = in.word();
      tensor.rank = in.word();
      for (uint32_t& part : tensor.parts) part = in.word();
      for (uint32_t& repeat : tensor.repeats) repeat = in.word();
      for (uint64_t& extent : tensor.shape) extent = in.take(8);
      slice.tensors.push_back(tensor);
    }
    shape.slices.push_back(std::move(slice));
  }
  for (uint32_t n = in.count(kMostMembers, kMemberBytes); n > 0; --n) {
    RecordMember member;
    for (uint32_t* number : {&member.layer, &member.sub, &member.slice}) *number = in.word();
    if (member.slice >= shape.slices.size()) return fail(QUIRE_DATA_LOSS, "record: slice %u of %zu", member.slice, shape.slices.size());
    shape.members.push_back(member);
  }
  std::set<std::pair<uint32_t, uint32_t>> caches;
  for (const RecordMember& member : shape.members) {
    if (!caches.emplace(member.layer, member.sub).second) return fail(QUIRE_DATA_LOSS, "record: layer %u stands in it twice", member.layer);
  }
  const bool legal = state <= 1 && !shape.members.empty() && shape.kernel_blocks >= 1 && shape.kernel_blocks <= kMostKernelBlocks;
  if (!in.done() || !legal) return fail(QUIRE_DATA_LOSS, "record: its shape is cut or changed");
  if (!Order::parse(shape.order).ok() || shape.order[0] != 'B') return fail(QUIRE_DATA_LOSS, "record: its order is none");
  return shape;
}

Result<RecordViews> RecordViews::make(const Config& config, const RecordShape& shape) {
  auto order = Order::parse(shape.order);
  if (!order.ok()) return order.take_status();
  PoolShape pool;
  pool.num_pages = kMostBlocks;
  GroupShape& group = pool.groups.emplace_back();
  group.order = *order;
  group.kernel_blocks_per_part = shape.kernel_blocks;
  std::vector<const PlaceViews*> own;
  for (const RecordMember& member : shape.members) {
    const PlaceViews* const views = own_views(config, member.layer, member.sub);
    if (views == nullptr) return invalid("record: layer %u, sub %u has no cache here", member.layer, member.sub);
    auto made = member_shape(shape, member, *views, static_cast<uint32_t>(own.size()));
    if (!made.ok()) return made.take_status();
    group.members.push_back(std::move(*made));
    own.push_back(views);
  }
  auto layout = lay_out(pool);
  if (!layout.ok()) return layout.take_status();
  RecordViews out;
  out.block_bytes = layout->page_bytes;
  out.members = std::move(layout->groups[0].members);
  for (size_t i = 0; i < own.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(number_views(shape.slices[shape.members[i].slice], *own[i], &out.members[i]));
    const quire_kv_view& kv = out.members[i].kv;
    if (kv.num_sides == 0) continue;
    const auto rows = checked_mul(uint64_t{kv.block_tokens} * shape.kernel_blocks, uint64_t{kv.tokens_per_row});
    const uint64_t tokens = checked_mul(rows.value_or(0), uint64_t{std::max(kv.context_ranks, 1u)}).value_or(0);
    if (tokens == 0 || tokens > kMostTokens) return invalid("record: layer %u has blocks of no legal length", shape.members[i].layer);
    if (out.block_tokens != 0 && out.block_tokens != tokens)
      return invalid("record: layer %u has blocks of %" PRIu64 " tokens, others of %u", shape.members[i].layer, tokens, out.block_tokens);
    out.block_tokens = static_cast<uint32_t>(tokens);
  }
  return out;
}

}  // namespace quire
