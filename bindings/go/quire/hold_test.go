// Claim: holds, units and loads that leave something behind. Method: examples; what is held is counted by the cache.
package quire

import (
	"errors"
	"testing"
)

func TestAHoldLastsUntilItIsEnded(t *testing.T) {
	cache := must(NewCache(nil, planOf(33, fullLayer(0)), CacheOptions{}))
	defer cache.Close()
	sequence := must(cache.NewSequence(Identity{}))
	serve(t, cache, sequence, counting(0, 50))
	hold := must(cache.Hold(sequence, 16, 50))
	info := must(cache.HoldInfo(hold))
	if info.FirstToken != 16 || info.EndToken != 50 || info.NumParts != 3 {
		t.Errorf("%+v", info)
	}
	if ids := must(cache.HoldIDs(hold, 0)); len(ids) != 3 || ids[0] == 0 {
		t.Errorf("ids: %v", ids)
	}
	if _, err := cache.HoldIDs(hold, 9); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	if _, err := cache.Hold(sequence, 0, 99); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	if err := cache.Finish(sequence); err != nil {
		t.Fatal(err)
	}
	if stats := must(cache.Stats()); stats.Holds != 1 || stats.HeldParts != 3 || stats.PagesUsed != 3 {
		t.Errorf("%+v", stats)
	}
	if err := cache.EndHold(hold); err != nil {
		t.Error(err)
	}
	if err := cache.EndHold(hold); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	if stats := must(cache.Stats()); stats.Holds != 0 || stats.PagesUsed != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestUnitsBringHoldsAndNames(t *testing.T) {
	cache := must(NewCache(nil, planOf(33, fullLayer(0)), CacheOptions{}))
	defer cache.Close()
	if err := cache.WatchUnits(UnitOptions{UnitTokens: 5, Reasons: UnitCommitted}); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if err := cache.WatchUnits(UnitOptions{UnitTokens: 16, Reasons: UnitCommitted | UnitFinished, MaxWaiting: 4}); err != nil {
		t.Fatal(err)
	}
	tenant, prompt := Identity{Salt: "tenant"}, counting(0, 40)
	sequence := must(cache.NewSequence(tenant))
	serve(t, cache, sequence, prompt)
	names := must(cache.PrefixDigests(tenant, prompt, []uint64{16, 32}))
	units := make([]Unit, 8)
	if n := must(cache.TakeUnits(units)); n != 2 {
		t.Fatalf("%d units", n)
	}
	for i, unit := range units[:2] {
		if unit.Sequence != sequence || unit.FirstToken != uint64(16*i) || unit.EndToken != uint64(16*i+16) || unit.Flags != 0 ||
			unit.Reason != UnitCommitted || unit.Digest != names[i] || unit.AheadDigest != names[i] {
			t.Errorf("%+v", unit)
		}
		if err := cache.EndHold(unit.Hold); err != nil {
			t.Error(err)
		}
	}
	if err := cache.Finish(sequence); err != nil {
		t.Fatal(err)
	}
	if n := must(cache.TakeUnits(units[:1])); n != 1 || units[0].Reason != UnitFinished {
		t.Errorf("%d units, %+v", n, units[0])
	}
	if err := cache.WatchNoUnits(); err != nil {
		t.Error(err)
	}
	if stats := must(cache.Stats()); stats.Holds != 1 || stats.UnitsGivenUp != 1 {
		t.Errorf("%+v", stats)
	}
	if _, err := cache.PrefixDigests(tenant, prompt, []uint64{41}); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	if other := must(cache.PrefixDigests(Identity{}, prompt, []uint64{32})); other[0] == names[1] {
		t.Error("the name of another tenant's prefix")
	}
	if none := must(cache.PrefixDigests(tenant, prompt, nil)); len(none) != 0 {
		t.Error(none)
	}
}

func TestALoadLeavesWhatMayStillBeWritten(t *testing.T) {
	cache := must(NewCache(nil, planOf(33, fullLayer(0)), CacheOptions{MaxLoads: 1, MaxLoadTokens: 40}))
	defer cache.Close()
	sequence := must(cache.NewSequence(Identity{}))
	entry := ReserveEntry{Sequence: sequence, NumSymbols: 50, NumTokens: 49, Flags: EntryMatch}
	result, load, err := cache.BeginLoad(entry, counting(0, 50))
	if err != nil || result.NumTokens != 40 {
		t.Fatal(err, result)
	}
	if have := must(load.Have()); len(have) != 1 || have[0] != 0 {
		t.Errorf("have: %v", have)
	}
	second := entry
	second.Sequence = must(cache.NewSequence(Identity{}))
	if _, _, err := cache.BeginLoad(second, counting(0, 50)); !errors.Is(err, ResourceExhausted) {
		t.Error(err)
	}
	if _, _, err := load.EndLoadLate([]LoadFailure{{Group: 9}}); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	committed, late, err := load.EndLoadLate([]LoadFailure{{FirstToken: 20, NumTokens: 4}})
	if err != nil || committed != 20 || late == 0 {
		t.Fatal(committed, late, err)
	}
	if ids := must(cache.HoldIDs(late, 0)); len(ids) != 3 || ids[0] != 0 || ids[1] == 0 || ids[2] != 0 {
		t.Errorf("ids: %v", ids)
	}
	if err := cache.EndHold(late); err != nil {
		t.Error(err)
	}
	if _, err := load.Have(); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	result, load, err = cache.BeginLoad(second, counting(0, 50))
	if err != nil || result.HitTokens != 16 {
		t.Fatal(err, result)
	}
	if _, late, err := load.EndLoadLate(nil); err != nil || late != 0 {
		t.Error(late, err)
	}
}
