// Symbols that the index does not hold yet, beside lists of them: random calls, for units of all sorts.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/sequence/sequence.h"
#include "fixture.h"

namespace quire {
namespace {

constexpr uint64_t kInFlight = 900;  // symbols of all sequences together
constexpr uint32_t kSequences = 4;

class Model {
 public:
  Model(uint32_t unit, uint64_t seed) : unit_(unit), rng_(seed), sequences_(make(unit)), kept_(kSequences) {
    for (uint32_t q = 0; q < kSequences; ++q) {
      EXPECT_EQ(sequences_.open(), q);
      sequences_.at(q).publishing = true;
    }
  }

  void act() {
    const auto q = static_cast<uint32_t>(rng_() % kSequences);
    switch (rng_() % 6) {
      case 0:
      case 1:
        return append(q, rng_() % (rng_() % 4 == 0 ? 600 : 40));
      case 2:
        return append_one(q);
      case 3:
        return drop(q);
      case 4:
        return cut(q);
      default:
        return copy(q, static_cast<uint32_t>(rng_() % kSequences));
    }
  }

  void check() {
    const Status ok = sequences_.verify();
    ASSERT_TRUE(ok.ok()) << ok.message();
    for (uint32_t q = 0; q < kSequences; ++q) {
      ASSERT_EQ(sequences_.at(q).known - sequences_.at(q).published, kept_[q].size());
      std::vector<const quire_symbol*> units(kept_[q].size() / unit_);
      ASSERT_EQ(sequences_.first_units(q, units), units.size());
      for (size_t i = 0; i < units.size() * unit_; ++i) ASSERT_EQ(units[i / unit_][i % unit_], kept_[q][i]) << "symbol " << i;
    }
  }

 private:
  static Sequences make(uint32_t unit) {
    auto made = Sequences::create(*make_config({GroupSketch{LiveRange{}, unit, 1, 1}}, 32, 4096), kSequences, kInFlight);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(made.value());
  }
  uint64_t room() const {
    uint64_t n = kInFlight;
    for (const auto& kept : kept_) n -= std::min<uint64_t>(n, kept.size());
    return n;
  }
  void append(uint32_t q, uint64_t n) {
    std::vector<quire_symbol> symbols(std::min(n, room()));
    for (quire_symbol& s : symbols) s = next_++;
    ASSERT_TRUE(sequences_.append_symbols(q, symbols));
    kept_[q].insert(kept_[q].end(), symbols.begin(), symbols.end());
  }
  void append_one(uint32_t q) {
    if (room() == 0 || !sequences_.append_symbol(q, next_)) return;
    kept_[q].push_back(next_++);
  }
  void drop(uint32_t q) {
    const uint64_t units = kept_[q].size() / unit_;
    if (units == 0) return;
    const auto n = static_cast<uint32_t>(1 + rng_() % units);
    sequences_.drop_units(q, n);
    sequences_.at(q).committed = sequences_.at(q).published;
    sequences_.at(q).reserved = sequences_.at(q).known;
    kept_[q].erase(kept_[q].begin(), kept_[q].begin() + n * unit_);
  }
  void cut(uint32_t q) {
    const uint64_t left = rng_() % (kept_[q].size() + 1);
    sequences_.cut_symbols(q, sequences_.at(q).published + left);
    kept_[q].resize(left);
  }
  void copy(uint32_t from, uint32_t to) {
    if (from == to) return;
    sequences_.drop_symbols(to);
    kept_[to].clear();
    const uint64_t n = std::min<uint64_t>(rng_() % (kept_[from].size() + 1), room());
    ASSERT_TRUE(sequences_.copy_symbols(from, to, sequences_.at(from).published + n));
    sequences_.at(to).committed = sequences_.at(to).published;
    sequences_.at(to).reserved = std::max(sequences_.at(to).reserved, sequences_.at(to).committed);
    kept_[to].assign(kept_[from].begin(), kept_[from].begin() + static_cast<std::ptrdiff_t>(n));
  }

  uint32_t unit_;
  std::mt19937_64 rng_;
  Sequences sequences_;
  std::vector<std::vector<quire_symbol>> kept_;
  quire_symbol next_ = 1;
};

TEST(Symbols, AreThoseOfAList) {
  for (const uint32_t unit : {1, 3, 16, 48, 128, 200}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << "unit " << unit << ", seed " << seed);
      Model model(unit, seed);
      for (uint32_t i = 0; i < 1500; ++i) {
        model.act();
        if (i % 5 == 0) model.check();
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace quire
