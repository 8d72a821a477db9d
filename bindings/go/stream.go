// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"errors"
	"unsafe"

	"moert/internal/capi"
)

// StreamConfig has the options of a stream. The zero value is fine.
type StreamConfig struct {
	// Async queues work on the CPU's threads instead of running it on the caller's.
	Async bool
	// ScratchBytes is scratch to reserve at once. Calls reserve what they need.
	ScratchBytes uint64
}

// Stream is an order of work on a device.
type Stream struct {
	*handle
	*work
	onCPU        bool
	scratchBytes uint64
}

// work is the memory that goes with a stream.
type work struct {
	device *Device
	// Host memory of the library that slices are copied through, and its place on another device.
	host, stage *memory
	// What enqueued work uses.
	inFlight map[*memory]bool
}

func (w *work) landed() {
	for m := range w.inFlight {
		m.unuse()
		delete(w.inFlight, m)
	}
}

// release ends a stream. The work's memory may go only when it is done.
func (w *work) release(stream uintptr) {
	if len(w.inFlight) > 0 {
		_ = capi.MoertStreamSynchronize(stream) // Its failure has nobody to hear it.
		w.landed()
	}
	capi.MoertStreamRelease(stream)
	for _, m := range []*memory{w.host, w.stage} {
		if m != nil {
			m.close()
		}
	}
	w.device.Close()
}

// NewStream makes a stream.
func (d *Device) NewStream(config StreamConfig) (*Stream, error) {
	desc := capi.StreamDesc{
		StructSize:   uint32(unsafe.Sizeof(capi.StreamDesc{})),
		ScratchBytes: config.ScratchBytes,
	}
	if config.Async {
		desc.Flags = capi.StreamFlagAsync
	}
	return d.newStream(func(device uintptr, out unsafe.Pointer) error {
		return capi.MoertStreamCreate(device, unsafe.Pointer(&desc), out)
	})
}

// ImportStream wraps a CUstream or hipStream_t of the device's primary context, which must outlive
// the result.
func (d *Device) ImportStream(native unsafe.Pointer) (*Stream, error) {
	return d.newStream(func(device uintptr, out unsafe.Pointer) error {
		return capi.MoertStreamImport(device, native, out)
	})
}

func (d *Device) newStream(create func(device uintptr, out unsafe.Pointer) error) (*Stream, error) {
	info, err := d.Info()
	if err != nil {
		return nil, err
	}
	device, err := d.retain()
	if err != nil {
		return nil, err
	}
	var out uintptr
	err = d.shared(func(device uintptr) error { return create(device, unsafe.Pointer(&out)) })
	if err != nil {
		device.Close()
		return nil, err
	}
	w := &work{device: device, inFlight: map[*memory]bool{}}
	handle := newHandle(out, w.release)
	return &Stream{handle: handle, work: w, onCPU: info.Kind == DeviceKindCPU}, nil
}

// Native is the driver's stream, nil on the CPU.
func (s *Stream) Native() (native unsafe.Pointer, err error) {
	err = s.shared(func(stream uintptr) error {
		native = capi.MoertStreamNative(stream)
		return nil
	})
	return native, err
}

// Reserve grows the stream's scratch to at least that size. Calls without a workspace do it as
// needed.
func (s *Stream) Reserve(bytes uint64) error {
	return s.exclusive(func(stream uintptr) error { return s.reserve(stream, bytes) })
}

func (s *Stream) reserve(stream uintptr, bytes uint64) error {
	if bytes <= s.scratchBytes {
		return nil
	}
	err := capi.MoertStreamReserve(stream, bytes)
	if err == nil {
		s.scratchBytes = bytes
	}
	return err
}

// Synchronize waits until all work is done, then reports like Check.
func (s *Stream) Synchronize() error { return s.exclusive(s.synchronize) }

func (s *Stream) synchronize(stream uintptr) error {
	err := capi.MoertStreamSynchronize(stream)
	s.landed()
	return err
}

// Check reports, without waiting, the first failure of work that has run since the last report.
func (s *Stream) Check() error { return s.exclusive(capi.MoertStreamCheck) }

// WaitEvent lets work enqueued from now on start after the event is reached.
func (s *Stream) WaitEvent(event *Event) error {
	return s.exclusive(func(stream uintptr) error {
		return event.shared(func(e uintptr) error { return capi.MoertStreamWaitEvent(stream, e) })
	})
}

// Upload copies a slice to the start of a buffer, after the work enqueued so far; it returns when
// done.
func Upload[T Element](s *Stream, to *Buffer, from []T) error {
	return s.transfer(to, bytesOf(from), func(stream, host, device uintptr, bytes []byte) error {
		copy(hostBytes(host, len(bytes)), bytes)
		err := capi.MoertStreamCopy(stream, capi.Pointer(device), capi.Pointer(host),
			uint64(len(bytes)))
		if err != nil {
			return err
		}
		return s.synchronize(stream)
	})
}

// Download copies the start of a buffer to a slice, after the work enqueued so far; it returns when
// done.
func Download[T Element](s *Stream, to []T, from *Buffer) error {
	return s.transfer(from, bytesOf(to), func(stream, host, device uintptr, bytes []byte) error {
		err := capi.MoertStreamCopy(stream, capi.Pointer(host), capi.Pointer(device),
			uint64(len(bytes)))
		if err != nil {
			return err
		}
		err = s.synchronize(stream)
		copy(bytes, hostBytes(host, len(bytes)))
		return err
	})
}

func (s *Stream) transfer(buffer *Buffer, bytes []byte,
	f func(stream, host, device uintptr, bytes []byte) error) error {
	return s.exclusive(func(stream uintptr) error {
		if err := buffer.memory.use(); err != nil {
			return err
		}
		defer buffer.memory.unuse()
		if uint64(len(bytes)) > buffer.memory.bytes {
			return invalidArgument("a slice of %d bytes does not fit a buffer of %d", len(bytes),
				buffer.memory.bytes)
		}
		if err := s.growHost(uint64(len(bytes))); err != nil {
			return err
		}
		return f(stream, s.host.address, buffer.memory.address, bytes)
	})
}

func hostBytes(address uintptr, length int) []byte {
	return unsafe.Slice((*byte)(capi.Pointer(address)), length)
}

func (s *Stream) growHost(bytes uint64) error {
	return grow(&s.host, s.device, bytes, capi.MoertHostAlloc, capi.MoertHostFree)
}

func grow(m **memory, device *Device, bytes uint64,
	alloc func(uintptr, uint64, unsafe.Pointer) error,
	free func(uintptr, unsafe.Pointer)) error {
	if *m != nil && (*m).bytes >= bytes {
		return nil
	}
	grown, err := newMemory(device, bytes+bytes/2+4096, alloc, free)
	if err != nil {
		return err
	}
	if *m != nil {
		(*m).close()
	}
	*m = grown
	return nil
}

// Event is a point in a stream.
type Event struct{ *handle }

// NewEvent makes an event that was never recorded and so counts as reached.
func (d *Device) NewEvent() (*Event, error) {
	var out uintptr
	err := d.shared(func(device uintptr) error {
		return capi.MoertEventCreate(device, unsafe.Pointer(&out))
	})
	if err != nil {
		return nil, err
	}
	return &Event{newHandle(out, capi.MoertEventRelease)}, nil
}

// Record marks the stream's present end.
func (e *Event) Record(s *Stream) error {
	return s.exclusive(func(stream uintptr) error {
		return e.exclusive(func(event uintptr) error {
			return capi.MoertEventRecord(event,
				stream)
		})
	})
}

// Query says whether the event is reached; it never blocks. Once it is, a failure of the stream's
// work up to here is the error.
func (e *Event) Query() (bool, error) {
	err := e.shared(capi.MoertEventQuery)
	if errors.Is(err, StatusNotReady) {
		return false, nil
	}
	return err == nil, err
}

// Wait blocks until the event is reached; it reports like Query.
func (e *Event) Wait() error { return e.shared(capi.MoertEventWait) }
