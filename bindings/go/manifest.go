// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"runtime/cgo"
	"unsafe"

	"moert/internal/capi"
)

// Progress hears how far a long call is, in bytes. False, or a panic, stops the call with
// StatusCallbackFailed.
type Progress func(done, total uint64) bool

// handle gives a cgo.Handle; the caller deletes it.
func (p Progress) handle() cgo.Handle { return cgo.NewHandle(capi.ProgressFunc(p)) }

// PackConfig says what to pack.
type PackConfig struct {
	// Directory is the folder with config.json and the safetensors files.
	Directory string
	// Output is the manifest to write; "" means model.moem in the folder.
	Output string
	// FamilyPath is a family description (JSON) to use instead of a built-in one.
	FamilyPath string
	// SkipHashes records sizes only.
	SkipHashes bool
	// AllowHoles accepts shards with bytes that belong to no tensor.
	AllowHoles bool
	Progress   Progress
}

// Pack writes a manifest for a Hugging Face checkpoint. No weight is copied. The file appears whole
// or not at all.
func (r *Runtime) Pack(config PackConfig) (result PackResult, err error) {
	if err := checkStrings(config.Directory, config.Output, config.FamilyPath); err != nil {
		return result, err
	}
	var arena capi.Arena
	defer arena.Free()
	desc := capi.PackDesc{
		StructSize: uint32(unsafe.Sizeof(capi.PackDesc{})),
		Directory:  arena.String(config.Directory),
		Output:     arena.String(config.Output),
		FamilyPath: arena.String(config.FamilyPath),
	}
	if config.SkipHashes {
		desc.Flags |= capi.PackFlagSkipHashes
	}
	if config.AllowHoles {
		desc.Flags |= capi.PackFlagAllowHoles
	}
	if config.Progress != nil {
		handle := config.Progress.handle()
		defer handle.Delete()
		desc.Progress, desc.UserData = capi.ProgressFunction(), uintptr(handle)
	}
	raw := capi.PackResult{StructSize: uint32(unsafe.Sizeof(capi.PackResult{}))}
	err = r.shared(func(runtime uintptr) error {
		return capi.MoertManifestPack(runtime, unsafe.Pointer(&desc), unsafe.Pointer(&raw))
	})
	return newPackResult(&raw), err
}

// ManifestConfig says where a manifest comes from: Path, or Data.
type ManifestConfig struct {
	Path string
	Data []byte
	// BaseDir is the folder of the files; "" means the manifest's own.
	BaseDir string
	// ForbidSymlinks refuses files reached through a symbolic link.
	ForbidSymlinks bool
	// Read reads files into memory instead of mapping them.
	Read bool
}

// Manifest is an opened, verified manifest with its files mapped.
type Manifest struct{ *handle }

// OpenManifest opens a manifest.
func (r *Runtime) OpenManifest(config ManifestConfig) (*Manifest, error) {
	if err := checkStrings(config.Path, config.BaseDir); err != nil {
		return nil, err
	}
	var arena capi.Arena
	defer arena.Free()
	desc := capi.ManifestDesc{
		StructSize: uint32(unsafe.Sizeof(capi.ManifestDesc{})),
		Path:       arena.String(config.Path),
		BaseDir:    arena.String(config.BaseDir),
	}
	if config.Data != nil {
		desc.Data, desc.Size = arena.Bytes(config.Data), uint64(len(config.Data))
	}
	if config.ForbidSymlinks {
		desc.Flags |= capi.ManifestFlagForbidSymlinks
	}
	if config.Read {
		desc.Flags |= capi.ManifestFlagRead
	}
	var out uintptr
	err := r.shared(func(runtime uintptr) error {
		return capi.MoertManifestOpen(runtime, unsafe.Pointer(&desc), unsafe.Pointer(&out))
	})
	if err != nil {
		return nil, err
	}
	return &Manifest{newHandle(out, capi.MoertManifestRelease)}, nil
}

// Verify reads every file: sizes, hashes and headers against what was packed. progress may be nil.
func (m *Manifest) Verify(progress Progress) error {
	var function uintptr
	var handle cgo.Handle
	if progress != nil {
		handle = progress.handle()
		defer handle.Delete()
		function = capi.ProgressFunction()
	}
	return m.shared(func(manifest uintptr) error {
		return capi.MoertManifestVerify(manifest, function, uintptr(handle))
	})
}

// Info gives facts about the manifest.
func (m *Manifest) Info() (info ManifestInfo, err error) {
	err = m.shared(func(manifest uintptr) error {
		raw := capi.ManifestInfo{StructSize: uint32(unsafe.Sizeof(capi.ManifestInfo{}))}
		err := capi.MoertManifestGetInfo(manifest, unsafe.Pointer(&raw))
		info = newManifestInfo(&raw)
		return err
	})
	return info, err
}

// File gives the index-th file.
func (m *Manifest) File(index uint32) (info FileInfo, err error) {
	err = m.shared(func(manifest uintptr) error {
		raw := capi.FileInfo{StructSize: uint32(unsafe.Sizeof(capi.FileInfo{}))}
		err := capi.MoertManifestFile(manifest, index, unsafe.Pointer(&raw))
		info = newFileInfo(&raw)
		return err
	})
	return info, err
}

// Tensor gives the index-th tensor, in the order of names.
func (m *Manifest) Tensor(index uint64) (info TensorInfo, err error) {
	err = m.shared(func(manifest uintptr) error {
		raw := capi.TensorInfo{StructSize: uint32(unsafe.Sizeof(capi.TensorInfo{}))}
		err := capi.MoertManifestTensor(manifest, index, unsafe.Pointer(&raw))
		info = newTensorInfo(&raw)
		return err
	})
	return info, err
}

// FindTensor gives the index of the tensor of that name.
func (m *Manifest) FindTensor(name string) (index uint64, err error) {
	if err := checkStrings(name); err != nil {
		return 0, err
	}
	var arena capi.Arena
	defer arena.Free()
	cname := capi.Pointer(arena.Bytes([]byte(name)))
	err = m.shared(func(manifest uintptr) error {
		var out uint64
		err := capi.MoertManifestFindTensor(manifest, cname, unsafe.Pointer(&out))
		index = out
		return err
	})
	return index, err
}

// TensorData copies the bytes of a tensor.
func (m *Manifest) TensorData(index uint64) (data []byte, err error) {
	info, err := m.Tensor(index)
	if err != nil {
		return nil, err
	}
	err = m.shared(func(manifest uintptr) error {
		var out uintptr
		err := capi.MoertManifestTensorData(manifest, index, unsafe.Pointer(&out))
		if err == nil {
			data = capi.List[byte](out, info.Bytes)
		}
		return err
	})
	return data, err
}

// Layer gives the index-th MoE layer, in the model's order.
func (m *Manifest) Layer(index uint32) (info LayerInfo, err error) {
	err = m.shared(func(manifest uintptr) error {
		raw := capi.LayerInfo{StructSize: uint32(unsafe.Sizeof(capi.LayerInfo{}))}
		err := capi.MoertManifestLayer(manifest, index, unsafe.Pointer(&raw))
		info = newLayerInfo(&raw)
		return err
	})
	return info, err
}

// FindLayer gives the index of the MoE layer with the model's own number.
func (m *Manifest) FindLayer(modelLayer int32) (index uint32, err error) {
	err = m.shared(func(manifest uintptr) error {
		var out uint32
		err := capi.MoertManifestFindLayer(manifest, modelLayer, unsafe.Pointer(&out))
		index = out
		return err
	})
	return index, err
}

// LayerRouting gives a layer's routing.
func (m *Manifest) LayerRouting(index uint32) (routing Routing, err error) {
	err = m.shared(func(manifest uintptr) error {
		raw := capi.Routing{StructSize: uint32(unsafe.Sizeof(capi.Routing{}))}
		err := capi.MoertManifestLayerRouting(manifest, index, unsafe.Pointer(&raw))
		routing = newRouting(&raw)
		return err
	})
	return routing, err
}

// LayerActivation gives a layer's activations: of the experts and of the shared expert.
func (m *Manifest) LayerActivation(index uint32) (experts, shared Activation, err error) {
	err = m.shared(func(manifest uintptr) error {
		e := capi.Activation{StructSize: uint32(unsafe.Sizeof(capi.Activation{}))}
		s := e
		err := capi.MoertManifestLayerActivation(manifest, index, unsafe.Pointer(&e),
			unsafe.Pointer(&s))
		experts, shared = newActivation(&e), newActivation(&s)
		return err
	})
	return experts, shared, err
}

// LayerWeight gives the weightIndex-th weight of a layer.
func (m *Manifest) LayerWeight(index, weightIndex uint32) (info WeightInfo, err error) {
	err = m.shared(func(manifest uintptr) error {
		raw := capi.WeightInfo{StructSize: uint32(unsafe.Sizeof(capi.WeightInfo{}))}
		err := capi.MoertManifestLayerWeight(manifest, index, weightIndex, unsafe.Pointer(&raw))
		info = newWeightInfo(&raw)
		return err
	})
	return info, err
}
