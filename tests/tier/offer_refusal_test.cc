// Why nothing came of an offer: the first field that differs is named, with both values where they may be shown. What may differ is not
// refused.
#include <list>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr uint64_t kTokens = 320;

EngineOptions options() {
  EngineOptions o;
  o.layers = {full_layer(4), window_layer(40, 4), latent_layer(), cut_state_layer(), full_layer(4)};
  o.is_peers = true;
  o.pages = 400;
  return o;
}

quire_identity identity_of(const std::string& salt, const std::string& adapter, uint64_t epoch) {
  quire_identity identity = QUIRE_INIT(quire_identity);
  identity.salt = {salt.data(), salt.size()};
  identity.adapter = {adapter.data(), adapter.size()};
  identity.epoch = epoch;
  return identity;
}

quire_code refusal_of(const Engine& engine, quire_fetch_id fetch, quire_offer_refusal* out) {
  *out = QUIRE_INIT(quire_offer_refusal);
  return quire_fetch_get_refusal(engine.tiers(), fetch, out, nullptr);
}

struct Expected {
  quire_offer_field field;
  std::string name, here, there;
};

void expect_refused(const Engine& engine, quire_fetch_id fetch, const Expected& expected) {
  quire_offer_refusal got;
  ASSERT_EQ(refusal_of(engine, fetch, &got), QUIRE_OK);
  EXPECT_EQ(got.field, expected.field);
  EXPECT_EQ(got.name, expected.name);
  EXPECT_EQ(got.here, expected.here);
  EXPECT_EQ(got.there, expected.there);
  EXPECT_EQ(engine.tier().offers_refused, 1U);
}

// One engine offers, another one reads.
struct Both {
  Clock clock;
  FakeStore store{peers()};
  Text text = count_text(1, kTokens + 1);
  Engine writer, reader;
  quire_sequence_id sequence;
  quire_offer offer{};

  Both(const EngineOptions& from, const EngineOptions& to, const quire_identity* identity = nullptr, uint64_t tokens = kTokens)
      : writer(clock, from, {&store}), reader(clock, to, {&store}), sequence(writer.open(identity)) {
    writer.go_on(sequence, Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens)));
    offer = writer.offer(sequence, text);
  }
  quire_fetch_result fetch(const quire_offer& wanted, const Text& prompt, const quire_identity* identity = nullptr) {
    const quire_sequence_id into = reader.open(identity);
    const quire_fetch_result got = reader.fetch_from(wanted, into, prompt);
    reader.go_on(into, prompt);  // it is computed, from where it is
    reader.finish(into);
    return got;
  }
  void expect_over() {
    writer.settle();
    writer.expect_nothing_left();
    reader.expect_nothing_left();
    EXPECT_EQ(writer.stats().offers_in_progress, 0U);
    EXPECT_TRUE(store.violations().empty());
  }
};

struct Change {
  void (*change)(EngineOptions* o);
  Expected expected;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> kChanges = {
      {[](EngineOptions* o) { o->weights = "test-weightt"; }, {QUIRE_OFFER_WEIGHTS, "weights", "test-weightt", "test-weights"}},
      {[](EngineOptions* o) { o->weights = "\xff\n"; }, {QUIRE_OFFER_WEIGHTS, "weights", "?\\n", "test-weights"}},
      {[](EngineOptions* o) {
         o->layers[0].dtype = {QUIRE_DTYPE_FLOAT, 16, 1};
       },
       {QUIRE_OFFER_LAYERS, "layer 0.0", "type 2 16 1", "type 4 16 1"}},
      {[](EngineOptions* o) { o->layers[0] = full_layer(8); }, {QUIRE_OFFER_LAYERS, "layer 0.0", "heads 8", "heads 4"}},
      {[](EngineOptions* o) { o->layers[1] = window_layer(41, 4); }, {QUIRE_OFFER_LAYERS, "layer 1.0", "window 41", "window 40"}},
      {[](EngineOptions* o) { o->layers[1] = window_layer(40, 5); }, {QUIRE_OFFER_LAYERS, "layer 1.0", "sinks 5", "sinks 4"}},
      {[](EngineOptions* o) { o->layers[1] = window_layer(40); }, {QUIRE_OFFER_LAYERS, "layer 1.0", "nothing", "sinks 4"}},
      {[](EngineOptions* o) { o->layers[2].head_dim_k = 24; }, {QUIRE_OFFER_LAYERS, "layer 2.0", "width 24", "width 16"}},
      {[](EngineOptions* o) { o->layers.pop_back(); },
       {QUIRE_OFFER_LAYERS, "layer 4.0", "nothing",
        "heads 4, width 8 and 8, type 4 16 1, tokens per row 1, codec 0 0 0 0 0 0 0 0 0, 0 0 1, 0 0 1, 0 0 1"}},
      {[](EngineOptions* o) { o->unit = 128; }, {QUIRE_OFFER_UNIT_TOKENS, "unit_tokens", "128", "64"}},
      {[](EngineOptions* o) { o->ranks = 2; }, {QUIRE_OFFER_RANKS, "tensor_parallel", "2", "1"}},
      {[](EngineOptions* o) { o->ranks = 2, o->others = {4}; }, {QUIRE_OFFER_RANKS, "tensor_parallel", "2", "1"}},
  };
  return kChanges;
}

TEST(Refusals, NameWhatModelsDifferIn) {
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.expected.name + ": " + change.expected.here);
    EngineOptions to = options();
    change.change(&to);
    Both both(options(), to);
    const quire_fetch_result got = both.fetch(both.offer, both.text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_NOTHING);
    EXPECT_EQ(got.committed, 0U);
    expect_refused(both.reader, got.fetch, change.expected);
    both.expect_over();
  }
}

TEST(Refusals, NameWhatPlansDifferIn) {
  EngineOptions from = options(), to = options();
  // One table for all layers: those of windows keep everything, too.
  from.layers = to.layers = {full_layer(4), window_layer(40), window_layer(40)};
  from.policy = to.policy = "vllm";
  to.plan_flags = QUIRE_PLAN_ONE_TABLE;
  Both groups(from, to);
  const quire_fetch_result got = groups.fetch(groups.offer, groups.text);
  EXPECT_EQ(got.committed, 0U);
  expect_refused(groups.reader, got.fetch, {QUIRE_OFFER_GROUPS, "groups", "3 caches of layers 0 to 2", "1 cache of layer 0"});
  groups.expect_over();

  from.layers = to.layers = {full_layer(4), full_layer(4)};
  from.layers[1].flags = to.layers[1].flags = QUIRE_LAYER_DRAFT;
  from.layers[1].look_ahead = 2;
  to.layers[1].look_ahead = 3;
  to.plan_flags = 0;
  from.policy = to.policy = "auto";
  Both drafts(from, to, nullptr, kTokens - 16);
  const quire_fetch_result other = drafts.fetch(drafts.offer, drafts.text);
  expect_refused(drafts.reader, other.fetch, {QUIRE_OFFER_LOOK_AHEAD, "look_ahead", "3", "2"});
  drafts.expect_over();
}

// Of secrets it is said that they differ, and no more.
TEST(Refusals, NameWhoseSequencesDiffer) {
  const std::string ours = "tenant-a", theirs = "tenant-b", none;
  struct Pair {
    quire_identity here, there;
    Expected expected;
  };
  const std::vector<Pair> pairs = {
      {identity_of(ours, none, 0), identity_of(theirs, none, 0), {QUIRE_OFFER_SALT, "salt", "", ""}},
      {identity_of(ours, none, 0), identity_of(none, ours, 0), {QUIRE_OFFER_SALT, "salt", "", ""}},
      {identity_of(ours, ours, 0), identity_of(ours, theirs, 3), {QUIRE_OFFER_ADAPTER, "adapter", "", ""}},
      {identity_of(ours, none, 1), identity_of(ours, none, 7), {QUIRE_OFFER_EPOCH, "epoch", "1", "7"}},
  };
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.expected.name);
    Both both(options(), options(), &pair.there);
    const quire_fetch_result got = both.fetch(both.offer, both.text, &pair.here);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_NOTHING);
    expect_refused(both.reader, got.fetch, pair.expected);
    both.expect_over();
  }
}

TEST(Refusals, NameWherePromptsDiffer) {
  const auto refused = [](const EngineOptions& to, uint64_t offered, const Text& prompt, uint64_t end, const Expected& expected) {
    SCOPED_TRACE(expected.here);
    EngineOptions from = options();
    from.layers = to.layers;
    Both both(from, to, nullptr, offered);
    quire_offer wanted = both.offer;
    if (end != 0) wanted.end_token = end;
    const quire_fetch_result got = both.fetch(wanted, prompt);
    EXPECT_EQ(got.committed, 0U);
    expect_refused(both.reader, got.fetch, expected);
    both.expect_over();
  };
  const EngineOptions o = options();
  refused(o, kTokens, count_text(2, kTokens + 1), 0, {QUIRE_OFFER_PROMPT, "prompt", "", ""});
  refused(o, kTokens, count_text(1, kTokens), 0, {QUIRE_OFFER_END_TOKEN, "end_token", "at most 319", "320"});
  EngineOptions longer = o;
  longer.layers = {full_layer()};
  refused(longer, 48, count_text(1, kTokens + 1), 32, {QUIRE_OFFER_END_TOKEN, "end_token", "32", "48"});
  longer.block = 32;
  refused(longer, 48, count_text(1, kTokens + 1), 0, {QUIRE_OFFER_END_TOKEN, "end_token", "multiples of 32", "48"});
}

// A window of 40 tokens begins inside a block of 64, of which the writer had only the end.
TEST(Refusals, NameBlocksThatAreTooLong) {
  EngineOptions from = options(), to = options();
  from.layers = to.layers = {window_layer(40), window_layer(40)};
  to.block = 64;
  Both both(from, to);
  const quire_fetch_result got = both.fetch(both.offer, both.text);
  EXPECT_EQ(got.committed, 0U);
  expect_refused(both.reader, got.fetch, {QUIRE_OFFER_BLOCK_TOKENS, "block_tokens of layer 0", "64", "16"});
  both.expect_over();
}

TEST(Refusals, AreNoneWhereAllIsWell) {
  for (const uint32_t ranks : {1U, 2U, 4U}) {
    EngineOptions from = options(), to = options();
    from.layers = to.layers = {full_layer(4), window_layer(40), cut_state_layer()};
    to.ranks = ranks;
    to.others = {1};
    to.layout = "BPJKHTD";
    Both both(from, to);
    quire_offer forged = both.offer;
    forged.handle[3] ^= 1;
    const quire_fetch_result nothing = both.fetch(forged, both.text);  // no offer: nothing is known
    EXPECT_EQ(nothing.outcome, QUIRE_FETCH_NOTHING);
    both.reader.forget_all();
    const uint64_t tickets = both.store.counts().accepted[QUIRE_TICKET_LOOKUP];
    const quire_fetch_result got = both.reader.fetch_from(both.offer, both.reader.open(), both.text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(got.committed, kTokens);
    EXPECT_LE(both.store.counts().accepted[QUIRE_TICKET_LOOKUP] - tickets, ranks == 1 ? 1U : 2U);  // nothing more is asked
    quire_offer_refusal why;
    for (const quire_fetch_id fetch : {quire_fetch_id{0}, nothing.fetch, got.fetch, got.fetch + 1}) {
      EXPECT_EQ(refusal_of(both.reader, fetch, &why), QUIRE_NOT_FOUND);
    }
    EXPECT_EQ(both.reader.tier().offers_refused, 0U);
    both.expect_over();
  }
}

// What a nearer tier has comes, and of the peer it is said why nothing does.
TEST(Refusals, AreNamedWhereOtherTiersHelp) {
  Clock clock;
  FakeStore near, link(peers());
  EngineOptions o = options();
  Engine writer(clock, o, {&link});
  o.is_peers = false;
  const Text text = count_text(1, kTokens + 1);
  {
    Engine other(clock, o, {&near});
    other.compute(count_text(1, 128));
    other.settle();
  }
  const quire_sequence_id sequence = writer.open();
  writer.go_on(sequence, count_text(1, kTokens));
  const quire_offer offer = writer.offer(sequence, text);
  o.is_peers = true;
  o.first_peer = 1;
  o.reasons = 0;
  Engine reader(clock, o, {&near, &link});
  const quire_fetch_result got = reader.fetch_from(offer, reader.open(), count_text(1, kTokens));
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 128U);
  quire_offer_refusal why;
  ASSERT_EQ(refusal_of(reader, got.fetch, &why), QUIRE_OK);
  EXPECT_EQ(why.field, QUIRE_OFFER_END_TOKEN);
  EXPECT_EQ(reader.tier(1).offers_refused, 1U);
}

// The name under which an offer describes itself: what other versions of the library find.
constexpr uint8_t kDescriptionName[32] = {0x4e, 0xad, 0x88, 0xc8, 0xd8, 0xf0, 0x94, 0xb1, 0xe2, 0xe1, 0xb2, 0xc3, 0x40, 0x1a, 0x96, 0x50,
                                          0x47, 0x38, 0xd7, 0xa4, 0x76, 0x33, 0x09, 0x82, 0xcf, 0x7f, 0xa0, 0x43, 0xcf, 0x56, 0x8e, 0x5e};

// A peer that offers nothing but a description, which may be anything.
class Liar {
 public:
  Liar(const Clock& clock, const FakeStore& store) {
    quire_error err = QUIRE_INIT(quire_error);
    const std::string& config = store.config();
    must(quire_connector_open(clock.runtime, {"fake_store", 10}, {config.data(), config.size()}, &connector_, &err), err, "connector");
  }
  ~Liar() { quire_connector_release(connector_); }
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;

  quire_offer offer(std::vector<uint8_t> said, uint64_t end_token) {
    said_.push_back(std::move(said));
    quire_offer offer{};
    offer.end_token = end_token;
    offer.handle[0] = static_cast<uint8_t>(said_.size());
    std::vector<uint8_t> key(kDescriptionName, kDescriptionName + sizeof kDescriptionName);
    key.insert(key.end(), offer.handle, offer.handle + sizeof offer.handle);
    quire_ticket_run run{0, reinterpret_cast<uint64_t>(said_.back().data()), said_.back().size(), 1, 0, 0, 0};
    quire_ticket ticket{};
    ticket.ticket = said_.size();
    ticket.kind = QUIRE_TICKET_STORE;
    ticket.num_runs = ticket.num_keys = 1;
    ticket.key_bytes = key.size();
    ticket.object_bytes = run.bytes;
    ticket.deadline_ns = -1;
    uint64_t accepted = 0;
    quire_error err = QUIRE_INIT(quire_error);
    must(quire_connector_submit(connector_, &ticket, 1, &run, 1, key.data(), key.size(), &accepted, &err), err, "submit");
    return offer;
  }

 private:
  quire_connector* connector_ = nullptr;
  std::list<std::vector<uint8_t>> said_;
};

TEST(Refusals, BelieveNothing) {
  EngineOptions to = options();
  to.weights = "others";
  Both both(options(), to);
  Liar liar(both.clock, both.store);
  const auto fetch = [&](const std::vector<uint8_t>& said) {
    const quire_fetch_result got = both.fetch(liar.offer(said, kTokens), both.text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_NOTHING);
    both.reader.forget_all();
    return got.fetch;
  };
  quire_offer_refusal why;
  std::vector<uint8_t> said = {'q', 'u', 'e', 'o', 'f', 'f', 'r', '1', 9, 0, 0, 0};
  said.resize(32);
  for (const size_t size : {size_t{1}, size_t{12}, size_t{31}, size_t{(1 << 20) + 1}}) {
    std::vector<uint8_t> other = said;
    other.resize(size);
    EXPECT_EQ(refusal_of(both.reader, fetch(other), &why), QUIRE_NOT_FOUND);
  }
  EXPECT_EQ(refusal_of(both.reader, fetch(std::vector<uint8_t>(4096, 0xff)), &why), QUIRE_NOT_FOUND);
  EXPECT_EQ(both.reader.tier().objects_damaged, 1U);
  EXPECT_EQ(refusal_of(both.reader, fetch(said), &why), QUIRE_OK);
  EXPECT_EQ(why.field, QUIRE_OFFER_VERSION);
  EXPECT_STREQ(why.there, "9");
  both.store.set_script([](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind == QUIRE_TICKET_LOAD) fate->damage = Damage::kFlip;
  });
  EXPECT_EQ(refusal_of(both.reader, both.fetch(both.offer, both.text).fetch, &why), QUIRE_NOT_FOUND);
  both.expect_over();
}

// A peer that is asked why and does not answer costs no more than the deadline.
TEST(Refusals, KeepTheDeadline) {
  for (const quire_ticket_kind kind : {QUIRE_TICKET_LOOKUP, QUIRE_TICKET_LOAD}) {
    for (const bool is_cancelled : {false, true}) {
      EngineOptions to = options();
      to.weights = "others";
      Both both(options(), to);
      uint64_t held = 0;
      both.store.set_script([&](const SeenTicket& seen, Fate* fate) {
        const bool is_last = seen.ticket.kind == QUIRE_TICKET_LOOKUP && seen.ticket.num_keys > 1;
        if (seen.ticket.kind == kind && !is_last) fate->held = fate->deaf = true, ++held;
      });
      const quire_sequence_id into = both.reader.open();
      const quire_fetch_id fetch = both.reader.begin_from(both.offer, into, both.text, 10'000'000);
      for (int turns = 0; turns < 20 && held == 0; ++turns) EXPECT_TRUE(both.reader.run().empty());
      EXPECT_EQ(held, 1U);
      const quire_code cancelled = is_cancelled ? quire_fetch_cancel(both.reader.tiers(), fetch, nullptr) : QUIRE_OK;
      EXPECT_EQ(cancelled, QUIRE_OK);
      both.clock.now += is_cancelled ? 0 : 10'000'000;
      const std::vector<quire_fetch_result> got = both.reader.run();
      ASSERT_EQ(got.size(), 1U);
      EXPECT_EQ(got[0].outcome, is_cancelled ? QUIRE_FETCH_CANCELLED : QUIRE_FETCH_NOTHING);
      quire_offer_refusal why;
      EXPECT_EQ(refusal_of(both.reader, fetch, &why), QUIRE_NOT_FOUND);
      both.store.set_script(nullptr);
      both.reader.go_on(into, both.text);
      both.store.release_all();
      both.reader.settle();
      both.expect_over();
    }
  }
}

// Tiers end while a peer is asked; so do fetches of the connector that fails then.
TEST(Refusals, EndWithTheirTiers) {
  for (const bool fails : {false, true}) {
    EngineOptions to = options();
    to.weights = "others";
    Both both(options(), to);
    both.store.set_script([&](const SeenTicket& seen, Fate* fate) {
      if (seen.ticket.kind != QUIRE_TICKET_LOAD) return;
      fate->code = fails ? QUIRE_UNAVAILABLE : QUIRE_OK;
      fate->held = !fails;
    });
    const quire_sequence_id into = both.reader.open();
    both.reader.begin_from(both.offer, into, both.text);
    std::vector<quire_fetch_result> got;
    for (int turns = 0; turns < 20 && got.empty(); ++turns) got = both.reader.run();
    ASSERT_EQ(got.size(), fails ? 1U : 0U);
    EXPECT_TRUE(!fails || got[0].outcome == QUIRE_FETCH_NOTHING);
    both.reader.drop_tiers();
    EXPECT_EQ(both.reader.cache_stats().holds, 0U);
    EXPECT_TRUE(both.store.violations().empty());
  }
}

// The latest 64 are remembered.
TEST(Refusals, AreForgottenInTheirOrder) {
  EngineOptions to = options();
  to.weights = "others";
  Both both(options(), to);
  std::vector<quire_fetch_id> fetches;
  quire_offer offer = both.offer;
  for (int i = 0; i < 66; ++i) {
    const quire_sequence_id into = both.reader.open();
    fetches.push_back(both.reader.fetch_from(offer, into, both.text).fetch);
    both.reader.finish(into);
    both.writer.settle();
    if (i < 65) offer = both.writer.offer(both.sequence, both.text);
  }
  quire_offer_refusal why;
  for (size_t i = 0; i < fetches.size(); ++i) EXPECT_EQ(refusal_of(both.reader, fetches[i], &why), i < 2 ? QUIRE_NOT_FOUND : QUIRE_OK);
  EXPECT_EQ(both.reader.tier().offers_refused, 66U);
  both.expect_over();
}

}  // namespace
}  // namespace quire::test
