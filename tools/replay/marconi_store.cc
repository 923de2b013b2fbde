// A radix tree with checkpoints, evicted by recency and compute saved per byte.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "replay/simulation.h"

namespace quire::replay {
namespace {

constexpr uint32_t kNone = Content::kNone;

// Units (parent's end, end] of a path. The root is edge 0 and has none.
struct Edge {
  uint32_t parent = 0;
  uint32_t node = kNone;  // the last unit
  uint32_t begin = 0;     // units before it
  uint32_t end = 0;
  uint32_t children = 0;
  uint32_t users = 0;  // running requests
  uint64_t used_at = 0;
  bool checkpoint = false;
  bool alive = false;
};

class MarconiStore : public Store {
 public:
  MarconiStore(const std::vector<Request>& trace, const Content& content, const Sizes& sizes, const Work& work)
      : trace_(trace), content_(content), sizes_(sizes), work_(work), owners_(content.nodes(), kNone), computed_(content.nodes()) {
    edges_.resize(1);
    edges_[0].users = 1;
  }

  std::optional<uint32_t> start(uint32_t request, uint32_t most, bool alone) override {
    const auto& path = content_.paths[request];
    const auto prompt = static_cast<uint32_t>(trace_[request].input_length / content_.unit_tokens);
    uint32_t known = 0;  // units that are in the tree, computed or not
    while (known < prompt && owners_[path[known]] != kNone) ++known;
    Run run;
    run.extra = sizes_.checkpoint_bytes + (path.size() - prompt) * sizes_.unit_bytes;
    const uint64_t needed = held_ + run.extra + (prompt - held_units(path, known)) * sizes_.unit_bytes;
    if (needed > sizes_.pool_bytes && !alone) return std::nullopt;
    uint32_t hit = 0;
    while (hit < std::min(most, known) && computed_[path[hit]]) ++hit;
    if (sizes_.checkpoint_bytes != 0) hit = resume(path, hit);
    ++now_;
    uint32_t edge = known == 0 ? 0 : owners_[path[known - 1]];
    if (known != 0 && edges_[edge].end != known) edge = split(edge, path, known);
    if (known > hit) run.writes.push_back(known);  // a branch point, or the same prompt again
    if (known < prompt) edge = add(edge, path, known, prompt);
    if (prompt > hit && (run.writes.empty() || run.writes.back() != prompt)) run.writes.push_back(prompt);
    run.edge = edge;
    use(edge);
    used_ += run.extra;
    held_ += run.extra;
    runs_[request] = std::move(run);
    evict();
    return hit;
  }

  void reach(uint32_t request, uint32_t from, uint32_t to) override {
    const auto& path = content_.paths[request];
    const auto prompt = static_cast<uint32_t>(trace_[request].input_length / content_.unit_tokens);
    for (uint32_t u = from; u < std::min(to, prompt); ++u) computed_[path[u]] = true;
    if (sizes_.checkpoint_bytes == 0) return;
    for (const uint32_t end : runs_[request].writes) {
      if (end <= from || end > to) continue;
      Edge& edge = edges_[owners_[path[end - 1]]];
      if (edge.end != end || edge.checkpoint || held_ + sizes_.checkpoint_bytes > sizes_.pool_bytes) continue;
      edge.checkpoint = true;
      used_ += sizes_.checkpoint_bytes;
      held_ += sizes_.checkpoint_bytes;
      evict();
    }
  }

  void finish(uint32_t request) override {
    const auto found = runs_.find(request);
    used_ -= found->second.extra;
    held_ -= found->second.extra;
    const auto& path = content_.paths[request];
    const auto prompt = static_cast<uint32_t>(trace_[request].input_length / content_.unit_tokens);
    ++now_;
    for (uint32_t e = prompt == 0 ? 0 : owners_[path[prompt - 1]]; e != 0; e = edges_[e].parent) {
      edges_[e].used_at = now_;
      if (--edges_[e].users == 0) held_ -= bytes_of(edges_[e]);
    }
    runs_.erase(found);
  }

 private:
  struct Run {
    uint64_t extra = 0;  // bytes of the running sequence beside the tree
    uint32_t edge = 0;
    std::vector<uint32_t> writes;  // ends of edges
  };

  uint64_t bytes_of(const Edge& edge) const {
    return (edge.end - edge.begin) * sizes_.unit_bytes + (edge.checkpoint ? sizes_.checkpoint_bytes : 0);
  }

  // Of the first `known` units, those that running requests hold.
  uint32_t held_units(const std::vector<uint32_t>& path, uint32_t known) const {
    uint32_t e = known == 0 ? 0 : owners_[path[known - 1]];
    while (e != 0 && edges_[e].users == 0) e = edges_[e].parent;
    return std::min(known, edges_[e].end);
  }

  uint32_t resume(const std::vector<uint32_t>& path, uint32_t most) const {
    for (uint32_t e = most == 0 ? 0 : owners_[path[most - 1]]; e != 0; e = edges_[e].parent) {
      if (edges_[e].checkpoint && edges_[e].end <= most) return edges_[e].end;
    }
    return 0;
  }

  uint32_t make() {
    if (free_.empty()) {
      edges_.emplace_back();
      return static_cast<uint32_t>(edges_.size() - 1);
    }
    const uint32_t edge = free_.back();
    free_.pop_back();
    edges_[edge] = {};
    return edge;
  }

  // The upper part of an edge becomes one of its own, which has no checkpoint yet.
  uint32_t split(uint32_t lower, const std::vector<uint32_t>& path, uint32_t end) {
    const uint32_t upper = make();
    Edge& below = edges_[lower];
    Edge& above = edges_[upper];
    above = {below.parent, path[end - 1], below.begin, end, 1, below.users, below.used_at, false, true};
    for (uint32_t u = above.begin; u < end; ++u) owners_[path[u]] = upper;
    below.parent = upper;
    below.begin = end;
    return upper;
  }

  uint32_t add(uint32_t parent, const std::vector<uint32_t>& path, uint32_t begin, uint32_t end) {
    const uint32_t edge = make();
    edges_[edge] = {parent, path[end - 1], begin, end, 0, 0, now_, false, true};
    ++edges_[parent].children;
    for (uint32_t u = begin; u < end; ++u) owners_[path[u]] = edge;
    used_ += (end - begin) * sizes_.unit_bytes;
    return edge;
  }

  void use(uint32_t edge) {
    for (uint32_t e = edge; e != 0; e = edges_[e].parent) {
      edges_[e].used_at = now_;
      if (edges_[e].users++ == 0) held_ += bytes_of(edges_[e]);
    }
  }

  bool can_go(const Edge& edge) const {
    if (!edge.alive || edge.users != 0) return false;
    return edge.children == 0 || (edge.children == 1 && edge.checkpoint);
  }

  // Compute that is saved beyond the parent, per byte that would be free.
  double worth(const Edge& edge) const {
    const uint64_t bytes = edge.children == 0 ? bytes_of(edge) : sizes_.checkpoint_bytes;
    const uint64_t unit = content_.unit_tokens;
    return (work_.of(edge.end * unit) - work_.of(edge.begin * unit)) / static_cast<double>(std::max<uint64_t>(1, bytes));
  }

  void evict() {
    while (used_ > sizes_.pool_bytes) {
      candidates_.clear();
      double least = std::numeric_limits<double>::max(), most = 0;
      uint64_t first = now_, last = 0;
      for (uint32_t e = 1; e < edges_.size(); ++e) {
        if (!can_go(edges_[e])) continue;
        candidates_.push_back({e, worth(edges_[e])});
        least = std::min(least, candidates_.back().worth);
        most = std::max(most, candidates_.back().worth);
        first = std::min(first, edges_[e].used_at);
        last = std::max(last, edges_[e].used_at);
      }
      if (candidates_.empty()) return;
      const auto utility = [&](const Candidate& one) {
        const double recency =
            last == first ? 0 : static_cast<double>(edges_[one.edge].used_at - first) / static_cast<double>(last - first);
        return recency + (most == least ? 0 : (one.worth - least) / (most - least));
      };
      give_up(std::min_element(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
                return utility(a) < utility(b);
              })->edge);
    }
  }

  void give_up(uint32_t e) {
    Edge& edge = edges_[e];
    if (edge.checkpoint) used_ -= sizes_.checkpoint_bytes;
    edge.checkpoint = false;
    if (edge.children == 1) {
      merge(e);
      return;
    }
    for (uint32_t node = edge.node, u = edge.end; u > edge.begin; --u, node = content_.parents[node]) {
      owners_[node] = kNone;
      computed_[node] = false;
    }
    used_ -= (edge.end - edge.begin) * sizes_.unit_bytes;
    --edges_[edge.parent].children;
    edge.alive = false;
    free_.push_back(e);
  }

  // Its units go to its only child.
  void merge(uint32_t e) {
    const Edge edge = edges_[e];
    uint32_t child = 1;
    while (!edges_[child].alive || edges_[child].parent != e) ++child;
    for (uint32_t node = edge.node, u = edge.end; u > edge.begin; --u, node = content_.parents[node]) owners_[node] = child;
    edges_[child].begin = edge.begin;
    edges_[child].parent = edge.parent;
    edges_[e].alive = false;
    free_.push_back(e);
  }

  struct Candidate {
    uint32_t edge;
    double worth;
  };

  const std::vector<Request>& trace_;
  const Content& content_;
  Sizes sizes_;
  const Work& work_;
  std::vector<Edge> edges_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> owners_;  // by node: its edge
  std::vector<bool> computed_;    // by node
  std::unordered_map<uint32_t, Run> runs_;
  std::vector<Candidate> candidates_;
  uint64_t now_ = 0;
  uint64_t used_ = 0;  // bytes
  uint64_t held_ = 0;  // of these, by running requests
};

}  // namespace

std::unique_ptr<Store> marconi_store(const std::vector<Request>& trace, const Content& content, const Sizes& sizes, const Work& work) {
  return std::make_unique<MarconiStore>(trace, content, sizes, work);
}

}  // namespace quire::replay
