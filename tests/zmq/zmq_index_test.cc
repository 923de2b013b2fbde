// A router that loses messages has at the end the index that the cache's own snapshot says. Method: random operations of a cache of two
// groups, losses at random, and a subscriber that knows gaps, replays and AllBlocksCleared only.
#include <zmq.h>

#include <algorithm>

#include "zmq_rig.h"

namespace quire::wire {
namespace {

// A subscriber that loses every so many messages, on purpose, and repairs what it can.
class Router {
 public:
  Router(const Publisher& publisher, std::mt19937_64* random, uint64_t loses_one_of)
      : random_(random), loses_one_of_(loses_one_of), replay_endpoint_(publisher.replay_endpoint()), socket_(ZMQ_SUB) {
    socket_.set(ZMQ_RCVHWM, 0);
    socket_.subscribe("");
    socket_.connect(publisher.endpoint());
    EXPECT_TRUE(becomes_true([&] { return publisher.stats().subscriptions == 1; }));
  }

  // Receives until the batch before this number; some of them are lost.
  void follow(uint64_t number) {
    while (received_ < number) {
      const Frames frames = socket_.receive();
      ASSERT_FALSE(frames.empty()) << "no message " << received_;
      const Message message = message_of(frames);
      ASSERT_GE(message.number, received_);
      received_ = message.number + 1;
      if ((*random_)() % loses_one_of_ == 0) {
        ++lost_;
        continue;
      }
      take(message);
    }
  }
  // What was lost at the end is noticed by nobody who waits for a later number.
  void catch_up(uint64_t number) {
    if (next_ < number) repair(number);
  }

  const Index& index() const { return index_; }
  bool is_sound() const { return is_sound_; }
  uint64_t lost() const { return lost_; }
  uint64_t repairs() const { return repairs_; }
  uint64_t unrepaired() const { return unrepaired_; }

 private:
  void take(const Message& message) {
    if (message.number > next_ && !begins_anew(message)) repair(message.number);
    if (message.number >= next_) use(message);
  }
  void use(const Message& message) {
    if (begins_anew(message)) is_sound_ = true;
    apply(message.payload, &index_);
    next_ = message.number + 1;
  }
  static bool begins_anew(const Message& message) {
    const json batch = decode(message.payload);
    return !batch.at(1).empty() && batch.at(1).at(0).at("type") == "AllBlocksCleared";
  }
  // Asks for what is missing before the number. What is not kept any more makes the index unsound, until all begins anew.
  void repair(uint64_t number) {
    ++repairs_;
    const auto answers = ask_replay(replay_endpoint_, next_);
    ASSERT_TRUE(answers.has_value());
    for (const Message& answer : *answers) {
      if (answer.number >= number) break;
      if (answer.number > next_ && !begins_anew(answer)) is_sound_ = false;
      use(answer);
    }
    if (next_ < number) is_sound_ = false;
    unrepaired_ += is_sound_ ? 0 : 1;
  }

  std::mt19937_64* random_;
  const uint64_t loses_one_of_;
  const std::string replay_endpoint_;
  Socket socket_;
  Index index_;
  uint64_t received_ = 0, next_ = 0, lost_ = 0, repairs_ = 0, unrepaired_ = 0;
  bool is_sound_ = true;
};

TEST(ZmqIndex, ARouterThatLosesMessagesAsksForThem) {
  std::mt19937_64 random(seed_or(1));
  Engine engine;
  const Publisher publisher;
  Router router(publisher, &random, 4);
  for (int i = 0; i < 400; ++i) {
    engine.step(&random);
    publisher.follow(engine.cache());
    if (random() % 8 == 0) {
      ASSERT_NO_FATAL_FAILURE(router.follow(publisher.stats().next_number));
    }
    if (random() % 40 == 0) {
      router.catch_up(publisher.stats().next_number);
      ASSERT_EQ(router.index(), engine.index()) << "after operation " << i;
    }
  }
  router.follow(publisher.stats().next_number);
  router.catch_up(publisher.stats().next_number);
  EXPECT_EQ(router.index(), engine.index());
  EXPECT_TRUE(router.is_sound());
  EXPECT_GT(router.lost(), 20u);
  EXPECT_GT(router.repairs(), 20u);
  EXPECT_GT(engine.index().size(), 20u);
  EXPECT_EQ(publisher.stats().snapshots, 0u);
}

TEST(ZmqIndex, ASnapshotHelpsWhereTooFewBatchesAreKept) {
  std::mt19937_64 random(seed_or(2));
  Engine engine;
  quire_event_publisher_options options = Publisher::options();
  options.buffer_steps = 2;
  const Publisher publisher(options);
  Router router(publisher, &random, 3);
  uint64_t asked = 0;
  for (int i = 0; i < 400; ++i) {
    engine.step(&random);
    publisher.follow(engine.cache());
    if (random() % 6 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(router.follow(publisher.stats().next_number));
    router.catch_up(publisher.stats().next_number);
    if (router.is_sound()) {
      ASSERT_EQ(router.index(), engine.index()) << "after operation " << i;
    }
    // The engine sees that somebody asked in vain.
    if (const uint64_t late = publisher.stats().late_replays; late > asked) {
      asked = late;
      publisher.follow(engine.cache(), QUIRE_FOLLOW_SNAPSHOT);
    }
  }
  publisher.follow(engine.cache(), QUIRE_FOLLOW_SNAPSHOT);
  const uint64_t end = publisher.stats().next_number;
  publisher.follow(engine.cache());
  EXPECT_EQ(publisher.stats().next_number, end) << "nothing happened since";
  router.follow(publisher.stats().next_number);
  router.catch_up(publisher.stats().next_number);  // the snapshot itself may have been lost: it is kept
  EXPECT_TRUE(router.is_sound());
  EXPECT_EQ(router.index(), engine.index());
  EXPECT_GT(router.unrepaired(), 5u);
  EXPECT_GT(publisher.stats().snapshots, 5u);
}

// The ring of the cache is so small that the engine itself misses events.
TEST(ZmqIndex, EventsThatTheCacheOverwroteBecomeASnapshot) {
  std::mt19937_64 random(seed_or(3));
  Engine engine(49'664);
  const Publisher publisher;
  Router router(publisher, &random, 5);
  for (int i = 0; i < 200; ++i) {
    engine.step(&random);
    if (random() % 10 != 0) continue;
    publisher.follow(engine.cache());
    router.follow(publisher.stats().next_number);
    router.catch_up(publisher.stats().next_number);
    ASSERT_EQ(router.index(), engine.index()) << "after operation " << i;
  }
  EXPECT_GT(publisher.stats().snapshots, 2u);
  EXPECT_TRUE(router.is_sound());
  publisher.follow(engine.cache());
  const uint64_t before = publisher.stats().next_number;
  publisher.follow(engine.cache());
  EXPECT_EQ(publisher.stats().next_number, before) << "nothing happened since";
}

// A queue of one batch drops some; nobody can replay them.
TEST(ZmqIndex, WhatWasDroppedBecomesASnapshot) {
  std::mt19937_64 random(seed_or(4));
  Engine engine;
  quire_event_publisher_options options = Publisher::options();
  options.max_queue_size = 1;
  const Publisher publisher(options);
  Router router(publisher, &random, 1000);
  int rounds = 0;
  while (publisher.stats().snapshots == 0) {
    ASSERT_LT(++rounds, 100'000) << "no batch was dropped";
    engine.step(&random);
    publisher.follow(engine.cache());
  }
  EXPECT_GT(publisher.stats().dropped, 0u);
  // With pauses nothing more is dropped. A call that has nothing to say is the last.
  uint64_t before = 0;
  do {
    ASSERT_TRUE(publisher.is_idle());
    before = publisher.stats().next_number;
    publisher.follow(engine.cache());
  } while (publisher.stats().next_number != before);
  const uint64_t end = publisher.stats().next_number;
  publisher.publish(MadeEvents());  // an empty batch, which tells the router of the end
  ASSERT_NO_FATAL_FAILURE(router.follow(end + 1));
  router.catch_up(end + 1);
  EXPECT_TRUE(router.is_sound());
  EXPECT_EQ(router.index(), engine.index());
}

TEST(ZmqIndex, APublisherFollowsOneCacheWithEvents) {
  Engine engine, other;
  const Publisher publisher;
  Error err;
  EXPECT_EQ(quire_event_publisher_follow(publisher.get(), nullptr, 0, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_event_publisher_follow(publisher.get(), engine.cache(), 2, &err), QUIRE_INVALID_ARGUMENT);
  publisher.follow(engine.cache());
  EXPECT_EQ(publisher.stats().next_number, 0u) << "nothing happened";
  EXPECT_EQ(quire_event_publisher_follow(publisher.get(), other.cache(), 0, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("another one"), std::string::npos) << err.message;
}

}  // namespace
}  // namespace quire::wire
