// Policy auto: one group per live range; several parts of several layers per page; states with an id per lane. What the search chose is
// written into the shapes.
#include <algorithm>
#include <numeric>

#include "core/base/checked.h"
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

class PartsArranger {
 public:
  PartsArranger(const PlanInput& input, std::vector<RankCache>* caches) : in_(input), caches_(*caches) {}

  Result<Arrangement> run() {
    make_groups();
    QUIRE_RETURN_IF_ERROR(choose_blocks());
    std::vector<SearchGroup> needs;
    for (const Arrangement::Group& group : out_.groups) needs.push_back(need_of(group));
    const Order& order = in_.order;
    auto candidates = search_pages(needs, !order.left_of(Letter::J, Letter::P));
    if (!candidates.ok()) return candidates.take_status();
    apply(needs, (*candidates)[in_.candidate]);
    for (const SearchCandidate& one : *candidates) out_.costs.push_back(one.cost);
    out_.search_json = describe_search(*candidates, in_.candidate);
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
    const MemberShape& shape = caches_[i].shape;
    if (shape.is_state()) return state_span_bytes(shape.tensors);
    return payload_bytes(shape, static_cast<uint32_t>(group.block_tokens / group.kernel_tokens));
  }

  SearchGroup need_of(const Arrangement::Group& group) const {
    SearchGroup need;
    const LayerCache& first = cache_of(group.members[0]);
    need.is_state = first.is_state();
    need.one_lane = in_.contiguous;
    need.live_blocks = live_blocks(in_, first, group.block_tokens);
    need.bytes.resize(in_.pipeline_parallel);
    for (const uint32_t i : group.members) need.bytes[caches_[i].stage].push_back(part_bytes(group, i));
    return need;
  }

  void apply(const std::vector<SearchGroup>& needs, const SearchCandidate& won) {
    out_.min_page_bytes.assign(in_.pipeline_parallel, 0);
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Arrangement::Group& group = out_.groups[g];
      const SearchChoice& choice = won.choices[g];
      group.num_lanes = group.ids_per_block = choice.lanes;
      group.parts_per_page = choice.parts_per_page;
      for (uint32_t stage = 0; stage < in_.pipeline_parallel; ++stage) {
        const std::vector<uint32_t> lane_of = spread(needs[g].bytes[stage], choice.lanes);
        std::vector<uint64_t> sums(choice.lanes);
        std::vector<uint32_t> counts(choice.lanes);
        size_t k = 0;
        for (const uint32_t i : group.members) {
          if (caches_[i].stage != stage) continue;
          MemberShape& shape = caches_[i].shape;
          const uint32_t lane = lane_of[k];
          shape.lane = shape.column = lane;
          shape.index = counts[lane]++;
          sums[lane] += needs[g].bytes[stage][k++];
        }
        const uint64_t page = *std::max_element(sums.begin(), sums.end()) * choice.parts_per_page;
        out_.min_page_bytes[stage] =
            std::max(out_.min_page_bytes[stage], round_up(page, in_.page_alignment != 0 ? in_.page_alignment : kPageAlignment));
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
  Arrangement out_;
};

}  // namespace

Result<Arrangement> arrange_in_parts(const PlanInput& input, std::vector<RankCache>* caches) { return PartsArranger(input, caches).run(); }

}  // namespace quire
