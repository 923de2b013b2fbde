// Byte encodings of what block hashes cover: canonical CBOR, and pickle protocol 5 as CPython's
// pickler writes it when no two objects of the tuple are the same object.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/events/block_hash.h"

namespace quire {

void encode_cbor(std::string_view text, std::string* out);
void encode_cbor(std::span<const uint8_t> parent, std::span<const int64_t> tokens, std::span<const ExtraKey> keys, std::string* out);
void encode_pickle(std::string_view text, std::string* out);
void encode_pickle(std::span<const uint8_t> parent, std::span<const int64_t> tokens, std::span<const ExtraKey> keys, std::string* out);

}  // namespace quire
