// After creation the engine's loop allocates nothing on the way through the gate: every operator new of the process is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "../gate/rig.h"

namespace {
std::atomic<uint64_t> allocations{0};

// Never inlined: a compiler that sees malloc behind one half and free behind the other takes them for a mismatch.
[[gnu::noinline]] void* take(std::size_t bytes, std::size_t alignment) noexcept {
  allocations++;
  void* address = nullptr;
  return posix_memalign(&address, alignment, bytes == 0 ? 1 : bytes) == 0 ? address : nullptr;
}
[[gnu::noinline]] void give_back(void* address) noexcept { std::free(address); }

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* address = take(bytes, alignment);
  if (address == nullptr) throw std::bad_alloc();
  return address;
}
}  // namespace

void* operator new(std::size_t bytes) { return take_or_throw(bytes, 16); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, 16); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 16); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return take_or_throw(bytes, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return take_or_throw(bytes, static_cast<std::size_t>(alignment)); }
void operator delete(void* address) noexcept { give_back(address); }
void operator delete[](void* address) noexcept { give_back(address); }
void operator delete(void* address, const std::nothrow_t&) noexcept { give_back(address); }
void operator delete[](void* address, const std::nothrow_t&) noexcept { give_back(address); }
void operator delete(void* address, std::size_t) noexcept { give_back(address); }
void operator delete[](void* address, std::size_t) noexcept { give_back(address); }
void operator delete(void* address, std::align_val_t) noexcept { give_back(address); }
void operator delete[](void* address, std::align_val_t) noexcept { give_back(address); }
void operator delete(void* address, std::size_t, std::align_val_t) noexcept { give_back(address); }
void operator delete[](void* address, std::size_t, std::align_val_t) noexcept { give_back(address); }

namespace quire::test {
namespace {

// One step of one sequence: reserve, prepare, fill a table, commit. Returns its copies.
uint64_t one_step(const Rig& rig, quire_sequence_id sequence) {
  static const quire_symbol symbols[4] = {11, 12, 13, 14};
  quire_error err{};
  err.struct_size = sizeof err;
  quire_reserve_entry entry{};
  entry.sequence = sequence;
  entry.num_symbols = 4;
  entry.num_tokens = 4;
  quire_reserve_result result{};
  quire_step_id step = 0;
  EXPECT_EQ(quire_reserve(rig.cache.get(), &entry, 1, symbols, 4, &result, &step, &err), QUIRE_OK) << err.message;
  quire_step_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(quire_step_get_info(rig.cache.get(), step, &info, &err), QUIRE_OK) << err.message;
  EXPECT_EQ(quire_memory_prepare_step(rig.memory.get(), rig.cache.get(), step, rig.stream.get(), &err), QUIRE_OK) << err.message;
  int32_t lengths[4] = {};
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_KV_LEN;
  fill.destination = lengths;
  fill.capacity = 4;
  uint64_t written = 0;
  EXPECT_EQ(quire_step_fill(rig.cache.get(), step, &fill, &written, &err), QUIRE_OK) << err.message;
  quire_commit_entry commit{};
  commit.sequence = sequence;
  commit.num_accepted = result.num_tokens;
  EXPECT_EQ(quire_commit(rig.cache.get(), step, &commit, 1, nullptr, 0, &err), QUIRE_OK) << err.message;
  return info.num_copies;
}

TEST(Steady, TheLoopAllocatesNothing) {
  const Rig rig("", 40);
  ASSERT_TRUE(rig.whole());
  // One sequence keeps its identity known: opening one that nobody has is no step.
  quire_sequence_id first = 0;
  ASSERT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &first, nullptr), QUIRE_OK);
  uint64_t copies = 0;
  const auto rounds = [&](int n) {
    for (int i = 0; i < n; ++i) {
      quire_sequence_id parent = 0;
      quire_sequence_id child = 0;
      ASSERT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &parent, nullptr), QUIRE_OK);
      one_step(rig, parent);
      ASSERT_EQ(quire_sequence_fork(rig.cache.get(), parent, &child, nullptr), QUIRE_OK);
      copies += one_step(rig, child);
      copies += one_step(rig, parent);
      ASSERT_EQ(quire_sequence_finish(rig.cache.get(), parent, nullptr), QUIRE_OK);
      ASSERT_EQ(quire_sequence_finish(rig.cache.get(), child, nullptr), QUIRE_OK);
    }
  };
  rounds(2);
  const uint64_t before = allocations;
  copies = 0;
  rounds(20);
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_GT(copies, 0U);
  EXPECT_GT(before, 0U);
}

}  // namespace
}  // namespace quire::test
