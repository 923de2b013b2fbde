#include "core/plan/compare.h"

#include <algorithm>
#include <cstring>

#include "core/layout/codec.h"
#include "core/layout/runs.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

std::string differs(const char* field, uint64_t a, uint64_t b) {
  return std::string(field) + " is " + std::to_string(a) + " and " + std::to_string(b);
}

std::string at_layer(const CachePlace& place, const std::string& what) {
  return "layer " + std::to_string(place.layer) + " sub " + std::to_string(place.sub) + ": " + what;
}

// The view of a place in the first shard that has it.
const PlaceViews* find_anywhere(const Config& config, size_t place) {
  for (const ShardPlan& shard : config.shards) {
    if (!shard.views[place].empty()) return &shard.views[place];
  }
  return nullptr;
}

// Collects the worst level and the first reason for it.
class Findings {
 public:
  void add(quire_compat_level level, const std::string& reason) {
    if (reason.empty() || level <= found_.level) return;
    found_ = {level, reason};
  }
  const Compatibility& found() const { return found_; }
  bool hopeless() const { return found_.level == QUIRE_COMPAT_INCOMPATIBLE; }

 private:
  Compatibility found_;
};

class Comparison {
 public:
  Comparison(const Config& a, const Config& b) : a_(a), b_(b) {}

  Compatibility run() {
    if (a_.places.size() != b_.places.size()) {
      findings_.add(QUIRE_COMPAT_INCOMPATIBLE, differs("number of caches", a_.places.size(), b_.places.size()));
      return findings_.found();
    }
    for (size_t i = 0; i < a_.places.size() && !findings_.hopeless(); ++i) {
      places(i);
      if (!findings_.hopeless()) rows(i);
    }
    if (findings_.found().level == QUIRE_COMPAT_IDENTICAL) geometry();
    return findings_.found();
  }

 private:
  void places(size_t i) {
    const CachePlace& x = a_.places[i];
    const CachePlace& y = b_.places[i];
    if (x.layer != y.layer || x.sub != y.sub) {
      findings_.add(QUIRE_COMPAT_INCOMPATIBLE,
                    at_layer(x, "the other plan has layer " + std::to_string(y.layer) + " sub " + std::to_string(y.sub) + " in its place"));
      return;
    }
    const LiveRange& p = a_.groups[x.group.value].live;
    const LiveRange& q = b_.groups[y.group.value].live;
    const auto live = [&](const char* field, uint64_t u, uint64_t v) {
      if (u != v) findings_.add(QUIRE_COMPAT_INCOMPATIBLE, at_layer(x, differs(field, u, v)));
    };
    live("is_state", p.state ? 1 : 0, q.state ? 1 : 0);
    live("window", p.window, q.window);
    live("chunk", p.chunk, q.chunk);
    live("sink_tokens", p.sink, q.sink);
    live("encoder", p.fixed ? 1 : 0, q.fixed ? 1 : 0);
  }

  void rows(size_t i) {
    const PlaceViews* x = find_anywhere(a_, i);
    const PlaceViews* y = find_anywhere(b_, i);
    if (x == nullptr || y == nullptr) return;
    if (x->states.empty()) {
      token_rows(i, x->kv, y->kv);
    } else {
      state_rows(i, x->states, y->states);
    }
  }

  void token_rows(size_t i, const quire_kv_view& x, const quire_kv_view& y) {
    const CachePlace& place = a_.places[i];
    quire_kv_view alike = y;  // the same rows but for their encoding?
    alike.dtype = x.dtype;
    alike.codec = x.codec;
    alike.codec_params = x.codec_params;
    const std::string other_rows = difference_of_rows(x, alike);
    if (!other_rows.empty()) return findings_.add(QUIRE_COMPAT_INCOMPATIBLE, at_layer(place, other_rows));
    const std::string encoding = difference_of_rows(x, y);
    if (!encoding.empty()) return findings_.add(QUIRE_COMPAT_CONVERTIBLE, at_layer(place, encoding));
    if (!cuts_between_rows(x.codec) && x.context_ranks != y.context_ranks) {
      findings_.add(QUIRE_COMPAT_CONVERTIBLE, at_layer(place, differs("context_ranks", x.context_ranks, y.context_ranks) + ", and codec " +
                                                                  std::to_string(x.codec) + " cannot be cut by rows"));
    }
    if (!cuts_between_rows(x.codec) && x.block_tokens != y.block_tokens) {
      findings_.add(QUIRE_COMPAT_CONVERTIBLE, at_layer(place, differs("block_tokens", x.block_tokens, y.block_tokens) + ", and codec " +
                                                                  std::to_string(x.codec) + " cannot be cut by rows"));
    }
    if (!cuts_between_heads(x.codec) && x.num_heads != y.num_heads) {
      findings_.add(QUIRE_COMPAT_CONVERTIBLE, at_layer(place, differs("num_heads", x.num_heads, y.num_heads) + ", and codec " +
                                                                  std::to_string(x.codec) + " cannot be cut by heads"));
    }
  }

  void state_rows(size_t i, const std::vector<quire_state_view>& x, const std::vector<quire_state_view>& y) {
    const CachePlace& place = a_.places[i];
    if (x.size() != y.size()) {
      return findings_.add(QUIRE_COMPAT_INCOMPATIBLE, at_layer(place, differs("num_state_tensors", x.size(), y.size())));
    }
    for (size_t t = 0; t < x.size(); ++t) {
      quire_state_view alike = y[t];
      alike.dtype = x[t].dtype;
      const std::string tensor = "state[" + std::to_string(t) + "].";
      const std::string shape = difference_of_states(x[t], alike);
      if (!shape.empty()) return findings_.add(QUIRE_COMPAT_INCOMPATIBLE, at_layer(place, tensor + shape));
      const std::string type = difference_of_states(x[t], y[t]);
      if (!type.empty()) findings_.add(QUIRE_COMPAT_CONVERTIBLE, at_layer(place, tensor + type));
    }
  }

  // The same content; the same bytes too? Numbers of pages move planes, so planes are compared by number and place within a strip.
  void geometry() {
    if (a_.shards.size() != b_.shards.size()) {
      return findings_.add(QUIRE_COMPAT_REARRANGED, differs("number of shards", a_.shards.size(), b_.shards.size()));
    }
    for (size_t s = 0; s < a_.shards.size(); ++s) {
      regions(s);
      for (size_t i = 0; i < a_.places.size(); ++i) {
        if (findings_.found().level != QUIRE_COMPAT_IDENTICAL) return;
        const std::string difference = place_differs(a_.shards[s], b_.shards[s], i);
        if (!difference.empty()) findings_.add(QUIRE_COMPAT_REARRANGED, at_layer(a_.places[i], difference));
      }
    }
  }

  void regions(size_t s) {
    const std::string shard = "shard " + std::to_string(s) + ": ";
    const auto& x = a_.shards[s].regions;
    const auto& y = b_.shards[s].regions;
    if (x.size() != y.size()) return findings_.add(QUIRE_COMPAT_REARRANGED, shard + differs("number of regions", x.size(), y.size()));
    for (size_t r = 0; r < x.size(); ++r) {
      if (x[r].page_stride != y[r].page_stride) {
        findings_.add(QUIRE_COMPAT_REARRANGED, shard + differs("page_stride", x[r].page_stride, y[r].page_stride));
      }
      if (x[r].num_planes != y[r].num_planes) {
        findings_.add(QUIRE_COMPAT_REARRANGED, shard + differs("num_planes", x[r].num_planes, y[r].num_planes));
      }
    }
  }

  struct Spot {
    const char* field;
    uint64_t value;
  };

  static std::vector<Spot> spots(const Config& config, const ShardPlan& shard, size_t i) {
    std::vector<Spot> out;
    const CachePlace& place = config.places[i];
    const GroupPlan& group = config.groups[place.group.value];
    out.push_back({"column", place.column});
    out.push_back({"block_tokens of the group", group.is_state() ? 0 : group.block_tokens});
    out.push_back({"ids_per_block", group.ids_per_block});
    out.push_back({"parts_per_page", group.parts_per_page});
    out.push_back({"kernel_blocks_per_part", group.kernel_blocks_per_part});
    const auto offset = [&](uint32_t region, int64_t at) {
      const uint64_t plane = shard.regions[region].page_stride * config.num_pages;
      out.push_back({"region", region});
      out.push_back({"plane", static_cast<uint64_t>(at) / plane});
      out.push_back({"offset in a page", static_cast<uint64_t>(at) % plane});
    };
    const auto stride = [&](const char* name, int64_t value) { out.push_back({name, static_cast<uint64_t>(value)}); };
    const quire_kv_view& kv = shard.views[i].kv;
    out.push_back({"first_head", kv.first_head});
    out.push_back({"num_heads", kv.num_heads});
    out.push_back({"context_rank", kv.context_rank});
    out.push_back({"context_ranks", kv.context_ranks});
    out.push_back({"block_tokens", kv.block_tokens});
    for (uint32_t side = 0; side < kv.num_sides; ++side) {
      offset(kv.region, kv.offset[side]);
      stride("stride_block", kv.stride_block[side]);
      stride("stride_token", kv.stride_token[side]);
      stride("stride_head", kv.stride_head[side]);
      stride("stride_dim", kv.stride_dim[side]);
    }
    for (const quire_state_view& state : shard.views[i].states) {
      offset(state.region, state.offset);
      stride("stride_part", state.stride_part);
      out.push_back({"rank", state.rank});
      out.push_back({"num_ranks", state.num_ranks});
    }
    return out;
  }

  std::string place_differs(const ShardPlan& x, const ShardPlan& y, size_t i) const {
    const std::vector<Spot> p = spots(a_, x, i);
    const std::vector<Spot> q = spots(b_, y, i);
    if (p.size() != q.size()) return "only one of the two plans has it in this shard";
    for (size_t k = 0; k < p.size(); ++k) {
      if (p[k].value != q[k].value) return differs(p[k].field, p[k].value, q[k].value);
    }
    return {};
  }

  const Config& a_;
  const Config& b_;
  Findings findings_;
};

}  // namespace

Compatibility compare(const Config& a, const Config& b) { return Comparison(a, b).run(); }

}  // namespace quire
