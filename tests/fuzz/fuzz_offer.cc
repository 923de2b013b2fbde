// What a peer says of its offer: bytes as they are, or a valid description with some of them changed, mostly with a right checksum again.
// What is accepted comes out as the same bytes, and what it differs in is named in texts that end and can be printed.
#include <algorithm>
#include <span>
#include <vector>

#include "core/base/utf8.h"
#include "core/model/dtype.h"
#include "core/records/checksum.h"
#include "core/tier/offer_description.h"
#include "tests/fuzz/fuzz.h"

namespace quire::fuzz {
namespace {

struct Rig {
  std::unique_ptr<TierPlan> plan;
  std::unique_ptr<Sources> sources;
  OfferDescription own;
  std::vector<uint8_t> bytes;

  Rig() {
    std::vector<quire_layer> layers(4);
    for (uint32_t i = 0; i < layers.size(); ++i) {
      layers[i] = {};
      layers[i].struct_size = sizeof layers[i];
      layers[i].layer = i;
      layers[i].kind = i == 2 ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL;
      layers[i].window = i == 2 ? 40 : 0;
      layers[i].num_kv_heads = 4;
      layers[i].head_dim_k = layers[i].head_dim_v = 8;
      layers[i].dtype = kBFloat16;
    }
    auto model = Model::create(layers, 256);
    require(model.ok(), "there is a model");
    quire_plan_options options{};
    options.struct_size = sizeof options;
    options.policy = {"auto", 4};
    const uint64_t memory = uint64_t{1} << 30;
    options.memory_bytes = &memory;
    options.num_memory_bytes = 1;
    options.num_pages = 48;
    options.max_model_len = 64;
    options.block_tokens = 16;
    options.tensor_parallel = 2;
    auto config = quire::plan(*model, options);
    require(config.ok(), "there is a plan");
    auto made = TierPlan::make(*config, "fuzz", 64, 0);
    require(made.ok(), "there is a plan of records");
    plan = std::move(*made);
    const uint32_t sizes[] = {4};
    sources = std::move(*Sources::make(*plan, sizes));
    own = describe_plan(*plan);
    describe_identity(std::string(24, '\0'), {}, &own);
    own.end_token = 128;
    bytes = write_description(own);
  }
};

template <size_t kSize>
void check_text(const char (&text)[kSize], const char* what) {
  const size_t size = strnlen(text, kSize);
  require(size < kSize && is_utf8({text, size}), what);
  require(std::none_of(text, text + size, [](char c) { return static_cast<uint8_t>(c) < 0x20; }), what);
}

void check_refusal(const std::optional<quire_offer_refusal>& refusal) {
  if (!refusal) return;
  require(refusal->field >= QUIRE_OFFER_VERSION && refusal->field <= QUIRE_OFFER_ENCODER_TOKENS, "a field is one of them");
  check_text(refusal->name, "a name is text");
  check_text(refusal->here, "what is here is text");
  check_text(refusal->there, "what is there is text");
  const bool is_secret =
      refusal->field == QUIRE_OFFER_SALT || refusal->field == QUIRE_OFFER_ADAPTER || refusal->field == QUIRE_OFFER_PROMPT;
  require(!is_secret || (refusal->here[0] == '\0' && refusal->there[0] == '\0'), "secrets are not shown");
}

std::vector<uint8_t> make_bytes(const Rig& rig, Input& in) {
  const uint32_t way = in.below(8);
  if (way == 0) return std::vector<uint8_t>(in.data(), in.data() + in.size());
  std::vector<uint8_t> bytes = rig.bytes;
  while (!in.empty()) {
    const uint32_t what = in.below(4);
    const size_t at = in.take<uint16_t>() % bytes.size();
    if (what == 0) bytes.resize(at + 1);
    if (what == 1) bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), in.take<uint8_t>());
    if (what >= 2) bytes[at] = in.take<uint8_t>();
  }
  if (way == 1 || bytes.size() < kDescriptionStart) return bytes;
  const uint64_t size = bytes.size(), sum = checksum(bytes.data() + kDescriptionStart, size - kDescriptionStart);
  if (way != 2) std::copy_n(rig.bytes.begin(), 16, bytes.begin());
  std::memcpy(bytes.data() + 16, &size, sizeof size);
  std::memcpy(bytes.data() + 24, &sum, sizeof sum);
  return bytes;
}

void run(const Rig& rig, Input in) {
  const std::vector<uint8_t> bytes = make_bytes(rig, in);
  uint32_t version = 0;
  auto offer = read_description(bytes, &version);
  if (!offer.ok()) {
    require(!offer.status().message().empty(), "a refusal has a sentence");
    if (offer.status().code() == QUIRE_UNIMPLEMENTED) check_refusal(other_version(version));
    return;
  }
  require(bytes == rig.bytes ? *offer == rig.own : !(*offer == rig.own), "what is said is what was written");
  for (const bool has_refused : {false, true}) {
    const OfferReader reader{rig.own, *rig.sources, rig.plan->grid(), 128, 0, 200, true, has_refused};
    const auto refusal = first_difference(reader, *offer);
    check_refusal(refusal);
    require(bytes != rig.bytes || !refusal, "an offer like ours is not refused");
  }
}

}  // namespace
}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const quire::fuzz::Rig rig;
  quire::fuzz::run(rig, quire::fuzz::Input(data, size));
  return 0;
}
