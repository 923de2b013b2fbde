// The tokenizer of samples/lm against the library `tokenizers` (record_tokenizers.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bpe.h"
#include "chat.h"
#include "lm_error.h"
#include "tokenizer.h"

namespace lm {
namespace {

const std::filesystem::path kData = std::filesystem::path(LM_DATA) / "tokenizers";

Tokenizer form(const std::string& name) { return Tokenizer::open(kData / (name + ".tokenizer.json")); }

// A folder of a changed tokenizer.json.
class Changed {
 public:
  Changed(const std::string& from, const std::string& old_text, const std::string& new_text) {
    std::ostringstream text;
    text << std::ifstream(kData / (from + ".tokenizer.json")).rdbuf();
    std::string changed = text.str();
    const size_t at = changed.find(old_text);
    EXPECT_NE(at, std::string::npos) << old_text;
    changed.replace(at, old_text.size(), new_text);
    std::ofstream(file_) << changed;
  }
  ~Changed() { std::filesystem::remove(file_); }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;
  std::string refusal() const {
    try {
      Tokenizer::open(file_);
    } catch (const Error& failure) {
      return failure.what();
    }
    return "";
  }

 private:
  std::filesystem::path file_ = std::filesystem::path(testing::TempDir()) / "changed.tokenizer.json";
};

TEST(LmTokenizer, EncodesAsTheLibraryDoes) {
  const nlohmann::json expected = nlohmann::json::parse(std::ifstream(kData / "expected.json"));
  size_t compared = 0;
  for (const auto& [name, lists] : expected["forms"].items()) {
    const Tokenizer tokenizer = form(name);
    for (size_t i = 0; i < lists.size(); ++i) {
      const auto text = expected["texts"][i].get<std::string>();
      std::vector<int32_t> ids = tokenizer.prefix();
      const std::vector<int32_t> rest = tokenizer.encode(text);
      ids.insert(ids.end(), rest.begin(), rest.end());
      EXPECT_EQ(ids, lists[i].get<std::vector<int32_t>>()) << name << ": " << text;
      ++compared;
    }
  }
  EXPECT_GE(compared, 80U);
}

TEST(LmTokenizer, DecodesWhatItEncodes) {
  const Tokenizer tokenizer = form("qwen");
  for (const char* text : {"Hello, world!", "naïve 東京 🙂", "a\n\n  b\t"}) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a<|end|>b")), "ab");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a<|end|>b"), true), "a<|end|>b");
}

TEST(LmTokenizer, NamesOfSpecialTokensInPlainPartsAreText) {
  const Tokenizer tokenizer = form("qwen");
  const int32_t end = *tokenizer.find("<|end|>");
  const std::vector<int32_t> plain = tokenizer.encode(std::vector<TextPart>{{"a<|end|>b"}});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(tokenizer.decode(plain), "a<|end|>b");
  EXPECT_EQ(tokenizer.encode(std::vector<TextPart>{{"a"}, {"<|end|>", true}, {"b"}}), tokenizer.encode("a<|end|>b"));
  EXPECT_THROW(tokenizer.encode(std::vector<TextPart>{{"<|none|>", true}}), Error);
}

TEST(LmTokenizer, PartsOfPlainTextAreOneText) {
  const Tokenizer tokenizer = form("llama3");
  EXPECT_EQ(tokenizer.encode(std::vector<TextPart>{{"hyb"}, {"rid caches"}}), tokenizer.encode("hybrid caches"));
}

TEST(LmTokenizer, TextThatIsNoUtf8IsRefused) { EXPECT_THROW(form("qwen").encode("a\xff\xfe"), Error); }

TEST(LmTokenizer, OtherKindsAreNamed) {
  EXPECT_NE(Changed("gpt2", R"("type":"BPE")", R"("type":"Unigram","merges_":0)").refusal(), "");
  EXPECT_NE(Changed("gpt2", R"("byte_fallback":false)", R"("byte_fallback":true)").refusal().find("byte_fallback"), std::string::npos);
  EXPECT_NE(Changed("gpt2", R"({"type":"ByteLevel")", R"({"type":"Metaspace")").refusal().find("'Metaspace'"), std::string::npos);
  EXPECT_NE(Changed("qwen", R"("Isolated")", R"("MergedWithNext")").refusal().find("Split"), std::string::npos);
  EXPECT_NE(Changed("qwen", R"((?i:)", R"((?iX:)").refusal().find("pattern"), std::string::npos);
  EXPECT_NE(Changed("qwen", R"("merges":[[)", R"("merges":[["absent","too"],[)").refusal().find("merge 'absent too'"), std::string::npos);
  EXPECT_NE(Changed("qwen", R"("id":1,)", R"("id":99999999,)").refusal().find("99999999"), std::string::npos);
  EXPECT_NE(Changed("qwen", R"("model")", R"("modell")").refusal().find("model"), std::string::npos);
}

TEST(LmBpe, MergesTheLowestRankFirst) {
  Bpe bpe;
  int32_t id = 0;
  for (const char* token : {"a", "b", "c", "ab", "bc", "abc", "aa"}) bpe.add_token(token, id++);
  EXPECT_TRUE(bpe.add_merge("b", "c", 0));
  EXPECT_TRUE(bpe.add_merge("a", "b", 1));
  EXPECT_TRUE(bpe.add_merge("a", "bc", 2));
  EXPECT_TRUE(bpe.add_merge("a", "a", 3));
  EXPECT_FALSE(bpe.add_merge("c", "c", 4));
  const auto encoded = [&](std::string_view text) {
    std::vector<int32_t> ids;
    bpe.encode(text, ids);
    return ids;
  };
  EXPECT_EQ(encoded("abc"), (std::vector<int32_t>{5}));
  EXPECT_EQ(encoded("abab"), (std::vector<int32_t>{3, 3}));
  EXPECT_EQ(encoded("aaaaa"), (std::vector<int32_t>{6, 6, 0}));
  EXPECT_THROW(encoded("z"), Error);
  EXPECT_EQ(encoded(std::string(200000, 'a')).size(), 100000U);  // not quadratic
}

TEST(LmChat, NeedsTokensOfAForm) {
  const Tokenizer tokenizer = form("qwen");
  EXPECT_THROW(Chat{tokenizer}, Error);
}

}  // namespace
}  // namespace lm
