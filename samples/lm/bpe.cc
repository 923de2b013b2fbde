#include "bpe.h"

#include <queue>

#include "lm_error.h"

namespace lm {
namespace {

// A token of the piece; merged ones leave the list.
struct Node {
  int32_t token = 0;
  int32_t before = -1;
  int32_t after = -1;
};

// Two neighbours that can be merged. It is out of date if one of them has changed.
struct Candidate {
  int32_t rank = 0;
  int32_t left = 0;
  int32_t right = 0;
  int32_t left_token = 0;
  int32_t right_token = 0;
  int32_t result = 0;
  // The queue gives the largest first.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

}  // namespace

void Bpe::add_token(std::string bytes, int32_t id) { tokens_.emplace(std::move(bytes), id); }

int32_t Bpe::find(std::string_view bytes) const {
  const auto found = tokens_.find(std::string(bytes));
  return found == tokens_.end() ? -1 : found->second;
}

bool Bpe::add_merge(std::string_view left, std::string_view right, int32_t rank) {
  const int32_t first = find(left);
  const int32_t second = find(right);
  const int32_t both = find(std::string(left) + std::string(right));
  if (first < 0 || second < 0 || both < 0) return false;
  merges_.emplace(key(first, second), Merge{rank, both});
  return true;
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& to) const {
  if (piece.empty()) return;
  if (ignore_merges_) {
    const int32_t whole = find(piece);
    if (whole >= 0) {
      to.push_back(whole);
      return;
    }
  }
  std::vector<Node> nodes(piece.size());
  const auto count = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < count; ++i) {
    const int32_t token = find(piece.substr(static_cast<size_t>(i), 1));
    if (token < 0) throw Error("tokenizer.json: a byte has no token");
    nodes[static_cast<size_t>(i)] = {token, i - 1, i + 1 < count ? i + 1 : -1};
  }
  std::priority_queue<Candidate> queue;
  const auto at = [&](int32_t i) -> Node& { return nodes[static_cast<size_t>(i)]; };
  const auto offer = [&](int32_t left) {
    const int32_t right = left < 0 ? -1 : at(left).after;
    if (right < 0) return;
    const auto merge = merges_.find(key(at(left).token, at(right).token));
    if (merge == merges_.end()) return;
    queue.push(
        {merge->second.rank, left, right, at(left).token, at(right).token, merge->second.result});
  };
  for (int32_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (at(best.left).token != best.left_token || at(best.left).after != best.right ||
        at(best.right).token != best.right_token)
      continue;
    at(best.left).token = best.result;
    at(best.right).token = -1;
    at(best.left).after = at(best.right).after;
    if (at(best.left).after >= 0) at(at(best.left).after).before = best.left;
    offer(at(best.left).before);
    offer(best.left);
  }
  for (int32_t i = 0; i >= 0; i = at(i).after) to.push_back(at(i).token);
}

}  // namespace lm
