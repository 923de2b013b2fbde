#include "quire/fit.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "client/layer_plan.h"
#include "quire/drafts.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

constexpr uint64_t kStep = uint64_t{1} << 20;  // bytes: fitted memory is a multiple
constexpr uint64_t kMostMemory = uint64_t{1} << 60;

uint64_t wanted_length(quire_model* model, const PlanArguments& arguments) {
  client::Error error;
  auto facts = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &facts, &error), error);
  return arguments.max_len != 0 ? arguments.max_len : facts.max_model_len;
}

// Not the plan's fault but the memory's.
template <typename Make>
std::optional<client::Config> unless_too_large(Make make) {
  try {
    return make();
  } catch (const client::Failure& failure) {
    if (failure.code() != QUIRE_RESOURCE_EXHAUSTED) throw;
    return std::nullopt;
  }
}

Fitted longest_length(quire_model* model, PlanArguments arguments, uint64_t concurrency, std::vector<std::string>* notes) {
  Fitted out;
  out.chose = "length";
  out.sequences = concurrency;
  out.asked = wanted_length(model, arguments);
  arguments.fit = "length";
  out.config = plan_of(model, arguments, notes);
  out.taken = info_of(out.config.get()).max_model_len;
  // Several sequences: a shorter plan may have other pages, so what it promises is asked again.
  while (concurrency > 1) {
    const quire_capacity room = capacity_of(model, out.config.get(), out.taken, concurrency);
    if (room.guaranteed >= concurrency) break;
    if (room.longest == 0) {
      throw std::runtime_error("no length fits: not even the shortest " + std::to_string(concurrency) + " sequences do");
    }
    arguments.max_len = out.taken = std::min(room.longest, out.taken - 1);
    out.config = plan_of(model, arguments);
  }
  if (out.taken != out.asked) return out;
  return {std::move(out.config), "nothing", 0, 0, 0};
}

Fitted least_memory(quire_model* model, PlanArguments arguments, std::vector<std::string>* notes) {
  if (arguments.pages != 0) throw Usage("--fit memory: --pages says how much memory there is; must be one of them");
  Fitted out;
  out.chose = "memory";
  out.sequences = arguments.concurrency;
  out.asked = arguments.memory.empty() ? kDefaultMemory : *std::max_element(arguments.memory.begin(), arguments.memory.end());
  arguments.fit = "none";
  const auto holds = [&](uint64_t steps) {
    arguments.memory = {steps * kStep};
    const auto config = unless_too_large([&] { return plan_of(model, arguments); });
    return config && capacity_of(model, config->get(), 0, arguments.concurrency).guaranteed >= arguments.concurrency;
  };
  uint64_t high = 1;
  while (!holds(high)) {
    if (high > kMostMemory / kStep) throw std::runtime_error("no memory of up to " + client::bytes_text(kMostMemory) + " holds it");
    high *= 2;
  }
  uint64_t low = high / 2;  // does not hold it
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  arguments.memory = {high * kStep};
  out.taken = high * kStep;
  out.config = plan_of(model, arguments, notes);
  return out;
}

bool states_memory(const std::string& text, quire_model* model, const PlanArguments& arguments) {
  if (!arguments.memory.empty() || arguments.pages != 0) return true;
  if (!client::is_layer_file(text)) return false;
  const client::LayerPlan plan = client::read_layer_plan(text, model);
  return !plan.memory.empty() || plan.options.num_pages != 0;
}

}  // namespace

quire_capacity capacity_of(quire_model* model, quire_config* config, uint64_t tokens, uint64_t concurrency) {
  constexpr uint32_t kMostBranches = 64;
  client::Error error;
  auto options = client::sized<quire_cache_options>();
  options.num_state_branches = std::min(draft_tokens_of(model), kMostBranches);
  auto found = client::sized<quire_capacity>();
  client::check(quire_config_get_capacity(config, &options, tokens, concurrency, &found, &error), error);
  return found;
}

Fitted fit(quire_model* model, const PlanArguments& arguments, std::vector<std::string>* notes) {
  if (arguments.fit == "length") return longest_length(model, arguments, arguments.concurrency, notes);
  if (arguments.fit == "memory") return least_memory(model, arguments, notes);
  const std::string text = client::read_model_text(arguments.config, arguments.as);
  const bool from_file = client::is_layer_file(text);
  try {
    Fitted out;
    out.config = plan_of(model, arguments, notes);
    out.chose = "nothing";
    return out;
  } catch (const client::Failure& failure) {
    if (failure.code() != QUIRE_RESOURCE_EXHAUSTED || arguments.fit == "none") throw;
    if (notes != nullptr) notes->clear();
    if (!from_file && arguments.max_len == 0) return longest_length(model, arguments, 1, notes);
    if (!states_memory(text, model, arguments)) return least_memory(model, arguments, notes);
    throw std::runtime_error(std::string(failure.what()) + "; --fit length lowers the length, --fit memory takes the memory it needs");
  }
}

std::string fit_text(const Fitted& fitted) {
  const std::string sequences = fitted.sequences == 1 ? "a sequence" : std::to_string(fitted.sequences) + " sequences";
  if (fitted.chose == "length") {
    return "the length was fitted: " + with_commas(fitted.taken) + " tokens instead of " + with_commas(fitted.asked) +
           ", the most at which " + sequences + (fitted.sequences == 1 ? " fits" : " fit");
  }
  if (fitted.chose == "memory") {
    return "the memory was fitted: " + client::bytes_text(fitted.taken) + " per shard is the least that holds " + sequences +
           " of full length";
  }
  return {};
}

}  // namespace quire::tools
