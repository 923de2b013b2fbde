// What vLLM's publisher sent and replied, recorded once (tests/golden/data/events.json): the same
// payloads through ours give the same frames.
#include <zmq.h>

#include <fstream>
#include <memory>
#include <thread>

#include "plugins/zmq/endpoint.h"
#include "plugins/zmq/sender.h"
#include "tests/zmq/zmq_rig.h"

namespace quire::wire {
namespace {

constexpr const char* kData = QUIRE_GOLDEN_EVENTS;

std::vector<json> recorded(const std::string& kind) {
  std::vector<json> found;
  for (const json& test : json::parse(std::ifstream(kData))) {
    if (test.at("kind") == kind) found.push_back(test);
  }
  return found;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

Frames frames_of(const json& list) {
  Frames frames;
  for (const json& frame : list) frames.push_back(bytes_of(frame));
  return frames;
}

// The part of a publisher that does not encode.
class Speaker {
 public:
  Speaker(const std::string& topic, uint64_t buffer_steps) : options_{topic, buffer_steps, uint64_t{1} << 30} {
    EXPECT_TRUE(queue_.open().ok());
    EXPECT_TRUE(zmq::Sockets::open({folder_.ipc("events"), folder_.ipc("replay"), 1000, 1000}, &sockets_).ok());
    sender_ = std::make_unique<zmq::Sender>(options_, sockets_.get(), &queue_, &counters_);
    thread_ = std::thread([this] { sender_->run(); });
  }
  ~Speaker() {
    queue_.close(zmq::Clock::now() + std::chrono::seconds(20));
    thread_.join();
  }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;
  void publish(const std::string& payload) { queue_.push(zmq::Frame(payload)); }
  bool has_subscriber() const { return counters_.subscriptions > 0; }
  const std::string& endpoint() const { return sockets_->endpoint(); }
  const std::string& replay_endpoint() const { return sockets_->replay_endpoint(); }

 private:
  const Folder folder_;
  const zmq::SenderOptions options_;
  zmq::Queue queue_{1000, uint64_t{1} << 30};
  zmq::Counters counters_;
  std::unique_ptr<zmq::Sockets> sockets_;
  std::unique_ptr<zmq::Sender> sender_;
  std::thread thread_;
};

TEST(ZmqGolden, SendsAndRepliesAsRecorded) {
  size_t dialogues = 0;
  for (const json& test : recorded("publish")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    Speaker speaker(test.at("topic"), test.at("buffer_steps"));
    const Socket reader(ZMQ_SUB);
    reader.connect(speaker.endpoint());
    reader.subscribe("");
    ASSERT_TRUE(becomes_true([&] { return speaker.has_subscriber(); }));
    for (const json& frames : test.at("sub_frames")) speaker.publish(bytes_of(frames.at(2)));
    for (const json& frames : test.at("sub_frames")) ASSERT_EQ(reader.receive(), frames_of(frames));
    for (const json& dialogue : test.at("replay")) {
      SCOPED_TRACE(dialogue.at("meaning").get<std::string>());
      const json& expected = dialogue.at("reply_frames_after_identity");
      const Frames request = frames_of(dialogue.at("request_frames_after_identity"));
      const Socket asker(ZMQ_DEALER);
      asker.connect(speaker.replay_endpoint());
      asker.send(request);
      // None came while it was recorded: nothing to compare where the request was well formed.
      if (expected.empty() && request.size() == 2) continue;
      for (const json& frames : expected) ASSERT_EQ(asker.receive(), frames_of(frames));
      EXPECT_TRUE(!expected.empty() || asker.receive(100).empty());
      ++dialogues;
    }
  }
  EXPECT_GE(dialogues, 5U);
}

TEST(ZmqGolden, HasTheEndpointsOfRanks) {
  size_t compared = 0;
  for (const json& test : recorded("endpoint_offset")) {
    for (const json& c : test.at("cases")) {
      const std::string from = c.at("endpoint").is_null() ? "" : c.at("endpoint").get<std::string>();
      if (from.empty() || from.starts_with("inproc")) continue;  // ours has a default, and refuses what nobody else can reach
      SCOPED_TRACE(from);
      std::string is;
      const plugins::Outcome outcome = zmq::endpoint_of_rank(from, "endpoint", c.at("rank"), &is);
      EXPECT_EQ(outcome.ok(), !c.at("result").is_object()) << outcome.text;
      EXPECT_TRUE(!outcome.ok() || is == c.at("result")) << is;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 6U);
}

TEST(ZmqGolden, EndsAReplayAsRecorded) {
  for (const json& test : recorded("defaults")) EXPECT_EQ(bytes_of(test.at("end_of_replay_sequence_hex")), big_endian(kEndNumber));
}

}  // namespace
}  // namespace quire::wire
