// Policy auto: one group per live range; several parts of several layers per page; states with an id per lane. What the search chose is
// written into the shapes.
#include <algorithm>
#include <numeric>

#include "core/base/checked.h"
#include "core/layout/codec.h"
#include "core/plan/plan_input.h"
#include "core/plan/search.h"

namespace quire {
namespace {

constexpr uint64_t kReferenceTokens = 8192;  // the sequence that waste is measured against
constexpr double kReferenceStates = 2;       // read and written

// What must be equal for layers to share block tables.
bool one_group(const LayerCache& a, const LayerCache& b) {
  return a.live == b.live && ((a.desc.flags ^ b.desc.flags) & QUIRE_LAYER_DRAFT) == 0 && a.desc.encoder_tokens == b.desc.encoder_tokens;
}

double live_blocks(const PlanInput& input, const LayerCache& cache, uint64_t block_tokens) {
  if (cache.is_state()) return kReferenceStates;
  const uint64_t reference = std::min(input.max_model_len, kReferenceTokens);
  const LiveRange& live = cache.live;
  const uint64_t range = live.fixed ? cache.desc.encoder_tokens : live.window != 0 ? live.window : live.chunk != 0 ? live.chunk : reference;
  return static_cast<double>(ceil_div(std::min(range, reference), block_tokens));
}

// Lowered ids of 31 bits that count steps of this many bytes reach all of a shard's memory.
uint64_t step_for(uint64_t bytes) { return std::max<uint64_t>(ceil_div(bytes, uint64_t{1} << 31), 1); }

class PartsArranger {
 public:
  PartsArranger(const PlanInput& input, std::vector<RankCache>* caches) : in_(input), caches_(*caches) {}

  Result<Arrangement> run() {
    make_groups();
    QUIRE_RETURN_IF_ERROR(check_num_groups(in_, out_.groups.size()));
    QUIRE_RETURN_IF_ERROR(choose_blocks());
    if (in_.num_pages == 0) {
      for (const uint64_t bytes : in_.memory_bytes) step_ = std::max(step_, step_for(bytes));
    }
    std::vector<SearchGroup> needs;
    Result<std::vector<SearchCandidate>> candidates = search(&needs);
    for (uint64_t last = 0; candidates.ok() && in_.num_pages != 0 && last != step_;) {  // how long these pages are decides
      last = step_;
      step_ = std::max(step_, step_for(checked_mul(in_.num_pages, (*candidates)[0].page_bytes).value_or(kMaxSize)));
      if (step_ != last) candidates = search(&needs);
    }
    if (!candidates.ok()) return candidates.take_status();
    const uint32_t taken = std::min(in_.candidate, static_cast<uint32_t>(candidates->size() - 1));
    apply(needs, (*candidates)[taken]);
    for (const SearchCandidate& one : *candidates) out_.costs.push_back(one.cost);
    out_.search_json = describe_search(*candidates, taken);
    return std::move(out_);
  }

 private:
  const LayerCache& cache_of(uint32_t i) const { return in_.model->caches()[caches_[i].cache]; }

  void make_groups() {
    for (uint32_t i = 0; i < caches_.size(); ++i) {
      const auto group = std::find_if(out_.groups.begin(), out_.groups.end(),
                                      [&](const Arrangement::Group& g) { return one_group(cache_of(g.members[0]), cache_of(i)); });
      if (group != out_.groups.end()) {
        group->members.push_back(i);
      } else {
        out_.groups.emplace_back();
        out_.groups.back().members.push_back(i);
      }
    }
  }

  // Tokens: the longest block a layer asks for, else the wanted one. States: a checkpoint at every boundary at which tokens can be hit.
  Status choose_blocks() {
    uint64_t unit = 0;
    for (Arrangement::Group& group : out_.groups) {
      if (cache_of(group.members[0]).is_state()) continue;
      for (const uint32_t i : group.members) group.block_tokens = std::max(group.block_tokens, caches_[i].spec.block_tokens);
      group.kernel_tokens = cut_kernel_blocks(group.members, &caches_);
      group.block_tokens = round_up(group.block_tokens, group.kernel_tokens);
      for (const uint32_t i : group.members) {
        if (group.block_tokens % caches_[i].spec.block_tokens == 0) continue;
        return invalid("layer %u: block_tokens = %llu does not divide %llu, the block of another layer of its group",
                       caches_[i].shape.layer, static_cast<unsigned long long>(caches_[i].spec.block_tokens),
                       static_cast<unsigned long long>(group.block_tokens));
      }
      if (!cache_of(group.members[0]).live.fixed) unit = std::gcd(unit, group.block_tokens);
    }
    if (unit == 0) unit = in_.block_tokens;
    for (Arrangement::Group& group : out_.groups) {
      if (!cache_of(group.members[0]).is_state()) continue;
      group.block_tokens = in_.state_mode == StateMode::kOff ? round_up(in_.max_model_len, unit) : unit;
    }
    return {};
  }

  uint64_t part_bytes(const Arrangement::Group& group, uint32_t i) const {
    return (caches_[i].shape.is_state() ? 1 : group.block_tokens / group.kernel_tokens) * kernel_block_bytes(i);
  }

  Result<std::vector<SearchCandidate>> search(std::vector<SearchGroup>* needs) {
    needs->clear();
    for (const Arrangement::Group& group : out_.groups) needs->push_back(need_of(group));
    uint64_t memory = 0;
    if (in_.num_pages == 0 && !in_.memory_bytes.empty()) {
      const uint64_t least = *std::min_element(in_.memory_bytes.begin(), in_.memory_bytes.end());
      memory = checked_mul(least, in_.pipeline_parallel).value_or(kMaxSize);
    }
    return search_pages(*needs, {in_.page_alignment != 0 ? in_.page_alignment : kPageAlignment, step_, memory});
  }

  uint64_t kernel_block_bytes(uint32_t i) const {
    const MemberShape& shape = caches_[i].shape;
    return shape.is_state() ? state_span_bytes(shape.tensors) : block_span_bytes(shape);
  }

  // Whether rows of all layers of a group are equally long.
  bool alike(const Arrangement::Group& group) const {
    return std::all_of(group.members.begin(), group.members.end(),
                       [&](uint32_t i) { return kernel_block_bytes(i) == kernel_block_bytes(group.members[0]); });
  }

  SearchGroup need_of(const Arrangement::Group& group) const {
    SearchGroup need;
    const LayerCache& first = cache_of(group.members[0]);
    need.is_state = first.is_state();
    need.one_lane = in_.contiguous;
    const bool one_size = alike(group);
    const bool free = !in_.order_given && !in_.contiguous;
    need.by_layer = !in_.order.left_of(Letter::J, Letter::P) && (one_size || !free);
    need.may_interleave = free;
    need.blocks_per_part = need.is_state ? 1 : group.block_tokens / group.kernel_tokens;
    need.live_blocks = live_blocks(in_, first, group.block_tokens);
    const bool whole = !in_.order_given || in_.order.walks_whole_blocks();
    need.can_step = whole && (one_size || !need.by_layer) && (!in_.contiguous || need.blocks_per_part == 1);
    need.bytes.resize(in_.pipeline_parallel);
    for (const uint32_t i : group.members) need.bytes[caches_[i].stage].push_back(part_bytes(group, i));
    return need;
  }

  void apply(const std::vector<SearchGroup>& needs, const SearchCandidate& won) {
    out_.min_page_bytes = won.stage_page_bytes;
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Arrangement::Group& group = out_.groups[g];
      const SearchChoice& choice = won.choices[g];
      group.num_lanes = group.ids_per_block = choice.lanes;
      group.parts_per_page = choice.parts_per_page;
      group.block_step = choice.block_step;
      group.interleaved = choice.interleaved;
      for (uint32_t stage = 0; stage < in_.pipeline_parallel; ++stage) {
        const std::vector<uint32_t> lane_of = spread(needs[g].bytes[stage], choice.lanes);
        std::vector<uint32_t> counts(choice.lanes);
        size_t k = 0;
        for (const uint32_t i : group.members) {
          if (caches_[i].stage != stage) continue;
          MemberShape& shape = caches_[i].shape;
          const uint32_t lane = lane_of[k++];
          shape.lane = shape.column = lane;
          shape.index = counts[lane]++;
        }
      }
      by_lane(&group);
    }
  }

  void by_lane(Arrangement::Group* group) const {
    std::stable_sort(group->members.begin(), group->members.end(),
                     [this](uint32_t a, uint32_t b) { return caches_[a].shape.lane < caches_[b].shape.lane; });
    for (const uint32_t i : group->members) group->lanes.push_back(caches_[i].shape.lane);
  }

  const PlanInput& in_;
  std::vector<RankCache>& caches_;
  uint64_t step_ = 1;  // bytes; pages and kernel blocks are multiples of it
  Arrangement out_;
};

}  // namespace

Result<Arrangement> arrange_in_parts(const PlanInput& input, std::vector<RankCache>* caches) { return PartsArranger(input, caches).run(); }

}  // namespace quire
