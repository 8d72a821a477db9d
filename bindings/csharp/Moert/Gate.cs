// SPDX-License-Identifier: Apache-2.0
using System;
using static Moert.MoertException;
using static Moert.MoertNative;

namespace Moert {

/// <summary>Arguments of a gate op on T rows. Out may be X or Acc itself.</summary>
public sealed class GateArgs {
    /// <summary>[T, width].</summary>
    public Matrix X { get; set; }
    /// <summary>[T, width] or [T, 1], as the kind says; absent for AddLinear.</summary>
    public Matrix G { get; set; }
    /// <summary>[T, linear width], AddLinear only.</summary>
    public Matrix H { get; set; }
    /// <summary>[1, linear width], AddLinear only.</summary>
    public Matrix W { get; set; }
    /// <summary>[T, width], for the kinds that add; absent: Out.</summary>
    public Matrix Acc { get; set; }
    /// <summary>[T, width].</summary>
    public Matrix Out { get; set; }
}

/// <summary>A gate op. Any number of streams may run it at once.</summary>
public sealed unsafe class Gate : IDisposable {
    private readonly GateHandle handle;
    private readonly GateKind kind;
    private readonly long width, linearWidth;

    /// <summary>Makes a gate op; linearWidth is for AddLinear only.</summary>
    public Gate(Device device, GateKind kind, long width, long linearWidth = 0,
                Dtype dtype = Dtype.Float32) {
        this.kind = kind;
        this.width = width;
        this.linearWidth = linearWidth;
        var error = new NativeError();
        var desc = new NativeGateDesc {
            struct_size = (uint)sizeof(NativeGateDesc),
            kind = (int)kind,
            dtype = (int)dtype,
            width = width,
            linear_width = linearWidth
        };
        void* created;
        Check(moert_gate_create(device.Handle, &desc, &created, &error), &error);
        handle = new GateHandle(created);
    }

    /// <summary>Releases the gate op when running calls are done.</summary>
    public void Dispose() { handle.Dispose(); }

    /// <summary>Runs the op.</summary>
    public void Forward(DeviceStream stream, GateArgs args) {
        lock (stream.Exclusive) {
            var storage = stackalloc NativeMatrix[6];
            var launch = new Launch(stream, storage, 6);
            try {
                var raw = new NativeGateForwardArgs();
                raw.struct_size = (uint)sizeof(NativeGateForwardArgs);
                raw.x = launch.Add("X", args.X, width, Access.Read);
                raw.g = launch.Add("G", args.G, kind == GateKind.Multiply ? width : 1, Access.Read);
                raw.h = launch.Add("H", args.H, linearWidth, Access.Read);
                raw.w = launch.Add("W", args.W, linearWidth, Access.Read);
                raw.acc = launch.Add("Acc", args.Acc, width, Access.Read);
                raw.@out = launch.Add("Out", args.Out, width, Access.ReadWrite);
                launch.Begin();
                var error = new NativeError();
                Check(moert_gate_forward(handle, stream.Handle, &raw, &error), &error);
                launch.End();
            } finally {
                launch.Dispose();
            }
        }
    }
}

}
