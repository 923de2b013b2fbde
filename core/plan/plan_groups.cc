// What every policy starts from: options, the caches of a rank; and what a sequence needs of a group.
#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <numeric>

#include "core/base/checked.h"
#include "core/layout/codec.h"
#include "core/model/check_codec.h"
#include "core/model/dtype.h"
#include "core/plan/limits.h"
#include "core/plan/plan_input.h"

namespace quire {
namespace {

constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMaxBlock = 1 << 24;
constexpr uint64_t kMaxShards = 1 << 16;
constexpr uint64_t kDefaultBlock = 16;
constexpr uint64_t kDefaultInFlight = 8192;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
constexpr uint32_t kMaxPack = 1024;

std::string_view view(quire_str text) { return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.len); }

Status between(const char* option, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return {};
  return invalid("%s = %" PRIu64 "; must be %" PRIu64 "..%" PRIu64, option, value, low, high);
}

Status check_policy(const quire_plan_options& options, PlanInput* input) {
  const std::string_view policy = view(options.policy);
  if (policy == "vllm") {
    input->policy = "vllm";
    return {};
  }
  if (policy.empty() || policy == "auto") {
    input->policy = "auto";
    input->searches = true;
    return {};
  }
  const int shown = static_cast<int>(std::min<size_t>(policy.size(), 32));
  if (policy.substr(0, 5) != "pack:") {
    return invalid("policy = \"%.*s\"; must be \"vllm\", \"auto\" or \"pack:N\"", shown, policy.data());
  }
  const char* const end = policy.data() + policy.size();
  const auto [last, error] = std::from_chars(policy.data() + 5, end, input->pack_layers);
  if (error != std::errc() || last != end || input->pack_layers == 0 || input->pack_layers > kMaxPack) {
    return invalid("policy = \"%.*s\"; N of pack:N must be a whole number 1..%u", shown, policy.data(), kMaxPack);
  }
  input->policy = "pack:" + std::to_string(input->pack_layers);
  return {};
}

Status check_parallel(const quire_plan_options& options, PlanInput* input) {
  input->tensor_parallel = std::max(options.tensor_parallel, 1u);
  input->pipeline_parallel = std::max(options.pipeline_parallel, 1u);
  QUIRE_RETURN_IF_ERROR(between("tensor_parallel", input->tensor_parallel, 1, 1024));
  QUIRE_RETURN_IF_ERROR(between("pipeline_parallel", input->pipeline_parallel, 1, input->model->num_layers()));
  input->context_parallel = std::max(options.context_parallel, 1u);
  QUIRE_RETURN_IF_ERROR(between("context_parallel", input->context_parallel, 1, 1024));
  const uint64_t shards = uint64_t{input->tensor_parallel} * input->pipeline_parallel * input->context_parallel;
  return between("tensor_parallel * pipeline_parallel * context_parallel", shards, 1, kMaxShards);
}

// Layers of every pipeline stage, all of them, in order.
Status check_stages(const quire_plan_options& options, PlanInput* input) {
  if (options.num_stage_layers == 0) return {};
  if (options.num_stage_layers != input->pipeline_parallel) {
    return invalid("num_stage_layers = %" PRIu64 "; must be 0 or pipeline_parallel = %u", options.num_stage_layers,
                   input->pipeline_parallel);
  }
  if (options.stage_layers == nullptr) return invalid("stage_layers = NULL with num_stage_layers = %" PRIu64, options.num_stage_layers);
  uint64_t begin = 0;
  for (uint64_t s = 0; s < options.num_stage_layers; ++s) {
    input->stage_begin.push_back(static_cast<uint32_t>(begin));
    begin += options.stage_layers[s];
    if (options.stage_layers[s] == 0) return invalid("stage_layers[%" PRIu64 "] = 0; a stage has at least 1 layer", s);
    if (begin > input->model->num_layers()) break;
  }
  if (begin == input->model->num_layers()) return {};
  return invalid("stage_layers: %" PRIu64 " layers in all; the model has %u", begin, input->model->num_layers());
}

Status check_memory(const quire_plan_options& options, PlanInput* input) {
  input->num_pages = options.num_pages;
  if (options.num_memory_bytes == 0 && options.num_pages == 0) {
    if (options.memory_bytes != nullptr)
      return invalid("memory_bytes has num_memory_bytes = 0 entries and num_pages is missing; one must be given");
    return invalid("memory_bytes and num_pages are both missing; one must be given");
  }
  if (options.num_memory_bytes == 0) return {};
  if (options.memory_bytes == nullptr) return invalid("memory_bytes = NULL with num_memory_bytes = %" PRIu64, options.num_memory_bytes);
  const uint64_t shards = input->num_shards();
  if (options.num_memory_bytes != 1 && options.num_memory_bytes != shards) {
    return invalid("num_memory_bytes = %" PRIu64 "; must be 1 or the number of shards, %" PRIu64, options.num_memory_bytes, shards);
  }
  for (uint64_t s = 0; s < shards; ++s) {
    const uint64_t bytes = options.memory_bytes[options.num_memory_bytes == 1 ? 0 : s];
    if (bytes > kMaxSize) return fail(QUIRE_OUT_OF_RANGE, "memory_bytes[%" PRIu64 "] = %" PRIu64 "; at most %" PRIu64, s, bytes, kMaxSize);
    input->memory_bytes.push_back(bytes);
  }
  return {};
}

const char* default_order(const PlanInput& input) { return !input.searches ? "BLPJKTHD" : input.contiguous ? "BJPKTHD" : "BPJKTHD"; }

// Policy auto gives every lane an id, so lanes are no letter; and pages are cut by K at most.
Status check_search_order(const PlanInput& input, const char* text) {
  const Order& order = input.order;
  if (order.has(Letter::L)) return invalid("layout = \"%s\"; policy auto gives every lane its own id, so letter L must not occur", text);
  if (!order.has(Letter::P)) return invalid("layout = \"%s\"; letter P is missing", text);
  if (order.left_of(Letter::P, Letter::B)) return invalid("layout = \"%s\"; with policy auto P must stand right of B", text);
  if (input.contiguous && (order.size() < 2 || order[1] != Letter::J)) {
    return invalid("layout = \"%s\"; with QUIRE_PLAN_CONTIGUOUS and policy auto J must follow B, so that a part is one run", text);
  }
  return {};
}

Status check_order(const quire_plan_options& options, PlanInput* input) {
  input->order_given = !view(options.layout).empty();
  input->contiguous = (options.flags & QUIRE_PLAN_CONTIGUOUS) != 0;
  auto order = Order::parse(input->order_given ? view(options.layout) : default_order(*input));
  if (!order.ok()) return order.take_status();
  input->order = *order;
  const std::string text = order->text();
  if (!input->searches && !order->has(Letter::L)) {
    return invalid("layout = \"%s\"; policy %s gives one id to all lanes, so letter L must occur", text.c_str(), input->policy.c_str());
  }
  if (input->pack_layers > 1 && !order->has(Letter::P)) {
    return invalid("layout = \"%s\"; policy %s puts several layers into a lane, so letter P must occur", text.c_str(),
                   input->policy.c_str());
  }
  for (const Letter letter : {Letter::J, Letter::K, Letter::T, Letter::H, Letter::D}) {
    if (!order->has(letter)) return invalid("layout = \"%s\"; letter %c is missing", text.c_str(), letter_name(letter));
  }
  if (input->contiguous && !order->plane_letters().empty()) {
    return invalid("layout = \"%s\"; with QUIRE_PLAN_CONTIGUOUS no letter may stand left of B", text.c_str());
  }
  return input->searches ? check_search_order(*input, text.c_str()) : Status();
}

// What only the published algorithm knows.
Status check_published(const quire_plan_options& options, PlanInput* input) {
  const auto asked = [&](uint32_t flag) { return (options.flags & flag) != 0; };
  const auto vllm = [&](uint32_t flag) { return (options.vllm.flags & flag) != 0; };
  input->rules = vllm(QUIRE_VLLM_UPSTREAM) ? Rules::kUpstream : Rules::kRight;
  input->one_table = asked(QUIRE_PLAN_ONE_TABLE);
  input->fits_length = asked(QUIRE_PLAN_FIT_LENGTH);
  input->transfers = vllm(QUIRE_VLLM_TRANSFERS);
  input->rows_of_all_layers = vllm(QUIRE_VLLM_ROWS);
  input->match_unit = options.vllm.match_unit_tokens;
  input->retained = options.vllm.retained_tokens;
  QUIRE_RETURN_IF_ERROR(between("match_unit_tokens", input->match_unit, 0, kMaxTokens));
  QUIRE_RETURN_IF_ERROR(between("retained_tokens", input->retained, 0, kMaxTokens));
  if (input->searches && input->one_table) return invalid("QUIRE_PLAN_ONE_TABLE; policy auto has one table per live range");
  const bool any = options.vllm.flags != 0 || input->match_unit != 0 || input->retained != 0;
  if (any && !input->is_published()) {
    return invalid("QUIRE_VLLM_UPSTREAM, TRANSFERS, ROWS, match_unit_tokens and retained_tokens are of policy vllm; policy is %s",
                   input->policy.c_str());
  }
  return {};
}

uint64_t shard_heads(uint64_t heads, uint64_t parallel) { return heads >= parallel ? heads / parallel : 1; }

// All kinds but these begin with the inputs of a short convolution.
bool is_recurrence(const quire_layer& desc, uint32_t tensor) {
  return tensor > 0 || desc.state_kind == QUIRE_STATE_GENERIC || desc.state_kind == QUIRE_STATE_LIGHTNING;
}

// One tensor-parallel slice of a state.
Status slice_state(const LayerCache& cache, const PlanInput& input, RankCache* out) {
  const quire_layer& desc = cache.desc;
  const uint32_t parallel = cache.facts.of_one_rank ? 1 : input.tensor_parallel;
  const uint64_t groups = desc.num_kv_heads;
  const bool replicates = repeats_groups(desc, parallel);
  const bool parts = std::any_of(desc.state_parts, desc.state_parts + 4, [](uint32_t part) { return part != 0; });
  if (groups != 0 && groups % parallel != 0 && (!replicates || !parts)) {
    return invalid("tensor_parallel = %u neither divides nor is a multiple of the %u key heads (groups) of state layer %u", parallel,
                   desc.num_kv_heads, desc.layer);
  }
  for (uint32_t i = 0; i < desc.num_state_tensors; ++i) {
    quire_state_tensor tensor = desc.state[i];
    if (!is_unset(input.state_dtype) && is_recurrence(desc, i)) tensor.dtype = input.state_dtype;
    if (desc.state_shard[i] != 0) {
      uint64_t& extent = tensor.shape[desc.state_shard[i] - 1];
      uint64_t sliced = 0;  // over all ranks; more than the model's where groups are repeated
      for (uint32_t part = 0; part < 4 && i == 0 && parts; ++part) sliced += sharded_part(desc, part, parallel);
      if (sliced == 0) sliced = extent;
      if (sliced % parallel != 0) {
        return invalid("tensor_parallel = %u does not divide state[%u].shape[%d] = %" PRIu64 " of layer %u", parallel, i,
                       desc.state_shard[i] - 1, extent, desc.layer);
      }
      extent = sliced / parallel;
    }
    out->shape.tensors.push_back(tensor);
    out->spec.identity.insert(out->spec.identity.end(), {tensor.dtype.code, tensor.dtype.bits, tensor.ndim});
    out->spec.identity.insert(out->spec.identity.end(), tensor.shape, tensor.shape + tensor.ndim);
  }
  out->granule = 1;
  out->told = input.is_published() && cache.facts.told != nullptr && is_unset(input.kv_dtype) && is_unset(input.state_dtype);
  if (out->told) {
    out->spec = *cache.facts.told;
    out->spec.layer = desc.layer;
    out->spec.sub = desc.sub;
    return {};
  }
  out->spec.family = CacheFamily::kState;
  out->spec.state_mode = input.state_mode;
  out->spec.state_bytes = state_payload_bytes(out->shape.tensors);
  out->spec.extra_blocks = cache.facts.family.draft_states;
  return {};
}

CacheFamily family_of(const quire_layer& desc) {
  switch (desc.kind) {
    case QUIRE_LAYER_SLIDING_WINDOW:
      return CacheFamily::kWindow;
    case QUIRE_LAYER_CHUNKED:
      return CacheFamily::kChunk;
    case QUIRE_LAYER_CROSS:
      return CacheFamily::kCross;
    case QUIRE_LAYER_MLA:
    case QUIRE_LAYER_INDEXER:
      return desc.window != 0 ? CacheFamily::kLatentWindow : CacheFamily::kLatent;
    default:
      return CacheFamily::kFull;
  }
}

bool is_fp8(quire_dtype dtype) { return dtype.code == QUIRE_DTYPE_FLOAT8_E4M3FN; }

// The layer as it is stored: in the type asked for, and as the family's record where that is one.
Result<quire_layer> stored_layer(const LayerCache& cache, const PlanInput& input) {
  quire_layer desc = cache.desc;
  if (is_unset(input.kv_dtype) || desc.kind == QUIRE_LAYER_INDEXER) return desc;
  if (desc.codec != QUIRE_CODEC_STRIDED) {
    return invalid("kv_dtype = {code %u, bits %u, lanes %u}; layer %u is encoded by codec %u and cannot take another type",
                   input.kv_dtype.code, input.kv_dtype.bits, input.kv_dtype.lanes, desc.layer, desc.codec);
  }
  if (input.kv_scales != QUIRE_KV_SCALES_OUTSIDE) {
    QUIRE_RETURN_IF_ERROR(add_scales(input.kv_dtype, input.kv_scales, &desc));
    return desc;
  }
  if (!is_fp8(input.kv_dtype) || !fp8_record(cache.facts.family.fp8_record, &desc)) desc.dtype = input.kv_dtype;
  return desc;
}

// Tokens of a block, and of the kernel block that it must be a multiple of; without context parallelism.
struct Cut {
  uint64_t block = 0;
  uint64_t granule = 0;
};

Cut cut_of(const LayerCache& cache, const PlanInput& input, const CacheSpec* told) {
  const quire_layer& desc = cache.desc;
  const uint64_t ratio = std::max(desc.compress_ratio, 1u);
  const uint64_t smallest = std::lcm(input.kernel_block_tokens, ratio);
  const uint64_t family = input.is_published() && desc.block_tokens == 0 ? cache.facts.family.block_tokens : 0;
  const uint64_t fixed = told != nullptr ? told->block_tokens : family;
  // Encodings of whole blocks, and blocks that are no multiple of what kernels take, are one kernel block.
  const bool aligned = told != nullptr && told->alignment != 0;
  const bool whole = family != 0 || (told != nullptr && (desc.codec == QUIRE_CODEC_BLOCK_SPLIT || aligned || fixed % smallest != 0));
  if (fixed != 0) return {fixed, whole ? fixed : smallest};
  if (desc.block_tokens != 0) return {desc.block_tokens, smallest};
  const bool window = !input.searches && desc.kind == QUIRE_LAYER_SLIDING_WINDOW;  // these take the smallest block
  return {round_up(window ? input.kernel_block_tokens : input.block_tokens, smallest), smallest};
}

uint64_t row_bytes(const MemberShape& shape) {
  uint64_t row = 0;
  for (uint32_t side = 0; side < shape.num_sides; ++side) {
    row += shape.num_heads * cell_bytes(shape.codec, shape.codec_params, shape.dtype, shape.width[side], side);
  }
  return row;
}

// What grouping compares, of a cache that no layer file tells.
void describe_spec(const LayerCache& cache, const PlanInput& input, uint64_t ratio, const MemberShape& shape, CacheSpec* spec) {
  const quire_layer& desc = cache.desc;
  spec->family = family_of(desc);
  spec->range = desc.window;
  spec->sink_tokens = desc.sink_tokens;
  spec->row_bytes = row_bytes(shape);
  const auto codec = static_cast<uint64_t>(shape.codec);
  spec->precision = uint64_t{shape.dtype.code} << 32 | uint64_t{shape.dtype.bits} << 16 | codec << 1 | 1;
  spec->identity = {shape.num_heads, shape.width[0],      shape.width[1], shape.dtype.code, shape.dtype.bits, desc.sink_tokens,
                    ratio,           desc.encoder_tokens, codec};
  const quire_codec_params& params = shape.codec_params;
  spec->identity.insert(spec->identity.end(), {params.data_bytes[0], params.data_bytes[1], params.scale_bytes[0], params.scale_bytes[1],
                                               params.tail_bytes[0], params.tail_bytes[1], params.tile, params.block_alignment});
  if (!input.is_published()) return;
  spec->alignment = is_fp8(input.kv_dtype) ? cache.facts.family.alignment_fp8 : cache.facts.family.alignment;
  spec->drafts_in_last = cache.facts.family.drafts_in_last;
}

Status slice_tokens(const LayerCache& cache, const PlanInput& input, RankCache* out) {
  auto stored = stored_layer(cache, input);
  if (!stored.ok()) return stored.take_status();
  const quire_layer& desc = *stored;
  const uint64_t parallel = cache.facts.of_one_rank ? 1 : input.tensor_parallel;
  const bool latent = desc.kind == QUIRE_LAYER_MLA || desc.kind == QUIRE_LAYER_INDEXER;
  if (!latent && desc.num_kv_heads % parallel != 0 && parallel % desc.num_kv_heads != 0) {
    return invalid("tensor_parallel = %" PRIu64 " neither divides nor is a multiple of num_kv_heads = %u of layer %u", parallel,
                   desc.num_kv_heads, desc.layer);
  }
  MemberShape& shape = out->shape;
  shape.num_sides = latent ? 1 : 2;
  shape.num_heads = static_cast<uint32_t>(latent ? 1 : shard_heads(desc.num_kv_heads, parallel));
  shape.width[0] = desc.head_dim_k;
  shape.width[1] = desc.head_dim_v;
  shape.dtype = desc.dtype;
  const uint64_t ratio = std::max(desc.compress_ratio, 1u);
  shape.tokens_per_row = static_cast<uint32_t>(ratio);
  shape.codec = desc.codec;
  shape.codec_params = desc.codec_params;
  // Context-parallel ranks take turns token by token, so that a kernel block of each spans all their tokens; encoders are not cut.
  const uint64_t ranks = desc.kind == QUIRE_LAYER_CROSS ? 1 : input.context_parallel;
  out->told = input.is_published() && cache.facts.told != nullptr && is_unset(input.kv_dtype);
  const CacheSpec* told = out->told ? cache.facts.told.get() : nullptr;
  if (told != nullptr && input.kernel_block_asked && told->block_tokens % input.kernel_block_tokens != 0) {
    return invalid("layer %u: block_size = %" PRIu64 "; must be a multiple of kernel_block_tokens = %" PRIu64, desc.layer,
                   told->block_tokens, input.kernel_block_tokens);
  }
  const Cut cut = cut_of(cache, input, told);
  out->granule = cut.granule * ranks;
  out->tokens_per_row = ratio * ranks;
  QUIRE_RETURN_IF_ERROR(between("kernel block of a compressed layer", out->granule, 1, kMaxBlock));
  shape.rows = static_cast<uint32_t>(out->granule / out->tokens_per_row);
  CacheSpec& spec = out->spec;
  if (out->told) {
    spec = *told;
  } else {
    describe_spec(cache, input, ratio, shape, &spec);
  }
  spec.layer = desc.layer;
  spec.sub = desc.sub;
  spec.tokens_per_row = out->tokens_per_row;
  spec.block_tokens = desc.block_tokens != 0 && !out->told ? desc.block_tokens : cut.block * ranks;
  if (spec.block_tokens % out->granule != 0) {
    return invalid("layer %u: block_tokens = %" PRIu64 "; must be a multiple of %" PRIu64
                   " tokens (kernel_block_tokens, compress_ratio, context_parallel)",
                   desc.layer, spec.block_tokens, out->granule);
  }
  return {};
}

Status check_dtypes(const quire_plan_options& options, PlanInput* input) {
  const quire_dtype dtype = input->kv_dtype = options.kv_dtype;
  input->kv_scales = options.kv_scales;
  input->state_dtype = options.state_dtype;
  if (!is_unset(options.state_dtype) && !is_known(options.state_dtype)) {
    return invalid("state_dtype = {code %u, bits %u, lanes %u}; must be an int, uint, float, bfloat or float8 type of whole bytes",
                   options.state_dtype.code, options.state_dtype.bits, options.state_dtype.lanes);
  }
  if (options.kv_scales < QUIRE_KV_SCALES_OUTSIDE || options.kv_scales > QUIRE_KV_SCALES_16) {
    return invalid("kv_scales = %d; must be %d..%d", options.kv_scales, QUIRE_KV_SCALES_OUTSIDE, QUIRE_KV_SCALES_16);
  }
  if (is_unset(dtype)) return options.kv_scales == 0 ? Status() : invalid("kv_scales = %d; kv_dtype is missing", options.kv_scales);
  const bool four = dtype.lanes <= 1 && dtype.bits == 4 && (dtype.code == QUIRE_DTYPE_INT || dtype.code == QUIRE_DTYPE_FLOAT4_E2M1FN);
  if (is_known(dtype) || (four && options.kv_scales != 0)) return {};
  return invalid(
      "kv_dtype = {code %u, bits %u, lanes %u}; must be an int, uint, float, bfloat or float8 type of whole bytes, or with "
      "kv_scales one of 4 bits",
      dtype.code, dtype.bits, dtype.lanes);
}

}  // namespace

bool repeats_groups(const quire_layer& desc, uint32_t parallel) {
  return desc.num_kv_heads != 0 && desc.num_kv_heads % parallel != 0 && parallel % desc.num_kv_heads == 0;
}

uint32_t sharded_part(const quire_layer& desc, uint32_t part, uint32_t parallel) {
  const bool of_groups = desc.state_kind == QUIRE_STATE_MAMBA2 ? part == 1 || part == 2 : part < 2;
  const uint64_t extent = desc.state_parts[part];
  if (!of_groups || !repeats_groups(desc, parallel)) return static_cast<uint32_t>(extent);
  return static_cast<uint32_t>(extent / desc.num_kv_heads * parallel);
}

uint32_t PlanInput::stage_of(uint32_t layer) const {
  // Stage s holds the layers [s * n / S, (s + 1) * n / S).
  const uint64_t n = model->num_layers();
  if (!stage_begin.empty()) {
    return static_cast<uint32_t>(std::upper_bound(stage_begin.begin(), stage_begin.end(), layer) - stage_begin.begin()) - 1;
  }
  uint64_t stage = uint64_t{layer} * pipeline_parallel / n;
  while ((stage + 1) * n / pipeline_parallel <= layer) ++stage;
  return static_cast<uint32_t>(stage);
}

Result<PlanInput> check_options(const Model& model, const quire_plan_options& options) {
  PlanInput input;
  input.model = &model;
  const uint32_t known = QUIRE_PLAN_NO_PREFIX_REUSE | QUIRE_PLAN_CONTIGUOUS | QUIRE_PLAN_ONE_TABLE | QUIRE_PLAN_FIT_LENGTH;
  if ((options.flags & ~known) != 0) return invalid("options.flags = 0x%x; known flags are 0x%x", options.flags, known);
  input.page_alignment = options.page_alignment;
  QUIRE_RETURN_IF_ERROR(between("page_alignment", options.page_alignment, 0, kMaxAlignment));
  input.encoder_tokens = options.encoder_tokens;
  QUIRE_RETURN_IF_ERROR(between("encoder_tokens", options.encoder_tokens, 0, kMaxTokens));
  QUIRE_RETURN_IF_ERROR(check_policy(options, &input));
  QUIRE_RETURN_IF_ERROR(check_published(options, &input));
  QUIRE_RETURN_IF_ERROR(check_parallel(options, &input));
  QUIRE_RETURN_IF_ERROR(check_stages(options, &input));
  QUIRE_RETURN_IF_ERROR(check_memory(options, &input));
  QUIRE_RETURN_IF_ERROR(check_order(options, &input));
  input.max_model_len = options.max_model_len != 0 ? options.max_model_len : model.max_model_len();
  if (input.max_model_len == 0) {
    return invalid("max_model_len = 0; must be 1..%" PRIu64 ", since the model does not state its own", uint64_t{kMaxTokens});
  }
  QUIRE_RETURN_IF_ERROR(between("max_model_len", input.max_model_len, 1, kMaxTokens));
  input.max_tokens_in_flight = options.max_tokens_in_flight != 0 ? options.max_tokens_in_flight : kDefaultInFlight;
  QUIRE_RETURN_IF_ERROR(between("max_tokens_in_flight", input.max_tokens_in_flight, 1, kMaxTokens));
  input.block_tokens = options.block_tokens != 0 ? options.block_tokens : std::max<uint64_t>(kDefaultBlock, options.kernel_block_tokens);
  input.kernel_block_asked = options.kernel_block_tokens != 0;
  input.kernel_block_tokens = options.kernel_block_tokens != 0 ? options.kernel_block_tokens : kDefaultBlock;
  QUIRE_RETURN_IF_ERROR(between("block_tokens", input.block_tokens, 1, kMaxBlock));
  QUIRE_RETURN_IF_ERROR(between("kernel_block_tokens", input.kernel_block_tokens, 1, kMaxBlock));
  if (input.block_tokens % input.kernel_block_tokens != 0) {
    return invalid("block_tokens = %" PRIu64 "; must be a multiple of kernel_block_tokens = %" PRIu64, input.block_tokens,
                   input.kernel_block_tokens);
  }
  QUIRE_RETURN_IF_ERROR(check_dtypes(options, &input));
  input.prefix_reuse = (options.flags & QUIRE_PLAN_NO_PREFIX_REUSE) == 0;
  if (options.vllm.state_mode < QUIRE_STATE_MODE_DEFAULT || options.vllm.state_mode > QUIRE_STATE_MODE_ALL) {
    return invalid("state_mode = %d; must be %d..%d", options.vllm.state_mode, QUIRE_STATE_MODE_DEFAULT, QUIRE_STATE_MODE_ALL);
  }
  const bool align =
      options.vllm.state_mode == QUIRE_STATE_MODE_DEFAULT ? input.prefix_reuse : options.vllm.state_mode == QUIRE_STATE_MODE_ALIGN;
  const bool all = options.vllm.state_mode == QUIRE_STATE_MODE_ALL;
  input.state_mode = all ? StateMode::kAll : align ? StateMode::kAlign : StateMode::kOff;
  return input;
}

Result<std::vector<RankCache>> rank_caches(const PlanInput& input) {
  std::vector<RankCache> out;
  const auto caches = input.model->caches();
  for (uint32_t i = 0; i < caches.size(); ++i) {
    if (!caches[i].has_memory()) continue;
    RankCache cache;
    cache.cache = i;
    cache.stage = input.stage_of(caches[i].desc.layer);
    cache.shape.layer = cache.spec.layer = caches[i].desc.layer;
    cache.spec.sub = caches[i].desc.sub;
    QUIRE_RETURN_IF_ERROR(caches[i].is_state() ? slice_state(caches[i], input, &cache) : slice_tokens(caches[i], input, &cache));
    out.push_back(std::move(cache));
  }
  if (out.empty()) return invalid("model: no layer keeps anything; there is nothing to plan");
  return out;
}

uint64_t cut_kernel_blocks(const std::vector<uint32_t>& members, std::vector<RankCache>* caches) {
  uint64_t tokens = 1;
  for (const uint32_t i : members) tokens = std::lcm(tokens, (*caches)[i].granule);
  for (const uint32_t i : members) {
    RankCache& cache = (*caches)[i];
    if (!cache.shape.is_state()) cache.shape.rows = static_cast<uint32_t>(tokens / cache.tokens_per_row);
  }
  return tokens;
}

Status check_num_groups(const PlanInput& input, size_t num_groups) {
  if (num_groups <= kMaxGroups) return {};
  return fail(QUIRE_OUT_OF_RANGE, "policy %s makes %zu groups of layers; a cache has at most %u", input.policy.c_str(), num_groups,
              kMaxGroups);
}

}  // namespace quire
