// Every format of a trace: what it says is what is replayed, what is wrong is named with its line, and noise never does harm.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

#include "client/client.h"
#include "replay/trace.h"

namespace quire {
namespace {

using replay::Format;
using replay::Request;

std::string file_of(const std::string& text) {
  std::string path = ::testing::TempDir() + "quire_trace_formats_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::vector<Request> read(const std::string& text, const replay::TraceOptions& options = {}) {
  return replay::read_trace(file_of(text), options);
}

std::string error_of(const std::string& text, const replay::TraceOptions& options = {}) {
  try {
    read(text, options);
  } catch (const std::runtime_error& failure) {
    return failure.what();
  }
  return "accepted";
}

std::vector<quire_symbol> prompt_of(const Request& request) {
  std::vector<quire_symbol> out;
  replay::prompt_symbols(request, &out);
  return out;
}

constexpr const char* kAzure =
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n\r\n2023-11-16 18:15:50.9951690,396,109\r\n";
constexpr const char* kBurst =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,\"Conversation, log\"\n45,GPT-4,0,0,0,API "
    "log\n";
constexpr const char* kShared = R"([
  {"id": "a", "conversations": [{"from": "human", "value": "How many pages has a book of hours?"},
                                {"from": "gpt", "value": "Often about two hundred [leaves]: \"vellum\"."},
                                {"from": "human", "value": "And a quire?"}, {"from": "gpt", "value": "Four sheets, eight leaves."}]},
  {"id": "b", "conversations": [{"from": "gpt", "value": "an answer to nothing"}]},
  {"id": "c", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                           {"role": "assistant", "content": ""}]}
])";
constexpr const char* kPrompts =
    "{\"prompt\": \"What is the capital of Iran?\", \"output_tokens\": 7}\n{\"prompt\": \"What is the capital of India?\"}\n";
constexpr const char* kResults = "{\n \"date\": \"x\",\n \"input_lens\": [10, 0, 1000],\n \"output_lens\": [5, 0, 0]\n}\n";
constexpr const char* kMooncake =
    "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 2, \"hash_ids\": [7, 8, 9]}\n{\"timestamp\": 1.5, \"input_length\": 33, "
    "\"output_length\": 0, \"hash_ids\": [7, 8, 5]}\n";

TEST(TraceFormats, TablesHaveLengthsAndShareNothing) {
  const auto azure = read(kAzure);
  ASSERT_EQ(azure.size(), 2u);
  EXPECT_EQ(azure[0].input_length, 374u);
  EXPECT_EQ(azure[1].output_length, 109u);
  EXPECT_EQ(azure[1].arrival_ms - azure[0].arrival_ms, 4314u);  // of a day and a time
  const auto first = prompt_of(azure[0]);
  const auto second = prompt_of(azure[1]);
  size_t equal = 0;
  for (size_t i = 0; i < first.size(); ++i) equal += first[i] == second[i] ? 1 : 0;
  EXPECT_EQ(equal, 0u);
  const auto burst = read(kBurst);  // a request that failed has no tokens
  ASSERT_EQ(burst.size(), 1u);
  EXPECT_EQ(burst[0].input_length, 472u);
  EXPECT_EQ(burst[0].output_length, 18u);
  EXPECT_EQ(burst[0].arrival_ms, 5000u);
}

TEST(TraceFormats, ATurnBeginsWithAllTurnsBeforeIt) {
  const auto requests = read(kShared);
  ASSERT_EQ(requests.size(), 3u);
  const Request& first = requests[0];
  const Request& second = requests[1];
  ASSERT_GT(second.input_length, first.input_length + first.output_length);
  const auto prompt = prompt_of(first);
  const auto next = prompt_of(second);
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), next.begin()));
  // What the first generates is what stands in the second's prompt.
  for (uint64_t at = first.input_length; at < first.input_length + first.output_length; ++at) {
    EXPECT_EQ(replay::generated_symbol(first, 0, at), next[at]);
  }
  EXPECT_FALSE(first.continues);
  EXPECT_TRUE(second.continues);
  EXPECT_FALSE(requests[2].continues);
  // An answer of no text still generates a token, of its own.
  EXPECT_EQ(requests[2].output_length, 1u);
  EXPECT_EQ(replay::generated_symbol(requests[2], 2, requests[2].input_length), replay::output_symbol(2, requests[2].input_length));
  EXPECT_EQ(read(kShared, {.limit = 1}).size(), 1u);
}

TEST(TraceFormats, PromptsShareTheirText) {
  const auto requests = read(kPrompts);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].output_length, 7u);
  EXPECT_EQ(requests[1].output_length, 256u);
  const auto a = prompt_of(requests[0]);
  const auto b = prompt_of(requests[1]);
  EXPECT_EQ(a.size(), 7u);  // 28 bytes
  size_t common = 0;
  while (common < a.size() && a[common] == b[common]) ++common;
  EXPECT_EQ(common, 6u);  // "What is the capital of I" is six tokens of four bytes
}

TEST(TraceFormats, ResultsOfABenchmarkGiveTheirLengths) {
  const auto requests = read(kResults);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].input_length, 1000u);
  EXPECT_EQ(requests[1].output_length, 1u);
}

TEST(TraceFormats, IdsStandForBlocksOfTheAskedSize) {
  const auto requests = read(kMooncake, {.block_tokens = 16});
  ASSERT_EQ(requests.size(), 2u);
  const auto a = prompt_of(requests[0]);
  const auto b = prompt_of(requests[1]);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 32, b.begin()));
  EXPECT_NE(a[32], b[32]);
  EXPECT_EQ(read(kMooncake)[0].hash_ids.size(), 1u);  // of 512 tokens: one is enough
  EXPECT_NE(error_of(kMooncake, {.block_tokens = 8}).find("hash_ids has 3 ids, input_length needs 5 of 8 tokens"), std::string::npos);
}

TEST(TraceFormats, WhatIsWrongIsNamedWithItsLine) {
  struct Bad {
    std::string text;
    Format format;
    std::vector<std::string> words;
  };
  std::string lengths;  // 2,100 of the longest requests
  std::string ones;
  for (int i = 0; i < 2100; ++i) lengths += "16777216,", ones += "1,";
  const std::vector<Bad> all = {
      {"TIMESTAMP,ContextTokens,GeneratedTokens\nt,1,1\nt,-5,1\n", Format::kAuto, {"line 3", "ContextTokens is '-5'", "0 to 16777216"}},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\nt,1\n", Format::kAuto, {"line 2", "GeneratedTokens is missing"}},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\nt,99999999,1\n", Format::kAuto, {"line 2", "ContextTokens is '99999999'"}},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\nt,1.7,1\n", Format::kAuto, {"line 2", "'1.7'"}},
      {"a,b\n1,2\n", Format::kCsv, {"line 1", "no column ContextTokens or Request tokens"}},
      {"[{\"conversations\": [{\"from\": \"gpt\"}]}]", Format::kAuto, {"line 1", "value is missing"}},
      {"[\n{\"conversations\": 7}]", Format::kAuto, {"line 2", "conversations is no list"}},
      {"[\n\n{\"conversations\": [7]}]", Format::kAuto, {"line 3", "a turn is 7"}},
      {"[{\"id\": 1}]", Format::kAuto, {"conversations is missing"}},
      {"[1, 2]", Format::kAuto, {"not a JSON object"}},
      {"[{\"conversations\": []},,]", Format::kAuto, {"an item of the array is empty"}},
      {"[{\"conversations\": []}", Format::kAuto, {"the array does not end"}},
      {"[{\"conversations\": [{\"from\": 1, \"value\": \"x\"}]}]", Format::kAuto, {"from is 1, must be a text"}},
      {"[]", Format::kAuto, {"has no requests"}},
      {"[{\"conversations\": [" + std::string(100, '[') + std::string(100, ']') + "]}]", Format::kAuto, {"nested deeper than 64"}},
      {"{\"input_length\": " + std::string(100000, '[') + std::string(100000, ']') + "}", Format::kAuto, {"nested deeper than 64"}},
      {"{\"input_lens\": [" + lengths + "1], \"output_lens\": [" + ones + "1]}", Format::kAuto, {"tokens in all"}},
      {"{\"prompt\": 7}", Format::kAuto, {"line 1", "prompt is 7, must be a text"}},
      {"{\"prompt\": \"\"}", Format::kAuto, {"prompt is 0 tokens, must be from 1"}},
      {"{\"prompt\": \"x\", \"output_tokens\": -1}", Format::kAuto, {"output_tokens is -1"}},
      {"{\"input_lens\": [1], \"output_lens\": [1, 2]}", Format::kAuto, {"lists of the same length"}},
      {"{\"input_lens\": [1]}", Format::kAuto, {"output_lens is missing"}},
      {"{\"input_lens\": [1.5], \"output_lens\": [1]}", Format::kAuto, {"input_lens[0] is 1.5"}},
      {"hello\n", Format::kAuto, {"line 1", "not a JSON object"}},
      {"{\"prompt\": \"x\"}", Format::kShareGpt, {"not a JSON array"}},
      {"{\"prompt\": \"x\"}", Format::kMooncake, {"input_length is missing"}}};
  for (const Bad& bad : all) {
    const std::string message = error_of(bad.text, {.format = bad.format});
    for (const std::string& word : bad.words) EXPECT_NE(message.find(word), std::string::npos) << bad.text << ": " << message;
    EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
  }
  EXPECT_THROW(replay::format_of("xml"), std::invalid_argument);
  EXPECT_EQ(replay::format_of("sharegpt"), Format::kShareGpt);
}

// Mutations of all of them, under every format: a trace or a sentence, nothing else.
TEST(TraceFormats, NoiseIsATraceOrASentence) {
  constexpr unsigned kSeed = 20261124;
  std::printf("seed %u\n", kSeed);
  std::mt19937 random(kSeed);
  const std::string good[] = {kAzure, kBurst, kShared, kPrompts, kResults, kMooncake};
  constexpr char kBytes[] = "{}[]\",:\\\n\r0-9e.\0x";
  int read_well = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string text = good[random() % std::size(good)];
    for (unsigned edits = random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = kBytes[random() % sizeof kBytes];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, 1, kBytes[random() % sizeof kBytes]);
      }
      if (text.empty()) text = " ";
    }
    try {
      const auto requests = read(text, {.format = static_cast<Format>(random() % 5), .block_tokens = 16});
      for (const Request& request : requests) {
        ASSERT_GE(request.output_length, 1u);
        ASSERT_EQ(prompt_of(request).size(), request.input_length);
      }
      ++read_well;
    } catch (const std::runtime_error& failure) {
      ASSERT_EQ(std::string(failure.what()).find("json.exception"), std::string::npos) << failure.what();
      ASSERT_NE(std::string(failure.what()).find("trace '"), std::string::npos) << failure.what();
    }
  }
  EXPECT_GT(read_well, 150);
}

}  // namespace
}  // namespace quire
