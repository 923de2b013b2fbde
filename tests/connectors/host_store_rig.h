// A store of the host connector without tickets and threads: its parts linked into the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/host/host_store.h"

namespace quire::host {

// Small chunks: what tests look at is where objects are, not their bytes.
inline constexpr uint64_t kTestChunk = 4096;

class StoreRig {
 public:
  // shared: name; empty = private.
  explicit StoreRig(uint64_t num_chunks, const std::string& shared = "");

  Store& store() { return store_; }
  // The next use of keys, and the numbers before it.
  Use use() { return {++use_, &hint_}; }
  Begun begin(Place* place, uint64_t key, uint64_t object_bytes, int64_t now = 0);
  // Begins and publishes; false: not begun.
  bool put(Place* place, uint64_t key, uint64_t object_bytes, int64_t now = 0);
  bool has(uint64_t key) const { return store_.find(name(key)) != kNone; }
  uint32_t find(uint64_t key) const { return store_.find(name(key)); }
  Key name(uint64_t key) const;
  // From the most recent one on.
  std::vector<uint64_t> order() const;
  // Everything that must hold between two calls: index, order, chunks and counters say the same as
  // the records.
  [[nodiscard]] testing::AssertionResult sound() const;

 private:
  Region region_;
  Store store_;
  uint64_t use_ = 0;
  UseHint hint_;
};

}  // namespace quire::host
