// SPDX-License-Identifier: Apache-2.0

// Packs a checkpoint, opens its MoE layers and runs each on the embeddings of a text whose tokens are
// bytes; prints which experts the tokens went to.
//
//	go run ./examples/trained_layers ../../examples/tiny-shakespeare-qwen2moe
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"moert"
)

const text = "To be, or not to be, that is the question"

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: trained_layers FOLDER")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	runtime, err := moert.NewRuntime(moert.RuntimeConfig{})
	if err != nil {
		return err
	}
	defer runtime.Close()
	manifest, err := open(runtime, folder)
	if err != nil {
		return err
	}
	defer manifest.Close()
	device, err := runtime.OpenDevice("best", moert.DeviceConfig{})
	if err != nil {
		return err
	}
	defer device.Close()
	stream, err := device.NewStream(moert.StreamConfig{})
	if err != nil {
		return err
	}
	defer stream.Close()
	info, err := manifest.Info()
	if err != nil {
		return err
	}
	x, err := embed(manifest)
	if err != nil {
		return err
	}
	for i := uint32(0); i < info.NumLayers; i++ {
		if err := runLayer(device, stream, manifest, i, x); err != nil {
			return err
		}
	}
	return nil
}

// open packs the checkpoint into a manifest that does not stay.
func open(runtime *moert.Runtime, folder string) (*moert.Manifest, error) {
	scratch, err := os.MkdirTemp("", "trained")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	packed := filepath.Join(scratch, "model.moem")
	if _, err := runtime.Pack(moert.PackConfig{Directory: folder, Output: packed}); err != nil {
		return nil, err
	}
	return runtime.OpenManifest(moert.ManifestConfig{Path: packed, BaseDir: folder})
}

// embed gives one row for each byte of the text.
func embed(manifest *moert.Manifest) ([]float32, error) {
	index, err := manifest.FindTensor("model.embed_tokens.weight")
	if err != nil {
		return nil, err
	}
	tensor, err := manifest.Tensor(index)
	if err != nil {
		return nil, err
	}
	table, err := manifest.TensorData(index)
	if err != nil {
		return nil, err
	}
	hidden := int(tensor.Shape[1])
	var x []float32
	for _, token := range []byte(text) {
		row := table[int(token)*hidden*2:][:hidden*2]
		for i := 0; i < hidden; i++ {
			x = append(x, moert.BFloat16(binary.LittleEndian.Uint16(row[2*i:])).Float32())
		}
	}
	return x, nil
}

func runLayer(device *moert.Device, stream *moert.Stream, manifest *moert.Manifest, index uint32,
	x []float32) error {
	layer, err := device.OpenLayer(manifest, index, moert.LayerOptions{Dtype: moert.DtypeFloat32})
	if err != nil {
		return err
	}
	defer layer.Close()
	y, counts := make([]float32, len(x)), make([]int32, layer.Info().NumExperts)
	err = layer.Forward(stream, moert.ForwardArgs{X: moert.MatrixOf(x), Y: moert.MatrixOf(y),
		ExpertCounts: moert.MatrixOf(counts)})
	if err != nil {
		return err
	}
	var sum float64
	for _, v := range y {
		sum += float64(v) * float64(v)
	}
	fmt.Printf("layer %d: rms of y %.4f, tokens by expert %v\n", index,
		math.Sqrt(sum/float64(len(y))),
		counts)
	return nil
}
