package quire

// Structs of the headers, byte for byte (types_test.go compares them with abi.golden). The calls set structSize.

// CacheOptions is quire_cache_options: limits of a cache; all their memory is allocated at creation.
type CacheOptions struct {
	structSize         uint32
	Flags              uint32 // QUIRE_CACHE_*
	MaxSequences       uint32 // live at once; 0 = 256
	MaxEntriesPerStep  uint32 // 0 = max_sequences
	MaxTokensPerStep   uint32 // tokens computed in one step, look-ahead included; 0 = 8192
	StepDepth          uint32 // steps in flight; 0 = 2, at most 8
	MaxRoots           uint32 // distinct identities with sequences or cached content; 0 = 1024
	WatermarkPages     uint32 // pages that a new sequence leaves free while others use any; running ones may use them
	NumStateBranches   uint32 // most draft tokens in a row after each of which a state is written; at most 64
	KeepStates         uint32 // boundaries to resume at: QUIRE_KEEP_*; 0 = all but ends of chunks
	MaxPins            uint32 // 0 = 64
	_                  uint32
	MaxIndexUnits      uint64 // units of prefix held in the index; 0 = derived from the pool
	MaxMedia           uint64 // distinct media; 0 = 4096
	HashSeed           uint64 // keys the index's hash; 0 = drawn at random (results do not depend on it)
	CheckpointInterval uint64 // tokens between those of QUIRE_KEEP_EVERY; 0 = the library chooses
	PinQuotaTokens     uint64 // tokens that pins of one salt hold together; 0 = no limit
	CheckpointBytes    uint64 // most bytes of kept states; 0 = a share of the pool that is learned
	MaxLoads           uint32 // loads in progress; 0 = 16
	_                  uint32
	MaxLoadTokens      uint64 // tokens of one load; 0 = those of a step
}

// SequenceInfo is quire_sequence_info: state of a sequence.
type SequenceInfo struct {
	structSize    uint32
	StepsInFlight uint32 // that have rows of the sequence
	Committed     uint64 // tokens
	Reserved      uint64 // tokens, those in flight included
	Known         uint64 // symbols known
	HitTokens     uint64 // of the last match
	NumParts      uint64 // held, all groups, shared ones included
	EncoderTokens uint64 // cross attention
}

// ReserveEntry is quire_reserve_entry: wants of one sequence in a step.
type ReserveEntry struct {
	Sequence        SequenceID // whose tokens
	SymbolsPosition uint64     // of the first symbol given: Known of Cache.Sequence; not read when NumSymbols is 0
	SymbolsOffset   uint64     // of that symbol in symbols[]
	NumSymbols      uint32     // may be 0 when an earlier commit gave them or a later one will
	NumTokens       uint32     // most tokens to compute in this step, from `reserved` (after a match: from the hit) on
	LookAhead       uint32     // slots after NumTokens that must have memory too
	Flags           uint32     // QUIRE_ENTRY_*
	FullTokens      uint64     // 0, or the length that the whole sequence will reach: admit only if all of it fits now
	EncoderTokens   uint64     // cross attention, while the sequence is empty: tokens of its encoder; else 0
}

// ReserveResult is quire_reserve_result: answer to one entry.
type ReserveResult struct {
	Sequence      SequenceID // that of the entry
	Code          Code       // OK = admitted; else see Reason
	Reason        Refusal    // why it was refused
	MissingPages  uint64     // how many pages more would admit it
	Position      uint64     // first token to compute
	NumTokens     uint32     // tokens to compute in this step; less than asked where a chunk must stop
	HitTokens     uint32     // reused by this call's match
	Miss          Miss       // of this call's match
	Row           uint32     // row in the step's tables; 0xffffffff when not admitted
	Flags         uint32     // QUIRE_RESULT_*
	FullHitTokens uint32     // attention groups alone would have hit this far
	Group         uint32     // group that lacks parts, when there is no room
	_             uint32
}

// End is the position behind the last token to compute: what the sequence has when all of them stand.
func (r *ReserveResult) End() uint64 { return r.Position + uint64(r.NumTokens) }

// CommitEntry is quire_commit_entry: outcome of one row of a step.
type CommitEntry struct {
	Sequence        SequenceID // of the row
	SymbolsPosition uint64     // of the first symbol given: the first one that is not known once rejected tokens are forgotten
	SymbolsOffset   uint64     // of that symbol in symbols[]
	NumSymbols      uint32     // newly known symbols
	NumAccepted     uint32     // tokens of this row whose result stands; the rest is rolled back
}

// StepInfo is quire_step_info: facts of a step in flight.
type StepInfo struct {
	structSize uint32
	NumRows    uint32 // admitted sequences
	NumTokens  uint64 // computed by all rows
	NumCopies  uint64 // of Step.Copies
	NumZeroes  uint64 // of Step.Zeroes
}

// CopyID is quire_copy: copy the payload of one id to another before the step's kernels run.
type CopyID struct {
	Group       uint32 // of both ids
	Column      uint32 // of both ids
	Source      int32  // id
	Destination int32  // id
	FirstToken  uint32 // rows of the block that matter: [first_token, first_token + num_tokens)
	NumTokens   uint32 // 0 = all
}

// ZeroID is quire_zero: zero a page, or the payload of one id, before the step's kernels run.
type ZeroID struct {
	Group  uint32 // 0xffffffff = `id` is a page number: all its bytes
	Column uint32 // of the id
	ID     int32  // an id, or the number of a page
	_      uint32
}

// ProbeResult is quire_probe_result: what a prompt would hit now.
type ProbeResult struct {
	structSize    uint32
	Miss          Miss   // why not more
	HitTokens     uint64 // that a match would find now
	FullHitTokens uint64 // attention groups alone
}

// Stats is quire_cache_stats: counters since creation, and the present state.
type Stats struct {
	structSize          uint32
	NumSequences        uint32    // live
	PagesTotal          uint64    // the null page included
	PagesFree           uint64    // never used or given back
	PagesEvictable      uint64    // cached, unreferenced
	PagesUsed           uint64    // referenced, pinned or fenced
	PartsUsed           uint64    // parts that somebody references
	PartsCached         uint64    // parts that only the prefix index knows
	PartHoles           uint64    // free parts in pages that belong to a group
	IndexUnits          uint64    // match units in the prefix index
	Matches             uint64    // entries that asked for a match and were admitted
	MatchedPromptTokens uint64    // of these entries
	HitTokens           uint64    // of these, found in the cache
	MissReasons         [8]uint64 // by quire_miss
	EvictedPages        uint64    // pages that lost content to others
	EvictedBlocks       uint64    // blocks that were evicted
	HandOvers           uint64    // pages that changed group
	Steps               uint64    // reserved
	AbortedSteps        uint64    // of these
	RefusedEntries      uint64    // entries of steps and loads that were not admitted
	Preemptions         uint64    // calls of Preempt
	Forks               uint64    // calls of Fork
	Copies              uint64    // blocks that were copied before a write
	Checkpoints         uint64    // states kept
	Pins                uint64    // live
	PinnedTokens        uint64    // of all pins
	PinsGivenUp         uint64    // soft pins that made room
	CheckpointBytes     uint64    // of the states kept now
	CheckpointsGivenUp  uint64    // boundaries that lost a state to a new one, because of checkpoint_bytes
	CheckpointsDeclined uint64    // boundaries whose state was not kept, because pinned ones fill checkpoint_bytes
	RecomputeAvoided    uint64    // tokens between the states that matches resumed from and the states before those
	HostBytes           uint64    // of the cache itself, allocated at creation
	Holds               uint64    // live
	HeldParts           uint64    // of all holds; a part may count several times
	UnitsGivenUp        uint64    // units that were reported, but not taken
	Loads               uint64    // in progress
	// Of aborted entries: what they had added to the counters of matches, which do not have it any
	// more. A counter and its part here never fall together.
	AbortedPromptTokens     uint64    // MatchedPromptTokens
	AbortedHitTokens        uint64    // HitTokens
	AbortedRecomputeAvoided uint64    // RecomputeAvoided
	AbortedMissReasons      [8]uint64 // MissReasons
	// How long pages keep what is in them, of one page in PageSample. Element i counts spans of less
	// than 2^i milliseconds and not less than half of that; the last one counts the rest, too.
	PageSample     uint64     // 1 page of so many is observed
	PageLifetime   [32]uint64 // from when a group takes a page until its content is evicted
	PageLifetimeNs uint64     // sum of these spans
	PageIdle       [32]uint64 // the part of it since the last use
	PageIdleNs     uint64     // sum
	PageReuseGap   [32]uint64 // unused, then used again
	PageReuseGapNs uint64     // sum
}

// GroupStats are the pages of one group; free pages belong to no group: quire_group_stats.
type GroupStats struct {
	structSize     uint32
	Group          uint32     // as asked for
	PagesUsed      uint64     // now; with a part that is referenced, pinned or fenced
	PagesCached    uint64     // now; cached and unreferenced
	PageLifetime   [32]uint64 // as in Stats, for pages while they belonged to this group
	PageLifetimeNs uint64     // sum
	PageIdle       [32]uint64 // the same: the part of it since the last use
	PageIdleNs     uint64     // sum
	PageReuseGap   [32]uint64 // the same: unused, then used again
	PageReuseGapNs uint64     // sum
}

// PinID names a pin of a cache; 0 is none.
type PinID uint64

// PinOptions is quire_pin_options: how long and how firmly.
type PinOptions struct {
	structSize uint32
	Priority   uint32 // 0 (given up first) to 254, or PinHard
	DurationNS uint64 // by the runtime's clock; 0 = until it is unpinned
}

// PinInfo is quire_pin_info: what a pin holds.
type PinInfo struct {
	structSize uint32
	Priority   uint32 // as in PinOptions
	Tokens     uint64 // of the prefix
	NumParts   uint64 // all groups; parts that others hold as well included
	DeadlineNS int64  // by the runtime's clock; MaxInt64 = none
}

// LoadFailure is quire_load_failure: tokens of one group that did not arrive.
type LoadFailure struct {
	Group      uint32 // that lacks them
	_          uint32
	FirstToken uint64 // position in the sequence
	NumTokens  uint64 // from FirstToken on
}

// HashMedia is quire_hash_media: A media item at tokens [position, position + length).
type HashMedia struct {
	Position         uint64 // of its first token
	Length           uint64 // at least 1
	IdentifierOffset uint64 // into quire_hash_options.identifiers, UTF-8
	IdentifierBytes  uint64 // at IdentifierOffset
}

// Event is quire_event: one event; offsets are bytes into the data that came with it, multiples of 8.
type Event struct {
	Number        uint64    // counts up from 0 in each cache, without gaps
	Type          EventType // what happened
	Group         uint32    // of the blocks
	HashBytes     uint32    // of one digest
	NumHashes     uint32    // blocks
	HashesOffset  uint64    // num_hashes digests, back to back
	ParentOffset  uint64    // digest of the block before the first
	ParentBytes   uint32    // hash_bytes, or 0: the first block starts its sequence
	BlockTokens   uint32    // tokens of a block
	TokensOffset  uint64    // int64_t[num_tokens]
	NumTokens     uint64    // num_hashes * block_tokens
	KeysOffset    uint64    // extra keys, msgpack: per block nil or an array
	KeysBytes     uint64    // 0 = none
	AdapterOffset uint64    // name
	AdapterNumber uint64    // of quire_identity; 0 = none
	AdapterBytes  uint32    // 0 = none
	KindBytes     uint32    // of the name at KindOffset
	KindOffset    uint64    // name of the group's kind, e.g. "full_attention"
	Window        uint64    // of sliding windows; 0 = none
}

// EventBatch is quire_event_batch: what a read returned.
type EventBatch struct {
	structSize uint32
	_          uint32
	NumEvents  uint64 // that were copied
	NumBytes   uint64 // of data; after OUT_OF_RANGE: what is needed
	Next       uint64 // the number to go on with
	Oldest     uint64 // number of the oldest event in the ring
}

// DeviceInfo is quire_device_info: facts of a device.
type DeviceInfo struct {
	structSize uint32
	DeviceType int32   // QUIRE_DEVICE_*
	DeviceID   int32   // its number among those of the type
	WaveWidth  uint32  // lanes of a wave; 0 on CPUs
	TotalBytes uint64  // 0 = unknown
	FreeBytes  uint64  // 0 = unknown
	Alignment  uint64  // of allocations, bytes
	Driver     Text32  // its name
	Name       Text128 // of the device, with the instruction set in use
}

// ExportOptions is quire_export.
type ExportOptions struct {
	structSize uint32
	Flags      uint32 // ExportReadOnly, ExportAsBytes, ExportLegacy
	Kind       int32  // ExportLayer, ExportID, ExportPage, ExportLowered
	Layer      uint32 // ExportLayer: index in the model
	Sub        uint32 // index among the caches of the layer
	Item       uint32 // token caches: number of the field in Config.Fields; states: number of the tensor
	ID         int32  // ExportID
	Region     uint32 // ExportPage
	Page       uint64 // ExportPage
}

// ConnectorInfo is quire_connector_info.
type ConnectorInfo struct {
	structSize      uint32
	Flags           uint32 // QUIRE_CONNECTOR_*
	MaxInFlight     uint32 // tickets; 0 = no limit of its own
	Alignment       uint32 // addresses and sizes at multiples move without a copy; 0 = 1
	MaxKeyBytes     uint64 // 0 = no limit
	DeviceTypes     uint64 // bit 1 << QUIRE_DEVICE_*: memory it can address directly
	MaxObjectBytes  uint64 // 0 = no limit
	BestObjectBytes uint64 // smaller objects move more slowly per byte; 0 = unknown
}

// ConnectorHealth is quire_connector_health: how a connector is. 0 = unknown.
type ConnectorHealth struct {
	structSize    uint32
	State         ConnectorState // up, degraded or down
	CapacityBytes uint64         // that it may keep
	UsedBytes     uint64         // that it keeps
	NumObjects    uint64         // that it keeps
	NumEvicted    uint64         // objects that made room for others, since it was opened
	NumDamaged    uint64         // objects that were found to be unusable and were removed
}

// ConnectorStats is quire_connector_stats: tickets of a connector since it was opened. submitted = in_flight + done + missing + failed +
// cancelled. Element i of a latency counts tickets that took less than 2^i microseconds and not less than half of that.
type ConnectorStats struct {
	structSize    uint32
	NumRegions    uint32     // registered now
	NumSubmitted  uint64     // accepted ones
	NumInFlight   uint64     // now
	NumDone       uint64     // OK
	NumMissing    uint64     // NOT_FOUND
	NumFailed     uint64     // any other code
	NumCancelled  uint64     // CANCELLED
	NumStrays     uint64     // completions of tickets that were not in flight: dropped, a defect of the connector
	BytesStored   uint64     // of stores that are done
	BytesLoaded   uint64     // of loads that are done
	BytesInFlight uint64     // of tickets in flight
	NumExisted    uint64     // stores of objects that existed
	KeysLookedUp  uint64     // of look-ups that are done
	KeysFound     uint64     // of these
	StoreLatency  [32]uint64 // stores that are done, by their time
	LoadLatency   [32]uint64 // the same of loads
	LookupLatency [32]uint64 // the same of look-ups
	StoreNs       uint64     // sums of the latencies
	LoadNs        uint64     // of loads
	LookupNs      uint64     // of look-ups
}

// TicketRun is quire_ticket_run: Count pieces of a ticket at equal distances, in memory and in the object; see Buffer.Run.
type TicketRun struct {
	Region       uint64 // id from a registration, or 0
	Address      uint64 // of the first piece
	Bytes        uint64 // of a piece
	Count        uint64 // pieces
	Stride       int64  // at least Bytes, or at most -Bytes; any if Count is 1
	ObjectOffset uint64 // of the first piece
	ObjectStride int64  // as Stride
}

// Ticket is quire_ticket: one transfer or look-up. Keys and runs are indices into the arrays given beside it.
type Ticket struct {
	Ticket      uint64 // the host's number, returned with the completion
	Kind        int32  // QUIRE_TICKET_*
	Priority    int32  // of tickets that wait, those of higher priority start first
	FirstRun    uint64 // into runs[]
	NumRuns     uint32 // stores and loads: at least 1. Otherwise 0
	NumKeys     uint32 // look-ups: at least 1. Otherwise 1
	KeyOffset   uint64 // into keys[]: NumKeys keys without gaps
	KeyBytes    uint64 // of each key
	ObjectBytes uint64 // stores: size; the runs name each byte once. Otherwise 0
	Sizes       uint64 // look-ups: where the size of each object is written, see Buffer.Sizes. Otherwise 0
	LeaseNs     int64  // look-ups: what is found stays at least so long if the connector can promise it
	DeadlineNs  int64  // host clock; -1 = none
}

// Completion is quire_completion: end of a ticket.
type Completion struct {
	Ticket   uint64 // its number
	Code     Code   // OK, NOT_FOUND, CANCELLED, DEADLINE_EXCEEDED, DATA_LOSS, UNAVAILABLE, RESOURCE_EXHAUSTED, ...
	Flags    uint32 // QUIRE_COMPLETION_*
	Bytes    uint64 // moved
	NumFound uint64 // look-ups
}

// ObjectEntry is quire_object_entry: one object in a listing.
type ObjectEntry struct {
	KeyOffset   uint64 // into the keys of the listing
	KeyBytes    uint64 // at KeyOffset
	ObjectBytes uint64 // size of the object
	_           uint64
}
