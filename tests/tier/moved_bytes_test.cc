// What a fetch moves, counted at the store: of a window its tail, of states those of the boundary, of what is here nothing.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
constexpr uint64_t kLong = 16 << 10, kHybrid = 9 << 10;  // builds that take ten times as long
#else
constexpr uint64_t kLong = 128 << 10, kHybrid = 33 << 10;
#endif
constexpr uint64_t kWindow = 1024, kCheckpoints = 4096;

// What a fetch read of a store, by the kind of the records: tickets of loads say which.
struct Moved {
  uint64_t token_bytes = 0;          // payload of records with tokens
  std::vector<uint64_t> state_ends;  // of records with a state
};

Moved fetch(Engine* engine, FakeStore* store, quire_sequence_id sequence, const Text& text, quire_fetch_result* got) {
  std::vector<std::pair<std::string, uint64_t>> loads;
  store->set_script([&](const SeenTicket& seen, Fate*) {
    if (seen.ticket.kind == QUIRE_TICKET_LOAD) loads.emplace_back(seen.key, seen.bytes);
  });
  const uint64_t before = store->counts().bytes_loaded;
  *got = engine->fetch(sequence, text);
  store->set_script({});
  Moved moved;
  uint64_t bytes = 0;
  for (const auto& [key, n] : loads) {
    quire_record_info info = QUIRE_INIT(quire_record_info);
    const std::vector<uint8_t> record = *store->get(key);
    EXPECT_EQ(quire_record_read(record.data(), record.size(), &info, nullptr), QUIRE_OK);
    if (info.is_state != 0) moved.state_ends.push_back(info.end_token);
    if (info.is_state == 0) moved.token_bytes += n - info.header_bytes;
    bytes += n;
  }
  EXPECT_EQ(store->counts().bytes_loaded - before, bytes);
  return moved;
}

// However long the prompt and the units are, and wherever the window begins in one.
TEST(Moved, OfAWindowAreItsTokensAndOneUnit) {
  const Text text = count_text(1, kLong + 65);
  for (const uint64_t unit : {64U, 256U, 1024U, 4096U}) {
    SCOPED_TRACE(unit);
    EngineOptions o;
    o.layers = {window_layer(kWindow), window_layer(kWindow)};
    o.unit = unit;
    o.max_len = text.size() + 1;
    o.pages = 1200;  // for a chunk of the prompt, and the units that wait
    Forgotten f(o, text.size());
    quire_fetch_result got{};
    const quire_sequence_id sequence = f.engine.open();
    const Moved moved = fetch(&f.engine, &f.store, sequence, f.text, &got);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(got.committed, (text.size() - 1) / unit * unit);
    const uint64_t token = 2 * 2 * 2 * 8 * 2;  // layers, sides, heads, elements of 2 bytes
    EXPECT_GE(moved.token_bytes, (kWindow - 1) * token);
    EXPECT_LE(moved.token_bytes, (kWindow + unit) * token);
    f.engine.go_on(sequence, f.text);
    EXPECT_TRUE(f.store.violations().empty());
  }
}

EngineOptions hybrid() {
  EngineOptions o;
  o.layers = {full_layer(1), state_layer(), state_layer()};
  o.keep = QUIRE_KEEP_EVERY;
  o.checkpoint_interval = kCheckpoints;
  o.unit = 1024;
  o.max_len = kHybrid;
  o.pages = 6000;  // room for a sequence as long as this beside what is cached
  return o;
}

// States were stored at every checkpoint. One of each layer comes, that of the boundary.
TEST(Moved, OfStatesIsTheOneOfTheBoundary) {
  Forgotten f(hybrid(), kHybrid - 100);
  for (const uint64_t n : {kHybrid - 100, 2 * kCheckpoints, kCheckpoints + 500}) {
    SCOPED_TRACE(n);
    f.engine.forget_all();
    const Text text(f.text.begin(), f.text.begin() + static_cast<std::ptrdiff_t>(n));
    quire_fetch_result got{};
    const quire_sequence_id sequence = f.engine.open();
    const Moved moved = fetch(&f.engine, &f.store, sequence, text, &got);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(got.committed, (n - 1) / kCheckpoints * kCheckpoints);
    EXPECT_EQ(moved.state_ends, std::vector<uint64_t>{got.committed});
    EXPECT_EQ(moved.token_bytes, got.committed * 2 * 8 * 2);
    f.engine.go_on(sequence, text);
    f.engine.finish(sequence);
  }
  EXPECT_TRUE(f.store.violations().empty());
}

// Attention is here, its states are elsewhere: these come, and nothing else.
TEST(Moved, OfWhatIsHereIsNothing) {
  Forgotten f(hybrid(), kHybrid - 100);
  EngineOptions o = hybrid();
  o.keep = QUIRE_KEEP_ASKED;  // that is, none
  o.reasons = 0;
  Engine reader(f.clock, o, {&f.store});
  reader.compute(f.text);
  quire_fetch_result got{};
  const quire_sequence_id sequence = reader.open();
  const Moved moved = fetch(&reader, &f.store, sequence, f.text, &got);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, (f.text.size() - 1) / kCheckpoints * kCheckpoints);
  EXPECT_EQ(moved.state_ends, std::vector<uint64_t>{got.committed});
  EXPECT_EQ(moved.token_bytes, 0U);
  reader.go_on(sequence, f.text);
  EXPECT_TRUE(f.store.violations().empty());
}

// A part of a unit's attention is here, and shared with others: the rest of it comes.
TEST(Moved, OfAUnitThatIsHereInPartIsTheRest) {
  Forgotten f(hybrid(), kHybrid - 100);
  EngineOptions o = hybrid();
  o.keep = QUIRE_KEEP_ASKED;  // that is, none
  o.reasons = 0;
  Engine reader(f.clock, o, {&f.store});
  quire_fetch_result got{};
  const quire_sequence_id earlier = reader.open();
  (void)fetch(&reader, &f.store, earlier, first(f.text, kCheckpoints + 1), &got);  // how records are arranged is known now
  reader.finish(earlier);
  const uint64_t here = kCheckpoints + 1024 + 512;
  reader.compute(first(f.text, here));
  const quire_sequence_id sequence = reader.open();
  const Moved moved = fetch(&reader, &f.store, sequence, f.text, &got);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, (f.text.size() - 1) / kCheckpoints * kCheckpoints);
  EXPECT_EQ(moved.token_bytes, (got.committed - here) * 2 * 8 * 2);
  reader.go_on(sequence, f.text);
  EXPECT_TRUE(f.store.violations().empty());
}

}  // namespace
}  // namespace quire::test
