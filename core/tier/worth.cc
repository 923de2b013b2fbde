#include "core/tier/worth.h"

#include <algorithm>

namespace quire {
namespace {

constexpr double kWorth = 0.8;           // of the time to compute: what a fetch may take
constexpr double kBlindShare = 0.05;     // of it: for look-ups, and for loads until their progress decides
constexpr double kSlow = 2;              // of it: what is believed at most of a load that was given up
constexpr double kBlindDeadline = 10e9;  // ns, where nothing is known of the model
constexpr double kGrace = 50e6;
constexpr double kGrowing = 2;  // of the time to compute, where a peer computes
constexpr double kGrowingGrace = 1e9;
constexpr double kGrowingBlind = 60e9;

}  // namespace

double Worth::compute_ns(const Fetch& f, uint64_t boundary) const {
  return static_cast<double>(boundary - std::min(boundary, f.hit) + f.encoder_of_load()) * ns_per_token_;
}

double Worth::expected_ns(std::span<const uint64_t> bytes) const {
  double takes = 0;
  for (size_t t = 0; t < bytes.size(); ++t) {
    if (bytes[t] > 0) takes = std::max(takes, tiers_[t]->expected_ns(bytes[t]));
  }
  return takes;
}

double Worth::lookup_ns(const Fetch& f, uint64_t end) const { return is_known() ? kBlindShare * compute_ns(f, end) : kBlindDeadline; }

bool Worth::is_too_far(const Fetch& f, const Tier& tier, int64_t now) const {
  return is_known() && tier.latency_ns() > static_cast<double>(f.fair - now);
}

double Worth::saves(const Fetch& f, uint64_t boundary, std::span<const uint64_t> bytes) const {
  if (!is_known()) return static_cast<double>(boundary - f.hit);
  const double takes = expected_ns(bytes), computes = compute_ns(f, boundary);
  return takes < kWorth * computes ? computes - takes : 0;
}

void Worth::limit_load(Fetch* f, uint64_t boundary, std::span<const uint64_t> bytes, int64_t now) const {
  const double computes = compute_ns(*f, boundary), expected = expected_ns(bytes);
  bool has_speed = true, is_measured = true;
  for (size_t t = 0; t < bytes.size(); ++t) {
    has_speed = has_speed && (bytes[t] == 0 || tiers_[t]->expected_ns(bytes[t]) >= 0);
    is_measured = is_measured && (bytes[t] == 0 || tiers_[t]->is_measured());
  }
  double patience = kBlindShare * computes;
  if (is_measured) patience = std::max(patience, std::min(2 * expected, kWorth * computes));
  f->patience = later(0, patience);
  if (has_speed) f->fair = std::max(f->fair, later(now, 3 * expected + kGrace));
  if (!has_speed && is_known()) f->fair = std::max(f->fair, later(now, kWorth * computes));
}

double Worth::growing_ns(const Fetch& f, uint64_t boundary) const {
  return is_known() ? kGrowing * compute_ns(f, boundary) + kGrowingGrace : kGrowingBlind;
}

// Of the whole load, as it goes: what would take longer than computing is given up early enough.
int64_t Worth::too_slow_at(const Fetch& f) const {
  if (f.phase != FetchPhase::kLoading || !is_known() || f.bytes_wanted == 0 || f.awaits) return INT64_MAX;
  const double part = static_cast<double>(f.bytes_here) / static_cast<double>(f.bytes_wanted);
  return later(f.loading_since, std::max(static_cast<double>(f.patience), kWorth * compute_ns(f, f.boundary) * part));
}

void Worth::learn_from_slow(const Fetch& f, uint32_t tiers, int64_t now) const {
  if (f.bytes_wanted < Tier::kTellingBytes) return;
  const double most = kSlow * compute_ns(f, f.boundary) / static_cast<double>(f.bytes_wanted);
  for (size_t t = 0; t < tiers_.size(); ++t) {
    if ((tiers >> t & 1) != 0) tiers_[t]->saw_slow_load(f.bytes_of[t], now - f.loading_since, most);
  }
}

}  // namespace quire
