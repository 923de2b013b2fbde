#include "core/layout/layout.h"

#include <algorithm>
#include <cinttypes>
#include <numeric>

#include "core/base/checked.h"
#include "core/layout/codec.h"
#include "core/layout/leaves.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr uint64_t kMaxIds = (uint64_t{1} << 31) - 1;

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
    for (GroupLeaves& group : groups_) {
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
      for (const GroupLeaves& group : groups_) most = std::max(most, group.extent(letter));
      extents.push_back(most);
      planes *= most;  // at most members * sides squared, far below 63 bits
    }
    for (const GroupLeaves& group : groups_) need = std::max(need, group.strip_need());
    out_.num_planes = planes;
    out_.strip_bytes = round_up(std::max(need, ceil_div(pool_.min_page_bytes, planes)), widest_element());
    QUIRE_RETURN_IF_ERROR(round_strip());
    const auto page = checked_mul(out_.strip_bytes, planes);
    const auto plane_bytes = checked_mul(out_.strip_bytes, pool_.num_pages);
    const auto total = page ? checked_mul(*page, pool_.num_pages) : page;
    if (!total) {
      return fail(QUIRE_OUT_OF_RANGE,
                  "num_pages = %" PRIu64 " with %" PRIu64 " planes of %" PRIu64 " bytes each; at most %" PRIu64 " bytes", pool_.num_pages,
                  planes, out_.strip_bytes, kMaxSize);
    }
    out_.page_bytes = *page;
    const uint64_t num_regions = pool_.region_per_lane ? extents[0] : 1;
    planes_per_region_ = planes / num_regions;
    for (uint32_t r = 0; r < num_regions; ++r) {
      out_.regions.push_back(
          {sizeof(quire_region_info), r, *plane_bytes * planes_per_region_, kRegionAlignment, out_.strip_bytes, planes_per_region_});
    }
    for (GroupLeaves& group : groups_) {
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
      for (const MemberShape& member : shape.members) widest = std::max(widest, alignment_of(member));
    }
    return widest;
  }

  static Status check_alignment(const Leaf& leaf, const GroupShape& shape) {
    const MemberShape& member = shape.members[leaf.member];
    uint64_t steps = leaf.offset;
    for (const uint64_t stride : leaf.stride) steps |= stride;
    if (steps % alignment_of(member) == 0) return {};
    return fail(QUIRE_NOT_REPRESENTABLE,
                "layout %s: layer %u would lie off its %" PRIu64 "-byte elements behind a narrower layer of its group",
                shape.order.text().c_str(), member.layer, alignment_of(member));
  }

  // Rows stay as small as they are unless their lowered ids would not fit 31 bits.
  Status round_strip() {
    for (GroupLeaves& group : groups_) {
      for (const Leaf& leaf : group.leaves()) {
        if (group.blocks_per_page() == 1) continue;
        const uint64_t unit = std::gcd(out_.strip_bytes, leaf.stride[index_of(Letter::J)]);
        const auto ids = checked_mul(out_.strip_bytes / unit, pool_.num_pages);
        if (ids && *ids <= kMaxIds) continue;
        uint64_t unit_wanted = group.block_stride_multiple();
        if (unit_wanted == 0 || unit_wanted > out_.strip_bytes) break;
        const auto fits = [this](uint64_t bytes) {
          const auto all = checked_mul(ceil_div(out_.strip_bytes, bytes), pool_.num_pages);
          return all && *all <= kMaxIds;
        };
        while (unit_wanted % (2 * widest_element()) == 0 && fits(unit_wanted / 2)) unit_wanted /= 2;  // the least padding
        out_.strip_bytes = round_up(out_.strip_bytes, unit_wanted);
        break;
      }
    }
    return {};
  }

  // Two layers by number, or the two sides of one.
  static std::string both(const GroupShape& shape, const Leaf& a, const Leaf& b) {
    const std::string x = std::to_string(shape.members[a.member].layer);
    const std::string y = std::to_string(shape.members[b.member].layer);
    if (a.member != b.member) return "layers " + x + " and " + y;
    return std::string(a.side == 0 ? "K" : "V") + " of layer " + x + " and " + (b.side == 0 ? "K" : "V") + " of layer " + y;
  }

  // One rule of lowering for all members of a group: the ratio of page to block stride must be the same.
  Status lower(GroupLeaves& group, quire_lowering* lowering) const {
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
                    "layout %s: one table cannot serve %s: page %" PRIu64 " bytes, kernel blocks %" PRIu64 " and %" PRIu64 " bytes apart",
                    shape.order.text().c_str(), both(shape, *first, leaf).c_str(), out_.strip_bytes, first->stride[index_of(Letter::J)],
                    block);
      }
    }
    lowering->part_factor = lowering->block_factor * shape.kernel_blocks_per_part;
    const auto pages = checked_mul(pool_.num_pages - 1, lowering->page_factor);
    const auto blocks = checked_mul(group.blocks_per_page() - 1, lowering->block_factor);
    const auto last = pages && blocks ? checked_add(*pages, *blocks) : std::nullopt;
    if (!last || *last >= kMaxIds) {
      const std::string whose = shape.members.empty() ? "a group without layers here" : "layer " + std::to_string(shape.members[0].layer);
      return fail(QUIRE_OUT_OF_RANGE, "num_pages = %" PRIu64 " with %" PRIu64 " lowered ids each for %s; at most %" PRIu64 " lowered ids",
                  pool_.num_pages, lowering->page_factor, whose.c_str(), uint64_t{kMaxIds});
    }
    lowering->num_lowered_ids = *last + 1;
    return {};
  }

  void views(GroupLeaves& group, GroupLayout* layout) const {
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
        for (quire_state_view& state : views.states) {
          state.parts_per_page = shape.parts_per_page;
          state.num_pages = pool_.num_pages;
          state.num_ranks = 1;
        }
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
      kv.codec = member.codec;
      kv.codec_params = member.codec_params;
      kv.model_heads = member.num_heads;
      kv.kernel_blocks_per_part = shape.kernel_blocks_per_part;
      kv.tokens_per_row = member.tokens_per_row;
      kv.num_pages = pool_.num_pages;
      kv.head_dim[leaf.side] = member.width[leaf.side];
      kv.offset[leaf.side] = static_cast<int64_t>(leaf.offset);
      kv.stride_page[leaf.side] = page;
      kv.stride_block[leaf.side] = block;
      kv.unit[leaf.side] = unit;
      const bool rows_outer = !shape.order.left_of(Letter::H, Letter::T);
      const AtomStrides inside = strides_inside(member, leaf.side, rows_outer);  // where the codec rules, the letters do not
      kv.stride_token[leaf.side] = cuts_between_rows(member.codec) ? static_cast<int64_t>(leaf.stride[index_of(Letter::T)]) : inside.token;
      kv.stride_head[leaf.side] = cuts_between_heads(member.codec) ? static_cast<int64_t>(leaf.stride[index_of(Letter::H)]) : inside.head;
      if (member.codec == QUIRE_CODEC_STRIDED) kv.stride_dim[leaf.side] = static_cast<int64_t>(leaf.stride[index_of(Letter::D)]);
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
  std::vector<GroupLeaves> groups_;
  uint64_t planes_per_region_ = 1;
  PoolLayout out_;
};

}  // namespace

Result<PoolLayout> lay_out(const PoolShape& pool) {
  if (pool.num_pages == 0) return invalid("num_pages = 0; must be at least 1");
  return PoolBuilder(pool).build();
}

}  // namespace quire
