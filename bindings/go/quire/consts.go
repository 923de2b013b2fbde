// Made by abi/generate.py from abi/include/quire: change the headers, not this file.

package quire

// #include <quire/quire.h>
// #include <quire/connector.h>
// #include <quire/session.h>
// #include <quire/tier.h>
import "C"

// The constants of the headers, without QUIRE_.

// QUIRE_RUNTIME: see the headers.
const (
	RuntimeNoEnv      = C.QUIRE_RUNTIME_NO_ENV
	RuntimeTrustPaths = C.QUIRE_RUNTIME_TRUST_PATHS
)

// QUIRE_LAYER: see the headers.
const (
	LayerDraft      = C.QUIRE_LAYER_DRAFT
	LayerSinkLogits = C.QUIRE_LAYER_SINK_LOGITS
)

// QUIRE_PLAN: see the headers.
const (
	PlanNoPrefixReuse = C.QUIRE_PLAN_NO_PREFIX_REUSE
	PlanContiguous    = C.QUIRE_PLAN_CONTIGUOUS
	PlanOneTable      = C.QUIRE_PLAN_ONE_TABLE
	PlanFitLength     = C.QUIRE_PLAN_FIT_LENGTH
)

// QUIRE_VLLM: see the headers.
const (
	VllmUpstream  = C.QUIRE_VLLM_UPSTREAM
	VllmTransfers = C.QUIRE_VLLM_TRANSFERS
	VllmRows      = C.QUIRE_VLLM_ROWS
)

// QUIRE_SELECT: see the headers.
const (
	SelectOneLayer = C.QUIRE_SELECT_ONE_LAYER
)

// QUIRE_CACHE: see the headers.
const (
	CacheNoPrefixReuse  = C.QUIRE_CACHE_NO_PREFIX_REUSE
	CacheStatesInPlace  = C.QUIRE_CACHE_STATES_IN_PLACE
	CacheStatesAtBlocks = C.QUIRE_CACHE_STATES_AT_BLOCKS
	CacheStrictLRU      = C.QUIRE_CACHE_STRICT_LRU
)

// QUIRE_KEEP: see the headers.
const (
	KeepEvery     = C.QUIRE_KEEP_EVERY
	KeepChunkEnd  = C.QUIRE_KEEP_CHUNK_END
	KeepPromptEnd = C.QUIRE_KEEP_PROMPT_END
	KeepJunction  = C.QUIRE_KEEP_JUNCTION
	KeepAsked     = C.QUIRE_KEEP_ASKED
)

// QUIRE_SEQUENCE: see the headers.
const (
	SequenceNoMatch   = C.QUIRE_SEQUENCE_NO_MATCH
	SequenceNoPublish = C.QUIRE_SEQUENCE_NO_PUBLISH
)

// QUIRE_ENTRY: see the headers.
const (
	EntryMatch     = C.QUIRE_ENTRY_MATCH
	EntryPromptEnd = C.QUIRE_ENTRY_PROMPT_END
	EntryNoStop    = C.QUIRE_ENTRY_NO_STOP
	EntryKeepState = C.QUIRE_ENTRY_KEEP_STATE
)

// QUIRE_RESULT: see the headers.
const (
	ResultChunkStop = C.QUIRE_RESULT_CHUNK_STOP
	ResultNeverFits = C.QUIRE_RESULT_NEVER_FITS
)

// QUIRE_ABORT: see the headers.
const (
	AbortNotLaunched = C.QUIRE_ABORT_NOT_LAUNCHED
)

// QUIRE_MAX: see the headers.
const (
	MaxFills = C.QUIRE_MAX_FILLS
	MaxLoads = C.QUIRE_MAX_LOADS
)

// QUIRE_HASH: see the headers.
const (
	HashLastMediaOnly = C.QUIRE_HASH_LAST_MEDIA_ONLY
)

// QUIRE_EVENTS: see the headers.
const (
	EventsWholeHashes = C.QUIRE_EVENTS_WHOLE_HASHES
)

// QUIRE_EXPORT: see the headers.
const (
	ExportReadOnly = C.QUIRE_EXPORT_READ_ONLY
	ExportAsBytes  = C.QUIRE_EXPORT_AS_BYTES
	ExportLegacy   = C.QUIRE_EXPORT_LEGACY
)

// QUIRE_IMPORT: see the headers.
const (
	ImportReadOnly = C.QUIRE_IMPORT_READ_ONLY
	ImportAnyDType = C.QUIRE_IMPORT_ANY_DTYPE
)

// QUIRE_ATTENTION: see the headers.
const (
	AttentionCausal         = C.QUIRE_ATTENTION_CAUSAL
	AttentionBatchInvariant = C.QUIRE_ATTENTION_BATCH_INVARIANT
)

// QUIRE_GATED: see the headers.
const (
	GatedDeltaVMajor = C.QUIRE_GATED_DELTA_V_MAJOR
	GatedDeltaL2norm = C.QUIRE_GATED_DELTA_L2NORM
)

// QUIRE_CONV1D: see the headers.
const (
	Conv1dSilu = C.QUIRE_CONV1D_SILU
)

// QUIRE_EXTENSION: see the headers.
const (
	ExtensionNative = C.QUIRE_EXTENSION_NATIVE
	ExtensionPacked = C.QUIRE_EXTENSION_PACKED
)

// QUIRE_CONNECTOR: see the headers.
const (
	ConnectorPersistent = C.QUIRE_CONNECTOR_PERSISTENT
	ConnectorShared     = C.QUIRE_CONNECTOR_SHARED
	ConnectorRegisters  = C.QUIRE_CONNECTOR_REGISTERS
	ConnectorRanges     = C.QUIRE_CONNECTOR_RANGES
	ConnectorStages     = C.QUIRE_CONNECTOR_STAGES
)

// QUIRE_COMPLETION: see the headers.
const (
	CompletionExisted = C.QUIRE_COMPLETION_EXISTED
	CompletionLeased  = C.QUIRE_COMPLETION_LEASED
)

// quire_device_type: see the headers.
const (
	DeviceCPU      = C.QUIRE_DEVICE_CPU
	DeviceCUDA     = C.QUIRE_DEVICE_CUDA
	DeviceCUDAHost = C.QUIRE_DEVICE_CUDA_HOST
	DeviceROCM     = C.QUIRE_DEVICE_ROCM
	DeviceROCMHost = C.QUIRE_DEVICE_ROCM_HOST
)

// quire_log_level: see the headers.
const (
	LogTrace = C.QUIRE_LOG_TRACE
	LogDebug = C.QUIRE_LOG_DEBUG
	LogInfo  = C.QUIRE_LOG_INFO
	LogWarn  = C.QUIRE_LOG_WARN
	LogError = C.QUIRE_LOG_ERROR
	LogOff   = C.QUIRE_LOG_OFF
)

// quire_codec: see the headers.
const (
	CodecStrided    = C.QUIRE_CODEC_STRIDED
	CodecRecord     = C.QUIRE_CODEC_RECORD
	CodecBlockSplit = C.QUIRE_CODEC_BLOCK_SPLIT
	CodecTiled      = C.QUIRE_CODEC_TILED
	CodecShuffled   = C.QUIRE_CODEC_SHUFFLED
	CodecColumnK    = C.QUIRE_CODEC_COLUMN_K
	CodecAMX        = C.QUIRE_CODEC_AMX
)

// quire_state_kind: see the headers.
const (
	StateGeneric   = C.QUIRE_STATE_GENERIC
	StateMamba1    = C.QUIRE_STATE_MAMBA1
	StateMamba2    = C.QUIRE_STATE_MAMBA2
	StateGDN       = C.QUIRE_STATE_GDN
	StateKDA       = C.QUIRE_STATE_KDA
	StateLightning = C.QUIRE_STATE_LIGHTNING
	StateShortConv = C.QUIRE_STATE_SHORT_CONV
)

// quire_state_mode: see the headers.
const (
	StateModeDefault = C.QUIRE_STATE_MODE_DEFAULT
	StateModeNone    = C.QUIRE_STATE_MODE_NONE
	StateModeAlign   = C.QUIRE_STATE_MODE_ALIGN
	StateModeAll     = C.QUIRE_STATE_MODE_ALL
)

// quire_kv_scales: see the headers.
const (
	KVScalesOutside = C.QUIRE_KV_SCALES_OUTSIDE
	KVScalesRow     = C.QUIRE_KV_SCALES_ROW
	KVScales16      = C.QUIRE_KV_SCALES_16
)

// quire_field_role: see the headers.
const (
	FieldElements = C.QUIRE_FIELD_ELEMENTS
	FieldScales   = C.QUIRE_FIELD_SCALES
	FieldTail     = C.QUIRE_FIELD_TAIL
)

// quire_compat_level: see the headers.
const (
	CompatIdentical    = C.QUIRE_COMPAT_IDENTICAL
	CompatRearranged   = C.QUIRE_COMPAT_REARRANGED
	CompatConvertible  = C.QUIRE_COMPAT_CONVERTIBLE
	CompatIncompatible = C.QUIRE_COMPAT_INCOMPATIBLE
)

// quire_export_kind: see the headers.
const (
	ExportLayer   = C.QUIRE_EXPORT_LAYER
	ExportID      = C.QUIRE_EXPORT_ID
	ExportPage    = C.QUIRE_EXPORT_PAGE
	ExportLowered = C.QUIRE_EXPORT_LOWERED
)

// quire_ticket_kind: see the headers.
const (
	TicketStore  = C.QUIRE_TICKET_STORE
	TicketLoad   = C.QUIRE_TICKET_LOAD
	TicketLookup = C.QUIRE_TICKET_LOOKUP
	TicketRemove = C.QUIRE_TICKET_REMOVE
)

// LayerKind says the kind of one layer cache.
type LayerKind int32

// LayerKind: see the headers.
const (
	LayerNone          LayerKind = C.QUIRE_LAYER_NONE
	LayerFull          LayerKind = C.QUIRE_LAYER_FULL
	LayerSlidingWindow LayerKind = C.QUIRE_LAYER_SLIDING_WINDOW
	LayerChunked       LayerKind = C.QUIRE_LAYER_CHUNKED
	LayerMLA           LayerKind = C.QUIRE_LAYER_MLA
	LayerState         LayerKind = C.QUIRE_LAYER_STATE
	LayerCross         LayerKind = C.QUIRE_LAYER_CROSS
	LayerEncoderOnly   LayerKind = C.QUIRE_LAYER_ENCODER_ONLY
	LayerIndexer       LayerKind = C.QUIRE_LAYER_INDEXER
)

// Miss says why a prefix was not (completely) found.
type Miss int32

// Miss: see the headers.
const (
	MissNone          Miss = C.QUIRE_MISS_NONE
	MissUnknownPrefix Miss = C.QUIRE_MISS_UNKNOWN_PREFIX
	MissEvicted       Miss = C.QUIRE_MISS_EVICTED
	MissNoState       Miss = C.QUIRE_MISS_NO_STATE
	MissWindowHole    Miss = C.QUIRE_MISS_WINDOW_HOLE
	MissBelowUnit     Miss = C.QUIRE_MISS_BELOW_UNIT
	MissDisabled      Miss = C.QUIRE_MISS_DISABLED
)

// FillKind says which array of a step.
type FillKind int32

// FillKind: see the headers.
const (
	FillTable            FillKind = C.QUIRE_FILL_TABLE
	FillTableIndptr      FillKind = C.QUIRE_FILL_TABLE_INDPTR
	FillTableIndices     FillKind = C.QUIRE_FILL_TABLE_INDICES
	FillSlots            FillKind = C.QUIRE_FILL_SLOTS
	FillStateRead        FillKind = C.QUIRE_FILL_STATE_READ
	FillStateWrite       FillKind = C.QUIRE_FILL_STATE_WRITE
	FillKVLen            FillKind = C.QUIRE_FILL_KV_LEN
	FillQueryIndptr      FillKind = C.QUIRE_FILL_QUERY_INDPTR
	FillPositions        FillKind = C.QUIRE_FILL_POSITIONS
	FillRawTable         FillKind = C.QUIRE_FILL_RAW_TABLE
	FillStateWriteIndptr FillKind = C.QUIRE_FILL_STATE_WRITE_INDPTR
	FillStateWrites      FillKind = C.QUIRE_FILL_STATE_WRITES
	FillStateWriteEnds   FillKind = C.QUIRE_FILL_STATE_WRITE_ENDS
	FillUpdateIndptr     FillKind = C.QUIRE_FILL_UPDATE_INDPTR
	FillUpdateFirst      FillKind = C.QUIRE_FILL_UPDATE_FIRST
	FillUpdateIndices    FillKind = C.QUIRE_FILL_UPDATE_INDICES
	FillSlotsIndptr      FillKind = C.QUIRE_FILL_SLOTS_INDPTR
)

// Refusal says why an entry was refused.
type Refusal int32

// Refusal: see the headers.
const (
	RefusalNone      Refusal = C.QUIRE_REFUSAL_NONE
	RefusalNoRoom    Refusal = C.QUIRE_REFUSAL_NO_ROOM
	RefusalNeverFits Refusal = C.QUIRE_REFUSAL_NEVER_FITS
	RefusalStepFull  Refusal = C.QUIRE_REFUSAL_STEP_FULL
	RefusalTooLong   Refusal = C.QUIRE_REFUSAL_TOO_LONG
	RefusalStale     Refusal = C.QUIRE_REFUSAL_STALE
	RefusalTwice     Refusal = C.QUIRE_REFUSAL_TWICE
	RefusalLoading   Refusal = C.QUIRE_REFUSAL_LOADING
	RefusalNoTokens  Refusal = C.QUIRE_REFUSAL_NO_TOKENS
	RefusalNotEmpty  Refusal = C.QUIRE_REFUSAL_NOT_EMPTY
	RefusalNoPrompt  Refusal = C.QUIRE_REFUSAL_NO_PROMPT
	RefusalPosition  Refusal = C.QUIRE_REFUSAL_POSITION
	RefusalLookAhead Refusal = C.QUIRE_REFUSAL_LOOK_AHEAD
)

// HashAlgorithm says what is hashed with what.
type HashAlgorithm int32

// HashAlgorithm: see the headers.
const (
	HashSHA256CBOR   HashAlgorithm = C.QUIRE_HASH_SHA256_CBOR
	HashXXHashCBOR   HashAlgorithm = C.QUIRE_HASH_XXHASH_CBOR
	HashSHA256Pickle HashAlgorithm = C.QUIRE_HASH_SHA256_PICKLE
	HashXXHashPickle HashAlgorithm = C.QUIRE_HASH_XXHASH_PICKLE
)

// EventType says what happened to blocks.
type EventType int32

// EventType: see the headers.
const (
	EventStored  EventType = C.QUIRE_EVENT_STORED
	EventRemoved EventType = C.QUIRE_EVENT_REMOVED
	EventCleared EventType = C.QUIRE_EVENT_CLEARED
)

// UnitReason says why a unit is reported.
type UnitReason int32

// UnitReason: see the headers.
const (
	UnitCommitted UnitReason = C.QUIRE_UNIT_COMMITTED
	UnitHit       UnitReason = C.QUIRE_UNIT_HIT
	UnitFinished  UnitReason = C.QUIRE_UNIT_FINISHED
	UnitEvicting  UnitReason = C.QUIRE_UNIT_EVICTING
)

// FetchOutcome says how a fetch ended.
type FetchOutcome int32

// FetchOutcome: see the headers.
const (
	FetchDone      FetchOutcome = C.QUIRE_FETCH_DONE
	FetchNothing   FetchOutcome = C.QUIRE_FETCH_NOTHING
	FetchSlower    FetchOutcome = C.QUIRE_FETCH_SLOWER
	FetchNoRoom    FetchOutcome = C.QUIRE_FETCH_NO_ROOM
	FetchLate      FetchOutcome = C.QUIRE_FETCH_LATE
	FetchFailed    FetchOutcome = C.QUIRE_FETCH_FAILED
	FetchCancelled FetchOutcome = C.QUIRE_FETCH_CANCELLED
)

// OfferField says what an offer differs in.
type OfferField int32

// OfferField: see the headers.
const (
	OfferVersion       OfferField = C.QUIRE_OFFER_VERSION
	OfferWeights       OfferField = C.QUIRE_OFFER_WEIGHTS
	OfferLayers        OfferField = C.QUIRE_OFFER_LAYERS
	OfferUnitTokens    OfferField = C.QUIRE_OFFER_UNIT_TOKENS
	OfferRanks         OfferField = C.QUIRE_OFFER_RANKS
	OfferGroups        OfferField = C.QUIRE_OFFER_GROUPS
	OfferLookAhead     OfferField = C.QUIRE_OFFER_LOOK_AHEAD
	OfferSalt          OfferField = C.QUIRE_OFFER_SALT
	OfferAdapter       OfferField = C.QUIRE_OFFER_ADAPTER
	OfferEpoch         OfferField = C.QUIRE_OFFER_EPOCH
	OfferEndToken      OfferField = C.QUIRE_OFFER_END_TOKEN
	OfferPrompt        OfferField = C.QUIRE_OFFER_PROMPT
	OfferBlockTokens   OfferField = C.QUIRE_OFFER_BLOCK_TOKENS
	OfferEncoderTokens OfferField = C.QUIRE_OFFER_ENCODER_TOKENS
)

// ConnectorState says whether a connector works now.
type ConnectorState int32

// ConnectorState: see the headers.
const (
	ConnectorUp       ConnectorState = C.QUIRE_CONNECTOR_UP
	ConnectorFull     ConnectorState = C.QUIRE_CONNECTOR_FULL
	ConnectorReadOnly ConnectorState = C.QUIRE_CONNECTOR_READ_ONLY
	ConnectorDown     ConnectorState = C.QUIRE_CONNECTOR_DOWN
)

// PinHard is the priority of pins that are never given up.
const PinHard = C.QUIRE_PIN_HARD

// UnitHasState in Unit.Flags: the unit ends where a state is kept, which the hold has.
const UnitHasState = C.QUIRE_UNIT_HAS_STATE
