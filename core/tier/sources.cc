#include "core/tier/sources.h"

#include <algorithm>

#include "core/tier/shardings.h"

namespace quire {
namespace {

uint32_t context_rank(const RecordShape& shape) { return shape.is_state ? 0 : shape.slices[shape.members[0].slice].context_rank; }

// On ranks of one pipeline stage, and of one place in context parallelism.
bool have_the_same_layers(const TierPart& a, const TierPart& b) {
  const auto same = [](const RecordMember& x, const RecordMember& y) { return x.layer == y.layer && x.sub == y.sub; };
  return a.family == b.family && context_rank(a.shape) == context_rank(b.shape) &&
         std::equal(a.shape.members.begin(), a.shape.members.end(), b.shape.members.begin(), b.shape.members.end(), same);
}

// Of states that is seen when their slices are laid over each other.
bool may_share_heads(const RecordShape& a, const RecordShape& b) {
  if (a.is_state) return true;
  for (size_t i = 0; i < a.members.size(); ++i) {
    const CacheSlice &x = a.slices[a.members[i].slice], &y = b.slices[b.members[i].slice];
    const uint64_t x_end = uint64_t{x.first_head} + x.num_heads, y_end = uint64_t{y.first_head} + y.num_heads;
    if (x.first_head < y_end && y.first_head < x_end) return true;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Sources>> Sources::make(const TierPlan& plan, std::span<const uint32_t> sizes) {
  QUIRE_RETURN_IF_ERROR(check_shardings(sizes));
  std::unique_ptr<Sources> sources(new Sources(plan));
  sources->sizes_.assign(sizes.begin(), sizes.end());
  sources->add_own();
  for (uint32_t f = 0; f < plan.families().size(); ++f) {
    for (const uint32_t size : sizes) {
      if (!sources->sets_[f].empty()) sources->add_others(f, size);
    }
  }
  return sources;
}

void Sources::add_own() {
  for (uint32_t p = 0; p < plan_.parts().size(); ++p) {
    const TierPart& part = plan_.parts()[p];
    RecordSource& source = all_.emplace_back();
    source.part = p;
    source.twin = part.twin;
    source.name = part.name;
    source.shape = part.shape;
    source.token_bytes = part.is_state ? 0 : part.runs.block_bytes() / part.block_tokens;
    source.readers = {p};
    if (sets_[part.family].empty()) sets_[part.family].emplace_back();
    sets_[part.family][0].push_back(p);
  }
}

void Sources::add_others(uint32_t family, uint32_t size) {
  const std::span<const TierPart> parts = plan_.parts();
  const std::vector<uint32_t>& own = sets_[family][0];
  std::vector<RecordSource> found;
  for (const uint32_t p : own) {
    const auto first = std::find_if(own.begin(), own.end(), [&](uint32_t q) { return have_the_same_layers(parts[q], parts[p]); });
    if (*first != p) continue;
    for (uint32_t rank = 0; rank < size; ++rank) {
      RecordSource source;
      source.part = p;
      source.is_own = false;
      source.shape = shape_of_rank(plan_.config(), parts[p].shape, rank, size);
      if (source.shape.members.empty()) return;
      source.name = part_name(source.shape, parts[p].live);
      const auto same = [&](const RecordSource& other) { return other.name == source.name; };
      if (std::any_of(found.begin(), found.end(), same)) continue;
      if (!source.shape.is_state) {
        auto views = RecordViews::make(plan_.config(), source.shape);
        if (!views.ok()) {  // rows that are equal on our ranks, and differ on those
          source.shape.order = layer_by_layer(source.shape.order);
          views = RecordViews::make(plan_.config(), source.shape);
        }
        if (!views.ok()) return;
        source.token_bytes = views->block_bytes / views->block_tokens;
      }
      for (const uint32_t q : own) {
        if (have_the_same_layers(parts[q], parts[p]) && may_share_heads(parts[q].shape, source.shape)) source.readers.push_back(q);
      }
      found.push_back(std::move(source));
    }
  }
  const auto names_of = [](std::vector<PartName> names) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  };
  std::vector<PartName> names;
  names.reserve(found.size());
  for (const RecordSource& source : found) names.push_back(source.name);
  names = names_of(std::move(names));
  for (const std::vector<uint32_t>& set : sets_[family]) {
    std::vector<PartName> others;
    others.reserve(set.size());
    for (const uint32_t source : set) others.push_back(all_[source].name);
    if (names_of(std::move(others)) == names) return;
  }
  std::vector<uint32_t>& set = sets_[family].emplace_back();
  for (RecordSource& source : found) {
    source.twin = static_cast<uint32_t>(all_.size());
    set.push_back(source.twin);
    all_.push_back(std::move(source));
  }
}

RecordKey Sources::key(uint32_t source, uint64_t end, const PrefixNames& names) const {
  return plan_.key(part_of(source), all_[source].name, end, names);
}

uint64_t Sources::record_bytes(uint32_t source, uint64_t end, uint32_t block_tokens) const {
  const uint64_t n = num_blocks(plan_.stretches(part_of(source), end, block_tokens));
  return n == 0 ? 0 : header_bytes(all_[source].shape, n) + n * block_tokens * all_[source].token_bytes;
}

std::vector<uint32_t> Sources::guess_blocks(uint32_t source, uint64_t end, uint64_t size, uint32_t first) const {
  const uint32_t own = part_of(source).block_tokens;
  const auto fits = [&](uint64_t tokens) {
    return tokens != 0 && plan_.unit_tokens() % tokens == 0 && record_bytes(source, end, static_cast<uint32_t>(tokens)) == size;
  };
  if (own == 0 || fits(first)) return {first};
  std::vector<uint32_t> found;
  uint32_t least = own;
  while (least % 2 == 0) least /= 2;
  for (uint64_t tokens = least; tokens <= plan_.unit_tokens(); tokens *= 2) {
    if (fits(tokens)) found.push_back(static_cast<uint32_t>(tokens));
  }
  return found;
}

}  // namespace quire
