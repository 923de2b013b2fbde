// What create, publish and the readers of counters refuse, and with which words. Method: by example.
#include <zmq.h>

#include "zmq_rig.h"

namespace quire::wire {
namespace {

struct Refusal {
  quire_code code;
  std::string message;
  bool says(const std::string& text) const { return message.find(text) != std::string::npos; }
};

Refusal create(const quire_event_publisher_options& options) {
  Error err;
  quire_event_publisher* publisher = nullptr;
  const quire_code code = quire_event_publisher_create(&options, &publisher, &err);
  EXPECT_EQ(publisher == nullptr, code != QUIRE_OK);
  quire_event_publisher_release(publisher);
  EXPECT_STREQ(err.source, code != QUIRE_OK ? "library:zmq" : "");
  return {code, err.message};
}

TEST(ZmqCreate, AnEndpointInUseIsRefused) {
  const Publisher first;
  for (quire_str quire_event_publisher_options::*field :
       {&quire_event_publisher_options::endpoint, &quire_event_publisher_options::replay_endpoint}) {
    // A replay endpoint is always bound; the other one if it has "::" or "*", so that the address is one of IPv6 here.
    const bool is_replay = field == &quire_event_publisher_options::replay_endpoint;
    const Socket holder(ZMQ_PULL);
    if (!is_replay) holder.set(ZMQ_IPV6, 1);
    const std::string taken = holder.bind(is_replay ? "tcp://127.0.0.1:*" : "tcp://[::]:*");
    quire_event_publisher_options options = Publisher::options();
    options.*field = str(taken);
    const Refusal refusal = create(options);
    EXPECT_EQ(refusal.code, QUIRE_ALREADY_EXISTS) << refusal.message;
    EXPECT_TRUE(refusal.says(taken)) << refusal.message;
    EXPECT_TRUE(refusal.says(is_replay ? "options.replay_endpoint" : "options.endpoint")) << refusal.message;
  }
}

TEST(ZmqCreate, AUnixSocketInUseIsRefusedAndOneThatWasLeftIsNot) {
  const Folder folder;
  const std::string events = folder.ipc("events");
  quire_event_publisher_options options = QUIRE_INIT(quire_event_publisher_options);
  options.endpoint = str(events);
  {
    const Publisher first(options);
    const Refusal refusal = create(options);
    EXPECT_EQ(refusal.code, QUIRE_ALREADY_EXISTS) << refusal.message;
    EXPECT_TRUE(refusal.says("another process listens there")) << refusal.message;
    first.publish_block(1);  // it is as it was
  }
  EXPECT_EQ(create(options).code, QUIRE_OK);
}

TEST(ZmqCreate, BothEndpointsMustDiffer) {
  const Folder folder;
  const std::string both = folder.ipc("both");
  quire_event_publisher_options options = QUIRE_INIT(quire_event_publisher_options);
  options.endpoint = options.replay_endpoint = str(both);
  EXPECT_EQ(create(options).code, QUIRE_ALREADY_EXISTS);
}

TEST(ZmqCreate, BadEndpointsAreRefusedByName) {
  for (const char* endpoint : {"x", "nonsense", "tcp://", "tcp://*:port", "tcp://*:70000", "http://*:80", "inproc://x",
                               "tcp://no.such.host.invalid:*", "ipc:///no/such/folder/socket"}) {
    quire_event_publisher_options options = Publisher::options();
    options.replay_endpoint = str(endpoint);
    const Refusal refusal = create(options);
    EXPECT_EQ(refusal.code, QUIRE_INVALID_ARGUMENT) << endpoint << ": " << refusal.message;
    EXPECT_TRUE(refusal.says("options.replay_endpoint") && refusal.says(endpoint)) << refusal.message;
  }
  quire_event_publisher_options options = Publisher::options();
  options.endpoint = str("nonsense");
  EXPECT_EQ(create(options).code, QUIRE_INVALID_ARGUMENT);
  options.endpoint = str(std::string_view("tcp://*:1\0x", 11));
  EXPECT_TRUE(create(options).says("zero byte"));
}

TEST(ZmqCreate, RanksNeedPorts) {
  const Folder folder;
  const std::string events = folder.ipc("events");
  quire_event_publisher_options options = QUIRE_INIT(quire_event_publisher_options);
  options.endpoint = str(events);
  options.data_parallel_rank = 1;
  const Refusal refusal = create(options);
  EXPECT_EQ(refusal.code, QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(refusal.says("no port that rank 1")) << refusal.message;
}

TEST(ZmqCreate, OptionsAreChecked) {
  using Options = quire_event_publisher_options;
  const std::string long_topic(5000, 't'), long_medium(256, 'm');
  const std::pair<void (*)(Options*, const std::string&), const char*> wrong[] = {
      {[](Options* o, const std::string&) { o->struct_size = 8; }, "options.struct_size is 8"},
      {[](Options* o, const std::string&) { o->flags = 2; }, "options.flags"},
      {[](Options* o, const std::string&) { o->reserved0 = 1; }, "options.reserved0"},
      {[](Options* o, const std::string&) { o->data_parallel_rank = -2; }, "options.data_parallel_rank is -2"},
      {[](Options* o, const std::string&) {
         o->topic = {nullptr, 1};
       },
       "options.topic.data is NULL"},
      {[](Options* o, const std::string& text) { o->topic = str(text); }, "options.topic has 5000 bytes, the limit is 4096"},
      {[](Options* o, const std::string& text) { o->medium = str(text); }, "options.medium has 5000 bytes, the limit is 255"},
      {[](Options* o, const std::string& text) { o->locality = str(text); }, "options.locality has 5000 bytes"},
      {[](Options* o, const std::string& text) { o->endpoint = str(text); }, "options.endpoint has 5000 bytes"},
      {[](Options* o, const std::string&) { o->buffer_steps = 1'000'000'001; }, "options.buffer_steps is 1000000001, at most 1000000000"},
      {[](Options* o, const std::string&) { o->max_queue_size = UINT64_MAX; }, "options.max_queue_size"},
      {[](Options* o, const std::string&) { o->hwm = UINT32_MAX; }, "options.hwm"},
      {[](Options* o, const std::string&) { o->linger_ms = UINT32_MAX; }, "options.linger_ms"}};
  for (const auto& [change, text] : wrong) {
    Options options = Publisher::options();
    change(&options, long_topic);
    const Refusal refusal = create(options);
    EXPECT_EQ(refusal.code, QUIRE_INVALID_ARGUMENT);
    EXPECT_TRUE(refusal.says(text)) << refusal.message << "; expected " << text;
  }
}

TEST(ZmqCreate, StructsOfOtherHeadersAreRead) {
  struct Longer {
    quire_event_publisher_options known;
    uint64_t unknown;
  } longer = {Publisher::options(), 0};
  longer.known.struct_size = sizeof longer;
  EXPECT_EQ(create(longer.known).code, QUIRE_OK);
  longer.unknown = 1;
  const Refusal refusal = create(longer.known);
  EXPECT_EQ(refusal.code, QUIRE_UNIMPLEMENTED);
  EXPECT_TRUE(refusal.says("byte " + std::to_string(sizeof(quire_event_publisher_options)))) << refusal.message;

  const Publisher publisher;
  struct LongerStats {
    quire_event_publisher_stats known;
    uint64_t unknown;
  } stats = {QUIRE_INIT(quire_event_publisher_stats), 7};
  stats.known.struct_size = sizeof stats;
  EXPECT_EQ(quire_event_publisher_get_stats(publisher.get(), &stats.known, nullptr), QUIRE_OK);
  EXPECT_EQ(stats.unknown, 0u);
  EXPECT_EQ(stats.known.struct_size, sizeof stats.known);
  stats.known.struct_size = 16;
  stats.known.sent = 77;
  EXPECT_EQ(quire_event_publisher_get_stats(publisher.get(), &stats.known, nullptr), QUIRE_OK);
  EXPECT_EQ(stats.known.sent, 77u) << "a short struct is not overrun";
  stats.known.struct_size = 0;
  EXPECT_EQ(quire_event_publisher_get_stats(publisher.get(), &stats.known, nullptr), QUIRE_INVALID_ARGUMENT);
}

TEST(ZmqCreate, AbsentArgumentsAreNamed) {
  const Publisher publisher;
  const quire_event_publisher_options options = Publisher::options();
  quire_event_publisher* out = nullptr;
  const quire_event_message message = QUIRE_INIT(quire_event_message);
  quire_event_publisher_info info = QUIRE_INIT(quire_event_publisher_info);
  Error err;
  const auto says = [&](const char* text) { return std::string(err.message).find(text) != std::string::npos; };
  EXPECT_EQ(quire_event_publisher_create(nullptr, &out, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(says("options is NULL"));
  EXPECT_EQ(quire_event_publisher_create(&options, nullptr, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(says("out is NULL"));
  EXPECT_EQ(quire_event_publisher_publish(nullptr, &message, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(says("publisher is NULL"));
  EXPECT_EQ(quire_event_publisher_publish(publisher.get(), nullptr, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(says("message is NULL"));
  EXPECT_EQ(quire_event_publisher_follow(nullptr, nullptr, 0, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_event_publisher_get_stats(publisher.get(), nullptr, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(says("stats is NULL"));
  EXPECT_EQ(quire_event_publisher_get_info(nullptr, &info, &err), QUIRE_INVALID_ARGUMENT);
  err.struct_size = 1;
  EXPECT_EQ(quire_event_publisher_get_info(publisher.get(), &info, &err), QUIRE_INVALID_ARGUMENT) << "an error struct of no size";
  quire_event_publisher_release(nullptr);
}

}  // namespace
}  // namespace quire::wire
