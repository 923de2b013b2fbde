// tokenizer.h: byte-level BPE as tokenizer.json describes it (GPT-2, Llama 3, Qwen, ...).
//
// Read: a model BPE, pre-tokenizers ByteLevel, Split by a pattern and Digits, added tokens, and the
// tokens that a template puts before a text. Other kinds are an error that names them; such models
// take token ids. No normalizer is applied: text is expected in NFC.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lm {

// A part of a text: special parts are added tokens by name, other parts are plain, whatever they
// look like.
struct TextPart {
  std::string text;
  bool is_special = false;
};

class Tokenizer {
 public:
  static Tokenizer open(const std::filesystem::path& file);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // with_added: names of added tokens in the text become these tokens.
  std::vector<int32_t> encode(std::string_view text, bool with_added = true) const;
  std::vector<int32_t> encode(const std::vector<TextPart>& parts) const;
  // The tokens that a template puts before every text (a BOS token), mostly none.
  const std::vector<int32_t>& prefix() const;
  // The bytes of a token; an added token is its name. Bytes of several tokens together are UTF-8.
  const std::string& bytes_of(int32_t id) const;
  bool is_special(int32_t id) const;
  std::string decode(const std::vector<int32_t>& ids, bool with_special = false) const;
  std::optional<int32_t> find(std::string_view added) const;
  int64_t size() const;  // 1 + the largest id

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lm
