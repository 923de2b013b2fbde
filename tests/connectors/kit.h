// The kit: what every connector must do, tested through the functions quire_connector_* of the
// library. The tests are in kit_*.cc. A program instantiates them for its connectors:
//
//   INSTANTIATE_TEST_SUITE_P(File, ConnectorKit, testing::Values(subject), quire::kit::name_of);
//
// Modules come from the build, or from the folder QUIRE_KIT_MODULES. Random tests print their seed
// and take it from QUIRE_SEED. All memory that tickets name lies between guard bytes, and a shadow
// says what every byte of it must be.
#pragma once

#include <gtest/gtest.h>
#include <quire/connector.h>
#include <quire/quire.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace quire::kit {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kSecond = 1'000'000'000;
#if defined(__SANITIZE_THREAD__)
inline constexpr uint64_t kSlowness = 4;  // rounds of long tests are divided by it
#else
inline constexpr uint64_t kSlowness = 1;
#endif

using Bytes = std::vector<uint8_t>;
using Key = std::string;  // any bytes
using Rng = std::mt19937_64;
using Runs = std::vector<quire_ticket_run>;
using Ends = std::map<uint64_t, quire_completion>;

// A connector under test.
struct Subject {
  std::string name;       // of the tests; letters and digits
  std::string connector;  // the module's
  // Settings of a store for at least `capacity` bytes of objects, of which small ones count as
  // 64 KiB, and for at most four times as many. Stores of equal places are the same store. A place
  // is letters, digits and '-'.
  std::function<std::string(uint64_t capacity, const std::string& place)> config;
  // Removes what the store at a place has left behind.
  std::function<void(const std::string& place)> clean = [](const std::string&) {};
  bool evicts = true;            // when it is full; otherwise stores end RESOURCE_EXHAUSTED
  bool leases = true;            // grants leases of some seconds
  bool instant = false;          // tickets end before they can be cancelled
  bool lists = true;             // its objects
  uint64_t plain_key_bytes = 0;  // longer keys have a form; 0: none has
};
std::ostream& operator<<(std::ostream& out, const Subject& subject);
std::string name_of(const testing::TestParamInfo<Subject>& info);

uint64_t seed();  // QUIRE_SEED, or by the time; printed
uint64_t below(Rng* rng, uint64_t limit);
Bytes content(uint64_t seed, uint64_t bytes);
Key key(uint64_t number, uint64_t bytes = 32);

// Runs with addresses that count from 0, and the memory they need.
struct Layout {
  Runs runs;
  uint64_t memory_bytes = 0;
};
// One piece.
Layout dense(uint64_t object_offset, uint64_t bytes);
// Random runs that name each byte of an object once, or some of its bytes.
Layout covering(Rng* rng, uint64_t object_bytes);
Layout reading(Rng* rng, uint64_t object_bytes);

// Memory of tickets between guard bytes, with a shadow.
class Memory {
 public:
  // misalignment: of the first byte, below 64. Turns the addresses of the layout into true ones.
  explicit Memory(Layout* layout, uint64_t misalignment = 0);
  Memory(Memory&&) = default;
  Memory& operator=(Memory&&) = default;
  Memory(const Memory&) = delete;

  // What a store reads: the bytes of the object that the runs name.
  void fill(const Runs& runs, const Bytes& object);
  // What a load has written.
  void expect(const Runs& runs, const Bytes& object);
  // The bytes of the runs may be anything from now on.
  void forget(const Runs& runs);
  // Every byte is as the shadow says.
  [[nodiscard]] testing::AssertionResult intact() const;

 private:
  void write(const Runs& runs, const Bytes& object, uint8_t* to);

  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> shadow_;
  uint64_t begin_ = 0;  // behind the guard
};

// Tickets with their runs and keys.
class Batch {
 public:
  quire_ticket& store(const Key& key, const Runs& runs, uint64_t object_bytes);
  quire_ticket& load(const Key& key, const Runs& runs);
  // All keys have one length. sizes: as many as keys, kept by the caller.
  quire_ticket& look_up(const std::vector<Key>& keys, uint64_t* sizes, int64_t lease_ns = 0);
  quire_ticket& remove(const Key& key);
  const std::vector<quire_ticket>& tickets() const { return tickets_; }

 private:
  friend class Client;
  quire_ticket& add(quire_ticket_kind kind, const Runs& runs, std::span<const Key> keys);

  std::vector<quire_ticket> tickets_;
  Runs runs_;
  std::vector<uint8_t> keys_;
};

struct Error : quire_error {
  Error() : quire_error(QUIRE_INIT(quire_error)) {}
};

// An opened connector. Its functions expect what they call to work, unless they return a code.
class Client {
 public:
  Client(const Subject& subject, const std::string& config);
  ~Client() { close(); }
  Client(Client&& other) noexcept;
  Client& operator=(Client&&) = delete;
  Client(const Client&) = delete;

  static quire_code try_open(const Subject& subject, const std::string& config, Error* error);

  bool is_open() const { return connector_ != nullptr; }
  quire_connector* get() const { return connector_; }
  const quire_connector_info& info() const { return info_; }
  bool persists() const { return (info_.flags & QUIRE_CONNECTOR_PERSISTENT) != 0; }
  quire_connector_health health() const;
  void close();

  // The number of tickets, from `first` on, that were accepted.
  uint64_t submit(const Batch& batch, uint64_t first = 0);
  quire_code try_submit(const Batch& batch, uint64_t* accepted, Error* error, uint64_t first = 0);
  void cancel(uint64_t ticket);
  std::vector<quire_completion> poll(int64_t timeout_ns, uint64_t capacity = 64);
  // Submits what is left whenever something ended, until all tickets of the batch have.
  Ends run(const Batch& batch);
  // Until so many have ended; at most a minute.
  Ends wait(uint64_t tickets);

  // Single tickets with dense runs.
  quire_completion store(const Key& key, const Bytes& object);
  quire_completion load(const Key& key, uint64_t offset, uint64_t bytes, Bytes* out);
  quire_completion remove(const Key& key);
  std::vector<uint64_t> sizes(const std::vector<Key>& keys, int64_t lease_ns = 0,  //
                              quire_completion* end = nullptr);
  bool has(const Key& key) { return sizes({key})[0] != 0; }
  // That the object is there with these bytes.
  [[nodiscard]] testing::AssertionResult holds(const Key& key, const Bytes& object);
  std::map<Key, uint64_t> list(uint64_t capacity = 100);
  // Those of these that are there, by look-ups.
  std::map<Key, uint64_t> found(const std::vector<Key>& keys);
  // That these are its objects, with their sizes. Where it cannot list: that it has them.
  [[nodiscard]] testing::AssertionResult keeps(const std::map<Key, uint64_t>& objects);

 private:
  quire_runtime* runtime_ = nullptr;
  quire_connector* connector_ = nullptr;
  quire_connector_info info_{};
  bool lists_ = true;
};

}  // namespace quire::kit

class ConnectorKit : public testing::TestWithParam<quire::kit::Subject> {
 protected:
  ConnectorKit();
  void TearDown() override { GetParam().clean(place_); }

  quire::kit::Client open(uint64_t capacity);
  const std::string& place() const { return place_; }

 private:
  std::string place_;  // of this test alone
};
