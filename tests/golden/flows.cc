// Short traces whose steps are published: the bytes must be upstream's. An allocation is a reserve whose tokens are committed at once.
#include "core/events/event_wire.h"
#include "tests/golden/replay_trace.h"

namespace quire::golden {
namespace {

class FlowReplay : public ReplayedCache {
 public:
  using ReplayedCache::ReplayedCache;

  // Empty: done, or not compared (then stopped() says why).
  std::string apply(const json& op) {
    const std::string name = op.at("op");
    try {
      if (name == "add" || name == "append") request_op(name, op);
      if (!stop_) cache_op(name, op);
    } catch (const Difference& difference) {
      return name + ": " + difference.what;
    }
    return {};
  }
  const std::optional<Stop>& stopped() const { return stop_; }

  // The events since the last time, as they are published.
  std::string publish(double time) {
    const Told t = told();
    std::vector<WireEvent> wire;
    for (const quire_event& e : t.events) wire.push_back(wire_of(e, t.data.data(), !config_.value("int_hashes", true)));
    std::string bytes;
    encode_batch(time, wire, 0, &bytes);
    return t.events.empty() ? std::string() : hex_of({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }

 private:
  void cache_op(const std::string& name, const json& op) {
    if (pictures_) {
      stop_ = Stop{End::kMedia, "events of a picture"};
    } else if (name == "alloc") {
      allocate(op);
    } else if (name == "free") {
      Request& r = requests_[op.at("r")];
      const Status ok = cache_->sequence_finish(*r.sequence);
      require(ok.ok(), ok.message());
      r.sequence.reset();
    } else if (name == "reset") {
      const Status ok = cache_->reset();
      require(ok.ok(), ok.message());
    } else if (name == "evict") {
      stop_ = Stop{End::kForgotten, "a block that is named by upstream's number"};
    }
  }

  void allocate(const json& op) {
    Request& r = requests_[op.at("r")];
    if (!r.sequence) {
      const quire_identity identity = identity_of(r);
      auto made = cache_->sequence_create(&identity);
      require(made.ok(), made.status().message());
      r.sequence = *made;
    }
    const uint64_t computed = op.value("c", uint64_t{0}), end = computed + op.at("new").get<uint64_t>();
    const auto symbols = symbols_of(r);
    quire_reserve_entry entry{};
    entry.sequence = r.sequence->value;
    entry.symbols_position = entry.symbols_offset = computed;
    entry.num_symbols = entry.num_tokens = static_cast<uint32_t>(end - computed);
    entry.flags = QUIRE_ENTRY_NO_STOP | (partial_ && end == r.prompt / unit_ * unit_ ? QUIRE_ENTRY_KEEP_STATE : 0U);
    quire_reserve_result result{};
    StepId step;
    const Status reserved = cache_->reserve({&entry, 1}, symbols, {&result, 1}, &step);
    require(reserved.ok() && result.code == QUIRE_OK, "reserve: " + reserved.message());
    quire_commit_entry done{};
    done.sequence = entry.sequence;
    done.num_accepted = entry.num_tokens;
    const Status committed = cache_->commit(step, {&done, 1}, {});
    require(committed.ok(), committed.message());
  }
};

}  // namespace

// A short trace whose steps are published, byte for byte.
Outcome check_flow(const json& test) {
  const json& config = test.at("config");
  const size_t groups = config.at("groups").size();
  const json alignment = groups > 1 ? config.at("scheduler_block_size") : json();
  FlowReplay replay({{"config", config}, {"res", {{"eagle_groups", json::array()}, {"alignment", alignment}, {"watermark_blocks", 0}}}});
  for (const json& step : test.at("steps")) {
    for (const json& op : step.at("ops")) {
      const std::string difference = replay.apply(op);
      if (!difference.empty()) return {difference, {}};
      if (!replay.stopped()) continue;
      const bool numbered = replay.stopped()->end != End::kNotOffered;
      const std::string number =
          numbered ? "difference " + std::to_string(static_cast<int>(replay.stopped()->end)) + ": " : "not offered: ";
      return {{}, number + replay.stopped()->reason};
    }
    const std::string expected = step.contains("published") ? step.at("published").at("msgpack_hex").get<std::string>() : "";
    const std::string is = replay.publish(step.contains("published") ? step.at("published").at("ts").get<double>() : 0);
    // Difference 10: of hashes that do not cover their tokens.
    const json told = step.value("events", json::array());
    const bool covered = std::all_of(told.begin(), told.end(), [](const json& e) {
      return e.at("type") != "BlockStored" || e.at("block_hashes").size() * e.at("block_size").get<size_t>() == e.at("token_ids").size();
    });
    if (expected != is && !covered) return {{}, "difference 10: one event tells tokens of blocks that it does not name"};
    if (expected != is) return {"published: expected " + expected + ", is " + is, {}};
  }
  return {};
}

}  // namespace quire::golden
