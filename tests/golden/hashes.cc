// Block hashes: seeds, single hashes with the bytes they cover, chains with their extra keys, keys with a group.
#include "core/events/block_hash.h"
#include "tests/golden/golden.h"

namespace quire::golden {
namespace {

std::string differs(const std::string& name, const std::string& expected, const std::string& is) {
  return expected == is ? std::string() : name + ": expected " + expected + ", is " + is;
}

quire_hash_algorithm algorithm_of(const std::string& name) {
  static const std::vector<std::string> names{"sha256_cbor", "xxhash_cbor", "sha256", "xxhash"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<quire_hash_algorithm>(i + 1);
  }
  return 0;
}

// Keys whose text the caller keeps.
struct Keys {
  std::vector<std::string> text;
  std::vector<ExtraKey> keys;
};

Keys keys_of(const json& list) {
  Keys out;
  if (list.is_null()) return out;
  out.text.reserve(list.size());
  for (const json& key : list) {
    if (key.is_string()) {
      out.text.push_back(key);
      out.keys.push_back({ExtraKey::Kind::kText, out.text.back(), 0});
    } else if (key.is_array()) {
      out.text.push_back(key[0]);
      out.keys.push_back({ExtraKey::Kind::kMedia, out.text.back(), key[1]});
    } else {
      const auto bytes = bytes_of(key.at("bytes"));
      out.text.emplace_back(bytes.begin(), bytes.end());
      out.keys.push_back({ExtraKey::Kind::kBytes, out.text.back(), 0});
    }
  }
  return out;
}

json json_of(std::span<const ExtraKey> keys) {
  if (keys.empty()) return nullptr;
  json list = json::array();
  for (const ExtraKey& key : keys) {
    if (key.kind == ExtraKey::Kind::kText) {
      list.push_back(key.value);
    } else if (key.kind == ExtraKey::Kind::kMedia) {
      list.push_back({key.value, key.offset});
    } else {
      list.push_back({{"bytes", hex_of({reinterpret_cast<const uint8_t*>(key.value.data()), key.value.size()})}});
    }
  }
  return list;
}

Outcome check_function(const json& test, BlockHasher* hasher) {
  const Keys keys = keys_of(test.at("extra_keys"));
  const std::vector<int64_t> tokens = tokens_of(test.at("tokens"));
  std::vector<uint8_t> parent(hasher->none().view().begin(), hasher->none().view().end());
  if (test.at("parent").is_string()) parent = bytes_of(test.at("parent"));
  const Digest digest = hasher->hash(parent, tokens, keys.keys);
  const json& expect = test.at("expect");
  if (expect.contains("hashed_bytes")) {
    const std::string_view covered = hasher->hashed_bytes();
    const std::string is = hex_of({reinterpret_cast<const uint8_t*>(covered.data()), covered.size()});
    const std::string difference = differs("hashed_bytes", expect.at("hashed_bytes"), is);
    if (!difference.empty()) return {difference, {}};
  }
  std::string difference = differs("digest", expect.at("hex"), hex_of(digest.view()));
  if (difference.empty() && expect.contains("external_int")) {
    difference = golden::differs("external_int", expect.at("external_int").get<uint64_t>(), digest.external_int());
  }
  return {difference, {}};
}

struct Sources {
  std::vector<std::string> identifiers;
  std::vector<MediaItem> media;
  std::string adapter, salt, embeds;
  KeySource keys;
};

void read_sources(const json& test, Sources* out) {
  if (test.contains("lora")) out->adapter = test.at("lora").at("name");
  out->salt = test.value("salt", std::string());
  const json media = test.value("mm", json::array());
  out->identifiers.reserve(media.size());
  for (const json& item : media) {
    out->identifiers.push_back(item.at("id"));
    out->media.push_back({out->identifiers.back(), item.at("offset"), item.at("length")});
  }
  out->keys = {out->adapter, out->salt, out->media, {}, 0, 0};
  if (!test.contains("prompt_embeds")) return;
  const json& embeds = test.at("prompt_embeds");
  uint64_t state = embeds.at("seed");
  const std::string dtype = embeds.at("dtype");
  out->keys.embed_rows = embeds.at("rows");
  out->keys.embed_row_bytes = embeds.at("width").get<uint64_t>() * (dtype == "float32" ? 4 : dtype == "float64" ? 8 : 2);
  for (uint64_t i = 0; i < out->keys.embed_rows * out->keys.embed_row_bytes; ++i) out->embeds += static_cast<char>(split_mix(&state));
  out->keys.embeds = out->embeds;
}

std::string check_views(const json& expect, int64_t block, size_t hashes) {
  const json views = expect.value("views", json::object());
  for (const auto& [size, fine] : views.items()) {
    const auto step = static_cast<size_t>(std::stoll(size) / block);
    std::vector<size_t> is;
    for (size_t i = step; i <= hashes; i += step) is.push_back(i - 1);
    if (json(is) != fine) return differs("views " + size, fine.dump(), json(is).dump());
  }
  return {};
}

Outcome check_chain(const json& test, BlockHasher* hasher) {
  const int64_t block = test.at("block");
  Sources sources;
  read_sources(test, &sources);
  std::vector<int64_t> tokens = tokens_of(test.at("tokens"));
  std::vector<size_t> lengths{tokens.size()};
  for (const json& more : test.value("append", json::array())) {
    const auto appended = tokens_of(json::array({more}));
    tokens.insert(tokens.end(), appended.begin(), appended.end());
    lengths.push_back(tokens.size());
  }
  // Blocks completed behind the prompt: upstream looks at the last item only, which shows in cases marked as quirk 16.
  const bool quirk = test.value("quirk", json::array()) == json::array({16});
  const size_t last_item = sources.media.empty() ? 0 : sources.media.size() - 1;
  BlockKeys whole(sources.keys, 0);
  BlockKeys last(sources.keys, last_item);
  Digest parent = hasher->none();
  std::vector<std::string> hashes;
  std::vector<uint64_t> numbers;
  json keys = json::array();
  for (int64_t begin = 0; begin + block <= static_cast<int64_t>(tokens.size()); begin += block) {
    const bool in_prompt = begin + block <= static_cast<int64_t>(lengths[0]);
    const auto extra = (quirk && !in_prompt ? last : whole).of_block(begin, begin + block);
    parent = hasher->hash(parent.view(), std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(block)), extra);
    hashes.push_back(hex_of(parent.view()));
    numbers.push_back(parent.external_int());
    keys.push_back(json_of(extra));
  }
  std::vector<size_t> after;
  after.reserve(lengths.size());
  for (size_t length : lengths) after.push_back(length / static_cast<size_t>(block));
  const json& expect = test.at("expect");
  std::string difference = differs("extra_keys", expect.at("extra_keys").dump(), keys.dump());
  if (difference.empty()) difference = differs("hashes", expect.at("hashes").dump(), json(hashes).dump());
  if (difference.empty()) difference = differs("external_ints", expect.at("external_ints").dump(), json(numbers).dump());
  if (difference.empty()) difference = differs("num_hashes_after", expect.at("num_hashes_after").dump(), json(after).dump());
  if (difference.empty()) difference = check_views(expect, block, hashes.size());
  return {difference, {}};
}

Digest digest_of(const std::string& hex) {
  Digest digest;
  const auto bytes = bytes_of(hex);
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  digest.size = static_cast<uint32_t>(bytes.size());
  return digest;
}

}  // namespace

Outcome check_hash(const json& test) {
  const std::string kind = test.at("kind");
  const json& expect = test.at("expect");
  if (kind == "external") {
    return {golden::differs("int", expect.at("int").get<uint64_t>(), digest_of(test.at("hash")).external_int()), {}};
  }
  if (kind == "group_key") {
    const GroupKey key(digest_of(test.at("hash")), GroupId(test.at("group").get<uint32_t>()));
    return {differs("key", expect.at("hex"), hex_of(key.view())), {}};
  }
  auto hasher = BlockHasher::create(algorithm_of(test.at("algorithm")), test.at("seed").get<std::string>());
  if (!hasher.ok()) {
    if (hasher.status().code() == QUIRE_UNIMPLEMENTED) return {{}, hasher.status().message()};
    return {hasher.status().message(), {}};
  }
  if (kind == "none_hash") return {differs("none", expect.at("hex"), hex_of(hasher->none().view())), {}};
  if (kind == "function") return check_function(test, &*hasher);
  if (kind == "chain") return check_chain(test, &*hasher);
  return {"kind " + kind + " is unknown", {}};
}

}  // namespace quire::golden
