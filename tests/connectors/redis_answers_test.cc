// Servers that do not answer as they should: slowly, with a half, with too little or too much, with nonsense, with the value of another
// key; and answers that are changed at random. Every ticket ends, and nothing beside the runs of a load is written.
#include <chrono>
#include <mutex>
#include <thread>

#include "plugins/redis/exchange.h"
#include "redis_server.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire {
namespace {

using Answer = FakeServer::Answer;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kObject = 1000;

std::string bulk(const std::string& bytes) { return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n"; }
std::string object() {
  const Bytes bytes = content(1, kObject);
  return {bytes.begin(), bytes.end()};
}

// A server that has one object, and says it has it under every key; `range` answers GETRANGE.
FakeServer::Script holding(const std::function<Answer(const Words&)>& range) {
  return [=](const Words& words) -> Answer {
    if (words[0] == "STRLEN") return {":" + std::to_string(kObject) + "\r\n"};
    if (words[0] == "GETRANGE") return range(words);
    return {"+OK\r\n"};
  };
}

// The code of a load of the whole object. What it wrote must be the object, and nothing else may be touched.
quire_code load_whole(Client& client, int64_t deadline_ns = -1) {
  Layout layout = {{{0, 0, 10, kObject / 10, 30, 0, 10}}, kObject * 3};
  Memory memory(&layout);
  Batch batch;
  quire_ticket& ticket = batch.load(key(1), layout.runs);
  ticket.deadline_ns = deadline_ns;
  const quire_code code = client.run(batch)[ticket.ticket].code;
  code == QUIRE_OK ? memory.expect(layout.runs, content(1, kObject)) : memory.forget(layout.runs);
  EXPECT_TRUE(memory.intact());
  return code;
}

quire_code load_from(const std::function<Answer(const Words&)>& range, const std::string& fields = "") {
  FakeServer server(holding(range));
  Client client(redis_subject(), server.config(fields));
  return load_whole(client);
}

TEST(RedisAnswers, AServerThatAnswersSlowlyIsWaitedFor) {
  EXPECT_EQ(load_from([](const Words&) { return Answer{bulk(object())}; }), QUIRE_OK);
  EXPECT_EQ(load_from([](const Words&) { return Answer{bulk(object()), 7, 1}; }, ", \"timeout_ms\": 100"), QUIRE_OK);
  EXPECT_EQ(load_from([](const Words&) { return Answer{bulk(object()), 500, 50}; }), QUIRE_OK);
}

TEST(RedisAnswers, NothingArrivesAfterTheDeadline) {
  FakeServer server(holding([](const Words&) { return Answer{bulk(object()), 10, 5}; }));
  Client client(redis_subject(), server.config());
  std::vector<uint8_t> memory(kObject, 0);
  Layout layout = dense(0, kObject);
  layout.runs[0].address = reinterpret_cast<uintptr_t>(memory.data());
  Batch batch;
  quire_ticket& ticket = batch.load(key(1), layout.runs);
  ticket.deadline_ns = clock_now() + 100 * kMillisecond;
  const auto begin = Clock::now();
  EXPECT_EQ(client.run(batch)[ticket.ticket].code, QUIRE_DEADLINE_EXCEEDED);
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(400));
  std::fill(memory.begin(), memory.end(), uint8_t{0xee});
  EXPECT_EQ(load_whole(client), QUIRE_OK) << "what was given up is swallowed";
  EXPECT_EQ(memory, std::vector<uint8_t>(kObject, 0xee));
}

TEST(RedisAnswers, HalfAnAnswerIsAnError) {
  const std::string whole = bulk(object());
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{3}, size_t{500}, whole.size() - 1}) {
    FakeServer server(holding([&](const Words&) { return Answer{whole.substr(0, bytes)}; }));
    Client client(redis_subject(), server.config(", \"timeout_ms\": 100"));
    const auto begin = Clock::now();
    EXPECT_EQ(load_whole(client), QUIRE_UNAVAILABLE) << bytes;
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(100));
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1000));
  }
  std::atomic<int> asked{0};
  FakeServer server(holding([&](const Words&) { return ++asked == 1 ? Answer{"CLOSE"} : Answer{whole}; }));
  Client client(redis_subject(), server.config());
  EXPECT_EQ(load_whole(client), QUIRE_UNAVAILABLE) << "it closed the connection";
  EXPECT_TRUE(becomes_true([&] { return load_whole(client) == QUIRE_OK; }));
}

TEST(RedisAnswers, AValueThatIsShorterOrLongerThanAskedForIsDamaged) {
  for (const uint64_t bytes : {uint64_t{1}, kObject - 1, kObject + 1, 5 * kObject, 400 * kKiB}) {
    EXPECT_EQ(load_from([&](const Words&) { return Answer{bulk(std::string(bytes, 'x'))}; }), QUIRE_DATA_LOSS) << bytes;
  }
  EXPECT_EQ(load_from([](const Words&) { return Answer{bulk("")}; }), QUIRE_NOT_FOUND) << "it went meanwhile";
}

// The next load works, on a new connection.
TEST(RedisAnswers, NonsenseIsAnErrorAndEndsTheConnection) {
  const std::vector<std::string> answers = {"hello\r\n",
                                            "\r\n",
                                            "+OK\r\n",
                                            ":17\r\n",
                                            "$-1\r\n",
                                            "$-7\r\n",
                                            "$12x\r\n",
                                            "$99999999999\r\n",
                                            "*3\r\n:1\r\n:1\r\n:1\r\n",
                                            "*-1\r\n",
                                            "-\r\n:1\r\n:1\r\n",
                                            "$3\r\nabcde\r\n",
                                            "$1000\r\n" + object() + "xx"};
  for (const std::string& nonsense : answers) {
    std::atomic<int> asked{0};
    FakeServer server(holding([&](const Words&) { return Answer{++asked == 1 ? nonsense : bulk(object())}; }));
    Client client(redis_subject(), server.config());
    const quire_code code = load_whole(client);
    EXPECT_TRUE(code == QUIRE_UNAVAILABLE || code == QUIRE_DATA_LOSS) << nonsense << " " << code;
    EXPECT_TRUE(becomes_true([&] { return load_whole(client) == QUIRE_OK; })) << nonsense;
  }
}

TEST(RedisAnswers, AnAnswerThatNobodyAskedForEndsTheConnection) {
  std::atomic<bool> extra{true};
  FakeServer server(
      holding([&](const Words&) { return Answer{bulk(object()) + (extra.exchange(false) ? bulk(std::string(kObject, 'x')) : "")}; }));
  Client client(redis_subject(), server.config());
  const quire_code code = load_whole(client);
  EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_UNAVAILABLE) << code;
  EXPECT_TRUE(becomes_true([&] { return server.num_connections() >= 2; }));
  EXPECT_TRUE(becomes_true([&] { return load_whole(client) == QUIRE_OK; })) << "and never with the bytes of another answer";
}

// Keys are in the records that tiers store, with checksums; a connector moves bytes. So these bytes are those of the object for it.
TEST(RedisAnswers, TheValueOfAnotherKeyStaysWithinTheRuns) {
  FakeServer server(holding([](const Words&) { return Answer{bulk(std::string(kObject, 'x'))}; }));
  Client client(redis_subject(), server.config());
  Layout layout = dense(0, kObject);
  Memory memory(&layout);
  memory.expect(layout.runs, Bytes(kObject, 'x'));
  Batch batch;
  const uint64_t ticket = batch.load(key(1), layout.runs).ticket;
  EXPECT_EQ(client.run(batch)[ticket].code, QUIRE_OK);
  EXPECT_TRUE(memory.intact());
}

TEST(RedisAnswers, ErrorsHaveTheirCodes) {
  const std::pair<const char*, quire_code> kErrors[] = {{"-OOM command not allowed\r\n", QUIRE_RESOURCE_EXHAUSTED},
                                                        {"-WRONGTYPE Operation\r\n", QUIRE_DATA_LOSS},
                                                        {"-NOPERM no\r\n", QUIRE_PERMISSION_DENIED},
                                                        {"-NOAUTH no\r\n", QUIRE_PERMISSION_DENIED},
                                                        {"-READONLY You can't write\r\n", QUIRE_PERMISSION_DENIED},
                                                        {"-MOVED 1 a:1\r\n", QUIRE_FAILED_PRECONDITION},
                                                        {"-LOADING it\r\n", QUIRE_UNAVAILABLE},
                                                        {"-ERR no\r\n", QUIRE_UNAVAILABLE}};
  for (const auto& [text, code] : kErrors) {
    FakeServer server([text = text](const Words&) { return Answer{text}; });
    Client client(redis_subject(), server.config());
    EXPECT_EQ(client.store(key(1), content(1, 100)).code, code) << text;
    EXPECT_EQ(client.remove(key(1)).code, code) << text;
    if (code == QUIRE_PERMISSION_DENIED) {
      EXPECT_EQ(client.health().state == QUIRE_CONNECTOR_READ_ONLY, std::string(text).starts_with("-READONLY"));
    }
  }
}

// A server that greets and then closes every connection is not overrun, however many connections there are.
TEST(RedisAnswers, PausesGrowWhileAServerFails) {
  FakeServer server([](const Words&) { return Answer{"CLOSE"}; });
  Client client(redis_subject(), server.config(", \"connections\": 8"));
  const auto begin = Clock::now();
  uint64_t size = 0, tickets = 0;
  while (Clock::now() - begin < std::chrono::milliseconds(1500)) {
    Batch batch;
    const uint64_t ticket = batch.look_up({key(1)}, &size).ticket;
    EXPECT_EQ(client.run(batch)[ticket].code, QUIRE_UNAVAILABLE);
    ++tickets;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(tickets, 100u);
  EXPECT_LE(server.num_connections(), 16u + 8u);
}

// Answers of which some bytes are changed, lost or doubled.
TEST(RedisAnswers, AnswersChangedAtRandomDoNoHarm) {
  Rng rng(seed());
  std::mutex lock;
  for (uint64_t round = 0; round < 150 / kSlowness; ++round) {
    const auto spoil = [&](std::string bytes) {
      const std::lock_guard guard(lock);
      for (uint64_t i = below(&rng, 3); i > 0 && !bytes.empty(); --i) {
        const size_t at = below(&rng, std::min<uint64_t>(bytes.size(), below(&rng, 2) == 0 ? 8 : bytes.size()));
        const uint64_t how = below(&rng, 3);
        if (how == 0) bytes[at] = static_cast<char>(below(&rng, 256));
        if (how == 1) bytes.erase(at, 1 + below(&rng, 3));
        if (how == 2) bytes.insert(at, bytes, 0, below(&rng, 20));
      }
      return Answer{bytes};
    };
    FakeServer server([&](const Words& words) -> Answer {
      if (words[0] == "STRLEN") return spoil(":1000\r\n");
      return spoil(words[0] == "GETRANGE" ? bulk(object()) : words[0] == "DEL" ? ":1\r\n" : "+OK\r\n");
    });
    Client client(redis_subject(), server.config(", \"timeout_ms\": 30"));
    std::vector<Layout> layouts(4, dense(0, kObject));
    std::vector<Memory> memories;
    std::vector<uint64_t> sizes(5);
    Batch batch;
    for (Layout& layout : layouts) {
      memories.emplace_back(&layout);
      batch.load(key(1), layout.runs);
    }
    batch.look_up({key(1), key(2), key(3), key(4), key(5)}, sizes.data());
    batch.remove(key(1));
    client.run(batch);
    for (size_t i = 0; i < layouts.size(); ++i) {
      memories[i].forget(layouts[i].runs);
      ASSERT_TRUE(memories[i].intact()) << "round " << round;
    }
  }
}

TEST(RedisAnswers, LinesAreParsedStrictly) {
  redis::Reply reply;
  EXPECT_TRUE(redis::parse_reply(":-12", &reply));
  EXPECT_EQ(reply.number, -12);
  EXPECT_TRUE(redis::parse_reply("$-1", &reply));
  EXPECT_EQ(reply.kind, redis::Reply::Kind::kNil);
  EXPECT_TRUE(redis::parse_reply("$536870912", &reply));
  for (const char* const line : {"", "x", ":", ":1 ", ": 1", ":+1", "$536870913", "$-2", "*-2", "$", ":9223372036854775808", "_1"}) {
    EXPECT_FALSE(redis::parse_reply(line, &reply)) << line;
  }
}

// Ranges hold every byte of every piece, are in order and apart, and read not much more than that where pieces are few.
TEST(RedisAnswers, RangesHoldAllPieces) {
  Rng rng(seed());
  for (int round = 0; round < 300; ++round) {
    const Layout layout = reading(&rng, 1 + below(&rng, 4'000'000));
    const auto ranges = redis::plan_ranges(layout.runs);
    ASSERT_FALSE(ranges.empty());
    ASSERT_LE(ranges.size(), 1024u);
    for (size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_LT(ranges[i].begin, ranges[i].end);
      if (i != 0) {
        ASSERT_GT(ranges[i].begin, ranges[i - 1].end);
      }
    }
    for (const quire_ticket_run& run : layout.runs) {
      for (uint64_t k = 0; k < run.count; ++k) {
        const uint64_t begin = run.object_offset + k * static_cast<uint64_t>(run.object_stride);
        const bool held = std::any_of(ranges.begin(), ranges.end(),
                                      [&](const auto& range) { return range.begin <= begin && begin + run.bytes <= range.end; });
        ASSERT_TRUE(held) << "round " << round;
      }
    }
  }
  const auto two = redis::plan_ranges(std::vector<quire_ticket_run>{{0, 0, 4096, 2, 4096, 0, 1 << 20}});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].begin, uint64_t{1} << 20);
  EXPECT_EQ(redis::plan_ranges(std::vector<quire_ticket_run>{{0, 0, 64, 10'000, 64, 0, 1 << 20}}).size(), 1u) << "too many to ask for each";
}

}  // namespace
}  // namespace quire
