// Bytes of the growing structs in the oldest headers that are still accepted. A field appended later leaves callers of those headers legal:
// what they do not know is read as zero and not written. Written by tests/abi/freeze.sh; structs that are not listed are as small as they
// are today.
#pragma once

#include <quire/connector.h>
#include <quire/quire.h>
#include <quire/session.h>
#include <quire/tier.h>

namespace quire::c_api {

template <typename T>
inline constexpr uint32_t kFirstBytes = sizeof(T);

#define QUIRE_FIRST(type, bytes)                       \
  template <>                                          \
  inline constexpr uint32_t kFirstBytes<type> = bytes; \
  static_assert(sizeof(type) >= (bytes), "structs only grow")
// list
QUIRE_FIRST(quire_runtime_options, 144);
QUIRE_FIRST(quire_probe_info, 568);
QUIRE_FIRST(quire_cache_options, 112);
QUIRE_FIRST(quire_identity, 56);
QUIRE_FIRST(quire_capacity, 80);
QUIRE_FIRST(quire_sequence_info, 56);
QUIRE_FIRST(quire_probe_result, 24);
QUIRE_FIRST(quire_cache_stats, 424);
QUIRE_FIRST(quire_plan_options, 184);
QUIRE_FIRST(quire_config_info, 112);
QUIRE_FIRST(quire_group_info, 112);
QUIRE_FIRST(quire_layer_place, 24);
QUIRE_FIRST(quire_kv_view, 240);
QUIRE_FIRST(quire_state_view, 176);
QUIRE_FIRST(quire_region_info, 40);
QUIRE_FIRST(quire_segment_query, 40);
QUIRE_FIRST(quire_compatibility, 256);
QUIRE_FIRST(quire_lowering, 48);
QUIRE_FIRST(quire_connector_info, 48);
QUIRE_FIRST(quire_connector_health, 48);
QUIRE_FIRST(quire_connector_stats, 904);
QUIRE_FIRST(quire_hash_options, 136);
QUIRE_FIRST(quire_event_options, 32);
QUIRE_FIRST(quire_event_batch, 40);
QUIRE_FIRST(quire_event_encoding, 56);
QUIRE_FIRST(quire_extension_info, 64);
QUIRE_FIRST(quire_hold_info, 32);
QUIRE_FIRST(quire_unit_options, 24);
QUIRE_FIRST(quire_device_info, 200);
QUIRE_FIRST(quire_export, 40);
QUIRE_FIRST(quire_layer, 344);
QUIRE_FIRST(quire_model_info, 88);
QUIRE_FIRST(quire_kv_append, 488);
QUIRE_FIRST(quire_attention, 664);
QUIRE_FIRST(quire_attention_merge, 248);
QUIRE_FIRST(quire_gated_delta, 800);
QUIRE_FIRST(quire_conv1d, 568);
QUIRE_FIRST(quire_selective_scan, 1136);
QUIRE_FIRST(quire_pin_options, 16);
QUIRE_FIRST(quire_pin_info, 32);
QUIRE_FIRST(quire_session_options, 40);
QUIRE_FIRST(quire_session_info, 56);
QUIRE_FIRST(quire_step_info, 32);
QUIRE_FIRST(quire_batch, 144);
QUIRE_FIRST(quire_batch_options, 48);
QUIRE_FIRST(quire_fill, 72);
QUIRE_FIRST(quire_tiers_options, 96);
QUIRE_FIRST(quire_tier_stats, 176);
QUIRE_FIRST(quire_tiers_stats, 416);
QUIRE_FIRST(quire_record_info, 232);
#undef QUIRE_FIRST

}  // namespace quire::c_api
