#include "tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "bpe.h"
#include "foreign_json.h"
#include "lm_error.h"

namespace lm {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr int64_t kMaxTokens = 1 << 24;
// ByteLevel with use_regex.
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Tokens are written with a visible character for every byte: printable ones stand for themselves,
// the others follow from U+0100 on.
class ByteNames {
 public:
  ByteNames() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool visible =
          (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      bytes_[visible ? byte : next++] = static_cast<char>(byte);
    }
  }
  // The bytes of a token's name. False if a character stands for no byte.
  bool bytes_of(std::string_view name, std::string& to) const {
    for (size_t i = 0; i < name.size();) {
      const auto lead = static_cast<unsigned char>(name[i]);
      const size_t length = lead < 0x80 ? 1 : 2;
      if (lead >= 0xe0 || i + length > name.size()) return false;
      const char32_t code =
          length == 1 ? lead
                      : ((lead & 0x1fU) << 6) | (static_cast<unsigned char>(name[i + 1]) & 0x3fU);
      const auto found = bytes_.find(code);
      if (found == bytes_.end()) return false;
      to += found->second;
      i += length;
    }
    return true;
  }

 private:
  std::map<char32_t, char> bytes_;
};

// A pattern that cuts a text into pieces.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    int code = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_UTF | PCRE2_UCP, &code, &at, nullptr));
    if (code_ == nullptr) {
      std::array<PCRE2_UCHAR, 128> why{};
      pcre2_get_error_message(code, why.data(), why.size());
      throw Error("tokenizer.json: a pattern is refused: " +
                  std::string(reinterpret_cast<const char*>(why.data())));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }
  // Matches, and what lies between them, as pieces of their own.
  void split(std::string_view text, std::vector<std::string_view>& to) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                    text.size(), at, 0, match_.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) {
        std::array<PCRE2_UCHAR, 128> why{};
        pcre2_get_error_message(found, why.data(), why.size());
        throw Error("the text cannot be cut into tokens: " +
                    std::string(reinterpret_cast<const char*>(why.data())));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_.get());
      if (range[0] > done) to.push_back(text.substr(done, range[0] - done));
      if (range[1] > range[0]) to.push_back(text.substr(range[0], range[1] - range[0]));
      done = range[1];
      at = range[1] > range[0] ? range[1] : next_character(text, range[1]);
    }
    if (done < text.size()) to.push_back(text.substr(done));
  }

 private:
  static size_t next_character(std::string_view text, size_t at) {
    do ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U);
    return at;
  }
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

std::string type_of(const json& object) {
  return object.is_object() ? object.value("type", "") : "";
}

}  // namespace

struct Tokenizer::Impl {
  Bpe bpe;
  std::vector<Pattern> patterns;  // applied one after another
  bool prefix_space = false;
  std::vector<std::string> bytes;                        // by id
  std::vector<bool> special;                             // by id
  std::map<std::string, int32_t, std::greater<>> added;  // longer names before their beginnings
  std::vector<int32_t> prefix;

  void set(int64_t id, std::string text, bool is_special) {
    if (id < 0 || id >= kMaxTokens)
      throw Error("tokenizer.json: token " + std::to_string(id) + " is outside of 0 to " +
                  std::to_string(kMaxTokens - 1));
    const auto index = static_cast<size_t>(id);
    if (bytes.size() <= index) {
      bytes.resize(index + 1);
      special.resize(index + 1);
    }
    bytes[index] = std::move(text);
    special[index] = is_special;
  }

  void read_model(const json& model) {
    const bool is_bpe =
        type_of(model) == "BPE" || (type_of(model).empty() && model.contains("merges"));
    if (!is_bpe) {
      throw Error("tokenizer.json: the model is '" + type_of(model) +
                  "', only BPE is read; pass --tokens");
    }
    if (model.value("byte_fallback", false))
      throw Error("tokenizer.json: BPE with byte_fallback is not byte-level; pass --tokens");
    const ByteNames names;
    for (const auto& [name, id] : model.at("vocab").items()) {
      std::string text;
      if (!names.bytes_of(name, text)) text = name;
      set(id.get<int64_t>(), text, false);
      bpe.add_token(std::move(text), id.get<int32_t>());
    }
    bpe.set_ignore_merges(model.value("ignore_merges", false));
    int32_t rank = 0;
    for (const json& merge : model.at("merges")) {
      std::string left =
          merge.is_array() ? merge.at(0).get<std::string>() : merge.get<std::string>();
      std::string right = merge.is_array() ? merge.at(1).get<std::string>() : "";
      if (!merge.is_array()) {
        const size_t space = left.find(' ');
        if (space == std::string::npos)
          throw Error("tokenizer.json: merge '" + left + "' has no space");
        right = left.substr(space + 1);
        left.resize(space);
      }
      std::string left_bytes;
      std::string right_bytes;
      const bool known = names.bytes_of(left, left_bytes) && names.bytes_of(right, right_bytes);
      if (!known || !bpe.add_merge(left_bytes, right_bytes, rank++)) {
        std::string text = "tokenizer.json: merge '";
        text.append(left).append(" ").append(right);
        throw Error(text + "' names no tokens");
      }
    }
  }

  void read_pre_tokenizer(const json& object) {
    const std::string type = type_of(object);
    if (type == "Sequence") {
      for (const json& inner : object.at("pretokenizers")) read_pre_tokenizer(inner);
    } else if (type == "ByteLevel") {
      prefix_space = prefix_space || object.value("add_prefix_space", false);
      if (object.value("use_regex", true)) patterns.emplace_back(kGpt2);
    } else if (type == "Digits") {
      patterns.emplace_back(object.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "Split") {
      const json& pattern = object.at("pattern");
      std::string behavior = object.value("behavior", "Isolated");
      std::transform(behavior.begin(), behavior.end(), behavior.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const bool keeps =
          behavior == "isolated" || (behavior == "removed" && object.value("invert", false));
      if (!keeps || !pattern.contains("Regex"))
        throw Error(
            "tokenizer.json: a Split that is not isolated by a Regex is not read; pass --tokens");
      patterns.emplace_back(pattern.at("Regex").get<std::string>());
    } else {
      throw Error("tokenizer.json: the pre-tokenizer '" + type + "' is not read; pass --tokens");
    }
  }

  // The tokens that stand before the text in a template.
  void read_template(const json& object) {
    if (type_of(object) == "Sequence") {
      for (const json& inner : object.at("processors")) read_template(inner);
    }
    if (type_of(object) != "TemplateProcessing") return;
    for (const json& item : object.at("single")) {
      if (!item.contains("SpecialToken")) break;
      const std::string name = item.at("SpecialToken").at("id").get<std::string>();
      for (const json& id : object.at("special_tokens").at(name).at("ids"))
        prefix.push_back(id.get<int32_t>());
    }
  }

  void encode_plain(std::string_view text, std::vector<int32_t>& to) const {
    if (text.empty()) return;
    const std::string spaced =
        prefix_space && !text.starts_with(' ') ? " " + std::string(text) : "";
    std::vector<std::string_view> pieces = {spaced.empty() ? text : spaced};
    for (const Pattern& pattern : patterns) {
      std::vector<std::string_view> smaller;
      for (const std::string_view piece : pieces) pattern.split(piece, smaller);
      pieces.swap(smaller);
    }
    for (const std::string_view piece : pieces) bpe.encode(piece, to);
  }

  // Cuts a text at names of added tokens.
  void encode_added(std::string_view text, std::vector<int32_t>& to) const {
    size_t plain = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      const auto match = std::find_if(added.begin(), added.end(), [&](const auto& token) {
        return text.substr(at).starts_with(token.first);
      });
      if (match == added.end()) continue;
      encode_plain(text.substr(plain, at - plain), to);
      to.push_back(match->second);
      plain = at + match->first.size();
      at = plain - 1;
    }
    encode_plain(text.substr(plain), to);
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::open(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) throw Error(file.string() + ": there is none; pass --tokens");
  const json root =
      parse_object(read_text(file, kMaxFileBytes), file.string(), {.values = 16'000'000});
  auto impl = std::make_unique<Impl>();
  try {
    impl->read_model(root.at("model"));
    if (root.contains("pre_tokenizer") && !root["pre_tokenizer"].is_null())
      impl->read_pre_tokenizer(root["pre_tokenizer"]);
    if (root.contains("added_tokens")) {
      for (const json& token : root["added_tokens"]) {
        const auto name = token.at("content").get<std::string>();
        if (name.empty()) throw Error(file.string() + ": an added token has no content");
        const auto id = token.at("id").get<int64_t>();
        impl->set(id, name, token.value("special", false));
        impl->added[name] = static_cast<int32_t>(id);
      }
    }
    if (root.contains("post_processor")) impl->read_template(root["post_processor"]);
  } catch (const json::exception& failure) {
    throw Error(file.string() + ": " + failure.what());
  }
  return Tokenizer(std::move(impl));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool with_added) const {
  std::vector<int32_t> ids;
  with_added ? impl_->encode_added(text, ids) : impl_->encode_plain(text, ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode(const std::vector<TextPart>& parts) const {
  std::vector<int32_t> ids;
  std::string plain;
  for (const TextPart& part : parts) {
    if (!part.is_special) {
      plain += part.text;  // a piece may reach over the border of two parts
      continue;
    }
    impl_->encode_plain(plain, ids);
    plain.clear();
    const std::optional<int32_t> id = find(part.text);
    if (!id) throw Error("tokenizer.json: there is no token " + part.text);
    ids.push_back(*id);
  }
  impl_->encode_plain(plain, ids);
  return ids;
}

const std::vector<int32_t>& Tokenizer::prefix() const { return impl_->prefix; }

const std::string& Tokenizer::bytes_of(int32_t id) const {
  static const std::string none;
  return id >= 0 && static_cast<size_t>(id) < impl_->bytes.size()
             ? impl_->bytes[static_cast<size_t>(id)]
             : none;
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < impl_->special.size() &&
         impl_->special[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool with_special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (with_special || !is_special(id)) text += bytes_of(id);
  }
  return text;
}

std::optional<int32_t> Tokenizer::find(std::string_view name) const {
  const auto found = impl_->added.find(std::string(name));
  if (found == impl_->added.end()) return std::nullopt;
  return found->second;
}

int64_t Tokenizer::size() const { return static_cast<int64_t>(impl_->bytes.size()); }

}  // namespace lm
