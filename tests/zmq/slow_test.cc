// Subscribers that are slow, stuck or hostile do not reach the engine. Method: by example, with bounds that are generous.
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/unit/fork_when_quiet.h"
#include "zmq_rig.h"

namespace quire::wire {
namespace {

constexpr size_t kTokens = 20'000;  // 60 KB encoded

// Sanitizers keep what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeepsFreed = true;
#else
constexpr bool kKeepsFreed = false;
#endif

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

quire_event_publisher_options small_options() {
  quire_event_publisher_options options = Publisher::options();
  options.hwm = 20;
  options.buffer_steps = 4000;
  options.max_queue_size = 10'000;
  options.linger_ms = 500;
  return options;
}

void subscribe(const Publisher& publisher, const Socket& socket) {
  const uint64_t before = publisher.stats().subscriptions;
  socket.subscribe("");
  socket.connect(publisher.endpoint());
  ASSERT_TRUE(becomes_true([&] { return publisher.stats().subscriptions > before; }));
}

TEST(ZmqSlow, ASubscriberThatNeverReadsHurtsNobodyElse) {
  constexpr uint64_t kBatches = kKeepsFreed ? 500 : 2000;  // 30 and 120 MB
  Publisher publisher(small_options());
  const Socket stuck(ZMQ_SUB), reader(ZMQ_SUB);
  stuck.set(ZMQ_RCVHWM, 1);
  stuck.set(ZMQ_RCVBUF, 4096);
  reader.set(ZMQ_RCVHWM, 0);
  ASSERT_NO_FATAL_FAILURE(subscribe(publisher, stuck));
  ASSERT_NO_FATAL_FAILURE(subscribe(publisher, reader));
  double worst = 0;
  for (uint64_t i = 0; i < kBatches; ++i) {
    const double begin = seconds_now();
    publisher.publish_block(i, kTokens);
    worst = std::max(worst, seconds_now() - begin);
    // The reader keeps up: it has at most as many unread as its own limit at the publisher.
    if (i % 10 != 9) continue;
    for (uint64_t k = i - 9; k <= i; ++k) {
      const Frames frames = reader.receive();
      ASSERT_FALSE(frames.empty()) << "batch " << k;
      ASSERT_EQ(message_of(frames).number, k);
    }
  }
  EXPECT_LT(worst, 20.0) << "seconds for one call; a subscriber that never reads would make it wait for ever";
  ASSERT_TRUE(publisher.is_idle());  // the last one arrives before it is counted
  const quire_event_publisher_stats stats = publisher.stats();
  EXPECT_EQ(stats.sent, kBatches);
  EXPECT_EQ(stats.dropped, 0u);
  EXPECT_GE(stats.overruns, 1u) << "the stuck subscriber loses batches, and that is counted";
  // The stuck one reads again: what it gets has a gap, and a replay fills it.
  uint64_t next = 0, missing = 0;
  for (Frames frames = stuck.receive(200); !frames.empty(); frames = stuck.receive(200)) {
    const uint64_t number = message_of(frames).number;
    if (number > next) ++missing;
    next = number + 1;
  }
  publisher.publish_block(kBatches, 4);
  const Message last = message_of(stuck.receive());
  EXPECT_EQ(last.number, kBatches);
  EXPECT_LT(next, kBatches) << "it had lost the last ones";
  const auto answers = ask_replay(publisher.replay_endpoint(), next);
  ASSERT_TRUE(answers.has_value());
  ASSERT_EQ(answers->size(), kBatches + 1 - next);
  for (uint64_t i = 0; i < answers->size(); ++i) ASSERT_EQ((*answers)[i].number, next + i);
}

TEST(ZmqSlow, MemoryIsBoundedAndCloseEndsInTime) {
  quire_event_publisher_options options = small_options();
  options.buffer_bytes = 4 << 20;
  options.max_queue_bytes = 4 << 20;
  Publisher publisher(options);
  const Socket stuck(ZMQ_SUB);
  stuck.set(ZMQ_RCVHWM, 1);
  stuck.set(ZMQ_RCVBUF, 4096);
  ASSERT_NO_FATAL_FAILURE(subscribe(publisher, stuck));
  const Socket asker(ZMQ_DEALER);  // asks for replays and never reads them
  asker.set(ZMQ_RCVHWM, 1);
  asker.set(ZMQ_RCVBUF, 4096);
  asker.connect(publisher.replay_endpoint());
  uint64_t after_first = 0;
  constexpr uint64_t kBatches = kKeepsFreed ? 500 : 4000;  // 30 and 240 MB
  for (uint64_t i = 0; i < kBatches; ++i) {
    publisher.publish_block(i, kTokens);
    if (i % 100 == 0) asker.send({"", big_endian(0)});
    if (i == 1000) after_first = resident_bytes();
  }
  const uint64_t at_end = resident_bytes();
  EXPECT_TRUE(kKeepsFreed || at_end < after_first + (60 << 20)) << at_end - after_first << " bytes more:"
                                                                << "3,000 batches of 60 KB each were published since";
  const quire_event_publisher_stats stats = publisher.stats();
  EXPECT_LE(stats.kept_bytes, 4u << 20);
  EXPECT_LE(stats.queued_bytes, 4u << 20);
  EXPECT_EQ(stats.next_number, kBatches);
  const double begin = seconds_now();
  publisher.release();
  EXPECT_LT(seconds_now() - begin, 10.0) << "linger is half a second";
}

TEST(ZmqSlow, AFullQueueDropsAndLeavesAGap) {
  quire_event_publisher_options options = Publisher::options();
  options.max_queue_bytes = 1;  // one batch at a time
  const Publisher publisher(options);
  const Socket reader(ZMQ_SUB);
  reader.set(ZMQ_RCVHWM, 0);
  ASSERT_NO_FATAL_FAILURE(subscribe(publisher, reader));
  uint64_t published = 0;
  while (publisher.stats().dropped == 0) {
    ASSERT_LT(published, 1'000'000u);
    publisher.publish_block(published++, 4);
  }
  ASSERT_TRUE(publisher.is_idle());
  publisher.publish_block(published++, 4);
  ASSERT_TRUE(publisher.is_idle());
  const quire_event_publisher_stats stats = publisher.stats();
  EXPECT_EQ(stats.next_number, published);
  EXPECT_EQ(stats.sent + stats.dropped, published);
  uint64_t next = 0, gaps = 0, received = 0;
  while (next < published) {
    const Message message = message_of(reader.receive());
    ASSERT_GE(message.number, next);
    gaps += message.number - next;
    EXPECT_EQ(decode(message.payload).at(1).at(0).at("block_hashes").at(0), message.number) << "numbers stay with their batches";
    next = message.number + 1;
    ++received;
  }
  EXPECT_EQ(gaps, stats.dropped);
  EXPECT_EQ(received, stats.sent);
  const auto answers = ask_replay(publisher.replay_endpoint(), 0);
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(answers->size(), std::min<uint64_t>(stats.sent, 10'000)) << "what was dropped is not kept either";
}

TEST(ZmqSlow, ThousandsOfRequestsDoNotHoldUpBatches) {
  quire_event_publisher_options options = Publisher::options();
  options.buffer_steps = 1000;
  const Publisher publisher(options);
  const Socket reader(ZMQ_SUB);
  reader.set(ZMQ_RCVHWM, 0);
  ASSERT_NO_FATAL_FAILURE(subscribe(publisher, reader));
  for (uint64_t i = 0; i < 3000; ++i) publisher.publish_block(i);
  const Socket asker(ZMQ_DEALER);
  asker.set(ZMQ_SNDHWM, 0);
  asker.set(ZMQ_RCVHWM, 0);
  asker.connect(publisher.replay_endpoint());
  for (int i = 0; i < 2000; ++i) asker.send({"", big_endian(0)});  // two million answers
  ASSERT_TRUE(becomes_true([&] { return publisher.stats().replays > 0; }));
  publisher.publish_block(3000);
  for (uint64_t i = 0; i <= 3000; ++i) ASSERT_EQ(message_of(reader.receive()).number, i);
  EXPECT_LT(publisher.stats().replays, 2000u) << "the batch did not wait for all of them";
  EXPECT_GT(publisher.stats().late_replays, 0u);
}

TEST(ZmqSlow, ReleaseSendsWhatIsQueued) {
  Publisher publisher;
  const Socket reader(ZMQ_SUB);
  reader.set(ZMQ_RCVHWM, 0);
  ASSERT_NO_FATAL_FAILURE(subscribe(publisher, reader));
  for (uint64_t i = 0; i < 500; ++i) publisher.publish_block(i, 1000);
  publisher.release();
  for (uint64_t i = 0; i < 500; ++i) ASSERT_EQ(message_of(reader.receive()).number, i);
}

TEST(ZmqSlow, AnyThreadPublishesAndReadsCounters) {
  const Publisher publisher;
  const Socket reader(ZMQ_SUB);
  reader.set(ZMQ_RCVHWM, 0);
  ASSERT_NO_FATAL_FAILURE(subscribe(publisher, reader));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&publisher, t] {
      for (uint64_t i = 0; i < 300; ++i) publisher.publish_block(t * 300 + i, 16);
    });
  }
  std::vector<bool> seen(900);
  for (uint64_t i = 0; i < 900; ++i) {
    const Message message = message_of(reader.receive());
    EXPECT_EQ(message.number, i);
    seen[decode(message.payload).at(1).at(0).at("block_hashes").at(0).get<size_t>()] = true;
    EXPECT_LE(publisher.stats().sent, 900u);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 900);
}

TEST(ZmqSlow, AChildIsRefusedAndMayRelease) {
  Publisher publisher;
  publisher.publish_block(0);
  ASSERT_TRUE(publisher.is_idle());
  const pid_t child = test::fork_when_quiet();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // it does not wait for threads that it lacks
    quire_event_message message = QUIRE_INIT(quire_event_message);
    quire_event_publisher_stats stats = QUIRE_INIT(quire_event_publisher_stats);
    const bool is_refused = quire_event_publisher_publish(publisher.get(), &message, nullptr) == QUIRE_FAILED_PRECONDITION &&
                            quire_event_publisher_get_stats(publisher.get(), &stats, nullptr) == QUIRE_FAILED_PRECONDITION;
    quire_event_publisher_release(publisher.get());
    _exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto answers = ask_replay(publisher.replay_endpoint(), 0);
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(answers->size(), 1u) << "the parent's sockets are as they were";
}

}  // namespace
}  // namespace quire::wire
