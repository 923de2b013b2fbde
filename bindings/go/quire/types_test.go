// Claim: the structs of this package have the bytes of C. Method: size, offsets and field sizes against abi/abi.golden, which the C compiler
// wrote from the headers.
package quire

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var mirrored = map[string]any{
	"quire_model_info": ModelInfo{}, "quire_codec_params": CodecParams{}, "quire_state_tensor": StateTensor{}, "quire_config_info": ConfigInfo{}, "quire_vllm_options": VllmOptions{},
	"quire_group_info": GroupInfo{}, "quire_layer_place": LayerPlace{}, "quire_kv_view": KVView{}, "quire_kv_field": KVField{},
	"quire_state_view": StateView{}, "quire_region_info": RegionInfo{}, "quire_segment": Segment{}, "quire_segment_query": SegmentQuery{},
	"quire_run": Run{}, "quire_compatibility": Compatibility{}, "quire_capacity": Capacity{}, "quire_lowering": Lowering{},
	"quire_probe_info": Candidate{}, "quire_cache_options": CacheOptions{}, "quire_sequence_info": SequenceInfo{},
	"quire_reserve_entry": ReserveEntry{}, "quire_reserve_result": ReserveResult{}, "quire_commit_entry": CommitEntry{},
	"quire_step_info": StepInfo{}, "quire_copy": CopyID{}, "quire_zero": ZeroID{}, "quire_probe_result": ProbeResult{},
	"quire_cache_stats": Stats{}, "quire_group_stats": GroupStats{}, "quire_load_failure": LoadFailure{},
	"quire_hash_media": HashMedia{}, "quire_event": Event{},
	"quire_event_batch": EventBatch{}, "quire_device_info": DeviceInfo{}, "quire_export": ExportOptions{},
	"quire_connector_info": ConnectorInfo{}, "quire_connector_stats": ConnectorStats{}, "quire_ticket_run": TicketRun{},
	"quire_connector_health": ConnectorHealth{}, "quire_object_entry": ObjectEntry{},
	"quire_ticket": Ticket{}, "quire_completion": Completion{}, "quire_dtype": DType{}, "quire_pin_options": PinOptions{}, "quire_pin_info": PinInfo{},
	"quire_hold_info": HoldInfo{}, "quire_unit": Unit{}, "quire_unit_options": UnitOptions{},
	"quire_fetch_result": FetchResult{}, "quire_tier_stats": TierStats{},
	"quire_tiers_stats": TiersStats{}, "quire_record_info": RecordInfo{},
	"quire_offer": Offer{}, "quire_offer_info": OfferInfo{}, "quire_offer_refusal": OfferRefusal{},
	"quire_session_info": SessionInfo{},
}

func TestStructsAreThoseOfC(t *testing.T) {
	file, err := os.Open("../../../abi/abi.golden")
	if err != nil {
		t.Skip(err)
	}
	defer file.Close()
	compared, of, field := 0, reflect.Type(nil), 0
	name := ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var size, offset uintptr
		if strings.HasPrefix(lines.Text(), "  ") && of != nil {
			var c string
			if _, err := fmt.Sscanf(lines.Text(), "  %d %d %s", &offset, &size, &c); err != nil {
				t.Fatal(lines.Text())
			}
			if field >= of.NumField() {
				t.Errorf("%s.%s is not in Go", name, c)
				continue
			}
			f := of.Field(field)
			spelled := strings.ReplaceAll(c, "_", "")
			if f.Offset != offset || f.Type.Size() != size || (f.Name != "_" && !strings.HasSuffix(spelled, strings.ToLower(f.Name))) {
				t.Errorf("%s.%s: %d bytes at %d in C; %s has %d at %d", name, c, size, offset, f.Name, f.Type.Size(), f.Offset)
			}
			field++
			continue
		}
		if of != nil && field != of.NumField() {
			t.Errorf("%s: Go has %d fields, C %d", name, of.NumField(), field)
		}
		of, field = nil, 0
		if n, _ := fmt.Sscanf(lines.Text(), "struct %s %d", &name, &size); n == 2 && mirrored[name] != nil {
			of = reflect.TypeOf(mirrored[name])
			compared++
			if of.Size() != size {
				t.Errorf("%s: %d bytes in C, %d in Go", name, size, of.Size())
			}
		}
	}
	if compared != len(mirrored) {
		t.Errorf("%d of %d structs were compared", compared, len(mirrored))
	}
}
