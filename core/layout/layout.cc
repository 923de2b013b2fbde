#include "core/layout/layout.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <map>
#include <numeric>

#include "core/base/checked.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr uint64_t kMaxIds = (uint64_t{1} << 31) - 1;
constexpr int64_t kAny = -1;  // a selecting letter that has been merged

// One side of one member: the smallest thing that has its own extents. K, P and L select leaves; the other letters walk inside them.
struct Leaf {
  uint32_t member = 0;
  uint32_t side = 0;
  std::array<uint64_t, kNumLetters> extent{};
  std::array<uint64_t, kNumLetters> stride{};  // bytes; 0 where the letter is absent
  std::array<int64_t, 3> key{};                // lane, index, side; kAny once that letter was passed
  uint64_t size = 0;                           // bytes of everything right of the letter reached, for all leaves with this key
  uint64_t offset = 0;                         // from the start of the strip, later of the region
  uint64_t plane = 0;
};

uint64_t element_alignment(const MemberShape& member) {
  if (!member.is_state()) return element_bytes(member.dtype);
  uint64_t widest = 1;
  for (const quire_state_tensor& tensor : member.tensors) widest = std::max(widest, element_bytes(tensor.dtype));
  return widest;
}

uint64_t selector(const Leaf& leaf, Letter letter, const std::vector<MemberShape>& members) {
  if (letter == Letter::K) return leaf.side;
  return letter == Letter::L ? members[leaf.member].lane : members[leaf.member].index;
}

uint32_t key_of(Letter letter) { return letter == Letter::L ? 0 : letter == Letter::P ? 1 : 2; }
bool selects(Letter letter) { return letter == Letter::L || letter == Letter::P || letter == Letter::K; }

class GroupBuilder {
 public:
  explicit GroupBuilder(const GroupShape& shape) : shape_(shape) {}

  // Strides and offsets inside a page, and what a strip must hold. All steps up to the letter B, from the right.
  Status build() {
    QUIRE_RETURN_IF_ERROR(make_leaves());
    for (uint32_t i = shape_.order.size(); i-- > 0;) {
      const Letter letter = shape_.order[i];
      if (letter == Letter::B) break;
      if (letter == Letter::J) align_parts();
      QUIRE_RETURN_IF_ERROR(selects(letter) ? merge(letter) : walk(letter));
    }
    return check_overlap();
  }

  uint64_t strip_need() const {
    uint64_t need = 0;
    for (const Leaf& leaf : leaves_) need = std::max(need, leaf.size);
    return need;
  }
  uint64_t extent(Letter letter) const {
    uint64_t most = 1;
    for (const Leaf& leaf : leaves_) most = std::max(most, selector(leaf, letter, shape_.members) + 1);
    return most;
  }
  std::vector<Leaf>& leaves() { return leaves_; }
  const GroupShape& shape() const { return shape_; }
  uint64_t blocks_per_page() const { return uint64_t{shape_.parts_per_page} * shape_.kernel_blocks_per_part; }

  // Least common multiple of the block strides: a strip of this multiple lowers to few ids. 0 when it is not representable in 63 bits.
  uint64_t block_stride_multiple() const {
    uint64_t multiple = 1;
    if (blocks_per_page() == 1) return multiple;
    for (const Leaf& leaf : leaves_) {
      const uint64_t stride = leaf.stride[index_of(Letter::J)];
      const auto next = checked_mul(multiple, stride / std::gcd(multiple, stride));
      if (!next) return 0;
      multiple = *next;
    }
    return multiple;
  }

 private:
  uint32_t layer(const Leaf& leaf) const { return shape_.members[leaf.member].layer; }

  Status make_leaves() {
    for (uint32_t m = 0; m < shape_.members.size(); ++m) {
      const MemberShape& member = shape_.members[m];
      const uint32_t sides = std::max(member.num_sides, 1u);
      for (uint32_t side = 0; side < sides; ++side) {
        Leaf leaf;
        leaf.member = m;
        leaf.side = side;
        leaf.key = {member.lane, member.index, side};
        leaf.extent.fill(1);
        leaf.extent[index_of(Letter::J)] = blocks_per_page();
        if (member.is_state()) {
          leaf.size = state_span_bytes(member.tensors);
        } else {
          leaf.size = element_bytes(member.dtype);
          leaf.extent[index_of(Letter::T)] = member.rows;
          leaf.extent[index_of(Letter::H)] = member.num_heads;
          leaf.extent[index_of(Letter::D)] = member.width[side];
        }
        QUIRE_RETURN_IF_ERROR(check_absent(leaf, member));
        leaves_.push_back(leaf);
      }
    }
    return {};
  }

  // An absent letter has extent 1. L is the exception: without it every lane has an id of its own.
  Status check_absent(const Leaf& leaf, const MemberShape& member) const {
    const std::string order = shape_.order.text();
    for (const Letter letter : {Letter::J, Letter::T, Letter::H, Letter::D}) {
      if (shape_.order.has(letter) || leaf.extent[index_of(letter)] == 1) continue;
      return invalid("layout %s: letter %c is absent, but its extent in layer %u is %" PRIu64, order.c_str(), letter_name(letter),
                     member.layer, leaf.extent[index_of(letter)]);
    }
    if (!shape_.order.has(Letter::P) && member.index != 0) {
      return invalid("layout %s: letter P is absent, but layer %u is number %u of its lane", order.c_str(), member.layer, member.index);
    }
    if (!shape_.order.has(Letter::K) && member.num_sides > 1) {
      return invalid("layout %s: letter K is absent, but layer %u has 2 sides", order.c_str(), member.layer);
    }
    return {};
  }

  // Where lanes have ids of their own, parts of different lanes share a page: the n-th part starts at the same byte in every lane.
  void align_parts() {
    if (shape_.order.has(Letter::L) || blocks_per_page() == 1) return;
    std::map<std::array<int64_t, 2>, uint64_t> widest;
    for (const Leaf& leaf : leaves_) {
      uint64_t& size = widest[{leaf.key[1], leaf.key[2]}];
      size = std::max(size, leaf.size);
    }
    for (Leaf& leaf : leaves_) leaf.size = widest[{leaf.key[1], leaf.key[2]}];
  }

  // A walking letter: one stride for all leaves that are merged by now, so their extents must agree.
  Status walk(Letter letter) {
    const uint32_t at = index_of(letter);
    std::map<std::array<int64_t, 3>, const Leaf*> seen;
    for (const Leaf& leaf : leaves_) {
      const Leaf* first = seen.emplace(leaf.key, &leaf).first->second;
      if (first->extent[at] == leaf.extent[at]) continue;
      return fail(QUIRE_NOT_REPRESENTABLE,
                  "layout %s: %c is %" PRIu64 " in layer %u and %" PRIu64 " in layer %u; it must stand right of L, P and K",
                  shape_.order.text().c_str(), letter_name(letter), first->extent[at], layer(*first), leaf.extent[at], layer(leaf));
    }
    for (Leaf& leaf : leaves_) {
      leaf.stride[at] = leaf.size;
      const auto size = checked_mul(leaf.size, leaf.extent[at]);
      if (!size) return fail(QUIRE_OUT_OF_RANGE, "layer %u: bytes of one page pass 63 bits at letter %c", layer(leaf), letter_name(letter));
      leaf.size = *size;
    }
    return {};
  }

  // A selecting letter: the selected blocks lie one behind the other, each as large as it is.
  Status merge(Letter letter) {
    std::map<std::array<int64_t, 3>, std::map<uint64_t, uint64_t>> blocks;  // merged key -> selector -> bytes, then offset
    for (Leaf& leaf : leaves_) {
      leaf.key[key_of(letter)] = kAny;
      blocks[leaf.key][selector(leaf, letter, shape_.members)] = leaf.size;
    }
    std::map<std::array<int64_t, 3>, uint64_t> sums;
    for (auto& [key, list] : blocks) {
      uint64_t sum = 0;
      for (auto& [which, bytes] : list) {
        const auto next = checked_add(sum, bytes);
        if (!next) return fail(QUIRE_OUT_OF_RANGE, "layout %s: bytes of one page pass 63 bits", shape_.order.text().c_str());
        bytes = sum;
        sum = *next;
      }
      sums[key] = sum;
    }
    for (Leaf& leaf : leaves_) {
      leaf.offset += blocks[leaf.key][selector(leaf, letter, shape_.members)];
      leaf.size = sums[leaf.key];
    }
    return {};
  }

  // Two members with one (lane, index) would lie on top of each other.
  Status check_overlap() const {
    std::map<std::array<uint64_t, 2>, uint32_t> seen;
    for (const MemberShape& member : shape_.members) {
      const auto [it, fresh] = seen.emplace(std::array<uint64_t, 2>{member.lane, member.index}, member.layer);
      if (!fresh) return invalid("layers %u and %u both claim lane %u index %u", it->second, member.layer, member.lane, member.index);
    }
    return {};
  }

  const GroupShape& shape_;
  std::vector<Leaf> leaves_;
};

class PoolBuilder {
 public:
  explicit PoolBuilder(const PoolShape& pool) : pool_(pool) {}

  Result<PoolLayout> build() {
    for (const GroupShape& shape : pool_.groups) {
      groups_.emplace_back(shape);
      QUIRE_RETURN_IF_ERROR(groups_.back().build());
    }
    QUIRE_RETURN_IF_ERROR(check_planes());
    QUIRE_RETURN_IF_ERROR(place_planes());
    for (GroupBuilder& group : groups_) {
      GroupLayout layout;
      QUIRE_RETURN_IF_ERROR(lower(group, &layout.lowering));
      views(group, &layout);
      out_.groups.push_back(std::move(layout));
    }
    return std::move(out_);
  }

 private:
  bool empty() const {
    return std::all_of(pool_.groups.begin(), pool_.groups.end(), [](const GroupShape& g) { return g.members.empty(); });
  }

  // Every group cuts the region by the same letters; K only where all members have two sides.
  Status check_planes() const {
    const GroupShape* first = nullptr;
    for (const GroupShape& shape : pool_.groups) {
      if (shape.members.empty()) continue;
      if (first == nullptr) first = &shape;
      if (first->order.plane_letters() != shape.order.plane_letters()) {
        return fail(QUIRE_NOT_REPRESENTABLE, "layers %u and %u share pages but their layouts %s and %s cut different planes",
                    first->members[0].layer, shape.members[0].layer, first->order.text().c_str(), shape.order.text().c_str());
      }
      for (const MemberShape& member : shape.members) {
        if (shape.order.left_of(Letter::K, Letter::B) && member.num_sides != 2) {
          return fail(QUIRE_NOT_REPRESENTABLE, "layout %s: K stands left of B, but layer %u, which shares the pool, has no K side",
                      shape.order.text().c_str(), member.layer);
        }
      }
    }
    if (pool_.region_per_lane && first != nullptr && first->order[0] != Letter::L) {
      return invalid("layout %s: a region per lane needs L as the first letter", first->order.text().c_str());
    }
    return {};
  }

  Status place_planes() {
    if (empty()) return {};
    const std::string letters = std::find_if(pool_.groups.begin(), pool_.groups.end(), [](const GroupShape& g) {
                                  return !g.members.empty();
                                })->order.plane_letters();
    std::vector<uint64_t> extents;
    uint64_t planes = 1;
    uint64_t need = 0;
    for (const char name : letters) {
      const Letter letter = name == 'L' ? Letter::L : name == 'P' ? Letter::P : Letter::K;
      uint64_t most = 1;
      for (const GroupBuilder& group : groups_) most = std::max(most, group.extent(letter));
      extents.push_back(most);
      planes *= most;  // at most members * sides squared, far below 63 bits
    }
    for (const GroupBuilder& group : groups_) need = std::max(need, group.strip_need());
    out_.num_planes = planes;
    out_.strip_bytes = round_up(std::max(need, ceil_div(pool_.min_page_bytes, planes)), widest_element());
    QUIRE_RETURN_IF_ERROR(round_strip());
    const auto page = checked_mul(out_.strip_bytes, planes);
    const auto plane_bytes = checked_mul(out_.strip_bytes, pool_.num_pages);
    const auto total = page ? checked_mul(*page, pool_.num_pages) : page;
    if (!total) {
      return fail(QUIRE_OUT_OF_RANGE, "%" PRIu64 " pages of %" PRIu64 " planes of %" PRIu64 " bytes pass 63 bits", pool_.num_pages, planes,
                  out_.strip_bytes);
    }
    out_.page_bytes = *page;
    const uint64_t num_regions = pool_.region_per_lane ? extents[0] : 1;
    planes_per_region_ = planes / num_regions;
    for (uint32_t r = 0; r < num_regions; ++r) {
      out_.regions.push_back(
          {sizeof(quire_region_info), r, *plane_bytes * planes_per_region_, kRegionAlignment, out_.strip_bytes, planes_per_region_});
    }
    for (GroupBuilder& group : groups_) {
      for (Leaf& leaf : group.leaves()) {
        for (size_t i = 0; i < letters.size(); ++i) {
          const Letter letter = letters[i] == 'L' ? Letter::L : letters[i] == 'P' ? Letter::P : Letter::K;
          leaf.plane = leaf.plane * extents[i] + selector(leaf, letter, group.shape().members);
        }
        QUIRE_RETURN_IF_ERROR(check_alignment(leaf, group.shape()));
        leaf.offset += leaf.plane % planes_per_region_ * *plane_bytes;
      }
    }
    return {};
  }

  uint64_t widest_element() const {
    uint64_t widest = 1;
    for (const GroupShape& shape : pool_.groups) {
      for (const MemberShape& member : shape.members) widest = std::max(widest, element_alignment(member));
    }
    return widest;
  }

  static Status check_alignment(const Leaf& leaf, const GroupShape& shape) {
    const MemberShape& member = shape.members[leaf.member];
    uint64_t steps = leaf.offset;
    for (const uint64_t stride : leaf.stride) steps |= stride;
    if (steps % element_alignment(member) == 0) return {};
    return fail(QUIRE_NOT_REPRESENTABLE,
                "layout %s: layer %u would lie off its %" PRIu64 "-byte elements behind a narrower layer of its group",
                shape.order.text().c_str(), member.layer, element_alignment(member));
  }

  // Rows stay as small as they are unless their lowered ids would not fit 31 bits.
  Status round_strip() {
    for (GroupBuilder& group : groups_) {
      for (const Leaf& leaf : group.leaves()) {
        if (group.blocks_per_page() == 1) continue;
        const uint64_t unit = std::gcd(out_.strip_bytes, leaf.stride[index_of(Letter::J)]);
        const auto ids = checked_mul(out_.strip_bytes / unit, pool_.num_pages);
        if (ids && *ids <= kMaxIds) continue;
        const uint64_t multiple = group.block_stride_multiple();
        if (multiple != 0 && multiple <= out_.strip_bytes) out_.strip_bytes = round_up(out_.strip_bytes, multiple);
        break;
      }
    }
    return {};
  }

  // One rule of lowering for all members of a group: the ratio of page to block stride must be the same.
  Status lower(GroupBuilder& group, quire_lowering* lowering) const {
    const GroupShape& shape = group.shape();
    *lowering = {sizeof(quire_lowering), shape.parts_per_page, shape.kernel_blocks_per_part, 0, 1, 1, 1, 0};
    const Leaf* first = nullptr;
    for (Leaf& leaf : group.leaves()) {
      if (group.blocks_per_page() == 1) continue;
      const uint64_t block = leaf.stride[index_of(Letter::J)];
      const uint64_t unit = std::gcd(out_.strip_bytes, block);
      if (first == nullptr) {
        first = &leaf;
        lowering->page_factor = out_.strip_bytes / unit;
        lowering->block_factor = block / unit;
      } else if (lowering->page_factor != out_.strip_bytes / unit || lowering->block_factor != block / unit) {
        return fail(QUIRE_NOT_REPRESENTABLE,
                    "layout %s: one table cannot serve layers %u and %u: page %" PRIu64 " bytes, kernel blocks %" PRIu64 " and %" PRIu64
                    " bytes apart",
                    shape.order.text().c_str(), shape.members[first->member].layer, shape.members[leaf.member].layer, out_.strip_bytes,
                    first->stride[index_of(Letter::J)], block);
      }
    }
    lowering->part_factor = lowering->block_factor * shape.kernel_blocks_per_part;
    const auto pages = checked_mul(pool_.num_pages - 1, lowering->page_factor);
    const auto blocks = checked_mul(group.blocks_per_page() - 1, lowering->block_factor);
    const auto last = pages && blocks ? checked_add(*pages, *blocks) : std::nullopt;
    if (!last || *last >= kMaxIds) {
      return fail(QUIRE_OUT_OF_RANGE, "%" PRIu64 " pages times %" PRIu64 " lowered ids each; all lowered ids must fit 31 bits",
                  pool_.num_pages, lowering->page_factor);
    }
    lowering->num_lowered_ids = *last + 1;
    return {};
  }

  void views(GroupBuilder& group, GroupLayout* layout) const {
    const GroupShape& shape = group.shape();
    layout->members.resize(shape.members.size());
    for (const Leaf& leaf : group.leaves()) {
      const MemberShape& member = shape.members[leaf.member];
      PlaceViews& views = layout->members[leaf.member];
      const uint32_t region = static_cast<uint32_t>(leaf.plane / planes_per_region_);
      const int64_t page = static_cast<int64_t>(out_.strip_bytes);
      const int64_t block = static_cast<int64_t>(leaf.stride[index_of(Letter::J)]);
      const int64_t unit = page / static_cast<int64_t>(layout->lowering.page_factor);
      if (member.is_state()) {
        state_views(member, leaf, region, page, block, unit, &views.states);
        continue;
      }
      quire_kv_view& kv = views.kv;
      kv.struct_size = sizeof kv;
      kv.column = member.column;
      kv.region = region;
      kv.num_sides = member.num_sides;
      kv.num_heads = member.num_heads;
      kv.block_tokens = member.rows;
      kv.blocks_per_page = static_cast<uint32_t>(group.blocks_per_page());
      kv.dtype = member.dtype;
      kv.num_pages = pool_.num_pages;
      kv.head_dim[leaf.side] = member.width[leaf.side];
      kv.offset[leaf.side] = static_cast<int64_t>(leaf.offset);
      kv.stride_page[leaf.side] = page;
      kv.stride_block[leaf.side] = block;
      kv.unit[leaf.side] = unit;
      kv.stride_token[leaf.side] = static_cast<int64_t>(leaf.stride[index_of(Letter::T)]);
      kv.stride_head[leaf.side] = static_cast<int64_t>(leaf.stride[index_of(Letter::H)]);
      kv.stride_dim[leaf.side] = static_cast<int64_t>(leaf.stride[index_of(Letter::D)]);
    }
  }

  static void state_views(const MemberShape& member, const Leaf& leaf, uint32_t region, int64_t page, int64_t block, int64_t unit,
                          std::vector<quire_state_view>* out) {
    uint64_t offset = leaf.offset;
    for (const quire_state_tensor& tensor : member.tensors) {
      const uint64_t element = element_bytes(tensor.dtype);
      offset = leaf.offset + round_up(offset - leaf.offset, element);
      quire_state_view view{};
      view.struct_size = sizeof view;
      view.column = member.column;
      view.region = region;
      view.dtype = tensor.dtype;
      view.ndim = tensor.ndim;
      view.offset = static_cast<int64_t>(offset);
      view.unit = unit;
      view.stride_page = page;
      view.stride_part = block;
      uint64_t stride = element;
      for (uint32_t k = tensor.ndim; k-- > 0;) {
        view.shape[k] = tensor.shape[k];
        view.stride[k] = static_cast<int64_t>(stride);
        stride *= tensor.shape[k];
      }
      offset += stride;
      out->push_back(view);
    }
  }

  static constexpr uint64_t kRegionAlignment = 4096;
  const PoolShape& pool_;
  std::vector<GroupBuilder> groups_;
  uint64_t planes_per_region_ = 1;
  PoolLayout out_;
};

uint64_t tensor_bytes(const quire_state_tensor& tensor) {
  uint64_t bytes = element_bytes(tensor.dtype);
  for (uint32_t k = 0; k < tensor.ndim; ++k) bytes *= tensor.shape[k];
  return bytes;
}

}  // namespace

uint64_t state_payload_bytes(const std::vector<quire_state_tensor>& tensors) {
  uint64_t bytes = 0;
  for (const quire_state_tensor& tensor : tensors) bytes += tensor_bytes(tensor);
  return bytes;
}

uint64_t state_span_bytes(const std::vector<quire_state_tensor>& tensors) {
  uint64_t bytes = 0;
  uint64_t widest = 1;
  for (const quire_state_tensor& tensor : tensors) {
    bytes = round_up(bytes, element_bytes(tensor.dtype)) + tensor_bytes(tensor);
    widest = std::max(widest, element_bytes(tensor.dtype));
  }
  return round_up(bytes, widest);
}

uint64_t payload_bytes(const MemberShape& member, uint32_t kernel_blocks_per_part) {
  if (member.is_state()) return state_payload_bytes(member.tensors);
  return uint64_t{kernel_blocks_per_part} * member.rows * member.num_heads *
         (uint64_t{member.width[0]} + (member.num_sides > 1 ? member.width[1] : 0)) * element_bytes(member.dtype);
}

Result<PoolLayout> lay_out(const PoolShape& pool) {
  if (pool.num_pages == 0) return invalid("num_pages = 0; must be at least 1");
  return PoolBuilder(pool).build();
}

}  // namespace quire
