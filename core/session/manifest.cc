#include "core/session/manifest.h"

#include <algorithm>
#include <cstring>

#include "core/base/checked.h"
#include "core/records/checksum.h"
#include "core/records/record_header.h"

namespace quire {
namespace {

//   0 magic | 8 version, 0 | 16 bytes of all | 24 XXH3-64 of what follows | 32 0
//   40 prefix[32] | records | text bytes | media | symbols | text | media | symbols
constexpr uint64_t kMagic = 0x3173736573657571u;  // "quesess1"
constexpr uint64_t kMediaBytes = 40, kCounts = 32;
constexpr uint64_t kMostManifestBytes = uint64_t{1} << 32;

void put(uint64_t value, std::vector<uint8_t>* out, int bytes = 8) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<uint8_t>(value >> 8 * i));
}

uint64_t number_at(std::span<const uint8_t> bytes, uint64_t at, uint64_t size = 8) {
  uint64_t value = 0;
  for (uint64_t i = 0; i < size; ++i) value |= uint64_t{bytes[at + i]} << 8 * i;
  return value;
}

Status damaged(const char* what) { return fail(QUIRE_DATA_LOSS, "session: %s", what); }

}  // namespace

std::vector<uint8_t> write_manifest(const SessionManifest& m) {
  std::vector<uint8_t> body(m.prefix.begin(), m.prefix.end());
  for (const uint64_t n : {m.num_records, uint64_t{m.fingerprint.size()}, uint64_t{m.media.size()}, uint64_t{m.symbols.size()}}) {
    put(n, &body);
  }
  body.insert(body.end(), m.fingerprint.begin(), m.fingerprint.end());
  for (const SessionMedia& item : m.media) {
    body.insert(body.end(), item.digest.begin(), item.digest.end());
    put(item.length, &body);  // 8 bytes
  }
  for (const quire_symbol symbol : m.symbols) put(symbol, &body, 4);
  std::vector<uint8_t> out;
  put(kMagic, &out);
  put(kSessionVersion, &out);
  put(kManifestStart + body.size(), &out);
  put(checksum(body.data(), body.size()), &out);
  put(0, &out);
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Result<uint64_t> read_manifest_bytes(std::span<const uint8_t> start) {
  if (start.size() < kManifestStart || number_at(start, 0) != kMagic) return damaged("these bytes do not begin as one");
  const uint64_t version = number_at(start, 8), bytes = number_at(start, 16);
  if (version != kSessionVersion) {
    return fail(QUIRE_UNIMPLEMENTED, "session: version %llu, this library reads %u", static_cast<unsigned long long>(version),
                kSessionVersion);
  }
  if (bytes < kManifestStart + 32 + kCounts || bytes > kMostManifestBytes || number_at(start, 32) != 0)
    return damaged("the beginning of its manifest is none");
  return bytes;
}

Result<SessionManifest> read_manifest(std::span<const uint8_t> bytes) {
  auto size = read_manifest_bytes(bytes);
  if (!size.ok()) return size.take_status();
  if (*size != bytes.size()) return damaged("its manifest is cut");
  const std::span<const uint8_t> body = bytes.subspan(kManifestStart);
  if (checksum(body.data(), body.size()) != number_at(bytes, 24)) return damaged("the checksum of its manifest is another one");
  SessionManifest m;
  std::copy_n(body.begin(), m.prefix.size(), m.prefix.begin());
  m.num_records = number_at(body, 32);
  const uint64_t text = number_at(body, 40), media = number_at(body, 48), symbols = number_at(body, 56);
  const auto media_bytes = checked_mul(media, kMediaBytes), symbol_bytes = checked_mul(symbols, sizeof(quire_symbol));
  const auto both = media_bytes && symbol_bytes ? checked_add(*media_bytes, *symbol_bytes) : std::nullopt;
  const auto all = both ? checked_add(*both, text) : both;
  if (!all || *all != body.size() - 32 - kCounts) return damaged("the parts of its manifest are none");
  uint64_t at = 32 + kCounts, positions = 0;
  m.fingerprint.assign(reinterpret_cast<const char*>(body.data()) + at, text);
  at += text;
  m.media.resize(media);
  for (SessionMedia& item : m.media) {
    std::copy_n(body.begin() + static_cast<std::ptrdiff_t>(at), item.digest.size(), item.digest.begin());
    item.length = static_cast<uint32_t>(number_at(body, at + 32, 4));
    positions += item.length;
    at += kMediaBytes;
  }
  m.symbols.resize(symbols);
  for (quire_symbol& symbol : m.symbols) {
    symbol = static_cast<quire_symbol>(number_at(body, at, 4));
    if (symbol >= kFirstMedia && symbol - kFirstMedia >= positions) return damaged("a symbol is of no media");
    at += sizeof symbol;
  }
  return m;
}

std::string first_difference(std::string_view ours, std::string_view theirs) {
  const auto line = [](std::string_view* text) {
    const size_t end = std::min(text->find('\n'), text->size());
    const std::string_view first = text->substr(0, end);
    text->remove_prefix(std::min(end + 1, text->size()));
    return first;
  };
  const auto name_of = [](std::string_view first) { return first.substr(0, first.find(" = ")); };
  const auto value_of = [](std::string_view first) {
    const size_t at = first.find(" = ");
    return at == std::string_view::npos ? std::string_view("missing") : first.substr(at + 3);
  };
  while (!ours.empty() || !theirs.empty()) {
    const std::string_view a = line(&ours), b = line(&theirs);
    if (a == b) continue;
    const std::string_view name = name_of(a), other = name_of(b);
    const auto differs = [](std::string_view what, std::string_view here, std::string_view there) {
      return std::string(what) + " is " + std::string(here) + " here and " + std::string(there) + " there";
    };
    if (name == other) return differs(name, value_of(a), value_of(b));
    const std::string named = std::string(name) + " = ";
    const bool comes_later = theirs.starts_with(named) || theirs.find("\n" + named) != std::string_view::npos;
    if (a.empty() || comes_later) return differs(other, "missing", value_of(b));
    return differs(name, value_of(a), "missing");
  }
  return {};
}

}  // namespace quire
