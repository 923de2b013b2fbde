// Method: traces that are made against what their description says; tails against chains written by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "replay/generate.h"

namespace quire {
namespace {

using replay::Request;

Request of_ids(uint64_t tokens, std::vector<uint64_t> ids) {
  Request request;
  request.input_length = tokens;
  request.output_length = 1;
  request.hash_ids = std::move(ids);
  return request;
}

// Tokens that two prompts have in common.
uint64_t shared(const Request& a, const Request& b) {
  std::vector<quire_symbol> one, other;
  replay::prompt_symbols(a, &one);
  replay::prompt_symbols(b, &other);
  const uint64_t most = std::min(one.size(), other.size());
  return static_cast<uint64_t>(std::mismatch(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(most), other.begin()).first -
                               one.begin());
}

TEST(Tails, TheNextLongerPromptWithTheSameBlocksGoesOn) {
  std::vector<Request> trace = {of_ids(1000, {1, 2}), of_ids(600, {9, 8}), of_ids(1700, {1, 3, 4, 5})};
  EXPECT_EQ(replay::count_tails(trace), 3u);
  EXPECT_EQ(shared(trace[0], trace[2]), 512u);
  const replay::LinkedTails found = replay::link_tails(&trace);
  EXPECT_EQ(found.linked, 1u);
  EXPECT_EQ(found.tails, 3u);
  EXPECT_EQ(shared(trace[0], trace[2]), 1000u);
  EXPECT_EQ(shared(trace[0], trace[1]), 0u);
}

TEST(Tails, AChainOfTailsIsOneText) {
  std::vector<Request> trace = {of_ids(600, {1, 2}), of_ids(700, {1, 3}), of_ids(1100, {1, 4, 5})};
  EXPECT_EQ(replay::link_tails(&trace).linked, 2u);
  EXPECT_EQ(shared(trace[0], trace[1]), 600u);
  EXPECT_EQ(shared(trace[1], trace[2]), 700u);
  EXPECT_EQ(shared(trace[0], trace[2]), 600u);
}

TEST(Tails, ShorterPromptsFirstBlocksAndSharedDocumentsAreNotLinked) {
  std::vector<Request> shorter = {of_ids(1000, {1, 2}), of_ids(900, {1, 3})};
  EXPECT_EQ(replay::link_tails(&shorter).linked, 0u);
  std::vector<Request> first = {of_ids(100, {1}), of_ids(400, {2})};  // nothing says that they belong together
  EXPECT_EQ(replay::link_tails(&first).linked, 0u);
  std::vector<Request> document;
  for (uint64_t i = 0; i < 4; ++i) document.push_back(of_ids(600 + i, {1, 10 + i}));
  EXPECT_EQ(replay::link_tails(&document).linked, 0u);
  document.pop_back();  // three may be a conversation
  EXPECT_EQ(replay::link_tails(&document).linked, 2u);
}

TEST(Tails, WholeBlocksAndTextsHaveNone) {
  std::vector<Request> trace = {of_ids(1024, {1, 2}), of_ids(600, {1, 3})};
  trace[1].text = std::make_shared<const std::vector<quire_symbol>>(600);
  EXPECT_EQ(replay::link_tails(&trace).tails, 0u);
}

TEST(MadeTraces, TheSeedDecidesThem) {
  for (const char* name : {"agents:3", "documents:20", "conversations:20"}) {
    const auto first = replay::make_trace(name, 5), again = replay::make_trace(name, 5), other = replay::make_trace(name, 6);
    ASSERT_EQ(first.size(), again.size()) << name;
    bool differs = first.size() != other.size();
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(shared(first[i], again[i]), first[i].input_length) << name;
      EXPECT_EQ(first[i].output_length, again[i].output_length) << name;
      differs = differs || first[i].input_length != other[i].input_length;
    }
    EXPECT_TRUE(differs) << name;
  }
}

TEST(MadeTraces, AgentsGoOnWithAllThatWasSaid) {
  const auto trace = replay::generate_agents(6, 1);
  std::map<const void*, std::vector<const Request*>> sessions;
  for (const Request& request : trace) sessions[request.text.get()].push_back(&request);
  ASSERT_EQ(sessions.size(), 6u);
  for (const auto& [text, turns] : sessions) {
    EXPECT_LE(turns.size(), 60u);
    EXPECT_GE(turns.front()->input_length, 6000u + 2000u + 50u);
    for (size_t t = 1; t < turns.size(); ++t) {
      EXPECT_EQ(shared(*turns[t - 1], *turns[t]), turns[t - 1]->input_length);
      EXPECT_GE(turns[t]->input_length, turns[t - 1]->input_length + turns[t - 1]->output_length + 50);
      EXPECT_GE(turns[t]->arrival_ms, turns[t - 1]->arrival_ms + 1000);
    }
  }
  EXPECT_GE(shared(*sessions.begin()->second.front(), *sessions.rbegin()->second.front()), 6000u);
  for (size_t i = 1; i < trace.size(); ++i) EXPECT_GE(trace[i].arrival_ms, trace[i - 1].arrival_ms);
}

TEST(MadeTraces, DocumentsShareTheSystemPromptAndRepeat) {
  const auto trace = replay::generate_documents(300, 1);
  ASSERT_EQ(trace.size(), 300u);
  uint64_t repeated = 0;
  for (size_t i = 1; i < trace.size(); ++i) {
    EXPECT_GE(shared(trace[0], trace[i]), 800u);
    EXPECT_LE(trace[i].input_length, 800u + 30000u + 3 * 400u + 2 * 500u);
    repeated += shared(trace[0], trace[i]) >= 2800 ? 1 : 0;
  }
  EXPECT_LT(repeated, trace.size() / 2);
}

TEST(MadeTraces, NamesOutsideOfTheLimitsAreRefused) {
  EXPECT_TRUE(replay::is_made("agents:5"));
  EXPECT_FALSE(replay::is_made("./agents:5"));
  EXPECT_FALSE(replay::is_made("agents"));
  for (const char* bad : {"agents:", "agents:0", "agents:10001", "documents:-1", "agents:5x", "people:5", "agents"}) {
    EXPECT_THROW(replay::make_trace(bad, 1), std::invalid_argument) << bad;
  }
}

}  // namespace
}  // namespace quire
