#include "client/layer_plan.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "client/client.h"

namespace quire::client {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kKernelBlock = 16;
constexpr uint64_t kMost63 = (uint64_t{1} << 63) - 1;
constexpr uint64_t kMost31 = (uint64_t{1} << 31) - 1;

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument("layer file: " + what); }

class Reader {
 public:
  Reader(const Json& file, quire_model* model) : file_(file), options_(options_of(file)), model_(model) {
    out_.options = sized<quire_plan_options>();
  }

  LayerPlan read() {
    quire_plan_options& plan = out_.options;
    plan.max_model_len = number(options_, "max_model_len", 0);
    plan.max_tokens_in_flight =
        number(options_, "max_num_batched_tokens", 0, kMost31) * number(options_, "concurrent_batches", 1, 1024);  // below 2^41
    plan.block_tokens = static_cast<uint32_t>(number(options_, "block_size", 0, kMost31));
    // Kernels of smaller blocks; with the usual ones the blocks of single layers may be smaller still.
    if (plan.block_tokens % kKernelBlock != 0) {
      plan.kernel_block_tokens = static_cast<uint32_t>(std::gcd(uint64_t{plan.block_tokens}, kKernelBlock));
    }
    plan.encoder_tokens = number(options_, "max_encoder_tokens", 0);
    plan.context_parallel = static_cast<uint32_t>(number(options_, "dcp", 1, kMost31));
    plan.num_pages = number(options_, "num_gpu_blocks_override", 0);
    plan.vllm.match_unit_tokens = static_cast<uint32_t>(number(options_, "prefix_match_unit", 0, kMost31));
    if (!boolean(options_, "prefix_caching", true)) plan.flags |= QUIRE_PLAN_NO_PREFIX_REUSE;
    if (!boolean(options_, "hybrid_manager", true)) plan.flags |= QUIRE_PLAN_ONE_TABLE;
    if (boolean(options_, "auto_fit", false)) plan.flags |= QUIRE_PLAN_FIT_LENGTH;
    if (const Json* connector = object("connector")) {
      plan.vllm.flags |= QUIRE_VLLM_TRANSFERS | (boolean(*connector, "cross_layers", false) ? QUIRE_VLLM_ROWS : 0);
    }
    if (const Json* drafts = object("spec_decode"); drafts != nullptr && boolean(*drafts, "multi_module_mtp", false)) {
      plan.vllm.retained_tokens = static_cast<uint32_t>(number(*drafts, "num_tokens", 1, kMost31) - 1);
    }
    const Json mode = options_.value("mamba_cache_mode", Json());
    plan.vllm.state_mode = mode == "none"    ? QUIRE_STATE_MODE_NONE
                           : mode == "align" ? QUIRE_STATE_MODE_ALIGN
                           : mode == "all"   ? QUIRE_STATE_MODE_ALL
                                             : QUIRE_STATE_MODE_DEFAULT;
    if (plan.vllm.state_mode == QUIRE_STATE_MODE_DEFAULT && !mode.is_null()) {
      refuse("options.mamba_cache_mode = " + mode.dump() + "; must be \"none\", \"align\" or \"all\"");
    }
    read_workers();
    read_specs();
    return std::move(out_);
  }

 private:
  static Json options_of(const Json& file) {
    const auto it = file.find("options");
    if (it == file.end()) return Json::object();
    if (!it->is_object()) refuse("options must be an object");
    return *it;
  }
  // Null and a field that is left out mean `otherwise`; a number is at least 1.
  static uint64_t number(const Json& from, const char* field, uint64_t otherwise, uint64_t most = uint64_t{1} << 40) {
    const auto it = from.find(field);
    if (it == from.end() || it->is_null()) return otherwise;
    if (!it->is_number_unsigned() || it->get<uint64_t>() == 0 || it->get<uint64_t>() > most) {
      refuse(std::string("options: ") + field + " = " + it->dump() + "; must be a whole number from 1 to " + std::to_string(most));
    }
    return it->get<uint64_t>();
  }
  static bool boolean(const Json& from, const char* field, bool otherwise) {
    const auto it = from.find(field);
    if (it == from.end() || it->is_null()) return otherwise;
    if (!it->is_boolean()) refuse(std::string(field) + " = " + it->dump() + "; must be true or false");
    return it->get<bool>();
  }
  const Json* object(const char* field) const {
    const auto it = options_.find(field);
    if (it == options_.end() || it->is_null()) return nullptr;
    if (!it->is_object()) refuse(std::string("options.") + field + " must be an object");
    return &*it;
  }

  void read_specs() {
    for (size_t i = 0; i < file_["specs"].size(); ++i) {
      const Json& spec = file_["specs"][i];
      const Json mode = spec.value("mode", Json());
      out_.specs.push_back(
          {i, spec.at("kind") == "mamba", number(spec, "block_size", 0, kMost31), mode.is_string() ? mode.get<std::string>() : ""});
    }
  }

  // Layers of the model by name.
  std::map<std::string, uint32_t> numbers() const {
    Error error;
    auto facts = sized<quire_model_info>();
    check(quire_model_get_info(model_, &facts, &error), error);
    std::map<std::string, uint32_t> out;
    for (uint32_t i = 0; i < facts.num_caches; ++i) {
      auto layer = sized<quire_layer>();
      check(quire_model_get_layer(model_, i, &layer, &error), error);
      out[to_string(layer.name)] = layer.layer;
    }
    num_layers_ = facts.num_layers;
    return out;
  }

  // The numbers of the layers that a worker lists; each line of the file belongs to one stage.
  std::vector<uint32_t> stage_of(const Json& worker, const std::map<std::string, uint32_t>& number_of, std::vector<bool>* owned) const {
    if (!worker.is_array()) refuse("workers: " + worker.dump() + " must be a list of layers");
    std::vector<uint32_t> out;
    for (const Json& line : worker) {
      if (!line.is_number_unsigned() || line.get<uint64_t>() >= owned->size()) refuse("workers: " + line.dump() + " is no line of layers");
      const auto at = line.get<size_t>();
      if ((*owned)[at]) refuse("workers: line " + line.dump() + " of layers is listed twice; it belongs to one stage");
      (*owned)[at] = true;
      const auto layer = number_of.find(file_["layers"][at][0].get<std::string>());
      if (layer == number_of.end()) refuse("workers: line " + line.dump() + " of layers is no layer of the model");
      out.push_back(layer->second);
    }
    return out;
  }

  // Workers with equal lists are tensor-parallel ranks, the others are stages, each from its first layer on.
  void read_workers() {
    const auto given = file_.find("workers");
    std::vector<int64_t> memory;
    if (const auto it = file_.find("available_memory"); it != file_.end()) {
      if (!it->is_array()) refuse("available_memory must be a list");
      for (const Json& bytes : *it) {
        if (!bytes.is_number_integer() || (bytes.is_number_unsigned() && bytes.get<uint64_t>() > kMost63)) {
          refuse("available_memory: " + bytes.dump() + " is no number of bytes up to " + std::to_string(kMost63));
        }
        memory.push_back(bytes.get<int64_t>());
      }
    }
    if (given == file_.end()) return take_memory(memory, 1, 1);
    if (!given->is_array() || given->empty()) refuse("workers must be a list of lists of layers");
    const std::map<std::string, uint32_t> number_of = numbers();
    std::vector<Json> stages;
    std::vector<uint32_t> begins;
    std::vector<std::vector<int64_t>> bytes;  // by stage
    std::vector<bool> owned(file_["layers"].size());
    uint32_t last = 0;
    for (size_t w = 0; w < given->size(); ++w) {
      const Json& worker = (*given)[w];
      const size_t stage = static_cast<size_t>(std::find(stages.begin(), stages.end(), worker) - stages.begin());
      if (stage == bytes.size()) bytes.emplace_back();
      if (!memory.empty() && w < memory.size()) bytes[stage].push_back(memory[w]);
      if (stage < stages.size()) continue;
      const std::vector<uint32_t> mine = stage_of(worker, number_of, &owned);
      const uint32_t begin = mine.empty() ? num_layers_ : *std::min_element(mine.begin(), mine.end());
      if (!begins.empty() && (begin <= begins.back() || begin <= last)) {
        refuse("workers[" + std::to_string(w) + "] = " + worker.dump() + "; stages must hold layers in the order of the model");
      }
      if (!mine.empty()) last = *std::max_element(mine.begin(), mine.end());
      stages.push_back(worker);
      begins.push_back(begin);
    }
    const auto missing = std::find(owned.begin(), owned.end(), false);
    if (missing != owned.end()) refuse("workers: no worker lists line " + std::to_string(missing - owned.begin()) + " of layers");
    const uint64_t ranks = given->size() / stages.size();
    if (ranks * stages.size() != given->size()) refuse("workers: every stage must have as many ranks");
    begins[0] = 0;
    for (size_t s = 0; s < begins.size(); ++s) {
      out_.stage_layers.push_back((s + 1 < begins.size() ? begins[s + 1] : num_layers_) - begins[s]);
    }
    if (!memory.empty() && memory.size() != given->size()) refuse("available_memory must name the bytes of every worker");
    std::vector<int64_t> ordered;
    for (const std::vector<int64_t>& list : bytes) {
      if (!memory.empty() && list.size() != ranks) refuse("workers: every stage must have as many ranks");
      ordered.insert(ordered.end(), list.begin(), list.end());
    }
    take_memory(ordered, static_cast<uint32_t>(stages.size()), static_cast<uint32_t>(ranks));
  }

  void take_memory(const std::vector<int64_t>& memory, uint32_t stages, uint32_t ranks) {
    quire_plan_options& plan = out_.options;
    plan.pipeline_parallel = stages;
    plan.tensor_parallel = ranks;
    if (memory.empty()) return;
    if (memory.size() != uint64_t{stages} * ranks) {
      refuse("available_memory has " + std::to_string(memory.size()) + " entries; must name the bytes of each of " +
             std::to_string(uint64_t{stages} * ranks) + " workers");
    }
    if (plan.num_pages != 0) return;  // a number of pages that is given does not ask for memory
    for (const int64_t bytes : memory) {
      for (uint32_t c = 0; c < plan.context_parallel; ++c) out_.memory.push_back(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
    }
  }

  const Json& file_;
  const Json options_;
  quire_model* model_;
  mutable uint32_t num_layers_ = 0;
  LayerPlan out_;
};

}  // namespace

void LayerPlan::point() {
  options.memory_bytes = memory.empty() ? nullptr : memory.data();
  options.num_memory_bytes = memory.size();
  options.stage_layers = stage_layers.size() < 2 ? nullptr : stage_layers.data();
  options.num_stage_layers = stage_layers.size() < 2 ? 0 : stage_layers.size();
}

LayerPlan read_layer_plan(const std::string& text, quire_model* model) {
  if (nests_too_deep(text)) refuse("brackets nested deeper than 64");
  const Json file = Json::parse(text, nullptr, false);
  if (file.is_discarded()) refuse("not JSON, or a number that no double holds");
  LayerPlan out = Reader(file, model).read();
  out.point();
  return out;
}

}  // namespace quire::client
