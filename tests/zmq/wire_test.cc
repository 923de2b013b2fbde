// What subscribers receive: frames, topics, numbers, replays, endpoints and labels. Method: by example, read by other libraries than those
// that wrote.
#include <zmq.h>

#include "plugins/zmq/endpoint.h"
#include "zmq_rig.h"

namespace quire::wire {
namespace {

// A subscriber that is known to the publisher.
struct Subscriber : Socket {
  explicit Subscriber(const Publisher& publisher, const std::string& topic = "") : Socket(ZMQ_SUB) {
    const uint64_t before = publisher.stats().subscriptions;
    set(ZMQ_RCVHWM, 0);
    subscribe(topic);
    connect(publisher.endpoint());
    EXPECT_TRUE(becomes_true([&] { return publisher.stats().subscriptions > before; }));
  }
  Message next() const { return message_of(receive()); }
};

TEST(ZmqWire, ABatchIsTopicNumberAndEvents) {
  quire_event_publisher_options options = Publisher::options();
  options.topic = str("kv@pod-7");
  options.data_parallel_rank = 0;
  const Publisher publisher(options);
  const Subscriber subscriber(publisher);
  MadeEvents events;
  events.store(0x1122334455667788, {1, 2, 3, 70000}, 1);
  events.remove(5, 2);
  events.clear();
  publisher.publish(events);
  publisher.publish_block(9);
  const Frames frames = subscriber.receive();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0], "kv@pod-7");
  EXPECT_EQ(frames[1], std::string(8, '\0'));
  const json expect = {1.5,
                       {{{"type", "BlockStored"},
                         {"block_hashes", {0x1122334455667788}},
                         {"parent_block_hash", nullptr},
                         {"token_ids", {1, 2, 3, 70000}},
                         {"block_size", 4},
                         {"lora_id", nullptr},
                         {"medium", "GPU"},
                         {"lora_name", nullptr},
                         {"extra_keys", {nullptr}},
                         {"group_idx", 1},
                         {"kv_cache_spec_kind", "full_attention"}},
                        {{"type", "BlockRemoved"}, {"block_hashes", {5}}, {"medium", "GPU"}, {"group_idx", 2}},
                        {{"type", "AllBlocksCleared"}}},
                       0};
  EXPECT_EQ(decode(frames[2]), expect) << decode(frames[2]).dump();
  const Frames second = subscriber.receive();
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(second[1], std::string(7, '\0') + '\1');
}

TEST(ZmqWire, SubscribersToOtherTopicsHearNothing) {
  quire_event_publisher_options options = Publisher::options();
  options.topic = str("kv@a");
  const Publisher publisher(options);
  const Subscriber same(publisher, "kv@a"), other(publisher, "kv@b");
  publisher.publish_block(1);
  EXPECT_EQ(same.next().number, 0u);
  EXPECT_TRUE(other.receive(50).empty());
}

TEST(ZmqWire, TheRankIsInEachBatchAndMayBeNil) {
  for (const int32_t rank : {-1, 0}) {
    quire_event_publisher_options options = Publisher::options();
    options.data_parallel_rank = rank;
    const Publisher publisher(options);
    const Subscriber subscriber(publisher);
    publisher.publish_block(1);
    const json batch = decode(subscriber.next().payload);
    EXPECT_EQ(batch.at(2), rank < 0 ? json() : json(rank));
  }
}

TEST(ZmqWire, WholeDigestsAreBytes) {
  quire_event_publisher_options options = Publisher::options();
  options.flags = QUIRE_EVENTS_WHOLE_HASHES;
  const Publisher publisher(options);
  const Subscriber subscriber(publisher);
  publisher.publish_block(0x4142434445464748);
  const json batch = decode(subscriber.next().payload);
  const json::binary_t& digest = batch.at(1).at(0).at("block_hashes").at(0).get_binary();
  EXPECT_EQ(std::string(digest.begin(), digest.end()), std::string(24, 'd') + "ABCDEFGH");
}

TEST(ZmqWire, ATimeOfZeroIsNow) {
  const Publisher publisher;
  const Subscriber subscriber(publisher);
  const auto before = static_cast<double>(std::time(nullptr));
  quire_event_message message = QUIRE_INIT(quire_event_message);
  EXPECT_EQ(quire_event_publisher_publish(publisher.get(), &message, nullptr), QUIRE_OK);
  const json batch = decode(subscriber.next().payload);
  EXPECT_GE(batch.at(0).get<double>(), before);
  EXPECT_LE(batch.at(0).get<double>(), before + 60);
  EXPECT_TRUE(batch.at(1).empty());
}

TEST(ZmqWire, MediumAndLocalityAreThoseOfTheMessageElseOfThePublisher) {
  quire_event_publisher_options options = Publisher::options();
  options.medium = str("CPU");
  options.locality = str("LOCAL");
  const Publisher publisher(options);
  const Subscriber subscriber(publisher);
  MadeEvents events;
  events.store(1, {1, 2});
  events.remove(2);
  events.clear();
  publisher.publish(events);
  quire_event_message message = events.message();
  message.medium = str("STORAGE");
  message.locality = str("REMOTE");
  EXPECT_EQ(quire_event_publisher_publish(publisher.get(), &message, nullptr), QUIRE_OK);
  const std::pair<std::string, std::string> labels[] = {{"CPU", "LOCAL"}, {"STORAGE", "REMOTE"}};
  for (const auto& [medium, locality] : labels) {
    const json batch = decode(subscriber.next().payload);
    ASSERT_EQ(batch.at(1).size(), 3u);
    for (size_t i : {size_t{0}, size_t{1}}) {
      EXPECT_EQ(batch.at(1).at(i).at("medium"), medium);
      EXPECT_EQ(batch.at(1).at(i).at("locality"), locality);
    }
    EXPECT_EQ(batch.at(1).at(2), json({{"type", "AllBlocksCleared"}}));
    EXPECT_EQ(batch.at(2), 0);
  }
}

TEST(ZmqWire, WhatCannotBeEncodedUsesNoNumber) {
  const Publisher publisher;
  MadeEvents events;
  events.store(1, {1, 2});
  events.events()[0].hashes_offset = 1 << 20;
  Error err;
  quire_event_message message = events.message();
  EXPECT_EQ(quire_event_publisher_publish(publisher.get(), &message, &err), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(std::string(err.message).find("events[0]"), std::string::npos) << err.message;
  EXPECT_STREQ(err.source, "library:zmq");
  message.time = 1.0 / 0.0;
  EXPECT_EQ(quire_event_publisher_publish(publisher.get(), &message, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(publisher.stats().next_number, 0u);
  publisher.publish_block(2);
  EXPECT_EQ(publisher.stats().next_number, 1u);
}

TEST(ZmqWire, LongBatchesGoThrough) {
  const Publisher publisher;
  const Subscriber subscriber(publisher);
  publisher.publish_block(3, 100'000);
  EXPECT_EQ(decode(subscriber.next().payload).at(1).at(0).at("token_ids").size(), 100'000u);
}

// Replays ----------------------------------------------------------------------------------------------------------------------------

TEST(ZmqWire, AReplayBeginsAtTheNumberAndEndsWithItsMark) {
  quire_event_publisher_options options = Publisher::options();
  options.topic = str("t");
  const Publisher publisher(options);
  for (uint64_t i = 0; i < 5; ++i) publisher.publish_block(i);
  ASSERT_TRUE(publisher.is_idle());
  const auto answers = ask_replay(publisher.replay_endpoint(), 2);
  ASSERT_TRUE(answers.has_value());
  ASSERT_EQ(answers->size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*answers)[i].topic, "t");
    EXPECT_EQ((*answers)[i].number, 2 + i);
    EXPECT_EQ(decode((*answers)[i].payload).at(1).at(0).at("block_hashes"), json({2 + i}));
  }
  const auto none = ask_replay(publisher.replay_endpoint(), 5);
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->empty());
  const quire_event_publisher_stats stats = publisher.stats();
  EXPECT_EQ(stats.replays, 2u);
  EXPECT_EQ(stats.replayed, 3u);
  EXPECT_EQ(stats.late_replays, 0u);
}

TEST(ZmqWire, WhatIsNotKeptIsLeftOut) {
  quire_event_publisher_options options = Publisher::options();
  options.buffer_steps = 3;
  const Publisher publisher(options);
  for (uint64_t i = 0; i < 10; ++i) publisher.publish_block(i);
  ASSERT_TRUE(publisher.is_idle());
  const auto answers = ask_replay(publisher.replay_endpoint(), 1);
  ASSERT_TRUE(answers.has_value());
  ASSERT_EQ(answers->size(), 3u);
  EXPECT_EQ(answers->front().number, 7u);
  const quire_event_publisher_stats stats = publisher.stats();
  EXPECT_EQ(stats.kept, 3u);
  EXPECT_EQ(stats.oldest_kept, 7u);
  EXPECT_EQ(stats.late_replays, 1u);
}

TEST(ZmqWire, KeptBytesAreLimitedAndTheLatestStays) {
  quire_event_publisher_options options = Publisher::options();
  options.buffer_bytes = 4000;
  const Publisher publisher(options);
  for (uint64_t i = 0; i < 50; ++i) publisher.publish_block(i, 100);
  ASSERT_TRUE(publisher.is_idle());
  ASSERT_TRUE(becomes_true([&] { return publisher.stats().oldest_kept > 10; }));
  EXPECT_LE(publisher.stats().kept_bytes, 4000u);
  EXPECT_GT(publisher.stats().kept, 2u);
  publisher.publish_block(50, 10'000);
  ASSERT_TRUE(becomes_true([&] { return publisher.stats().oldest_kept == 50; }));
  EXPECT_EQ(publisher.stats().kept, 1u);
}

TEST(ZmqWire, NumbersOfRequestsHaveAnyWidth) {
  const Publisher publisher;
  for (uint64_t i = 0; i < 4; ++i) publisher.publish_block(i);
  ASSERT_TRUE(publisher.is_idle());
  const std::pair<std::string, uint64_t> requests[] = {
      {"", 4}, {"\3", 1}, {std::string(12, '\0') + '\2', 2}, {std::string(8, '\xff'), 0}, {std::string(9, '\1'), 0}};
  const Socket client(ZMQ_REQ);  // takes one answer
  client.connect(publisher.replay_endpoint());
  client.send({big_endian(3)});
  EXPECT_EQ(message_of(client.receive()).number, 3u);
  const Socket dealer(ZMQ_DEALER);
  dealer.connect(publisher.replay_endpoint());
  for (const auto& [bytes, count] : requests) {
    dealer.send({"anything", bytes});
    for (uint64_t i = 0; i < count; ++i) EXPECT_FALSE(message_of({dealer.receive().at(1), big_endian(0), "x"}).is_end());
    const Frames end = dealer.receive();
    ASSERT_EQ(end.size(), 4u);
    EXPECT_EQ(end[2], std::string(8, '\xff'));
  }
}

TEST(ZmqWire, MalformedRequestsAreIgnoredAndCounted) {
  const Publisher publisher;
  publisher.publish_block(0);
  ASSERT_TRUE(publisher.is_idle());
  const Socket dealer(ZMQ_DEALER);
  dealer.connect(publisher.replay_endpoint());
  dealer.send({big_endian(0)});
  dealer.send({"", big_endian(0), ""});
  dealer.send({"", "", "", "", "", "", ""});
  dealer.send({"", big_endian(1)});
  const Frames end = dealer.receive();  // of the last request: the others got nothing
  ASSERT_EQ(end.size(), 4u);
  EXPECT_EQ(end[2], std::string(8, '\xff'));
  EXPECT_EQ(publisher.stats().malformed_requests, 3u);
  EXPECT_EQ(publisher.stats().replays, 1u);
}

// Endpoints --------------------------------------------------------------------------------------------------------------------------

TEST(ZmqWire, RanksHavePortsOfTheirOwn) {
  struct Case {
    const char* endpoint;
    int32_t rank;
    const char* expect;  // nullptr: refused
  };
  const Case cases[] = {{"tcp://*:5557", 0, "tcp://*:5557"},
                        {"tcp://*:5557", -1, "tcp://*:5557"},
                        {"tcp://*:5557", 3, "tcp://*:5560"},
                        {"tcp://10.0.0.1:80", 1, "tcp://10.0.0.1:81"},
                        {"tcp://[::1]:5557", 4, "tcp://[::1]:5561"},
                        {"tcp://127.0.0.1:*", 2, "tcp://127.0.0.1:*"},
                        {"tcp://*:0", 2, "tcp://*:0"},
                        {"tcp://*:65535", 1, nullptr},
                        {"tcp://*:65536", 0, nullptr},
                        {"tcp://*:99999999999999999999999", 0, nullptr},
                        {"tcp://host", 1, nullptr},
                        {"tcp://host:12a", 1, nullptr},
                        {"ipc:///run/x", 0, "ipc:///run/x"},
                        {"ipc:///run/x", 1, nullptr},
                        {"inproc://x", 0, nullptr}};
  for (const Case& c : cases) {
    std::string is;
    const plugins::Outcome outcome = zmq::endpoint_of_rank(c.endpoint, "options.endpoint", c.rank, &is);
    EXPECT_EQ(outcome.ok(), c.expect != nullptr) << c.endpoint << ": " << outcome.text;
    if (c.expect != nullptr) {
      EXPECT_EQ(is, c.expect);
    } else {
      EXPECT_NE(outcome.text.find(c.endpoint), std::string::npos) << outcome.text;
    }
  }
  for (const char* bound : {"tcp://*:1", "tcp://[::]:1", "ipc:///x"}) EXPECT_TRUE(zmq::is_bound(bound)) << bound;
  EXPECT_FALSE(zmq::is_bound("tcp://10.0.0.1:1"));
}

TEST(ZmqWire, OtherEndpointsAreConnectedTo) {
  const Socket collector(ZMQ_SUB);
  const std::string endpoint = collector.bind("tcp://127.0.0.1:*");
  collector.subscribe("");
  quire_event_publisher_options options = Publisher::options();
  options.endpoint = str(endpoint);
  const Publisher publisher(options);
  ASSERT_TRUE(becomes_true([&] {  // libzmq subscribes at a new connection from within calls only
    return collector.receive(1).empty() && publisher.stats().subscriptions == 1;
  }));
  publisher.publish_block(1);
  EXPECT_EQ(message_of(collector.receive()).number, 0u);
}

TEST(ZmqWire, UnixSocketsWork) {
  const Folder folder;
  const std::string events = folder.ipc("events"), replays = folder.ipc("replays");
  quire_event_publisher_options options = QUIRE_INIT(quire_event_publisher_options);
  options.endpoint = str(events);
  options.replay_endpoint = str(replays);
  const Publisher publisher(options);
  const Subscriber subscriber(publisher);
  publisher.publish_block(1);
  EXPECT_EQ(subscriber.next().number, 0u);
  EXPECT_EQ(ask_replay(replays, 0).value_or(std::vector<Message>()).size(), 1u);
}

TEST(ZmqWire, ASubscriptionThatGoesIsNotCounted) {
  const Publisher publisher;
  {
    const Subscriber one(publisher), two(publisher, "x");
    EXPECT_EQ(publisher.stats().subscriptions, 2u);
  }
  EXPECT_TRUE(becomes_true([&] { return publisher.stats().subscriptions == 0; }));
}

TEST(ZmqWire, WithoutReplaysNothingIsKept) {
  quire_event_publisher_options options = Publisher::options();
  options.replay_endpoint = {};
  const Publisher publisher(options);
  EXPECT_EQ(publisher.replay_endpoint(), "");
  publisher.publish_block(1);
  ASSERT_TRUE(publisher.is_idle());
  EXPECT_EQ(publisher.stats().kept, 0u);
  EXPECT_EQ(publisher.stats().oldest_kept, 1u);
}

}  // namespace
}  // namespace quire::wire
