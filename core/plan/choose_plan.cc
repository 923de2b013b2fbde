// Which input is planned: preferred layouts in turn, and of the candidates of policy auto the one that wastes least memory.
#include <cinttypes>
#include <cstdio>

#include "core/plan/plan_input.h"

namespace quire {
namespace {

constexpr uint32_t kMostCandidatesTried = 64;
constexpr double kLostForOthers = 0.001;  // of memory; less is not worth another plan

Result<std::shared_ptr<const Config>> plan_once(const Model& model, const quire_plan_options& options,
                                                const std::vector<std::string>& notes) {
  auto input = check_options(model, options);
  if (!input.ok()) return input.take_status();
  auto first = plan_with(*input, notes);
  if (!first.ok()) return first.take_status();
  std::shared_ptr<const Config> best = first->config;
  if (first->lost_share < kLostForOthers) return best;
  // Ids of 31 bits keep memory from use: dearer candidates win where they lose less of it. Costs are shares too.
  const std::vector<double>& costs = first->costs;
  double waste = costs.empty() ? 0 : costs[0] + first->lost_share;
  for (uint32_t i = 1; i < costs.size() && i < kMostCandidatesTried; ++i) {
    if (costs[i] >= waste) continue;
    input->candidate = i;
    char text[200];
    std::snprintf(text, sizeof text,
                  "candidate %u of the search (0 is the cheapest) is taken: ids of 31 bits keep %.1f %% of memory from the cheapest", i,
                  100 * first->lost_share);
    std::vector<std::string> more = notes;
    more.push_back(text);
    auto made = plan_with(*input, more);
    if (!made.ok() || costs[i] + made->lost_share >= waste) continue;
    waste = costs[i] + made->lost_share;
    best = made->config;
  }
  return best;
}

constexpr uint64_t kMaxPreferred = 16;

}  // namespace

Result<std::shared_ptr<const Config>> plan(const Model& model, const quire_plan_options& options) {
  if (options.num_preferred_layouts > kMaxPreferred || (options.num_preferred_layouts != 0 && options.preferred_layouts == nullptr)) {
    return invalid("num_preferred_layouts = %" PRIu64 "; must be 0..%" PRIu64 ", and preferred_layouts not NULL",
                   options.num_preferred_layouts, kMaxPreferred);
  }
  const uint64_t wishes = options.layout.len == 0 ? options.num_preferred_layouts : 0;
  for (uint64_t i = 0; i < wishes; ++i) {
    const auto order = Order::parse({options.preferred_layouts[i].data, options.preferred_layouts[i].len});
    if (!order.ok()) return invalid("preferred_layouts[%" PRIu64 "]: %s", i, order.status().message().c_str());
  }
  std::vector<std::string> notes = model.notes();
  for (uint64_t i = 0; i < wishes; ++i) {
    const quire_str& wanted = options.preferred_layouts[i];
    const std::string_view text(wanted.data, wanted.len);
    quire_plan_options asked = options;
    asked.layout = wanted;
    auto made = plan_once(model, asked, notes);
    const bool does_not_suit = made.status().code() == QUIRE_INVALID_ARGUMENT || made.status().code() == QUIRE_NOT_REPRESENTABLE;
    if (made.ok() || !does_not_suit) return made;
    notes.push_back("preferred layout " + std::string(text) + " is not taken: " + made.status().message());
  }
  return plan_once(model, options, notes);
}

}  // namespace quire
