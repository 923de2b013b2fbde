#include "core/step/pins.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/step/hits.h"

namespace quire {
namespace {

constexpr int64_t kNever = INT64_MAX;

Status no_pin(quire_pin_id id) {
  return fail(QUIRE_NOT_FOUND, "pin: %llu never was, was given up, or its time is over", static_cast<unsigned long long>(id));
}

}  // namespace

int64_t Pins::now() const {
  if (clock_ != nullptr) return clock_(clock_user_);
  struct timespec time {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Pins::Pin* Pins::find(quire_pin_id id) {
  const auto found = std::find_if(pins_.begin(), pins_.end(), [id](const Pin& p) { return p.id == id && id != 0; });
  return found == pins_.end() ? nullptr : &*found;
}

// A reference of somebody whose steps never touch the block.
void Pins::hold(PartIndex head) {
  budget_.set_pinned(head, true);
  pool_.ref(head);
}

// Whoever else has the block may have taken it over from a sequence whose last step is not done yet; who is alone with it has not.
void Pins::let_go(PartIndex head) {
  budget_.set_pinned(head, false);
  pool_.unref(head, pool_.refs(head) > 1 ? steps_.newest_id() : 0);
}

void Pins::end(Pin* pin) {
  for (const PartIndex head : pin->heads) let_go(head);
  index_.drop(pin->node);
  index_.close_root(pin->root);
  --num_;
  tokens_ -= pin->tokens;
  *pin = Pin{};
}

Status Pins::end(quire_pin_id id) {
  Pin* pin = find(id);
  if (pin == nullptr) return no_pin(id);
  end(pin);
  return {};
}

void Pins::end_all() {
  for (Pin& pin : pins_) {
    if (pin.id != 0) end(&pin);
  }
}

void Pins::end_those_before(int64_t time) {
  if (time < next_deadline_) return;
  next_deadline_ = kNever;
  for (Pin& pin : pins_) {
    if (pin.id == 0) continue;
    if (pin.deadline <= time) {
      end(&pin);
    } else {
      next_deadline_ = std::min(next_deadline_, pin.deadline);
    }
  }
}

Pins::Pin* Pins::softest() {
  Pin* softest = nullptr;
  for (Pin& pin : pins_) {
    if (pin.id == 0 || pin.loose || pin.priority == QUIRE_PIN_HARD) continue;
    if (softest == nullptr || std::pair(pin.priority, pin.id) < std::pair(softest->priority, softest->id)) softest = &pin;
  }
  return softest;
}

bool Pins::give_up_root() {
  using Rank = std::pair<uint32_t, quire_pin_id>;  // the lowest goes first
  uint32_t root = kNone;
  Rank softest{QUIRE_PIN_HARD, UINT64_MAX};
  for (const Pin& pin : pins_) {
    if (pin.id == 0) continue;
    Rank last{0, 0};  // of the root's pins
    uint32_t num = 0;
    for (const Pin& other : pins_) {
      if (other.id == 0 || other.root != pin.root) continue;
      last = std::max(last, Rank(other.priority, other.id));
      ++num;
    }
    if (num != index_.root_refs(pin.root) || last.first == QUIRE_PIN_HARD || last > softest) continue;
    softest = last;
    root = pin.root;
  }
  if (root == kNone) return false;
  for (Pin& pin : pins_) {
    if (pin.id == 0 || pin.root != root) continue;
    end(&pin);
    ++num_given_up_;
  }
  return true;
}

// A block that the index has forgotten is found by nobody: it would be free as soon as the pin let
// it go. A hit that lost a block is none any more. Its place in the index, which without blocks
// nobody counts, shrinks to what is left.
void Pins::drop_forgotten(Pin* pin) {
  const auto forgotten = [this](PartIndex head) {
    if (pool_.node(head).value != kNone) return false;
    let_go(head);
    return true;
  };
  const auto after = pin->heads.begin() + pin->num_after;
  const auto kept = std::remove_if(pin->heads.begin(), after, forgotten);
  pin->num_after = static_cast<uint32_t>(kept - pin->heads.begin());
  pin->heads.erase(kept, after);
  if (std::erase_if(pin->heads, forgotten) == 0) return;
  NodeId deepest = index_.root_node(pin->root);
  for (auto head = pin->heads.begin() + pin->num_after; head != pin->heads.end(); ++head) {
    const NodeId node = pool_.node(*head);
    if (index_.tokens(node) > index_.tokens(deepest)) deepest = node;
  }
  if (index_.tokens(deepest) >= index_.tokens(pin->node)) return;
  index_.move_hold(pin->node, deepest);
  pin->node = deepest;
}

void Pins::drop_forgotten() {
  for (Pin& pin : pins_) drop_forgotten(&pin);
}

bool Pins::loosen_softest() {
  Pin* pin = softest();
  if (pin == nullptr) return false;
  drop_forgotten(pin);
  for (const PartIndex head : pin->heads) let_go(head);
  pin->loose = true;
  return true;
}

void Pins::settle_loose(bool admitted) {
  for (Pin& pin : pins_) {
    if (!pin.loose) continue;
    pin.loose = false;
    for (const PartIndex head : pin.heads) hold(head);
    if (!admitted) continue;
    end(&pin);
    ++num_given_up_;
  }
}

Status Pins::check_quota(std::string_view salt, uint64_t tokens) const {
  if (quota_ == 0) return {};
  uint64_t held = 0;
  for (const Pin& pin : pins_) held += pin.id != 0 && pin.salt == salt ? pin.tokens : 0;
  if (held + tokens <= quota_) return {};
  return fail(QUIRE_RESOURCE_EXHAUSTED, "pin_quota_tokens: pins of this salt hold %llu of %llu, this one takes %llu",
              static_cast<unsigned long long>(held), static_cast<unsigned long long>(quota_), static_cast<unsigned long long>(tokens));
}

// What the hit's sequence would reference, and where drafts look ahead the blocks after it that make it a hit.
void Pins::collect(const Match& found, std::span<const quire_symbol> symbols, Pin* pin) const {
  const auto take = [pin](uint32_t, uint64_t, PartIndex head) { pin->heads.push_back(head); };
  uint64_t end = found.hit_tokens;
  const uint64_t unit = facts_.config->match_unit_tokens;
  // A hit drops what is left of the block that it ends in, and one block.
  const auto dropped = [&](uint32_t g) { return (facts_.groups[g].block.ceil(found.hit_tokens) + 1) * facts_.groups[g].block_tokens; };
  uint64_t last = end;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) last = std::max(last, facts_.groups[g].look_ahead > 0 ? dropped(g) : 0);
  for (NodeId n = found.node; end < last && symbols.size() - end >= unit;) {
    n = index_.child(n, symbols.subspan(end, unit));
    if (n.value == kNone) break;
    end += unit;
    for (uint32_t g = 0; g < facts_.num_groups; ++g) {
      const PartIndex head = index_.block_at(n, GroupId(g));
      // Where a group that needs everything loses a block, all goes that hangs below.
      const bool needed = facts_.groups[g].whole || (facts_.groups[g].look_ahead > 0 && end <= dropped(g));
      if (needed && head.value != kNone) take(g, end, head);
    }
  }
  std::reverse(pin->heads.begin(), pin->heads.end());
  pin->num_after = static_cast<uint32_t>(pin->heads.size());
  visit_hit(facts_, index_, found.node, found.hit_tokens, take);
  pin->heads.reserve(pin->heads.size() + (last - found.hit_tokens) / unit * facts_.num_groups);  // see hold_above_pinned
}

// What drafts wrote after the hit is published before the blocks of groups that need everything there. Whoever publishes these later would
// take it along when they are evicted: they are the pin's, too.
void Pins::hold_above_pinned(NodeId node, uint32_t group, PartIndex head) {
  if (!facts_.groups[group].whole) return;
  const uint64_t end = index_.tokens(node);
  for (Pin& pin : pins_) {
    if (pin.num_after == 0 || end <= pin.tokens || pin.heads.size() == pin.heads.capacity()) continue;
    const bool above = std::any_of(pin.heads.begin(), pin.heads.begin() + pin.num_after, [&](PartIndex held) {
      NodeId n = pool_.node(held);
      if (n.value == kNone || index_.tokens(n) <= end) return false;
      while (index_.tokens(n) > end) n = index_.parent(n);
      return n == node;
    });
    if (!above) continue;
    hold(head);
    pin.heads.push_back(head);
  }
}

Result<quire_pin_id> Pins::make(std::string_view identity, std::string_view salt, std::span<const quire_symbol> prompt,
                                const quire_pin_options& options, uint64_t* tokens) {
  if (!facts_.reuse) return fail(QUIRE_FAILED_PRECONDITION, "pin: the cache has no prefix reuse");
  end_overdue();
  const auto slot = std::find_if(pins_.begin(), pins_.end(), [](const Pin& p) { return p.id == 0; });
  if (slot == pins_.end()) return fail(QUIRE_RESOURCE_EXHAUSTED, "max_pins: all %zu are in use", pins_.size());
  Pin made;
  made.salt.assign(salt);
  made.root = index_.find_root(identity);
  Match found = index_.match(made.root, prompt);
  // Inside blocks of several sizes a hit depends on what hangs below and goes with others' blocks: a pin ends where all of them do.
  while (found.hit_tokens % facts_.pin_grid != 0) found = index_.match(made.root, prompt.first(found.hit_tokens));
  if (found.hit_tokens == 0) return fail(QUIRE_NOT_FOUND, "symbols: nothing of the prompt is cached");
  QUIRE_RETURN_IF_ERROR(check_quota(made.salt, found.hit_tokens));
  collect(found, prompt, &made);
  const int64_t time = options.duration_ns == 0 ? 0 : now();
  const bool ends = options.duration_ns != 0 && options.duration_ns < static_cast<uint64_t>(kNever - time);
  made.deadline = ends ? time + static_cast<int64_t>(options.duration_ns) : kNever;
  for (const PartIndex head : made.heads) hold(head);
  index_.ref_root(made.root);
  index_.hold(made.node = found.node);
  made.priority = options.priority;
  made.tokens = *tokens = found.hit_tokens;
  made.id = next_id_++;
  next_deadline_ = std::min(next_deadline_, made.deadline);
  ++num_;
  tokens_ += made.tokens;
  *slot = std::move(made);
  return slot->id;
}

Status Pins::info(quire_pin_id id, quire_pin_info* info) const {
  const Pin* pin = find(id);
  if (pin == nullptr) return no_pin(id);
  info->priority = pin->priority;
  info->tokens = pin->tokens;
  info->deadline_ns = pin->deadline;
  info->num_parts = 0;
  for (const PartIndex head : pin->heads) {
    for (PartIndex p = head; p.value != kNone; p = pool_.next_in_block(p)) ++info->num_parts;
  }
  return {};
}

void Pins::count_references(std::vector<uint32_t>* refs, std::vector<uint32_t>* holds) const {
  for (const Pin& pin : pins_) {
    if (pin.id != 0) ++(*holds)[pin.node.value];
    for (const PartIndex head : pin.heads) ++(*refs)[head.value];
  }
}

uint32_t Pins::holding(PartIndex head) const {
  uint32_t n = 0;
  for (const Pin& pin : pins_) n += static_cast<uint32_t>(std::count(pin.heads.begin(), pin.heads.end(), head));
  return n;
}

void Pins::report(quire_cache_stats* stats) const {
  stats->pins = num_;
  stats->pinned_tokens = tokens_;
  stats->pins_given_up = num_given_up_;
}

}  // namespace quire
