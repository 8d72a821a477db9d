// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"unsafe"

	"moert/internal/capi"
)

// RouterConfig says what a router is made of.
type RouterConfig struct {
	// Dtype is that of x or of given logits; 0 means float32.
	Dtype Dtype
	// Hidden is 0 for a router that runs on given logits only.
	Hidden  int64
	Routing Routing
	Weights []Weight
}

// Router is top-k gating. Any number of streams may run it at once.
type Router struct {
	*handle
	hidden, topK, experts int64
}

// NewRouter makes a router; the weights are copied.
func (d *Device) NewRouter(config RouterConfig) (*Router, error) {
	var arena capi.Arena
	defer arena.Free()
	weights, err := rawWeights(&arena, config.Weights, int(config.Routing.NumExperts))
	if err != nil {
		return nil, err
	}
	desc := capi.RouterDesc{
		StructSize: uint32(unsafe.Sizeof(capi.RouterDesc{})),
		Dtype:      int32(config.Dtype),
		NumWeights: uint32(len(config.Weights)),
		Hidden:     config.Hidden,
		Routing:    rawRouting(&arena, &config.Routing),
		Weights:    weights,
	}
	var out uintptr
	err = d.shared(func(device uintptr) error {
		return capi.MoertRouterCreate(device, unsafe.Pointer(&desc), unsafe.Pointer(&out))
	})
	if err != nil {
		return nil, err
	}
	return &Router{newHandle(out, capi.MoertRouterRelease), config.Hidden,
		int64(config.Routing.TopK), int64(config.Routing.NumExperts)}, nil
}

// RouterArgs are the arguments of a router call on T tokens: X, or GivenLogits.
type RouterArgs struct {
	X            Matrix // [T, hidden], the router's dtype.
	GivenLogits  Matrix // [T, num_experts], the router's dtype, before bias and soft cap.
	IDs          Matrix // [T, top_k] int32, output.
	Weights      Matrix // [T, top_k] float32, output.
	Logits       Matrix // [T, num_experts] float32, output; may be absent.
	ExpertCounts Matrix // [1, num_experts] int32, output; may be absent.
}

func (r *Router) operands(a *RouterArgs) []operand {
	return []operand{
		{name: "X", matrix: &a.X, cols: r.hidden, access: read},
		{name: "GivenLogits", matrix: &a.GivenLogits, cols: r.experts, access: read},
		{name: "IDs", matrix: &a.IDs, cols: r.topK, access: write},
		{name: "Weights", matrix: &a.Weights, cols: r.topK, access: write},
		{name: "Logits", matrix: &a.Logits, cols: r.experts, access: write},
		{name: "ExpertCounts", matrix: &a.ExpertCounts, cols: r.experts, access: write},
	}
}

func rawRouterArgs(m []uintptr) *capi.RouterForwardArgs {
	return &capi.RouterForwardArgs{StructSize: uint32(unsafe.Sizeof(capi.RouterForwardArgs{})),
		X: m[0], GivenLogits: m[1], IDs: m[2], Weights: m[3], Logits: m[4], ExpertCounts: m[5]}
}

func routerSize(router uintptr, m []uintptr) (uint64, error) {
	var out uint64
	err := capi.MoertRouterWorkspaceSize(router, unsafe.Pointer(rawRouterArgs(m)),
		unsafe.Pointer(&out))
	return out, err
}

// Forward chooses experts.
func (r *Router) Forward(s *Stream, args RouterArgs) error {
	return s.exclusive(func(stream uintptr) error {
		return r.shared(func(router uintptr) error {
			size := func(m []uintptr) (uint64, error) { return routerSize(router, m) }
			return s.launch(stream, r.operands(&args), size, func(m []uintptr) error {
				return capi.MoertRouterForward(router, stream, unsafe.Pointer(rawRouterArgs(m)))
			})
		})
	})
}

// WorkspaceSize is the scratch that a call with these arguments needs.
func (r *Router) WorkspaceSize(args RouterArgs) (bytes uint64, err error) {
	var arena capi.Arena
	defer arena.Free()
	matrices, err := shapesOnly(&arena, r.operands(&args))
	if err != nil {
		return 0, err
	}
	err = r.shared(func(router uintptr) (err error) {
		bytes, err = routerSize(router, matrices)
		return err
	})
	return bytes, err
}
