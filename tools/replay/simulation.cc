#include "replay/simulation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

namespace quire::replay {
namespace {

struct Row {
  uint32_t request = 0;
  uint64_t position = 0;  // computed tokens
  uint64_t end = 0;       // of the sequence
};

class Simulation {
 public:
  Simulation(const std::vector<Request>& trace, const Content& content, const Options& options, Store* store)
      : trace_(trace), content_(content), options_(options), store_(store), schedule_(trace, options.timing), hits_(trace.size()) {}

  std::vector<uint32_t> run() {
    while (true) {
      for (const Schedule::Due& due : schedule_.due(waiting_.empty() && rows_.empty())) {
        waiting_.insert(due.first ? waiting_.begin() : waiting_.end(), static_cast<uint32_t>(due.request));
      }
      if (waiting_.empty() && rows_.empty()) break;
      step();
    }
    return std::move(hits_);
  }

 private:
  uint64_t tokens_of(const Row& row, uint64_t budget) const {
    const uint64_t prompt = trace_[row.request].input_length;
    return row.position < prompt ? std::min(budget, prompt - row.position) : 1;
  }

  // Tokens that each row computes: running ones in order, then new ones while there is room.
  void plan() {
    uint64_t budget = std::max<uint64_t>(1, options_.tokens_per_step);
    counts_.clear();
    for (const Row& row : rows_) {
      if (budget == 0) break;
      counts_.push_back(tokens_of(row, budget));
      budget -= counts_.back();
    }
    while (budget > 0 && !waiting_.empty() && rows_.size() < std::max(1u, options_.concurrency)) {
      const uint32_t request = waiting_.front();
      const auto hit = store_->start(request, most_hit(trace_[request], content_.unit_tokens), rows_.empty());
      if (!hit) break;
      waiting_.pop_front();
      hits_[request] = *hit * content_.unit_tokens;
      const Request& one = trace_[request];
      rows_.push_back({request, hits_[request], one.input_length + std::min(one.output_length, options_.max_output) - 1});
      counts_.push_back(tokens_of(rows_.back(), budget));
      budget -= counts_.back();
    }
  }

  void step() {
    plan();
    const uint32_t unit = content_.unit_tokens;
    for (size_t i = 0; i < counts_.size(); ++i) {
      Row& row = rows_[i];
      const auto from = static_cast<uint32_t>(row.position / unit);
      row.position = std::min(row.position + counts_[i], row.end);
      const auto to = static_cast<uint32_t>(row.position / unit);
      if (to > from) store_->reach(row.request, from, to);
    }
    schedule_.stepped(std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}));
    for (size_t i = 0; i < rows_.size();) {
      if (rows_[i].position < rows_[i].end) {
        ++i;
        continue;
      }
      const uint32_t request = rows_[i].request;
      store_->finish(request);
      schedule_.ended(request);
      rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const std::vector<Request>& trace_;
  const Content& content_;
  const Options& options_;
  Store* store_;
  Schedule schedule_;
  std::vector<uint32_t> hits_;
  std::deque<uint32_t> waiting_;
  std::vector<Row> rows_;
  std::vector<uint64_t> counts_;
};

}  // namespace

std::vector<uint32_t> simulate(Oracle oracle, const std::vector<Request>& trace, const Content& content, const Sizes& sizes,
                               const Work& work, const Options& options) {
  Sizes all = sizes;
  if (oracle == Oracle::kInfinite) all.pool_bytes = std::numeric_limits<uint64_t>::max();
  const std::unique_ptr<Store> store = oracle == Oracle::kClairvoyant ? clairvoyant_store(trace, content, sizes)
                                       : oracle == Oracle::kMarconi   ? marconi_store(trace, content, sizes, work)
                                                                      : lru_store(content, all);
  return Simulation(trace, content, options, store.get()).run();
}

}  // namespace quire::replay
