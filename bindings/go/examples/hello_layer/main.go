// SPDX-License-Identifier: Apache-2.0

// Four experts, two for each of three tokens, on the best device there is.
package main

import (
	"fmt"
	"moert"
)

func main() {
	w := make([]float32, 4*16*8)
	for i := range w {
		w[i] = float32(i*37%101)/101 - 0.5
	}
	runtime := moert.Must(moert.NewRuntime(moert.RuntimeConfig{}))
	device := moert.Must(runtime.OpenDevice("best", moert.DeviceConfig{}))
	layer := moert.Must(device.NewLayer(moert.LayerConfig{
		Hidden: 8, Intermediate: 16, Routing: moert.Routing{NumExperts: 4, TopK: 2},
		Weights: []moert.Weight{
			moert.NewWeight(moert.RoleRouter, w[:4*8], 4, 8),
			moert.NewWeight(moert.RoleExpertGate, w, 16, 8),
			moert.NewWeight(moert.RoleExpertUp, w, 16, 8),
			moert.NewWeight(moert.RoleExpertDown, w, 8, 16)}}))
	y, ids := make([]float32, 3*8), make([]int32, 3*2)
	err := layer.Forward(moert.Must(device.NewStream(moert.StreamConfig{})), moert.ForwardArgs{
		X: moert.MatrixOf(w[:3*8]), Y: moert.MatrixOf(y), IDs: moert.MatrixOf(ids)})
	fmt.Printf("experts %v, y[0] %.4f\n", moert.Must(ids, err), y[0])
}
