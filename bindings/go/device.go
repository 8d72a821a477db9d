// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"runtime"
	"sync"
	"unsafe"

	"moert/internal/capi"
)

// DeviceConfig has the options of a device. The zero value is fine.
type DeviceConfig struct {
	// IgnoreEnvironment does not read MOERT_KERNEL_PATH or MOERT_CPU_ISA.
	IgnoreEnvironment bool
	// KernelPath is a kernel file, or the folder that holds it (GPU).
	KernelPath string
	// KernelData is the contents of a kernel file (GPU).
	KernelData []byte
	// CPUThreads counts the caller's; 0 means all (CPU).
	CPUThreads uint32
}

// Device is an open device with all its kernels loaded.
type Device struct{ *handle }

// OpenDevice opens "cpu", "cuda:N", "hip:N", or "best": a GPU that works, else the CPU.
func (r *Runtime) OpenDevice(name string, config DeviceConfig) (*Device, error) {
	if err := checkStrings(name, config.KernelPath); err != nil {
		return nil, err
	}
	var arena capi.Arena
	defer arena.Free()
	desc := capi.DeviceDesc{
		StructSize: uint32(unsafe.Sizeof(capi.DeviceDesc{})),
		KernelPath: arena.String(config.KernelPath),
		CPUThreads: config.CPUThreads,
	}
	if config.IgnoreEnvironment {
		desc.Flags = capi.DeviceFlagIgnoreEnvironment
	}
	if len(config.KernelData) > 0 {
		desc.KernelData = arena.Bytes(config.KernelData)
		desc.KernelSize = uint64(len(config.KernelData))
	}
	cname := capi.Pointer(arena.String(name))
	var out uintptr
	err := r.shared(func(runtime uintptr) error {
		return capi.MoertDeviceCreate(runtime, cname, unsafe.Pointer(&desc), unsafe.Pointer(&out))
	})
	if err != nil {
		return nil, err
	}
	return &Device{newHandle(out, capi.MoertDeviceRelease)}, nil
}

// Info gives facts about the device.
func (d *Device) Info() (info DeviceInfo, err error) {
	err = d.shared(func(device uintptr) error {
		raw := capi.DeviceInfo{StructSize: uint32(unsafe.Sizeof(capi.DeviceInfo{}))}
		err := capi.MoertDeviceGetInfo(device, unsafe.Pointer(&raw))
		info = newDeviceInfo(&raw)
		return err
	})
	return info, err
}

// retain gives a reference of its own.
func (d *Device) retain() (device *Device, err error) {
	err = d.shared(func(address uintptr) error {
		capi.MoertDeviceRetain(address)
		device = &Device{newHandle(address, capi.MoertDeviceRelease)}
		return nil
	})
	return device, err
}

// memory is device or host memory of the library. It goes when nobody uses it.
type memory struct {
	device  *Device
	address uintptr
	bytes   uint64
	free    func(device uintptr, memory unsafe.Pointer)

	mu     sync.Mutex
	users  int
	closed bool
}

func newMemory(d *Device, bytes uint64, alloc func(uintptr, uint64, unsafe.Pointer) error,
	free func(uintptr, unsafe.Pointer)) (*memory, error) {
	device, err := d.retain()
	if err != nil {
		return nil, err
	}
	m := &memory{device: device, bytes: bytes, free: free}
	err = device.shared(func(d uintptr) error {
		var out uintptr
		err := alloc(d, bytes, unsafe.Pointer(&out))
		m.address = out
		return err
	})
	if err != nil {
		device.Close()
		return nil, err
	}
	runtime.SetFinalizer(m, (*memory).close)
	return m, nil
}

func (m *memory) use() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.users++
	return nil
}

func (m *memory) unuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	m.freeUnused()
}

func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		runtime.SetFinalizer(m, nil)
		m.freeUnused()
	}
}

func (m *memory) freeUnused() {
	if m.closed && m.users == 0 {
		m.device.shared(func(device uintptr) error {
			m.free(device, capi.Pointer(m.address))
			return nil
		})
		m.device.Close()
	}
}

// Buffer is a block of device memory. Work that uses it keeps it alive. What work on two streams at
// once does to the same bytes is up to the caller's events.
type Buffer struct{ memory *memory }

// NewBuffer allocates device memory, not initialised.
func (d *Device) NewBuffer(bytes uint64) (*Buffer, error) {
	m, err := newMemory(d, bytes, capi.MoertDeviceAlloc, capi.MoertDeviceFree)
	if err != nil {
		return nil, err
	}
	return &Buffer{m}, nil
}

// Bytes is the buffer's size.
func (b *Buffer) Bytes() uint64 { return b.memory.bytes }

// Close frees the memory once no work uses it.
func (b *Buffer) Close() error {
	b.memory.close()
	return nil
}
