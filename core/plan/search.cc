#include "core/plan/search.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

#include "core/base/checked.h"

namespace quire {
namespace {

constexpr uint64_t kMostStatesPerPage = 16;
constexpr uint64_t kMoreStatesPerPage = 128;  // where all shorter pages pad too much
constexpr uint64_t kMostParts = 4096;
constexpr uint32_t kLaneSteps = 32;  // twice as many lanes are tried one by one, more of them in steps of a 32nd
constexpr uint64_t kFineStep = 128;  // below it, rounding to powers of two costs next to nothing
constexpr uint64_t kMostDivisions = 4096;
constexpr uint64_t kBlockAlignment = 64;             // bytes, of kernel blocks that are stretched to fill a page
constexpr uint64_t kLargePage = uint64_t{64} << 20;  // pages grow beyond this only because one part is that large

// One way to distribute the layers of a group over lanes.
struct Split {
  uint32_t lanes = 1;
  uint32_t layers = 1;               // most layers in a lane
  std::vector<uint64_t> slot_bytes;  // [stage]: of the fullest lane, without steps
  uint64_t widest = 0;               // over stages
  uint64_t unit = 0;                 // the least divisor of a kernel block that steps may have; 0 = too large or unknown
};

// A split in pages of one length: how its kernel blocks are stretched, so that ids that count common divisors of page and block suffice.
struct Fit {
  const Split* split = nullptr;
  uint64_t step = 1;  // kernel blocks are a multiple of it
  bool interleaved = false;
  uint64_t parts = 0;
};

class Search {
 public:
  Search(const std::vector<SearchGroup>& groups, const SearchLimits& limits)
      : groups_(groups),
        least_(std::max<uint64_t>(limits.least_step, 1)),
        page_alignment_(std::max<uint64_t>(limits.page_alignment, 1)),
        memory_(static_cast<double>(limits.memory_bytes)) {
    while (step_ < least_) step_ *= 2;
    stepped_alignment_ = std::lcm(page_alignment_, step_);
  }

  Result<std::vector<SearchCandidate>> run() {
    for (const SearchGroup& group : groups_) QUIRE_RETURN_IF_ERROR(list_splits(group));
    if (memory_ > 0) reference_bytes_ = std::min(reference_bytes_, memory_ / kLeastSequences);
    std::vector<SearchCandidate> out = price_all(kMostStatesPerPage);
    const auto good = [](const SearchCandidate& one) { return one.waste_share < kPaddingLimit; };
    uint64_t most_states = kMostStatesPerPage;
    if (std::none_of(out.begin(), out.end(), good)) out = price_all(most_states = kMoreStatesPerPage);
    const bool few = have_few_pages(out);
    if (few) out = price_all(most_states);
    std::stable_sort(out.begin(), out.end(), [few](const SearchCandidate& a, const SearchCandidate& b) {
      const bool a_pads = !few && a.waste_share >= kPaddingLimit;
      const bool b_pads = !few && b.waste_share >= kPaddingLimit;
      if (a_pads != b_pads) return b_pads;
      return a.cost != b.cost ? a.cost < b.cost : a.page_bytes < b.page_bytes;
    });
    const auto same = [](const SearchCandidate& a, const SearchCandidate& b) {
      return a.page_bytes == b.page_bytes && a.cost == b.cost && a.columns == b.columns;
    };
    out.erase(std::unique(out.begin(), out.end(), same), out.end());
    return out;
  }

 private:
  std::vector<SearchCandidate> price_all(uint64_t most_states) const {
    std::vector<SearchCandidate> out;
    for (const uint64_t page : page_lengths(most_states)) {
      SearchCandidate candidate;
      if (price(page, &candidate)) out.push_back(std::move(candidate));
    }
    return out;
  }

  Status list_splits(const SearchGroup& group) {
    size_t most = 1;
    uint64_t payload = 0;
    for (const auto& layers : group.bytes) {
      most = std::max(most, layers.size());
      for (const uint64_t bytes : layers) {
        const auto sum = checked_add(payload, bytes);
        if (!sum || *sum > kMaxSize / kMostParts) return fail(QUIRE_OUT_OF_RANGE, "parts of all layers of a group pass 51 bits of bytes");
        payload = *sum;
      }
    }
    std::vector<Split> splits;
    const auto lanes = static_cast<uint32_t>(most);
    const uint32_t last = group.one_lane && !group.is_state ? 1 : lanes;
    for (uint32_t n = group.is_state ? lanes : 1;;) {
      Split split = split_into(group, n);
      if (splits.empty() || split.widest < splits.back().widest) splits.push_back(std::move(split));
      if (n >= last) break;
      n = std::min(last, n + std::max<uint32_t>(1, n / kLaneSteps));
    }
    payload_.push_back(payload);
    splits_.push_back(std::move(splits));
    reference_bytes_ += static_cast<double>(payload) * group.live_blocks;
    return {};
  }

  Split split_into(const SearchGroup& group, uint32_t lanes) const {
    Split split;
    split.lanes = lanes;
    for (const std::vector<uint64_t>& layers : group.bytes) {
      const std::vector<uint32_t> lane_of = spread(layers, lanes);
      std::vector<uint64_t> sums(lanes);
      std::vector<uint32_t> counts(lanes);
      for (size_t i = 0; i < layers.size(); ++i) {
        sums[lane_of[i]] += layers[i];
        split.layers = std::max(split.layers, ++counts[lane_of[i]]);
      }
      split.slot_bytes.push_back(*std::max_element(sums.begin(), sums.end()));
      split.widest = std::max(split.widest, split.slot_bytes.back());
    }
    const uint64_t block = block_of(group, split);
    if (group.can_step && least_ >= kFineStep && block % step_ != 0) {
      for (uint64_t k = std::min(block / least_, kMostDivisions); k > 0 && split.unit == 0; --k)
        split.unit = block % k == 0 ? block / k : 0;
    }
    return split;
  }

  // Bytes from one kernel block to the next, without steps.
  static uint64_t block_of(const SearchGroup& group, const Split& split) {
    return split.widest / group.blocks_per_part / (group.by_layer ? split.layers : 1);
  }

  // Pages that hold 1, 2, ... parts of the widest group, or just enough parts of another group to hold those.
  std::vector<uint64_t> page_lengths(uint64_t most_states) const {
    uint64_t base = 0;
    for (size_t g = 0; g < groups_.size(); ++g) base = std::max(base, splits_[g].back().widest);
    std::vector<uint64_t> out;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const Split& split : splits_[g]) {
        Fit fit{&split, groups_[g].can_step ? step_ : 1, !groups_[g].by_layer, 0};
        const uint64_t slot = std::max<uint64_t>(slot_bytes(groups_[g], fit, widest_stage(split)), 1);
        const uint64_t longest = std::max(kLargePage, round_up(base, slot) + stepped_alignment_);
        const uint64_t friendly = split.unit != 0 ? std::lcm(page_alignment_, split.unit) : 0;
        for (uint64_t s = 1; s <= most_states; ++s) {
          const uint64_t page = round_up(slot * ceil_div(base * s, slot), stepped_alignment_);
          if (page <= longest) out.push_back(page);
          if (friendly == 0 || friendly > split.widest) continue;
          const uint64_t other = round_up(split.widest * ceil_div(base * s, split.widest), friendly);
          if (other <= longest) out.push_back(other);
        }
      }
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  static size_t widest_stage(const Split& split) {
    return static_cast<size_t>(std::max_element(split.slot_bytes.begin(), split.slot_bytes.end()) - split.slot_bytes.begin());
  }

  // Bytes of a part in one stage, steps included.
  static uint64_t slot_bytes(const SearchGroup& group, const Fit& fit, size_t stage) {
    const uint64_t blocks = fit.split->slot_bytes[stage] / group.blocks_per_part;
    if (fit.interleaved || fit.step == 1) return group.blocks_per_part * round_up(blocks, fit.step);
    const uint64_t layer = block_of(group, *fit.split);
    return layer == 0 ? 0 : group.blocks_per_part * (blocks / layer) * round_up(layer, fit.step);
  }

  // What kernel blocks of `bytes` must be multiples of in pages of this length; `each` of them make one of a part. 0 = there is nothing.
  uint64_t step_of(uint64_t bytes, uint64_t each, uint64_t page, bool one_stage) const {
    const bool even = page % step_ == 0;
    if (!one_stage) return even ? step_ : 0;  // lanes of another stage have other lengths
    if (even && bytes % step_ == 0) return 1;
    if (bytes == 0) return even ? step_ : 0;
    if (std::gcd(page, bytes) >= least_) return 1;
    const uint64_t blocks = page / (bytes * each);
    if (even && (blocks == 0 || page / (round_up(bytes, step_) * each) == blocks)) return step_;
    if (blocks != 0 && page % (blocks * each * kBlockAlignment) == 0 && page / (blocks * each) >= least_) return page / (blocks * each);
    return even ? step_ : 0;
  }

  // The better of layers one by one and layers interleaved, where both are allowed. No parts: it does not fit.
  Fit fit(size_t g, const Split& split, uint64_t page) const {
    const SearchGroup& group = groups_[g];
    const bool one_stage = group.bytes.size() == 1;
    Fit out{&split, 1, !group.by_layer, 0};
    if (!group.can_step || least_ == 1) {
      out.parts = std::min(page / split.widest, kMostParts);
      return out;
    }
    for (const bool interleaved : {false, true}) {
      if (interleaved ? group.by_layer && !group.may_interleave : !group.by_layer) continue;
      const uint64_t each = interleaved ? 1 : split.layers;
      Fit one{&split, step_of(split.widest / group.blocks_per_part / each, each, page, one_stage), interleaved, 0};
      if (one.step == 0) continue;
      one.parts = std::min(page / std::max<uint64_t>(slot_bytes(group, one, widest_stage(split)), 1), kMostParts);
      if (one.parts > out.parts) out = one;
    }
    return out;
  }

  // Whether memory has few of the shortest pages that pad little. Then coarse pages waste more than padding does, and padding above the
  // limit costs less, the fewer there are.
  bool have_few_pages(const std::vector<SearchCandidate>& all) {
    uint64_t least = 0;
    for (const SearchCandidate& one : all) {
      const uint64_t bytes = std::accumulate(one.stage_page_bytes.begin(), one.stage_page_bytes.end(), uint64_t{0});
      if (one.waste_share < kPaddingLimit && (least == 0 || bytes < least)) least = bytes;
    }
    if (least == 0 || memory_ == 0) return false;
    const double share = memory_ / static_cast<double>(least) / kManyPages;
    if (share >= 1) return false;
    over_limit_ *= share * share;
    return true;
  }

  double weigh(double padding) const { return padding + std::max(0.0, padding - kPaddingLimit) * over_limit_; }

  static uint32_t runs(const Fit& fit) { return fit.interleaved ? fit.split->lanes : fit.split->lanes * fit.split->layers; }

  // Waste in the page and the block that a sequence is filling.
  static double tail(const SearchGroup& group, const Split& split, uint64_t page, uint64_t parts) {
    const double in_page = static_cast<double>(page) / 2 * static_cast<double>(parts - 1) / static_cast<double>(parts);
    return in_page + (group.is_state ? 0 : static_cast<double>(split.widest) * split.lanes / 2);
  }

  // The cheapest split of every group for a page; false when a group does not fit.
  bool price(uint64_t page, SearchCandidate* out) const {
    std::vector<Fit> chosen;
    for (size_t g = 0; g < groups_.size(); ++g) {
      Fit best;
      double least = 0;
      for (const Split& split : splits_[g]) {
        // From here on the tables alone cost more.
        if (best.split != nullptr && !groups_[g].is_state && kCostOfColumn * split.lanes >= least) break;
        const Fit one = fit(g, split, page);
        if (one.parts == 0) continue;
        const double stages = static_cast<double>(groups_[g].bytes.size());
        const double padding =
            1 - static_cast<double>(payload_[g]) * static_cast<double>(one.parts) / (static_cast<double>(page) * stages * split.lanes);
        const double cost = weigh(padding) + tail(groups_[g], split, page, one.parts) / reference_bytes_ +
                            (groups_[g].is_state ? 0 : kCostOfColumn * split.lanes) + kCostOfRun * runs(one);
        if (best.split == nullptr || cost < least) {
          best = one;
          least = cost;
        }
      }
      if (best.split == nullptr) return false;
      chosen.push_back(best);
      out->choices.push_back({best.split->lanes, best.split->layers, static_cast<uint32_t>(best.parts), 0, best.step, best.interleaved});
    }
    account(chosen, page, out);
    return true;
  }

  // Whether pages of this length suit steps that were chosen for another.
  bool suits(const std::vector<Fit>& chosen, uint64_t page) const {
    for (size_t g = 0; g < chosen.size(); ++g) {
      const uint64_t each = chosen[g].interleaved ? 1 : chosen[g].split->layers;
      const uint64_t bytes = round_up(chosen[g].split->widest / groups_[g].blocks_per_part / each, chosen[g].step);
      if (groups_[g].can_step && std::gcd(page, bytes) < least_) return false;
    }
    return true;
  }

  void account(const std::vector<Fit>& chosen, uint64_t longest, SearchCandidate* out) const {
    double all_stages = 0;
    const size_t stages = groups_[0].bytes.size();
    for (size_t stage = 0; stage < stages; ++stage) {
      uint64_t page = 0;
      for (size_t g = 0; g < chosen.size(); ++g) page = std::max(page, slot_bytes(groups_[g], chosen[g], stage) * chosen[g].parts);
      page = round_up(page, stepped_alignment_);
      if (least_ != 1 && stages == 1 && (page > longest || !suits(chosen, page))) page = longest;
      out->stage_page_bytes.push_back(page);
      all_stages += static_cast<double>(page);
      out->page_bytes = std::max(out->page_bytes, page);
    }
    double tails = 0;
    double checkpoint = 0;
    for (size_t g = 0; g < chosen.size(); ++g) {
      SearchChoice& choice = out->choices[g];
      const double block = all_stages * choice.lanes / choice.parts_per_page, payload = static_cast<double>(payload_[g]);
      double used = 0;  // page bytes of stages that have layers of the group
      for (size_t stage = 0; stage < stages; ++stage) {
        const std::vector<uint64_t>& bytes = groups_[g].bytes[stage];
        const bool has = std::any_of(bytes.begin(), bytes.end(), [](uint64_t n) { return n > 0; });
        used += has ? static_cast<double>(out->stage_page_bytes[stage]) : 0;
      }
      choice.padding_share = used > 0 ? 1 - payload / (used * choice.lanes / choice.parts_per_page) : 0;
      out->padding_share = std::max(out->padding_share, choice.padding_share);
      out->unused_share = std::max(out->unused_share, 1 - used / all_stages);
      out->waste_share = std::max(out->waste_share, 1 - payload / block);
      tails += tail(groups_[g], *chosen[g].split, out->page_bytes, choice.parts_per_page);
      if (groups_[g].is_state) {
        checkpoint += block;
      } else {
        out->columns += choice.lanes;
        out->runs_per_block += runs(chosen[g]);
      }
    }
    out->tail_bytes = static_cast<uint64_t>(tails);
    out->checkpoint_bytes = static_cast<uint64_t>(checkpoint);
    out->over_limit = over_limit_;
    out->cost = weigh(out->waste_share) + tails / reference_bytes_ + kCostOfColumn * out->columns + kCostOfRun * out->runs_per_block;
  }

  const std::vector<SearchGroup>& groups_;
  const uint64_t least_;  // bytes that one id counts
  const uint64_t page_alignment_;
  const double memory_;  // bytes; 0 = unknown
  double over_limit_ = kPaddingOverLimit;
  uint64_t step_ = 1;  // the next power of two
  uint64_t stepped_alignment_ = 1;
  std::vector<std::vector<Split>> splits_;  // by group, fewest lanes first
  std::vector<uint64_t> payload_;           // by group: one block, all stages
  double reference_bytes_ = 0;
};

std::string candidate_json(const SearchCandidate& one) {
  char text[400];
  std::snprintf(text, sizeof text,
                "      {\"page_bytes\": %" PRIu64
                ", \"cost\": %.6f, \"padding_share\": %.6f, \"unused_share\": %.6f, \"waste_share\": %.6f, \"tail_bytes\": %" PRIu64
                ", \"checkpoint_bytes\": %" PRIu64 ", \"columns\": %u, \"runs_per_block\": %u, \"groups\": [",
                one.page_bytes, one.cost, one.padding_share, one.unused_share, one.waste_share, one.tail_bytes, one.checkpoint_bytes,
                one.columns, one.runs_per_block);
  std::string out = text;
  for (size_t g = 0; g < one.choices.size(); ++g) {
    const SearchChoice& choice = one.choices[g];
    std::snprintf(text, sizeof text, "%s{\"lanes\": %u, \"layers_per_lane\": %u, \"parts_per_page\": %u, \"padding_share\": %.6f}",
                  g != 0 ? ", " : "", choice.lanes, choice.layers_per_lane, choice.parts_per_page, choice.padding_share);
    out += text;
  }
  return out + "]}";
}

// What its pages waste, as the plan says it.
std::string padding_of(const SearchCandidate& one) {
  char text[120];
  const size_t stages = one.stage_page_bytes.size();
  std::snprintf(text, sizeof text, "padding %.4f %%%s", one.padding_share * 100, stages > 1 ? " over all stages" : "");
  std::string out = text;
  if (one.unused_share == 0) return out;
  std::snprintf(text, sizeof text, ", %.4f %% unused in stages without layers of a group", one.unused_share * 100);
  return out + text;
}

std::string reason(const std::vector<SearchCandidate>& list, uint32_t taken) {
  const SearchCandidate& won = list[taken];
  if (list.size() == 1) return "the only candidate";
  const SearchCandidate& next = list[taken == 0 ? 1 : 0];
  char text[700];
  const char* page = won.stage_page_bytes.size() > 1 ? "pages of the widest stage of" : "pages of";
  if (taken != 0) {
    std::snprintf(text, sizeof text,
                  "candidate %u of %zu, %s %" PRIu64
                  " bytes, costs %.6f (%s, %u columns) and leaves less memory out of reach of "
                  "ids of 31 bits than the cheapest, %s %" PRIu64 " bytes, which costs %.6f (%s, %u columns)",
                  taken, list.size(), page, won.page_bytes, won.cost, padding_of(won).c_str(), won.columns, page, next.page_bytes,
                  next.cost, padding_of(next).c_str(), next.columns);
    return text;
  }
  std::snprintf(text, sizeof text,
                "least cost, %.6f, of %zu candidates (%s, %" PRIu64 " bytes of tail, %u columns); the next, %s %" PRIu64
                " bytes, costs %.6f (%s, %" PRIu64 " bytes of tail, %u columns)",
                won.cost, list.size(), padding_of(won).c_str(), won.tail_bytes, won.columns, page, next.page_bytes, next.cost,
                padding_of(next).c_str(), next.tail_bytes, next.columns);
  return text;
}

}  // namespace

std::vector<uint32_t> spread(const std::vector<uint64_t>& bytes, uint32_t lanes) {
  std::vector<uint32_t> lane_of(bytes.size());
  const bool alike = std::adjacent_find(bytes.begin(), bytes.end(), std::not_equal_to<>()) == bytes.end();
  if (alike) {
    for (size_t i = 0; i < bytes.size(); ++i) lane_of[i] = static_cast<uint32_t>(i * std::min<size_t>(lanes, bytes.size()) / bytes.size());
    return lane_of;
  }
  std::vector<uint32_t> largest_first(bytes.size());
  std::iota(largest_first.begin(), largest_first.end(), 0u);
  std::stable_sort(largest_first.begin(), largest_first.end(), [&bytes](uint32_t a, uint32_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::pair<uint64_t, uint32_t>> lanes_by_bytes(lanes);  // a heap, the emptiest lane first
  for (uint32_t lane = 0; lane < lanes; ++lane) lanes_by_bytes[lane].second = lane;
  for (const uint32_t i : largest_first) {
    std::pop_heap(lanes_by_bytes.begin(), lanes_by_bytes.end(), std::greater<>());
    lane_of[i] = lanes_by_bytes.back().second;
    lanes_by_bytes.back().first += bytes[i];
    std::push_heap(lanes_by_bytes.begin(), lanes_by_bytes.end(), std::greater<>());
  }
  return lane_of;
}

Result<std::vector<SearchCandidate>> search_pages(const std::vector<SearchGroup>& groups, const SearchLimits& limits) {
  return Search(groups, limits).run();
}

std::string describe_search(const std::vector<SearchCandidate>& candidates, uint32_t taken) {
  char text[256];
  std::snprintf(text, sizeof text,
                "{\n    \"considered\": %zu,\n    \"taken\": %u,\n    \"weights\": {\"padding\": 1, \"padding_above_%.2f\": %.4g, "
                "\"tail\": 1, \"column\": %.4f, "
                "\"run\": %.6f},\n",
                candidates.size(), taken, kPaddingLimit, candidates[0].over_limit + 1, kCostOfColumn, kCostOfRun);
  std::string out = std::string(text) + "    \"why\": \"" + reason(candidates, taken) + "\",\n    \"candidates\": [\n";
  for (size_t i = 0; i < candidates.size(); ++i) out += candidate_json(candidates[i]) + (i + 1 < candidates.size() ? ",\n" : "\n");
  return out + "    ]\n  }";
}

}  // namespace quire
