// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Threading;
using Moert;

/// <summary>Every method here that returns nothing and takes nothing is a test.</summary>
static class Tests {
    static int Main(string[] names) {
        var failed = 0;
        foreach (var test in typeof(Tests).GetMethods(BindingFlags.Static | BindingFlags.Public)) {
            if (names.Length > 0 && !names.Contains(test.Name)) continue;
            try {
                test.Invoke(null, null);
            } catch (TargetInvocationException e) {
                failed++;
                Console.WriteLine("FAILED " + test.Name + "\n" + e.InnerException);
            }
        }
        Console.WriteLine(failed == 0 ? "all passed" : failed + " failed");
        return failed == 0 ? 0 : 1;
    }

    static Device OpenCpu() {
        using (var runtime = new Runtime()) return new Device(runtime);
    }

    /// <summary>One expert that returns silu(x) * x for a width of 1.</summary>
    static Layer Tiny(Device device) {
        var roles = new[] { Role.Router, Role.ExpertGate, Role.ExpertUp, Role.ExpertDown };
        return new Layer(device, new LayerConfig {
            Hidden = 1,
            Intermediate = 1,
            Routing = new Routing { NumExperts = 1, TopK = 1 },
            Weights = roles.Select(role => new Weight(role, new[] { 1f }, 1, 1)).ToList()
        });
    }

    const float OfOne = 0.7310586f;

    static bool Near(float got, float want) { return Math.Abs(got - want) <= 1e-6f; }

    public static void ALayerAndItsRoutingEqualTheCAbis() {
        var r = new Reference();
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device))
        using (var layer = new Layer(device, r.Config())) {
            float[] y = new float[r.T * r.H], weights = new float[r.T * r.K],
                logits = new float[r.T * r.E];
            int[] ids = new int[r.T * r.K], counts = new int[r.E];
            var args = new ForwardArgs {
                X = r.Floats("x"), Y = y, Ids = ids, Weights = weights, Logits = logits,
                    ExpertCounts = counts
            };
            Check.That(layer.WorkspaceSize(stream, args) > 0, "workspace size");
            layer.Forward(stream, args);
            r.Equal("y", y);
            r.Equal("ids", ids);
            r.Equal("weights", weights);
            r.Equal("logits", logits);
            r.Equal("expert_counts", counts);
            layer.Forward(stream, new ForwardArgs {
                X = r.Floats("x"), Y = y, Ids = r.Ints("given_ids"), Weights = weights,
                    GivenRouting = true,
                Accumulate = true, SkipShared = true
            });
            r.Equal("given_y", y);
        }
    }

    public static void ABFloat16LayerEqualsTheCAbis() {
        var r = new Reference();
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device)) {
            var config = r.Config(name => BFloat16.FromSingles(r.Floats(name)));
            config.Dtype = Dtype.Bfloat16;
            using (var layer = new Layer(device, config)) {
                var x = BFloat16.FromSingles(r.Floats("x"));
                var y = new BFloat16[r.T * r.H];
                layer.Forward(stream, x, y);
                Check.That(x.Select(v => (uint)v.Bits).SequenceEqual(r.Bits("x_bf16")), "x");
                Check.That(y.Select(v => (uint)v.Bits).SequenceEqual(r.Bits("y_bf16")), "y");
            }
        }
    }

    public static void ARouterAndAGateOpEqualTheCAbis() {
        var r = new Reference();
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device))
        using (var router = new Router(device, new RouterConfig { Routing = r.Routing }))
        using (var gate = new Gate(device, GateKind.AddRows, r.H)) {
            var ids = new int[r.T * r.K];
            var weights = new float[r.T * r.K];
            var args = new RouterArgs { GivenLogits = r.Floats("router_given"), Ids = ids,
                Weights = weights };
            router.WorkspaceSize(stream, args);
            router.Forward(stream, args);
            r.Equal("router_ids", ids);
            r.Equal("router_weights", weights);
            var sum = r.Floats("gate_acc");
            gate.Forward(stream, new GateArgs { X = r.Floats("x"), G = r.Floats("gate_g"),
                Out = sum });
            r.Equal("gate_out", sum);
        }
    }

    public static void BuffersGiveTheSameNumbersAsArrays() {
        var r = new Reference();
        var bytes = (ulong)(r.T * r.H * 4);
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device, asynchronous: true))
        using (var other = new DeviceStream(device))
        using (var reached = new Event(device))
        using (var y = new DeviceBuffer(device, bytes)) {
            var layer = new Layer(device, r.Config());
            var x = new DeviceBuffer(device, bytes);
            stream.Upload(x, r.Floats("x"));
            Check.That(reached.Reached, "an event that was never recorded");
            layer.Forward(stream, x.Matrix(Dtype.Float32, 0, r.T, r.H),
                y.Matrix(Dtype.Float32, 0, r.T, r.H));
            reached.Record(stream);
            // What work uses may be disposed before it is done.
            x.Dispose();
            layer.Dispose();
            reached.Wait();
            other.Wait(reached);
            var got = new float[r.T * r.H];
            other.Download(got, y);
            r.Equal("y", got);
            Check.Fails(Status.InvalidArgument, "does not fit",
                () => other.Download(new float[got.Length + 1], y));
            Check.Throws<ObjectDisposedException>(() => other.Upload(x, got));
        }
    }

    public static unsafe void PointersAndStagedArraysGiveTheSameAndKeepTheGapsBetweenRows() {
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device, asynchronous: true))
        using (var gate = new Gate(device, GateKind.MultiplyRows, 2)) {
            // The CPU needs no staging, but can be made to do it.
            foreach (var staged in new[] { false, true }) {
                stream.Staged = staged;
                var result = new[] { 7f, 7, 7, 7, 7, 7 };
                fixed (float* x = new[] { 1f, 2, 9, 3, 4 }) {
                    gate.Forward(stream, new GateArgs {
                        X = Matrix.At(x, 5, Dtype.Float32).Strided(2, 2, 3),
                        G = new float[2],
                        Out = ((Matrix)result).Strided(2, 2, 4)
                    });
                }
                Check.That(result.SequenceEqual(new[] { 0.5f, 1, 7, 7, 1.5f, 2 }),
                    string.Join(" ", result));
            }
        }
    }

    public static void AGateOpWorksInPlace() {
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device))
        using (var gate = new Gate(device, GateKind.Multiply, 2)) {
            var x = new[] { 2f, 4 };
            gate.Forward(stream, new GateArgs { X = x, G = new float[2], Out = x });
            Check.That(x[0] == 1 && x[1] == 2, string.Join(" ", x));
        }
    }

    public static void TheLibraryIsTheOneThatTheClassesWereWrittenFor() {
        Check.That(Library.AbiVersion == 1 && Library.Version.StartsWith("0.1."), Library.Version);
        Check.That(Library.FamilyNames.Contains("qwen2_moe"), Library.FamilyNames);
        Check.That(Library.Name(Dtype.Bfloat16) == "BF16" && Library.Bits(Dtype.Bfloat16) == 16,
            "dtype");
        Check.That(Library.Name(Status.IoError) == "IO_ERROR", "status");
        var count = 0;
        StructSizes.Each((name, here, there) => {
            count++;
            Check.That(here == there, name + " has " + here + " bytes here, " + there +
                " in the library");
        });
        Check.That(count > 20, "structs");
    }

    public static void TheCpuComesFirstAmongTheDevices() {
        using (var runtime = new Runtime())
        using (var device = new Device(runtime, "cpu", new DeviceOptions { CpuThreads = 2 })) {
            var first = runtime.Devices[0];
            Check.That(first.Kind == DeviceKind.Cpu && first.Id == "cpu", first.Id);
            Check.That(device.Info.Concurrency == 2, "threads");
        }
    }

    public static void AFailureBringsItsStatusAndText() {
        using (var runtime = new Runtime())
        using (var device = new Device(runtime)) {
            var e = Check.Throws<MoertException>(() => new Device(runtime, "tpu:0"));
            Check.That(e.Message.Contains("tpu:0"), e.Message);
            Check.Fails(Status.InvalidArgument, "NUL", () => new Device(runtime, "a\0b"));
            Check.Fails(Status.InvalidArgument, "top_k 9", () => new Layer(device, new LayerConfig {
                Hidden = 1, Intermediate = 1, Routing = new Routing { NumExperts = 4, TopK = 9 }
            }));
            Check.Fails(Status.NotFound, "/no/such/größe.moem",
                () => new Manifest(runtime, "/no/such/größe.moem"));
            var options = new ManifestOptions { BaseDir = "/tmp" };
            e = Check.Throws<MoertException>(() => new Manifest(runtime, new byte[30], options));
            Check.That(e.Status == Status.CorruptData && e.Corruption != Corruption.Unspecified,
                e.Message);
        }
    }

    public static unsafe void EachStatusBecomesAnExceptionWithItsText() {
        var known = 0;
        foreach (Status status in Enum.GetValues(typeof(Status))) {
            if (status == Status.Ok) continue;
            known++;
            var text = "größe " + known + " is too large";
            var e = Check.Throws<MoertException>(() => {
                var error = new NativeError { code = known, native_code = 7 };
                var bytes = System.Text.Encoding.UTF8.GetBytes(text);
                for (var i = 0; i < bytes.Length; i++) error.message[i] = bytes[i];
                MoertException.Check(known, &error);
            });
            Check.That(e.Status == status && e.Message == text && e.NativeCode == 7, e.ToString());
            Check.That((e.Corruption == (Corruption)7) == (status == Status.CorruptData),
                "corruption of " + status);
            Check.That(Library.Name(status).Replace("_", "") == status.ToString().ToUpperInvariant(),
                Library.Name(status));
        }
        Check.That(known == 15, known + " statuses");
        Check.That(Library.Name((Status)16) == Library.Name((Status)(-1)),
            "the library has a status that this test lacks");
    }

    public static void ShapesAreJudgedBeforeCSeesThem() {
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device))
        using (var buffer = new DeviceBuffer(device, 8))
        using (var layer = Tiny(device)) {
            var y = new[] { 7f, 7 };
            Matrix x = new[] { 1f, 2, 3 };
            var bad = new[] {
                x, x.Strided(4, 1, 1), x.Strided(-1, 1, 1), x.Strided(2, 1, 0),
                    x.Strided(2, 1, long.MaxValue),
                default(Matrix), buffer.Matrix(Dtype.Float32, 4, 2, 1),
                    buffer.Matrix(Dtype.Float32, 12, 1, 1),
                buffer.Matrix(Dtype.Float32, -4, 1, 1)
            };
            foreach (var matrix in bad) {
                Check.Fails(Status.InvalidArgument, "", () => layer.Forward(stream, matrix, y));
            }
            Check.That(y[0] == 7 && y[1] == 7, "y was written");
            var weights = new[] {
                new Weight(Role.Router, x, 2, 2), new Weight(Role.ExpertUp, x, 1, 2),
                new Weight(Role.ExpertUp, new[] { x }, 1, 1), new Weight(Role.Router, x, -1, 2)
            };
            foreach (var weight in weights) {
                Check.Fails(Status.InvalidArgument, "the weight",
                    () => new Layer(device, new LayerConfig {
                    Hidden = 2, Intermediate = 2,
                        Routing = new Routing { NumExperts = 2, TopK = 1 },
                    Weights = new[] { weight }
                }));
            }
        }
    }

    public static void ABadExpertIdIsReportedAndTheRestComputed() {
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device))
        using (var layer = Tiny(device)) {
            var y = new[] { 7f, 7 };
            Check.Fails(Status.InvalidRouting, "", () => layer.Forward(stream, new ForwardArgs {
                X = new[] { 1f, 1 }, Y = y, Ids = new[] { 5, 0 }, Weights = new[] { 1f, 1 },
                    GivenRouting = true
            }));
            Check.That(y[0] == 0 && Near(y[1], OfOne), string.Join(" ", y));
            stream.Check();
        }
    }

    public static void UseAfterDisposeIsAnError() {
        var runtime = new Runtime();
        var device = new Device(runtime);
        var layer = Tiny(device);
        var stream = new DeviceStream(device);
        var one = new float[1];
        foreach (var item in new IDisposable[] { runtime, device, layer, stream, runtime,
            stream }) item.Dispose();
        Check.Throws<ObjectDisposedException>(() => layer.Forward(stream, one, new float[1]));
        Check.Throws<ObjectDisposedException>(() => new DeviceBuffer(device, 1));
        Check.Throws<ObjectDisposedException>(() => runtime.Devices.ToString());
        Check.Throws<ObjectDisposedException>(() => stream.Synchronize());
    }

    public static void ChildrenOutliveTheirParents() {
        var runtime = new Runtime();
        var device = new Device(runtime);
        runtime.Dispose();
        var layer = Tiny(device);
        var stream = new DeviceStream(device);
        device.Dispose();
        var y = new float[1];
        foreach (var staged in new[] { false, true }) {
            stream.Staged = staged;
            layer.Forward(stream, new[] { 1f }, y);
            Check.That(Near(y[0], OfOne), "y");
        }
        layer.Dispose();
        stream.Dispose();
    }

    public static void DisposeWhileOtherThreadsRun() {
        var device = OpenCpu();
        var layer = Tiny(device);
        var shared = new DeviceStream(device, asynchronous: true);
        var problems = new List<string>();
        var started = new CountdownEvent(8);
        var threads = Enumerable.Range(0, 8).Select(t => new Thread(() => {
            var stream = t % 2 == 0 ? new DeviceStream(device) : shared;
            try {
                for (var n = 0; ; n++) {
                    var y = new float[1];
                    layer.Forward(stream, new[] { 1f }, y);
                    if (!Near(y[0], OfOne)) throw new Exception("y is " + y[0]);
                    if (n == 0) started.Signal();
                }
            } catch (ObjectDisposedException) {
            } catch (Exception e) {
                lock (problems) problems.Add(e.ToString());
            }
        })).ToList();
        threads.ForEach(t => t.Start());
        started.Wait();
        Thread.Sleep(20);
        shared.Dispose();
        layer.Dispose();
        threads.ForEach(t => t.Join());
        Check.That(problems.Count == 0, string.Join("\n", problems));
    }

    public static void TrainableWeightsAreReadAndWritten() {
        var r = new Reference();
        using (var device = OpenCpu())
        using (var stream = new DeviceStream(device)) {
            var config = r.Config();
            config.Trainable = true;
            using (var layer = new Layer(device, config)) {
                var up = new float[r.I * r.H];
                layer.ReadWeight(stream, Role.ExpertUp, 1, up);
                Check.That(up.SequenceEqual(r.Floats("expert_up").Skip(up.Length).Take(up.Length)),
                    "read");
                for (var i = 0; i < up.Length; i++) up[i] = i;
                layer.WriteWeight(stream, Role.ExpertUp, 1, up);
                var again = new float[up.Length];
                layer.ReadWeight(stream, Role.ExpertUp, 1, again);
                Check.That(again.SequenceEqual(up), "written");
                Check.Fails(Status.InvalidArgument, "ExpertUp",
                            () => layer.ReadWeight(stream, Role.ExpertUp, 1, new float[1]));
            }
        }
    }

    /// <summary>A copy of a small checkpoint that goes away with the test.</summary>
    sealed class Checkpoint : IDisposable {
        public readonly string Folder = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());

        public Checkpoint() {
            Directory.CreateDirectory(Folder);
            foreach (var name in new[] { "config.json", "model.safetensors" }) {
                var from = Path.Combine(Environment.GetEnvironmentVariable("MOERT_CHECKPOINT"),
                    name);
                File.Copy(from, Path.Combine(Folder, name));
            }
        }

        public void Dispose() { Directory.Delete(Folder, true); }
    }

    public static void LogLinesReachTheDelegateAndItsExceptionEndsThere() {
        var lines = 0;
        LogCallback log = (level, message) => {
            if (message.Length > 0) Interlocked.Increment(ref lines);
            throw new Exception("of the test");
        };
        using (var folder = new Checkpoint())
        using (var runtime = new Runtime(log)) {
            GC.Collect();
            Manifest.Pack(runtime, folder.Folder);
        }
        Check.That(lines > 0, "no line");
    }

    public static void ProgressIsToldAndCanStopACall() {
        using (var folder = new Checkpoint())
        using (var runtime = new Runtime()) {
            ulong done = 0, total = 1;
            Manifest.Pack(runtime, folder.Folder, new PackOptions {
                Progress = (d, n) => {
                    done = d;
                    total = n;
                    return true;
                }
            });
            Check.That(done == total && total > 0, done + " of " + total);
            using (var manifest = new Manifest(runtime,
                Path.Combine(folder.Folder, "model.moem"))) {
                manifest.Verify();
                manifest.Verify((d, n) => true);
                Check.Fails(Status.CallbackFailed, "", () => manifest.Verify((d, n) => false));
                var thrown = new Exception("of the test");
                var e = Check.Throws<MoertException>(() => manifest.Verify((d,
                    n) => { throw thrown; }));
                Check.That(e.Status == Status.CallbackFailed && e.InnerException == thrown,
                    e.Message);
            }
        }
    }

    public static void APackedManifestIsInspectedAndItsLayersOpened() {
        using (var folder = new Checkpoint())
        using (var runtime = new Runtime())
        using (var device = new Device(runtime))
        using (var stream = new DeviceStream(device)) {
            var output = Path.Combine(folder.Folder, "other.moem");
            var packed = Manifest.Pack(runtime, folder.Folder, new PackOptions { Output = output });
            var options = new ManifestOptions { Read = true, BaseDir = folder.Folder };
            var manifest = new Manifest(runtime, output, options);
            var info = manifest.GetInfo();
            Check.That(info.NumLayers == packed.NumLayers && info.NumTensors == packed.NumTensors,
                "counts");
            Check.That(info.ModelType == "qwen2_moe", info.ModelType);
            var file = manifest.File(0);
            Check.That(file.Path == "model.safetensors" && file.HasHash && file.Hash.Length == 2,
                file.Path);
            var layerInfo = manifest.Layer(0);
            Check.That(manifest.LayerRouting(0).NumExperts == layerInfo.NumExperts, "routing");
            Check.That(manifest.LayerActivation(0).Kind == ActivationKind.Silu, "activation");
            Check.That(!manifest.LayerSharedActivation(0).Ungated, "shared activation");
            Check.That(manifest.FindLayer(layerInfo.ModelLayer) == 0, "layer number");
            var index = manifest.LayerWeight(0, 0).Tensors[0];
            var tensor = manifest.Tensor(index);
            Check.That(manifest.FindTensor(tensor.Name) == index && tensor.Shape.Length > 0,
                tensor.Name);
            Check.That((ulong)manifest.TensorData(index).LongLength == tensor.Bytes, "tensor data");
            using (var layer = new Layer(device, manifest, 0,
                new LayerOptions { Dtype = Dtype.Float32 })) {
                manifest.Dispose();
                Check.That(layer.Info.Hidden == layerInfo.Hidden, "hidden");
                var y = Enumerable.Repeat(float.NaN, 3 * (int)layerInfo.Hidden).ToArray();
                layer.Forward(stream, new float[y.Length], y);
                Check.That(y.All(v => v == 0), "y");
            }
        }
    }

    public static void BFloat16RoundsToTheNearestEven() {
        var cases = new Dictionary<uint, ushort> {
            { 0x3f808000, 0x3f80 }, // A tie goes down to the even one,
            { 0x3f818000, 0x3f82 }, // or up to it.
            { 0x3f808001, 0x3f81 },
            { 0x7f7fffff, 0x7f80 }, // The largest float becomes infinity.
            { 0x7fc00001, 0x7fc0 }, // A NaN stays one.
            { 0xff800000, 0xff80 },
            { 0x00000001, 0x0000 }
        };
        foreach (var pair in cases) {
            var value = BitConverter.ToSingle(BitConverter.GetBytes(pair.Key), 0);
            var got = BFloat16.FromSingle(value).Bits;
            Check.That(got == pair.Value, pair.Key.ToString("x") + " became " + got.ToString("x"));
        }
        Check.That(BFloat16.ToSingles(new[] { new BFloat16(0xc040) })[0] == -3, "-3");
    }

    static long ResidentKib() {
        return long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]) * 4;
    }

    static void Cycle(Runtime runtime, int count) {
        var one = new[] { 1f };
        var y = new float[1];
        for (var i = 0; i < count; i++) {
            var device = new Device(runtime, "cpu", new DeviceOptions { CpuThreads = 1 });
            var gate = new Gate(device, GateKind.MultiplyRows, 1);
            var stream = new DeviceStream(device);
            var buffer = new DeviceBuffer(device, 4096);
            gate.Forward(stream, new GateArgs { X = one, G = new float[1], Out = y });
            Check.Throws<MoertException>(() => new Device(runtime, "nothing"));
            if (i % 1000 == 999) {
                GC.Collect();
                GC.WaitForPendingFinalizers();
            }
            if (i % 2 == 1) continue; // These are left to the finalizers.
            foreach (var item in new IDisposable[] { device, gate, stream, buffer }) item.Dispose();
        }
    }

    public static void AHundredThousandRoundsLeaveMemoryFlat() {
        var rounds = int.Parse(Environment.GetEnvironmentVariable("MOERT_ROUNDS") ?? "100000");
        using (var runtime = new Runtime((level, message) => { })) {
            Cycle(runtime, Math.Min(rounds, 20000)); // Until the lagging finalizers catch up.
            var before = ResidentKib();
            Cycle(runtime, rounds);
            var after = ResidentKib();
            Check.That(after < before + 8192, before + " KiB became " + after);
        }
    }
}
