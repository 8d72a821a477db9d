// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using Microsoft.Win32.SafeHandles;
using static Moert.MoertNative;

namespace Moert {

/// <summary>
/// One reference to an object of the library. P/Invoke keeps it during a call, so that Dispose
/// releases it when running calls are done.
/// </summary>
internal abstract unsafe class NativeHandle : SafeHandleZeroOrMinusOneIsInvalid {
    private volatile bool disposed;

    protected NativeHandle(void* created) : base(true) { SetHandle((IntPtr)created); }

    /// <summary>
    /// Refuses what was disposed. P/Invoke alone would accept it as long as another call runs.
    /// </summary>
    internal static T Open<T>(T handle) where T : NativeHandle {
        if (handle.disposed) {
            throw new ObjectDisposedException(handle.GetType().Name.Replace("Handle", ""));
        }
        return handle;
    }

    protected abstract void Release(void* address);

    protected override bool ReleaseHandle() {
        Release((void*)handle);
        return true;
    }

    protected override void Dispose(bool disposing) {
        disposed = true;
        base.Dispose(disposing);
    }
}

/// <summary>Keeps a handle from being released while more than one call needs it.</summary>
internal struct Guard : IDisposable {
    private readonly NativeHandle handle;
    private readonly bool taken;

    internal Guard(NativeHandle handle) {
        this.handle = NativeHandle.Open(handle);
        taken = false;
        handle.DangerousAddRef(ref taken);
    }

    public void Dispose() {
        if (taken) handle.DangerousRelease();
    }
}

internal sealed unsafe class RuntimeHandle : NativeHandle {
    internal RuntimeHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_runtime_drop(address); }
}

internal sealed unsafe class DeviceHandle : NativeHandle {
    internal DeviceHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_device_drop(address); }

    /// <summary>A reference of its own.</summary>
    internal DeviceHandle Share() {
        using (new Guard(this)) {
            moert_device_retain(this);
            return new DeviceHandle((void*)handle);
        }
    }
}

/// <summary>A stream. Buffers that its work uses have a reference from it.</summary>
internal sealed unsafe class StreamHandle : NativeHandle {
    internal readonly List<BufferHandle> InFlight = new List<BufferHandle>();

    internal StreamHandle(void* created) : base(created) { }

    /// <summary>The caller has the stream to itself.</summary>
    internal void Keep(BufferHandle buffer) {
        if (InFlight.Contains(Open(buffer))) return;
        var kept = false;
        buffer.DangerousAddRef(ref kept);
        InFlight.Add(buffer);
    }

    /// <summary>The work is done.</summary>
    internal void Landed() {
        foreach (var buffer in InFlight) buffer.DangerousRelease();
        InFlight.Clear();
    }

    protected override void Release(void* address) {
        if (InFlight.Count > 0) {
            // What the work uses may go only when it is done; its failure has nobody to hear it.
            moert_stream_finish(address);
            Landed();
        }
        moert_stream_drop(address);
    }
}

internal sealed unsafe class EventHandle : NativeHandle {
    internal EventHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_event_drop(address); }
}

internal sealed unsafe class ManifestHandle : NativeHandle {
    internal ManifestHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_manifest_drop(address); }
}

internal sealed unsafe class LayerHandle : NativeHandle {
    internal LayerHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_layer_drop(address); }
}

internal sealed unsafe class GateHandle : NativeHandle {
    internal GateHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_gate_drop(address); }
}

internal sealed unsafe class RouterHandle : NativeHandle {
    internal RouterHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_router_drop(address); }
}

internal sealed unsafe class OptimizerHandle : NativeHandle {
    internal OptimizerHandle(void* created) : base(created) { }
    protected override void Release(void* address) { moert_optimizer_drop(address); }
}

/// <summary>Device memory with a reference of its own to the device.</summary>
internal sealed unsafe class BufferHandle : NativeHandle {
    private readonly IntPtr device;

    internal BufferHandle(IntPtr device, void* memory) : base(memory) { this.device = device; }

    protected override void Release(void* address) {
        moert_buffer_drop((void*)device, address);
    }
}

}
