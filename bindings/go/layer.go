// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"unsafe"

	"moert/internal/capi"
)

// Weight is one weight of a layer or router. NewWeight and NewExpertWeights make one.
type Weight struct {
	Role        Role
	Orientation Orientation
	Packing     Packing
	// RowStride is in elements; 0 means packed.
	RowStride int
	// ExpertStride is in elements; 0 means that one expert follows the other.
	ExpertStride int

	dtype      Dtype
	rows, cols int
	data       []byte
	experts    [][]byte
}

// NewWeight makes a weight of that shape. For the roles that each expert has, data holds one matrix
// after the other and the shape is that of one.
func NewWeight[T Element](role Role, data []T, rows, cols int) Weight {
	return Weight{Role: role, dtype: dtypeOf[T](), rows: rows, cols: cols, data: bytesOf(data)}
}

// NewExpertWeights makes a weight of one slice for each local expert.
func NewExpertWeights[T Element](role Role, experts [][]T, rows, cols int) Weight {
	w := Weight{Role: role, dtype: dtypeOf[T](), rows: rows, cols: cols}
	for _, data := range experts {
		w.experts = append(w.experts, bytesOf(data))
	}
	return w
}

// raw copies the weight for the C ABI, which sees addresses only: the slices must be long enough.
func (w *Weight) raw(arena *capi.Arena, numExperts int) (capi.Weight, error) {
	raw := capi.Weight{
		StructSize:   uint32(unsafe.Sizeof(capi.Weight{})),
		Role:         int32(w.Role),
		Dtype:        int32(w.dtype),
		Orientation:  int32(w.Orientation),
		Packing:      int32(w.Packing),
		Rows:         int64(w.rows),
		Cols:         int64(w.cols),
		RowStride:    int64(w.RowStride),
		ExpertStride: int64(w.ExpertStride),
	}
	if w.rows < 0 || w.cols < 0 || w.RowStride < 0 || w.ExpertStride < 0 {
		return raw, invalidArgument("the weight of role %d has %d rows, %d columns, row stride %d and "+
			"expert stride %d; none may be negative", w.Role, w.rows, w.cols, w.RowStride,
			w.ExpertStride)
	}
	if w.experts == nil {
		count := 1
		if w.Role >= RoleExpertGate && w.Role <= RoleExpertDownBias {
			count = numExperts
		}
		raw.Data = arena.Bytes(w.data)
		return raw, w.checkLength(len(w.data), count)
	}
	if len(w.experts) != numExperts {
		return raw, invalidArgument("the weight of role %d has %d slices for %d experts", w.Role,
			len(w.experts), numExperts)
	}
	addresses := make([]uintptr, len(w.experts))
	for i, data := range w.experts {
		if err := w.checkLength(len(data), 1); err != nil {
			return raw, err
		}
		addresses[i] = arena.Bytes(data)
	}
	raw.Experts = capi.PutList(arena, addresses)
	return raw, nil
}

func (w *Weight) checkLength(bytes, count int) error {
	length := float64(bytes) / float64(w.dtype.Bits()/8)
	rowStride, expertStride := w.RowStride, float64(w.ExpertStride)
	if rowStride == 0 {
		rowStride = w.cols
	}
	if expertStride == 0 {
		expertStride = float64(w.rows) * float64(rowStride)
	}
	// Exact below 2^53 elements, which no slice has.
	needed := float64(w.rows-1)*float64(rowStride) + float64(w.cols) + float64(count-1)*expertStride
	if w.rows > 0 && count > 0 && needed > length {
		return invalidArgument("the weight of role %d, %d rows and %d columns has %.0f elements, not "+
			"enough for %d such", w.Role, w.rows, w.cols, length, count)
	}
	return nil
}

// LayerConfig says what a layer is made of. The zero value of a field is its default.
type LayerConfig struct {
	// Dtype is that of x and y.
	Dtype              Dtype
	WeightApplication  WeightApplication
	Hidden             int64
	Intermediate       int64
	Latent             int64
	SharedIntermediate int64
	Routing            Routing
	// Activation is gated SiLU if nil.
	Activation *Activation
	// SharedActivation is the experts' if nil.
	SharedActivation *Activation
	Weights          []Weight
	// LocalExperts are the distinct global ids of the experts held, in the order of the weights;
	// nil means all.
	LocalExperts []int32
	// Trainable keeps weights unpacked, for ReadWeight and WriteWeight.
	Trainable bool
}

// Layer is one MoE layer. Any number of streams may run it at once.
type Layer struct {
	*handle
	info LayerInfo
}

// NewLayer makes a layer; the weights are copied.
func (d *Device) NewLayer(config LayerConfig) (*Layer, error) {
	var arena capi.Arena
	defer arena.Free()
	held := len(config.LocalExperts)
	if held == 0 {
		held = int(config.Routing.NumExperts)
	}
	weights, err := rawWeights(&arena, config.Weights, held)
	if err != nil {
		return nil, err
	}
	desc := capi.LayerDesc{
		StructSize:         uint32(unsafe.Sizeof(capi.LayerDesc{})),
		Dtype:              int32(config.Dtype),
		WeightApplication:  int32(config.WeightApplication),
		Hidden:             config.Hidden,
		Intermediate:       config.Intermediate,
		Latent:             config.Latent,
		SharedIntermediate: config.SharedIntermediate,
		Routing:            rawRouting(&arena, &config.Routing),
		Activation:         rawActivation(&arena, config.Activation),
		SharedActivation:   rawActivation(&arena, config.SharedActivation),
		Weights:            weights,
		NumWeights:         uint32(len(config.Weights)),
		NumLocalExperts:    uint32(len(config.LocalExperts)),
		LocalExperts:       capi.PutList(&arena, config.LocalExperts),
	}
	if config.Trainable {
		desc.Flags = capi.LayerFlagTrainable
	}
	return d.newLayer(func(device uintptr, out unsafe.Pointer) error {
		return capi.MoertLayerCreate(device, unsafe.Pointer(&desc), out)
	})
}

func rawWeights(arena *capi.Arena, weights []Weight, numExperts int) (uintptr, error) {
	list := make([]capi.Weight, len(weights))
	for i := range weights {
		var err error
		if list[i], err = weights[i].raw(arena, numExperts); err != nil {
			return 0, err
		}
	}
	return capi.PutList(arena, list), nil
}

func rawRouting(arena *capi.Arena, routing *Routing) uintptr {
	raw := routing.raw()
	raw.StructSize = uint32(unsafe.Sizeof(raw))
	return capi.Put(arena, raw)
}

func rawActivation(arena *capi.Arena, activation *Activation) uintptr {
	if activation == nil {
		return 0
	}
	raw := activation.raw()
	raw.StructSize = uint32(unsafe.Sizeof(raw))
	return capi.Put(arena, raw)
}

// LayerOptions has the options of a layer from a manifest. The zero value is fine.
type LayerOptions struct {
	// Dtype is that of x and y; 0 means that of the weights.
	Dtype Dtype
	// LocalExperts are the distinct global ids of the experts to hold; nil means all.
	LocalExperts []int32
	// Trainable keeps weights unpacked, for ReadWeight and WriteWeight.
	Trainable bool
}

// OpenLayer makes the layer at that index of a manifest.
func (d *Device) OpenLayer(manifest *Manifest, index uint32, options LayerOptions) (*Layer, error) {
	var arena capi.Arena
	defer arena.Free()
	desc := capi.LayerOpenDesc{
		StructSize:      uint32(unsafe.Sizeof(capi.LayerOpenDesc{})),
		Dtype:           int32(options.Dtype),
		NumLocalExperts: uint32(len(options.LocalExperts)),
		LocalExperts:    capi.PutList(&arena, options.LocalExperts),
	}
	if options.Trainable {
		desc.Flags = capi.LayerFlagTrainable
	}
	return d.newLayer(func(device uintptr, out unsafe.Pointer) error {
		return manifest.shared(func(m uintptr) error {
			return capi.MoertLayerOpen(device, m, index, unsafe.Pointer(&desc), out)
		})
	})
}

func (d *Device) newLayer(create func(device uintptr, out unsafe.Pointer) error) (*Layer, error) {
	var out uintptr
	err := d.shared(func(device uintptr) error { return create(device, unsafe.Pointer(&out)) })
	if err != nil {
		return nil, err
	}
	l := &Layer{handle: newHandle(out, capi.MoertLayerRelease)}
	raw := capi.LayerInfo{StructSize: uint32(unsafe.Sizeof(capi.LayerInfo{}))}
	if err := capi.MoertLayerGetInfo(out, unsafe.Pointer(&raw)); err != nil {
		l.Close()
		return nil, wrap(err)
	}
	l.info = newLayerInfo(&raw)
	return l, nil
}

// Info gives facts about the layer.
func (l *Layer) Info() LayerInfo { return l.info }

// ForwardArgs are the arguments of a forward call on T tokens. Matrices that are zero are absent.
type ForwardArgs struct {
	X       Matrix // [T, hidden], the layer's dtype.
	RouterX Matrix // [T, hidden], the layer's dtype; absent: X.
	Y       Matrix // [T, hidden], the layer's dtype.
	// IDs is [T, top_k] int32: the chosen experts, or with GivenRouting the experts to use; -1
	// skips.
	IDs Matrix
	// Weights is [T, top_k] float32, final weights: output, or input with GivenRouting.
	Weights      Matrix
	Logits       Matrix // [T, num_experts] float32, output.
	ExpertCounts Matrix // [1, num_experts] int32, slots of each expert, output.

	GivenRouting bool // IDs and Weights are inputs; the router does not run.
	Accumulate   bool // Y += layer(X) instead of Y = layer(X).
	SkipShared   bool // Leaves the shared expert out.
	// Workspace is scratch to use instead of the stream's own.
	Workspace *Buffer
}

func (l *Layer) operands(a *ForwardArgs) []operand {
	hidden, topK, experts := l.info.Hidden, int64(l.info.TopK), int64(l.info.NumExperts)
	routing, y := write, write
	if a.GivenRouting {
		routing = read
	}
	if a.Accumulate {
		y = readWrite
	}
	return []operand{
		{name: "X", matrix: &a.X, cols: hidden, access: read},
		{name: "RouterX", matrix: &a.RouterX, cols: hidden, access: read},
		{name: "Y", matrix: &a.Y, cols: hidden, access: y},
		{name: "IDs", matrix: &a.IDs, cols: topK, access: routing},
		{name: "Weights", matrix: &a.Weights, cols: topK, access: routing},
		{name: "Logits", matrix: &a.Logits, cols: experts, access: write},
		{name: "ExpertCounts", matrix: &a.ExpertCounts, cols: experts, access: write},
	}
}

func (a *ForwardArgs) raw(m []uintptr) *capi.LayerForwardArgs {
	raw := &capi.LayerForwardArgs{StructSize: uint32(unsafe.Sizeof(capi.LayerForwardArgs{})),
		X: m[0], RouterX: m[1], Y: m[2], IDs: m[3], Weights: m[4], Logits: m[5], ExpertCounts: m[6]}
	if a.GivenRouting {
		raw.Flags |= capi.ForwardFlagGivenRouting
	}
	if a.Accumulate {
		raw.Flags |= capi.ForwardFlagAccumulate
	}
	if a.SkipShared {
		raw.Flags |= capi.ForwardFlagSkipShared
	}
	if a.Workspace != nil {
		raw.Workspace = a.Workspace.memory.address
		raw.WorkspaceSize = a.Workspace.memory.bytes
	}
	return raw
}

func (a *ForwardArgs) size(layer uintptr, m []uintptr) (uint64, error) {
	var out uint64
	err := capi.MoertLayerWorkspaceSize(layer, unsafe.Pointer(a.raw(m)), unsafe.Pointer(&out))
	return out, err
}

// Forward computes Y = layer(X).
func (l *Layer) Forward(s *Stream, args ForwardArgs) error {
	return s.exclusive(func(stream uintptr) error {
		if args.Workspace != nil {
			if err := s.keep(args.Workspace.memory); err != nil {
				return err
			}
		}
		return l.shared(func(layer uintptr) error {
			size := func(m []uintptr) (uint64, error) {
				if args.Workspace != nil {
					return 0, nil
				}
				return args.size(layer, m)
			}
			return s.launch(stream, l.operands(&args), size, func(m []uintptr) error {
				return capi.MoertLayerForward(layer, stream, unsafe.Pointer(args.raw(m)))
			})
		})
	})
}

// WorkspaceSize is the scratch that a call with these arguments needs.
func (l *Layer) WorkspaceSize(args ForwardArgs) (bytes uint64, err error) {
	var arena capi.Arena
	defer arena.Free()
	matrices, err := shapesOnly(&arena, l.operands(&args))
	if err != nil {
		return 0, err
	}
	err = l.shared(func(layer uintptr) (err error) {
		bytes, err = args.size(layer, matrices)
		return err
	})
	return bytes, err
}

// ReadWeight copies a weight of a trainable layer to a slice, after the stream's work; it returns
// when done. expert is a global id for the roles that each expert has, else 0.
func ReadWeight[T Element](s *Stream, l *Layer, role Role, expert int32, to []T) error {
	return l.weight(s, role, expert, dtypeOf[T](), bytesOf(to), true)
}

// WriteWeight overwrites a weight of a trainable layer, after the stream's work; it returns when
// done.
func WriteWeight[T Element](s *Stream, l *Layer, role Role, expert int32, from []T) error {
	return l.weight(s, role, expert, dtypeOf[T](), bytesOf(from), false)
}

func (l *Layer) weight(s *Stream, role Role, expert int32, dtype Dtype, data []byte,
	out bool) error {
	return s.exclusive(func(stream uintptr) error {
		return l.shared(func(layer uintptr) error {
			var view capi.Matrix
			err := capi.MoertLayerWeight(layer, int32(role), expert, unsafe.Pointer(&view))
			if err != nil {
				return err
			}
			length := len(data) / int(dtype.Bits()/8)
			packed := view.RowStride == view.Cols || view.Rows <= 1
			if Dtype(view.Dtype) != dtype || view.Rows*view.Cols != int64(length) || !packed {
				return invalidArgument("the weight of role %d has %d rows and %d columns of %v; the slice "+
					"has %d of %v", role, view.Rows, view.Cols, Dtype(view.Dtype), length, dtype)
			}
			return s.copyWeight(stream, capi.Pointer(view.Data), data, out)
		})
	})
}

func (s *Stream) copyWeight(stream uintptr, weight unsafe.Pointer, data []byte, out bool) error {
	if err := s.growHost(uint64(len(data))); err != nil {
		return err
	}
	host := capi.Pointer(s.host.address)
	to, from := weight, host
	if out {
		to, from = host, weight
	} else {
		copy(hostBytes(s.host.address, len(data)), data)
	}
	if err := capi.MoertStreamCopy(stream, to, from, uint64(len(data))); err != nil {
		return err
	}
	err := s.synchronize(stream)
	if out {
		copy(data, hostBytes(s.host.address, len(data)))
	}
	return err
}
