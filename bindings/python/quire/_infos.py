"""What quire's calls answer, as objects. Made by abi/generate.py from abi/include/quire: change the headers, not this file."""
from typing import Optional, Tuple

from ._core import DType, Info
from ._numbers import Code, Codec, CompatLevel, ConnectorState, DeviceType, FetchOutcome, FieldRole, Miss, OfferField


class ModelInfo(Info):
    """Facts of a model.

    - num_layers: of the model, including layers without a cache
    - num_caches: entries that quire_model_get_layer can return
    - num_q_heads: 0 = differs between layers, or unknown
    - max_model_len: tokens; 0 = unknown
    - architecture: NUL terminated
    """

    _struct = "quire_model_info"
    num_layers: int
    num_caches: int
    num_q_heads: int
    max_model_len: int
    architecture: str


class ConfigInfo(Info):
    """The whole plan.

    - num_groups
    - num_shards
    - match_unit_tokens: The unit of the prefix index. Hits are multiples of the least common
      multiple of the blocks.
    - num_pages: the null page included
    - max_model_len
    - padding_share: 1 - payload / page bytes, of the worst group
    - capacity_tokens: Longest single sequence that always fits in a cache with default options, at
      most max_model_len. quire_config_get_capacity answers for other options.
    - policy
    - layout: order of the first group that has tokens
    """

    _struct = "quire_config_info"
    num_groups: int
    num_shards: int
    match_unit_tokens: int
    num_pages: int
    max_model_len: int
    padding_share: float
    capacity_tokens: int
    policy: str
    layout: str


class GroupInfo(Info):
    """One group.

    - group
    - is_state: 1 = recurrent states: slots instead of a token table
    - block_tokens: tokens of a block; states: distance between boundaries
    - kernel_block_tokens: tokens that one lowered id covers
    - kernel_blocks_per_part: lowered ids per id; 1 for states
    - parts_per_page
    - ids_per_block: columns of the table
    - num_lanes
    - num_caches: layers and subs in the group
    - sink_tokens: tokens at the start that stay live
    - window: live tail; 0 = everything
    - chunk: live since the last multiple of it; 0 = none
    - payload_bytes_per_block: All lanes. Of the shard with the most padding among those with layers
      of the group.
    - page_bytes_per_block: Share of the page bytes that one block takes, including padding. Of the
      same shard.
    - look_ahead: tokens
    - flags
    - encoder_tokens: Cross attention: maximum encoder tokens of a sequence. 0 = another kind of
      group.
    - table_pitch: Lowered ids in the table row of the longest sequence, look-ahead included.
      States: 0.
    - checkpoint_interval: States: tokens between the checkpoints of a cache that chooses no
      interval of its own. 0 = the plan has none; checkpoint_interval of
      quire_cache_options says what follows.
    """

    _struct = "quire_group_info"
    group: int
    is_state: int
    block_tokens: int
    kernel_block_tokens: int
    kernel_blocks_per_part: int
    parts_per_page: int
    ids_per_block: int
    num_lanes: int
    num_caches: int
    sink_tokens: int
    window: int
    chunk: int
    payload_bytes_per_block: int
    page_bytes_per_block: int
    look_ahead: int
    flags: int
    encoder_tokens: int
    table_pitch: int
    checkpoint_interval: int


class LayerPlace(Info):
    """Where one cached layer is placed.

    - group
    - column: index of the id of a block that addresses the layer
    - lane
    - index_in_lane
    - pipeline_stage
    """

    _struct = "quire_layer_place"
    group: int
    column: int
    lane: int
    index_in_lane: int
    pipeline_stage: int


class CodecParams(Info):
    """Parameters of a codec, in addition to heads, widths and dtype. Index 0 is K (or the only
    side), 1 is V. RECORD and BLOCK_SPLIT need data_bytes; head_dim and dtype are then those of
    the decoded elements.

    - data_bytes: Of a cell: the encoded elements. RECORD and BLOCK_SPLIT only.
    - scale_bytes: Of a cell: its scales. RECORD and BLOCK_SPLIT only. 0 = none inside the cache.
    - tail_bytes: Of a cell: elements kept in tail_dtype, such as rope. RECORD and BLOCK_SPLIT only.
    - data_dtype: encoded elements, including fp4; all zero = dtype of the layer
    - scale_dtype: all zero = none
    - tail_dtype: all zero = none
    - scale_elements: elements that share a scale; 0 = all of a cell
    - tile: Elements. TILED and SHUFFLED: 0 = 16 / bytes of an element.
    - block_alignment: bytes of a block are rounded up to this; 0 = 1
    """

    _struct = "quire_codec_params"
    data_bytes: Tuple[int, ...]
    scale_bytes: Tuple[int, ...]
    tail_bytes: Tuple[int, ...]
    data_dtype: DType
    scale_dtype: DType
    tail_dtype: DType
    scale_elements: int
    tile: int
    block_alignment: int


class KVView(Info):
    """Strided description of the token cache of one layer in one shard. Index 0 is K (or the only
    side), 1 is V. Address of (lowered id i, token t, head h, element d) on side s: region base
    + offset[s] + i * unit[s] + t * stride_token[s] + h * stride_head[s] + d * stride_dim[s]
    (all bytes) Address by (page b, kernel block j of the page): ... + b * stride_page[s] + j *
    stride_block[s] instead of i * unit[s].

    - group
    - column
    - region
    - num_sides: 1 or 2
    - num_heads: KV heads of this shard
    - head_dim: elements
    - block_tokens: rows that one lowered id covers
    - blocks_per_page: kernel blocks of a page
    - dtype
    - codec
    - num_pages
    - offset
    - stride_page
    - stride_block
    - unit: bytes between lowered ids
    - stride_token
    - stride_head
    - stride_dim
    - codec_params
    - first_head: number of the view's head 0 among the model's KV heads
    - model_heads: KV heads of the whole model
    - kernel_blocks_per_part: kernel blocks of a page that an id names
    - tokens_per_row: Tokens that share a row in a compressed cache. 1 otherwise.
    - context_rank: Row x of the view, in order, is row x * context_ranks + context_rank of the rows
      of all ranks.
    - context_ranks: ranks that take turns row by row; 0 = 1
    """

    _struct = "quire_kv_view"
    _enums = {"codec": Codec}
    group: int
    column: int
    region: int
    num_sides: int
    num_heads: int
    head_dim: Tuple[int, ...]
    block_tokens: int
    blocks_per_page: int
    dtype: DType
    codec: Codec
    num_pages: int
    offset: Tuple[int, ...]
    stride_page: Tuple[int, ...]
    stride_block: Tuple[int, ...]
    unit: Tuple[int, ...]
    stride_token: Tuple[int, ...]
    stride_head: Tuple[int, ...]
    stride_dim: Tuple[int, ...]
    codec_params: CodecParams
    first_head: int
    model_heads: int
    kernel_blocks_per_part: int
    tokens_per_row: int
    context_rank: int
    context_ranks: int


class KVField(Info):
    """Where a codec stores a part of every row. Address of item i of (lowered id u, token t, head
    h): region base + offset + u * unit[side] + h * stride_head + (t / tile_tokens) *
    stride_token_tile + (t % tile_tokens) * stride_token + (i / tile_items) * stride_item_tile +
    (i % tile_items) * stride_item (all bytes) Plain elements are one field per side. Its tiles
    are the whole block.

    - side
    - role
    - dtype: Of an item. Types below 8 bits are packed, `lanes` at a time, the first in the lowest
      bits.
    - num_items: of one token and head
    - tile_tokens
    - tile_items
    - offset
    - stride_head
    - stride_token_tile
    - stride_token
    - stride_item_tile
    - stride_item
    """

    _struct = "quire_kv_field"
    _enums = {"role": FieldRole}
    side: int
    role: FieldRole
    dtype: DType
    num_items: int
    tile_tokens: int
    tile_items: int
    offset: int
    stride_head: int
    stride_token_tile: int
    stride_token: int
    stride_item_tile: int
    stride_item: int


class StateView(Info):
    """One state tensor of one layer in one shard. Address of element x: region base + offset +
    lowered id * unit + sum(x[k] * stride[k])

    - group
    - column
    - region
    - dtype
    - ndim
    - offset
    - unit
    - stride_page
    - stride_part
    - shape
    - stride: bytes
    - parts_per_page
    - shard_dim: 1 + the dimension that is split over ranks. 0 = every rank has the whole tensor.
    - num_ranks: ranks that the dimension is split over; 1 if shard_dim is 0
    - rank
    - shard_parts: Extents over all ranks, along the split dimension, of the parts that are split
      one by one. All 0 = one part.
    - num_pages
    - shard_repeats: Number of adjacent ranks that hold the same slice of each part. 0 = 1. The
      model's extent is part / repeats.
    """

    _struct = "quire_state_view"
    group: int
    column: int
    region: int
    dtype: DType
    ndim: int
    offset: int
    unit: int
    stride_page: int
    stride_part: int
    shape: Tuple[int, ...]
    stride: Tuple[int, ...]
    parts_per_page: int
    shard_dim: int
    num_ranks: int
    rank: int
    shard_parts: Tuple[int, ...]
    num_pages: int
    shard_repeats: Tuple[int, ...]


class RegionInfo(Info):
    """One allocation of a shard.

    - region
    - bytes
    - alignment
    - page_stride: bytes from page b to b + 1 in each plane
    - num_planes
    """

    _struct = "quire_region_info"
    region: int
    bytes: int
    alignment: int
    page_stride: int
    num_planes: int


class Lowering(Info):
    """How ids become lowered ids for one group and shard. For k in [0, kernel_blocks_per_part):
    lowered(id, k) = (id / parts_per_page) * page_factor + (id % parts_per_page) * part_factor +
    k * block_factor

    - parts_per_page
    - kernel_blocks_per_part
    - page_factor
    - part_factor
    - block_factor
    - num_lowered_ids: all lowered ids are below this
    """

    _struct = "quire_lowering"
    parts_per_page: int
    kernel_blocks_per_part: int
    page_factor: int
    part_factor: int
    block_factor: int
    num_lowered_ids: int


class Compatibility(Info):
    """The result of quire_config_compare.

    - level
    - reason: Layer, field and both values that prevent a better level. Empty if identical.
    """

    _struct = "quire_compatibility"
    _enums = {"level": CompatLevel}
    level: CompatLevel
    reason: str


class Capacity(Info):
    """How many sequences caches with given options can hold. Sequences share no prefixes here.
    Compare `decoding` with the largest batch and `guaranteed` with a limit that must never
    cause a preemption.

    - tokens: per sequence
    - concurrency
    - guaranteed: Sequences of `tokens` tokens. As long as no more than these are live, no entry is
      refused for lack of room: in any order of prefill, decoding and ends. It counts
      the worst alignment of blocks in pages, separate pages for every sequence, and
      full chunks in all steps in flight. They begin without a hit and without
      full_tokens. A sequence that ended is live until the steps that were in flight are
      done. With QUIRE_CACHE_STATES_IN_PLACE, and if it is one sequence, an entry may
      have to wait for a commit.
    - decoding: Sequences that are started one after the other and decode a token in every step,
      with step_depth steps in flight, until all of them have `tokens` tokens.
    - resident: Sequences that are computed to `tokens` tokens one after the other, and then wait,
      until the first is refused.
    - longest: Tokens of each of `concurrency` sequences, guaranteed. At most max_model_len. 0 =
      none fits.
    - pages_needed: for `concurrency` sequences of `tokens` tokens, guaranteed
    - bytes_needed: pages_needed in bytes, on the shard with the largest pages
    - kv_cache_tokens: The pool in tokens, as other engines print it ("GPU KV cache size"):
      max_model_len times the number of such sequences, not rounded. Under policy
      vllm exactly what vLLM prints.
    """

    _struct = "quire_capacity"
    tokens: int
    concurrency: int
    guaranteed: int
    decoding: int
    resident: int
    longest: int
    pages_needed: int
    bytes_needed: int
    kv_cache_tokens: int


class SequenceInfo(Info):
    """State of a sequence.

    - steps_in_flight
    - committed: tokens
    - known: symbols known
    - hit_tokens: of the last match
    - num_parts: held in all groups, including shared ones
    - encoder_tokens: cross attention
    """

    _struct = "quire_sequence_info"
    steps_in_flight: int
    committed: int
    known: int
    hit_tokens: int
    num_parts: int
    encoder_tokens: int


class ProbeResult(Info):
    """What a prompt would hit now.

    - miss
    - hit_tokens
    - full_hit_tokens: attention groups alone
    """

    _struct = "quire_probe_result"
    _enums = {"miss": Miss}
    miss: Miss
    hit_tokens: int
    full_hit_tokens: int


class CacheStats(Info):
    """Counters since creation, and the current state.

    - num_sequences
    - pages_total: including the null page
    - pages_free: never used, or released
    - pages_evictable: cached and unreferenced
    - pages_used: referenced, pinned or fenced
    - parts_used
    - parts_cached
    - part_holes: free parts in pages that belong to a group
    - index_units: match units in the index, and one for each identity
    - matches: admitted entries that asked for a match
    - matched_prompt_tokens
    - hit_tokens: of all matches
    - miss_reasons: indexed by quire_miss
    - evicted_pages
    - evicted_blocks: or forgotten by quire_cache_forget_blocks
    - hand_overs: pages that moved from one group to another
    - steps: reserved; aborted ones are counted, too
    - aborted_steps
    - refused_entries
    - preemptions
    - forks
    - copies
    - checkpoints: boundaries whose states were kept; it never falls
    - pins: currently held
    - pinned_tokens: of all pins
    - pins_given_up: soft pins that were ended to make room
    - checkpoint_bytes: of the checkpoints kept now, as in quire_cache_options
    - checkpoints_given_up: Boundaries that lost a state to a new one because of checkpoint_bytes.
    - checkpoints_declined: Boundaries whose state was not kept because pinned ones fill
      checkpoint_bytes.
    - recompute_avoided: Tokens that did not have to be recomputed: for each match that resumed from
      a state, the tokens between that state and the previous one.
    - host_bytes: of the cache itself, allocated at creation
    - holds: see quire/hold.h; now
    - held_parts: of all holds; a part may count several times
    - units_given_up: units that were reported, but not taken
    - loads: in progress
    - aborted_prompt_tokens: matched_prompt_tokens
    - aborted_hit_tokens
    - aborted_recompute_avoided
    - aborted_miss_reasons
    - page_sample: How long pages keep what is in them. One page in page_sample is counted: all of a
      small pool, one in 64 of a large one. Element i counts spans of less than 2^i
      milliseconds and not less than half of that; the last one counts the rest, too.
      Time is that of the last reserve or load_begin, on the runtime's clock. A page
      that was released before anything of it was cached is not counted, nor one whose
      content a reset forgot.
    - page_lifetime: from when a group takes a page until its content is evicted
    - page_lifetime_ns: sum of these spans
    - page_idle: the part of it since the last use
    - page_idle_ns
    - page_reuse_gap: unused, then used again
    - page_reuse_gap_ns
    """

    _struct = "quire_cache_stats"
    num_sequences: int
    pages_total: int
    pages_free: int
    pages_evictable: int
    pages_used: int
    parts_used: int
    parts_cached: int
    part_holes: int
    index_units: int
    matches: int
    matched_prompt_tokens: int
    hit_tokens: int
    miss_reasons: Tuple[int, ...]
    evicted_pages: int
    evicted_blocks: int
    hand_overs: int
    steps: int
    aborted_steps: int
    refused_entries: int
    preemptions: int
    forks: int
    copies: int
    checkpoints: int
    pins: int
    pinned_tokens: int
    pins_given_up: int
    checkpoint_bytes: int
    checkpoints_given_up: int
    checkpoints_declined: int
    recompute_avoided: int
    host_bytes: int
    holds: int
    held_parts: int
    units_given_up: int
    loads: int
    aborted_prompt_tokens: int
    aborted_hit_tokens: int
    aborted_recompute_avoided: int
    aborted_miss_reasons: Tuple[int, ...]
    page_sample: int
    page_lifetime: Tuple[int, ...]
    page_lifetime_ns: int
    page_idle: Tuple[int, ...]
    page_idle_ns: int
    page_reuse_gap: Tuple[int, ...]
    page_reuse_gap_ns: int


class GroupStats(Info):
    """The pages of one group. Free pages belong to no group.

    - group: as asked for
    - pages_used: with a part that is referenced, pinned or fenced
    - pages_cached: cached and unreferenced
    - page_lifetime: As in quire_cache_stats, of the same sample (page_sample), for pages while they
      belonged to this group. The sums over all groups are what is counted there.
    - page_lifetime_ns
    - page_idle
    - page_idle_ns
    - page_reuse_gap
    - page_reuse_gap_ns
    """

    _struct = "quire_group_stats"
    group: int
    pages_used: int
    pages_cached: int
    page_lifetime: Tuple[int, ...]
    page_lifetime_ns: int
    page_idle: Tuple[int, ...]
    page_idle_ns: int
    page_reuse_gap: Tuple[int, ...]
    page_reuse_gap_ns: int


class StepInfo(Info):
    """Facts of a step in flight.

    - num_rows: admitted sequences
    - num_tokens: computed by all rows
    - num_copies
    - num_zeroes
    """

    _struct = "quire_step_info"
    num_rows: int
    num_tokens: int
    num_copies: int
    num_zeroes: int


class DeviceInfo(Info):
    """Facts of a device.

    - device_type: QUIRE_DEVICE_*
    - device_id
    - wave_width: lanes of a wave; 0 on CPUs
    - total_bytes: 0 = unknown
    - free_bytes
    - alignment: of allocations, bytes
    - driver
    - name: of the device, with the instruction set in use
    """

    _struct = "quire_device_info"
    _enums = {"device_type": DeviceType}
    device_type: DeviceType
    device_id: int
    wave_width: int
    total_bytes: int
    free_bytes: int
    alignment: int
    driver: str
    name: str


class ProbeInfo(Info):
    """One candidate of the module search.

    - code: QUIRE_OK = usable
    - kind: quire_module_kind of driver.h
    - step: last step of the negotiation, 0..9
    - duration_ns
    - name
    - path: truncated, NUL terminated
    - reason: why the candidate was refused; empty if usable
    """

    _struct = "quire_probe_info"
    _enums = {"code": Code}
    code: Code
    kind: int
    step: int
    duration_ns: int
    name: str
    path: str
    reason: str


class PinInfo(Info):
    """The content of a pin.

    - priority
    - tokens: of the prefix
    - num_parts: in all groups, including parts that others hold, too
    - deadline_ns: on the runtime's clock; INT64_MAX = none
    """

    _struct = "quire_pin_info"
    priority: int
    tokens: int
    num_parts: int
    deadline_ns: int


class ConnectorInfo(Info):
    """Properties of a connector.

    - flags: QUIRE_CONNECTOR_*
    - max_in_flight: tickets; 0 = no limit of its own
    - alignment: addresses and sizes at multiples move without a copy; 0 = 1
    - max_key_bytes: 0 = no limit
    - device_types: bit 1 << QUIRE_DEVICE_*: memory it can address directly
    - max_object_bytes: 0 = no limit
    - best_object_bytes: smaller objects move more slowly per byte; 0 = unknown
    """

    _struct = "quire_connector_info"
    flags: int
    max_in_flight: int
    alignment: int
    max_key_bytes: int
    device_types: int
    max_object_bytes: int
    best_object_bytes: int


class ConnectorHealth(Info):
    """Health of a connector. 0 = unknown.

    - state
    - capacity_bytes
    - used_bytes
    - num_objects
    - num_evicted: objects that made room for others, since it was opened
    - num_damaged: objects that were found to be unusable and were removed
    """

    _struct = "quire_connector_health"
    _enums = {"state": ConnectorState}
    state: ConnectorState
    capacity_bytes: int
    used_bytes: int
    num_objects: int
    num_evicted: int
    num_damaged: int


class ConnectorStats(Info):
    """Tickets of a connector since it was opened. submitted = in_flight + done + missing + failed
    + cancelled Latencies run from submit to poll. Element i of a latency array counts tickets
    that took less than 2^i microseconds and not less than half of that. The last element counts
    the rest, too.

    - num_regions: registered now
    - num_submitted: accepted tickets
    - num_in_flight
    - num_done: OK
    - num_missing: NOT_FOUND
    - num_failed: any other code
    - num_cancelled: CANCELLED
    - num_strays: Completions of tickets that were not in flight. They are dropped. They are a
      defect of the connector.
    - bytes_stored: of stores that are done, as the connector reported
    - bytes_loaded
    - bytes_in_flight: of the runs of stores and loads
    - num_existed: stores of objects that existed
    - keys_looked_up
    - keys_found
    - store_latency
    - load_latency
    - lookup_latency
    - store_ns: sums of the latencies
    - load_ns
    - lookup_ns
    """

    _struct = "quire_connector_stats"
    num_regions: int
    num_submitted: int
    num_in_flight: int
    num_done: int
    num_missing: int
    num_failed: int
    num_cancelled: int
    num_strays: int
    bytes_stored: int
    bytes_loaded: int
    bytes_in_flight: int
    num_existed: int
    keys_looked_up: int
    keys_found: int
    store_latency: Tuple[int, ...]
    load_latency: Tuple[int, ...]
    lookup_latency: Tuple[int, ...]
    store_ns: int
    load_ns: int
    lookup_ns: int


class TierStats(Info):
    """What happened in one tier.

    - is_open: 1 = in use; 0 = suspended after 5 failures in a row, for 5 s to 5 min
    - name
    - units_stored: all objects of a unit were written, or existed
    - units_dropped: not written: too much was in flight, or a store failed
    - objects_stored
    - objects_existed
    - objects_loaded
    - objects_missing: found by a look-up, and gone when they were loaded
    - objects_damaged: checksum, size or name was another; they were removed
    - objects_failed: other errors of loads
    - bytes_stored
    - bytes_loaded
    - bytes_in_flight
    - keys_looked_up
    - keys_found
    - tokens_fetched: of fetches that are done, by the tier that gave most
    - times_closed: suspended
    - ns_per_mib: of loads, as it is estimated now; 0 = unknown
    - latency_ns: of look-ups, as it is estimated now; 0 = unknown
    - offers_refused: fetches for which quire_fetch_get_refusal has an answer
    """

    _struct = "quire_tier_stats"
    is_open: int
    name: str
    units_stored: int
    units_dropped: int
    objects_stored: int
    objects_existed: int
    objects_loaded: int
    objects_missing: int
    objects_damaged: int
    objects_failed: int
    bytes_stored: int
    bytes_loaded: int
    bytes_in_flight: int
    keys_looked_up: int
    keys_found: int
    tokens_fetched: int
    times_closed: int
    ns_per_mib: int
    latency_ns: int
    offers_refused: int


class TiersStats(Info):
    """What happened in all tiers.

    - unit_tokens
    - fetches: begun
    - fetches_in_progress
    - outcomes: by quire_fetch_outcome
    - tokens_fetched
    - tokens_hit: of the same fetches, found in the cache
    - units_taken: from the cache
    - units_in_flight: held for stores
    - quarantined: loads that were given up and may still be written; now
    - quarantined_ever
    - tokens_asked: of fetches that ended: beyond what the cache had
    - fetch_ns: from quire_fetch_begin to the end; sum
    - fetch_latency: Element i counts fetches that took less than 2^i microseconds and not less than
      half of that. The last element counts the rest, too.
    - offers: begun
    - offers_in_progress
    """

    _struct = "quire_tiers_stats"
    unit_tokens: int
    fetches: int
    fetches_in_progress: int
    outcomes: Tuple[int, ...]
    tokens_fetched: int
    tokens_hit: int
    units_taken: int
    units_in_flight: int
    quarantined: int
    quarantined_ever: int
    tokens_asked: int
    fetch_ns: int
    fetch_latency: Tuple[int, ...]
    offers: int
    offers_in_progress: int


class FetchResult(Info):
    """The end of a fetch.

    - fetch
    - sequence
    - outcome
    - tier: index of the tier that gave most bytes; 0xffffffff = none
    - committed: Tokens that the sequence has now, whatever the outcome. 0 = it is empty: reserve
      with QUIRE_ENTRY_MATCH. Otherwise reserve the rest without it, from `known` of
      quire_sequence_get_info on: a load knows symbols beyond what it brought.
    - hit_tokens: of these, found in the cache
    - bytes: that were brought
    - elapsed_ns
    """

    _struct = "quire_fetch_result"
    _enums = {"outcome": FetchOutcome}
    fetch: int
    sequence: int
    outcome: FetchOutcome
    tier: int
    committed: int
    hit_tokens: int
    bytes: int
    elapsed_ns: int


class Offer(Info):
    """What one process offers another.

    - handle: random; whoever has it can read the offer
    - end_token: the reader resumes here: it computes what follows
    - num_bytes: of all ranks, with headers
    """

    _struct = "quire_offer"
    handle: bytes
    end_token: int
    num_bytes: int


class OfferInfo(Info):
    """How an offer stands.

    - is_ready: 1 = pass the handle on now: all of it can be read, or it grows and its reader may
      wait for it (QUIRE_PEER_GROWS)
    - num_records: of all of it
    - num_tokens: that can be read now; end_token = it is complete
    """

    _struct = "quire_offer_info"
    is_ready: int
    num_records: int
    num_tokens: int


class OfferRefusal(Info):
    """Why nothing came of an offer.

    - field: the first one that differs
    - name: of it, for example "unit_tokens" or "layer 3.0"
    - here: its value in this process; empty = it is not shown
    - there: its value in the peer; untrusted text
    """

    _struct = "quire_offer_refusal"
    _enums = {"field": OfferField}
    field: OfferField
    name: str
    here: str
    there: str


class SessionInfo(Info):
    """What was saved or restored.

    - num_tokens: of the session: its symbols
    - committed: Restore: tokens that the sequence has now. Fewer than num_tokens if records are
      damaged, or if a window has longer blocks here than where it was saved and its
      first block is not complete. The sequence then resumes where all groups can,
      perhaps at 0.
    - hit_tokens: restore: of these, found in the cache
    - num_records
    - num_damaged: restore: blocks of records whose checksum does not match
    - bytes: of the session
    """

    _struct = "quire_session_info"
    num_tokens: int
    committed: int
    hit_tokens: int
    num_records: int
    num_damaged: int
    bytes: int


class EventBatch(Info):
    """The result of a read.

    - num_events
    - num_bytes: of data; after OUT_OF_RANGE: the bytes needed
    - next: number to read from next
    - oldest: number of the oldest event in the ring
    """

    _struct = "quire_event_batch"
    num_events: int
    num_bytes: int
    next: int
    oldest: int
