// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"unsafe"

	"moert/internal/capi"
)

// Element is what a matrix of Go memory is made of.
type Element interface {
	float32 | BFloat16 | Float16 | int32
}

func dtypeOf[T Element]() Dtype {
	var zero T
	switch any(zero).(type) {
	case BFloat16:
		return DtypeBfloat16
	case Float16:
		return DtypeFloat16
	case int32:
		return DtypeInt32
	}
	return DtypeFloat32
}

// Matrix is what a call reads or writes: a slice, or part of a Buffer. The zero value is absent.
type Matrix struct {
	data      []byte // of a slice
	memory    *memory
	offset    uint64
	dtype     Dtype
	shaped    bool // else rows follow from the columns that the call expects
	rows      int
	cols      int
	rowStride int
}

// MatrixOf makes a matrix of a slice; its rows follow from the columns that the call expects.
func MatrixOf[T Element](data []T) Matrix {
	return Matrix{data: bytesOf(data), dtype: dtypeOf[T]()}
}

// StridedMatrix makes a matrix whose rows lie rowStride elements apart.
func StridedMatrix[T Element](data []T, rows, cols, rowStride int) Matrix {
	m := MatrixOf(data)
	m.shaped, m.rows, m.cols, m.rowStride = true, rows, cols, rowStride
	return m
}

// Matrix makes a packed matrix that begins offset bytes into the buffer.
func (b *Buffer) Matrix(dtype Dtype, offset uint64, rows, cols int) Matrix {
	return Matrix{memory: b.memory, offset: offset, dtype: dtype, shaped: true, rows: rows,
		cols:      cols,
		rowStride: cols}
}

// bytesOf views a slice as bytes; never nil.
func bytesOf[T any](data []T) []byte {
	if len(data) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&data[0])),
		uintptr(len(data))*unsafe.Sizeof(data[0]))
}

func (m *Matrix) present() bool { return m.data != nil || m.memory != nil }

func (m *Matrix) elementBytes() int { return int(m.dtype.Bits() / 8) }

// resolve gives the shape and stride for the C ABI; a bare slice has cols columns.
func (m *Matrix) resolve(name string, cols int64) (capi.Matrix, error) {
	size := m.elementBytes()
	if size == 0 {
		return capi.Matrix{}, invalidArgument("%s is of dtype %v, which no call takes", name,
			m.dtype)
	}
	length := len(m.data) / size
	if m.memory != nil {
		length = 0
		if m.offset <= m.memory.bytes {
			length = int(m.memory.bytes-m.offset) / size
		}
	}
	rows, columns, stride := m.rows, m.cols, m.rowStride
	if !m.shaped {
		columns, stride = int(cols), int(cols)
		if columns == 0 && length > 0 || columns > 0 && length%columns != 0 {
			return capi.Matrix{}, invalidArgument(
				"%s has %d elements, which is not a multiple of its %d columns", name, length,
				columns)
		}
		if columns > 0 {
			rows = length / columns
		}
	}
	if rows < 0 || columns < 0 || stride < columns ||
		rows > 0 && (columns > length || rows > 1 && (length-columns)/(rows-1) < stride) {
		return capi.Matrix{}, invalidArgument(
			"%s of %d rows, %d columns and row stride %d does not fit into %d elements", name, rows,
			columns, stride, length)
	}
	return capi.Matrix{Rows: int64(rows), Cols: int64(columns), RowStride: int64(stride),
		Dtype: int32(m.dtype)}, nil
}
