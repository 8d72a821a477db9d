// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"runtime"
	"sync"
)

// handle owns one reference to an object of the library. Calls that the C ABI takes as const hold
// it for reading and run at the same time; the others, and Close, hold it alone. A call on a stream
// and another object holds the stream first.
type handle struct {
	mu      sync.RWMutex
	address uintptr
	release func(uintptr)
}

func newHandle(address uintptr, release func(uintptr)) *handle {
	h := &handle{address: address, release: release}
	runtime.SetFinalizer(h, (*handle).Close)
	return h
}

// Close releases the object, after waiting for calls on it that are running. Closing again does
// nothing. What was made from the object stays usable. An object that is not closed is released
// some time after it became unreachable.
func (h *handle) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.address != 0 {
		h.release(h.address)
		h.address = 0
		runtime.SetFinalizer(h, nil)
	}
	return nil
}

func (h *handle) shared(f func(address uintptr) error) error {
	if h == nil {
		return ErrClosed
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.address == 0 {
		return ErrClosed
	}
	return wrap(f(h.address))
}

func (h *handle) exclusive(f func(address uintptr) error) error {
	if h == nil {
		return ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.address == 0 {
		return ErrClosed
	}
	return wrap(f(h.address))
}
