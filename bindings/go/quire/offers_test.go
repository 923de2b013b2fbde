// Claim: an offer holds its blocks until it ends, has a name of its own, and is refused where it
// cannot be. Method: examples over the connector `null`, which ends every store at once and has
// nothing.
package quire

import (
	"errors"
	"testing"
	"time"
)

func offering(t testing.TB, e *engine) *Tiers {
	null := must(OpenConnector(e.rt, "null", ""))
	defer null.Close()
	o := e.options()
	o.Tiers = []Tier{{Connector: null, MaxStoreBytes: 1 << 20, Peers: true}}
	return must(NewTiers(e.cache, o))
}

func TestOffersAreHeldUntilTheyEnd(t *testing.T) {
	e := newEngine(16)
	tiers, text := offering(t, e), counting(100, 120)
	defer tiers.Close()
	id := must(e.cache.NewSequence(Identity{}))
	e.compute(t, id, text, 119)
	first, second := must(tiers.BeginOffer(id, text, 0, 0)), must(tiers.BeginOffer(id, text, 0, 0))
	if first.EndToken != 112 || first.NumBytes <= 112*2*2*dim*4 || first.Handle == second.Handle {
		t.Errorf("%+v %+v", first, second)
	}
	if info := must(tiers.OfferInfo(first.Handle)); info.IsReady != 0 || info.NumRecords != 4 {
		t.Errorf("%+v", info)
	}
	expect := func(held uint64) {
		t.Helper()
		stats, holds := must(tiers.Stats()), must(e.cache.Stats()).Holds
		if stats.Offers != 2 || stats.OffersInProgress != held || holds != held {
			t.Errorf("%+v, %d holds", stats, holds)
		}
	}
	expect(2)
	if err := tiers.EndOffer(second.Handle); err != nil {
		t.Error(err)
	}
	expect(1)
	for end := time.Now().Add(20 * time.Second); must(tiers.Stats()).OffersInProgress != 0; {
		if n, err := tiers.Run(1e6, nil); n != 0 || err != nil || time.Now().After(end) {
			t.Fatal(n, err, must(tiers.Stats()))
		}
	}
	expect(0)
	for _, offer := range []Offer{first, second} {
		if _, err := tiers.OfferInfo(offer.Handle); !errors.Is(err, NotFound) {
			t.Error(err)
		}
		if err := tiers.EndOffer(offer.Handle); !errors.Is(err, NotFound) {
			t.Error(err)
		}
	}
	peer := Peer{Address: "peer:1", Handle: first.Handle, EndToken: first.EndToken}
	fetch := must(tiers.BeginFetchFrom(peer, must(e.cache.NewSequence(Identity{})), counting(500, 120), 1e10))
	if got := ended(t, tiers); got.Fetch != fetch || got.Outcome != FetchNothing {
		t.Errorf("%+v", got)
	}
	if _, err := tiers.Refusal(fetch); !errors.Is(err, NotFound) { // there is no offer
		t.Error(err)
	}
	if must(tiers.TierStats(0)).KeysLookedUp == 0 {
		t.Error("the peer was not asked")
	}
}

func TestOffersAreRefusedWhereTheyCannotBe(t *testing.T) {
	e, plain := newEngine(16), newEngine(16)
	tiers, without, text := offering(t, e), must(NewTiers(plain.cache, plain.options(plain.host()))), counting(100, 120)
	defer tiers.Close()
	defer without.Close()
	computed := func(of *engine) SequenceID {
		id := must(of.cache.NewSequence(Identity{}))
		of.compute(t, id, text, 119)
		return id
	}
	id, other, empty := computed(e), computed(plain), must(e.cache.NewSequence(Identity{}))
	peer := Peer{Address: "peer:1", EndToken: 96}
	for name, test := range map[string]struct {
		code Code
		call func() error
	}{
		"no peers":    {FailedPrecondition, func() error { _, err := without.BeginOffer(other, text, 0, 0); return err }},
		"empty":       {FailedPrecondition, func() error { _, err := tiers.BeginOffer(empty, text, 0, 0); return err }},
		"tier":        {OutOfRange, func() error { _, err := tiers.BeginOffer(id, text, 0, 1); return err }},
		"few symbols": {OutOfRange, func() error { _, err := tiers.BeginOffer(id, text[:90], 0, 0); return err }},
		"stale":       {NotFound, func() error { _, err := tiers.BeginOffer(999, text, 0, 0); return err }},
		"from no peers": {FailedPrecondition, func() error {
			_, err := without.BeginFetchFrom(peer, must(plain.cache.NewSequence(Identity{})), text, 0)
			return err
		}},
		"from tier": {OutOfRange, func() error {
			_, err := tiers.BeginFetchFrom(Peer{Tier: 1, Address: "peer:1"}, empty, text, 0)
			return err
		}},
		"from nowhere": {InvalidArgument, func() error {
			_, err := tiers.BeginFetchFrom(Peer{}, empty, text, 0)
			return err
		}},
	} {
		if err := test.call(); !errors.Is(err, test.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := e.options(e.host())
	o.Tiers[0].Peers = true
	if _, err := NewTiers(newEngine(16).cache, o); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
}
