// SPDX-License-Identifier: Apache-2.0

// Package capi is the C ABI of moert as flat functions. Package moert is the one to use.
package capi

/*
#include <stdint.h>
#include <stdlib.h>
#include "moert/moert.h"

extern void moertGoLog(uintptr_t handle, int32_t level, char *message);
extern int32_t moertGoProgress(uintptr_t handle, uint64_t done, uint64_t total);
extern void moertGoFree(uintptr_t handle);

static void log_line(void *user_data, moert_log_level level, const char *message) {
  moertGoLog((uintptr_t)user_data, level, (char *)message);
}
static int32_t progress(void *user_data, uint64_t done, uint64_t total) {
  return moertGoProgress((uintptr_t)user_data, done, total);
}
static void free_handle(void *user_data) { moertGoFree((uintptr_t)user_data); }

static uintptr_t log_function(void) { return (uintptr_t)log_line; }
static uintptr_t progress_function(void) { return (uintptr_t)progress; }
static uintptr_t free_function(void) { return (uintptr_t)free_handle; }
*/
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// Failure is a failed status with what explains it.
type Failure struct {
	Code       int32
	NativeCode int64
	Message    string
}

func (f *Failure) Error() string { return f.Message }

// takeError frees the copy of a moert_error that a wrapper made.
func takeError(raw *byte) error {
	if raw == nil {
		return nil
	}
	e := (*C.moert_error)(unsafe.Pointer(raw))
	defer C.free(unsafe.Pointer(e))
	return &Failure{int32(e.code), int64(e.native_code), C.GoString(&e.message[0])}
}

// Pointer turns an address of memory that is not Go's into a pointer.
func Pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// String copies a C string; address 0 gives "".
func String(address uintptr) string { return C.GoString((*C.char)(Pointer(address))) }

// ArrayString copies the C string that an array holds.
func ArrayString(array []byte) string {
	for i, c := range array {
		if c == 0 {
			return string(array[:i])
		}
	}
	return string(array)
}

// List copies count elements.
func List[T any](address uintptr, count uint64) []T {
	if address == 0 || count == 0 {
		return nil
	}
	return append([]T(nil), unsafe.Slice((*T)(Pointer(address)), count)...)
}

// Alloc gives zeroed memory that is not Go's. It never fails.
func Alloc(bytes uint64) uintptr { return uintptr(C.calloc(1, C.size_t(bytes+1))) }

// Free frees what Alloc gave.
func Free(address uintptr) { C.free(Pointer(address)) }

// Arena holds what one call points to: C must not see pointers to Go memory inside of structs.
type Arena struct{ blocks []uintptr }

// Free frees everything.
func (a *Arena) Free() {
	for _, block := range a.blocks {
		Free(block)
	}
}

// Bytes copies bytes.
func (a *Arena) Bytes(data []byte) uintptr {
	block := Alloc(uint64(len(data)))
	a.blocks = append(a.blocks, block)
	copy(unsafe.Slice((*byte)(Pointer(block)), len(data)), data)
	return block
}

// String copies a string; "" gives address 0.
func (a *Arena) String(s string) uintptr {
	if s == "" {
		return 0
	}
	return a.Bytes([]byte(s))
}

// Put copies a value that has C's layout.
func Put[T any](a *Arena, value T) uintptr {
	return PutList(a, []T{value})
}

// PutList copies values that have C's layout; none gives address 0.
func PutList[T any](a *Arena, values []T) uintptr {
	if len(values) == 0 {
		return 0
	}
	size := uintptr(len(values)) * unsafe.Sizeof(values[0])
	return a.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), size))
}

// LogFunc receives log lines, on any thread.
type LogFunc func(level int32, message string)

// ProgressFunc hears bytes done and in all; false stops the call.
type ProgressFunc func(done, total uint64) bool

// LogFunction is a moert_log_fn whose user_data is the cgo.Handle of a LogFunc.
func LogFunction() uintptr { return uintptr(C.log_function()) }

// ProgressFunction is a moert_progress_fn whose user_data is the cgo.Handle of a ProgressFunc.
func ProgressFunction() uintptr { return uintptr(C.progress_function()) }

// FreeFunction is a moert_free_fn that deletes a cgo.Handle.
func FreeFunction() uintptr { return uintptr(C.free_function()) }

//export moertGoLog
func moertGoLog(handle C.uintptr_t, level C.int32_t, message *C.char) {
	// A panic must not unwind through C frames.
	defer func() { _ = recover() }()
	cgo.Handle(handle).Value().(LogFunc)(int32(level), C.GoString(message))
}

//export moertGoProgress
func moertGoProgress(handle C.uintptr_t, done, total C.uint64_t) (stop C.int32_t) {
	defer func() {
		if recover() != nil {
			stop = 1
		}
	}()
	if cgo.Handle(handle).Value().(ProgressFunc)(uint64(done), uint64(total)) {
		return 0
	}
	return 1
}

//export moertGoFree
func moertGoFree(handle C.uintptr_t) { cgo.Handle(handle).Delete() }
