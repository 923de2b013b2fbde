// A connector that keeps objects in memory and does to each ticket what a test wants: the basis of
// tests that need a store which is slow, full, gone, forgetful or wrong, and of simulations.
//
//   quire_register_connector(fake_store_query, &err);       // or register_module; once per process
//   FakeStore store({.seed = 7});
//   quire_connector_open(runtime, "fake_store", store.config(), &connector, &err);
//
// A FakeStore is what lies elsewhere: objects by key. Several connectors may be opened on one, as
// processes share a store. It must outlive them. Every call is for any thread.
//
// What becomes of a ticket is its fate. It is drawn from `odds` with the seed when the ticket is
// accepted, and a script may change it. With fates alone nothing depends on time or threads: one
// thread that makes the same calls gets the same answers.
//
// Time is the host's clock (quire_host_api), so a runtime with a clock of its own makes it virtual.
// poll never sleeps unless `waits` is set. A simulation asks next_end_ns() how far to move its
// clock.
//
// Bytes move when the ticket ends, not when it is submitted, which finds hosts that reuse them too
// early. The store compares what it is given with connector.h and remembers each violation:
//   - fields, keys and runs of tickets that the header does not allow; numbers that are in flight
//   - runs outside their registered regions; regions that end while a ticket uses them
//   - bytes of a store that changed before it ended, bytes of a load that somebody else wrote
//   - two threads in poll
// A test expects violations() to be empty at its end.
#pragma once

#include <quire/connector.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire::test {

// What happens to bytes although the ticket is said to be done.
enum class Damage {
  kNone,
  kFlip,     // one bit is another
  kShort,    // half of the bytes are missing: a load says so in `bytes`, a store keeps the rest
  kForeign,  // they are those of another object, if there is one
  kLost,     // a store keeps nothing, a load finds nothing
};

// What becomes of one ticket.
struct Fate {
  quire_code code = QUIRE_OK;  // any other: it fails with that, whatever the store has
  uint32_t polls = 0;          // polls that come and go before it ends
  int64_t delay_ns = 0;        // time from its start to its end
  bool held = false;           // it does not end before release()
  bool deaf = false;           // neither cancel nor its deadline ends it
  uint32_t told = 1;           // how often its completion is given; 0: never (breaks C-3)
  Damage damage = Damage::kNone;
  // Bytes that a failing ticket moves. A load wrote them; a store leaves an object of that size
  // (breaks C-8).
  uint64_t moved = 0;
};

// Of a thousand tickets of the kinds concerned, so many meet this.
struct Odds {
  uint32_t late = 0;    // 1 to max_polls polls and up to max_delay_ns later than others
  uint32_t fail = 0;    // UNAVAILABLE, half of them after some bytes were moved
  uint32_t twice = 0;   // the completion is told two times
  uint32_t damage = 0;  // any Damage
  uint32_t deaf = 0;
  uint32_t max_polls = 4;
  int64_t max_delay_ns = 0;
};

struct FakeStoreOptions {
  uint64_t seed = 1;
  // What info says and what is kept to.
  uint32_t flags = QUIRE_CONNECTOR_RANGES;
  uint32_t max_in_flight = 0;
  uint32_t alignment = 0;
  uint64_t max_key_bytes = 0;
  uint64_t max_object_bytes = 0;
  uint64_t best_object_bytes = 0;
  // Speed: a started ticket takes latency_ns and its bytes at bytes_per_second (0: no time).
  int64_t latency_ns = 0;
  uint64_t bytes_per_second = 0;
  // Tickets at work at the same time; others wait, higher priorities in front. 0 = all.
  uint32_t max_started = 0;
  uint64_t capacity_bytes = 0;  // 0 = no limit
  // Least recently used objects without a lease make room. Otherwise stores end with
  // RESOURCE_EXHAUSTED.
  bool evicts = false;
  bool leases = true;
  bool reorders = false;  // completions are given in random order
  bool waits = false;     // poll sleeps until a ticket ends; with a clock that runs by itself
  bool watches = true;    // compares bytes at submit and at the end
  // The store is peers: a store under a key and a handle (48 bytes) is an offer. It stays in
  // flight, and loads read its runs, until a removal without a record's name comes with its handle,
  // or it is cancelled. What follows the first 48 bytes of a key is the address of a peer, and
  // remembered.
  bool offers = false;
  Odds odds = {};
};

// What a store was asked and did, since it was made.
struct FakeStoreCounts {
  uint64_t submits = 0;
  uint64_t polls = 0;
  uint64_t cancels = 0;
  uint64_t accepted[5] = {};             // by quire_ticket_kind
  std::map<quire_code, uint64_t> ended;  // tickets by code
  uint64_t told = 0;                     // completions given
  uint64_t closed_over = 0;              // tickets that were in flight at close
  uint64_t bytes_stored = 0;
  uint64_t bytes_loaded = 0;
  uint64_t existed = 0;
  uint64_t keys_looked_up = 0;
  uint64_t keys_found = 0;
  uint64_t damaged = 0;  // tickets that met a Damage
  uint64_t evicted = 0;
};

// The entries that can be made to fail.
enum class StoreCall {
  kOpen,
  kRegister,
  kUnregister,
  kSubmit,
  kPoll,
  kCancel,
  kFd,
  kHealth,
  kList,
};

// A ticket as a script sees it. The key is the first of a look-up.
struct SeenTicket {
  const quire_ticket& ticket;
  std::string_view key;
  uint64_t bytes;  // of its runs
};

class FakeStore {
 public:
  explicit FakeStore(const FakeStoreOptions& options = {});
  ~FakeStore();
  FakeStore(const FakeStore&) = delete;
  FakeStore& operator=(const FakeStore&) = delete;

  // Of quire_connector_open.
  const std::string& config() const;

  // Fates ---------------------------------------------------------------------------------------
  // Called for every accepted ticket with the fate that was drawn. It must not call the store.
  void set_script(std::function<void(const SeenTicket&, Fate*)> script);
  void set_odds(const Odds& odds);
  // A held ticket may end; all of them.
  void release(uint64_t ticket);
  void release_all();
  // The next call of submit takes no more than so many tickets and answers with this code.
  void accept_next(uint64_t most, quire_code code);
  // The next call of this entry does nothing and answers with this code.
  void fail_next(StoreCall call, quire_code code);

  // State ---------------------------------------------------------------------------------------
  // FULL: stores end with RESOURCE_EXHAUSTED. READ_ONLY: they end with PERMISSION_DENIED. DOWN:
  // tickets end with UNAVAILABLE, also those that were in flight and are neither held nor deaf.
  void set_state(quire_connector_state state);
  // The clock was moved: descriptors are readable from now on where tickets have ended.
  void update();
  // When the next ticket ends that only waits for time; INT64_MAX: none does.
  int64_t next_end_ns() const;
  uint64_t num_in_flight() const;

  // Objects -------------------------------------------------------------------------------------
  void put(std::string_view key, std::span<const uint8_t> bytes);
  std::optional<std::vector<uint8_t>> get(std::string_view key) const;
  std::vector<std::string> keys() const;
  uint64_t used_bytes() const;
  // These answer false where there is no such object.
  bool forget(std::string_view key);
  bool flip(std::string_view key, uint64_t bit);
  bool truncate(std::string_view key, uint64_t bytes);
  bool replace(std::string_view key, std::string_view with);
  // Each object without a lease with this chance of a thousand; returns how many went.
  uint64_t forget_some(uint32_t of_thousand);
  // All leases are void, although they were promised.
  void lose_leases();

  std::string last_address() const;  // that a peer was asked at

  FakeStoreCounts counts() const;
  std::vector<std::string> violations() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// The query function of the connector "fake_store".
quire_code fake_store_query(const quire_query* query, const quire_manifest** out, quire_error* err);

}  // namespace quire::test
