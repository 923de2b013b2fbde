// Drafts beside a model: their layers are read by the library, from one text.
#include "quire/drafts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMtp = "mtp";
// Methods of engines: those that keep no cache, and those whose layers are in a config of their own.
constexpr std::array kWithoutLayers{"ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator"};
constexpr std::array kOfAnother{"eagle", "eagle3", "dflash", "dspark", "draft_model"};

template <typename Names>
bool one_of(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Drafts {
  uint64_t caches = 0;
  uint32_t first = 0;  // layer
  uint32_t last = 0;
  uint32_t ahead = 0;
};

Drafts drafts_in(quire_model* model) {
  client::Error error;
  auto info = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &info, &error), error);
  Drafts out;
  for (uint32_t i = 0; i < info.num_caches; ++i) {
    auto layer = client::sized<quire_layer>();
    client::check(quire_model_get_layer(model, i, &layer, &error), error);
    if ((layer.flags & QUIRE_LAYER_DRAFT) == 0) continue;
    if (out.caches == 0) out.first = layer.layer;
    out.last = layer.layer;
    out.ahead = layer.look_ahead;
    ++out.caches;
  }
  return out;
}

}  // namespace

std::string text_of(const PlanArguments& arguments) {
  std::string text = client::read_model_text(arguments.config, arguments.as);
  const std::string& what = arguments.speculative;
  if (what.empty() && arguments.draft_tokens != 0) throw Usage("--draft-tokens: without --speculative nothing is drafted");
  if (what.empty()) return text;
  if (client::is_layer_file(text)) {
    throw Usage("--speculative: '" + arguments.config + "' is a layer file, which names its draft layers itself");
  }
  if (one_of(kWithoutLayers, what)) throw Usage("--speculative " + what + ": it keeps no cache; plan without it");
  if (one_of(kOfAnother, what)) {
    throw Usage("--speculative " + what + ": its layers are in a config of their own; give that file or its folder");
  }
  if (client::nests_too_deep(text)) return text;
  Json config = Json::parse(client::with_words(text), nullptr, false);
  if (!config.is_object()) return text;  // the library says what is wrong with it
  Json drafts = Json::object();
  if (arguments.draft_tokens != 0) drafts["num_tokens"] = arguments.draft_tokens;
  if (what != kMtp) {
    const std::string draft = client::read_model_text(what, "");
    if (client::nests_too_deep(draft)) throw Usage("--speculative: '" + what + "': brackets nested deeper than 64");
    drafts["config"] = Json::parse(client::with_words(draft), nullptr, false);
    if (!drafts["config"].is_object()) throw Usage("--speculative: '" + what + "' is no JSON object");
  }
  config["quire_speculative"] = std::move(drafts);
  return config.dump();
}

uint32_t draft_tokens_of(quire_model* model) { return drafts_in(model).ahead; }

std::string drafts_note(quire_model* model, const PlanArguments& arguments) {
  if (arguments.speculative.empty()) return {};
  const Drafts found = drafts_in(model);
  if (found.caches == 0) return "drafts: the draft keeps no cache of its own, so no layer of it is counted";
  const std::string layers = found.first == found.last ? "layer " + std::to_string(found.first)
                                                       : "layers " + std::to_string(found.first) + "-" + std::to_string(found.last);
  return "drafts: " + layers + " with " + counted(found.caches, "cache") + ", behind the model's own; they write " +
         counted(found.ahead, "token") + " ahead";
}

std::vector<uint32_t> stages_with_drafts(quire_model* model, uint32_t stages) {
  const Drafts found = drafts_in(model);
  if (found.caches == 0 || found.first < stages) return {};
  client::Error error;
  auto info = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &info, &error), error);
  std::vector<uint32_t> out(stages);
  for (uint64_t i = 0; i < stages; ++i) out[i] = static_cast<uint32_t>((i + 1) * found.first / stages - i * found.first / stages);
  out.back() += info.num_layers - found.first;
  return out;
}

uint32_t retained_for(quire_model* model, const PlanArguments& arguments) {
  if (arguments.speculative != kMtp) return 0;
  const Json config = Json::parse(client::with_words(client::read_model_text(arguments.config, arguments.as)), nullptr, false);
  uint64_t modules = 1;
  for (const char* place : {"", "text_config", "mtp_config"}) {
    const Json& object = *place == 0 ? config : config.contains(place) ? config[place] : Json();
    if (!object.is_object() || !object.contains("num_nextn_predict_layers")) continue;
    const Json& count = object["num_nextn_predict_layers"];
    if (count.is_number_unsigned()) modules = std::max(modules, count.get<uint64_t>());
  }
  const uint32_t ahead = drafts_in(model).ahead;
  return std::min<uint64_t>(modules, ahead) > 1 ? ahead - 1 : 0;
}

}  // namespace quire::tools
