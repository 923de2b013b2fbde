// Pins of a random engine: what is pinned stays findable, soft pins go only to make room for somebody, the softest first.
#include <algorithm>
#include <map>

#include "tests/model/random_engine.h"

namespace quire::model {

bool Engine::pinned_hard() const {
  return std::any_of(pins_.begin(), pins_.end(), [](const PinnedText& pin) { return pin.priority == QUIRE_PIN_HARD; });
}

// Hits may end inside blocks of several sizes: pins end where all of those do.
bool Engine::inside_several() const {
  uint32_t size = 0;
  bool several = false;
  for (const GroupSketch& g : shape_.groups) {
    if (!g.live.everything() || g.live.state) continue;
    several = several || (size != 0 && size != g.block_tokens);
    size = g.block_tokens;
  }
  return several && shape_.alignment != 0;
}

// Text that was computed lately, or is being computed: perhaps all of it is cached, perhaps a part or nothing.
void Engine::pin() {
  PinnedText pin;
  if (!history_.empty() && chance(rng_, 60)) {
    const auto& [tenant, tokens] = history_[pick(rng_, history_.size())];
    pin.tenant = tenant;
    pin.tokens = tokens;
  } else if (!requests_.empty()) {
    const Request& r = requests_[pick(rng_, requests_.size())];
    pin.tenant = r.tenant;
    pin.tokens.assign(r.tokens.begin(), r.tokens.begin() + static_cast<long>(r.committed));
  }
  pin.tokens.resize(pin.tokens.size() - (chance(rng_, 30) ? pick(rng_, pin.tokens.size() + 1) : 0));
  pin.priority = chance(rng_, 20) ? QUIRE_PIN_HARD : static_cast<uint32_t>(pick(rng_, 3));
  quire_pin_options options{};
  options.struct_size = sizeof options;
  options.priority = pin.priority;
  const quire_identity identity = identity_of(pin.tenant, 0);
  uint64_t tokens = 0;
  auto made = cache_->pin(&identity, pin.tokens, options, &tokens);
  trace("pin %zu tokens of tenant %u, priority %u: %d, %llu tokens\n", pin.tokens.size(), pin.tenant, pin.priority,
        made.ok() ? 0 : made.status().code(), (unsigned long long)tokens);
  if (!made.ok()) {
    const quire_code code = made.status().code();
    const bool full = pins_.size() == kMostPins;
    const quire_code wanted = shape_.encoder > 0 ? QUIRE_FAILED_PRECONDITION : full ? QUIRE_RESOURCE_EXHAUSTED : QUIRE_NOT_FOUND;
    MODEL_REQUIRE(code == wanted, made.status().message());
    // Nothing to pin means that nothing would be hit either.
    pin.tokens.push_back(0);
    MODEL_REQUIRE(full || inside_several() || probed(pin) == 0, "nothing was pinned of a prompt that is hit");
    note(kFailure);
    return;
  }
  MODEL_REQUIRE(tokens > 0 && tokens <= pin.tokens.size() && tokens % config_->hit_alignment_tokens == 0, "pinned tokens");
  pin.id = *made;
  pin.length = tokens;
  pins_.push_back(std::move(pin));
  note(kPin);
}

uint64_t Engine::probed(const PinnedText& pin) const {
  const quire_identity identity = identity_of(pin.tenant, 0);
  quire_probe_result result{};
  require_ok(cache_->probe(&identity, pin.tokens, &result), "probe");
  return result.hit_tokens;
}

void Engine::unpin(size_t i) {
  require_ok(cache_->unpin(pins_[i].id), "unpin");
  MODEL_REQUIRE(cache_->unpin(pins_[i].id).code() == QUIRE_NOT_FOUND, "unpinned twice");
  pins_.erase(pins_.begin() + static_cast<long>(i));
}

void Engine::unpin_all() {
  while (!pins_.empty()) unpin(pins_.size() - 1);
}

// After a reserve. Of what was given up nothing is softer or older than what is left, and nothing is given up for nobody.
void Engine::note_given_up(bool somebody_was_admitted) {
  std::pair<uint32_t, quire_pin_id> hardest{0, 0}, softest{QUIRE_PIN_HARD, 0};
  uint64_t gone = 0;
  std::erase_if(pins_, [&](const PinnedText& pin) {
    quire_pin_info info{};
    const bool lives = cache_->pin_info(pin.id, &info).ok();
    const std::pair<uint32_t, quire_pin_id> rank{pin.priority, pin.id};
    if (lives) {
      MODEL_REQUIRE(info.tokens == pin.length && info.priority == pin.priority, "what a pin says of itself");
      softest = std::min(softest, rank);
    } else {
      hardest = std::max(hardest, rank);
      ++gone;
    }
    return !lives;
  });
  expected_.pins_given_up += gone;
  MODEL_REQUIRE(gone == 0 || somebody_was_admitted, "pins were given up for nobody");
  MODEL_REQUIRE(gone == 0 || hardest < softest, "a harder pin was given up before a softer one");
}

// After a sequence was asked for, whose identity may be new. Pins go of one identity only, which no sequence has and whose hardest pin is
// softer than that of any other such identity; and while there is one nobody is refused.
void Engine::note_root_given_up(bool refused) {
  std::map<uint32_t, std::pair<uint32_t, quire_pin_id>> hardest;
  std::map<uint32_t, uint64_t> gone;
  for (const PinnedText& pin : pins_) {
    hardest[pin.tenant] = std::max(hardest[pin.tenant], std::pair(pin.priority, pin.id));
    quire_pin_info info{};
    if (!cache_->pin_info(pin.id, &info).ok()) ++gone[pin.tenant];
  }
  for (const Request& r : requests_) hardest.erase(r.tenant);
  std::erase_if(hardest, [](const auto& of) { return of.second.first == QUIRE_PIN_HARD; });
  MODEL_REQUIRE(!refused || hardest.empty(), "refused while soft pins alone held an identity");
  if (gone.empty()) return;
  const auto [tenant, count] = *gone.begin();
  MODEL_REQUIRE(!refused && gone.size() == 1 && hardest.contains(tenant), "pins were given up that free no identity");
  for (const auto& [other, rank] : hardest) {
    MODEL_REQUIRE(other == tenant || hardest[tenant] < rank, "an identity with a harder pin was given up before a softer one");
  }
  const uint64_t pins = std::erase_if(pins_, [tenant = tenant](const PinnedText& pin) { return pin.tenant == tenant; });
  MODEL_REQUIRE(pins == count, "some pins of an identity were given up and some were not");
  expected_.pins_given_up += count;
}

void Engine::check_pins() const {
  // What makes a hit of it where drafts write ahead is behind it.
  const bool drafts = std::any_of(shape_.groups.begin(), shape_.groups.end(), [](const GroupSketch& g) { return g.look_ahead != 0; });
  for (const PinnedText& pin : pins_) {
    if (pin.forgotten) continue;
    PinnedText longer = pin;
    if (!drafts) longer.tokens.resize(pin.length);
    longer.tokens.push_back(0);
    MODEL_REQUIRE(probed(longer) >= pin.length,
                  "pin " + std::to_string(pin.id) + " of " + std::to_string(pin.length) + " tokens, hit " + std::to_string(probed(longer)));
  }
}

}  // namespace quire::model
