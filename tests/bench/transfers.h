// Objects through a connector, as the engine uses it: what the benchmarks transfer/ share.
#pragma once

#include <quire/connector.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace quire::bench {

// Memory whose pages are in place, of 1 GiB.
struct Pages {
  char* data;
  Pages();
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
};

inline constexpr uint64_t kPoolBytes = uint64_t{1} << 30;
inline constexpr uint64_t kCallBytes = uint64_t{128} << 20;

struct Shape {
  std::string connector;
  std::string config;
  uint64_t object_bytes;
  uint64_t piece_bytes;
  uint64_t call_bytes = kCallBytes;
};

// A connector and the tickets of one call after the other. Loads go over what the first calls
// stored. Pieces lie in random order in a pool.
class Transfers {
 public:
  explicit Transfers(const Shape& shape);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Seconds. Objects of one call, keys from `first_key` on, pieces from the piece of that number
  // on.
  double call(quire_ticket_kind kind, uint64_t first_key, uint64_t first_piece);
  // The same as tiers do it: object by object, with XXH3-64 of each piece before it is stored or
  // after it was loaded; or the same without sums.
  double call_each(quire_ticket_kind kind, uint64_t first_key, uint64_t first_piece, bool sums);
  // One ticket with keys from `first_key` on.
  double look_up(uint64_t keys, uint64_t first_key);
  // The same pieces between the pool and an arena, by memcpy.
  double copy(quire_ticket_kind kind, uint64_t first_piece, uint64_t arena_at);

 private:
  char* piece(uint64_t number) const;
  void make_tickets(quire_ticket_kind kind, uint64_t first_key, uint64_t first_piece);
  void submit_and_wait(uint64_t bytes);
  void submit_each(bool sums);
  // How many tickets ended.
  uint64_t poll(int64_t timeout_ns, uint64_t bytes, bool sums);
  void sum(const quire_ticket& ticket);

  const Shape shape_;
  const std::vector<uint64_t> order_;
  Pages pool_;
  std::unique_ptr<Pages> arena_;  // of copies
  quire_runtime* runtime_ = nullptr;
  quire_connector* connector_ = nullptr;
  uint64_t next_ticket_ = 1;
  std::vector<quire_ticket> tickets_;
  std::vector<quire_ticket_run> runs_;
  std::vector<uint8_t> keys_;
  std::vector<uint64_t> sizes_;
  uint64_t sum_ = 0;
};

}  // namespace quire::bench
