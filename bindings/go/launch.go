// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"unsafe"

	"moert/internal/capi"
)

// What a call does with a matrix.
type access int

const (
	read access = iota
	write
	readWrite
)

type operand struct {
	name   string
	matrix *Matrix
	cols   int64
	access access

	view  capi.Matrix
	place uint64 // of a slice's copy in the stream's host memory
}

const alignment = 256

func aligned(bytes uint64) uint64 { return (bytes + alignment - 1) / alignment * alignment }

func (o *operand) onHost() bool { return o.matrix.present() && o.matrix.memory == nil }

func (o *operand) bytes() uint64 {
	return uint64(o.view.Rows*o.view.Cols) * uint64(o.matrix.elementBytes())
}

// copyRows copies between a slice and its packed copy.
func (o *operand) copyRows(host uintptr, out bool) {
	packed := hostBytes(host+uintptr(o.place), int(o.bytes()))
	size := int64(o.matrix.elementBytes())
	row, stride := o.view.Cols*size, int64(o.matrix.rowStride)*size
	if !o.matrix.shaped {
		stride = row
	}
	for r := int64(0); r < o.view.Rows; r++ {
		slice, copied := o.matrix.data[r*stride:r*stride+row], packed[r*row:(r+1)*row]
		if out {
			copy(slice, copied)
		} else {
			copy(copied, slice)
		}
	}
}

// launch runs a call on its matrices. C must not hold pointers to Go memory beyond a call, so
// slices are copied through memory of the library. With a slice among the matrices, launch returns
// when the work is done, else it only enqueues and the stream keeps the buffers alive. The caller
// holds s.
func (s *Stream) launch(stream uintptr, operands []operand,
	size func(matrices []uintptr) (uint64, error), enqueue func(matrices []uintptr) error) error {
	total := aligned(uint64(len(operands)) * uint64(unsafe.Sizeof(capi.Matrix{})))
	host := false
	for i := range operands {
		o := &operands[i]
		if !o.matrix.present() {
			continue
		}
		var err error
		if o.view, err = o.matrix.resolve(o.name, o.cols); err != nil {
			return err
		}
		if o.onHost() {
			host = true
			o.place = total
			total += aligned(o.bytes())
		} else if err := s.keep(o.matrix.memory); err != nil {
			return err
		}
	}
	if err := s.growHost(total); err != nil {
		return err
	}
	matrices, err := s.place(total, operands)
	if err == nil {
		err = s.enqueue(stream, operands, matrices, size, enqueue)
	}
	if !host {
		return err
	}
	done := s.synchronize(stream)
	if err != nil {
		return err
	}
	for i := range operands {
		if o := &operands[i]; o.onHost() && o.access != read {
			o.copyRows(s.host.address, true)
		}
	}
	return done
}

func (s *Stream) keep(m *memory) error {
	if s.inFlight[m] {
		return nil
	}
	err := m.use()
	if err == nil {
		s.inFlight[m] = true
	}
	return err
}

// place writes the matrices for C at the start of the host memory, and the slices behind them.
func (s *Stream) place(total uint64, operands []operand) ([]uintptr, error) {
	base := s.host.address
	if !s.onCPU {
		err := grow(&s.stage, s.device, total, capi.MoertDeviceAlloc, capi.MoertDeviceFree)
		if err != nil {
			return nil, err
		}
		base = s.stage.address
	}
	matrices := make([]uintptr, len(operands))
	views := unsafe.Slice((*capi.Matrix)(capi.Pointer(s.host.address)), len(operands))
	for i := range operands {
		o := &operands[i]
		if !o.matrix.present() {
			continue
		}
		views[i] = o.view
		matrices[i] = s.host.address + uintptr(i)*unsafe.Sizeof(capi.Matrix{})
		if !o.onHost() {
			views[i].Data = o.matrix.memory.address + uintptr(o.matrix.offset)
			continue
		}
		views[i].Data = base + uintptr(o.place)
		views[i].RowStride = o.view.Cols
		if o.access != write {
			o.copyRows(s.host.address, false)
		}
	}
	return matrices, nil
}

func (s *Stream) enqueue(stream uintptr, operands []operand, matrices []uintptr,
	size func([]uintptr) (uint64, error), enqueue func([]uintptr) error) error {
	bytes, err := size(matrices)
	if err != nil {
		return err
	}
	if err := s.reserve(stream, bytes); err != nil {
		return err
	}
	if err := s.copyStage(stream, operands, false); err != nil {
		return err
	}
	if err := enqueue(matrices); err != nil {
		return err
	}
	return s.copyStage(stream, operands, true)
}

// copyStage copies between the host memory and another device's.
func (s *Stream) copyStage(stream uintptr, operands []operand, out bool) error {
	if s.onCPU {
		return nil
	}
	for i := range operands {
		o := &operands[i]
		if !o.onHost() || out && o.access == read || !out && o.access == write {
			continue
		}
		to := capi.Pointer(s.stage.address + uintptr(o.place))
		from := capi.Pointer(s.host.address + uintptr(o.place))
		if out {
			to, from = from, to
		}
		if err := capi.MoertStreamCopy(stream, to, from, o.bytes()); err != nil {
			return err
		}
	}
	return nil
}

// shapesOnly writes matrices without data, for the questions about workspace.
func shapesOnly(arena *capi.Arena, operands []operand) ([]uintptr, error) {
	matrices := make([]uintptr, len(operands))
	for i := range operands {
		o := &operands[i]
		if !o.matrix.present() {
			continue
		}
		view, err := o.matrix.resolve(o.name, o.cols)
		if err != nil {
			return nil, err
		}
		matrices[i] = capi.Put(arena, view)
	}
	return matrices, nil
}
