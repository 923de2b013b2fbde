#include "core/model/layer_options.h"

#include <algorithm>
#include <cinttypes>

namespace quire {
namespace {

constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMaxBlock = uint64_t{1} << 24;
constexpr uint64_t kMaxBatches = 1024;
constexpr uint64_t kMaxRanks = 1024;
constexpr uint64_t kMaxDrafts = 1024;
constexpr const char* kSource = "layers: options.";

// The object in a field, an empty one where the field is missing or null; an error where it is anything else.
Result<const Json*> object_in(const Json& from, const char* source, const char* field) {
  static const Json nothing{Json::Value(Json::Object())};
  const Json* it = from.find(field);
  if (it == nullptr || it->is_null()) return &nothing;
  if (it->is_object()) return it;
  return invalid("%s%s = %.64s; must be an object", source, field, Fields::shown(*it).c_str());
}

Status check_connector(const Json& options) {
  auto object = object_in(options, kSource, "connector");
  if (!object.ok()) return object.take_status();
  QUIRE_RETURN_IF_ERROR(only_known(**object, "layers: options.connector.", {"cross_layers"}));
  Fields fields(**object, **object, "layers: options.connector.");
  (void)fields.flag("cross_layers");
  return std::move(fields.status);
}

Status read_drafts(const Json& options, LayerOptions* out) {
  auto object = object_in(options, kSource, "spec_decode");
  if (!object.ok()) return object.take_status();
  if (!options.contains("spec_decode") || options["spec_decode"].is_null()) return {};
  QUIRE_RETURN_IF_ERROR(only_known(**object, "layers: options.spec_decode.", {"num_tokens", "eagle", "multi_module_mtp"}));
  Fields fields(**object, **object, "layers: options.spec_decode.");
  out->draft_tokens = fields.need("num_tokens", kMaxDrafts);
  for (const char* field : {"eagle", "multi_module_mtp"}) (void)fields.flag(field);
  return std::move(fields.status);
}

Status check_mode(const Json& options) {
  const Json* it = options.find("mamba_cache_mode");
  if (it == nullptr || it->is_null() || it->is_text("none") || it->is_text("align") || it->is_text("all")) return {};
  return invalid("%smamba_cache_mode = %.64s; must be \"none\", \"align\" or \"all\"", kSource, Fields::shown(*it).c_str());
}

}  // namespace

Status check_granule(const char* source, const char* field, uint64_t tokens) {
  if (tokens % kGranule == 0 || kGranule % tokens == 0) return {};
  return invalid("%s%s = %" PRIu64 "; must be a multiple of %" PRIu64 " tokens, which kernels take at a time, or divide them", source,
                 field, tokens, kGranule);
}

Status only_known(const Json& object, const char* where, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : object.object()) {
    const bool found = std::any_of(known.begin(), known.end(), [&key = key](const char* one) { return key == one; });
    if (found) continue;
    return invalid("%s%.64s = %.64s is not known", where, key.c_str(), Fields::shown(value).c_str());
  }
  return {};
}

Result<LayerOptions> read_layer_options(const Json& file) {
  auto object = object_in(file, "layers: ", "options");
  if (!object.ok()) return object.take_status();
  if (file.contains("options") && file["options"].is_null()) return invalid("layers: options = null; must be an object");
  const Json& options = **object;
  QUIRE_RETURN_IF_ERROR(only_known(options, kSource,
                                   {"max_model_len", "max_encoder_tokens", "max_num_batched_tokens", "concurrent_batches", "block_size",
                                    "prefix_caching", "hybrid_manager", "mamba_cache_mode", "num_gpu_blocks_override", "auto_fit", "dcp",
                                    "prefix_match_unit", "connector", "spec_decode"}));
  LayerOptions out;
  Fields fields(options, options, kSource);
  out.max_model_len = fields.get("max_model_len", 0, 1, kMaxTokens);
  out.encoder_tokens = fields.get("max_encoder_tokens", 0, 1, kMaxTokens);
  (void)fields.get("max_num_batched_tokens", 1, 1, kMaxTokens);
  (void)fields.get("concurrent_batches", 1, 1, kMaxBatches);
  (void)fields.get("num_gpu_blocks_override", 1, 1, kMaxTokens);
  (void)fields.get("prefix_match_unit", 1, 1, kMaxTokens);
  (void)fields.get("dcp", 1, 1, kMaxRanks);
  const uint64_t block = fields.get("block_size", 0, 1, kMaxBlock);
  for (const char* field : {"prefix_caching", "hybrid_manager", "auto_fit"}) (void)fields.flag(field);
  QUIRE_RETURN_IF_ERROR(std::move(fields.status));
  if (block != 0) QUIRE_RETURN_IF_ERROR(check_granule(kSource, "block_size", block));
  QUIRE_RETURN_IF_ERROR(check_mode(options));
  QUIRE_RETURN_IF_ERROR(check_connector(options));
  QUIRE_RETURN_IF_ERROR(read_drafts(options, &out));
  return out;
}

}  // namespace quire
