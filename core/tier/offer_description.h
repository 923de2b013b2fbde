// What an offer says of itself, as a record of its own: the model, the ranks, whose sequence it is
// of and where it ends. Its reader asks for it only if nothing came, to find out why. Whoever reads
// one believes nothing of it. All numbers are little endian.
//
//   0 magic | 8 version, 0 | 16 bytes of all | 24 XXH3-64 of what follows | 32 body
//
// Magic and version stand there in every version.
#pragma once

#include <quire/tier.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/tier/sources.h"

namespace quire {

inline constexpr uint32_t kDescriptionVersion = 1;
inline constexpr uint64_t kDescriptionStart = 32;
inline constexpr uint64_t kMostDescriptionBytes = uint64_t{1} << 20;

using OfferHandle = std::array<uint8_t, 16>;

// Under which it is found, with the handle: the name of no record.
const RecordKey& description_key();

// A family on a shard, without those whose records are the same.
struct OfferPart {
  PartName name{};
  uint32_t first_layer = 0, last_layer = 0, num_caches = 0;
  uint32_t block_tokens = 0;  // states: 0
  uint32_t look_ahead = 0;
  bool is_clipped = false;  // a window or chunk, or with sinks

  bool operator==(const OfferPart&) const = default;
};

struct OfferDescription {
  std::string model;  // fingerprint_text
  uint64_t unit_tokens = 0, look_ahead = 0;
  uint32_t tensor_parallel = 1, pipeline_parallel = 1, context_parallel = 1;
  // Digests of salt and adapter with the handle: two offers do not show that theirs are the same.
  std::array<uint8_t, 32> salt{}, adapter{};
  uint64_t epoch = 0;
  uint64_t end_token = 0;
  uint32_t encoder_tokens = 0;  // of cross attention
  PrefixNames prefix;           // at end_token
  std::vector<OfferPart> parts;

  bool operator==(const OfferDescription&) const;
};

// All but what depends on the sequence. weights: the name of the weights.
OfferDescription describe_plan(const TierPlan& plan);
// identity: as sequences have it encoded.
void describe_identity(std::string_view identity, const OfferHandle& handle, OfferDescription* out);

std::vector<uint8_t> write_description(const OfferDescription& description);
// Untrusted bytes. Errors: UNIMPLEMENTED (*version: which one it is), DATA_LOSS.
Result<OfferDescription> read_description(std::span<const uint8_t> bytes, uint32_t* version);

// What a reader compares one with.
struct OfferReader {
  const OfferDescription& own;      // its prefix: at the end of what is offered, where it is named
  const Sources& sources;           // borrowed
  uint64_t grid = 1;                // tokens: sequences resume at multiples
  uint64_t end_token = 0;           // that the fetch was given
  uint64_t encoder_tokens = 0;      // the same
  uint64_t longest = 0;             // tokens of the prompt that may be fetched
  bool has_prefix = false;          // the prompt is long enough to be named there
  bool has_refused_blocks = false;  // a record did not have all of a block
};

// The first field in which it differs so that its records are not found or not read, in the order
// of quire_offer_field. nullopt: none.
std::optional<quire_offer_refusal> first_difference(const OfferReader& reader,  //
                                                    const OfferDescription& offer);
// It is of another version.
quire_offer_refusal other_version(uint32_t version);

}  // namespace quire
