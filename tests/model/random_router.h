// What a router makes of a cache's events, and what it would ask of it: names that it computes itself, blocks that it was told of. Compared
// with a snapshot, and its guess of a prompt's hit with what the cache says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/events/block_hash.h"
#include "tests/model/world.h"

namespace quire::model {

class Router {
 public:
  // Asks the cache for events; it is empty.
  Router(std::shared_ptr<const Config> config, Cache* cache, quire_hash_algorithm algorithm, uint64_t ring_bytes);

  // A media item gets a name. Its symbols stand for a token that no text has: prompts of these engines may end inside of a picture, and
  // what follows must not look like the rest of it.
  void name_media(Cache* cache, quire_symbol first, uint32_t length);
  // Reads what happened since; who is too late takes a snapshot. Whatever an event says must fit what was told before.
  void follow(const Cache& cache);
  // What was told is what a snapshot says.
  void compare(const Cache& cache);
  // Tokens of the longest prefix that can be resumed behind, by names alone.
  uint64_t hit(uint32_t tenant, std::span<const quire_symbol> symbols);
  // Whether names say how far a prompt hits: in some plans a hit needs no block, and inside of blocks it takes what lies below.
  bool can_tell() const { return can_tell_; }
  // Whether another tenant's first block may have the name of this one's.
  static bool is_alike(uint32_t tenant);

  uint64_t stored() const { return stored_; }
  uint64_t removed() const { return removed_; }
  uint64_t late() const { return late_; }

 private:
  struct Block {
    std::string parent;  // empty: it starts its sequence
    std::vector<int64_t> tokens;
    friend bool operator==(const Block&, const Block&) = default;
  };
  using Known = std::map<std::pair<uint32_t, std::string>, Block>;
  struct Media {
    quire_symbol first;
    uint32_t length;
    std::string name;
  };

  void apply(const quire_event& event, Known* known);
  void store(const quire_event& event, Known* known);
  void take_snapshot(const Cache& cache, Known* known);
  std::string text(uint64_t offset, uint64_t bytes) const;
  Digest hash_unit(const Digest& parent, uint32_t tenant, std::span<const quire_symbol> symbols, uint64_t begin);
  bool has(uint32_t group, uint64_t end) const;
  bool resumes(uint32_t group, uint64_t p) const;

  std::shared_ptr<const Config> config_;
  BlockHasher hasher_;
  uint32_t hash_bytes_ = 0;
  bool can_tell_ = true;
  Known known_;
  std::vector<Media> media_;
  uint64_t next_ = 0;
  std::vector<quire_event> events_;
  std::vector<uint8_t> data_;
  std::vector<std::string> names_;  // of the prompt that is asked about, by unit
  uint64_t stored_ = 0, removed_ = 0, late_ = 0;
};

}  // namespace quire::model
