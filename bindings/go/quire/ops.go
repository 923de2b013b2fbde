package quire

// #include <quire/quire.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// Tensor is a dense or strided tensor in a buffer; Stride in bytes, nil = dense. In may be an imported or created tensor instead.
type Tensor struct {
	Data   *Buffer       // where it lies
	Offset int           // bytes into Data
	DType  DType         // of the elements
	Shape  []int64       // elements, at most 5 axes
	Stride []int64       // bytes; nil = dense
	In     *DeviceTensor // if set, the others are not read
}

func (t *Tensor) c() (C.quire_tensor, error) {
	var out C.quire_tensor
	if t.In != nil {
		if t.In.closed() {
			return out, refuse(InvalidArgument, "tensor: In was closed")
		}
		return t.In.tensor, nil
	}
	if t.Data == nil {
		return out, nil
	}
	if len(t.Shape) > 5 || (t.Stride != nil && len(t.Stride) != len(t.Shape)) || t.Offset < 0 {
		return out, refuse(InvalidArgument, "tensor: more than 5 axes, strides of other length, or offset below 0")
	}
	out.data = unsafe.Add(t.Data.address(), t.Offset)
	out.dtype = t.DType.c()
	out.device_type = C.QUIRE_DEVICE_CPU
	out.ndim = C.int32_t(len(t.Shape))
	element := int64(t.DType.Bits) * int64(t.DType.Lanes) / 8
	if t.DType.Lanes == 0 {
		element = int64(t.DType.Bits) / 8
	}
	bytes := element
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] < 0 || (t.Shape[i] > 0 && bytes > (1<<60)/t.Shape[i]) {
			return out, refuse(OutOfRange, "tensor: a negative extent, or more than 2^60 bytes")
		}
		out.shape[i], out.stride[i] = C.int64_t(t.Shape[i]), C.int64_t(bytes)
		if t.Stride != nil {
			out.stride[i] = C.int64_t(t.Stride[i])
		}
		bytes *= t.Shape[i]
	}
	last, empty, err := reach(t.Shape, (*[5]int64)(unsafe.Pointer(&out.stride)))
	if err != nil {
		return out, err
	}
	if room := int64(t.Data.Len() - t.Offset); room < 0 || (!empty && last > room-element) {
		return out, refuse(OutOfRange, "tensor: reaches behind its buffer")
	}
	return out, nil
}

var errNoView = refuse(InvalidArgument, "the layer's cache or state is nil")

// The distance from the first element to the last, at most 5 * 2^60, in the unit of the strides; empty: there is no element.
func reach(shape []int64, stride *[5]int64) (last int64, empty bool, err error) {
	for i, n := range shape {
		if n < 0 || stride[i] < 0 || (n > 1 && stride[i] > (1<<60)/n) {
			return 0, false, refuse(OutOfRange, "tensor: a negative extent or stride, or more than 2^60 bytes")
		}
		if n == 0 {
			empty = true
		} else {
			last += (n - 1) * stride[i]
		}
	}
	return last, empty, nil
}

// The arrays of a step for a layer's bytes, where an op may use both.
func (s *Stream) over(m *Memory, step *Batch, group C.uint32_t) (*C.quire_batch, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := step.check(); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if s.at.kind != DeviceCPU {
		return nil, refuse(Unimplemented, fmt.Sprintf("step: a Batch is in host memory, a device of kind %d cannot read it", s.at.kind))
	}
	if err := s.at.same(m.at); err != nil {
		return nil, err
	}
	if m.plan.p != step.plan.p || m.shard != uint32(step.c.options.shard) {
		return nil, refuse(InvalidArgument, "step: the batch was made for another plan or shard than the layer's memory")
	}
	s.hold(unsafe.Pointer(step))
	return step.group(group)
}

func (kv *PagedKV) over(s *Stream, step *Batch) (*C.quire_batch, error) {
	if kv == nil {
		return nil, errNoView
	}
	s.hold(unsafe.Pointer(kv))
	return s.over(kv.memory, step, kv.kv.group)
}

func (state *PagedState) over(s *Stream, step *Batch) (*C.quire_batch, error) {
	if state == nil {
		return nil, errNoView
	}
	s.hold(unsafe.Pointer(state))
	return s.over(state.memory, step, state.state.group)
}

// A tensor into an op, held by the stream; the first error stays.
func (s *Stream) put(err *error, from *Tensor, to *C.quire_tensor) {
	if *err == nil {
		s.holdTensor(from)
		*to, *err = from.c()
	}
}

// The same for n numbers.
func (s *Stream) floats(b *Buffer, n int, what string) (*C.float, error) {
	if b == nil {
		return nil, nil
	}
	if b.closed() {
		return nil, refuse(InvalidArgument, what+": the buffer was closed")
	}
	if b.Len()/4 < n {
		return nil, refuse(OutOfRange, what+": a buffer with fewer numbers than are read")
	}
	s.hold(unsafe.Pointer(b))
	return (*C.float)(b.address()), nil
}

// AppendOptions are what Append can do beside writing rows.
type AppendOptions struct {
	RopeCos, RopeSin *Buffer // float32 [positions, RopeDim / 2]; nil = no rope
	RopeDim          uint32  // elements that are rotated
	RopePositions    int     // rows of RopeCos and RopeSin
	RopeInterleaved  bool    // pairs are neighbours, not halves
	ScaleK, ScaleV   float32 // quantised caches store value / scale; 0 = 1
}

// Append writes keys and values [tokens, heads, dim] into the slots of a step.
func (s *Stream) Append(kv *PagedKV, key, value Tensor, step *Batch) error {
	return s.AppendWith(kv, key, value, step, AppendOptions{})
}

// AppendWith is Append with options. value: empty where a cache has one side.
func (s *Stream) AppendWith(kv *PagedKV, key, value Tensor, step *Batch, options AppendOptions) error {
	batch, err := kv.over(s, step)
	if err != nil {
		return err
	}
	op := &s.calls.append
	*op = C.quire_kv_append{}
	op.struct_size = C.uint32_t(unsafe.Sizeof(*op))
	op.kv, op.batch = kv.kv, batch
	s.put(&err, &key, &op.key)
	s.put(&err, &value, &op.value)
	if err != nil {
		return err
	}
	if options.RopeCos != nil || options.RopeSin != nil {
		if batch.num_slots != C.uint64_t(batch.num_tokens) {
			return refuse(InvalidArgument, "rope: keys of cross attention have no positions")
		}
		for _, position := range unsafe.Slice(batch.positions, batch.num_tokens) {
			if int(position) >= options.RopePositions {
				return refuse(OutOfRange, "RopePositions: fewer than the step's positions")
			}
		}
		if options.RopePositions < 0 || options.RopePositions > 1<<31 {
			return refuse(OutOfRange, "RopePositions: below 0, or more than there are positions")
		}
		n := options.RopePositions * int(options.RopeDim/2)
		if op.rope_cos, err = s.floats(options.RopeCos, n, "RopeCos"); err != nil {
			return err
		}
		if op.rope_sin, err = s.floats(options.RopeSin, n, "RopeSin"); err != nil {
			return err
		}
		op.rope_dim = C.uint32_t(options.RopeDim)
		if options.RopeInterleaved {
			op.rope_interleaved = 1
		}
	}
	op.scale_k, op.scale_v = C.float(options.ScaleK), C.float(options.ScaleV)
	return s.do(goAppend)
}

// AttentionOptions are what Attend can do beside causal attention over everything.
type AttentionOptions struct {
	NotCausal      bool    // every key is seen (cross attention)
	BatchInvariant bool    // results do not depend on what else is in the batch
	LSE            Tensor  // float32 [tokens, q heads]; empty = not wanted
	Scale, Softcap float32 // of the logits, 0 = 1 / sqrt(dim); of their soft cap, 0 = none
	Window, Chunk  uint32  // tokens that are seen, the own one included; only keys of the same chunk; 0 = none
	SinkTokens     uint32  // first tokens that are always seen, with Window
	SinkLogits     *Buffer // float32 [q heads]; nil = none
	AlibiSlopes    *Buffer // float32 [q heads]; nil = none
	Mask           *Buffer // tree mask, bit b is bit b % 8 of byte b / 8, set = seen; nil = none
	MaskIndptr     *Buffer // int64 [rows + 1], with Mask: the first bit of each row's [query tokens, kv_len]
	ScaleK, ScaleV float32 // quantised caches; 0 = 1
	HeadDimV       uint32  // one-sided caches: width of V in a row of K
	Plan           *Buffer // of AttentionPlan; nil = planned inside the call
	Workspace      *Buffer // for partial results; nil = the driver's own (CPU only)
}

// Attention is what a layer says of its attention: NotCausal, Window, Chunk, SinkTokens, Softcap, HeadDimV. The rest is the engine's.
func (l Layer) Attention() (o AttentionOptions, err error) {
	var a arena
	defer a.free()
	var layer C.quire_layer
	var op C.quire_attention
	if err = l.write(&layer, &a); err == nil {
		err = a.missing()
	}
	if err != nil {
		return o, err
	}
	op.struct_size = C.uint32_t(unsafe.Sizeof(op))
	if err = call(func(err *C.quire_error) C.quire_code { return C.quire_attention_from_layer(&layer, &op, err) }); err != nil {
		return o, err
	}
	o.NotCausal = op.flags&C.QUIRE_ATTENTION_CAUSAL == 0
	o.Window, o.Chunk, o.SinkTokens = uint32(op.window), uint32(op.chunk), uint32(op.sink_tokens)
	o.Softcap, o.HeadDimV = float32(op.softcap), uint32(op.head_dim_v)
	return o, nil
}

// Attend runs causal attention of query [tokens, heads, dim] over the rows of a step into out.
func (s *Stream) Attend(kv *PagedKV, query, out Tensor, step *Batch) error {
	return s.AttendWith(kv, query, out, step, AttentionOptions{})
}

// Prepares s.calls.attend.
func (s *Stream) attention(kv *PagedKV, query, out *Tensor, step *Batch, o *AttentionOptions) error {
	batch, err := kv.over(s, step)
	if err != nil {
		return err
	}
	s.hold(unsafe.Pointer(o.Plan), unsafe.Pointer(o.Workspace))
	op := &s.calls.attend
	*op = C.quire_attention{}
	op.struct_size = C.uint32_t(unsafe.Sizeof(*op))
	if !o.NotCausal {
		op.flags |= C.QUIRE_ATTENTION_CAUSAL
	}
	if o.BatchInvariant {
		op.flags |= C.QUIRE_ATTENTION_BATCH_INVARIANT
	}
	op.kv, op.batch = kv.kv, batch
	s.put(&err, query, &op.query)
	s.put(&err, out, &op.out)
	s.put(&err, &o.LSE, &op.lse)
	if err != nil {
		return err
	}
	op.scale, op.softcap, op.window, op.chunk = C.float(o.Scale), C.float(o.Softcap), C.uint32_t(o.Window), C.uint32_t(o.Chunk)
	op.sink_tokens, op.scale_k, op.scale_v, op.head_dim_v = C.uint32_t(o.SinkTokens), C.float(o.ScaleK), C.float(o.ScaleV), C.uint32_t(o.HeadDimV)
	heads := 0
	if op.query.ndim == 3 {
		heads = int(op.query.shape[1])
	}
	if op.sink_logits, err = s.floats(o.SinkLogits, heads, "SinkLogits"); err != nil {
		return err
	}
	if op.alibi_slopes, err = s.floats(o.AlibiSlopes, heads, "AlibiSlopes"); err != nil {
		return err
	}
	if err = s.mask(op, o); err != nil {
		return err
	}
	if (o.Plan != nil && o.Plan.closed()) || (o.Workspace != nil && o.Workspace.closed()) {
		return refuse(InvalidArgument, "Plan, Workspace: the buffer was closed")
	}
	if o.Plan != nil {
		op.plan, op.plan_bytes = o.Plan.address(), C.uint64_t(o.Plan.Len())
	}
	if o.Workspace != nil {
		op.workspace, op.workspace_bytes = o.Workspace.address(), C.uint64_t(o.Workspace.Len())
	}
	return nil
}

// A tree mask whose bits lie inside of its buffer.
func (s *Stream) mask(op *C.quire_attention, o *AttentionOptions) error {
	if o.Mask == nil && o.MaskIndptr == nil {
		return nil
	}
	rows, bits := int(op.batch.num_rows), 8*int64(o.Mask.Len())
	if o.MaskIndptr.Len()/8 <= rows {
		return refuse(OutOfRange, "MaskIndptr: a buffer with fewer numbers than rows + 1")
	}
	indptr, kvLen := unsafe.Slice(op.batch.query_indptr, rows+1), unsafe.Slice(op.batch.kv_len, rows)
	for row, at := range o.MaskIndptr.Int64()[:rows] {
		needed := int64(indptr[row+1]-indptr[row]) * int64(kvLen[row])
		if at < 0 || needed > bits || at > bits-needed {
			return refuse(OutOfRange, "MaskIndptr: the bits of a row leave the mask")
		}
	}
	s.hold(unsafe.Pointer(o.Mask), unsafe.Pointer(o.MaskIndptr))
	op.mask_bits, op.mask_indptr = (*C.uint8_t)(o.Mask.address()), (*C.int64_t)(o.MaskIndptr.address())
	return nil
}

// AttendWith is Attend with options.
func (s *Stream) AttendWith(kv *PagedKV, query, out Tensor, step *Batch, options AttentionOptions) error {
	if err := s.attention(kv, &query, &out, step, &options); err != nil {
		return err
	}
	return s.do(goAttend)
}

// AttentionPlan writes the plan of one step's attention into a buffer, for every layer of the same head shape.
func (s *Stream) AttentionPlan(kv *PagedKV, query, out Tensor, step *Batch, options AttentionOptions, plan *Buffer) error {
	if err := s.attention(kv, &query, &out, step, &options); err != nil {
		return err
	}
	s.hold(unsafe.Pointer(plan))
	op := &s.calls.attend
	return s.queue(func(s *C.quire_stream, err *C.quire_error) C.quire_code {
		return C.quire_op_attention_plan(s, op, plan.address(), C.uint64_t(plan.Len()), err)
	})
}

// AttentionWorkspace answers the bytes of plan and workspace for calls of at most these counts.
func (s *Stream) AttentionWorkspace(rows uint32, queryTokens, kvLen uint64, qHeads, headDimV uint32) (plan, workspace uint64, err error) {
	var p, w C.uint64_t
	err = s.queue(func(s *C.quire_stream, err *C.quire_error) C.quire_code {
		return C.quire_op_attention_workspace(s, C.uint32_t(rows), C.uint64_t(queryTokens), C.uint64_t(kvLen), C.uint32_t(qHeads),
			C.uint32_t(headDimV), &p, &w, err)
	})
	return uint64(p), uint64(w), err
}

// Merge makes one result of partial ones: tensors [tokens, heads, dim] and natural logarithms [tokens, heads]. It waits: the list is borrowed
// until then.
func (s *Stream) Merge(parts, lse []Tensor, out Tensor) error {
	return s.MergeWith(parts, lse, out, Tensor{})
}

// MergeWith is Merge that answers logarithms, too: float32 [tokens, heads]; empty = not wanted.
func (s *Stream) MergeWith(parts, lse []Tensor, out, outLSE Tensor) error {
	n := len(parts)
	if n == 0 || len(lse) != n {
		return refuse(InvalidArgument, "parts: none, or another number than lse")
	}
	var a arena
	defer a.free()
	all := (*C.quire_tensor)(a.take(2 * n * int(unsafe.Sizeof(C.quire_tensor{})))) // the op points to it, so it lies in C
	if err := a.missing(); err != nil {
		return err
	}
	items := unsafe.Slice(all, 2*n)
	var op C.quire_attention_merge
	var err error
	for i := range parts {
		s.put(&err, &parts[i], &items[i])
		s.put(&err, &lse[i], &items[n+i])
	}
	op.struct_size = C.uint32_t(unsafe.Sizeof(op))
	op.num_parts = C.uint32_t(n)
	op.partial_out, op.partial_lse = &items[0], &items[n]
	s.put(&err, &out, &op.out)
	s.put(&err, &outLSE, &op.lse)
	if err != nil {
		return err
	}
	return s.wait(func(s *C.quire_stream, err *C.quire_error) C.quire_code {
		return C.quire_op_attention_merge(s, &op, err)
	})
}

// GatedDelta is what the gated delta rule reads and writes: Query and Key [tokens, heads, dim_k], Value and Out [tokens, heads_v, dim_v], Gate
// and Beta float32 [tokens, heads_v].
type GatedDelta struct {
	State                              *PagedState // states before and after the step
	Query, Key, Value, Gate, Beta, Out Tensor      // Gate is the logarithm of the decay
	Flags                              uint32      // GatedDelta...
	Scale                              float32     // 0 = 1 / sqrt(dim_k)
}

// GatedDelta runs the gated delta rule over the rows of a step.
func (s *Stream) GatedDelta(d GatedDelta, step *Batch) error {
	batch, err := d.State.over(s, step)
	if err != nil {
		return err
	}
	op := &s.calls.gated_delta
	*op = C.quire_gated_delta{}
	op.struct_size, op.flags, op.state, op.batch = C.uint32_t(unsafe.Sizeof(*op)), C.uint32_t(d.Flags), d.State.state, batch
	s.put(&err, &d.Query, &op.query)
	s.put(&err, &d.Key, &op.key)
	s.put(&err, &d.Value, &op.value)
	s.put(&err, &d.Gate, &op.gate)
	s.put(&err, &d.Beta, &op.beta)
	s.put(&err, &d.Out, &op.out)
	if err != nil {
		return err
	}
	op.scale = C.float(d.Scale)
	return s.do(goGatedDelta)
}

// Conv1D is what a short causal convolution reads and writes: Input and Out [tokens, channels], Weight [channels, width], Bias [channels].
type Conv1D struct {
	State                    *PagedState // inputs of the convolution before the step
	Input, Weight, Bias, Out Tensor      // Bias empty = none
	SiLU                     bool        // Out goes through it
}

// Conv1D runs a short causal convolution over the rows of a step.
func (s *Stream) Conv1D(d Conv1D, step *Batch) error {
	batch, err := d.State.over(s, step)
	if err != nil {
		return err
	}
	op := &s.calls.conv1d
	*op = C.quire_conv1d{}
	op.struct_size, op.state, op.batch = C.uint32_t(unsafe.Sizeof(*op)), d.State.state, batch
	if d.SiLU {
		op.flags = C.QUIRE_CONV1D_SILU
	}
	s.put(&err, &d.Input, &op.input)
	s.put(&err, &d.Weight, &op.weight)
	s.put(&err, &d.Bias, &op.bias)
	s.put(&err, &d.Out, &op.out)
	if err != nil {
		return err
	}
	return s.do(goConv1D)
}

// SelectiveScan is what the selective scan of Mamba1 and Mamba2 reads and writes: X, Z and Out [tokens, heads, head_dim], Dt [tokens, heads], A
// float32 [heads] or [heads, state_dim], B and C [tokens, groups, state_dim], Skip [heads] or [heads, head_dim], DtBias [heads].
type SelectiveScan struct {
	State               *PagedState // states before and after the step
	X, Dt, A, B, C, Out Tensor      // shapes: see above
	Skip, DtBias, Z     Tensor      // empty = none
	Softplus            bool        // Dt goes through it
	DtMin, DtMax        float32     // DtMax 0 = no limit
}

// SelectiveScan runs the selective scan over the rows of a step.
func (s *Stream) SelectiveScan(d SelectiveScan, step *Batch) error {
	batch, err := d.State.over(s, step)
	if err != nil {
		return err
	}
	op := &s.calls.scan
	*op = C.quire_selective_scan{}
	op.struct_size, op.state, op.batch = C.uint32_t(unsafe.Sizeof(*op)), d.State.state, batch
	if d.Softplus {
		op.flags = C.QUIRE_SELECTIVE_SCAN_SOFTPLUS
	}
	s.put(&err, &d.X, &op.x)
	s.put(&err, &d.Dt, &op.dt)
	s.put(&err, &d.A, &op.a)
	s.put(&err, &d.B, &op.b)
	s.put(&err, &d.C, &op.c)
	s.put(&err, &d.Skip, &op.skip)
	s.put(&err, &d.DtBias, &op.dt_bias)
	s.put(&err, &d.Z, &op.z)
	s.put(&err, &d.Out, &op.out)
	if err != nil {
		return err
	}
	op.dt_min, op.dt_max = C.float(d.DtMin), C.float(d.DtMax)
	return s.do(goSelectiveScan)
}
