// A FakeStore sees what connector.h does not allow, from hosts that do it on purpose.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/connector/connector_rig.h"

namespace quire::test {
namespace {

class Broken : public testing::Test {
 protected:
  void SetUp() override {
    quire_query query{};
    query.struct_size = sizeof query;
    query.abi_min = query.abi_max = QUIRE_CONNECTOR_ABI_VERSION;
    const quire_manifest* manifest = nullptr;
    ASSERT_EQ(fake_store_query(&query, &manifest, nullptr), QUIRE_OK);
    api_ = static_cast<const quire_connector_api*>(manifest->api);
    host_.struct_size = sizeof host_;
    host_.now = [](void*) { return int64_t{0}; };
    quire_connector_options options{};
    options.struct_size = sizeof options;
    options.host = &host_;
    options.config = {store_.config().data(), store_.config().size()};
    ASSERT_EQ(api_->open(&options, &instance_, nullptr), QUIRE_OK);
    ASSERT_EQ(api_->region_register(instance_, bytes_, 64, QUIRE_DEVICE_CPU, 0, &region_, nullptr), QUIRE_OK);
  }
  void TearDown() override {
    if (instance_ != nullptr) api_->close(instance_);
  }
  quire_code submit(const Batch& batch) {
    uint64_t accepted = 0;
    return api_->submit(instance_, batch.tickets.data(), batch.tickets.size(), batch.runs.data(), batch.runs.size(), batch.keys.data(),
                        batch.keys.size(), &accepted, nullptr);
  }
  void expect(const std::string& says) {
    const auto all = store_.violations();
    ASSERT_FALSE(all.empty()) << "nobody saw: " << says;
    EXPECT_EQ(all.back(), says);
  }
  template <typename Change>
  void expect_refused(const std::string& says, Change change) {
    Batch batch;
    batch.load(1, "k", bytes_, 8);
    change(batch.tickets[0], batch.runs[0]);
    EXPECT_EQ(submit(batch), QUIRE_INVALID_ARGUMENT);
    expect(says);
  }

  FakeStore store_;
  quire_host_api host_{};
  const quire_connector_api* api_ = nullptr;
  quire_connector_instance* instance_ = nullptr;
  uint8_t bytes_[64] = {};
  uint64_t region_ = 0;
};

TEST_F(Broken, TicketsAreSeen) {
  using T = quire_ticket;
  using R = quire_ticket_run;
  expect_refused("ticket 1 has an unknown kind", [](T& t, R&) { t.kind = 9; });
  expect_refused("ticket 1 has a wrong number of runs", [](T& t, R&) { t.kind = QUIRE_TICKET_REMOVE; });
  expect_refused("ticket 1 has runs outside the array", [](T& t, R&) { t.first_run = UINT64_MAX; });
  expect_refused("ticket 1 has an empty key", [](T& t, R&) { t.key_bytes = 0; });
  expect_refused("ticket 1 has a wrong number of keys", [](T& t, R&) { t.num_keys = 2; });
  expect_refused("ticket 1 has keys outside the array", [](T& t, R&) { t.key_offset = 1; });
  expect_refused("ticket 1 has object_bytes", [](T& t, R&) { t.object_bytes = 1; });
  expect_refused("ticket 1 has a wrong deadline", [](T& t, R&) { t.deadline_ns = -2; });
  expect_refused("ticket 1 has a wrong lease", [](T& t, R&) { t.lease_ns = 1; });
  uint64_t size = 0;
  expect_refused("ticket 1 has wrong sizes", [&](T& t, R&) { t.sizes = &size; });
  expect_refused("run 0 of ticket 1 has no bytes", [](T&, R& r) { r.bytes = 0; });
  expect_refused("run 0 of ticket 1 overlaps itself", [](T&, R& r) { r.count = 2, r.stride = 7, r.object_stride = 8; });
  expect_refused("run 0 of ticket 1 lies outside all memory", [](T&, R& r) { r.address = UINT64_MAX; });
  expect_refused("run 0 of ticket 1 lies outside its object", [](T&, R& r) { r.object_offset = UINT64_MAX; });
  expect_refused("run 0 of ticket 1 has a region that is not registered", [](T&, R& r) { r.region = 77; });
  expect_refused("run 0 of ticket 1 leaves its region", [&](T&, R& r) { r.region = region_, r.bytes = 65; });
  expect_refused("ticket 1 has other object_bytes than runs", [](T& t, R&) { t.kind = QUIRE_TICKET_STORE, t.object_bytes = 9; });
  EXPECT_EQ(store_.num_in_flight(), 0U);
}

TEST_F(Broken, NumbersInFlightAndRegionsInUseAreSeen) {
  store_.set_script([](const SeenTicket&, Fate* fate) { fate->held = true; });
  Batch batch;
  batch.load(1, "k", bytes_, 8).runs[0].region = region_;
  EXPECT_EQ(submit(batch), QUIRE_OK);
  EXPECT_EQ(submit(batch), QUIRE_INVALID_ARGUMENT);
  expect("ticket 1 is in flight already");
  EXPECT_EQ(api_->region_unregister(instance_, region_, nullptr), QUIRE_OK);
  expect("region 1 ends while ticket 1 uses it");
}

TEST_F(Broken, BytesThatChangeAreSeen) {
  store_.set_script([](const SeenTicket&, Fate* fate) { fate->held = true; });
  EXPECT_EQ(submit(Batch().store(1, "k", bytes_, 8).load(2, "k", bytes_ + 8, 8).store(3, "l", bytes_ + 16, 48)), QUIRE_OK);
  bytes_[7] ^= 1;
  store_.release(1);
  expect("the bytes of store 1 changed before it ended");
  bytes_[15] ^= 1;
  store_.release(2);
  expect("the bytes of load 2 were written before it ended");
  store_.release(3);
  EXPECT_EQ(store_.violations().size(), 2U);
}

TEST_F(Broken, TwoPollersAreSeen) {
  FakeStoreOptions options;
  options.waits = true;
  FakeStore store(options);
  quire_connector_options opening{};
  opening.struct_size = sizeof opening;
  opening.host = &host_;
  opening.config = {store.config().data(), store.config().size()};
  quire_connector_instance* instance = nullptr;
  ASSERT_EQ(api_->open(&opening, &instance, nullptr), QUIRE_OK);
  quire_completion item;
  uint64_t count = 0;
  std::thread other([&] {
    quire_completion its;
    uint64_t n = 0;
    api_->poll(instance, 50'000'000, &its, 1, &n, nullptr);
  });
  while (store.counts().polls == 0) std::this_thread::yield();
  api_->poll(instance, 0, &item, 1, &count, nullptr);
  other.join();
  EXPECT_EQ(store.violations(), std::vector<std::string>{"two threads poll"});
  api_->close(instance);
}

}  // namespace
}  // namespace quire::test
