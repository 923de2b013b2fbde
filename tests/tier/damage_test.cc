// Any subset of the records of a prompt is missing or damaged, of any groups: a model says which boundary is left. The fetch brings that
// one, what is bad goes and is counted, and no byte is wrong. The seed is printed; QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/fakes/made_record.h"
#include "tests/tier/record_model.h"

namespace quire::test {
namespace {

using Record = std::vector<uint8_t>;

enum class Harm : uint32_t { kMissing, kHeaderBit, kPayloadBits, kCut, kForeign, kOtherVersion, kHeaderOfAnother, kOtherWeights, kEnd };
constexpr size_t kNumHarms = static_cast<size_t>(Harm::kEnd);

class Prompt {
 public:
  explicit Prompt(uint64_t seed) : random_(seed) {
    options_.layers = any_layers(random_);
    if (random_() % 4 == 0) options_.layers.push_back(chunked_layer(16 * (2 + random_() % 8)));
    options_.unit = 64 * (1 + random_() % 2);
    options_.ranks = 1 + random_() % 2;
    options_.max_len = 420;
    options_.pages = 400;
    text_ = count_text(1, 65 + random_() % 330);
    write("test-weights", &store_);
    write("other-weights", &others_);
  }

  const std::array<uint64_t, kNumHarms>& harmed() const { return harmed_; }
  uint64_t came() const { return came_; }
  uint64_t lost() const { return lost_; }

  void run() {
    options_.reasons = 0;
    Engine reader(clock_, options_, {&store_});
    RecordModel model(reader, options_.layers);
    model.add_all(store_);
    const uint64_t whole = model.largest_boundary(text_);
    EXPECT_EQ(fetch(&reader).committed, whole);
    harm();
    model.forget();
    for (const std::string& key : store_.keys()) {
      if (bad_.count(key) == 0) model.add(*store_.get(key));
    }
    const uint64_t left = model.largest_boundary(text_);
    // What is damaged is found when it comes. It goes, and the next fetch knows.
    quire_fetch_result got{};
    got.outcome = QUIRE_FETCH_FAILED;
    for (size_t turns = 0; turns <= bad_.size() && got.outcome == QUIRE_FETCH_FAILED; ++turns) {
      clock_.now += 400'000'000'000;  // whatever it did, it is open again
      got = fetch(&reader);
      EXPECT_LE(got.committed, whole);
    }
    EXPECT_EQ(got.committed, left);
    EXPECT_EQ(got.outcome, left > 0 ? QUIRE_FETCH_DONE : QUIRE_FETCH_NOTHING);
    expect_only_bad_ones_went(reader);
    reader.expect_nothing_left();
    for (const std::string& violation : store_.violations()) ADD_FAILURE() << violation;
    came_ = left;
    lost_ = whole - left;
  }

 private:
  void write(const char* weights, FakeStore* store) {
    EngineOptions o = options_;
    o.weights = weights;
    Engine writer(clock_, o, {store});
    const Text half(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(text_.size() / 2));
    writer.compute(half);
    writer.compute(text_);
    writer.settle();
  }

  quire_fetch_result fetch(Engine* reader) {
    reader->forget_all();
    const quire_sequence_id sequence = reader->open();
    const quire_fetch_result got = reader->fetch(sequence, text_);
    reader->finish(sequence);
    reader->settle();
    return got;
  }

  void harm() {
    const std::vector<std::string> keys = store_.keys();
    keys_ = keys.size();
    for (const std::string& key : keys) whole_.push_back(*store_.get(key));
    const uint64_t share = std::array<uint64_t, 4>{1, 5, 20, 60}[random_() % 4];
    for (const std::string& key : keys) {
      if (random_() % 100 < share || (bad_.empty() && key == keys.back())) harm(key);
    }
  }

  void harm(const std::string& key) {
    const auto harm = static_cast<Harm>(random_() % kNumHarms);
    const Record before = *store_.get(key);
    const Record& other = whole_[random_() % whole_.size()];
    Record now = before;
    uint32_t header = 0;
    std::memcpy(&header, &now[MadeRecord::kSizeAt], sizeof header);
    switch (harm) {
      case Harm::kMissing:
        now.clear();
        break;
      case Harm::kHeaderBit:
        now[random_() % 144] ^= static_cast<uint8_t>(1U << random_() % 8);
        break;
      case Harm::kPayloadBits: {  // one of every block: of some windows not all blocks are read
        uint64_t block = 0;
        std::memcpy(&block, &now[MadeRecord::kBlockBytesAt], sizeof block);
        for (uint64_t at = header; at < now.size(); at += block) now[at + random_() % block] ^= static_cast<uint8_t>(1U << random_() % 8);
        break;
      }
      case Harm::kCut:
        now.resize(1 + random_() % (now.size() - 1));
        break;
      case Harm::kForeign:
        now = other;
        break;
      case Harm::kOtherVersion:
        ++now[8];
        MadeRecord::sign(&now);
        break;
      case Harm::kHeaderOfAnother:
        std::copy_n(other.begin(), std::min<size_t>(header, other.size()), now.begin());
        break;
      case Harm::kOtherWeights: {  // the same record but for the weights, under our key
        const Record theirs = *others_.get(others_.keys()[0]);
        std::copy_n(theirs.begin() + kFingerprintAt, 32, now.begin() + kFingerprintAt);
        MadeRecord::sign(&now);
        break;
      }
      case Harm::kEnd:
        break;
    }
    if (now == before) return;
    ++harmed_[static_cast<size_t>(harm)];
    store_.forget(key);
    bad_.insert(key);
    if (!now.empty()) {
      store_.put(key, now);
      damaged_.insert(key);
    }
  }

  void expect_only_bad_ones_went(const Engine& reader) const {
    const std::vector<std::string> keys = store_.keys();
    const std::set<std::string> there(keys.begin(), keys.end());
    const auto went = static_cast<uint64_t>(
        std::count_if(damaged_.begin(), damaged_.end(), [&](const std::string& key) { return there.count(key) == 0; }));
    EXPECT_EQ(there.size(), keys_ - (bad_.size() - damaged_.size()) - went) << "a good one went";
    EXPECT_GE(reader.tier().objects_damaged, went);
    EXPECT_LE(reader.tier().objects_damaged, went * options_.ranks);  // what several ranks have is read by each
  }

  static constexpr size_t kFingerprintAt = 64;

  std::mt19937_64 random_;
  Clock clock_;
  EngineOptions options_;
  FakeStore store_, others_;
  Text text_;
  size_t keys_ = 0;
  std::vector<Record> whole_;            // before any was harmed
  std::set<std::string> bad_, damaged_;  // all; those of which something is there
  std::array<uint64_t, kNumHarms> harmed_{};
  uint64_t came_ = 0, lost_ = 0;
};

TEST(Damage, OfAnySubsetLeavesTheLargestBoundaryThatIsWhole) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", 600);
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed + rounds - 1));
  std::array<uint64_t, kNumHarms> harmed{};
  uint64_t came = 0, lost = 0;
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    Prompt prompt(s);
    prompt.run();
    for (size_t i = 0; i < kNumHarms; ++i) harmed[i] += prompt.harmed()[i];
    came += prompt.came() > 0 ? 1 : 0;
    lost += prompt.lost() > 0 ? 1 : 0;
  }
  std::printf("%llu prompts came in part or whole, %llu lost something\n", static_cast<unsigned long long>(came),
              static_cast<unsigned long long>(lost));
  if (rounds < 100) return;
  EXPECT_GT(came, rounds / 4);
  EXPECT_GT(lost, rounds / 4);
  for (size_t i = 0; i < kNumHarms; ++i) EXPECT_GT(harmed[i], rounds / 10) << i;
}

}  // namespace
}  // namespace quire::test
