// SPDX-License-Identifier: Apache-2.0

// Package moert runs Mixture-of-Experts layers, routers and gate ops on whatever device is there.
//
// A Runtime finds devices, a Device makes layers and streams, a Layer runs on a Stream. Layers come
// from a Manifest of a checkpoint or from plain slices. Everything may be used from any goroutine
// and closed in any order. Calls on slices return when the result is there; calls on Buffers only
// enqueue.
//
// The package needs libmoert and moert.h where the C compiler finds them, else
//
//	CGO_CFLAGS="$(pkg-config --cflags moert)" CGO_LDFLAGS="$(pkg-config --libs-only-L moert)"
package moert

import (
	"runtime/cgo"
	"unsafe"

	"moert/internal/capi"
)

// ABIVersion is the ABI number of the loaded library; it should be HeaderABIVersion.
func ABIVersion() uint32 { return uint32(capi.MoertAbiVersion()) }

// HeaderABIVersion is the ABI that the package was written for.
const HeaderABIVersion = capi.AbiVersion

// Version is the loaded library's, such as "0.1.0".
func Version() string { return capi.MoertVersionString() }

// FamilyNames lists the built-in families, separated by commas.
func FamilyNames() string { return capi.MoertFamilyNames() }

// String is the dtype's name as safetensors spells it.
func (d Dtype) String() string { return capi.MoertDtypeName(int32(d)) }

// Bits of one element.
func (d Dtype) Bits() uint32 { return uint32(capi.MoertDtypeBits(int32(d))) }

// RuntimeConfig says what a runtime is made of.
type RuntimeConfig struct {
	// Log receives log lines of MinLevel and above, on any thread. A panic in it ends there.
	Log      func(level LogLevel, message string)
	MinLevel LogLevel
}

// Runtime knows the devices. Two runtimes share nothing.
type Runtime struct{ *handle }

// NewRuntime makes a runtime.
func NewRuntime(config RuntimeConfig) (*Runtime, error) {
	var arena capi.Arena
	defer arena.Free()
	desc := capi.RuntimeDesc{StructSize: uint32(unsafe.Sizeof(capi.RuntimeDesc{}))}
	if config.Log != nil {
		log := func(level int32, message string) { config.Log(LogLevel(level), message) }
		sink := capi.LogSink{
			StructSize: uint32(unsafe.Sizeof(capi.LogSink{})),
			MinLevel:   int32(config.MinLevel),
			UserData:   uintptr(cgo.NewHandle(capi.LogFunc(log))),
			Write:      capi.LogFunction(),
			FreeFn:     capi.FreeFunction(),
		}
		desc.Log = capi.Put(&arena, sink)
	}
	var out uintptr
	if err := capi.MoertRuntimeCreate(unsafe.Pointer(&desc), unsafe.Pointer(&out)); err != nil {
		return nil, wrap(err)
	}
	return &Runtime{newHandle(out, capi.MoertRuntimeRelease)}, nil
}

// Devices lists what was found, the CPU first.
func (r *Runtime) Devices() (devices []DeviceInfo, err error) {
	err = r.shared(func(runtime uintptr) error {
		var count uint32
		if err := capi.MoertRuntimeNumDevices(runtime, unsafe.Pointer(&count)); err != nil {
			return err
		}
		for i := uint32(0); i < count; i++ {
			raw := capi.DeviceInfo{StructSize: uint32(unsafe.Sizeof(capi.DeviceInfo{}))}
			if err := capi.MoertRuntimeDeviceInfo(runtime, i, unsafe.Pointer(&raw)); err != nil {
				return err
			}
			devices = append(devices, newDeviceInfo(&raw))
		}
		return nil
	})
	return devices, err
}
