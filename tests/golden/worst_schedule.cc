#include "tests/golden/worst_schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tests/golden/directed_cache.h"

namespace quire {
namespace {

using Row = DirectedCache::Row;

struct Point {
  uint64_t in_flight = 0;  // tokens of one sequence
  uint64_t committed = 0;
  uint64_t pages = 0;
};

// What of the plan says where to look.
struct Shape {
  bool states = false;
  uint64_t boundary = 1;  // a multiple of all blocks
  uint64_t range = 1024;  // tokens before the end
};

Shape shape_of(quire_config* config) {
  client::Error error;
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config, &info, &error), error);
  Shape shape;
  for (uint32_t g = 0; g < info.num_groups; ++g) {
    auto group = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config, g, &group, &error), error);
    shape.states = shape.states || group.is_state != 0;
    shape.boundary = std::lcm(shape.boundary, uint64_t{group.block_tokens});
    shape.range = std::max(shape.range, group.chunk + 2 * group.block_tokens);
  }
  return shape;
}

class Worst {
 public:
  Worst(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences)
      : config_(config), options_(options), tokens_(tokens), sequences_(sequences), shape_(shape_of(config)) {
    options_.checkpoint_bytes = UINT64_MAX / 2;  // a state that is given up leaves room in a page that is filled
    lone_ = options_;
    lone_.max_sequences = lone_.max_entries_per_step = 2;
    options_.max_sequences = options_.max_entries_per_step = static_cast<uint32_t>(sequences);
  }

  uint64_t run() {
    measure();
    choose();
    if (shape_.states) scatter();
    return bring_together();
  }

 private:
  void note(uint64_t in_flight, uint64_t committed, uint64_t pages) {
    Point& best = points_[in_flight];
    if (pages > best.pages) best = Point{in_flight, committed, pages};
  }

  // Pages of a lone sequence, by its tokens in flight and its length.
  void measure() {
    DirectedCache live(config_, lone_);
    live_depth_ = live.depth();
    in_flight_ = uint64_t{live.depth()} * live.step_tokens();
    const uint64_t least = shape_.states ? live.depth() : 0;
    const size_t one = live.begin();
    live.fill(one, tokens_ - std::min(tokens_ - 1, shape_.range));
    for (uint64_t length = live.length(one); length <= tokens_; ++length) {
      const uint64_t left = tokens_ - length;
      for (uint64_t k = least; k <= std::min<uint64_t>(left, 34); ++k) note(k, length, live.pages_with(one, static_cast<uint32_t>(k)));
      if (left > 34 && left <= live.step_tokens()) note(left, length, live.pages_with(one, static_cast<uint32_t>(left)));
      if (left > 0) live.fill(one, length + 1);
    }
    for (uint64_t k = 64; k < 2 * std::min(in_flight_, tokens_); k *= 2) {
      const uint64_t many = std::min({k, in_flight_, tokens_ - 1});
      DirectedCache again(config_, lone_);
      const size_t other = again.begin();
      again.fill(other, tokens_ - many);
      for (uint64_t left = many; left > 0; left -= std::min<uint64_t>(left, again.step_tokens())) {
        const Row row{other, static_cast<uint32_t>(std::min<uint64_t>(left, again.step_tokens())), QUIRE_ENTRY_NO_STOP};
        again.reserve(std::span(&row, 1));
      }
      note(many, tokens_ - many, again.pages());
    }
  }

  // Two neighbours on the hull of what was measured: all sequences at the first, as many as tokens in flight allow at the second, and what
  // is left of these with one more.
  void choose() {
    std::vector<Point> hull;
    for (const auto& entry : points_) {
      const Point& point = entry.second;
      if (!hull.empty() && point.pages <= hull.back().pages) continue;
      const auto flat = [&](const Point& a, const Point& b) {
        return (point.pages - b.pages) * (b.in_flight - a.in_flight) >= (b.pages - a.pages) * (point.in_flight - b.in_flight);
      };
      while (hull.size() > 1 && flat(hull[hull.size() - 2], hull.back())) hull.pop_back();
      hull.push_back(point);
    }
    size_t at = 0;
    while (at + 1 < hull.size() && hull[at + 1].in_flight * sequences_ <= in_flight_) ++at;
    most_ = hull[at];
    more_ = hull[std::min(at + 1, hull.size() - 1)];
    const uint64_t left = in_flight_ - std::min(in_flight_, most_.in_flight * sequences_), step = more_.in_flight - most_.in_flight;
    num_more_ = step == 0 ? 0 : std::min(left / step, sequences_);
    rest_ = step == 0 || num_more_ == sequences_ ? 0 : left % step;
  }

  // Decodes to `end` with all steps in flight, and keeps states at some boundaries.
  bool decode(DirectedCache* live, size_t one, uint64_t end) const {
    for (uint64_t length = live->length(one); length < end; ++length) {
      if (live->in_flight() == live->depth()) live->commit();
      const Row row{one, 1, kept_.contains(length + 1) ? QUIRE_ENTRY_KEEP_STATE : 0};
      if (!live->reserve(std::span(&row, 1))) return false;
    }
    live->settle();
    return true;
  }

  // Puts what is wanted of each sequence into all steps that can be in flight.
  static bool fly(DirectedCache* live, std::map<size_t, uint64_t> wanted) {
    std::vector<Row> rows;
    for (uint32_t later = live->depth(); later-- > 0;) {
      rows.clear();
      uint64_t left = live->step_tokens();
      for (auto& [one, tokens] : wanted) {
        if (tokens == 0 || left == 0) continue;
        rows.push_back(Row{one, 1, QUIRE_ENTRY_NO_STOP});
        --tokens;
        --left;
      }
      for (Row& row : rows) {
        const uint64_t more = std::min(left, wanted[row.sequence] - std::min<uint64_t>(wanted[row.sequence], later));
        row.tokens += static_cast<uint32_t>(more);
        wanted[row.sequence] -= more;
        left -= more;
      }
      if (!rows.empty() && !live->reserve(rows)) return false;
    }
    return true;
  }

  // A sequence that will decode: the last chunks of its prompt end where states are kept.
  bool prepare(DirectedCache* live, size_t one) const {
    const uint64_t begin = begin_of(most_.committed), chunks = std::min(chunks_, begin / shape_.boundary);
    if (!live->fill(one, begin - chunks * shape_.boundary)) return false;
    for (uint64_t i = 0; i < chunks; ++i) {
      const Row row{one, static_cast<uint32_t>(shape_.boundary), QUIRE_ENTRY_NO_STOP | QUIRE_ENTRY_KEEP_STATE};
      if (!live->reserve(std::span(&row, 1))) return false;
      live->settle();
    }
    return true;
  }

  // In each of two stretches all boundaries of some residues: the slots of a sequence take turns, so that these are given away and
  // replaced.
  std::set<uint64_t> some_boundaries(std::mt19937_64* random) const {
    const uint64_t turns = uint64_t{live_depth_} + 1, begin = begin_of(most_.committed);
    const uint64_t first = (*random)() % (1u << turns), second = (*random)() % (1u << turns),
                   num = (most_.committed - begin) / shape_.boundary;
    const uint64_t end = (*random)() % (num + 1), middle = (*random)() % (end + 1);
    std::set<uint64_t> some;
    for (uint64_t i = 1; i <= end; ++i) {
      if (((i <= middle ? first : second) >> i % turns & 1) != 0) some.insert(begin + i * shape_.boundary);
    }
    return some;
  }

  // Boundaries at which kept states make those of a lone sequence lie in most pages.
  void scatter() {
    std::mt19937_64 random(1);
    DirectedCache live(config_, lone_);
    std::set<uint64_t> best;
    uint64_t most = 0, best_chunks = 0;
    for (uint64_t trial = 0; trial < 256; ++trial) {
      kept_ = trial == 0 ? std::set<uint64_t>{} : some_boundaries(&random);
      chunks_ = trial == 0 ? 0 : random() % 12;
      const size_t one = live.begin();
      bool flies = prepare(&live, one) && decode(&live, one, most_.committed);
      live.forget();
      flies = flies && fly(&live, {{one, most_.in_flight}});
      const uint64_t pages = live.pages();
      live.settle();
      live.finish(one);
      if (!flies || pages <= most) continue;
      most = pages;
      best = kept_;
      best_chunks = chunks_;
    }
    kept_ = best;
    chunks_ = best_chunks;
  }

  uint64_t begin_of(uint64_t committed) const {
    return shape_.states ? (committed - std::min<uint64_t>(committed / 2, 320)) / shape_.boundary * shape_.boundary : committed;
  }

  uint64_t bring_together() const {
    DirectedCache live(config_, options_);
    std::map<size_t, uint64_t> wanted;
    for (uint64_t i = 0; i < sequences_; ++i) {
      const bool more = i + num_more_ >= sequences_, last = !more && rest_ > 0 && i + num_more_ + 1 == sequences_;
      const uint64_t in_flight = more ? more_.in_flight : most_.in_flight + (last ? rest_ : 0);
      const size_t one = live.begin();
      const uint64_t committed = more ? more_.committed : std::min(most_.committed, tokens_ - in_flight);
      if (!(more || last ? live.fill(one, committed) : prepare(&live, one) && decode(&live, one, most_.committed))) return 0;
      wanted[one] = in_flight;
    }
    live.forget();
    return fly(&live, wanted) ? live.pages() : 0;
  }

  quire_config* config_;
  quire_cache_options options_, lone_;
  uint64_t tokens_, sequences_, in_flight_ = 0, num_more_ = 0, rest_ = 0, chunks_ = 0;
  uint32_t live_depth_ = 0;
  Shape shape_;
  std::map<uint64_t, Point> points_;
  Point most_, more_;
  std::set<uint64_t> kept_;
};

}  // namespace

uint64_t worst_pages(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences) {
  return Worst(config, options, tokens, sequences).run();
}

}  // namespace quire
