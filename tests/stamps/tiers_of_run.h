// Tiers over the bytes of a run: a store in this process that is late, fails, forgets and damages
// objects, as its seed says. Bytes are moved by the driver and by the store, in the memory that the
// stamps are in.
#pragma once

#include <quire/tier.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/fakes/fake_store.h"
#include "tests/stamps/dice.h"
#include "tests/stamps/kinds.h"

namespace quire::stamps {

class StampedBytes;

// What a run leaves to the next one, which has another tensor-parallel size and reads what is
// there.
struct Legacy {
  std::shared_ptr<test::FakeStore> store;  // NULL: nothing is left
  uint64_t unit_tokens = 0;
};

// Before the first runtime of the process; options of a runtime whose cache has tiers.
void offer_tiers(quire_runtime_options* options);

class TiersOfRun {
 public:
  // NULL: this plan cannot have tiers. of_others: the records that are read, without writing any.
  static std::unique_ptr<TiersOfRun> make(const Plan& plan, quire_runtime* runtime,  //
                                          quire_cache* cache, StampedBytes* bytes,   //
                                          const Legacy& of_others, Dice* dice);
  ~TiersOfRun();
  TiersOfRun(const TiersOfRun&) = delete;
  TiersOfRun& operator=(const TiersOfRun&) = delete;

  quire_tiers* get() const { return tiers_.get(); }
  test::FakeStore& store() { return *store_; }
  Legacy legacy() const { return {store_, stats().unit_tokens}; }
  quire_tiers_stats stats() const;
  bool is_idle() const;  // nothing is held and nothing is on its way
  // Nothing is late any more.
  void hurry();

 private:
  explicit TiersOfRun(std::shared_ptr<test::FakeStore> store) : store_(std::move(store)) {}
  bool create(const Plan& plan, quire_runtime* runtime, quire_cache* cache,  //
              StampedBytes* bytes, uint64_t unit_of_others, Dice* dice);

  template <typename T, void (*Release)(T*)>
  using Handle = std::unique_ptr<T, Releaser<T, Release>>;

  std::shared_ptr<test::FakeStore> store_;
  Handle<quire_device, quire_device_release> device_;
  std::vector<Handle<quire_memory, quire_memory_release>> memories_;
  std::vector<Handle<quire_stream, quire_stream_release>> streams_;
  Handle<quire_connector, quire_connector_release> connector_;
  Handle<quire_tiers, quire_tiers_release> tiers_;
};

}  // namespace quire::stamps
