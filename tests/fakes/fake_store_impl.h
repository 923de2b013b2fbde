// The inside of a FakeStore. All of it is under one lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "tests/fakes/fake_store.h"

namespace quire::test {

struct StoredObject {
  std::vector<uint8_t> bytes;
  uint64_t serial = 0;  // listings go by it
  uint64_t used = 0;    // the last use counted highest
  int64_t leased_until_ns = INT64_MIN;
};

// An accepted ticket with copies of what it names.
struct StoreTicket {
  quire_ticket ticket{};
  std::vector<quire_ticket_run> runs;
  std::vector<std::string> keys;
  uint64_t bytes = 0;  // of the runs
  uint64_t sum = 0;    // of what lay there when it was accepted
  Fate fate;
  bool started = false;
  bool cancelled = false;
  int64_t end_ns = 0;  // of a started one
};

struct StoreRegion {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// A connector that is open on a store.
struct StoreInstance {
  FakeStore::Impl* store = nullptr;
  const quire_host_api* host = nullptr;
  int event = -1;  // an eventfd: counts 1 while completions are ready
  bool readable = false;
  bool polling = false;
  std::map<uint64_t, StoreTicket> tickets;           // that have not ended, in order of acceptance
  std::unordered_map<uint64_t, uint64_t> by_number;  // their keys there; until they were told
  std::deque<quire_completion> ready;                // to be told
  std::map<uint64_t, StoreRegion> regions;
  uint64_t next_region = 1;

  int64_t now() const { return host->now(host->user); }
};

struct FakeStore::Impl {
  FakeStoreOptions options;
  uint64_t number = 0;  // in config
  std::string config;
  uint64_t random_state = 0;
  std::function<void(const SeenTicket&, Fate*)> script;
  quire_connector_state state = QUIRE_CONNECTOR_UP;
  std::map<std::string, StoredObject, std::less<>> objects;
  uint64_t used_bytes = 0;
  uint64_t last_serial = 0;
  uint64_t last_use = 0;
  uint64_t last_order = 0;
  FakeStoreCounts counts;
  std::vector<std::string> violations;  // the first ones
  uint64_t num_violations = 0;
  std::deque<std::pair<uint64_t, quire_code>> next_accepts;
  std::map<StoreCall, quire_code> next_failures;
  std::set<StoreInstance*> instances;
  std::mutex lock;
  std::condition_variable changed;

  StoredObject offered;  // the last one that was looked for
  std::string last_address;

  // fake_store.cc
  uint64_t random();
  bool chance(uint32_t of_thousand) { return of_thousand != 0 && random() % 1000 < of_thousand; }
  void violate(const std::string& what);
  // True once: what the next call of this entry answers.
  bool fails(StoreCall call, quire_code* code);
  void keep(std::string_view key, std::vector<uint8_t> bytes);
  void drop(std::map<std::string, StoredObject, std::less<>>::iterator object);

  struct Arrays {
    const quire_ticket* tickets;
    uint64_t n;
    const quire_ticket_run* runs;
    uint64_t num_runs;
    const uint8_t* keys;
    uint64_t num_key_bytes;
  };
  // fake_store_inspect.cc: remembers the violations in what is submitted. False: there are some.
  bool inspect(const StoreInstance& instance, const Arrays& arrays);

  // fake_store_tickets.cc
  uint64_t submit(StoreInstance* instance, const Arrays& arrays, uint64_t most);
  // Starts what can start and ends what can end. Once in each poll with a_poll.
  void advance(StoreInstance* instance, bool a_poll);
  void advance_all();
  // Sleeps without the lock where the options say so.
  uint64_t poll(StoreInstance* instance, int64_t timeout_ns,  // as poll of quire_connector_api
                std::span<quire_completion> items, std::unique_lock<std::mutex>* hold);
  int64_t next_end_ns(const StoreInstance& instance) const;

  // fake_store_bytes.cc: moves the bytes of a ticket that ends and says how it ended.
  quire_completion finish(StoreInstance* instance, StoreTicket* ticket);
  void check_untouched(const StoreTicket& ticket);
  static uint64_t sum_of(const StoreTicket& ticket);

 private:
  void store(StoreInstance* instance, StoreTicket* ticket, quire_completion* end);
  void load(StoreTicket* ticket, quire_completion* end);
  void look_up(StoreInstance* instance, StoreTicket* ticket, quire_completion* end);
  void move_part(StoreTicket* ticket, quire_completion* end);
  bool is_offer(const StoreTicket& ticket) const;
  StoredObject* find(const std::string& key);
  void end_offers(StoreTicket* ticket, quire_completion* end);
  bool make_room(uint64_t bytes, int64_t now);
  void damage_stored(const StoreTicket& ticket, std::vector<uint8_t>* bytes);
  const StoredObject* another(const std::string& key);

  Fate draw(quire_ticket_kind kind, uint64_t bytes);
  void start(StoreInstance* instance, int64_t now);
  quire_code early_end(const StoreTicket& ticket, int64_t now) const;
  void end(StoreInstance* instance, uint64_t order, quire_code code);
  void signal(StoreInstance* instance);
};

// The store that a config names; NULL: there is none.
FakeStore::Impl* find_store(std::string_view config);

}  // namespace quire::test
