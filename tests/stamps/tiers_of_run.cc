#include "tests/stamps/tiers_of_run.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "tests/stamps/ledger.h"
#include "tests/stamps/stamped_bytes.h"

namespace quire::stamps {
namespace {

test::FakeStoreOptions store_options(Dice* dice) {
  test::FakeStoreOptions o;
  o.seed = dice->roll();
  o.reorders = dice->percent(50);
  o.evicts = dice->percent(60);
  if (dice->percent(50)) o.flags |= QUIRE_CONNECTOR_REGISTERS;
  if (dice->percent(30)) o.capacity_bytes = dice->between(100'000, 2'000'000);
  if (dice->percent(20)) o.max_in_flight = dice->small(8, 64);
  if (dice->percent(70))
    o.odds = {dice->small(0, 300), dice->small(0, 40), dice->small(0, 40), dice->small(0, 40), dice->small(0, 10), 6, 40};
  return o;
}

}  // namespace

void offer_tiers(quire_runtime_options* options) {
  static const bool kRegistered = quire_register_connector(test::fake_store_query, nullptr) == QUIRE_OK;
  demand(kRegistered, "the store is registered");
  options->num_threads = 1;
  options->driver = {"cpu", 3};
  options->driver_path = {QUIRE_MODULES, std::strlen(QUIRE_MODULES)};
}

std::unique_ptr<TiersOfRun> TiersOfRun::make(const Plan& plan, quire_runtime* runtime, quire_cache* cache, StampedBytes* bytes,
                                             const Legacy& of_others, Dice* dice) {
  const test::FakeStoreOptions options = store_options(dice);
  if (of_others.store != nullptr) of_others.store->set_odds(options.odds);
  auto store = of_others.store != nullptr ? of_others.store : std::make_shared<test::FakeStore>(options);
  std::unique_ptr<TiersOfRun> made(new TiersOfRun(std::move(store)));
  return made->create(plan, runtime, cache, bytes, of_others.unit_tokens, dice) ? std::move(made) : nullptr;
}

bool TiersOfRun::create(const Plan& plan, quire_runtime* runtime, quire_cache* cache, StampedBytes* bytes, uint64_t unit_of_others,
                        Dice* dice) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_device* device = nullptr;
  must_call(quire_device_open(runtime, 0, &device, &err), err, "device");
  device_.reset(device);
  std::vector<quire_memory*> memories;
  std::vector<quire_stream*> streams;
  for (uint32_t s = 0; s < plan.info.num_shards; ++s) {
    const std::vector<quire_memory_binding> bindings = bytes->bindings(s);
    quire_memory* memory = nullptr;
    must_call(quire_memory_bind(device, plan.config.get(), s, bindings.data(), bindings.size(), &memory, &err), err, "memory");
    memories_.emplace_back(memory);
    memories.push_back(memory);
    quire_stream* stream = nullptr;
    must_call(quire_stream_create(device, 0, &stream, &err), err, "stream");
    streams_.emplace_back(stream);
    streams.push_back(stream);
  }
  quire_connector* connector = nullptr;
  const std::string& config = store_->config();
  must_call(quire_connector_open(runtime, {"fake_store", 10}, {config.data(), config.size()}, &connector, &err), err, "store");
  connector_.reset(connector);
  quire_tier tier{};
  tier.connector = connector;
  tier.reasons = dice->small(1, 7);
  tier.max_store_bytes = dice->percent(50) ? dice->between(1, 200'000) : 0;
  quire_tiers_options options = QUIRE_INIT(quire_tiers_options);
  options.weights = {"stamps", 6};
  options.memories = memories.data();
  options.streams = streams.data();
  options.tiers = &tier;
  options.num_tiers = 1;
  options.unit_tokens = grid_of(plan) * dice->between(1, 3);
  uint32_t ahead = 0;
  for (const quire_group_info& group : plan.groups) ahead = std::max(ahead, group.look_ahead);
  if (options.unit_tokens == 2 * grid_of(plan) && ahead == 0) tier.reasons |= QUIRE_UNIT_EVICTING;
  options.ns_per_token = dice->percent(20) ? 1 : 0;
  options.max_fetches = dice->small(1, 6);
  static constexpr uint32_t kSizes[] = {1, 2, 4};
  if (unit_of_others != 0) {
    if (unit_of_others % grid_of(plan) != 0) return false;
    tier.reasons = 0;
    options.unit_tokens = unit_of_others;
    options.tensor_parallel = kSizes;
    options.num_tensor_parallel = std::size(kSizes);
  }
  quire_tiers* tiers = nullptr;
  const quire_code code = quire_tiers_create(cache, &options, &tiers, &err);
  if (code == QUIRE_UNIMPLEMENTED || code == QUIRE_FAILED_PRECONDITION || code == QUIRE_NOT_REPRESENTABLE) return false;
  must_call(code, err, "tiers");
  tiers_.reset(tiers);
  return true;
}

TiersOfRun::~TiersOfRun() { store_->release_all(); }

quire_tiers_stats TiersOfRun::stats() const {
  quire_tiers_stats stats = QUIRE_INIT(quire_tiers_stats);
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_tiers_get_stats(tiers_.get(), &stats, &err), err, "stats of tiers");
  return stats;
}

bool TiersOfRun::is_idle() const {
  const quire_tiers_stats now = stats();
  return now.units_in_flight == 0 && now.quarantined == 0 && now.fetches_in_progress == 0 && store_->num_in_flight() == 0;
}

void TiersOfRun::hurry() {
  store_->set_odds({});
  store_->release_all();
}

}  // namespace quire::stamps
