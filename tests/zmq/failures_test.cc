// Every call of libzmq and every allocation fails once. Method: the publisher stands above a libzmq of the test's own, since the real one
// ends the process without memory. What was asked for fails by name or works without; nothing is left behind; the next batch goes out.
#include <cerrno>
#include <mutex>

#include "fake_zmq.h"
#include "tests/unit/allocations.h"
#include "zmq_rig.h"

namespace quire::wire {
namespace {

using Lock = std::lock_guard<std::mutex>;

void reset_fake(int fails_after = -1, int error = 0) {
  const Lock lock(fake_zmq_mutex());
  fake_zmq() = FakeZmq();
  fake_zmq().fails_after = fails_after;
  fake_zmq().error = error;
}
FakeZmq fake_now() {
  const Lock lock(fake_zmq_mutex());
  return fake_zmq();
}
void fail_later(int after, int error) {
  const Lock lock(fake_zmq_mutex());
  fake_zmq().fails_after = fake_zmq().num_calls + after % 10;
  fake_zmq().error = error;
}
void reset_fake_calls() {
  const Lock lock(fake_zmq_mutex());
  fake_zmq().fails_after = -1;
}
void ask(uint64_t from) {
  const Lock lock(fake_zmq_mutex());
  fake_zmq().requests.insert(fake_zmq().requests.end(), {{"id", false}, {"", false}, {big_endian(from), true}});
}

class ZmqFailures : public testing::Test {
 protected:
  void SetUp() override { reset_fake(); }
  void TearDown() override {
    EXPECT_EQ(fake_now().num_contexts, 0);
    EXPECT_EQ(fake_now().num_sockets, 0);
  }
};

TEST_F(ZmqFailures, CreateFailsWithEachCallAndLeavesNothing) {
  const std::pair<int, quire_code> errors[] = {{EMFILE, QUIRE_RESOURCE_EXHAUSTED}, {EADDRINUSE, QUIRE_ALREADY_EXISTS},
                                               {EACCES, QUIRE_PERMISSION_DENIED},  {EINVAL, QUIRE_INVALID_ARGUMENT},
                                               {ENOMEM, QUIRE_RESOURCE_EXHAUSTED}, {EFAULT, QUIRE_INTERNAL}};
  const quire_event_publisher_options options = Publisher::options();
  // The calls of create: a context, two sockets with three and two options, two binds with their names.
  constexpr int kCalls = 13;
  for (const auto& [error, code] : errors) {
    int failed = 0;
    for (int i = 0; i < kCalls + 3; ++i) {
      reset_fake(i, error);
      Error err;
      quire_event_publisher* publisher = nullptr;
      const quire_code got = quire_event_publisher_create(&options, &publisher, &err);
      if (got == QUIRE_OK) {
        quire_event_publisher_release(publisher);
        continue;
      }
      ++failed;
      EXPECT_EQ(got, code) << i;
      EXPECT_NE(std::string(err.message).find("as the fake was asked to"), std::string::npos) << err.message;
      EXPECT_EQ(err.native_code, error);
      EXPECT_EQ(err.native_domain, 1);
      EXPECT_EQ(fake_now().num_contexts, 0);
      EXPECT_EQ(fake_now().num_sockets, 0);
      EXPECT_EQ(publisher, nullptr);
    }
    EXPECT_EQ(failed, kCalls);
  }
}

TEST_F(ZmqFailures, ABatchThatIsNotSentIsCountedAndTheNextGoesOut) {
  const Publisher publisher;
  uint64_t accepted = 0;
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(publisher.is_idle());
    const int error = i % 2 == 0 ? EFAULT : ENOMEM;
    fail_later(i, error);  // waiting, making a frame here or there, or sending it
    const quire_event_message message = QUIRE_INIT(quire_event_message);
    const quire_code code = quire_event_publisher_publish(publisher.get(), &message, nullptr);
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
    accepted += code == QUIRE_OK ? 1 : 0;
  }
  ASSERT_TRUE(publisher.is_idle());
  reset_fake_calls();
  publisher.publish_block(12);
  ASSERT_TRUE(publisher.is_idle());
  const quire_event_publisher_stats stats = publisher.stats();
  EXPECT_EQ(stats.next_number, accepted + 1);
  const FakeZmq fake = fake_now();
  EXPECT_EQ(fake.sent.size(), stats.sent);
  ASSERT_FALSE(fake.sent.empty());
  EXPECT_EQ(fake.sent.back().at(1), big_endian(accepted));
}

TEST_F(ZmqFailures, ASignalInterruptsNothing) {
  const Publisher publisher;
  for (uint64_t i = 0; i < 100; ++i) {
    fail_later(static_cast<int>(i), EINTR);
    publisher.publish_block(i);
    ASSERT_TRUE(publisher.is_idle());
  }
  EXPECT_EQ(fake_now().sent.size(), 100u);
  for (const auto& frames : fake_now().sent) EXPECT_EQ(frames.size(), 3u);
}

TEST_F(ZmqFailures, ASubscriberWithoutRoomIsLeftOut) {
  const Publisher publisher;
  {
    const Lock lock(fake_zmq_mutex());
    fake_zmq().is_full = true;
  }
  for (uint64_t i = 0; i < 3; ++i) publisher.publish_block(i);
  ASSERT_TRUE(publisher.is_idle());
  EXPECT_EQ(publisher.stats().sent, 3u);
  EXPECT_EQ(publisher.stats().overruns, 3u);
  EXPECT_EQ(fake_now().sent.size(), 3u);
}

TEST_F(ZmqFailures, AReplayThatFailsEndsWithoutItsMark) {
  const Publisher publisher;
  for (uint64_t i = 0; i < 3; ++i) publisher.publish_block(i);
  ASSERT_TRUE(publisher.is_idle());
  ask(1);
  ASSERT_TRUE(becomes_true([] { return fake_now().answers.size() == 3; }));
  const FakeZmq fake = fake_now();
  EXPECT_EQ(fake.answers[0], (Frames{"id", "", "", big_endian(1), fake.sent[1][2]}));
  EXPECT_EQ(fake.answers[2], (Frames{"id", "", "", big_endian(UINT64_MAX), ""}));
}

TEST_F(ZmqFailures, BatchesDoNotWaitForTheEndOfAReplay) {
  constexpr size_t kBatches = 2000;
  const Publisher publisher;
  for (uint64_t i = 0; i < kBatches; ++i) publisher.publish_block(i);
  ASSERT_TRUE(publisher.is_idle());
  const auto pause_after = [](size_t answers) {
    const Lock lock(fake_zmq_mutex());
    fake_zmq().pauses_after = answers;
    fake_zmq_resumed().notify_all();
  };
  pause_after(10);
  ask(0);
  ASSERT_TRUE(becomes_true([] { return fake_now().answers.size() == 10; }));
  publisher.publish_block(kBatches);
  pause_after(0);
  ASSERT_TRUE(becomes_true([] { return fake_now().answers.size() == kBatches + 1; }));
  EXPECT_LT(fake_now().answers_before_last_sent, kBatches / 2);
  EXPECT_EQ(fake_now().answers.back().at(3), big_endian(UINT64_MAX)) << "a batch that came meanwhile is not a part of the answer";
}

// One script: a publisher is made, publishes, is asked, and released. Each allocation fails, in all threads.
TEST_F(ZmqFailures, EveryAllocationFailsAndNothingIsLost) {
  const quire_event_publisher_options options = Publisher::options();
  MadeEvents events;
  events.store(1, std::vector<int64_t>(3000, 7));  // longer than the first buffer
  quire_event_message message = events.message();
  message.medium = str("STORAGE");
  uint64_t refused_creates = 0, refused_batches = 0;
  bool is_through = false;
  int64_t alive_before = 0;
  for (int64_t after = 0; !is_through; ++after) {
    ASSERT_LT(after, 2000);
    if (after == 1) alive_before = test::alive;  // what the first round left stays
    ask(0);
    {
      const Lock lock(fake_zmq_mutex());
      fake_zmq().is_recording = false;
    }
    Error errors[4];
    quire_code codes[4] = {};
    quire_event_publisher* publisher = nullptr;
    quire_event_publisher_stats stats = QUIRE_INIT(quire_event_publisher_stats);
    {
      const test::Failing failing(after);
      codes[0] = quire_event_publisher_create(&options, &publisher, &errors[0]);
      for (int i = 1; i < 4 && publisher != nullptr; ++i) codes[i] = quire_event_publisher_publish(publisher, &message, &errors[i]);
      if (publisher != nullptr) (void)quire_event_publisher_get_stats(publisher, &stats, nullptr);
      quire_event_publisher_release(publisher);
    }
    is_through = test::failed == 0;
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(codes[i] == QUIRE_OK || codes[i] == QUIRE_RESOURCE_EXHAUSTED) << codes[i] << " " << errors[i].message << " " << after;
    }
    refused_creates += codes[0] != QUIRE_OK ? 1 : 0;
    uint64_t accepted = 0;
    for (int i = 1; i < 4; ++i) {
      refused_batches += codes[i] != QUIRE_OK ? 1 : 0;
      accepted += publisher != nullptr && codes[i] == QUIRE_OK ? 1 : 0;
    }
    EXPECT_EQ(stats.next_number, accepted) << "a batch that was refused uses no number";
    EXPECT_EQ(fake_now().num_sockets, 0) << after;
    EXPECT_EQ(fake_now().num_contexts, 0) << after;
    reset_fake();
    ASSERT_TRUE(after == 0 || test::alive == alive_before) << "after allocation " << after;
  }
  EXPECT_GT(refused_creates, 3u);
  EXPECT_GT(refused_batches, 3u);
}

}  // namespace
}  // namespace quire::wire
