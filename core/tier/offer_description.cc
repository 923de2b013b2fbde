#include "core/tier/offer_description.h"

#include <algorithm>
#include <cstring>

#include "core/base/checked.h"
#include "core/base/utf8.h"
#include "core/events/block_hash.h"
#include "core/prefix/identity.h"
#include "core/records/checksum.h"

namespace quire {
namespace {

constexpr uint64_t kOfferMagic = 0x317266666f657571u;  // "queoffr1"
constexpr uint64_t kPartBytes = 32 + 6 * 4;
constexpr uint64_t kFixedBytes = 8 * 8 + 4 * 32;  // of the body
constexpr size_t kMostShown = 120;                // characters of a value
constexpr size_t kMostNamed = 56;
constexpr size_t kContext = 40;  // of them before what differs

void put_number(uint64_t value, std::vector<uint8_t>* out, int bytes = 8) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<uint8_t>(value >> 8 * i));
}

template <size_t kSize>
void put_bytes(const std::array<uint8_t, kSize>& bytes, std::vector<uint8_t>* out) {
  out->insert(out->end(), bytes.begin(), bytes.end());
}

// Reads what is there; the caller has compared sizes.
class BodyReader {
 public:
  explicit BodyReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint64_t number(size_t size = 8) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes_[at_ + i]} << 8 * i;
    at_ += size;
    return value;
  }
  uint32_t word() { return static_cast<uint32_t>(number(4)); }
  template <size_t kSize>
  void bytes(std::array<uint8_t, kSize>* out) {
    std::memcpy(out->data(), bytes_.data() + at_, kSize);
    at_ += kSize;
  }
  std::string text(uint64_t size) {
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return text;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

std::array<uint8_t, 32> secret_digest(const OfferHandle& handle, char kind, std::string_view text) {
  std::string bytes = "quire offer 1";
  bytes += kind;
  bytes.append(handle.begin(), handle.end());
  bytes += text;
  return BlockHasher::sha256(bytes).bytes;
}

Status damaged_offer(const char* what) { return fail(QUIRE_DATA_LOSS, "offer: %s", what); }

// What begins alike is left out where the rest would not fit.
std::string shown(std::string_view value, std::string_view other, size_t most = kMostShown) {
  const auto differs = std::mismatch(value.begin(), value.end(), other.begin(), other.end()).first - value.begin();
  std::string text;
  if (value.size() > most && static_cast<size_t>(differs) > most / 2) {
    value.remove_prefix(std::min(static_cast<size_t>(differs), value.size()) - kContext);
    text = "...";
  }
  text += printable(value.substr(0, most));
  if (text.size() > most) {
    text.resize(most);
    text += "...";
  }
  if (!is_utf8(text)) {  // a peer may say anything, and long texts are cut anywhere
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) > 0x7f; }, '?');
  }
  return text;
}

template <size_t kSize>
void copy_text(std::string_view text, char (&to)[kSize]) {
  to[text.copy(to, kSize - 1)] = '\0';
}

quire_offer_refusal refuse(quire_offer_field field, std::string_view name, std::string_view here, std::string_view there) {
  quire_offer_refusal refusal{};
  refusal.struct_size = sizeof refusal;
  refusal.field = field;
  copy_text(shown(name, {}, kMostNamed), refusal.name);
  copy_text(shown(here, there), refusal.here);
  copy_text(shown(there, here), refusal.there);
  return refusal;
}

quire_offer_refusal refuse(quire_offer_field field, std::string_view name, uint64_t here, uint64_t there) {
  return refuse(field, name, std::to_string(here), std::to_string(there));
}

// The first part of a text up to the separator, which is taken from it.
std::string_view take_part(std::string_view* text, std::string_view separator) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(std::min(end + separator.size(), text->size()));
  return part;
}

// Lines are "name = item, item ...".
std::optional<quire_offer_refusal> compare_models(std::string_view here, std::string_view there) {
  while (!here.empty() || !there.empty()) {
    std::string_view a = take_part(&here, "\n"), b = take_part(&there, "\n");
    if (a == b) continue;
    const std::string_view name = take_part(&a, " = "), other = take_part(&b, " = ");
    if (name != other) {  // layers stand in their order, and one may be missing
      const std::string named = std::string(name) + " = ";
      const bool comes_later = there.starts_with(named) || there.find("\n" + named) != std::string_view::npos;
      if (name.empty() || comes_later) return refuse(QUIRE_OFFER_LAYERS, other, "nothing", b);
      return refuse(QUIRE_OFFER_LAYERS, name, a, "nothing");
    }
    if (name == "weights") return refuse(QUIRE_OFFER_WEIGHTS, name, a, b);
    if (name == "record version") return refuse(QUIRE_OFFER_VERSION, name, a, b);
    while (!a.empty() || !b.empty()) {
      const std::string_view x = take_part(&a, ", "), y = take_part(&b, ", ");
      if (x != y) return refuse(QUIRE_OFFER_LAYERS, name, x.empty() ? "nothing" : x, y.empty() ? "nothing" : y);
    }
    return refuse(QUIRE_OFFER_LAYERS, name, a, b);
  }
  return std::nullopt;
}

std::string text_of(const OfferPart& part) {
  const std::string caches = std::to_string(part.num_caches) + (part.num_caches == 1 ? " cache" : " caches");
  const std::string first = std::to_string(part.first_layer), last = std::to_string(part.last_layer);
  return caches + (first == last ? " of layer " + first : " of layers " + first + " to " + last);
}

std::optional<quire_offer_refusal> compare_ranks(const OfferReader& reader, const OfferDescription& offer) {
  const OfferDescription& own = reader.own;
  const auto is_readable = [&](const OfferPart& part) {
    const auto all = reader.sources.all();
    return std::any_of(all.begin(), all.end(), [&](const RecordSource& source) { return source.name == part.name; });
  };
  const auto missing = std::find_if_not(offer.parts.begin(), offer.parts.end(), is_readable);
  if (missing == offer.parts.end()) return std::nullopt;
  const auto field = [](const char* name, uint32_t here, uint32_t there) { return refuse(QUIRE_OFFER_RANKS, name, here, there); };
  if (own.pipeline_parallel != offer.pipeline_parallel) return field("pipeline_parallel", own.pipeline_parallel, offer.pipeline_parallel);
  if (own.context_parallel != offer.context_parallel) return field("context_parallel", own.context_parallel, offer.context_parallel);
  const std::span<const uint32_t> sizes = reader.sources.sizes();
  if (own.tensor_parallel != offer.tensor_parallel && std::find(sizes.begin(), sizes.end(), offer.tensor_parallel) == sizes.end()) {
    return field("tensor_parallel", own.tensor_parallel, offer.tensor_parallel);
  }
  const auto same =
      std::find_if(own.parts.begin(), own.parts.end(), [&](const OfferPart& p) { return p.first_layer == missing->first_layer; });
  return refuse(QUIRE_OFFER_GROUPS, "groups", same == own.parts.end() ? std::string("no such layers") : text_of(*same), text_of(*missing));
}

std::optional<quire_offer_refusal> compare_look_ahead(const OfferDescription& own, const OfferDescription& offer) {
  if (own.look_ahead != offer.look_ahead) return refuse(QUIRE_OFFER_LOOK_AHEAD, "look_ahead", own.look_ahead, offer.look_ahead);
  for (const OfferPart& part : offer.parts) {
    const auto same =
        std::find_if(own.parts.begin(), own.parts.end(), [&](const OfferPart& p) { return p.first_layer == part.first_layer; });
    if (same == own.parts.end() || (same->look_ahead > 0) == (part.look_ahead > 0)) continue;
    return refuse(QUIRE_OFFER_LOOK_AHEAD, "look_ahead of layer " + std::to_string(part.first_layer), same->look_ahead, part.look_ahead);
  }
  return std::nullopt;
}

std::optional<quire_offer_refusal> compare_ends(const OfferReader& reader, const OfferDescription& offer) {
  const auto field = [&](const std::string& here) {
    return refuse(QUIRE_OFFER_END_TOKEN, "end_token", here, std::to_string(offer.end_token));
  };
  if (offer.end_token != reader.end_token) return field(std::to_string(reader.end_token));
  if (offer.end_token % reader.grid != 0) return field("multiples of " + std::to_string(reader.grid));
  if (offer.end_token > reader.longest) return field("at most " + std::to_string(reader.longest));
  if (!reader.has_prefix) return std::nullopt;
  const bool is_same = reader.own.prefix.own == offer.prefix.own && reader.own.prefix.ahead == offer.prefix.ahead;
  return is_same ? std::nullopt : std::optional(refuse(QUIRE_OFFER_PROMPT, "prompt", "", ""));
}

// Blocks are longer here, and a window's first one is not there as a whole.
std::optional<quire_offer_refusal> compare_blocks(const OfferDescription& own, const OfferDescription& offer) {
  for (const OfferPart& part : offer.parts) {
    const auto is_longer = [&](const OfferPart& p) {
      return p.first_layer == part.first_layer && p.is_clipped && p.block_tokens > part.block_tokens;
    };
    const auto same = std::find_if(own.parts.begin(), own.parts.end(), is_longer);
    if (same != own.parts.end() && part.block_tokens != 0) {
      return refuse(QUIRE_OFFER_BLOCK_TOKENS, "block_tokens of layer " + std::to_string(part.first_layer), same->block_tokens,
                    part.block_tokens);
    }
  }
  return std::nullopt;
}

}  // namespace

bool OfferDescription::operator==(const OfferDescription& o) const {
  return model == o.model && unit_tokens == o.unit_tokens && look_ahead == o.look_ahead && tensor_parallel == o.tensor_parallel &&
         pipeline_parallel == o.pipeline_parallel && context_parallel == o.context_parallel && salt == o.salt && adapter == o.adapter &&
         epoch == o.epoch && end_token == o.end_token && encoder_tokens == o.encoder_tokens && prefix.own == o.prefix.own &&
         prefix.ahead == o.prefix.ahead && parts == o.parts;
}

const RecordKey& description_key() {
  static const RecordKey key = BlockHasher::sha256("quire offer description").bytes;
  return key;
}

OfferDescription describe_plan(const TierPlan& plan) {
  OfferDescription d;
  const Config& config = plan.config();
  d.model = plan.model();
  d.unit_tokens = plan.unit_tokens();
  d.look_ahead = plan.look_ahead();
  for (const CachePlace& place : config.places) d.pipeline_parallel = std::max(d.pipeline_parallel, place.stage + 1);
  d.tensor_parallel = std::max(1u, static_cast<uint32_t>(config.shards.size()) / d.pipeline_parallel);
  d.context_parallel = config.context_parallel;
  for (uint32_t p = 0; p < plan.parts().size(); ++p) {
    const TierPart& part = plan.parts()[p];
    if (part.twin != p) continue;
    OfferPart& out = d.parts.emplace_back();
    out.name = part.name;
    const auto [first, last] = std::minmax_element(part.shape.members.begin(), part.shape.members.end());
    out.first_layer = first->layer;
    out.last_layer = last->layer;
    out.num_caches = static_cast<uint32_t>(part.shape.members.size());
    out.block_tokens = part.block_tokens;
    out.look_ahead = part.look_ahead;
    out.is_clipped = !part.is_state && (part.live.window != 0 || part.live.chunk != 0 || part.live.sink != 0);
  }
  return d;
}

void describe_identity(std::string_view identity, const OfferHandle& handle, OfferDescription* out) {
  const IdentityParts parts = split_identity(identity);
  out->salt = secret_digest(handle, 's', parts.salt);
  out->adapter = secret_digest(handle, 'a', parts.adapter);
  out->epoch = parts.epoch;
}

std::vector<uint8_t> write_description(const OfferDescription& d) {
  std::vector<uint8_t> body;
  put_bytes(d.salt, &body);
  put_bytes(d.adapter, &body);
  put_bytes(d.prefix.own, &body);
  put_bytes(d.prefix.ahead, &body);
  const uint64_t ranks = uint64_t{d.pipeline_parallel} << 32 | d.tensor_parallel;
  const uint64_t context_and_encoder = uint64_t{d.encoder_tokens} << 32 | d.context_parallel;
  for (const uint64_t n : {d.unit_tokens, d.look_ahead, d.epoch, d.end_token, ranks, context_and_encoder, uint64_t{d.model.size()},
                           uint64_t{d.parts.size()}}) {
    put_number(n, &body);
  }
  body.insert(body.end(), d.model.begin(), d.model.end());
  for (const OfferPart& part : d.parts) {
    put_bytes(part.name, &body);
    for (const uint32_t n :
         {part.first_layer, part.last_layer, part.num_caches, part.block_tokens, part.look_ahead, uint32_t{part.is_clipped}}) {
      put_number(n, &body, 4);
    }
  }
  std::vector<uint8_t> out;
  put_number(kOfferMagic, &out);
  put_number(kDescriptionVersion, &out);
  put_number(kDescriptionStart + body.size(), &out);
  put_number(checksum(body.data(), body.size()), &out);
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Result<OfferDescription> read_description(std::span<const uint8_t> bytes, uint32_t* version) {
  *version = 0;
  if (bytes.size() < kDescriptionStart || bytes.size() > kMostDescriptionBytes) return damaged_offer("its description has another size");
  BodyReader start(bytes);
  if (start.number() != kOfferMagic) return damaged_offer("these bytes do not describe one");
  *version = start.word();
  if (*version != kDescriptionVersion) {
    return fail(QUIRE_UNIMPLEMENTED, "offer: version %u, this library reads %u", *version, kDescriptionVersion);
  }
  const std::span<const uint8_t> body = bytes.subspan(kDescriptionStart);
  if (start.word() != 0 || start.number() != bytes.size()) return damaged_offer("its description is cut");
  if (start.number() != checksum(body.data(), body.size())) return damaged_offer("the checksum of its description is another one");
  if (body.size() < kFixedBytes) return damaged_offer("its description is cut");
  BodyReader in(body);
  OfferDescription d;
  in.bytes(&d.salt);
  in.bytes(&d.adapter);
  in.bytes(&d.prefix.own);
  in.bytes(&d.prefix.ahead);
  d.unit_tokens = in.number();
  d.look_ahead = in.number();
  d.epoch = in.number();
  d.end_token = in.number();
  d.tensor_parallel = in.word();
  d.pipeline_parallel = in.word();
  d.context_parallel = in.word();
  d.encoder_tokens = in.word();
  const uint64_t text = in.number(), parts = in.number(), left = body.size() - kFixedBytes;
  const auto part_bytes = checked_mul(parts, kPartBytes);
  if (!part_bytes || text > left || *part_bytes != left - text) return damaged_offer("the parts of its description are none");
  d.model = in.text(text);
  d.parts.resize(parts);
  for (OfferPart& part : d.parts) {
    in.bytes(&part.name);
    for (uint32_t* const n : {&part.first_layer, &part.last_layer, &part.num_caches, &part.block_tokens, &part.look_ahead}) *n = in.word();
    const uint32_t clipped = in.word();
    if (clipped > 1) return damaged_offer("the parts of its description are none");
    part.is_clipped = clipped != 0;
  }
  return d;
}

std::optional<quire_offer_refusal> first_difference(const OfferReader& reader, const OfferDescription& offer) {
  const OfferDescription& own = reader.own;
  if (auto model = compare_models(own.model, offer.model)) return model;
  if (own.unit_tokens != offer.unit_tokens) return refuse(QUIRE_OFFER_UNIT_TOKENS, "unit_tokens", own.unit_tokens, offer.unit_tokens);
  if (auto ranks = compare_ranks(reader, offer)) return ranks;
  if (auto drafts = compare_look_ahead(own, offer)) return drafts;
  if (own.salt != offer.salt) return refuse(QUIRE_OFFER_SALT, "salt", "", "");
  if (own.adapter != offer.adapter) return refuse(QUIRE_OFFER_ADAPTER, "adapter", "", "");
  if (own.epoch != offer.epoch) return refuse(QUIRE_OFFER_EPOCH, "epoch", own.epoch, offer.epoch);
  if (auto ends = compare_ends(reader, offer)) return ends;
  if (reader.has_refused_blocks) {
    if (auto blocks = compare_blocks(own, offer)) return blocks;
  }
  if (reader.encoder_tokens == offer.encoder_tokens) return std::nullopt;
  return refuse(QUIRE_OFFER_ENCODER_TOKENS, "encoder_tokens", reader.encoder_tokens, offer.encoder_tokens);
}

quire_offer_refusal other_version(uint32_t version) { return refuse(QUIRE_OFFER_VERSION, "version", kDescriptionVersion, version); }

}  // namespace quire
