package quire

// Structs of tier.h and session.h, byte for byte (types_test.go compares them with abi.golden). The
// calls set structSize.

// FetchID names a fetch of a Tiers: they count up from 1; 0 is none.
type FetchID uint64

// FetchResult is quire_fetch_result: how a fetch ended.
type FetchResult struct {
	Fetch    FetchID      // its number
	Sequence SequenceID   // may be used again
	Outcome  FetchOutcome // how it ended
	Tier     uint32       // index of the tier that gave most bytes; 0xffffffff = none
	// Tokens that the sequence has now, whatever the outcome. 0 = it is empty: reserve with
	// EntryMatch. Otherwise reserve the rest without it, from Known of Cache.Sequence on: a load
	// knows symbols beyond what it brought.
	Committed uint64
	HitTokens uint64 // of these, found in the cache
	Bytes     uint64 // that were brought
	ElapsedNs int64  // from BeginFetch to the end
	_         uint64
}

// TierStats is quire_tier_stats: what happened in one tier since it was made.
type TierStats struct {
	structSize     uint32
	IsOpen         uint32 // 0 = closed after 5 failures in a row, for 5 s to 5 min
	Name           Text32 // as it was given, or the connector's
	UnitsStored    uint64 // all objects of a unit were written, or existed
	UnitsDropped   uint64 // not written: too much was in flight, or a store failed
	ObjectsStored  uint64 // written
	ObjectsExisted uint64 // stores of objects that were there
	ObjectsLoaded  uint64 // read
	ObjectsMissing uint64 // found by a look-up, and gone when they were loaded
	ObjectsDamaged uint64 // checksum, size or name was another; they were removed
	ObjectsFailed  uint64 // other errors of loads
	BytesStored    uint64 // written
	BytesLoaded    uint64 // read
	BytesInFlight  uint64 // of stores and loads, now
	KeysLookedUp   uint64 // asked for
	KeysFound      uint64 // of these
	TokensFetched  uint64 // of fetches that are done, by the tier that gave most
	TimesClosed    uint64 // after failures in a row
	NsPerMib       uint64 // of loads, as it is estimated now; 0 = unknown
	LatencyNs      uint64 // of look-ups, as it is estimated now; 0 = unknown
	OffersRefused  uint64 // fetches for which Refusal has an answer
}

// TiersStats is quire_tiers_stats: what happened in all tiers since they were made.
type TiersStats struct {
	structSize        uint32
	_                 uint32
	UnitTokens        uint64    // tokens of a unit
	Fetches           uint64    // begun
	FetchesInProgress uint64    // now
	Outcomes          [8]uint64 // by FetchOutcome
	TokensFetched     uint64    // of fetches that are done
	TokensHit         uint64    // of the same fetches, found in the cache
	UnitsTaken        uint64    // from the cache
	UnitsInFlight     uint64    // held for stores
	Quarantined       uint64    // loads that were given up and may still be written; now
	QuarantinedEver   uint64    // since the tiers were made
	TokensAsked       uint64    // of fetches that ended: beyond what the cache had
	FetchNs           uint64    // from BeginFetch to the end; sum
	// Element i counts fetches that took less than 2^i microseconds and not less than half of that.
	// The last element counts the rest, too.
	FetchLatency     [32]uint64
	Offers           uint64 // begun
	OffersInProgress uint64 // now
}

// OfferRefusal is quire_offer_refusal: why nothing came of an offer.
type OfferRefusal struct {
	structSize uint32
	Field      OfferField // the first one that differs
	Name       Text64     // of it, for example "unit_tokens" or "layer 3.0"
	Here       Text128    // its value in this process; empty = it is not shown
	There      Text128    // in the peer's, who may say anything
}

// OfferHandle names an offer: random, and whoever has it can read the offer.
type OfferHandle [16]byte

// Offer is quire_offer: what one process offers another. Its handle and end go to the other
// process, as parts of a Peer.
type Offer struct {
	Handle   OfferHandle // its name
	EndToken uint64      // the reader resumes here: it computes what follows
	NumBytes uint64      // of all ranks, with headers
}

// OfferInfo is quire_offer_info: how an offer stands.
type OfferInfo struct {
	structSize uint32
	IsReady    uint32 // 1 = pass the handle on now
	NumRecords uint64 // of all of the offer
	NumTokens  uint64 // that can be read now; EndToken of the offer: it is complete
}

// RecordInfo is quire_record_info: what the header of a record says. A record is what a tier keeps
// as one object: blocks that one group has on one shard, of the tokens of a unit, or a state.
type RecordInfo struct {
	structSize  uint32
	Version     uint32       // of the format
	Key         [32]byte     // under which it is kept
	Fingerprint [32]byte     // of the name of the weights and of what the layers cache
	Prefix      PrefixDigest // of all tokens up to EndToken
	Caches      uint64       // the same number where two records are of the same layers
	FirstToken  uint64       // of the unit; a state is that of EndToken
	EndToken    uint64       // the token after the last one
	HeaderBytes uint64       // the payload begins there: NumBlocks blocks
	BlockBytes  uint64       // of a block
	NumBlocks   uint64       // of the payload
	FirstBlock  [2]uint64    // of the sequence, of up to two stretches of blocks:
	EndBlock    [2]uint64    // sinks and the tail of a window
	WrittenAtNs int64        // since 1970
	BlockTokens uint32       // states: 0
	IsState     uint32       // 1 = a state
	NumCaches   uint32       // layers, or parts of layers with a cache of their own
	FirstLayer  uint32       // of the model
	LastLayer   uint32       // of the model
	FirstHead   uint32       // token caches, those of the first layer: which heads it has
	NumHeads    uint32       // states: 0
	Rank        uint32       // token caches: of context parallelism; states: of the shards
	NumRanks    uint32       // that Rank counts
	_           uint32
}

// SessionInfo is quire_session_info: what was saved or restored.
type SessionInfo struct {
	structSize uint32
	_          uint32
	NumTokens  uint64 // of the session: its symbols
	// Restore: tokens that the sequence has now. Fewer than NumTokens if records are damaged, or if
	// a window has longer blocks here than where it was saved and its first block is not complete.
	// The sequence then resumes where all groups can, perhaps at 0.
	Committed  uint64
	HitTokens  uint64 // restore: of these, found in the cache
	NumRecords uint64 // of the stream
	NumDamaged uint64 // restore: blocks of records whose checksum does not match
	Bytes      uint64 // of the stream
}
