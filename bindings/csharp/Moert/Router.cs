// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using static Moert.MoertException;
using static Moert.MoertNative;

namespace Moert {

/// <summary>What a router is made of.</summary>
public sealed class RouterConfig {
    /// <summary>Dtype of x or of given logits; None: float.</summary>
    public Dtype Dtype { get; set; }
    /// <summary>Columns of x; 0: the router runs on given logits only.</summary>
    public long Hidden { get; set; }
    /// <summary>How tokens choose experts.</summary>
    public Routing Routing { get; set; }
    /// <summary>The weights.</summary>
    public IList<Weight> Weights { get; set; }

    /// <summary>A configuration without weights.</summary>
    public RouterConfig() {
        Routing = new Routing();
        Weights = new List<Weight>();
    }
}

/// <summary>Arguments of a router call on T tokens: X, or GivenLogits.</summary>
public sealed class RouterArgs {
    /// <summary>[T, hidden], the router's dtype.</summary>
    public Matrix X { get; set; }
    /// <summary>[T, num_experts], the router's dtype, before bias and soft cap.</summary>
    public Matrix GivenLogits { get; set; }
    /// <summary>[T, top_k] int, output.</summary>
    public Matrix Ids { get; set; }
    /// <summary>[T, top_k] float, output.</summary>
    public Matrix Weights { get; set; }
    /// <summary>[T, num_experts] float, output; may be absent.</summary>
    public Matrix Logits { get; set; }
    /// <summary>[1, num_experts] int, output; may be absent.</summary>
    public Matrix ExpertCounts { get; set; }
}

/// <summary>Top-k gating. Any number of streams may run it at once.</summary>
public sealed unsafe class Router : IDisposable {
    private readonly RouterHandle handle;
    private readonly long hidden;
    private readonly int topK, numExperts;

    /// <summary>Makes a router; the weights are copied.</summary>
    public Router(Device device, RouterConfig config) {
        hidden = config.Hidden;
        topK = config.Routing.TopK;
        numExperts = config.Routing.NumExperts;
        var error = new NativeError();
        var routing = config.Routing.ToNative();
        void* created;
        using (var pins = new Pins())
        fixed (NativeWeight* weights = Weight.ToNative(config.Weights, pins, numExperts)) {
            var desc = new NativeRouterDesc {
                struct_size = (uint)sizeof(NativeRouterDesc),
                dtype = (int)config.Dtype,
                num_weights = (uint)config.Weights.Count,
                hidden = hidden,
                routing = &routing,
                weights = weights
            };
            Check(moert_router_create(device.Handle, &desc, &created, &error), &error);
        }
        handle = new RouterHandle(created);
    }

    /// <summary>Releases the router when running calls are done.</summary>
    public void Dispose() { handle.Dispose(); }

    /// <summary>Chooses experts.</summary>
    public void Forward(DeviceStream stream, RouterArgs args) {
        lock (stream.Exclusive) {
            var storage = stackalloc NativeMatrix[6];
            var launch = new Launch(stream, storage, 6);
            try {
                var raw = Arguments(ref launch, args);
                stream.Reserve(Size(&raw));
                launch.Begin();
                var error = new NativeError();
                Check(moert_router_forward(handle, stream.Handle, &raw, &error), &error);
                launch.End();
            } finally {
                launch.Dispose();
            }
        }
    }

    /// <summary>Scratch that a call with these arguments needs.</summary>
    public ulong WorkspaceSize(DeviceStream stream, RouterArgs args) {
        lock (stream.Exclusive) {
            var storage = stackalloc NativeMatrix[6];
            var launch = new Launch(stream, storage, 6);
            try {
                var raw = Arguments(ref launch, args);
                return Size(&raw);
            } finally {
                launch.Dispose();
            }
        }
    }

    private NativeRouterForwardArgs Arguments(ref Launch launch, RouterArgs args) {
        var raw = new NativeRouterForwardArgs();
        raw.struct_size = (uint)sizeof(NativeRouterForwardArgs);
        raw.x = launch.Add("X", args.X, hidden, Access.Read);
        raw.given_logits = launch.Add("GivenLogits", args.GivenLogits, numExperts, Access.Read);
        raw.ids = launch.Add("Ids", args.Ids, topK, Access.Write);
        raw.weights = launch.Add("Weights", args.Weights, topK, Access.Write);
        raw.logits = launch.Add("Logits", args.Logits, numExperts, Access.Write);
        raw.expert_counts = launch.Add("ExpertCounts", args.ExpertCounts, numExperts, Access.Write);
        return raw;
    }

    private ulong Size(NativeRouterForwardArgs* raw) {
        var error = new NativeError();
        ulong bytes;
        Check(moert_router_workspace_size(handle, raw, &bytes, &error), &error);
        return bytes;
    }
}

}
