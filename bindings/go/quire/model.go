package quire

// #include <quire/quire.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// DType is an element type, with the numbers of DLPack.
type DType struct {
	Code, Bits uint8  // Code: QUIRE_DTYPE_*; Bits of one lane
	Lanes      uint16 // 1, or more for packed types
}

// The types of most caches.
var (
	Float32    = DType{C.QUIRE_DTYPE_FLOAT, 32, 1}
	Float16    = DType{C.QUIRE_DTYPE_FLOAT, 16, 1}
	BFloat16   = DType{C.QUIRE_DTYPE_BFLOAT, 16, 1}
	Float8E4M3 = DType{C.QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1}
	Float8E5M2 = DType{C.QUIRE_DTYPE_FLOAT8_E5M2, 8, 1}
	Float8E8M0 = DType{C.QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1} // scales inside codecs only
	Float4E2M1 = DType{C.QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1}  // elements inside codecs only
	Int8       = DType{C.QUIRE_DTYPE_INT, 8, 1}
	UInt8      = DType{C.QUIRE_DTYPE_UINT, 8, 1}
)

func (d DType) c() C.quire_dtype {
	return C.quire_dtype{code: C.uint8_t(d.Code), bits: C.uint8_t(d.Bits), lanes: C.uint16_t(d.Lanes)}
}

func dtypeOf(d C.quire_dtype) DType { return DType{uint8(d.code), uint8(d.bits), uint16(d.lanes)} }

// Layer is one cache of one layer: quire_layer. Zero values are its defaults; Kind 0 caches nothing.
type Layer struct {
	Kind                       LayerKind     // what it caches
	Layer, Sub                 uint32        // index in the model, and among the caches of the layer
	Name                       string        // empty = layers.<layer>
	KVHeads, QHeads            uint32        // of the whole model; states: KVHeads are key heads
	HeadDimK, HeadDimV         uint32        // elements; MLA: K has latent and rope, V is 0
	DType                      DType         // of the cached elements
	Codec, StateKind           int32         // QUIRE_CODEC_*, QUIRE_STATE_*
	Window                     uint64        // tokens of windows and chunks
	SinkTokens, SharesWith     uint32        // first tokens that stay; 0, or 1 + index of the layer whose cache this one reads
	CompressRatio, BlockTokens uint32        // tokens per stored row, 0 = 1; wanted block, 0 = the planner's
	State                      []StateTensor // at most 4
	StateShard                 [4]uint8      // per tensor: 0, or 1 + the dimension that is split over ranks
	Softcap                    float32       // 0 = none; sizes nothing
	EncoderTokens              uint64        // cross attention: most of a request
	CodecParams                CodecParams   // numbers of the codec
	StateParts                 [4]uint32     // extents along the split dimension of State[0] that are split one by one
	LookAhead, Flags           uint32        // tokens that a draft layer writes ahead; LayerDraft, LayerSinkLogits
	RopeDim                    uint32        // MLA: elements at the end of a row that carry rope
}

func (l *Layer) write(to *C.quire_layer, a *arena) error {
	if len(l.State) > len(to.state) {
		return refuse(InvalidArgument, "layer.State: more than 4 tensors")
	}
	to.struct_size = C.uint32_t(unsafe.Sizeof(*to))
	to.kind, to.layer, to.sub, to.name = C.quire_layer_kind(l.Kind), C.uint32_t(l.Layer), C.uint32_t(l.Sub), a.text(l.Name)
	to.num_kv_heads, to.num_q_heads = C.uint32_t(l.KVHeads), C.uint32_t(l.QHeads)
	to.head_dim_k, to.head_dim_v = C.uint32_t(l.HeadDimK), C.uint32_t(l.HeadDimV)
	to.dtype, to.codec, to.window = l.DType.c(), C.quire_codec(l.Codec), C.uint64_t(l.Window)
	to.sink_tokens, to.shares_with = C.uint32_t(l.SinkTokens), C.uint32_t(l.SharesWith)
	to.compress_ratio, to.block_tokens = C.uint32_t(l.CompressRatio), C.uint32_t(l.BlockTokens)
	to.state_kind, to.num_state_tensors = C.quire_state_kind(l.StateKind), C.uint32_t(len(l.State))
	copy((*[4]StateTensor)(unsafe.Pointer(&to.state))[:], l.State)
	*(*[4]uint8)(unsafe.Pointer(&to.state_shard)) = l.StateShard
	to.softcap, to.encoder_tokens, to.flags = C.float(l.Softcap), C.uint64_t(l.EncoderTokens), C.uint32_t(l.Flags)
	*(*CodecParams)(unsafe.Pointer(&to.codec_params)) = l.CodecParams
	*(*[4]uint32)(unsafe.Pointer(&to.state_parts)) = l.StateParts
	to.look_ahead, to.rope_dim = C.uint32_t(l.LookAhead), C.uint32_t(l.RopeDim)
	return nil
}

func layerOf(from *C.quire_layer) Layer {
	state := append([]StateTensor(nil), (*[4]StateTensor)(unsafe.Pointer(&from.state))[:from.num_state_tensors]...)
	return Layer{Kind: LayerKind(from.kind), Layer: uint32(from.layer), Sub: uint32(from.sub), Name: lasting(from.name),
		KVHeads: uint32(from.num_kv_heads), QHeads: uint32(from.num_q_heads), HeadDimK: uint32(from.head_dim_k),
		HeadDimV: uint32(from.head_dim_v), DType: dtypeOf(from.dtype), Codec: int32(from.codec), StateKind: int32(from.state_kind),
		Window: uint64(from.window), SinkTokens: uint32(from.sink_tokens), SharesWith: uint32(from.shares_with),
		CompressRatio: uint32(from.compress_ratio), BlockTokens: uint32(from.block_tokens), State: state,
		StateShard: *(*[4]uint8)(unsafe.Pointer(&from.state_shard)), Softcap: float32(from.softcap),
		EncoderTokens: uint64(from.encoder_tokens), CodecParams: *(*CodecParams)(unsafe.Pointer(&from.codec_params)),
		StateParts: *(*[4]uint32)(unsafe.Pointer(&from.state_parts)), LookAhead: uint32(from.look_ahead), Flags: uint32(from.flags),
		RopeDim: uint32(from.rope_dim)}
}

// Model says what the layers of a model cache. Immutable; any goroutine.
type Model struct{ handle }

func (m *Model) c() *C.quire_model {
	if m == nil {
		return nil
	}
	return (*C.quire_model)(m.p)
}

func newModel(body func(out **C.quire_model, err *C.quire_error) C.quire_code) (*Model, error) {
	var p *C.quire_model
	if err := call(func(err *C.quire_error) C.quire_code { return body(&p, err) }); err != nil {
		return nil, err
	}
	m := &Model{handle{unsafe.Pointer(p)}}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// NewModel makes a model of layers, ordered by layer and sub.
func NewModel(layers []Layer, maxModelLen uint64) (*Model, error) {
	var a arena
	defer a.free()
	stride := int(unsafe.Sizeof(C.quire_layer{}))
	all := (*C.quire_layer)(a.take((len(layers) + 1) * stride)) // in C, since it points to names; one more, so that there is an address
	if err := a.missing(); err != nil {
		return nil, err
	}
	items := unsafe.Slice(all, len(layers)+1)
	for i := range layers {
		if err := layers[i].write(&items[i], &a); err != nil {
			return nil, err
		}
	}
	if err := a.missing(); err != nil {
		return nil, err
	}
	return newModel(func(out **C.quire_model, err *C.quire_error) C.quire_code {
		return C.quire_model_create(all, C.uint64_t(stride), C.uint64_t(len(layers)), C.uint64_t(maxModelLen), out, err)
	})
}

// ModelFromJSON reads the text of a Hugging Face config.json.
func ModelFromJSON(config string) (*Model, error) {
	var a arena
	defer a.free()
	text := a.text(config)
	if err := a.missing(); err != nil {
		return nil, err
	}
	return newModel(func(out **C.quire_model, err *C.quire_error) C.quire_code {
		return C.quire_model_from_json(text, out, err)
	})
}

// ModelFromLayers reads a layer file.
func ModelFromLayers(file string) (*Model, error) {
	var a arena
	defer a.free()
	text := a.text(file)
	if err := a.missing(); err != nil {
		return nil, err
	}
	return newModel(func(out **C.quire_model, err *C.quire_error) C.quire_code {
		return C.quire_model_from_layers(text, out, err)
	})
}

// Close drops the reference.
func (m *Model) Close() {
	if m == nil {
		return
	}
	C.quire_model_release((*C.quire_model)(m.take()))
	runtime.SetFinalizer(m, nil)
}

// Share takes another reference to the same object, with a Close of its own.
func (m *Model) Share() *Model {
	shared := &Model{handle{unsafe.Pointer(C.quire_model_retain(m.c()))}}
	runtime.KeepAlive(m)
	runtime.SetFinalizer(shared, (*Model).Close)
	return shared
}

// Info answers the facts of the model.
func (m *Model) Info() (ModelInfo, error) {
	info := ModelInfo{structSize: uint32(unsafe.Sizeof(ModelInfo{}))}
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_model_get_info(m.c(), (*C.quire_model_info)(unsafe.Pointer(&info)), err)
	})
	runtime.KeepAlive(m)
	return info, err
}

// Layer answers the index-th cache.
func (m *Model) Layer(index uint32) (Layer, error) {
	var layer C.quire_layer
	layer.struct_size = C.uint32_t(unsafe.Sizeof(layer))
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_model_get_layer(m.c(), C.uint32_t(index), &layer, err)
	})
	if err != nil {
		return Layer{}, err
	}
	made := layerOf(&layer)
	runtime.KeepAlive(m)
	return made, nil
}

// Describe is the model as a table of text.
func (m *Model) Describe() (string, error) {
	text, err := list(byte(0), func(items *byte, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_model_describe(m.c(), (*C.char)(unsafe.Pointer(items)), n, count, err)
	})
	runtime.KeepAlive(m)
	return string(text), err
}
