// What every policy starts from: options, the caches of a rank; and what a sequence needs of a group.
#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <numeric>

#include "core/base/checked.h"
#include "core/layout/codec.h"
#include "core/model/dtype.h"
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
  if (policy.empty() || policy == "vllm") {
    input->policy = "vllm";
    return {};
  }
  if (policy == "auto") {
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

Status check_memory(const quire_plan_options& options, PlanInput* input) {
  input->num_pages = options.num_pages;
  if (options.num_memory_bytes == 0 && options.num_pages == 0)
    return invalid("memory_bytes and num_pages are both missing; one must be given");
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

uint64_t shard_heads(uint64_t heads, uint64_t parallel) { return heads >= parallel ? heads / parallel : 1; }

// One tensor-parallel slice of a state.
Status slice_state(const LayerCache& cache, const PlanInput& input, RankCache* out) {
  const quire_layer& desc = cache.desc;
  const uint64_t parallel = input.tensor_parallel;
  const uint64_t groups = desc.num_kv_heads;
  const bool replicates = repeats_groups(desc, input.tensor_parallel);
  const bool parts = std::any_of(desc.state_parts, desc.state_parts + 4, [](uint32_t part) { return part != 0; });
  if (groups != 0 && groups % parallel != 0 && (!replicates || !parts)) {
    return invalid("tensor_parallel = %" PRIu64 " neither divides nor is a multiple of the %u key heads (groups) of state layer %u",
                   parallel, desc.num_kv_heads, desc.layer);
  }
  for (uint32_t i = 0; i < desc.num_state_tensors; ++i) {
    quire_state_tensor tensor = desc.state[i];
    if (desc.state_shard[i] != 0) {
      uint64_t& extent = tensor.shape[desc.state_shard[i] - 1];
      uint64_t sliced = 0;  // over all ranks; more than the model's where groups are repeated
      for (uint32_t part = 0; part < 4 && i == 0 && parts; ++part) sliced += sharded_part(desc, part, input.tensor_parallel);
      if (sliced == 0) sliced = extent;
      if (sliced % parallel != 0) {
        return invalid("tensor_parallel = %" PRIu64 " does not divide state[%u].shape[%d] = %" PRIu64 " of layer %u", parallel, i,
                       desc.state_shard[i] - 1, extent, desc.layer);
      }
      extent = sliced / parallel;
    }
    out->shape.tensors.push_back(tensor);
    out->spec.identity.insert(out->spec.identity.end(), {tensor.dtype.code, tensor.dtype.bits, tensor.ndim});
    out->spec.identity.insert(out->spec.identity.end(), tensor.shape, tensor.shape + tensor.ndim);
  }
  out->spec.family = CacheFamily::kState;
  out->spec.state_bytes = state_payload_bytes(out->shape.tensors);
  out->granule = 1;
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

Status slice_tokens(const LayerCache& cache, const PlanInput& input, RankCache* out) {
  const quire_layer& desc = cache.desc;
  const uint64_t parallel = input.tensor_parallel;
  const bool latent = desc.kind == QUIRE_LAYER_MLA || desc.kind == QUIRE_LAYER_INDEXER;
  if (!latent && desc.num_kv_heads % parallel != 0 && parallel % desc.num_kv_heads != 0) {
    return invalid("tensor_parallel = %" PRIu64 " neither divides nor is a multiple of num_kv_heads = %u of layer %u", parallel,
                   desc.num_kv_heads, desc.layer);
  }
  if (desc.codec != QUIRE_CODEC_STRIDED && desc.kind != QUIRE_LAYER_INDEXER && !is_unset(input.kv_dtype)) {
    return invalid("kv_dtype = {code %u, bits %u, lanes %u}; layer %u is encoded by codec %u and cannot take another type",
                   input.kv_dtype.code, input.kv_dtype.bits, input.kv_dtype.lanes, desc.layer, desc.codec);
  }
  MemberShape& shape = out->shape;
  shape.num_sides = latent ? 1 : 2;
  shape.num_heads = static_cast<uint32_t>(latent ? 1 : shard_heads(desc.num_kv_heads, parallel));
  shape.width[0] = desc.head_dim_k;
  shape.width[1] = desc.head_dim_v;
  shape.dtype = is_unset(input.kv_dtype) || desc.kind == QUIRE_LAYER_INDEXER ? desc.dtype : input.kv_dtype;
  const uint64_t ratio = std::max(desc.compress_ratio, 1u);
  shape.tokens_per_row = static_cast<uint32_t>(ratio);
  shape.codec = desc.codec;
  shape.codec_params = desc.codec_params;
  uint64_t row = 0;
  for (uint32_t side = 0; side < shape.num_sides; ++side) {
    row += shape.num_heads * cell_bytes(shape.codec, shape.codec_params, shape.dtype, shape.width[side], side);
  }
  // Context-parallel ranks take turns token by token, so that a kernel block of each spans all their tokens; encoders are not cut.
  const uint64_t ranks = desc.kind == QUIRE_LAYER_CROSS ? 1 : input.context_parallel;
  out->granule = std::lcm(input.kernel_block_tokens, ratio) * ranks;
  out->tokens_per_row = ratio * ranks;
  QUIRE_RETURN_IF_ERROR(between("kernel block of a compressed layer", out->granule, 1, kMaxBlock));
  shape.rows = static_cast<uint32_t>(out->granule / out->tokens_per_row);
  CacheSpec& spec = out->spec;
  spec.row_bytes = row;
  spec.tokens_per_row = out->tokens_per_row;
  spec.block_tokens = desc.block_tokens != 0 ? desc.block_tokens : round_up(input.block_tokens * ranks, out->granule);
  if (spec.block_tokens % out->granule != 0) {
    return invalid("layer %u: block_tokens = %" PRIu64 "; must be a multiple of %" PRIu64
                   " tokens (kernel_block_tokens, compress_ratio, context_parallel)",
                   desc.layer, spec.block_tokens, out->granule);
  }
  spec.family = family_of(desc);
  spec.range = desc.window;
  spec.identity = {shape.num_heads,  shape.width[0], shape.width[1],      shape.dtype.code, shape.dtype.bits,
                   desc.sink_tokens, ratio,          desc.encoder_tokens, desc.codec};
  const quire_codec_params& params = desc.codec_params;
  spec.identity.insert(spec.identity.end(), {params.data_bytes[0], params.data_bytes[1], params.scale_bytes[0], params.scale_bytes[1],
                                             params.tail_bytes[0], params.tail_bytes[1], params.tile, params.block_alignment});
  return {};
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
  uint64_t stage = uint64_t{layer} * pipeline_parallel / n;
  while ((stage + 1) * n / pipeline_parallel <= layer) ++stage;
  return static_cast<uint32_t>(stage);
}

Result<PlanInput> check_options(const Model& model, const quire_plan_options& options) {
  PlanInput input;
  input.model = &model;
  if (options.next != nullptr) return invalid("options.next must be NULL");
  const uint64_t known = QUIRE_PLAN_NO_PREFIX_REUSE | QUIRE_PLAN_CONTIGUOUS;
  if ((options.flags & ~known) != 0) return invalid("options.flags = 0x%" PRIx64 "; known flags are 0x%" PRIx64, options.flags, known);
  input.page_alignment = options.page_alignment;
  QUIRE_RETURN_IF_ERROR(between("page_alignment", options.page_alignment, 0, kMaxAlignment));
  input.encoder_tokens = options.encoder_tokens;
  QUIRE_RETURN_IF_ERROR(between("encoder_tokens", options.encoder_tokens, 0, kMaxTokens));
  QUIRE_RETURN_IF_ERROR(check_policy(options, &input));
  QUIRE_RETURN_IF_ERROR(check_parallel(options, &input));
  QUIRE_RETURN_IF_ERROR(check_memory(options, &input));
  QUIRE_RETURN_IF_ERROR(check_order(options, &input));
  input.max_model_len = options.max_model_len != 0 ? options.max_model_len : model.max_model_len();
  if (input.max_model_len == 0) return invalid("max_model_len = 0 and the model does not state its own");
  QUIRE_RETURN_IF_ERROR(between("max_model_len", input.max_model_len, 1, kMaxTokens));
  input.max_tokens_in_flight = options.max_tokens_in_flight != 0 ? options.max_tokens_in_flight : kDefaultInFlight;
  QUIRE_RETURN_IF_ERROR(between("max_tokens_in_flight", input.max_tokens_in_flight, 1, kMaxTokens));
  input.block_tokens = options.block_tokens != 0 ? options.block_tokens : std::max<uint64_t>(kDefaultBlock, options.kernel_block_tokens);
  input.kernel_block_tokens = options.kernel_block_tokens != 0 ? options.kernel_block_tokens : kDefaultBlock;
  QUIRE_RETURN_IF_ERROR(between("block_tokens", input.block_tokens, 1, kMaxBlock));
  QUIRE_RETURN_IF_ERROR(between("kernel_block_tokens", input.kernel_block_tokens, 1, kMaxBlock));
  if (input.block_tokens % input.kernel_block_tokens != 0) {
    return invalid("block_tokens = %" PRIu64 "; must be a multiple of kernel_block_tokens = %" PRIu64, input.block_tokens,
                   input.kernel_block_tokens);
  }
  input.kv_dtype = options.kv_dtype;
  if (!is_unset(options.kv_dtype) && !is_known(options.kv_dtype)) {
    return invalid("kv_dtype = {code %u, bits %u, lanes %u}; must be an int, uint, float, bfloat or float8 type of whole bytes",
                   options.kv_dtype.code, options.kv_dtype.bits, options.kv_dtype.lanes);
  }
  input.prefix_reuse = (options.flags & QUIRE_PLAN_NO_PREFIX_REUSE) == 0;
  if (options.state_mode < QUIRE_STATE_MODE_DEFAULT || options.state_mode > QUIRE_STATE_MODE_ALIGN) {
    return invalid("state_mode = %d; must be %d..%d", options.state_mode, QUIRE_STATE_MODE_DEFAULT, QUIRE_STATE_MODE_ALIGN);
  }
  const bool align = options.state_mode == QUIRE_STATE_MODE_DEFAULT ? input.prefix_reuse : options.state_mode == QUIRE_STATE_MODE_ALIGN;
  input.state_mode = align ? StateMode::kAlign : StateMode::kOff;
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

}  // namespace quire
