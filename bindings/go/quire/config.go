package quire

// #include <quire/quire.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// PlanOptions says how much memory a plan has, bytes (one number, or one per shard) or pages, and what it is made for: quire_plan_options.
// Zero values are its defaults.
type PlanOptions struct {
	TensorParallel    uint32      // shards by heads; 0 = 1
	PipelineParallel  uint32      // shards by layers; 0 = 1
	ContextParallel   uint32      // shards by tokens; 0 = 1
	Policy            string      // auto, pack:N, vllm; "" = auto
	Layout            string      // order of letters such as BLPJKTHD; "" = the policy's
	MemoryBytes       []uint64    // one number for all shards, or one per shard
	NumPages          uint64      // 0 = as many as fit in MemoryBytes
	MaxModelLen       uint64      // tokens; 0 = the model's
	MaxTokensInFlight uint64      // of one sequence between Reserve and Commit; 0 = 8192
	BlockTokens       uint32      // wanted block of attention groups; 0 = 16
	KernelBlockTokens uint32      // blocks of kernels are a multiple of this; 0 = 16
	KVDType           DType       // all zero = the model's
	StateDType        DType       // of recurrent states, but not of short convolutions; all zero = the model's
	KVScales          int32       // QUIRE_KV_SCALES_*
	Flags             uint32      // QUIRE_PLAN_*
	PreferredLayouts  []string    // what the driver's kernels like, best first; at most 16
	PageAlignment     uint64      // bytes that pages are a multiple of; 0 = the policy's
	EncoderTokens     uint64      // most of a request; 0 = the model's
	StageLayers       []uint32    // layers of each pipeline stage; nil = evenly
	Vllm              VllmOptions // what only the policy vllm reads
}

// Config is a plan: groups, pages, blocks. Immutable; any goroutine.
type Config struct{ handle }

func (c *Config) c() *C.quire_config {
	if c == nil {
		return nil
	}
	return (*C.quire_config)(c.p)
}

// NewConfig plans the cache of a model.
func NewConfig(model *Model, options PlanOptions) (*Config, error) {
	var a arena
	defer a.free()
	var o C.quire_plan_options
	o.struct_size = C.uint32_t(unsafe.Sizeof(o))
	o.tensor_parallel, o.pipeline_parallel = C.uint32_t(options.TensorParallel), C.uint32_t(options.PipelineParallel)
	o.context_parallel = C.uint32_t(options.ContextParallel)
	o.policy, o.layout = a.text(options.Policy), a.text(options.Layout)
	o.memory_bytes = (*C.uint64_t)(unsafe.Pointer(copied(&a, options.MemoryBytes)))
	o.num_memory_bytes, o.num_pages = C.uint64_t(len(options.MemoryBytes)), C.uint64_t(options.NumPages)
	o.max_model_len, o.max_tokens_in_flight = C.uint64_t(options.MaxModelLen), C.uint64_t(options.MaxTokensInFlight)
	o.block_tokens, o.kernel_block_tokens = C.uint32_t(options.BlockTokens), C.uint32_t(options.KernelBlockTokens)
	o.state_dtype = options.StateDType.c()
	o.kv_dtype, o.kv_scales, o.flags = options.KVDType.c(), C.quire_kv_scales(options.KVScales), C.uint32_t(options.Flags)
	layouts := make([]C.quire_str, len(options.PreferredLayouts))
	for i, layout := range options.PreferredLayouts {
		layouts[i] = a.text(layout)
	}
	o.preferred_layouts, o.num_preferred_layouts = copied(&a, layouts), C.uint64_t(len(layouts))
	o.page_alignment, o.encoder_tokens = C.uint64_t(options.PageAlignment), C.uint64_t(options.EncoderTokens)
	o.stage_layers = (*C.uint32_t)(unsafe.Pointer(copied(&a, options.StageLayers)))
	o.num_stage_layers = C.uint64_t(len(options.StageLayers))
	*(*VllmOptions)(unsafe.Pointer(&o.vllm)) = options.Vllm
	if err := a.missing(); err != nil {
		return nil, err
	}
	var p *C.quire_config
	err := call(func(err *C.quire_error) C.quire_code { return C.quire_config_create(model.c(), &o, &p, err) })
	runtime.KeepAlive(model)
	if err != nil {
		return nil, err
	}
	c := &Config{handle{unsafe.Pointer(p)}}
	runtime.SetFinalizer(c, (*Config).Close)
	return c, nil
}

// Close drops the reference.
func (c *Config) Close() {
	if c == nil {
		return
	}
	C.quire_config_release((*C.quire_config)(c.take()))
	runtime.SetFinalizer(c, nil)
}

// Share takes another reference to the same object, with a Close of its own.
func (c *Config) Share() *Config {
	shared := &Config{handle{unsafe.Pointer(C.quire_config_retain(c.c()))}}
	runtime.KeepAlive(c)
	runtime.SetFinalizer(shared, (*Config).Close)
	return shared
}

func (c *Config) ask(body func(c *C.quire_config, err *C.quire_error) C.quire_code) error {
	err := call(func(err *C.quire_error) C.quire_code { return body(c.c(), err) })
	runtime.KeepAlive(c)
	return err
}

// Info answers the facts of the plan.
func (c *Config) Info() (info ConfigInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_get_info(c, (*C.quire_config_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// Group answers the facts of one group.
func (c *Config) Group(group uint32) (info GroupInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_get_group(c, C.uint32_t(group), (*C.quire_group_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// Place answers where the cache of a layer lives.
func (c *Config) Place(layer, sub uint32) (place LayerPlace, err error) {
	place.structSize = uint32(unsafe.Sizeof(place))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_get_place(c, C.uint32_t(layer), C.uint32_t(sub), (*C.quire_layer_place)(unsafe.Pointer(&place)), err)
	})
	return place, err
}

// KVView answers offsets and strides of a token cache.
func (c *Config) KVView(shard, layer, sub uint32) (view KVView, err error) {
	view.structSize = uint32(unsafe.Sizeof(view))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_get_kv_view(c, C.uint32_t(shard), C.uint32_t(layer), C.uint32_t(sub), (*C.quire_kv_view)(unsafe.Pointer(&view)), err)
	})
	return view, err
}

// StateView answers offsets and strides of one tensor of a state.
func (c *Config) StateView(shard, layer, sub, tensor uint32) (view StateView, err error) {
	view.structSize = uint32(unsafe.Sizeof(view))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_get_state_view(c, C.uint32_t(shard), C.uint32_t(layer), C.uint32_t(sub), C.uint32_t(tensor),
			(*C.quire_state_view)(unsafe.Pointer(&view)), err)
	})
	return view, err
}

// Lowering answers how ids of a group become lowered ids.
func (c *Config) Lowering(shard, group uint32) (lowering Lowering, err error) {
	lowering.structSize = uint32(unsafe.Sizeof(lowering))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_get_lowering(c, C.uint32_t(shard), C.uint32_t(group), (*C.quire_lowering)(unsafe.Pointer(&lowering)), err)
	})
	return lowering, err
}

// Capacity answers what a cache with these options holds: tokens 0 = the model's length, concurrency 0 = 1.
func (c *Config) Capacity(options CacheOptions, tokens, concurrency uint64) (capacity Capacity, err error) {
	capacity.structSize = uint32(unsafe.Sizeof(capacity))
	options.structSize = uint32(unsafe.Sizeof(options))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_get_capacity(c, (*C.quire_cache_options)(unsafe.Pointer(&options)), C.uint64_t(tokens), C.uint64_t(concurrency), (*C.quire_capacity)(unsafe.Pointer(&capacity)), err)
	})
	return capacity, err
}

// Compare says how the bytes of this plan relate to those of another of the same model.
func (c *Config) Compare(other *Config) (relation Compatibility, err error) {
	relation.structSize = uint32(unsafe.Sizeof(relation))
	err = c.ask(func(c *C.quire_config, err *C.quire_error) C.quire_code {
		return C.quire_config_compare(c, other.c(), (*C.quire_compatibility)(unsafe.Pointer(&relation)), err)
	})
	runtime.KeepAlive(other)
	return relation, err
}

// Regions lists the allocations of a shard.
func (c *Config) Regions(shard uint32) ([]RegionInfo, error) {
	stride := C.uint64_t(unsafe.Sizeof(RegionInfo{}))
	all, err := list(RegionInfo{structSize: uint32(stride)}, func(items *RegionInfo, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_config_list_regions(c.c(), C.uint32_t(shard), (*C.quire_region_info)(unsafe.Pointer(items)), stride, n, count, err)
	})
	runtime.KeepAlive(c)
	return all, err
}

// Segments lists the payload runs of ids that the query selects, merged and in address order: of a page, of one layer, of one slice of
// the heads.
func (c *Config) Segments(query SegmentQuery, ids []int32) ([]Segment, error) {
	query.structSize = uint32(unsafe.Sizeof(query))
	all, err := list(Segment{}, func(items *Segment, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_config_list_segments(c.c(), (*C.quire_segment_query)(unsafe.Pointer(&query)), (*C.int32_t)(first(ids)),
			C.uint64_t(len(ids)), (*C.quire_segment)(unsafe.Pointer(items)), n, count, err)
	})
	runtime.KeepAlive(c)
	return all, err
}

// Fields lists where the codec of a token cache keeps elements, scales and tail.
func (c *Config) Fields(shard, layer, sub uint32) ([]KVField, error) {
	all, err := list(KVField{}, func(items *KVField, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_config_list_fields(c.c(), C.uint32_t(shard), C.uint32_t(layer), C.uint32_t(sub),
			(*C.quire_kv_field)(unsafe.Pointer(items)), n, count, err)
	})
	runtime.KeepAlive(c)
	return all, err
}

// DescribeJSON is the plan's explanation.
func (c *Config) DescribeJSON() (string, error) {
	text, err := list(byte(0), func(items *byte, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_config_describe_json(c.c(), (*C.char)(unsafe.Pointer(items)), n, count, err)
	})
	runtime.KeepAlive(c)
	return string(text), err
}

// KVRuns lists what copies tokens [begin, end) of one view to another; views may come from another process.
func KVRuns(from KVView, fromIDs []int32, to KVView, toIDs []int32, begin, end uint64) ([]Run, error) {
	var a arena
	defer a.free()
	blocks := func(view KVView, ids []int32) *C.quire_kv_blocks { // in C, since it points to view and ids
		view.structSize = uint32(unsafe.Sizeof(view))
		side := C.quire_kv_blocks{num_ids: C.uint64_t(len(ids))}
		side.view = (*C.quire_kv_view)(unsafe.Pointer(copied(&a, []KVView{view})))
		side.ids = (*C.int32_t)(unsafe.Pointer(copied(&a, ids)))
		return copied(&a, []C.quire_kv_blocks{side})
	}
	left, right := blocks(from, fromIDs), blocks(to, toIDs)
	if err := a.missing(); err != nil {
		return nil, err
	}
	return list(Run{}, func(items *Run, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_kv_view_list_runs(left, right, C.uint64_t(begin), C.uint64_t(end), (*C.quire_run)(unsafe.Pointer(items)), n, count, err)
	})
}

// StateRuns lists what copies one tensor of one state to another.
func StateRuns(from StateView, fromID int32, to StateView, toID int32) ([]Run, error) {
	from.structSize, to.structSize = uint32(unsafe.Sizeof(from)), uint32(unsafe.Sizeof(to))
	return list(Run{}, func(items *Run, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_state_view_list_runs((*C.quire_state_view)(unsafe.Pointer(&from)), C.int32_t(fromID),
			(*C.quire_state_view)(unsafe.Pointer(&to)), C.int32_t(toID), (*C.quire_run)(unsafe.Pointer(items)), n, count, err)
	})
}
