// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"unsafe"

	"moert/internal/capi"
)

// GateConfig says what a gate op is made of.
type GateConfig struct {
	Kind GateKind
	// Dtype is that of every matrix; 0 means float32.
	Dtype Dtype
	// Width is the number of columns of X and Out.
	Width int64
	// LinearWidth is the number of columns of H and W, for GateKindAddLinear.
	LinearWidth int64
}

// Gate is a gate op. Any number of streams may run it at once.
type Gate struct {
	*handle
	config GateConfig
}

// NewGate makes a gate op.
func (d *Device) NewGate(config GateConfig) (*Gate, error) {
	desc := capi.GateDesc{
		StructSize:  uint32(unsafe.Sizeof(capi.GateDesc{})),
		Kind:        int32(config.Kind),
		Dtype:       int32(config.Dtype),
		Width:       config.Width,
		LinearWidth: config.LinearWidth,
	}
	var out uintptr
	err := d.shared(func(device uintptr) error {
		return capi.MoertGateCreate(device, unsafe.Pointer(&desc), unsafe.Pointer(&out))
	})
	if err != nil {
		return nil, err
	}
	return &Gate{newHandle(out, capi.MoertGateRelease), config}, nil
}

// GateArgs are the arguments of a gate op on T rows. Out may be X or Acc itself.
type GateArgs struct {
	X   Matrix // [T, width].
	G   Matrix // [T, width] or [T, 1], as the kind says; absent for GateKindAddLinear.
	H   Matrix // [T, linear width], GateKindAddLinear only.
	W   Matrix // [1, linear width], GateKindAddLinear only.
	Acc Matrix // [T, width], for the kinds that add; absent: Out.
	Out Matrix // [T, width].
}

// Forward runs the op.
func (g *Gate) Forward(s *Stream, args GateArgs) error {
	width, linear, gate := g.config.Width, g.config.LinearWidth, int64(1)
	if g.config.Kind == GateKindMultiply {
		gate = width
	}
	operands := []operand{
		{name: "X", matrix: &args.X, cols: width, access: read},
		{name: "G", matrix: &args.G, cols: gate, access: read},
		{name: "H", matrix: &args.H, cols: linear, access: read},
		{name: "W", matrix: &args.W, cols: linear, access: read},
		{name: "Acc", matrix: &args.Acc, cols: width, access: read},
		{name: "Out", matrix: &args.Out, cols: width, access: readWrite},
	}
	none := func([]uintptr) (uint64, error) { return 0, nil }
	return s.exclusive(func(stream uintptr) error {
		return g.shared(func(gate uintptr) error {
			return s.launch(stream, operands, none, func(m []uintptr) error {
				raw := capi.GateForwardArgs{StructSize: uint32(unsafe.Sizeof(capi.GateForwardArgs{})),
					X: m[0], G: m[1], H: m[2], W: m[3], Acc: m[4], Out: m[5]}
				return capi.MoertGateForward(gate, stream, unsafe.Pointer(&raw))
			})
		})
	})
}
