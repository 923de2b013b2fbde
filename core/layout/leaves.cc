#include "core/layout/leaves.h"

#include <algorithm>
#include <cinttypes>
#include <numeric>
#include <span>
#include <tuple>

#include "core/base/checked.h"
#include "core/layout/codec.h"

namespace quire {
namespace {

constexpr int64_t kAny = -1;  // a selecting letter that has been merged

uint32_t key_of(Letter letter) { return letter == Letter::L ? 0 : letter == Letter::P ? 1 : 2; }
bool selects(Letter letter) { return letter == Letter::L || letter == Letter::P || letter == Letter::K; }
bool walks_inside(Letter letter) { return letter == Letter::T || letter == Letter::H || letter == Letter::D; }

// Calls `run` once for each value of `key`, in ascending order, with all leaves of that value. They keep their order in `leaves`.
template <typename Key, typename Run>
Status for_each_run(std::vector<Leaf>* leaves, Key key, Run run) {
  std::vector<Leaf*> sorted;
  sorted.reserve(leaves->size());
  for (Leaf& leaf : *leaves) sorted.push_back(&leaf);
  std::sort(sorted.begin(), sorted.end(), [&](const Leaf* a, const Leaf* b) {
    const auto x = key(*a), y = key(*b);
    return x != y ? x < y : a < b;
  });
  for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    while (end < sorted.size() && key(*sorted[end]) == key(*sorted[begin])) ++end;
    QUIRE_RETURN_IF_ERROR(run(std::span(sorted).subspan(begin, end - begin)));
  }
  return {};
}

}  // namespace

uint64_t selector(const Leaf& leaf, Letter letter, const std::vector<MemberShape>& members) {
  if (letter == Letter::K) return leaf.side;
  return letter == Letter::L ? members[leaf.member].lane : members[leaf.member].index;
}

Status GroupLeaves::build() {
  QUIRE_RETURN_IF_ERROR(make_leaves());
  bool inside = true;  // only T, H and D have been passed
  for (uint32_t i = shape_.order.size(); i-- > 0;) {
    const Letter letter = shape_.order[i];
    if (inside && !walks_inside(letter)) {
      QUIRE_RETURN_IF_ERROR(align_blocks(i));
      inside = false;
    }
    if (letter == Letter::B) break;
    if (letter == Letter::J) QUIRE_RETURN_IF_ERROR(align_parts());
    QUIRE_RETURN_IF_ERROR(selects(letter) ? merge(letter) : walk(letter));
  }
  return check_overlap();
}

uint64_t GroupLeaves::strip_need() const {
  uint64_t need = 0;
  for (const Leaf& leaf : leaves_) need = std::max(need, leaf.size);
  return need;
}

uint64_t GroupLeaves::extent(Letter letter) const {
  uint64_t most = 1;
  for (const Leaf& leaf : leaves_) most = std::max(most, selector(leaf, letter, shape_.members) + 1);
  return most;
}

uint64_t GroupLeaves::block_stride_multiple() const {
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

Status GroupLeaves::make_leaves() {
  for (uint32_t m = 0; m < shape_.members.size(); ++m) {
    const MemberShape& member = shape_.members[m];
    for (uint32_t side = 0; side < std::max(member.num_sides, 1u); ++side) {
      auto atom = atom_of(member, side);
      if (!atom.ok()) return atom.take_status();
      Leaf leaf;
      leaf.member = m;
      leaf.side = side;
      leaf.key = {member.lane, member.index, side};
      leaf.extent.fill(1);
      leaf.extent[index_of(Letter::J)] = blocks_per_page();
      leaf.extent[index_of(Letter::T)] = atom->rows;
      leaf.extent[index_of(Letter::H)] = atom->heads;
      leaf.extent[index_of(Letter::D)] = atom->items;
      leaf.size = atom->item_bytes + atom->padding;
      QUIRE_RETURN_IF_ERROR(check_absent(leaf, member));
      leaves_.push_back(leaf);
    }
  }
  return {};
}

// An absent letter has extent 1. L is the exception: without it every lane has an id of its own.
Status GroupLeaves::check_absent(const Leaf& leaf, const MemberShape& member) const {
  for (const Letter letter : {Letter::J, Letter::T, Letter::H, Letter::D}) {
    if (shape_.order.has(letter) || leaf.extent[index_of(letter)] == 1) continue;
    return invalid("layout %s: letter %c is absent, but its extent in layer %u is %" PRIu64, shape_.order.text().c_str(),
                   letter_name(letter), member.layer, leaf.extent[index_of(letter)]);
  }
  if (!shape_.order.has(Letter::P) && member.index != 0) {
    return invalid("layout %s: letter P is absent, but layer %u is number %u of its lane", shape_.order.text().c_str(), member.layer,
                   member.index);
  }
  if (!shape_.order.has(Letter::K) && member.num_sides > 1) {
    return invalid("layout %s: letter K is absent, but layer %u has 2 sides", shape_.order.text().c_str(), member.layer);
  }
  return {};
}

// Blocks of codecs that ask for it are rounded up, once everything of a block has been passed; `rest` letters are still to come.
Status GroupLeaves::align_blocks(uint32_t rest) {
  for (Leaf& leaf : leaves_) {
    const MemberShape& member = shape_.members[leaf.member];
    const uint64_t alignment = std::max(member.codec_params.block_alignment, 1u);
    if (alignment == 1 || member.is_state()) continue;
    for (uint32_t i = 0; i < rest; ++i) {
      if (!walks_inside(shape_.order[i]) || leaf.extent[index_of(shape_.order[i])] == 1) continue;
      return fail(QUIRE_NOT_REPRESENTABLE,
                  "layout %s: blocks of layer %u are aligned to %" PRIu64 " bytes, so %c must not stand left of %c",
                  shape_.order.text().c_str(), member.layer, alignment, letter_name(shape_.order[i]), letter_name(shape_.order[rest]));
    }
    const auto padded = checked_add(leaf.size, alignment - 1);
    if (!padded) return fail(QUIRE_OUT_OF_RANGE, "layer %u: bytes of one page pass 63 bits", member.layer);
    leaf.size = round_up(leaf.size, alignment);
  }
  return {};
}

// Kernel blocks stand as far apart as was asked for. Where lanes have ids of their own, parts of different lanes share a page: the n-th
// part starts at the same byte in every lane.
Status GroupLeaves::align_parts() {
  if (blocks_per_page() == 1) return {};
  for (Leaf& leaf : leaves_) {
    const auto padded = checked_add(leaf.size, shape_.block_step - 1);
    if (!padded) return fail(QUIRE_OUT_OF_RANGE, "layer %u: bytes of one page pass 63 bits", layer(leaf));
    leaf.size = round_up(leaf.size, shape_.block_step);
  }
  if (shape_.order.has(Letter::L)) return {};
  const auto without_lane = [](const Leaf& leaf) { return std::tuple(leaf.key[1], leaf.key[2]); };
  return for_each_run(&leaves_, without_lane, [](std::span<Leaf*> run) -> Status {
    uint64_t widest = 0;
    for (const Leaf* leaf : run) widest = std::max(widest, leaf->size);
    for (Leaf* leaf : run) leaf->size = widest;
    return {};
  });
}

// A walking letter: one stride for all leaves that are merged by now, so their extents must agree.
Status GroupLeaves::walk(Letter letter) {
  const uint32_t at = index_of(letter);
  const auto key = [](const Leaf& leaf) { return leaf.key; };
  QUIRE_RETURN_IF_ERROR(for_each_run(&leaves_, key, [&](std::span<Leaf*> run) -> Status {
    for (const Leaf* leaf : run) {
      if (leaf->extent[at] == run[0]->extent[at]) continue;
      return fail(QUIRE_NOT_REPRESENTABLE,
                  "layout %s: %c is %" PRIu64 " in layer %u and %" PRIu64 " in layer %u; it must stand right of L, P and K",
                  shape_.order.text().c_str(), letter_name(letter), run[0]->extent[at], layer(*run[0]), leaf->extent[at], layer(*leaf));
    }
    return {};
  }));
  for (Leaf& leaf : leaves_) {
    leaf.stride[at] = leaf.size;
    const auto size = checked_mul(leaf.size, leaf.extent[at]);
    if (!size) return fail(QUIRE_OUT_OF_RANGE, "layer %u: bytes of one page pass 63 bits at letter %c", layer(leaf), letter_name(letter));
    leaf.size = *size;
  }
  return {};
}

// A selecting letter: the selected blocks lie one behind the other, each as large as it is.
Status GroupLeaves::merge(Letter letter) {
  for (Leaf& leaf : leaves_) leaf.key[key_of(letter)] = kAny;
  std::vector<Leaf*> merged;  // leaves of one key
  uint64_t sum = 0;           // bytes of their blocks so far
  const auto finish = [&] {
    for (Leaf* leaf : merged) leaf->size = sum;
    merged.clear();
    sum = 0;
  };
  const auto block = [&](const Leaf& leaf) { return std::tuple(leaf.key, selector(leaf, letter, shape_.members)); };
  QUIRE_RETURN_IF_ERROR(for_each_run(&leaves_, block, [&](std::span<Leaf*> run) -> Status {
    if (!merged.empty() && merged[0]->key != run[0]->key) finish();
    const auto next = checked_add(sum, run[0]->size);
    if (!next) return fail(QUIRE_OUT_OF_RANGE, "layout %s: bytes of one page pass 63 bits", shape_.order.text().c_str());
    for (Leaf* leaf : run) leaf->offset += sum;
    merged.insert(merged.end(), run.begin(), run.end());
    sum = *next;
    return {};
  }));
  finish();
  return {};
}

// Two members with one (lane, index) would lie on top of each other.
Status GroupLeaves::check_overlap() const {
  std::vector<std::array<uint32_t, 3>> places;  // lane, index, layer
  places.reserve(shape_.members.size());
  for (const MemberShape& member : shape_.members) places.push_back({member.lane, member.index, member.layer});
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    const auto [lane, index, layer] = places[i];
    if (places[i - 1][0] != lane || places[i - 1][1] != index) continue;
    return invalid("layers %u and %u both claim lane %u index %u", places[i - 1][2], layer, lane, index);
  }
  return {};
}

}  // namespace quire
