// Pins: prefixes that eviction passes by. A pin is a set of references without a sequence; no step ever reads or writes through it, so it
// comes and goes without fences. Soft pins are given up where an admission would be refused otherwise: their references go one pin after
// the other until there is room, and come back where there is none even so, for a refused entry changes nothing.
#include <algorithm>
#include <ctime>
#include <mutex>

#include "core/prefix/identity.h"
#include "core/step/hits.h"
#include "core/step/state.h"

namespace quire {
namespace {

constexpr int64_t kNever = INT64_MAX;

Status no_pin(quire_pin_id id) {
  return fail(QUIRE_NOT_FOUND, "pin: %llu never was, was given up, or its time is over", static_cast<unsigned long long>(id));
}

}  // namespace

void Cache::set_clock(quire_clock_fn clock, void* user) {
  impl_->clock = clock;
  impl_->clock_user = user;
}

int64_t Cache::Impl::now() const {
  if (clock != nullptr) return clock(clock_user);
  struct timespec time {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Pin* Cache::Impl::find_pin(quire_pin_id id) {
  const auto found = std::find_if(pins.begin(), pins.end(), [id](const Pin& p) { return p.id == id && id != 0; });
  return found == pins.end() ? nullptr : &*found;
}

// Whoever else has the block may have taken it over from a sequence whose last step is not done yet; who is alone with it has not.
void Cache::Impl::unhold(PartIndex head) {
  pin_state(head, false);
  pool.unref(head, pool.refs(head) > 1 ? steps.newest_id() : 0);
}

void Cache::Impl::hold(PartIndex head) {
  pin_state(head, true);
  pool.ref(head);
}

void Cache::Impl::end_pin(Pin* pin) {
  for (const PartIndex head : pin->heads) unhold(head);
  index.drop(pin->node);
  index.close_root(pin->root);
  --counters.pins;
  counters.pinned_tokens -= pin->tokens;
  *pin = Pin{};
}

void Cache::Impl::end_overdue_pins() {
  if (next_deadline == kNever) return;
  const int64_t time = now();
  if (time < next_deadline) return;
  next_deadline = kNever;
  for (Pin& pin : pins) {
    if (pin.id == 0) continue;
    if (pin.deadline <= time) {
      end_pin(&pin);
    } else {
      next_deadline = std::min(next_deadline, pin.deadline);
    }
  }
}

Pin* Cache::Impl::softest_pin() {
  Pin* softest = nullptr;
  for (Pin& pin : pins) {
    if (pin.id == 0 || pin.loose || pin.priority == QUIRE_PIN_HARD) continue;
    if (softest == nullptr || std::pair(pin.priority, pin.id) < std::pair(softest->priority, softest->id)) softest = &pin;
  }
  return softest;
}

// A block that the index has forgotten is found by nobody: it would be free as soon as the pin let it go.
void Cache::Impl::drop_forgotten(Pin* pin) {
  const auto forgotten = [this](PartIndex head) {
    if (pool.node(head).value != kNone) return false;
    unhold(head);
    return true;
  };
  const auto behind = pin->heads.begin() + pin->num_behind;
  const auto kept = std::remove_if(pin->heads.begin(), behind, forgotten);
  pin->num_behind = static_cast<uint32_t>(kept - pin->heads.begin());
  pin->heads.erase(kept, behind);
  std::erase_if(pin->heads, forgotten);
}

void Cache::Impl::loosen(Pin* pin) {
  drop_forgotten(pin);
  for (const PartIndex head : pin->heads) unhold(head);
  pin->loose = true;
}

quire_code Cache::Impl::admit(const quire_reserve_entry& entry, Intent* intent, quire_reserve_result* result) {
  quire_code code = admit_unpinned(entry, intent, result);
  if (code == QUIRE_OK || counters.pins == 0) return code;
  for (Pin* pin = softest_pin(); code != QUIRE_OK && pin != nullptr; pin = softest_pin()) {
    loosen(pin);
    intent->give_up = false;
    code = admit_unpinned(entry, intent, result);
  }
  intent->held = code == QUIRE_OK && intent->match;
  if (intent->held) index.hold(intent->found.node);
  for (Pin& pin : pins) {
    if (!pin.loose) continue;
    pin.loose = false;
    for (const PartIndex head : pin.heads) hold(head);
    if (code != QUIRE_OK) continue;
    end_pin(&pin);
    ++counters.pins_given_up;
  }
  return code;
}

Status Cache::Impl::check_quota(std::string_view salt, uint64_t tokens) const {
  if (pin_quota == 0) return {};
  uint64_t held = 0;
  for (const Pin& pin : pins) held += pin.id != 0 && pin.salt == salt ? pin.tokens : 0;
  if (held + tokens <= pin_quota) return {};
  return fail(QUIRE_RESOURCE_EXHAUSTED, "pin_quota_tokens: pins of this salt hold %llu of %llu, this one takes %llu",
              static_cast<unsigned long long>(held), static_cast<unsigned long long>(pin_quota), static_cast<unsigned long long>(tokens));
}

// What the hit's sequence would reference, and where drafts look ahead the blocks behind it that make it a hit.
void Cache::Impl::hold_for_pin(const Match& found, std::span<const quire_symbol> symbols, Pin* pin) {
  Intent intent;
  intent.found = found;
  intent.position = found.hit_tokens;
  const auto take = [pin](uint32_t, uint64_t, PartIndex head) { pin->heads.push_back(head); };
  uint64_t end = found.hit_tokens;
  const uint64_t unit = facts.config->match_unit_tokens;
  // A hit drops what is left of the block that it ends in, and one block.
  const auto dropped = [&](uint32_t g) { return (facts.groups[g].block.ceil(found.hit_tokens) + 1) * facts.groups[g].block_tokens; };
  uint64_t last = end;
  for (uint32_t g = 0; g < facts.num_groups; ++g) last = std::max(last, facts.groups[g].look_ahead > 0 ? dropped(g) : 0);
  for (NodeId n = found.node; end < last && symbols.size() - end >= unit;) {
    n = index.child(n, symbols.subspan(end, unit));
    if (n.value == kNone) break;
    end += unit;
    for (uint32_t g = 0; g < facts.num_groups; ++g) {
      const PartIndex head = index.block_at(n, GroupId(g));
      // Where a group that needs everything loses a block, all goes that hangs below.
      const bool needed = facts.groups[g].whole || (facts.groups[g].look_ahead > 0 && end <= dropped(g));
      if (needed && head.value != kNone) take(g, end, head);
    }
  }
  std::reverse(pin->heads.begin(), pin->heads.end());
  pin->num_behind = static_cast<uint32_t>(pin->heads.size());
  visit_hit(intent, take);
  pin->heads.reserve(pin->heads.size() + (last - found.hit_tokens) / unit * facts.num_groups);  // see hold_above_pinned
}

// What drafts wrote behind the hit is published before the blocks of groups that need everything there. Whoever publishes these later would
// take it along when they are evicted: they are the pin's, too.
void Cache::Impl::hold_above_pinned(NodeId node, uint32_t group, PartIndex head) {
  if (!facts.groups[group].whole) return;
  const uint64_t end = index.tokens(node);
  for (Pin& pin : pins) {
    if (pin.num_behind == 0 || end <= pin.tokens || pin.heads.size() == pin.heads.capacity()) continue;
    const bool above = std::any_of(pin.heads.begin(), pin.heads.begin() + pin.num_behind, [&](PartIndex held) {
      NodeId n = pool.node(held);
      if (n.value == kNone || index.tokens(n) <= end) return false;
      while (index.tokens(n) > end) n = index.parent(n);
      return n == node;
    });
    if (!above) continue;
    hold(head);
    pin.heads.push_back(head);
  }
}

Result<quire_pin_id> Cache::pin(const quire_identity* identity, std::span<const quire_symbol> symbols, const quire_pin_options& options,
                                uint64_t* tokens) {
  auto encoded = Identity::encode(identity);
  if (!encoded.ok()) return encoded.take_status();
  if (options.priority > QUIRE_PIN_HARD) return invalid("options.priority: %u, at most %u", options.priority, QUIRE_PIN_HARD);
  Pin made;
  if (identity != nullptr) made.salt.assign(identity->salt.data, identity->salt.len);
  // A match leaves a token to compute; a pin may hold all of them.
  std::vector<quire_symbol> prompt(symbols.begin(), symbols.end());
  prompt.push_back(0);
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (!m.facts.reuse) return fail(QUIRE_FAILED_PRECONDITION, "pin: the cache has no prefix reuse");
  m.end_overdue_pins();
  const auto slot = std::find_if(m.pins.begin(), m.pins.end(), [](const Pin& p) { return p.id == 0; });
  if (slot == m.pins.end()) return fail(QUIRE_RESOURCE_EXHAUSTED, "max_pins: all %zu are in use", m.pins.size());
  made.root = m.index.find_root(encoded->bytes());
  Match found = m.index.match(made.root, prompt);
  // Inside blocks of several sizes a hit depends on what hangs below and goes with others' blocks: a pin ends where all of them do.
  while (found.hit_tokens % m.facts.pin_grid != 0) found = m.index.match(made.root, std::span(prompt).first(found.hit_tokens));
  if (found.hit_tokens == 0) return fail(QUIRE_NOT_FOUND, "symbols: nothing of the prompt is cached");
  QUIRE_RETURN_IF_ERROR(m.check_quota(made.salt, found.hit_tokens));
  m.hold_for_pin(found, prompt, &made);
  const int64_t time = options.duration_ns == 0 ? 0 : m.now();
  const bool ends = options.duration_ns != 0 && options.duration_ns < static_cast<uint64_t>(kNever - time);
  made.deadline = ends ? time + static_cast<int64_t>(options.duration_ns) : kNever;
  for (const PartIndex head : made.heads) m.hold(head);
  m.index.ref_root(made.root);
  m.index.hold(made.node = found.node);
  made.priority = options.priority;
  made.tokens = *tokens = found.hit_tokens;
  made.id = m.next_pin++;
  m.next_deadline = std::min(m.next_deadline, made.deadline);
  ++m.counters.pins;
  m.counters.pinned_tokens += made.tokens;
  *slot = std::move(made);
  return slot->id;
}

Status Cache::unpin(quire_pin_id id) {
  std::unique_lock lock(impl_->mutex);
  impl_->end_overdue_pins();
  Pin* pin = impl_->find_pin(id);
  if (pin == nullptr) return no_pin(id);
  impl_->end_pin(pin);
  return {};
}

Status Cache::pin_info(quire_pin_id id, quire_pin_info* info) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  m.end_overdue_pins();
  const Pin* pin = m.find_pin(id);
  if (pin == nullptr) return no_pin(id);
  info->priority = pin->priority;
  info->tokens = pin->tokens;
  info->deadline_ns = pin->deadline;
  info->num_parts = 0;
  for (const PartIndex head : pin->heads) {
    for (PartIndex p = head; p.value != kNone; p = m.pool.next_in_block(p)) ++info->num_parts;
  }
  return {};
}

}  // namespace quire
