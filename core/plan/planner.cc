#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>

#include "core/base/checked.h"
#include "core/plan/capacity.h"
#include "core/plan/limits.h"
#include "core/plan/vllm/published_plan.h"

namespace quire {
namespace {

constexpr uint64_t kMaxInt = (uint64_t{1} << 31) - 1;

class Planner {
 public:
  Planner(PlanInput input, std::vector<std::string> notes)
      : in_(std::move(input)), config_(std::make_shared<Config>()), notes_(std::move(notes)) {}

  Result<std::shared_ptr<const Config>> run() {
    auto caches = rank_caches(in_);
    if (!caches.ok()) return caches.take_status();
    caches_ = std::move(*caches);
    auto arranged = in_.searches ? arrange_in_parts(in_, &caches_) : arrange_in_blocks(in_, &caches_);
    if (!arranged.ok()) return arranged.take_status();
    arranged_ = std::move(*arranged);
    if (in_.rules == Rules::kUpstream) in_.max_model_len = arranged_.sizing->pool.max_model_len;
    arranged_.notes.insert(arranged_.notes.begin(), notes_.begin(), notes_.end());
    QUIRE_RETURN_IF_ERROR(make_groups());
    QUIRE_RETURN_IF_ERROR(share_places());
    config_->policy = in_.policy;
    config_->max_model_len = in_.max_model_len;
    config_->max_tokens_in_flight = in_.max_tokens_in_flight;
    config_->prefix_reuse = in_.prefix_reuse;
    config_->context_parallel = in_.context_parallel;
    QUIRE_RETURN_IF_ERROR(units());
    QUIRE_RETURN_IF_ERROR(orders());
    QUIRE_RETURN_IF_ERROR(count_pages());
    QUIRE_RETURN_IF_ERROR(fit());
    const bool shortened = in_.fits_length && in_.rules == Rules::kRight && arranged_.sizing != nullptr;
    if (shortened) size_again(in_.max_model_len, in_.rules, arranged_.sizing.get());  // by what quire guarantees
    config_->kv_cache_tokens = arranged_.sizing != nullptr ? printed_tokens(arranged_.sizing->pool) : size_in_tokens(*config_);
    QUIRE_RETURN_IF_ERROR(lay_out_shards());
    account();
    if (in_.searches) space_checkpoints();
    for (std::string& note : notes_of_padding(*config_)) arranged_.notes.push_back(std::move(note));
    for (std::string& note : notes_of_ops(*config_)) arranged_.notes.push_back(std::move(note));
    config_->explanation_json = explain(*config_, in_, arranged_);
    return std::shared_ptr<const Config>(config_);
  }

  // Cost of every candidate of the search, and the share of memory that the one taken cannot reach. After run().
  const std::vector<double>& costs() const { return arranged_.costs; }
  double lost_share() const { return lost_share_; }

 private:
  const LayerCache& cache_of(uint32_t rank_cache) const { return in_.model->caches()[caches_[rank_cache].cache]; }

  Status make_groups() {
    QUIRE_RETURN_IF_ERROR(check_num_groups(in_, arranged_.groups.size()));
    place_of_.resize(caches_.size());
    for (uint32_t i = 0; i < caches_.size(); ++i) {
      const quire_layer& desc = cache_of(i).desc;
      config_->places.push_back({desc.layer, desc.sub, caches_[i].cache, GroupId(), 0, 0, 0, caches_[i].stage, 0, cache_of(i).live});
    }
    for (uint32_t g = 0; g < arranged_.groups.size(); ++g) {
      const Arrangement::Group& group = arranged_.groups[g];
      GroupPlan plan;
      plan.live = group.keeps_everything ? LiveRange{} : cache_of(group.members[0]).live;
      plan.live.retained = group.retained;
      plan.num_lanes = group.num_lanes;
      plan.ids_per_block = group.ids_per_block;
      plan.parts_per_page = group.parts_per_page;
      if (group.block_tokens > kMaxInt) {
        return fail(QUIRE_OUT_OF_RANGE, "layer %u: block of %" PRIu64 " tokens; at most %" PRIu64, cache_of(group.members[0]).desc.layer,
                    group.block_tokens, kMaxInt);
      }
      plan.block_tokens = static_cast<uint32_t>(group.block_tokens);
      plan.kernel_block_tokens = plan.is_state() ? plan.block_tokens : static_cast<uint32_t>(group.kernel_tokens);
      plan.kernel_blocks_per_part = plan.block_tokens / plan.kernel_block_tokens;
      for (uint32_t k = 0; k < group.members.size(); ++k) {
        const MemberShape& shape = caches_[group.members[k]].shape;
        CachePlace& place = config_->places[group.members[k]];
        place.group = GroupId(g);
        place.lane = group.lanes[k];
        place.index_in_lane = shape.index;
        place.column = shape.column;
        plan.places.push_back(group.members[k]);
        const quire_layer& desc = cache_of(group.members[k]).desc;
        if (!group.keeps_everything) plan.live.sink = std::max(plan.live.sink, cache_of(group.members[k]).live.sink);
        place.look_ahead = (desc.flags & QUIRE_LAYER_DRAFT) != 0 ? std::max(desc.look_ahead, 1u) : 0;
        plan.look_ahead = std::max(plan.look_ahead, place.look_ahead);
        plan.encoder_tokens = std::max(plan.encoder_tokens, desc.kind != QUIRE_LAYER_CROSS ? 0
                                                            : in_.encoder_tokens != 0      ? in_.encoder_tokens
                                                                                           : desc.encoder_tokens);
      }
      config_->groups.push_back(std::move(plan));
    }
    return {};
  }

  // Layers that read another's cache get its place; then places are ordered by (layer, sub) and the groups' indices follow.
  Status share_places() {
    const auto caches = in_.model->caches();
    for (uint32_t c = 0; c < caches.size(); ++c) {
      const quire_layer& desc = caches[c].desc;
      if (desc.shares_with == 0) continue;
      const LayerCache* target = in_.model->find(desc.layer, desc.sub);
      const uint32_t at = static_cast<uint32_t>(target - caches.data());
      const auto own = std::find_if(caches_.begin(), caches_.end(), [at](const RankCache& cache) { return cache.cache == at; });
      CachePlace place = config_->places[static_cast<size_t>(own - caches_.begin())];
      if (in_.stage_of(desc.layer) != place.stage) {
        return invalid("pipeline_parallel = %u parts layer %u from layer %u, whose cache it reads", in_.pipeline_parallel, desc.layer,
                       place.layer);
      }
      place.layer = desc.layer;
      place.cache = c;
      place.live = caches[c].live;
      config_->places.push_back(place);
      source_.push_back(static_cast<uint32_t>(own - caches_.begin()));
    }
    std::vector<uint32_t> sorted(config_->places.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::sort(sorted.begin(), sorted.end(), [this](uint32_t a, uint32_t b) {
      const CachePlace& x = config_->places[a];
      const CachePlace& y = config_->places[b];
      return x.layer != y.layer ? x.layer < y.layer : x.sub < y.sub;
    });
    std::vector<CachePlace> places;
    std::vector<uint32_t> now(sorted.size());
    for (uint32_t i = 0; i < sorted.size(); ++i) {
      now[sorted[i]] = i;
      places.push_back(config_->places[sorted[i]]);
    }
    config_->places = std::move(places);
    for (uint32_t i = 0; i < caches_.size(); ++i) place_of_[i] = now[i];
    for (uint32_t k = 0; k < source_.size(); ++k) readers_.push_back({now[caches_.size() + k], source_[k]});
    for (GroupPlan& plan : config_->groups) {
      for (uint32_t& place : plan.places) place = now[place];
    }
    return {};
  }

  Status units() {
    uint64_t unit = 0;
    uint64_t alignment = 1;
    for (const GroupPlan& plan : config_->groups) {
      if (plan.live.fixed || (plan.is_state() && !in_.prefix_reuse)) continue;  // another axis; boundaries that nobody resumes from
      unit = std::gcd(unit, plan.block_tokens);
      alignment = alignment / std::gcd<uint64_t>(alignment, plan.block_tokens) * plan.block_tokens;
      if (alignment > kMaxInt) {
        return fail(QUIRE_OUT_OF_RANGE, "least common multiple of the blocks is %" PRIu64 " tokens; at most %" PRIu64, alignment, kMaxInt);
      }
    }
    if (in_.match_unit != 0) {  // published units: where names are made at all; of one group only by our rules
      auto units = block_units(arranged_.sizing->grouping, arranged_.sizing->input);
      if (!units.ok()) return units.take_status();
      const bool alone = in_.rules == Rules::kRight && config_->groups.size() == 1 && unit != 0;
      const bool divides = unit % in_.match_unit == 0;
      if (alone && !divides) {
        arranged_.notes.push_back("match_unit_tokens = " + std::to_string(in_.match_unit) + " does not divide the block of " +
                                  std::to_string(unit) + " tokens of the only group, which stays the unit");
      }
      if ((alone && divides) || units->match_tokens == in_.match_unit) unit = std::gcd(unit, in_.match_unit);
    }
    if (unit == 0) unit = std::min<uint64_t>(config_->groups[0].block_tokens, in_.block_tokens);  // nothing is matched
    config_->match_unit_tokens = static_cast<uint32_t>(unit);
    config_->hit_alignment_tokens = static_cast<uint32_t>(alignment);
    return {};
  }

  // The order of each group: the one asked for, re-strided where a group has no K side, without the letters that states lack.
  Status orders() {
    const bool all_sides = std::all_of(caches_.begin(), caches_.end(), [](const RankCache& cache) { return cache.shape.num_sides == 2; });
    Order order = in_.order;
    if (!all_sides && order.left_of(Letter::K, Letter::B)) {
      order = order.with_k_inside_page();
      arranged_.notes.push_back("layout " + in_.order.text() + " has K left of B, but some layers have no K side: re-strided to " +
                                order.text());
    }
    const bool states = std::any_of(config_->groups.begin(), config_->groups.end(), [](const GroupPlan& plan) { return plan.is_state(); });
    if (in_.searches && in_.contiguous && states) {
      arranged_.notes.push_back(
          "contiguous: a block of tokens is one run of all layers; every state is a run of its own, since one of all layers "
          "would make pages as long as all states together");
    }
    for (uint32_t g = 0; g < config_->groups.size(); ++g) {
      GroupPlan& plan = config_->groups[g];
      Order own = plan.is_state() ? order.without("KTHD") : order;
      if (!in_.searches && !in_.order_given && plan.kernel_blocks_per_part > 1 && rows_differ(g)) {
        own = *Order::parse("BJLPKTHD");  // pages of different size serve one table when they are interleaved by kernel block
        arranged_.notes.push_back("layers of different page size share one group: interleaved by kernel block");
      }
      if (in_.searches && !in_.order_given && (in_.contiguous || arranged_.groups[g].interleaved)) {
        own = plan.is_state() ? *Order::parse("BJP") : *Order::parse("BJPKTHD");
        const char* const why = in_.contiguous ? nullptr
                                : rows_differ(g)
                                    ? "layers of different size share a lane: interleaved by kernel block"
                                    : "layers of a lane are interleaved by kernel block, so that fewer ids reach all of memory";
        if (why != nullptr) arranged_.notes.push_back(why);
      }
      orders_.push_back(own);
      plan.order = own.text();
    }
    return {};
  }

  // Whether members of a group differ in the bytes of a block.
  bool rows_differ(uint32_t g) const {
    const std::vector<uint32_t>& members = arranged_.groups[g].members;
    return std::any_of(members.begin(), members.end(),
                       [&](uint32_t i) { return payload_bytes(caches_[i].shape, 1) != payload_bytes(caches_[members[0]].shape, 1); });
  }

  // The shape of one pipeline stage; lanes are numbered among the layers the stage has.
  PoolShape shape_of(uint32_t stage, uint64_t num_pages) const {
    PoolShape pool;
    pool.num_pages = num_pages;
    pool.min_page_bytes = arranged_.min_page_bytes[stage];
    for (uint32_t g = 0; g < arranged_.groups.size(); ++g) {
      const GroupPlan& plan = config_->groups[g];
      GroupShape shape{orders_[g], plan.kernel_blocks_per_part, plan.parts_per_page, {}, arranged_.groups[g].block_step};
      for (const uint32_t i : arranged_.groups[g].members) {
        if (caches_[i].stage == stage) shape.members.push_back(caches_[i].shape);
      }
      pool.groups.push_back(std::move(shape));
    }
    pool.region_per_lane = in_.order[0] == Letter::L;
    return pool;
  }

  // Page bytes of every stage when strips are laid out for this many pages: many pages may need wider strips, so that lowered ids fit.
  Status size_pages(uint64_t pages, std::vector<uint64_t>* out) const {
    out->clear();
    for (uint32_t stage = 0; stage < in_.pipeline_parallel; ++stage) {
      const auto layout = lay_out(shape_of(stage, pages));
      if (!layout.ok()) return Status(layout.status().code(), layout.status().message());
      out->push_back(layout.value().page_bytes);
      if (in_.page_alignment > 1 && out->back() % in_.page_alignment != 0) {
        return fail(QUIRE_NOT_REPRESENTABLE, "page_alignment = %" PRIu64 "; layout %s makes pages of %" PRIu64 " bytes", in_.page_alignment,
                    in_.order.text().c_str(), out->back());
      }
    }
    return {};
  }

  // How many pages of these sizes every shard can hold; kMaxSize where memory is not limited.
  uint64_t pages_held(const std::vector<uint64_t>& page_bytes, uint32_t* tightest) const {
    uint64_t fewest = kMaxSize;
    for (uint32_t s = 0; s < in_.memory_bytes.size(); ++s) {
      const uint64_t page = page_bytes[s / in_.ranks_per_stage()];
      if (page == 0 || in_.memory_bytes[s] / page >= fewest) continue;
      fewest = in_.memory_bytes[s] / page;
      *tightest = s;
    }
    return fewest;
  }

  // The number of pages, and page bytes laid out for just that number.
  Status count_pages() {
    if (in_.num_pages != 0) return take_pages_given();
    std::vector<uint64_t> sizes;
    QUIRE_RETURN_IF_ERROR(size_pages(1, &sizes));
    const uint64_t most = pages_held(sizes, &tightest_);
    const uint64_t fewest = in_.rules == Rules::kUpstream ? 1 : 2;  // published plans do not count the null page
    if (most < fewest) {
      const uint64_t page = sizes[tightest_ / in_.ranks_per_stage()];
      return fail(QUIRE_RESOURCE_EXHAUSTED,
                  "memory_bytes of shard %u is %" PRIu64 "; the null page and one page need %" PRIu64 " bytes (a page is %" PRIu64 ")",
                  tightest_, in_.memory_bytes[tightest_], 2 * page, page);
    }
    // Pages never get narrower when there are more of them, so what fits is found by halves; what is taken has been laid out.
    const auto fits = [&](uint64_t pages) {
      std::vector<uint64_t> wider;
      uint32_t shard = tightest_;
      if (!size_pages(pages, &wider).ok() || pages_held(wider, &shard) < pages) return false;
      page_bytes_ = std::move(wider);
      tightest_ = shard;
      return true;
    };
    uint64_t high = std::min(most, kMaxInt);
    if (fits(high)) {
      config_->num_pages = high;
    } else {
      uint64_t low = 1;
      for (--high; low < high;) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (fits(middle)) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      if (low < fewest) return size_pages(fewest, &sizes);
      config_->num_pages = low;
    }
    if (config_->num_pages < most) say_capped(sizes, most);
    return {};
  }

  Status take_pages_given() {
    QUIRE_RETURN_IF_ERROR(size_pages(in_.num_pages, &page_bytes_));
    const uint64_t pages = pages_held(page_bytes_, &tightest_);
    if (pages < in_.num_pages) {
      return fail(QUIRE_RESOURCE_EXHAUSTED,
                  "num_pages = %" PRIu64 " of %" PRIu64 " bytes; memory_bytes of shard %u is %" PRIu64 ", enough for %" PRIu64,
                  in_.num_pages, page_bytes_[tightest_ / in_.ranks_per_stage()], tightest_, in_.memory_bytes[tightest_], pages);
    }
    if (in_.num_pages == 1 && in_.rules == Rules::kRight)
      return fail(QUIRE_RESOURCE_EXHAUSTED, "num_pages = 1; the null page takes one, so at least 2 are needed");
    config_->num_pages = in_.num_pages;
    return {};
  }

  // Memory that ids of 31 bits keep from use: left over, or spent on wider strips.
  void say_capped(const std::vector<uint64_t>& narrow, uint64_t most) {
    const uint32_t stage = tightest_ / in_.ranks_per_stage();
    const uint64_t memory = in_.memory_bytes[tightest_];
    lost_share_ = 1.0 - static_cast<double>(config_->num_pages) * static_cast<double>(narrow[stage]) / static_cast<double>(memory);
    char text[320];
    std::snprintf(text, sizeof text,
                  "lowered ids must fit 31 bits: %" PRIu64 " pages of %" PRIu64 " bytes instead of %" PRIu64 " of %" PRIu64 "; %" PRIu64
                  " of %" PRIu64 " bytes of shard %u stay unused",
                  config_->num_pages, page_bytes_[stage], most, narrow[stage], memory - config_->num_pages * page_bytes_[stage], memory,
                  tightest_);
    arranged_.notes.push_back(text);
  }

  uint64_t pages_for(uint64_t tokens) const { return pages_of_one(*config_, tokens); }

  // One sequence of the full length must fit beside the null page, else it could never complete.
  Status fit() {
    uint64_t low = 0;
    uint64_t high = in_.max_model_len;
    while (low < high) {  // longest length that fits
      const uint64_t middle = low + (high - low + 1) / 2;
      if (pages_for(middle) <= config_->num_pages) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    config_->capacity_tokens = low;
    if (low == in_.max_model_len || in_.rules == Rules::kUpstream) return {};
    if (in_.fits_length && low != 0) {
      in_.max_model_len = config_->max_model_len = low;
      return {};
    }
    return refuse_length(*config_, low, tightest_, page_bytes_[tightest_ / in_.ranks_per_stage()]);
  }

  // Which heads and which slices of states a rank has.
  void number_rank(uint32_t rank, uint32_t context_rank, ShardPlan* shard) const {
    for (size_t i = 0; i < config_->places.size(); ++i) {
      const LayerCache& cache = in_.model->caches()[config_->places[i].cache];
      const quire_layer& desc = cache.desc;
      const bool one_rank = cache.facts.of_one_rank;  // the heads that are told are this rank's
      quire_kv_view& kv = shard->views[i].kv;
      if (kv.num_sides != 0) {
        kv.model_heads = desc.num_kv_heads * (one_rank && kv.num_sides == 2 ? in_.tensor_parallel : 1);
        kv.first_head = static_cast<uint32_t>(uint64_t{rank} * kv.model_heads / in_.tensor_parallel);
        const bool turns = desc.kind != QUIRE_LAYER_CROSS;  // encoders are not cut
        kv.context_rank = turns ? context_rank : 0;
        kv.context_ranks = turns ? in_.context_parallel : 1;
      }
      for (size_t t = 0; t < shard->views[i].states.size(); ++t) {
        quire_state_view& state = shard->views[i].states[t];
        state.shard_dim = desc.state_shard[t];
        state.num_ranks = state.shard_dim == 0 ? 1 : in_.tensor_parallel;
        state.rank = state.shard_dim == 0 ? 0 : rank;
        for (uint32_t k = 0; k < 4 && t == 0 && state.shard_dim != 0; ++k) {
          state.shard_parts[k] = sharded_part(desc, k, in_.tensor_parallel);
          state.shard_repeats[k] = desc.state_parts[k] == 0 ? 1 : state.shard_parts[k] / desc.state_parts[k];
        }
      }
    }
  }

  Status lay_out_shards() {
    for (uint32_t s = 0; s < in_.num_shards(); ++s) {
      if (s % in_.ranks_per_stage() != 0) {  // ranks of one stage are alike
        config_->shards.push_back(config_->shards.back());
        const uint32_t rank = s % in_.ranks_per_stage();
        number_rank(rank / in_.context_parallel, rank % in_.context_parallel, &config_->shards.back());
        continue;
      }
      const uint32_t stage = s / in_.ranks_per_stage();
      auto layout = lay_out(shape_of(stage, config_->num_pages));
      if (!layout.ok()) return layout.take_status();
      ShardPlan shard;
      shard.page_bytes = layout->page_bytes;  // as counted
      shard.regions = layout->regions;
      shard.views.resize(config_->places.size());
      for (uint32_t g = 0; g < arranged_.groups.size(); ++g) {
        GroupLayout& group = layout->groups[g];
        shard.lowering.push_back(group.lowering);
        uint32_t next = 0;
        for (const uint32_t i : arranged_.groups[g].members) {
          if (caches_[i].stage != stage) continue;
          PlaceViews& views = group.members[next++];
          views.kv.group = g;
          for (quire_state_view& state : views.states) state.group = g;
          shard.views[place_of_[i]] = std::move(views);
        }
      }
      for (const auto& [reader, source] : readers_) shard.views[reader] = shard.views[place_of_[source]];
      number_rank(0, 0, &shard);
      config_->shards.push_back(std::move(shard));
    }
    return {};
  }

  uint64_t payload_in(uint32_t g, uint32_t stage) const {
    uint64_t bytes = 0;
    for (const uint32_t i : arranged_.groups[g].members) {
      if (caches_[i].stage == stage) bytes += payload_bytes(caches_[i].shape, config_->groups[g].kernel_blocks_per_part);
    }
    return bytes;
  }

  // Payload against pages: of the whole plan over the stages that have layers of a group, of a group where it pads most among the stages
  // that have its layers.
  void account() {
    for (uint32_t g = 0; g < config_->groups.size(); ++g) {
      GroupPlan& plan = config_->groups[g];
      double payload = 0;
      double pages = 0;
      double empty = 0;  // of stages without a layer of the group
      uint32_t without = 0;
      double fullest = 2;
      for (uint32_t stage = 0; stage < in_.pipeline_parallel; ++stage) {
        const uint64_t bytes = payload_in(g, stage);
        const double page = static_cast<double>(page_bytes_[stage]) * plan.ids_per_block / plan.parts_per_page;
        if (bytes == 0) {
          empty += page;
          ++without;
          continue;
        }
        payload += static_cast<double>(bytes);
        pages += page;
        if (static_cast<double>(bytes) / page >= fullest) continue;
        fullest = static_cast<double>(bytes) / page;
        plan.payload_bytes_per_block = bytes;
        plan.page_bytes_per_block = ceil_div(page_bytes_[stage] * plan.ids_per_block, plan.parts_per_page);
      }
      if (pages == 0) continue;
      config_->padding_share = std::max(config_->padding_share, 1.0 - payload / pages);
      if (without == 0) continue;
      const double share = empty / (empty + pages);
      arranged_.unused_share = std::max(arranged_.unused_share, share);
      arranged_.notes.push_back(note_of_unused(g, share, without, in_.pipeline_parallel));
    }
  }

  void space_checkpoints() {
    double state = 0;
    double token = 0;
    for (uint32_t g = 0; g < config_->groups.size(); ++g) {
      const GroupPlan& plan = config_->groups[g];
      double block = 0;
      for (uint32_t stage = 0; stage < in_.pipeline_parallel; ++stage) block += static_cast<double>(payload_in(g, stage));
      if (plan.is_state()) {
        state += block;
      } else if (!plan.live.fixed) {
        token += block / plan.block_tokens;
      }
    }
    config_->checkpoint_tokens = checkpoint_spacing(state, token, config_->match_unit_tokens);
  }

  struct Reader {
    uint32_t place;
    uint32_t source;  // index into caches_
  };

  PlanInput in_;
  std::shared_ptr<Config> config_;
  std::vector<std::string> notes_;
  std::vector<RankCache> caches_;
  Arrangement arranged_;
  std::vector<uint32_t> place_of_;  // by rank cache
  std::vector<uint32_t> source_;
  std::vector<Reader> readers_;
  std::vector<Order> orders_;
  std::vector<uint64_t> page_bytes_;  // by stage
  uint32_t tightest_ = 0;
  double lost_share_ = 0;  // of memory, to the range of ids
};

}  // namespace

Result<Planned> plan_with(const PlanInput& input, const std::vector<std::string>& notes) {
  Planner planner(input, notes);
  auto made = planner.run();
  if (!made.ok()) return made.take_status();
  return Planned{std::move(*made), planner.costs(), planner.lost_share()};
}

}  // namespace quire
