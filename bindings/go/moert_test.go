// SPDX-License-Identifier: Apache-2.0

package moert

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"moert/internal/capi"
)

// reference holds the numbers that bindings/tests/reference.c wrote.
type reference struct {
	t, h, i, e, k, s int
	bits             map[string][]uint32
}

func loadReference(t testing.TB) *reference {
	t.Helper()
	file, err := os.Open(os.Getenv("MOERT_REFERENCE"))
	check(t, err)
	defer file.Close()
	r := &reference{bits: map[string][]uint32{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		bits := make([]uint32, len(words)-2)
		for i, word := range words[2:] {
			v, err := strconv.ParseUint(word, 16, 32)
			check(t, err)
			bits[i] = uint32(v)
		}
		r.bits[words[0]] = bits
	}
	check(t, lines.Err())
	for i, to := range []*int{&r.t, &r.h, &r.i, &r.e, &r.k, &r.s} {
		*to = int(r.bits["shape"][i])
	}
	return r
}

func (r *reference) floats(name string) []float32 {
	out := make([]float32, len(r.bits[name]))
	for i, b := range r.bits[name] {
		out[i] = math.Float32frombits(b)
	}
	return out
}

func (r *reference) ints(name string) []int32 {
	out := make([]int32, len(r.bits[name]))
	for i, b := range r.bits[name] {
		out[i] = int32(b)
	}
	return out
}

func (r *reference) equal(t testing.TB, name string, got []float32) {
	t.Helper()
	for i, want := range r.bits[name] {
		if math.Float32bits(got[i]) != want {
			t.Fatalf("%s[%d] is %v, C computes %v", name, i, got[i], math.Float32frombits(want))
		}
	}
}

func (r *reference) equalInts(t testing.TB, name string, got []int32) {
	t.Helper()
	if want := r.ints(name); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s is %v, C computes %v", name, got, want)
	}
}

func (r *reference) routing() Routing {
	return Routing{NumExperts: int32(r.e), TopK: int32(r.k), Renormalize: RenormalizeSum}
}

func referenceWeights[T Element](r *reference, values func(name string) []T) []Weight {
	return []Weight{
		NewWeight(RoleRouter, values("router"), r.e, r.h),
		NewWeight(RoleExpertGate, values("expert_gate"), r.i, r.h),
		NewWeight(RoleExpertUp, values("expert_up"), r.i, r.h),
		NewWeight(RoleExpertDown, values("expert_down"), r.h, r.i),
		NewWeight(RoleSharedGate, values("shared_gate"), r.s, r.h),
		NewWeight(RoleSharedUp, values("shared_up"), r.s, r.h),
		NewWeight(RoleSharedDown, values("shared_down"), r.h, r.s),
		NewWeight(RoleSharedExpertGate, values("shared_expert_gate"), 1, r.h),
	}
}

func (r *reference) config() LayerConfig {
	return LayerConfig{Hidden: int64(r.h), Intermediate: int64(r.i), SharedIntermediate: int64(r.s),
		Routing: r.routing(), Weights: referenceWeights(r, r.floats)}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRuntime(t testing.TB) *Runtime {
	t.Helper()
	r, err := NewRuntime(RuntimeConfig{})
	check(t, err)
	return r
}

func openCPU(t testing.TB) (*Device, *Stream) {
	t.Helper()
	d, err := newRuntime(t).OpenDevice("cpu", DeviceConfig{})
	check(t, err)
	s, err := d.NewStream(StreamConfig{})
	check(t, err)
	return d, s
}

// tinyLayer is one expert that returns silu(x) * x for a width of 1.
func tinyLayer(t testing.TB, d *Device) *Layer {
	t.Helper()
	one := []float32{1}
	config := LayerConfig{Hidden: 1, Intermediate: 1, Routing: Routing{NumExperts: 1, TopK: 1}}
	for _, role := range []Role{RoleRouter, RoleExpertGate, RoleExpertUp, RoleExpertDown} {
		config.Weights = append(config.Weights, NewWeight(role, one, 1, 1))
	}
	l, err := d.NewLayer(config)
	check(t, err)
	return l
}

func nan(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.NaN())
	}
	return out
}

func TestLayerAndItsRoutingEqualTheCABIs(t *testing.T) {
	r := loadReference(t)
	d, s := openCPU(t)
	l, err := d.NewLayer(r.config())
	check(t, err)
	x, y, weights, logits := r.floats("x"), nan(r.t*r.h), nan(r.t*r.k), nan(r.t*r.e)
	ids, counts := make([]int32, r.t*r.k), make([]int32, r.e)
	args := ForwardArgs{X: MatrixOf(x), Y: MatrixOf(y), IDs: MatrixOf(ids),
		Weights: MatrixOf(weights),
		Logits:  MatrixOf(logits), ExpertCounts: MatrixOf(counts)}
	if n, err := l.WorkspaceSize(args); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	check(t, l.Forward(s, args))
	r.equal(t, "y", y)
	r.equalInts(t, "ids", ids)
	r.equal(t, "weights", weights)
	r.equal(t, "logits", logits)
	r.equalInts(t, "expert_counts", counts)
	args = ForwardArgs{X: MatrixOf(x), Y: MatrixOf(y), IDs: MatrixOf(r.ints("given_ids")),
		Weights: MatrixOf(weights), GivenRouting: true, Accumulate: true, SkipShared: true}
	check(t, l.Forward(s, args))
	r.equal(t, "given_y", y)
}

func TestBFloat16LayerEqualsTheCABIs(t *testing.T) {
	r := loadReference(t)
	d, s := openCPU(t)
	config := r.config()
	config.Dtype = DtypeBfloat16
	config.Weights = referenceWeights(r,
		func(name string) []BFloat16 { return ToBFloat16s(r.floats(name)) })
	l, err := d.NewLayer(config)
	check(t, err)
	x, y := ToBFloat16s(r.floats("x")), make([]BFloat16, r.t*r.h)
	check(t, l.Forward(s, ForwardArgs{X: MatrixOf(x), Y: MatrixOf(y)}))
	for i := range y {
		if uint32(x[i]) != r.bits["x_bf16"][i] || uint32(y[i]) != r.bits["y_bf16"][i] {
			t.Fatalf("x[%d] %04x, y %04x; C has %04x, %04x", i, x[i], y[i], r.bits["x_bf16"][i],
				r.bits["y_bf16"][i])
		}
	}
}

func TestRouterAndGateOpEqualTheCABIs(t *testing.T) {
	r := loadReference(t)
	d, s := openCPU(t)
	router, err := d.NewRouter(RouterConfig{Routing: r.routing()})
	check(t, err)
	ids, weights := make([]int32, r.t*r.k), nan(r.t*r.k)
	args := RouterArgs{GivenLogits: MatrixOf(r.floats("router_given")), IDs: MatrixOf(ids),
		Weights: MatrixOf(weights)}
	_, err = router.WorkspaceSize(args)
	check(t, err)
	check(t, router.Forward(s, args))
	r.equalInts(t, "router_ids", ids)
	r.equal(t, "router_weights", weights)

	gate, err := d.NewGate(GateConfig{Kind: GateKindAddRows, Width: int64(r.h)})
	check(t, err)
	out := r.floats("gate_acc")
	check(t, gate.Forward(s, GateArgs{X: MatrixOf(r.floats("x")), G: MatrixOf(r.floats("gate_g")),
		Out: MatrixOf(out)}))
	r.equal(t, "gate_out", out)
}

func TestBuffersGiveTheSameNumbersAsSlices(t *testing.T) {
	r := loadReference(t)
	d, _ := openCPU(t)
	s, err := d.NewStream(StreamConfig{Async: true})
	check(t, err)
	l, err := d.NewLayer(r.config())
	check(t, err)
	x, err := d.NewBuffer(uint64(r.t * r.h * 4))
	check(t, err)
	y, err := d.NewBuffer(uint64(r.t * r.h * 4))
	check(t, err)
	check(t, Upload(s, x, r.floats("x")))
	check(t, l.Forward(s, ForwardArgs{X: x.Matrix(DtypeFloat32, 0, r.t, r.h),
		Y: y.Matrix(DtypeFloat32, 0, r.t, r.h)}))
	e, err := d.NewEvent()
	check(t, err)
	if reached, err := e.Query(); !reached || err != nil {
		t.Fatal(reached, err)
	}
	check(t, e.Record(s))
	x.Close() // What work uses may be closed before it is done.
	l.Close()
	check(t, e.Wait())
	other, err := d.NewStream(StreamConfig{})
	check(t, err)
	check(t, other.WaitEvent(e))
	got := nan(r.t * r.h)
	check(t, Download(other, got, y))
	r.equal(t, "y", got)
	if err := Download(other, nan(r.t*r.h+1), y); !errors.Is(err, StatusInvalidArgument) {
		t.Fatal(err)
	}
	if err := Upload(other, x, got); err != ErrClosed {
		t.Fatal(err)
	}
}

// The CPU needs no staging, but can be made to do it.
func TestStagedSlicesGiveTheSameAndKeepTheGapsBetweenRows(t *testing.T) {
	d, _ := openCPU(t)
	s, err := d.NewStream(StreamConfig{Async: true})
	check(t, err)
	gate, err := d.NewGate(GateConfig{Kind: GateKindMultiplyRows, Width: 2})
	check(t, err)
	for _, s.onCPU = range []bool{true, false} {
		x, out := []float32{1, 2, 9, 3, 4}, []float32{7, 7, 7, 7, 7, 7}
		check(t, gate.Forward(s,
			GateArgs{X: StridedMatrix(x, 2, 2, 3), G: MatrixOf([]float32{0, 0}),
				Out: StridedMatrix(out, 2, 2, 4)}))
		if fmt.Sprint(out) != "[0.5 1 7 7 1.5 2]" {
			t.Fatal(out)
		}
	}
}

func TestGateOpWorksInPlace(t *testing.T) {
	d, s := openCPU(t)
	gate, err := d.NewGate(GateConfig{Kind: GateKindMultiply, Width: 2})
	check(t, err)
	x := []float32{2, 4}
	check(t, gate.Forward(s,
		GateArgs{X: MatrixOf(x), G: MatrixOf([]float32{0, 0}), Out: MatrixOf(x)}))
	if x[0] != 1 || x[1] != 2 {
		t.Fatal(x)
	}
}

func TestLibraryIsTheOneThatThePackageWasWrittenFor(t *testing.T) {
	if ABIVersion() != HeaderABIVersion || !strings.HasPrefix(Version(), "0.1.") {
		t.Fatal(ABIVersion(), Version())
	}
	if !strings.Contains(FamilyNames(), "qwen2_moe") || DtypeBfloat16.String() != "BF16" ||
		DtypeBfloat16.Bits() != 16 {
		t.Fatal(FamilyNames(), DtypeBfloat16)
	}
	sizes := capi.StructSizes()
	if len(sizes) < 20 {
		t.Fatal(sizes)
	}
	for name, size := range sizes {
		if size[0] != size[1] {
			t.Errorf("%s has %d bytes here, %d in the library", name, size[0], size[1])
		}
	}
}

func TestTheCPUComesFirstAmongTheDevices(t *testing.T) {
	r := newRuntime(t)
	devices, err := r.Devices()
	if err != nil || devices[0].Kind != DeviceKindCPU || devices[0].ID != "cpu" {
		t.Fatal(devices, err)
	}
	d, err := r.OpenDevice("cpu", DeviceConfig{CPUThreads: 2})
	check(t, err)
	if info, err := d.Info(); err != nil || info.Concurrency != 2 {
		t.Fatal(info, err)
	}
}

func TestFailureBringsItsStatusAndText(t *testing.T) {
	r := newRuntime(t)
	_, err := r.OpenDevice("tpu:0", DeviceConfig{})
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "tpu:0") {
		t.Fatal(err)
	}
	if _, err := r.OpenDevice("a\x00b", DeviceConfig{}); !errors.Is(err, StatusInvalidArgument) {
		t.Fatal(err)
	}
	d, _ := openCPU(t)
	_, err = d.NewLayer(LayerConfig{Hidden: 1, Intermediate: 1,
		Routing: Routing{NumExperts: 4, TopK: 9}})
	if !errors.Is(err, StatusInvalidArgument) || !strings.Contains(err.Error(), "top_k 9") ||
		!strings.HasPrefix(err.Error(), "moert: INVALID_ARGUMENT: ") {
		t.Fatal(err)
	}
	_, err = r.OpenManifest(ManifestConfig{Path: "/no/such/file.moem"})
	if !errors.Is(err, StatusNotFound) || !strings.Contains(err.Error(), "/no/such/file.moem") {
		t.Fatal(err)
	}
	_, err = r.OpenManifest(ManifestConfig{Data: []byte("not a manifest, too short"),
		BaseDir: "/tmp"})
	if !errors.As(err, &e) || e.Status != StatusCorruptData || e.Corruption == 0 {
		t.Fatal(err)
	}
}

func TestEachStatusBecomesAnErrorWithItsText(t *testing.T) {
	known := []Status{StatusInvalidArgument, StatusUnsupported, StatusUnavailable,
		StatusOutOfMemory, StatusNotFound, StatusIOError, StatusCorruptData, StatusFileChanged,
		StatusWorkspaceTooSmall, StatusInvalidRouting, StatusNotReady, StatusDeviceError,
		StatusDeviceLost, StatusCallbackFailed, StatusInternal}
	for i, status := range known {
		text := fmt.Sprintf("größe %d is too large", i)
		err := wrap(&capi.Failure{Code: int32(i + 1), NativeCode: 7, Message: text})
		var e *Error
		if !errors.As(err, &e) || e.Status != status || e.NativeCode != 7 || e.Message != text {
			t.Errorf("status %d became %#v", i+1, err)
		}
		if (e.Corruption == 7) != (status == StatusCorruptData) {
			t.Errorf("status %d has corruption %d", i+1, e.Corruption)
		}
		name := capi.MoertStatusName(int32(i + 1))
		if err.Error() != "moert: "+name+": "+text || name == capi.MoertStatusName(-1) {
			t.Error(err)
		}
		for _, other := range known {
			if errors.Is(err, other) != (other == status) {
				t.Errorf("status %d compared with %v", i+1, other)
			}
		}
	}
	if capi.MoertStatusName(int32(len(known)+1)) != capi.MoertStatusName(-1) {
		t.Error("the library has a status that this test lacks")
	}
}

func TestCallbackMayCloseWhatItsCallUses(t *testing.T) {
	r := newRuntime(t)
	calls := 0
	_, err := r.Pack(PackConfig{Directory: checkpoint(t), Progress: func(done, total uint64) bool {
		calls++
		r.Close()
		_, err := r.Devices()
		return err == ErrClosed
	}})
	if err != nil || calls == 0 {
		t.Error(calls, err)
	}
}

func TestShapesAreJudgedBeforeCSeesThem(t *testing.T) {
	d, s := openCPU(t)
	l := tinyLayer(t, d)
	y := []float32{7, 7}
	b, err := d.NewBuffer(8)
	check(t, err)
	x := []float32{1, 2, 3}
	for _, x := range []Matrix{StridedMatrix(x, 4, 1, 1), StridedMatrix(x, -1, 1, 1),
		StridedMatrix(x, 2, 1, 0), StridedMatrix(x, 2, 1, math.MaxInt), MatrixOf(x), {},
		b.Matrix(DtypeFloat32, 4, 2, 1), b.Matrix(DtypeFloat32, 12, 1, 1)} {
		if err := l.Forward(s, ForwardArgs{X: x, Y: MatrixOf(y)}); !errors.Is(err,
			StatusInvalidArgument) {
			t.Fatal(x, err)
		}
	}
	if y[0] != 7 || y[1] != 7 {
		t.Fatal(y)
	}
	config := LayerConfig{Hidden: 2, Intermediate: 2, Routing: Routing{NumExperts: 2, TopK: 1}}
	for _, w := range []Weight{NewWeight(RoleRouter, x, 2, 2), NewWeight(RoleExpertUp, x, 1, 2),
		NewExpertWeights(RoleExpertUp, [][]float32{x}, 1, 1), NewWeight(RoleRouter, x, -1, 2)} {
		config.Weights = []Weight{w}
		if _, err := d.NewLayer(config); !errors.Is(err, StatusInvalidArgument) ||
			!strings.Contains(err.Error(), "the weight of role") {
			t.Fatal(w, err)
		}
	}
}

func TestBadExpertIDIsReportedAndTheRestComputed(t *testing.T) {
	d, s := openCPU(t)
	l := tinyLayer(t, d)
	y := nan(2)
	err := l.Forward(s, ForwardArgs{X: MatrixOf([]float32{1, 1}), Y: MatrixOf(y),
		GivenRouting: true,
		IDs:          MatrixOf([]int32{5, 0}), Weights: MatrixOf([]float32{1, 1})})
	if !errors.Is(err, StatusInvalidRouting) || y[0] != 0 ||
		math.Abs(float64(y[1])-0.7310586) > 1e-6 {
		t.Fatal(y, err)
	}
	check(t, s.Check())
}

func TestUseAfterCloseIsAnError(t *testing.T) {
	r := newRuntime(t)
	d, err := r.OpenDevice("cpu", DeviceConfig{})
	check(t, err)
	l := tinyLayer(t, d)
	s, err := d.NewStream(StreamConfig{})
	check(t, err)
	for _, c := range []interface{ Close() error }{r, d, l, s, r, l} {
		check(t, c.Close())
	}
	if err := l.Forward(s, ForwardArgs{}); err != ErrClosed {
		t.Fatal(err)
	}
	if _, err := d.NewBuffer(1); err != ErrClosed {
		t.Fatal(err)
	}
	if _, err := r.Devices(); err != ErrClosed {
		t.Fatal(err)
	}
	if err := s.Synchronize(); err != ErrClosed {
		t.Fatal(err)
	}
	var none *Event
	if err := (&Event{}).Wait(); err != ErrClosed {
		t.Fatal(none, err)
	}
}

func TestChildrenOutliveTheirParents(t *testing.T) {
	r := newRuntime(t)
	d, err := r.OpenDevice("cpu", DeviceConfig{})
	check(t, err)
	r.Close()
	l := tinyLayer(t, d)
	s, err := d.NewStream(StreamConfig{})
	check(t, err)
	d.Close()
	y := nan(1)
	check(t, l.Forward(s, ForwardArgs{X: MatrixOf([]float32{1}), Y: MatrixOf(y)}))
	if math.Abs(float64(y[0])-0.7310586) > 1e-6 {
		t.Fatal(y)
	}
}

func TestCloseWhileOtherGoroutinesRun(t *testing.T) {
	d, _ := openCPU(t)
	l := tinyLayer(t, d)
	shared, err := d.NewStream(StreamConfig{Async: true})
	check(t, err)
	var started, done sync.WaitGroup
	for i := 0; i < 8; i++ {
		started.Add(1)
		done.Add(1)
		go func(i int) {
			defer done.Done()
			s := shared
			if i%2 == 0 {
				s, _ = d.NewStream(StreamConfig{})
			}
			for n := 0; ; n++ {
				x, y := []float32{1}, nan(1)
				err := l.Forward(s, ForwardArgs{X: MatrixOf(x), Y: MatrixOf(y)})
				if n == 0 {
					started.Done()
				}
				if err == ErrClosed {
					return
				}
				if err != nil || math.Abs(float64(y[0])-0.7310586) > 1e-6 {
					t.Error(y, err)
					return
				}
			}
		}(i)
	}
	started.Wait()
	time.Sleep(20 * time.Millisecond)
	shared.Close()
	l.Close()
	done.Wait()
}

func TestTrainableWeightsAreReadAndWritten(t *testing.T) {
	r := loadReference(t)
	d, s := openCPU(t)
	config := r.config()
	config.Trainable = true
	l, err := d.NewLayer(config)
	check(t, err)
	up := make([]float32, r.i*r.h)
	check(t, ReadWeight(s, l, RoleExpertUp, 1, up))
	for i, want := range r.floats("expert_up")[r.i*r.h : 2*r.i*r.h] {
		if up[i] != want {
			t.Fatal(i, up[i], want)
		}
		up[i] = 3
	}
	check(t, WriteWeight(s, l, RoleExpertUp, 1, up))
	again := nan(r.i * r.h)
	check(t, ReadWeight(s, l, RoleExpertUp, 1, again))
	if fmt.Sprint(again) != fmt.Sprint(up) {
		t.Fatal(again)
	}
	if err := ReadWeight(s, l, RoleExpertUp, 1, up[:1]); !errors.Is(err, StatusInvalidArgument) {
		t.Fatal(err)
	}
}

// checkpoint copies a small checkpoint.
func checkpoint(t testing.TB) string {
	folder := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(os.Getenv("MOERT_CHECKPOINT"), name))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(folder, name), data, 0o644))
	}
	return folder
}

func TestLogLinesReachTheFunctionAndItsPanicEndsThere(t *testing.T) {
	var mu sync.Mutex
	lines := 0
	r, err := NewRuntime(RuntimeConfig{MinLevel: LogLevelDebug,
		Log: func(level LogLevel, message string) {
			mu.Lock()
			defer mu.Unlock()
			if message == "" {
				t.Error("an empty line")
			}
			lines++
			panic("of the test")
		}})
	check(t, err)
	_, err = r.Pack(PackConfig{Directory: checkpoint(t)})
	check(t, err)
	if lines == 0 {
		t.Fatal("no line")
	}
	r.Close()
}

func TestProgressIsToldAndCanStopACall(t *testing.T) {
	r := newRuntime(t)
	folder := checkpoint(t)
	var done, total uint64
	_, err := r.Pack(PackConfig{Directory: folder, Progress: func(d, n uint64) bool {
		done, total = d, n
		return true
	}})
	check(t, err)
	if done != total || total == 0 {
		t.Fatal(done, total)
	}
	m, err := r.OpenManifest(ManifestConfig{Path: filepath.Join(folder, "model.moem")})
	check(t, err)
	check(t, m.Verify(nil))
	check(t, m.Verify(func(done, total uint64) bool { return true }))
	err = m.Verify(func(done, total uint64) bool { return false })
	if !errors.Is(err, StatusCallbackFailed) {
		t.Fatal(err)
	}
	err = m.Verify(func(done, total uint64) bool { panic("of the test") })
	if !errors.Is(err, StatusCallbackFailed) {
		t.Fatal(err)
	}
}

func TestPackedManifestIsInspectedAndItsLayersOpened(t *testing.T) {
	r := newRuntime(t)
	folder := checkpoint(t)
	output := filepath.Join(folder, "other.moem")
	packed, err := r.Pack(PackConfig{Directory: folder, Output: output})
	check(t, err)
	m, err := r.OpenManifest(ManifestConfig{Path: output, BaseDir: folder, Read: true})
	check(t, err)
	info, err := m.Info()
	if err != nil || info.NumLayers != packed.NumLayers || info.NumTensors != packed.NumTensors ||
		info.ModelType != "qwen2_moe" {
		t.Fatal(info, err)
	}
	if file, err := m.File(0); err != nil || file.Path != "model.safetensors" || !file.HasHash {
		t.Fatal(file, err)
	}
	layer, err := m.Layer(0)
	check(t, err)
	routing, err := m.LayerRouting(0)
	if err != nil || routing.NumExperts != layer.NumExperts || routing.TopK != layer.TopK {
		t.Fatal(routing, err)
	}
	if activation, _, err := m.LayerActivation(0); err != nil ||
		activation.Kind != ActivationKindSilu {
		t.Fatal(activation, err)
	}
	if index, err := m.FindLayer(layer.ModelLayer); err != nil || index != 0 {
		t.Fatal(index, err)
	}
	weight, err := m.LayerWeight(0, 0)
	check(t, err)
	tensor, err := m.Tensor(uint64(weight.Tensors[0]))
	check(t, err)
	if index, err := m.FindTensor(tensor.Name); err != nil || index != uint64(weight.Tensors[0]) {
		t.Fatal(index, err)
	}
	data, err := m.TensorData(uint64(weight.Tensors[0]))
	if err != nil || uint64(len(data)) != tensor.Bytes || len(tensor.Shape) == 0 {
		t.Fatal(len(data), tensor, err)
	}
	d, err := r.OpenDevice("cpu", DeviceConfig{})
	check(t, err)
	l, err := d.OpenLayer(m, 0, LayerOptions{Dtype: DtypeFloat32})
	check(t, err)
	m.Close()
	s, err := d.NewStream(StreamConfig{})
	check(t, err)
	x := make([]float32, 3*l.Info().Hidden)
	y := nan(len(x))
	check(t, l.Forward(s, ForwardArgs{X: MatrixOf(x), Y: MatrixOf(y)}))
	if y[0] != 0 {
		t.Fatal(y[0])
	}
}

func TestBFloat16RoundsToTheNearestEven(t *testing.T) {
	for from, to := range map[uint32]BFloat16{
		0x3f808000: 0x3f80, // A tie goes down to the even one,
		0x3f818000: 0x3f82, // or up to it.
		0x3f808001: 0x3f81,
		0x7f7fffff: 0x7f80, // The largest float32 becomes infinity.
		0x7f800001: 0x7fc0, // A NaN stays one.
		0xff800000: 0xff80,
		0x00000001: 0x0000,
	} {
		if got := ToBFloat16(math.Float32frombits(from)); got != to {
			t.Errorf("%08x became %04x, not %04x", from, got, to)
		}
	}
	if got := Float32s([]BFloat16{0xc040}); got[0] != -3 {
		t.Fatal(got)
	}
}

// residentKiB is this process's resident memory.
func residentKiB(t testing.TB) int {
	data, err := os.ReadFile("/proc/self/statm")
	check(t, err)
	var all, resident int
	fmt.Sscan(string(data), &all, &resident)
	return resident * 4
}

// finalize collects what is unreachable and waits until its finalizers ran. What one releases is
// the next round's.
func finalize() {
	for i := 0; i < 3; i++ {
		done := make(chan bool)
		runtime.SetFinalizer(new([16]byte), func(*[16]byte) { close(done) })
		runtime.GC()
		<-done
	}
}

func TestHundredThousandRoundsLeaveMemoryFlat(t *testing.T) {
	rounds := 100000
	if text := os.Getenv("MOERT_ROUNDS"); text != "" {
		rounds, _ = strconv.Atoi(text)
	}
	r, err := NewRuntime(RuntimeConfig{Log: func(LogLevel, string) {}})
	check(t, err)
	cycle := func(count int) {
		for i := 0; i < count; i++ {
			d, err := r.OpenDevice("cpu", DeviceConfig{CPUThreads: 1})
			check(t, err)
			gate, err := d.NewGate(GateConfig{Kind: GateKindMultiplyRows, Width: 1})
			check(t, err)
			s, err := d.NewStream(StreamConfig{})
			check(t, err)
			b, err := d.NewBuffer(4096)
			check(t, err)
			out := []float32{0}
			check(t, gate.Forward(s, GateArgs{X: MatrixOf([]float32{1}), G: MatrixOf([]float32{0}),
				Out: MatrixOf(out)}))
			if _, err := r.OpenDevice("nothing", DeviceConfig{}); err == nil || out[0] != 0.5 {
				t.Fatal(out, err)
			}
			if i%2 == 0 { // The rest is left to the finalizers.
				for _, c := range []interface{ Close() error }{d, gate, s, b} {
					check(t, c.Close())
				}
			}
			if i%1000 == 999 {
				finalize()
			}
		}
	}
	warm := 20000
	if rounds < warm {
		warm = rounds
	}
	cycle(warm)
	before := residentKiB(t)
	cycle(rounds)
	if after := residentKiB(t); after > before+4096 {
		t.Fatalf("%d KiB became %d", before, after)
	}
}
