// Random operations against a model, and many threads.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "kit.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint64_t kKeys = 300;
constexpr uint64_t kInFlight = 8;

uint64_t bytes_of(uint64_t version) { return version >> 32; }

// What a store must hold: key -> version of its object.
struct Model {
  std::map<uint64_t, uint64_t> objects;
  // Stores and removals that were cancelled may have been done nevertheless, and then wholly: key -> the version that may be there now, 0 =
  // it may be gone. The next look-up tells.
  std::map<uint64_t, uint64_t> uncertain;
  uint64_t next_version = 1;
};

// Operations in random order, some in flight together, those of one key never: so the model knows every answer.
class Modelled {
 public:
  Modelled(Client* client, Model* model, uint64_t seed) : client_(*client), model_(*model), rng_(seed) {}

  void run(uint64_t operations) {
    for (uint64_t i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      begin();
      while (in_flight_.size() >= kInFlight && !testing::Test::HasFatalFailure()) end(client_.poll(10 * kSecond));
      if (below(&rng_, 4) == 0) end(client_.poll(0));
    }
    while (!in_flight_.empty() && !testing::Test::HasFatalFailure()) end(client_.poll(10 * kSecond));
  }

  // All of it: every object with every byte, and the listing.
  void compare() {
    while (!model_.uncertain.empty() && !testing::Test::HasFatalFailure()) {
      start(QUIRE_TICKET_LOOKUP, {model_.uncertain.begin()->first});
      end(client_.poll(10 * kSecond));
    }
    std::map<Key, uint64_t> wanted;
    for (const auto& [number, version] : model_.objects) wanted[key(number)] = bytes_of(version);
    ASSERT_TRUE(client_.keeps(wanted));
    for (const auto& [number, version] : model_.objects) ASSERT_TRUE(client_.holds(key(number), content(version, bytes_of(version))));
  }

 private:
  struct Operation {
    quire_ticket_kind kind = 0;
    std::vector<uint64_t> keys;
    uint64_t version = 0;  // of a store
    Layout layout;
    std::unique_ptr<Memory> memory;
    std::vector<uint64_t> sizes;
    bool beyond = false;  // a load that reaches beyond the object
    bool cancelled = false;
  };

  uint64_t free_key() {
    uint64_t number = below(&rng_, kKeys);
    while (busy_.count(number) != 0) number = below(&rng_, kKeys);
    return number;
  }

  void begin() {
    const uint64_t dice = below(&rng_, 100);
    const auto kind = dice < 35   ? QUIRE_TICKET_STORE
                      : dice < 75 ? QUIRE_TICKET_LOAD
                      : dice < 85 ? QUIRE_TICKET_LOOKUP
                                  : QUIRE_TICKET_REMOVE;
    std::vector<uint64_t> keys = {free_key()};
    if (model_.uncertain.count(keys[0]) != 0) return start(QUIRE_TICKET_LOOKUP, keys);
    while (kind == QUIRE_TICKET_LOOKUP && below(&rng_, 10) != 0) keys.push_back(free_key());
    start(kind, keys);
  }

  void start(quire_ticket_kind kind, const std::vector<uint64_t>& keys) {
    Operation op;
    op.kind = kind;
    op.keys = keys;
    std::vector<Key> names;
    for (const uint64_t number : keys) {
      busy_.insert(number);
      names.push_back(key(number));
    }
    Batch batch;
    if (kind == QUIRE_TICKET_STORE) {
      const uint64_t size = below(&rng_, 20);
      const uint64_t bytes = 1 + below(&rng_, size == 0 ? 200'000 : size < 5 ? 20'000 : 1500);
      op.version = bytes << 32 | model_.next_version++;
      op.layout = covering(&rng_, bytes);
      op.memory = std::make_unique<Memory>(&op.layout, below(&rng_, 64));
      op.memory->fill(op.layout.runs, content(op.version, bytes));
      batch.store(names[0], op.layout.runs, bytes);
    } else if (kind == QUIRE_TICKET_LOAD) {
      plan_load(&op);
      batch.load(names[0], op.layout.runs);
    } else if (kind == QUIRE_TICKET_LOOKUP) {
      op.sizes.assign(keys.size(), UINT64_MAX);
      batch.look_up(names, op.sizes.data());
    } else {
      batch.remove(names[0]);
    }
    const uint64_t ticket = batch.tickets()[0].ticket;
    const bool cancels = kind != QUIRE_TICKET_LOOKUP && below(&rng_, 30) == 0;
    op.cancelled = cancels;
    in_flight_.emplace(ticket, std::move(op));
    ASSERT_EQ(client_.submit(batch), 1u);
    if (cancels) client_.cancel(ticket);
  }

  void plan_load(Operation* op) {
    const auto there = model_.objects.find(op->keys[0]);
    const uint64_t bytes = there != model_.objects.end() ? bytes_of(there->second) : 1000;
    op->layout = below(&rng_, 2) == 0 ? covering(&rng_, bytes) : reading(&rng_, bytes);
    op->beyond = below(&rng_, 20) == 0;
    if (op->beyond) op->layout = dense(bytes - below(&rng_, bytes), bytes + 1);
    op->memory = std::make_unique<Memory>(&op->layout, below(&rng_, 64));
  }

  void end(const std::vector<quire_completion>& ends) {
    for (const quire_completion& end : ends) {
      const auto at = in_flight_.find(end.ticket);
      ASSERT_NE(at, in_flight_.end());
      Operation op = std::move(at->second);
      in_flight_.erase(at);
      for (const uint64_t number : op.keys) busy_.erase(number);
      if (op.cancelled && end.code == QUIRE_CANCELLED) {
        after_cancel(&op);
      } else {
        check(&op, end);
      }
      if (testing::Test::HasFatalFailure()) return;
      if (op.memory != nullptr) {
        ASSERT_TRUE(op.memory->intact()) << "kind " << op.kind << ", key " << op.keys[0];
      }
    }
  }

  void after_cancel(Operation* op) {
    const bool known = model_.objects.count(op->keys[0]) != 0;
    if (op->kind == QUIRE_TICKET_LOAD) op->memory->forget(op->layout.runs);
    if (op->kind == QUIRE_TICKET_STORE && !known) model_.uncertain[op->keys[0]] = op->version;
    if (op->kind == QUIRE_TICKET_REMOVE && known) model_.uncertain[op->keys[0]] = 0;
  }

  void check(Operation* op, const quire_completion& end) {
    const auto there = model_.objects.find(op->keys[0]);
    const bool known = there != model_.objects.end();
    if (op->kind == QUIRE_TICKET_STORE) {
      ASSERT_EQ(end.code, QUIRE_OK);
      ASSERT_EQ(end.flags, known ? QUIRE_COMPLETION_EXISTED : 0u);
      ASSERT_EQ(end.bytes, known ? 0 : bytes_of(op->version));
      model_.objects.emplace(op->keys[0], op->version);
    } else if (op->kind == QUIRE_TICKET_LOAD) {
      ASSERT_EQ(end.code, !known ? QUIRE_NOT_FOUND : op->beyond ? QUIRE_OUT_OF_RANGE : QUIRE_OK);
      if (end.code == QUIRE_OK) op->memory->expect(op->layout.runs, content(there->second, bytes_of(there->second)));
      if (end.code == QUIRE_OUT_OF_RANGE) op->memory->forget(op->layout.runs);
    } else if (op->kind == QUIRE_TICKET_REMOVE) {
      ASSERT_EQ(end.code, known ? QUIRE_OK : QUIRE_NOT_FOUND);
      model_.objects.erase(op->keys[0]);
    } else {
      ASSERT_EQ(end.code, QUIRE_OK);
      for (size_t i = 0; i < op->keys.size(); ++i) check_size(op->keys[i], op->sizes[i]);
    }
  }

  void check_size(uint64_t number, uint64_t size) {
    const auto doubt = model_.uncertain.find(number);
    if (doubt != model_.uncertain.end()) {
      if (doubt->second != 0 && size != 0) model_.objects[number] = doubt->second;
      if (doubt->second == 0 && size == 0) model_.objects.erase(number);
      model_.uncertain.erase(doubt);
    }
    const auto there = model_.objects.find(number);
    ASSERT_EQ(size, there != model_.objects.end() ? bytes_of(there->second) : 0) << "key " << number;
  }

  Client& client_;
  Model& model_;
  Rng rng_;
  std::map<uint64_t, Operation> in_flight_;
  std::set<uint64_t> busy_;
};

TEST_P(ConnectorKit, TenThousandOperationsAsInTheModel) {
  const char* given = std::getenv("QUIRE_STEPS");  // NOLINT(concurrency-mt-unsafe)
  const uint64_t operations = given != nullptr ? std::strtoull(given, nullptr, 10) : 10'000;
  Model model;
  for (uint64_t part = 0; part < 4; ++part) {
    SCOPED_TRACE("part " + std::to_string(part) + ", QUIRE_SEED=" + std::to_string(seed()));
    Client client = open(128 * kMiB);
    if (part != 0 && !client.persists()) model.objects.clear();
    Modelled modelled(&client, &model, seed() + part);
    modelled.run(operations / 4);
    if (!HasFatalFailure()) modelled.compare();
    if (HasFatalFailure()) return;
  }
}

// Four threads submit and cancel, one polls: every ticket ends once, and every byte is right.
TEST_P(ConnectorKit, ManyThreadsSubmitWhileOnePolls) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kRounds = 60;
  constexpr uint64_t kObject = 30'000;
  Client client = open(64 * kMiB);
  std::atomic<uint64_t> accepted{0}, wrong{0};
  std::atomic<bool> done{false};
  Ends ends;
  std::thread poller([&] {
    while (!done || ends.size() < accepted) {
      for (const quire_completion& end : client.poll(10 * kMillisecond)) {
        if (!ends.emplace(end.ticket, end).second) ++wrong;
      }
    }
  });
  struct Load {
    uint64_t number, ticket;
    Layout layout;
    std::unique_ptr<Memory> memory;
  };
  std::vector<std::vector<Load>> loads(kThreads);
  std::vector<std::unique_ptr<Memory>> sources;
  std::vector<Layout> layouts(kThreads * kRounds, dense(0, kObject));
  for (uint64_t i = 0; i < layouts.size(); ++i) {
    sources.push_back(std::make_unique<Memory>(&layouts[i]));
    sources[i]->fill(layouts[i].runs, content(i, kObject));
  }
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(seed() + t);
      for (uint64_t round = 0; round < kRounds; ++round) {
        Load load{below(&rng, kThreads) * kRounds + below(&rng, round + 1), 0, dense(0, kObject), nullptr};
        load.memory = std::make_unique<Memory>(&load.layout, round);
        Batch batch;
        const uint64_t own = t * kRounds + round;
        const uint64_t store = batch.store(key(own), layouts[own].runs, kObject).ticket;
        load.ticket = batch.load(key(load.number), load.layout.runs).ticket;
        for (uint64_t given = 0; given < 2;) {
          const uint64_t n = client.submit(batch, given);
          given += n;
          accepted += n;
        }
        Error err;
        if (round % 10 == 9) quire_connector_cancel(client.get(), store, &err);  // it may have ended
        loads[t].push_back(std::move(load));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  poller.join();
  EXPECT_EQ(wrong, 0u);
  ASSERT_EQ(ends.size(), 2 * kThreads * kRounds);
  for (std::vector<Load>& own : loads) {
    for (Load& load : own) {
      const quire_code code = ends[load.ticket].code;
      EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_NOT_FOUND) << code;
      if (code == QUIRE_OK) load.memory->expect(load.layout.runs, content(load.number, kObject));
      EXPECT_TRUE(load.memory->intact());
    }
  }
  for (const auto& source : sources) EXPECT_TRUE(source->intact());
  for (uint64_t i = 0; i < kThreads * kRounds; ++i) {
    if (i % 10 != 9) {
      EXPECT_TRUE(client.holds(key(i), content(i, kObject))) << i;
    }
  }
}

}  // namespace
