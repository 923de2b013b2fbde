package quire

// #include <quire/tier.h>
import "C"

import "unsafe"

// Peer says where a fetch finds what another process offers. A router passes it on.
type Peer struct {
	Tier     uint32      // index of a tier with Peers
	Address  string      // of the other process, as the connector wants it, 1 to 255 bytes
	Handle   OfferHandle // that of the other process's Offer
	EndToken uint64      // the same
	// The offer may grow still: what is missing is waited for, until EndToken is reached, the offer
	// ends, or the deadline passes.
	Grows bool
	// Cross attention: those of the sequence that is offered. Otherwise 0.
	EncoderTokens uint32
}

// BeginFetchFrom is BeginFetch, and asks a peer for what it offers: only for what cache and tiers
// lack. When the fetch ends, the peer learns that the offer is not needed any more. Tensor-parallel
// size, blocks, page order and policy of the peer may differ, as those of records may
// (TiersOptions.TensorParallel).
// Errors: those of BeginFetch, OutOfRange (peer.Tier, peer.EncoderTokens), FailedPrecondition (a tier
// without Peers).
func (t *Tiers) BeginFetchFrom(peer Peer, sequence SequenceID, symbols []Symbol,
	deadlineNs int64) (FetchID, error) {
	var a arena
	defer a.free()
	var p C.quire_peer
	p.struct_size = C.uint32_t(unsafe.Sizeof(p))
	p.tier, p.address, p.end_token = C.uint32_t(peer.Tier), a.text(peer.Address), C.uint64_t(peer.EndToken)
	p.encoder_tokens = C.uint32_t(peer.EncoderTokens)
	if peer.Grows {
		p.flags = C.QUIRE_PEER_GROWS
	}
	for i, b := range peer.Handle {
		p.handle[i] = C.uint8_t(b)
	}
	if err := a.missing(); err != nil {
		return 0, err
	}
	text, count := symbolsOf(symbols)
	var fetch C.quire_fetch_id
	err := t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_fetch_begin_peer(t, C.quire_sequence_id(sequence), text, count,
			C.int64_t(deadlineNs), &p, &fetch, err)
	})
	return FetchID(fetch), err
}

// Refusal reads why a fetch from a peer brought nothing of an offer that was there, or not all of it:
// the first field in which it differs from what this process could read. The latest 64 fetches that
// were refused so are remembered. Any goroutine.
// Errors: NotFound (no offer was refused in it, as far as is known).
func (t *Tiers) Refusal(fetch FetchID) (refusal OfferRefusal, err error) {
	refusal.structSize = uint32(unsafe.Sizeof(refusal))
	err = t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_fetch_get_refusal(t, C.quire_fetch_id(fetch),
			(*C.quire_offer_refusal)(unsafe.Pointer(&refusal)), err)
	})
	return refusal, err
}

// BeginOffer offers the first tokens of a sequence to one reader, through a tier with Peers. Nothing
// is copied: the connector sends from the pool, so the offer holds its blocks until the connector
// ends it: its reader is done, its lease is over (a setting of the connector), or it was withdrawn.
// symbols: the sequence's, at least those up to the end and those that drafts read ahead of it; read
// during the call.
//
// endToken is a multiple of the tokens at which all groups can resume; with recurrent layers commit
// up to exactly there. 0: the last one that is committed. An offer of more than what is committed
// grows: each Run adds what was committed since. Call it after every commit, and keep the sequence,
// and compute nothing beyond endToken, until NumTokens of OfferInfo is endToken. Otherwise the
// sequence may go on, or finish, at once. Run prepares the offer, and OfferInfo says when its handle
// can be passed on.
// Errors: InvalidArgument (endToken), NotFound (stale id), OutOfRange (tier, too few symbols,
// endToken beyond the longest sequence), FailedPrecondition (a tier without Peers; a load of the
// sequence is in progress; nothing is committed that far, or the state there is not kept),
// ResourceExhausted (MaxStoreBytes, holds, 4,096 offers), Unimplemented (bytes that the host cannot
// address).
func (t *Tiers) BeginOffer(sequence SequenceID, symbols []Symbol, endToken uint64, tier uint32) (offer Offer, err error) {
	text, count := symbolsOf(symbols)
	err = t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_offer_begin(t, C.quire_sequence_id(sequence), text, count,
			C.uint64_t(endToken), C.uint32_t(tier),
			(*C.quire_offer)(unsafe.Pointer(&offer)), err)
	})
	return offer, err
}

// OfferInfo reads how an offer stands. Errors: NotFound (unknown, or it has ended: its reader is
// done, its lease is over, or the connector failed).
func (t *Tiers) OfferInfo(handle OfferHandle) (info OfferInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_offer_get_info(t, (*C.uint8_t)(unsafe.Pointer(&handle)),
			(*C.quire_offer_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// EndOffer withdraws an offer. Its blocks stay held until the connector has proved that it reads
// them no more. Errors: NotFound (unknown, or it has ended).
func (t *Tiers) EndOffer(handle OfferHandle) error {
	return t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_offer_end(t, (*C.uint8_t)(unsafe.Pointer(&handle)), err)
	})
}
