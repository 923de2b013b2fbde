#include "zmq_rig.h"

#include <unistd.h>
#include <zmq.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#if defined(__SANITIZE_THREAD__)
// libzmq is not compiled for ThreadSanitizer: what it frees and copies was handed over by ways that cannot be seen.
extern "C" QUIRE_API const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() { return "called_from_lib:libzmq.so\n"; }
#endif

namespace quire::wire {

uint64_t seed_or(uint64_t otherwise) {
  const char* const text = std::getenv("QUIRE_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  std::printf("QUIRE_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

bool becomes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "quire_zmq_XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path_ = name;
}

Folder::~Folder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

// Made events ------------------------------------------------------------------------------------------------------------------------

uint64_t MadeEvents::append(const void* bytes, size_t n) {
  const size_t begin = data_.size();
  data_.resize(begin + (n + 7) / 8);
  if (n != 0) std::memcpy(data_.data() + begin, bytes, n);
  return begin * 8;
}

void MadeEvents::store(uint64_t block, std::vector<int64_t> tokens, uint32_t group) {
  remove(block, group);
  quire_event& event = events_.back();
  event.type = QUIRE_EVENT_STORED;
  event.block_tokens = static_cast<uint32_t>(tokens.size());
  event.num_tokens = tokens.size();
  event.tokens_offset = append(tokens.data(), tokens.size() * 8);
  event.keys_offset = append("\xc0", 1);
  event.keys_bytes = 1;
  event.kind_offset = append("full_attention", 14);
  event.kind_bytes = 14;
}

void MadeEvents::remove(uint64_t block, uint32_t group) {
  std::string digest = std::string(24, 'd') + big_endian(block);
  quire_event event = {};
  event.number = events_.size();
  event.type = QUIRE_EVENT_REMOVED;
  event.group = group;
  event.hash_bytes = 32;
  event.num_hashes = 1;
  event.hashes_offset = append(digest.data(), digest.size());
  events_.push_back(event);
}

void MadeEvents::clear() {
  quire_event event = {};
  event.number = events_.size();
  event.type = QUIRE_EVENT_CLEARED;
  events_.push_back(event);
}

quire_event_message MadeEvents::message() const {
  quire_event_message message = QUIRE_INIT(quire_event_message);
  message.events = events_.data();
  message.num_events = events_.size();
  message.data = reinterpret_cast<const uint8_t*>(data_.data());
  message.data_bytes = data_.size() * 8;
  message.time = 1.5;
  return message;
}

// Publisher --------------------------------------------------------------------------------------------------------------------------

quire_event_publisher_options Publisher::options() {
  quire_event_publisher_options options = QUIRE_INIT(quire_event_publisher_options);
  options.endpoint = str("tcp://127.0.0.1:*");
  options.replay_endpoint = str("tcp://127.0.0.1:*");
  return options;
}

Publisher::Publisher(const quire_event_publisher_options& options) {
  Error err;
  quire_event_publisher* publisher = nullptr;
  EXPECT_EQ(quire_event_publisher_create(&options, &publisher, &err), QUIRE_OK) << err.message;
  own_.reset(publisher);
}

quire_event_publisher_stats Publisher::stats() const {
  Error err;
  quire_event_publisher_stats stats = QUIRE_INIT(quire_event_publisher_stats);
  EXPECT_EQ(quire_event_publisher_get_stats(get(), &stats, &err), QUIRE_OK) << err.message;
  return stats;
}

quire_event_publisher_info Publisher::info() const {
  Error err;
  quire_event_publisher_info info = QUIRE_INIT(quire_event_publisher_info);
  EXPECT_EQ(quire_event_publisher_get_info(get(), &info, &err), QUIRE_OK) << err.message;
  return info;
}

void Publisher::publish(const MadeEvents& events) const {
  Error err;
  const quire_event_message message = events.message();
  EXPECT_EQ(quire_event_publisher_publish(get(), &message, &err), QUIRE_OK) << err.message;
}

void Publisher::publish_block(uint64_t block, size_t tokens) const {
  MadeEvents events;
  events.store(block, std::vector<int64_t>(tokens, static_cast<int64_t>(block)));
  publish(events);
}

void Publisher::follow(quire_cache* cache, uint32_t flags) const {
  Error err;
  EXPECT_EQ(quire_event_publisher_follow(get(), cache, flags, &err), QUIRE_OK) << err.message;
}

bool Publisher::is_idle() const {
  return becomes_true([this] {
    const quire_event_publisher_stats now = stats();
    return now.sent + now.dropped == now.next_number;
  });
}

// Sockets ----------------------------------------------------------------------------------------------------------------------------

Socket::Socket(int type) : libzmq_(zmq_ctx_new()), socket_(zmq_socket(libzmq_, type)) { set(ZMQ_LINGER, 0); }

Socket::~Socket() {
  zmq_close(socket_);
  zmq_ctx_term(libzmq_);
}

void Socket::set(int option, int value) const {
  EXPECT_EQ(zmq_setsockopt(socket_, option, &value, sizeof value), 0) << zmq_strerror(zmq_errno());
}

void Socket::subscribe(const std::string& topic) const { EXPECT_EQ(zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, topic.data(), topic.size()), 0); }

void Socket::connect(const std::string& endpoint) const {
  EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0) << endpoint << ": " << zmq_strerror(zmq_errno());
}

std::string Socket::bind(const std::string& endpoint) const {
  char text[256] = "";
  size_t bytes = sizeof text;
  EXPECT_EQ(zmq_bind(socket_, endpoint.c_str()), 0) << endpoint << ": " << zmq_strerror(zmq_errno());
  EXPECT_EQ(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &bytes), 0);
  return text;
}

void Socket::send(const Frames& frames) const {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int flags = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
    EXPECT_GE(zmq_send(socket_, frames[i].data(), frames[i].size(), flags), 0) << zmq_strerror(zmq_errno());
  }
}

Frames Socket::receive(int timeout_ms) const {
  set(ZMQ_RCVTIMEO, timeout_ms);
  Frames frames;
  for (int more = 1; more != 0;) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket_, 0) < 0) return zmq_msg_close(&message), Frames();
    frames.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    more = zmq_msg_more(&message);
    zmq_msg_close(&message);
  }
  return frames;
}

Message message_of(const Frames& frames) {
  if (frames.size() != 3 || frames[1].size() != 8) {
    ADD_FAILURE() << "a message of " << frames.size() << " frames";
    return {};
  }
  uint64_t number = 0;
  for (const char c : frames[1]) number = number << 8 | static_cast<unsigned char>(c);
  return {frames[0], number, frames[2]};
}

std::string big_endian(uint64_t number) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift);
  return out;
}

json decode(const std::string& payload) { return json::from_msgpack(payload.begin(), payload.end()); }

std::optional<std::vector<Message>> ask_replay(const std::string& endpoint, uint64_t from) {
  const Socket client(ZMQ_DEALER);
  client.set(ZMQ_RCVHWM, 0);
  client.connect(endpoint);
  client.send({"", big_endian(from)});
  std::vector<Message> answers;
  while (true) {
    Frames frames = client.receive();
    if (frames.empty()) return std::nullopt;
    EXPECT_EQ(frames[0], "");
    frames.erase(frames.begin());
    answers.push_back(message_of(frames));
    if (!answers.back().is_end()) continue;
    EXPECT_EQ(answers.back().topic, "");
    answers.pop_back();
    return answers;
  }
}

// Index ------------------------------------------------------------------------------------------------------------------------------

void apply(const std::string& payload, Index* index) {
  const json batch = decode(payload);
  for (const json& event : batch.at(1)) {
    const std::string type = event.at("type");
    if (type == "AllBlocksCleared") {
      index->clear();
      continue;
    }
    const uint64_t group = event.at("group_idx");
    const json& hashes = event.at("block_hashes");
    for (size_t i = 0; i < hashes.size(); ++i) {
      const std::pair<uint64_t, uint64_t> name(group, hashes[i].get<uint64_t>());
      if (type == "BlockRemoved") {
        index->erase(name);
        continue;
      }
      const size_t length = event.at("block_size");
      const auto tokens = event.at("token_ids").get<std::vector<int64_t>>();
      ASSERT_EQ(tokens.size(), length * hashes.size());
      (*index)[name].assign(tokens.begin() + static_cast<long>(i * length), tokens.begin() + static_cast<long>((i + 1) * length));
    }
  }
}

// Engine -----------------------------------------------------------------------------------------------------------------------------

namespace {

// Two full layers among windows, so that there are two groups.
constexpr const char* kModel =
    R"({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 6, "hidden_size": 64, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 320, "sliding_window": 48,
        "sliding_window_pattern": 3, "torch_dtype": "bfloat16"})";

void must(quire_code code, const quire_error& err) {
  if (code != QUIRE_OK) throw std::runtime_error(err.message);
}

}  // namespace

Engine::Engine(uint64_t ring_bytes, uint64_t pages, const char* model_json) {
  Error err;
  quire_runtime_options environment = QUIRE_INIT(quire_runtime_options);
  environment.header_abi = QUIRE_ABI_VERSION;
  environment.flags = QUIRE_RUNTIME_NO_ENV;
  quire_runtime* runtime = nullptr;
  must(quire_runtime_create(&environment, &runtime, &err), err);
  runtime_.reset(runtime);
  quire_model* model = nullptr;
  must(quire_model_from_json(str(model_json != nullptr ? model_json : kModel), &model, &err), err);
  model_.reset(model);
  quire_plan_options plan = QUIRE_INIT(quire_plan_options);
  plan.num_pages = pages;
  quire_config* config = nullptr;
  must(quire_config_create(model, &plan, &config, &err), err);
  config_.reset(config);
  quire_cache_options options = QUIRE_INIT(quire_cache_options);
  options.hash_seed = 1;
  quire_cache* cache = nullptr;
  must(quire_cache_create(runtime, config, &options, &cache, &err), err);
  cache_.reset(cache);
  quire_event_options events = QUIRE_INIT(quire_event_options);
  events.algorithm = QUIRE_HASH_SHA256_CBOR;
  events.ring_bytes = ring_bytes;
  must(quire_cache_enable_events(cache, &events, &err), err);
}

// One of eight beginnings, then a tail of its own.
std::vector<quire_symbol> Engine::prompt(std::mt19937_64* random) {
  const uint64_t family = (*random)() % 8, common = (*random)() % 160, tail = 1 + (*random)() % 120;
  std::vector<quire_symbol> prompt;
  for (uint64_t i = 0; i < common; ++i) prompt.push_back(family * 1000 + i);
  for (uint64_t i = 0; i < tail; ++i) prompt.push_back((*random)() % 100'000);
  return prompt;
}

void Engine::step(std::mt19937_64* random) {
  Error err;
  if ((*random)() % 50 == 0) return must(quire_cache_reset(cache(), &err), err);
  const std::vector<quire_symbol> prompt = Engine::prompt(random);
  quire_reserve_entry want = {};
  must(quire_sequence_create(cache(), nullptr, &want.sequence, &err), err);
  want.num_symbols = static_cast<uint32_t>(prompt.size());
  want.num_tokens = want.num_symbols;
  want.flags = QUIRE_ENTRY_MATCH;
  quire_reserve_result got = {};
  quire_step step = {};
  must(quire_reserve(cache(), &want, 1, prompt.data(), prompt.size(), &got, &step, &err), err);
  must(got.code, err);
  quire_commit_entry row = {};
  row.sequence = want.sequence;
  row.num_accepted = got.num_tokens;
  must(quire_commit(step, &row, 1, nullptr, 0, &err), err);
  must(quire_sequence_finish(cache(), want.sequence, &err), err);
}

Index Engine::index() const {
  Error err;
  std::vector<quire_event> events(4096);
  std::vector<uint64_t> data(1 << 18);
  quire_event_batch batch = QUIRE_INIT(quire_event_batch);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(data.data());
  must(quire_cache_snapshot_events(cache(), events.data(), events.size(), reinterpret_cast<uint8_t*>(data.data()), data.size() * 8, &batch,
                                   &err),
       err);
  Index index;
  for (uint64_t i = 0; i < batch.num_events; ++i) {
    const quire_event& e = events[i];
    const auto* const tokens = reinterpret_cast<const int64_t*>(bytes + e.tokens_offset);
    for (uint32_t k = 0; k < e.num_hashes; ++k) {
      uint64_t name = 0;
      for (uint32_t b = e.hash_bytes - 8; b < e.hash_bytes; ++b) name = name << 8 | bytes[e.hashes_offset + uint64_t{k} * e.hash_bytes + b];
      index[{e.group, name}].assign(tokens + size_t{k} * e.block_tokens, tokens + (size_t{k} + 1) * e.block_tokens);
    }
  }
  return index;
}

}  // namespace quire::wire
