// Units by last use, and checkpoints that know the future.
#include <algorithm>

#include "replay/simulation.h"

namespace quire::replay {
namespace {

constexpr uint32_t kNone = Content::kNone;

// A boundary where a state and windows may be kept.
struct Place {
  uint32_t depth = 0;  // units
  bool present = false;
};

// Where checkpoints are written, and by whom.
struct Placement {
  std::vector<Place> places;
  std::vector<uint32_t> place_of;             // by node; empty = no node has one
  std::vector<std::vector<uint32_t>> writes;  // by request, from the first boundary to the last
};

// Each request resumes as deep as anybody computed before. The last one that came by writes that.
Placement placement_of(const std::vector<Request>& trace, const Content& content) {
  Placement out;
  out.place_of.assign(content.nodes(), kNone);
  out.writes.resize(trace.size());
  std::vector<uint32_t> last(content.nodes(), kNone);
  for (uint32_t r = 0; r < trace.size(); ++r) {
    const auto& path = content.paths[r];
    const uint32_t most = most_hit(trace[r], content.unit_tokens);
    uint32_t known = 0;
    while (known < most && last[path[known]] != kNone) ++known;
    if (known > 0) {
      const uint32_t node = path[known - 1];
      uint32_t& place = out.place_of[node];
      if (place == kNone) {
        place = static_cast<uint32_t>(out.places.size());
        out.places.push_back({known, false});
      }
      out.writes[last[node]].push_back(place);
    }
    for (const uint32_t node : path) last[node] = r;
  }
  for (auto& writes : out.writes) {
    std::sort(writes.begin(), writes.end(), [&](uint32_t a, uint32_t b) { return out.places[a].depth < out.places[b].depth; });
    writes.erase(std::unique(writes.begin(), writes.end()), writes.end());
  }
  return out;
}

// Items in the order of their last use: nodes, and behind them places.
class Order {
 public:
  explicit Order(uint32_t items) : links_(items + 1, {kNone, kNone}), end_(items) { links_[end_] = {end_, end_}; }
  bool has(uint32_t item) const { return links_[item].next != kNone; }
  bool empty() const { return links_[end_].next == end_; }
  uint32_t oldest() const { return links_[end_].next; }
  void push(uint32_t item) {
    const uint32_t before = links_[end_].before;
    links_[item] = {before, end_};
    links_[before].next = item;
    links_[end_].before = item;
  }
  void remove(uint32_t item) {
    Link& link = links_[item];
    links_[link.before].next = link.next;
    links_[link.next].before = link.before;
    link = {kNone, kNone};
  }

 private:
  struct Link {
    uint32_t before;
    uint32_t next;
  };
  std::vector<Link> links_;
  uint32_t end_;
};

class LruStore : public Store {
 public:
  LruStore(const Content& content, const Sizes& sizes, Placement placement)
      : content_(content),
        sizes_(sizes),
        placement_(std::move(placement)),
        places_are_needed_(!placement_.place_of.empty()),
        nodes_(content.nodes()),
        order_(content.nodes() + static_cast<uint32_t>(placement_.places.size())) {}

  std::optional<uint32_t> start(uint32_t request, uint32_t most, bool alone) override {
    const auto& path = content_.paths[request];
    uint64_t needed = held_ + sizes_.checkpoint_bytes;
    for (const uint32_t node : path) needed += nodes_[node].users == 0 ? sizes_.unit_bytes : 0;
    if (needed > sizes_.pool_bytes && !alone) return std::nullopt;
    uint32_t hit = 0;
    while (hit < most && nodes_[path[hit]].computed) ++hit;
    if (places_are_needed_) hit = resume(path, hit);
    used_ += sizes_.checkpoint_bytes;
    for (const uint32_t node : path) {
      if (nodes_[node].users++ == 0 && order_.has(node)) order_.remove(node);
    }
    held_ = needed;
    evict();
    return hit;
  }

  void reach(uint32_t request, uint32_t from, uint32_t to) override {
    const auto& path = content_.paths[request];
    for (uint32_t u = from; u < to; ++u) {
      Node& node = nodes_[path[u]];
      if (!node.computed) used_ += sizes_.unit_bytes;
      node.computed = true;
    }
    evict();
    if (!places_are_needed_) return;
    for (const uint32_t write : placement_.writes[request]) {
      Place& place = placement_.places[write];
      if (place.depth <= from || place.depth > to) continue;
      if (place.present) {
        touch(write);
        continue;
      }
      if (held_ + sizes_.checkpoint_bytes > sizes_.pool_bytes) continue;
      place.present = true;
      used_ += sizes_.checkpoint_bytes;
      order_.push(content_.nodes() + write);
      evict();
    }
  }

  void finish(uint32_t request) override {
    const auto& path = content_.paths[request];
    for (auto u = static_cast<uint32_t>(path.size()); u-- > 0;) {
      if (--nodes_[path[u]].users != 0) continue;
      held_ -= sizes_.unit_bytes;
      order_.push(path[u]);
    }
    used_ -= sizes_.checkpoint_bytes;
    held_ -= sizes_.checkpoint_bytes;
  }

 private:
  struct Node {
    uint32_t users = 0;
    bool computed = false;
  };
  void touch(uint32_t place) {
    const uint32_t item = content_.nodes() + place;
    order_.remove(item);
    order_.push(item);
  }

  // The deepest boundary up to `most` that has a checkpoint.
  uint32_t resume(const std::vector<uint32_t>& path, uint32_t most) {
    for (uint32_t u = most; u > 0; --u) {
      const uint32_t place = placement_.place_of[path[u - 1]];
      if (place == kNone || !placement_.places[place].present) continue;
      touch(place);
      return u;
    }
    return 0;
  }

  void drop(uint32_t place) {
    placement_.places[place].present = false;
    used_ -= sizes_.checkpoint_bytes;
    order_.remove(content_.nodes() + place);
  }

  void evict() {
    while (used_ > sizes_.pool_bytes && !order_.empty()) {
      const uint32_t item = order_.oldest();
      if (item >= content_.nodes()) {
        drop(item - content_.nodes());
        continue;
      }
      order_.remove(item);
      nodes_[item].computed = false;
      used_ -= sizes_.unit_bytes;
      const uint32_t place = places_are_needed_ ? placement_.place_of[item] : kNone;
      if (place != kNone && placement_.places[place].present) drop(place);
    }
  }

  const Content& content_;
  Sizes sizes_;
  Placement placement_;
  bool places_are_needed_;
  std::vector<Node> nodes_;
  Order order_;        // of what no running request uses
  uint64_t used_ = 0;  // bytes
  uint64_t held_ = 0;  // bytes of running requests at their ends, computed or not
};

}  // namespace

std::unique_ptr<Store> lru_store(const Content& content, const Sizes& sizes) {
  return std::make_unique<LruStore>(content, sizes, Placement{});
}

std::unique_ptr<Store> clairvoyant_store(const std::vector<Request>& trace, const Content& content, const Sizes& sizes) {
  return std::make_unique<LruStore>(content, sizes, sizes.checkpoint_bytes == 0 ? Placement{} : placement_of(trace, content));
}

}  // namespace quire::replay
