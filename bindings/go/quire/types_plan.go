package quire

// Structs of the headers, byte for byte (types_test.go compares them with abi.golden). The calls set structSize.

// ModelInfo is quire_model_info: facts of a model.
type ModelInfo struct {
	structSize   uint32
	NumLayers    uint32 // of the model, layers without cache included
	NumCaches    uint32 // entries that quire_model_layer can return
	NumQHeads    uint32 // 0 = differs or unknown
	MaxModelLen  uint64 // tokens; 0 = unknown
	Architecture Text64 // NUL terminated
}

// CodecParams is quire_codec_params: what a codec adds to heads, widths and dtype. Index 0 is K (or the only side), 1 is V. RECORD and
// BLOCK_SPLIT: data_bytes must be given, head_dim and dtype say what they decode to.
type CodecParams struct {
	DataBytes      [2]uint32 // of a cell: the encoded elements; RECORD and BLOCK_SPLIT only
	ScaleBytes     [2]uint32 // of a cell: its scales; RECORD and BLOCK_SPLIT only, 0 = none inside the cache
	TailBytes      [2]uint32 // of a cell: elements kept in tail_dtype, such as rope; RECORD and BLOCK_SPLIT only
	DataDType      DType     // encoded elements, fp4 included; all zero = dtype of the layer
	ScaleDType     DType     // all zero = none
	TailDType      DType     // all zero = none
	ScaleElements  uint32    // elements that share a scale; 0 = all of a cell
	Tile           uint32    // elements; TILED and SHUFFLED: 16 / bytes of an element when 0
	BlockAlignment uint32    // bytes a block is rounded up to; 0 = 1
}

// StateTensor is quire_state_tensor: one tensor of a recurrent state, per sequence.
type StateTensor struct {
	DType DType     // of the elements
	Ndim  uint32    // 1..4
	Shape [4]uint64 // elements, row-major in memory
}

// VllmOptions is quire_vllm_options: what only the policy vllm reads.
type VllmOptions struct {
	Flags           uint32 // QUIRE_VLLM_*
	StateMode       int32  // QUIRE_STATE_MODE_*
	MatchUnitTokens uint32 // tokens that a prefix name covers; 0 = the blocks' greatest common divisor
	RetainedTokens  uint32 // tokens that windows keep before their range, for chained draft modules
	_               uint64
}

// ConfigInfo is quire_config_info: the whole plan.
type ConfigInfo struct {
	structSize      uint32
	NumGroups       uint32  // groups of the plan
	NumShards       uint32  // ranks, each with memory of its own
	MatchUnitTokens uint32  // the prefix index matches in these; hits are multiples of the lcm of the blocks
	NumPages        uint64  // the null page included
	MaxModelLen     uint64  // tokens of the longest sequence
	PaddingShare    float64 // 1 - payload / page bytes, worst group
	CapacityTokens  uint64  // longest single sequence that always fits, at most max_model_len
	Policy          Text32  // that made the plan
	Layout          Text32  // order of the first group that has tokens
}

// GroupInfo is quire_group_info: one group.
type GroupInfo struct {
	structSize           uint32
	Group                uint32 // its index
	IsState              uint32 // 1 = recurrent states: slots instead of a token table
	BlockTokens          uint32 // tokens of a block; states: spacing of boundaries
	KernelBlockTokens    uint32 // tokens behind one lowered id
	KernelBlocksPerPart  uint32 // lowered ids per id; 1 for states
	PartsPerPage         uint32 // equal pieces of a page, each with an id
	IDsPerBlock          uint32 // columns of the table
	NumLanes             uint32 // sets of layers whose bytes of a block lie together
	NumCaches            uint32 // layers and subs in the group
	SinkTokens           uint64 // tokens that stay live from the start
	Window               uint64 // live tail; 0 = everything
	Chunk                uint64 // live since the last multiple; 0 = none
	PayloadBytesPerBlock uint64 // all lanes, of the shard that pads most among those with layers of the group
	PageBytesPerBlock    uint64 // share of page bytes of one block, padding included, of the same shard
	LookAhead            uint32 // tokens
	Flags                uint32 // 0
	EncoderTokens        uint64 // cross attention: most of a sequence; 0 = a group of another kind
	TablePitch           uint64 // lowered ids of the longest sequence, look-ahead included; 0 for states
	CheckpointInterval   uint64 // states: tokens between checkpoints, unless the cache chooses; 0 = wherever a chunk ends on a boundary
}

// LayerPlace is quire_layer_place: where one cached layer lives.
type LayerPlace struct {
	structSize    uint32
	Group         uint32 // that the layer is in
	Column        uint32 // which id of the block addresses it
	Lane          uint32 // of the group
	IndexInLane   uint32 // among the layers of the lane
	PipelineStage uint32 // whose shards have it
}

// KVView is quire_kv_view: strided description of the token cache of one layer in one shard. Index 0 is K (or the only side), 1 is V.
// Address of (lowered id i, token t, head h, element d) on side s: region base + offset[s] + i * unit[s] + t * stride_token[s] + h *
// stride_head[s] + d * stride_dim[s] (all bytes) Address by (page b, kernel block j of the page): ... + b * stride_page[s] + j *
// stride_block[s] instead of i * unit[s].
type KVView struct {
	structSize          uint32
	Group               uint32      // that the layer is in
	Column              uint32      // which id of a block addresses the layer
	Region              uint32      // that the layer lies in
	NumSides            uint32      // 1 or 2
	NumHeads            uint32      // KV heads of this shard
	HeadDim             [2]uint32   // elements
	BlockTokens         uint32      // rows behind one lowered id
	BlocksPerPage       uint32      // kernel blocks of a page
	DType               DType       // of the elements
	Codec               int32       // QUIRE_CODEC_*: how elements are stored
	NumPages            uint64      // of the region, the null page included
	Offset              [2]int64    // bytes from the region's base
	StridePage          [2]int64    // bytes from page to page
	StrideBlock         [2]int64    // bytes from kernel block to kernel block of a page
	Unit                [2]int64    // bytes between lowered ids
	StrideToken         [2]int64    // bytes from row to row of a block
	StrideHead          [2]int64    // bytes from head to head
	StrideDim           [2]int64    // bytes from element to element
	CodecParams         CodecParams // what the codec adds
	FirstHead           uint32      // of the model's KV heads: what head 0 of the view is
	ModelHeads          uint32      // KV heads of the whole model
	KernelBlocksPerPart uint32      // an id names this many kernel blocks of a page
	TokensPerRow        uint32      // c tokens share a row where the cache is compressed, 1 otherwise
	ContextRank         uint32      // row x of the view's rows in order is row x * context_ranks + context_rank of all ranks' rows
	ContextRanks        uint32      // ranks that take turns row by row; 0 = 1
}

// KVField is quire_kv_field: where a codec keeps a part of every row. Address of item i of (lowered id u, token t, head h): region base
// + offset + u * unit[side] + h * stride_head + (t / tile_tokens) * stride_token_tile + (t % tile_tokens) * stride_token + (i /
// tile_items) * stride_item_tile + (i % tile_items) * stride_item (all bytes) Plain elements are one field per side whose tiles are the
// whole block.
type KVField struct {
	Side            uint32 // 0 is K (or the only side), 1 is V
	Role            int32  // QUIRE_FIELD_*
	DType           DType  // of an item; types below 8 bits come lanes at a time, the first in the lowest bits
	NumItems        uint32 // of one token and head
	TileTokens      uint32 // tokens of a tile
	TileItems       uint32 // items of a tile
	Offset          int64  // bytes from the region's base, of token 0, head 0, item 0
	StrideHead      int64  // bytes from head to head
	StrideTokenTile int64  // bytes from tile to tile of tokens
	StrideToken     int64  // bytes from token to token inside a tile
	StrideItemTile  int64  // bytes from tile to tile of items
	StrideItem      int64  // bytes from item to item inside a tile
	_               uint64
}

// StateView is quire_state_view: one state tensor of one layer in one shard. Address of element x: region base + offset + lowered id *
// unit + sum(x[k] * stride[k]).
type StateView struct {
	structSize   uint32
	Group        uint32    // that the layer is in
	Column       uint32    // which id addresses the layer
	Region       uint32    // that the layer lies in
	DType        DType     // of the elements
	Ndim         uint32    // dimensions in Shape and Stride
	Offset       int64     // bytes from the region's base
	Unit         int64     // bytes between lowered ids
	StridePage   int64     // bytes from page to page
	StridePart   int64     // bytes from part to part of a page
	Shape        [4]uint64 // elements
	Stride       [4]int64  // bytes
	PartsPerPage uint32    // states of a page
	ShardDim     uint32    // 1 + dimension split over ranks; 0 = every rank has the whole tensor
	NumRanks     uint32    // that the dimension is split over; 1 where shard_dim is 0
	Rank         uint32    // of this shard among NumRanks
	ShardParts   [4]uint32 // extents over all ranks along the dimension that are split one by one; all 0 = one
	NumPages     uint64    // of the region, the null page included
	ShardRepeats [4]uint32 // ranks that hold the same slice of each part, side by side; 0 = 1. The model has part / repeats
}

// RegionInfo is quire_region_info: one allocation of a shard.
type RegionInfo struct {
	structSize uint32
	Region     uint32 // its index
	Bytes      uint64 // of the allocation
	Alignment  uint64 // of its base, bytes
	PageStride uint64 // bytes from page b to b + 1 in each plane
	NumPlanes  uint64 // parts of the region, each with a strip of every page
}

// Segment is quire_segment: A dense run of payload bytes.
type Segment struct {
	Region uint32 // that it lies in
	Layer  uint32 // first layer of the run
	Offset uint64 // bytes from the region's base
	Bytes  uint64 // of the run
	_      uint64
}

// SegmentQuery is quire_segment_query: which segments. Zero = all of a page's group and column.
type SegmentQuery struct {
	structSize    uint32
	Flags         uint32 // QUIRE_SELECT_*
	Shard         uint32 // whose bytes
	Group         uint32 // of the ids
	Column        uint32 // the one that the ids stand in
	Layer         uint32 // with SelectOneLayer: index in the model
	Sub           uint32 // with SelectOneLayer: index among the caches of the layer
	HeadShard     uint32 // of num_head_shards equal slices of the shard's heads; caches of one head belong to every slice
	NumHeadShards uint32 // 0 = 1
	_             uint32
}

// Run is quire_run: `count` dense pieces of `bytes`, from_stride and to_stride bytes apart: what one view reads and another writes.
type Run struct {
	FromRegion uint32 // read
	ToRegion   uint32 // written
	FromOffset uint64 // bytes from the region's base
	ToOffset   uint64 // bytes from the region's base
	Bytes      uint64 // of a piece
	Count      uint64 // pieces
	FromStride int64  // bytes from piece to piece where they are read
	ToStride   int64  // bytes from piece to piece where they are written
	_          uint64
}

// Compatibility is quire_compatibility.
type Compatibility struct {
	structSize uint32
	Level      int32   // QUIRE_COMPAT_*
	Reason     Text248 // layer, field and both values that keep it from the level above; empty when identical
}

// Capacity is quire_capacity: how many sequences caches with given options hold. Sequences share no prefixes here.
type Capacity struct {
	structSize    uint32
	_             uint32
	Tokens        uint64 // per sequence
	Concurrency   uint64 // sequences, as asked
	Guaranteed    uint64 // of `tokens` tokens: as long as no more are live, no entry is refused for lack of room
	Decoding      uint64 // started one after the other, each decodes in every step until all have `tokens` tokens
	Resident      uint64 // computed one after the other, waiting then, until the first is refused
	Longest       uint64 // tokens of each of `concurrency` sequences, guaranteed; at most max_model_len, 0 = none fits
	PagesNeeded   uint64 // for `concurrency` sequences of `tokens` tokens, guaranteed
	BytesNeeded   uint64 // PagesNeeded in bytes, on the shard with the largest pages
	KvCacheTokens uint64 // the pool in tokens, as other engines print it
}

// Lowering is quire_lowering: how ids become lowered ids for one group and shard: lowered(id, k) = (id / parts_per_page) * page_factor +
// (id % parts_per_page) * part_factor + k * block_factor, k in [0, kernel_blocks_per_part).
type Lowering struct {
	structSize          uint32
	PartsPerPage        uint32 // ids of a page
	KernelBlocksPerPart uint32 // lowered ids of an id
	_                   uint32
	PageFactor          uint64 // lowered ids from page to page
	PartFactor          uint64 // lowered ids from part to part
	BlockFactor         uint64 // lowered ids from kernel block to kernel block
	NumLoweredIDs       uint64 // all lowered ids are below this
}

// Candidate is quire_probe_info: one candidate of the module search.
type Candidate struct {
	structSize uint32
	Code       Code    // QUIRE_OK = usable
	Kind       int32   // 1 driver, 2 connector
	Step       int32   // the step of negotiation reached, 0..9
	DurationNs int64   // that the search took for it
	Name       Text32  // of the module
	Path       Text256 // truncated, NUL terminated
	Reason     Text256 // why it was refused, empty when usable
}
