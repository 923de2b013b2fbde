// The cases of lm_parity: the same logits, however the memory came about.
#include <algorithm>
#include <array>

#include "lm_bench.h"
#include "lm_error.h"

namespace lm_parity {
namespace {

constexpr std::array<uint32_t, 6> kOdd = {7, 1, 16, 3, 17, 5};
constexpr std::array<uint32_t, 1> kOnes = {1};
constexpr std::array<uint32_t, 1> kLong = {9};
constexpr uint32_t kWhole = 4096;
constexpr uint32_t kDrafts = 4;
constexpr size_t kCrowd = 16;  // sequences of a small pool

// Sequences of different salts share nothing.
std::vector<Track> all_tracks(const Bench& bench) {
  std::vector<Track> tracks;
  for (size_t i = 0; i < bench.recorded().tokens.size(); ++i) tracks.push_back(bench.track(i, std::to_string(i)));
  return tracks;
}
std::vector<Track*> pointers(std::vector<Track>& tracks) {
  std::vector<Track*> to;
  for (Track& track : tracks) to.push_back(&track);
  return to;
}

bool all_done(const std::vector<Track>& tracks) {
  return std::all_of(tracks.begin(), tracks.end(), [](const Track& t) { return t.is_done(); });
}

void whole(Bench& bench) {
  for (size_t i = 0; i < bench.recorded().tokens.size(); ++i) {
    Track track = bench.track(i, std::to_string(i));
    Track* one = &track;
    bench.finish({&one, 1}, std::array{kWhole});
  }
}

void odd_chunks(Bench& bench) {
  for (size_t i = 0; i < bench.recorded().tokens.size(); ++i) {
    Track track = bench.track(i, std::to_string(i));
    Track* one = &track;
    bench.finish({&one, 1}, kOdd);
  }
}

void decode(Bench& bench) {
  std::vector<Track> tracks = all_tracks(bench);
  bench.step(pointers(tracks), 5);
  bench.finish(pointers(tracks), kOnes);
}

void batches(Bench& bench) {
  std::vector<Track> tracks = all_tracks(bench);
  Track* first = &tracks[0];
  bench.step({&first, 1}, 13);
  bench.finish(pointers(tracks), kOdd);
}

// A second and a third sharer of a prefix, each with a hit.
void prefix_hits(Bench& bench) {
  for (const size_t i : {size_t{0}, size_t{1}, size_t{0}}) {
    Track track = bench.track(i);
    Track* one = &track;
    const uint64_t before = bench.score().hit_tokens;
    while (!track.is_done()) bench.step({&one, 1}, kWhole, QUIRE_ENTRY_MATCH);
    const uint64_t hit = bench.score().hit_tokens - before;
    if ((hit == 0) != (bench.score().note.empty()))
      throw lm::Error("sequence " + std::to_string(i) + " hits " + std::to_string(hit) + " tokens");
    bench.score().note += (bench.score().note.empty() ? "hits " : " ") + std::to_string(hit);
  }
}

// Two sequences with a common beginning: one computes it, forks, and both go on together. With an encoder
// they are of the same input, so that the child is the same sequence once more.
void fork(Bench& bench) {
  Track parent = bench.track(0);
  Track* one = &parent;
  parent.end = bench.recorded().shared - 3;
  bench.finish({&one, 1}, kLong);
  parent.end = parent.live.tokens.size();
  const size_t other = bench.kv().has_encoder() ? 0 : 1;
  Track child{other, bench.stepper().fork(parent.live), bench.recorded().tokens[other].size()};
  child.live.tokens = bench.recorded().tokens[other];
  const std::array<Track*, 2> both = {&parent, &child};
  bench.finish(both, kOdd);
}

void preempt_and_resume(Bench& bench) {
  std::vector<Track> tracks = all_tracks(bench);
  for (int i = 0; i < 3; ++i) bench.step(pointers(tracks), 15);
  bench.stepper().preempt(tracks[0].live);
  bench.step(pointers(tracks), 4, QUIRE_ENTRY_MATCH);
  bench.stepper().preempt(tracks[2].live);
  while (!all_done(tracks)) {
    bench.step(pointers(tracks), 6, QUIRE_ENTRY_MATCH);
  }
}

// Every step is computed with wrong tokens, undone, and computed again.
void abort_and_redo(Bench& bench) {
  std::vector<Track> tracks = all_tracks(bench);
  for (size_t i = 0; !tracks[0].is_done(); ++i) {
    lm::Flight wrong = bench.reserve(pointers(tracks), kOdd[i % kOdd.size()]);
    std::reverse(wrong.ids.begin(), wrong.ids.end());
    bench.stepper().run(wrong);
    bench.stepper().abort(wrong);
    bench.step(pointers(tracks), kOdd[i % kOdd.size()]);
  }
}

// Rows of four tokens of which the last ones are wrong; 1 to 4 are accepted.
void speculative(Bench& bench) {
  std::vector<Track> tracks = all_tracks(bench);
  bench.step(pointers(tracks), 18);
  for (uint32_t round = 0; !all_done(tracks); ++round) {
    const uint32_t right = round % kDrafts + 1;
    for (Track& track : tracks) {  // the draft's tokens: the wrong ones are others than those recorded
      track.live.tokens = bench.recorded().tokens[track.recorded];
      for (size_t p = track.live.committed + right; p < track.live.tokens.size(); ++p)
        track.live.tokens[p] = (track.live.tokens[p] + 7) % 29;
    }
    lm::Flight flight = bench.reserve(pointers(tracks), kDrafts);
    bench.stepper().run(flight, lm::Logits::kAll);
    bench.compare(flight, pointers(tracks), right);
    std::vector<uint32_t> accepted;
    for (const lm::StepRow& row : flight.rows) accepted.push_back(std::min(right, row.tokens));
    bench.stepper().commit(flight, accepted);
    bench.verify();
  }
}

void truncate(Bench& bench) {
  Track track = bench.track(0);
  Track* one = &track;
  track.end = 50;
  bench.finish({&one, 1}, kLong);
  track.end = track.live.tokens.size();
  for (const uint64_t length : {uint64_t{32}, uint64_t{45}, uint64_t{48}, uint64_t{49}}) {
    try {
      bench.stepper().truncate(track.live, length);
      bench.score().note = "to " + std::to_string(length);
      break;
    } catch (const quire::Exception& failure) {  // what it needs has left a window, or no state is there
      if (failure.code() != QUIRE_FAILED_PRECONDITION) throw;
    }
  }
  if (track.live.committed == 50) bench.score().note = "no legal length";
  bench.finish({&one, 1}, kOdd);
}

// The second step is reserved before the first one is committed.
void two_in_flight(Bench& bench) {
  std::vector<Track> tracks = all_tracks(bench);
  while (!all_done(tracks)) {
    lm::Flight first = bench.reserve(pointers(tracks), 11);
    lm::Flight second = bench.reserve(pointers(tracks), 5);
    for (lm::Flight* flight : {&first, &second}) {
      if (!*flight) continue;
      bench.stepper().run(*flight, lm::Logits::kAll);
      bench.compare(*flight, pointers(tracks));
    }
    bench.stepper().commit(first);
    if (second) bench.stepper().commit(second);
    bench.verify();
  }
}

// Tracks that take part in the next step: those that run, and one that waits unless memory is short.
std::vector<Track*> runnable(std::vector<Track>& tracks, bool admit) {
  std::vector<Track*> to;
  for (Track& track : tracks) {
    if (!track.is_done() && track.live.committed != 0) to.push_back(&track);
  }
  for (Track& track : tracks) {
    if (track.is_done() || track.live.committed != 0 || (!admit && !to.empty())) continue;
    to.push_back(&track);
    break;
  }
  return to;
}

// Not all sequences fit: the youngest one gives its memory back and resumes later.
void small_pool(Bench& bench) {
  constexpr int kCooldown = 6;
  // What one long sequence needs with all the states it keeps is enough for some shorter ones.
  std::vector<Track> tracks;
  for (size_t i = 0; i < kCrowd; ++i) tracks.push_back(bench.track(i % bench.recorded().tokens.size(), std::to_string(i)));
  uint64_t preemptions = 0;
  int cooldown = 0;
  for (int steps = 0; !all_done(tracks); ++steps) {
    if (steps > 1000) throw lm::Error("the sequences do not get done");
    const std::vector<Track*> running = runnable(tracks, cooldown == 0);
    cooldown = std::max(cooldown - 1, 0);
    lm::Flight flight = bench.reserve(running, 4, QUIRE_ENTRY_MATCH);
    bool refused = false;  // where nothing is reused, a new one waits: whoever is preempted begins anew
    for (size_t i = 0; i < running.size(); ++i) {
      if (flight.results[i].code == QUIRE_OK) continue;
      refused = refused || running[i]->live.committed != 0 || !bench.kv().has_encoder();
      cooldown = kCooldown;
    }
    if (flight) {
      bench.stepper().run(flight, lm::Logits::kAll);
      bench.compare(flight, running);
      bench.stepper().commit(flight);
    }
    for (Track* track : running) {
      if (track->is_done()) track->live.sequence = {};
    }
    const auto youngest =
        std::find_if(running.rbegin(), running.rend(), [](const Track* t) { return !t->is_done() && t->live.committed != 0; });
    if (!refused || youngest == running.rend()) continue;
    bench.stepper().preempt((*youngest)->live);
    ++preemptions;
  }
  if (preemptions == 0) throw lm::Error("nothing was preempted: the pool is not small");
  bench.score().note = std::to_string(preemptions) + " preemptions";
}

void with_drafts(lm::KvSettings& settings) { settings.drafts = kDrafts - 1; }
void with_depth(lm::KvSettings& settings) { settings.step_depth = 2; }
void in_place(lm::KvSettings& settings) { settings.cache_flags = QUIRE_CACHE_STATES_IN_PLACE; }
void at_blocks(lm::KvSettings& settings) { settings.cache_flags = QUIRE_CACHE_STATES_AT_BLOCKS; }
void with_few_pages(lm::KvSettings& settings) {
  settings.max_sequences = kCrowd;
  settings.max_step_tokens = 4 * kCrowd;
  settings.pages = 1;  // lm_parity raises it to what one sequence needs
}

constexpr Case kCases[] = {
    {"whole", nullptr, whole},
    {"odd chunks", nullptr, odd_chunks},
    {"decode", nullptr, decode},
    {"batches", nullptr, batches},
    {"prefix hits", nullptr, prefix_hits, false, true},
    {"fork", nullptr, fork},
    {"preempt and resume", nullptr, preempt_and_resume},
    {"abort and redo", nullptr, abort_and_redo},
    {"speculative", with_drafts, speculative},
    {"truncate", nullptr, truncate},
    {"two in flight", with_depth, two_in_flight},
    {"small pool", with_few_pages, small_pool},
    {"states in place", in_place, batches, true},
    {"states at blocks", at_blocks, prefix_hits, true},
};

}  // namespace

std::span<const Case> cases() { return kCases; }

}  // namespace lm_parity
