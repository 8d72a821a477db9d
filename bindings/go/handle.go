// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"runtime"
	"sync"
)

// handle owns one reference to an object of the library. Calls that the C ABI takes as const run at
// the same time, the others one after another. A call on a stream and another object holds the
// stream first.
type handle struct {
	alone   sync.Mutex // held by the calls that run one after another
	mu      sync.Mutex // guards the fields below, never held during a call
	address uintptr
	calls   int
	closed  bool
	release func(uintptr)
}

func newHandle(address uintptr, release func(uintptr)) *handle {
	h := &handle{address: address, release: release}
	runtime.SetFinalizer(h, (*handle).Close)
	return h
}

// Close releases the object; if calls on it are running, the last of them does so when it ends.
// Closing again does nothing. What was made from the object stays usable. An object that is not
// closed is released some time after it became unreachable.
func (h *handle) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	last := !h.closed && h.calls == 0
	h.closed = true
	h.mu.Unlock()
	runtime.SetFinalizer(h, nil)
	if last {
		h.release(h.address)
	}
	return nil
}

func (h *handle) enter() error {
	if h == nil {
		return ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.calls++
	return nil
}

func (h *handle) leave() {
	h.mu.Lock()
	h.calls--
	last := h.closed && h.calls == 0
	h.mu.Unlock()
	if last {
		h.release(h.address)
	}
}

func (h *handle) shared(f func(address uintptr) error) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	return wrap(f(h.address))
}

func (h *handle) exclusive(f func(address uintptr) error) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	h.alone.Lock()
	defer h.alone.Unlock()
	return wrap(f(h.address))
}
