// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using static Moert.MoertException;
using static Moert.MoertNative;

namespace Moert {

/// <summary>What a layer is made of. What is not set has its default.</summary>
public sealed class LayerConfig {
    /// <summary>Compute dtype of x and y.</summary>
    public Dtype Dtype { get; set; }
    /// <summary>Where the routing weight multiplies.</summary>
    public WeightApplication WeightApplication { get; set; }
    /// <summary>Columns of x and y.</summary>
    public long Hidden { get; set; }
    /// <summary>Width of an expert.</summary>
    public long Intermediate { get; set; }
    /// <summary>Width of the latent that the experts work in; 0: none.</summary>
    public long Latent { get; set; }
    /// <summary>Width of the shared expert; 0: none.</summary>
    public long SharedIntermediate { get; set; }
    /// <summary>How tokens choose experts.</summary>
    public Routing Routing { get; set; }
    /// <summary>Activation of the experts; null: gated SiLU.</summary>
    public Activation Activation { get; set; }
    /// <summary>Activation of the shared expert; null: as the experts'.</summary>
    public Activation SharedActivation { get; set; }
    /// <summary>The weights.</summary>
    public IList<Weight> Weights { get; set; }
    /// <summary>
    /// Distinct global ids of the experts held, in the order of the weights; null: all.
    /// </summary>
    public int[] LocalExperts { get; set; }
    /// <summary>Keeps weights unpacked, to be read and written.</summary>
    public bool Trainable { get; set; }

    /// <summary>A configuration without weights.</summary>
    public LayerConfig() {
        Routing = new Routing();
        Weights = new List<Weight>();
    }
}

/// <summary>Options of a layer from a manifest.</summary>
public sealed class LayerOptions {
    /// <summary>Compute dtype; None: that of the weights.</summary>
    public Dtype Dtype { get; set; }
    /// <summary>Distinct global ids of the experts to hold; null: all.</summary>
    public int[] LocalExperts { get; set; }
    /// <summary>Keeps weights unpacked, to be read and written.</summary>
    public bool Trainable { get; set; }
}

/// <summary>
/// Arguments of a forward call on T tokens. Matrices that are not set are absent.
/// </summary>
public sealed class ForwardArgs {
    /// <summary>[T, hidden], the layer's dtype.</summary>
    public Matrix X { get; set; }
    /// <summary>[T, hidden], the layer's dtype; absent: X.</summary>
    public Matrix RouterX { get; set; }
    /// <summary>[T, hidden], the layer's dtype.</summary>
    public Matrix Y { get; set; }
    /// <summary>
    /// [T, top_k] int: the chosen experts, or with GivenRouting those to use; -1 skips.
    /// </summary>
    public Matrix Ids { get; set; }
    /// <summary>[T, top_k] float, final weights: output, or input with GivenRouting.</summary>
    public Matrix Weights { get; set; }
    /// <summary>[T, num_experts] float, output.</summary>
    public Matrix Logits { get; set; }
    /// <summary>[1, num_experts] int, slots of each expert, output.</summary>
    public Matrix ExpertCounts { get; set; }
    /// <summary>Ids and Weights are inputs; the router does not run.</summary>
    public bool GivenRouting { get; set; }
    /// <summary>Y += layer(X) instead of Y = layer(X).</summary>
    public bool Accumulate { get; set; }
    /// <summary>Leaves the shared expert out.</summary>
    public bool SkipShared { get; set; }
    /// <summary>Scratch to use instead of the stream's own.</summary>
    public DeviceBuffer Workspace { get; set; }

    internal uint NativeFlags {
        get {
            return (GivenRouting ? Flags.ForwardFlagGivenRouting : 0) |
                   (Accumulate ? Flags.ForwardFlagAccumulate : 0) |
                   (SkipShared ? Flags.ForwardFlagSkipShared : 0);
        }
    }
}

/// <summary>One MoE layer. Any number of streams may run it at once.</summary>
public sealed unsafe class Layer : IDisposable {
    private readonly LayerHandle handle;

    /// <summary>Makes a layer; the weights are copied.</summary>
    public Layer(Device device, LayerConfig config) {
        var local = config.LocalExperts;
        var held = local != null && local.Length > 0 ? local.Length : config.Routing.NumExperts;
        var error = new NativeError();
        var routing = config.Routing.ToNative();
        var activation = (config.Activation ?? new Activation()).ToNative();
        var shared = (config.SharedActivation ?? new Activation()).ToNative();
        void* created;
        using (var pins = new Pins())
        fixed (NativeWeight* weights = Weight.ToNative(config.Weights, pins, held))
        fixed (int* localExperts = local) {
            var desc = new NativeLayerDesc {
                struct_size = (uint)sizeof(NativeLayerDesc),
                flags = config.Trainable ? Flags.LayerFlagTrainable : 0,
                dtype = (int)config.Dtype,
                weight_application = (int)config.WeightApplication,
                hidden = config.Hidden,
                intermediate = config.Intermediate,
                latent = config.Latent,
                shared_intermediate = config.SharedIntermediate,
                routing = &routing,
                activation = config.Activation == null ? null : &activation,
                shared_activation = config.SharedActivation == null ? null : &shared,
                weights = weights,
                num_weights = (uint)config.Weights.Count,
                num_local_experts = localExperts == null ? 0 : (uint)local.Length,
                local_experts = localExperts
            };
            Check(moert_layer_create(device.Handle, &desc, &created, &error), &error);
        }
        handle = new LayerHandle(created);
        Info = ReadInfo();
    }

    /// <summary>Makes the layer at that index of a manifest.</summary>
    public Layer(Device device, Manifest manifest, uint index, LayerOptions options = null) {
        options = options ?? new LayerOptions();
        var error = new NativeError();
        void* created;
        fixed (int* localExperts = options.LocalExperts) {
            var desc = new NativeLayerOpenDesc {
                struct_size = (uint)sizeof(NativeLayerOpenDesc),
                flags = options.Trainable ? Flags.LayerFlagTrainable : 0,
                dtype = (int)options.Dtype,
                num_local_experts = localExperts == null ? 0 : (uint)options.LocalExperts.Length,
                local_experts = localExperts
            };
            var status = moert_layer_open(
                device.Handle, manifest.Handle, index, &desc, &created, &error);
            Check(status, &error);
        }
        handle = new LayerHandle(created);
        Info = ReadInfo();
    }

    private LayerInfo ReadInfo() {
        var error = new NativeError();
        var raw = new NativeLayerInfo { struct_size = (uint)sizeof(NativeLayerInfo) };
        Check(moert_layer_get_info(handle, &raw, &error), &error);
        return new LayerInfo(&raw);
    }

    /// <summary>Facts about the layer.</summary>
    public LayerInfo Info { get; private set; }

    /// <summary>Releases the layer when running calls are done.</summary>
    public void Dispose() { handle.Dispose(); }

    /// <summary>Computes y = layer(x).</summary>
    public void Forward(DeviceStream stream, Matrix x, Matrix y) {
        Forward(stream, new ForwardArgs { X = x, Y = y });
    }

    /// <summary>Computes y = layer(x).</summary>
    public void Forward(DeviceStream stream, ForwardArgs args) {
        lock (stream.Exclusive) {
            var storage = stackalloc NativeMatrix[7];
            var launch = new Launch(stream, storage, 7);
            try {
                var raw = Arguments(ref launch, args);
                if (args.Workspace != null) {
                    stream.Handle.Keep(args.Workspace.Handle);
                } else {
                    stream.Reserve(Size(&raw));
                }
                launch.Begin();
                var error = new NativeError();
                Check(moert_layer_forward(handle, stream.Handle, &raw, &error), &error);
                launch.End();
            } finally {
                launch.Dispose();
            }
        }
    }

    private NativeLayerForwardArgs Arguments(ref Launch launch, ForwardArgs args) {
        var routing = args.GivenRouting ? Access.Read : Access.Write;
        var y = args.Accumulate ? Access.ReadWrite : Access.Write;
        var raw = new NativeLayerForwardArgs { struct_size = (uint)sizeof(NativeLayerForwardArgs) };
        raw.flags = args.NativeFlags;
        raw.x = launch.Add("X", args.X, Info.Hidden, Access.Read);
        raw.router_x = launch.Add("RouterX", args.RouterX, Info.Hidden, Access.Read);
        raw.y = launch.Add("Y", args.Y, Info.Hidden, y);
        raw.ids = launch.Add("Ids", args.Ids, Info.TopK, routing);
        raw.weights = launch.Add("Weights", args.Weights, Info.TopK, routing);
        raw.logits = launch.Add("Logits", args.Logits, Info.NumExperts, Access.Write);
        raw.expert_counts =
            launch.Add("ExpertCounts", args.ExpertCounts, Info.NumExperts, Access.Write);
        if (args.Workspace != null) {
            raw.workspace = (void*)args.Workspace.Handle.DangerousGetHandle();
            raw.workspace_size = args.Workspace.Bytes;
        }
        return raw;
    }

    private ulong Size(NativeLayerForwardArgs* raw) {
        var error = new NativeError();
        ulong bytes;
        Check(moert_layer_workspace_size(handle, raw, &bytes, &error), &error);
        return bytes;
    }

    /// <summary>Scratch that a call with these arguments needs.</summary>
    public ulong WorkspaceSize(DeviceStream stream, ForwardArgs args) {
        lock (stream.Exclusive) {
            var storage = stackalloc NativeMatrix[7];
            var launch = new Launch(stream, storage, 7);
            try {
                var raw = Arguments(ref launch, args);
                return Size(&raw);
            } finally {
                launch.Dispose();
            }
        }
    }

    /// <summary>
    /// Copies a weight of a trainable layer to an array, after the stream's work; returns when
    /// done. The expert is a global id for the roles that each expert has, else 0.
    /// </summary>
    public void ReadWeight(DeviceStream stream, Role role, int expert, Matrix to) {
        CopyWeight(stream, role, expert, to, false);
    }

    /// <summary>
    /// Overwrites a weight of a trainable layer, after the stream's work; returns when done.
    /// </summary>
    public void WriteWeight(DeviceStream stream, Role role, int expert, Matrix from) {
        CopyWeight(stream, role, expert, from, true);
    }

    private void CopyWeight(DeviceStream stream, Role role, int expert, Matrix host, bool up) {
        using (new Guard(handle)) {
            var error = new NativeError();
            var view = new NativeMatrix();
            Check(moert_layer_weight(handle, (int)role, expert, &view, &error), &error);
            var packed = view.row_stride == view.cols || view.rows <= 1;
            var fits = view.dtype == (int)host.Dtype && view.rows * view.cols == host.Length;
            if (!host.OnHost || !packed || !fits) {
                throw InvalidArgument(
                    "the weight " + role + " has " + view.rows + " rows and " + view.cols +
                    " columns of " + (Dtype)view.dtype + "; the array has " + host.Length + " of " +
                    host.Dtype);
            }
            var bytes = (ulong)(host.Length * Matrix.Size(host.Dtype));
            lock (stream.Exclusive) {
                stream.Copy((IntPtr)view.data, host, bytes, up);
            }
        }
    }
}

}
