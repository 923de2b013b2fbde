#include "lm_bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lm_error.h"

namespace lm_parity {

Recorded::Recorded(const std::filesystem::path& from) : folder(from) {
  const lm::Safetensors file = lm::Safetensors::open(from / "expected.safetensors");
  for (size_t i = 0;; ++i) {
    const auto ids = file.tensors.find("tokens." + std::to_string(i));
    const auto rows = file.tensors.find("logits." + std::to_string(i));
    if (ids == file.tensors.end() || rows == file.tensors.end()) break;
    std::vector<int32_t>& sequence = tokens.emplace_back(static_cast<size_t>(ids->second.elements()));
    std::memcpy(sequence.data(), ids->second.data, sequence.size() * sizeof(int32_t));
    lm::Matrix& wanted = logits.emplace_back(rows->second.shape.at(0), rows->second.shape.at(1));
    rows->second.widen(0, wanted.data);
    const auto input = file.tensors.find("encoder." + std::to_string(i));
    if (input == file.tensors.end()) continue;
    lm::Matrix features(input->second.shape.at(0), input->second.shape.at(1));
    input->second.widen(0, features.data);
    encoder_inputs.push_back(std::make_shared<const lm::Matrix>(std::move(features)));
  }
  if (tokens.size() < 3) throw lm::Error(from.string() + ": fewer than three recorded sequences");
  const auto& [first, second] = std::tie(tokens[0], tokens[1]);
  shared = static_cast<size_t>(std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin());
}

void Score::add(std::span<const float> got, std::span<const float> wanted, double bar) {
  double squares = 0;
  double largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::fabs(double{value}));
  logits += wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double d = double{got[i]} - double{wanted[i]};
    difference += std::isfinite(d) ? d * d : 1e30;
    differ += std::fabs(d) <= bar * largest ? 0 : 1;
    squares += double{wanted[i]} * double{wanted[i]};
  }
  reference += squares;
  ++rows;
  const auto best = std::max_element(wanted.begin(), wanted.end());
  float next = -INFINITY;
  for (auto it = wanted.begin(); it != wanted.end(); ++it) {
    if (it != best) next = std::max(next, *it);
  }
  if (double{*best} - double{next} <= bar * std::sqrt(squares)) return;
  ++clear;
  const auto got_best = std::max_element(got.begin(), got.end()) - got.begin();
  top_equal += got_best == best - wanted.begin() ? 1 : 0;
}

Track Bench::track(size_t index, std::string_view salt) const {
  const std::vector<int32_t>& tokens = recorded_.tokens[index];
  Track track{index, stepper_.begin(tokens, salt), tokens.size()};
  if (!recorded_.encoder_inputs.empty()) track.live.encoder_input = recorded_.encoder_inputs.at(index);
  return track;
}

lm::Flight Bench::reserve(std::span<Track* const> tracks, uint32_t tokens, uint32_t flags) const {
  std::vector<lm::Ask> asks;
  for (Track* track : tracks) {
    if (track->live.reserved >= track->end) continue;
    const auto rest = static_cast<uint32_t>(track->end - track->live.reserved);
    asks.push_back({&track->live, std::min(rest, tokens), track->live.reserved == 0 ? flags : flags & ~QUIRE_ENTRY_MATCH});
  }
  return stepper_.reserve(asks);
}

void Bench::compare(const lm::Flight& flight, std::span<Track* const> tracks, uint32_t accepted) {
  for (size_t r = 0; r < flight.rows.size(); ++r) {
    const lm::StepRow& row = flight.rows[r];
    const auto track = std::find_if(tracks.begin(), tracks.end(), [&](const Track* t) { return &t->live == row.live; });
    const lm::Matrix& wanted = recorded_.logits[(*track)->recorded];
    const int64_t first = flight.first_logits[r];
    score_.hit_tokens += row.hit_tokens;
    for (uint32_t t = 0; t < (accepted == 0 ? row.tokens : std::min(accepted, row.tokens)); ++t) {
      score_.add(flight.logits.row(first + t), wanted.row(static_cast<int64_t>(row.position + t)), bar_);
    }
  }
}

lm::Flight Bench::step(std::span<Track* const> tracks, uint32_t tokens, uint32_t flags) {
  lm::Flight flight = reserve(tracks, tokens, flags);
  if (!flight) throw lm::Error("no row was admitted: " + std::string(quire::refusal_text(flight.results.at(0).reason)));
  stepper_.run(flight, lm::Logits::kAll);
  compare(flight, tracks);
  stepper_.commit(flight);
  verify();
  return flight;
}

void Bench::finish(std::span<Track* const> tracks, std::span<const uint32_t> chunks) {
  for (size_t i = 0; !std::all_of(tracks.begin(), tracks.end(), [](const Track* t) { return t->is_done(); }); ++i) {
    step(tracks, chunks[i % chunks.size()]);
  }
}

}  // namespace lm_parity
