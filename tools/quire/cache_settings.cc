#include "quire/cache_settings.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <iterator>

#include "client/client.h"
#include "quire/option_values.h"

namespace quire::tools {
namespace {

struct KeepKind {
  const char* name;
  uint32_t flag;
};
constexpr KeepKind kKeepKinds[] = {{"every", QUIRE_KEEP_EVERY},
                                   {"chunk-end", QUIRE_KEEP_CHUNK_END},
                                   {"prompt-end", QUIRE_KEEP_PROMPT_END},
                                   {"junction", QUIRE_KEEP_JUNCTION},
                                   {"asked", QUIRE_KEEP_ASKED}};

uint32_t kept_of(const std::string& text) {
  uint32_t out = 0;
  for (const std::string& item : list_of("--keep", text)) {
    const auto* const found =
        std::find_if(std::begin(kKeepKinds), std::end(kKeepKinds), [&item](const KeepKind& one) { return item == one.name; });
    if (found == std::end(kKeepKinds)) {
      throw CLI::ValidationError("--keep", "'" + item + "'; must be some of every, chunk-end, prompt-end, junction, asked");
    }
    out |= found->flag;
  }
  return out;
}

uint64_t bytes_of(const std::string& text) {
  const std::vector<uint64_t> sizes = sizes_of("--checkpoint-bytes", text);
  if (sizes.size() != 1) throw CLI::ValidationError("--checkpoint-bytes", "'" + text + "'; must be one size");
  return sizes[0];
}

}  // namespace

void add_cache_settings(CLI::App* command, CacheSettings* settings) {
  command->add_option_function<std::string>(
      "--keep", [settings](const std::string& text) { settings->keep_states = kept_of(text); },
      "where a sequence can be resumed, with commas: every (multiples of --checkpoint-interval), chunk-end, prompt-end, junction (where "
      "requests diverged), asked (none: a replay asks for none); all but chunk-end when absent, with --strict-lru all");
  command
      ->add_option("--checkpoint-interval", settings->checkpoint_interval,
                   "tokens between kept states, and between windows of models without states; the library's choice when absent")
      ->check(whole(1, UINT32_MAX));
  command->add_option_function<std::string>(
      "--checkpoint-bytes", [settings](const std::string& text) { settings->checkpoint_bytes = bytes_of(text); },
      "bytes that checkpoints may take at most per shard, e.g. 1.5GiB; a share of the pool that is learned when absent");
  command->add_flag("--two-states", settings->two_states,
                    "two states per running sequence: a step reads one and writes the other; else it writes in place");
  command->add_flag("--strict-lru", settings->strict_lru, "evict by last use alone");
}

quire_cache_options options_of(const CacheSettings& settings) {
  auto options = client::sized<quire_cache_options>();
  options.keep_states = settings.keep_states;
  options.checkpoint_interval = settings.checkpoint_interval;
  options.checkpoint_bytes = settings.checkpoint_bytes;
  options.flags = (settings.two_states ? 0 : QUIRE_CACHE_STATES_IN_PLACE) | (settings.strict_lru ? QUIRE_CACHE_STRICT_LRU : 0);
  return options;
}

}  // namespace quire::tools
