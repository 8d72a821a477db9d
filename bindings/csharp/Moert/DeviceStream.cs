// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using static Moert.MoertNative;

namespace Moert {

/// <summary>An order of work on a device. Calls on one stream wait for each other.</summary>
public sealed unsafe class DeviceStream : IDisposable {
    internal readonly StreamHandle Handle;
    internal readonly object Exclusive = new object();
    // Whether arrays must be copied to the device.
    internal bool Staged;
    private readonly DeviceHandle device;
    private DeviceBuffer stage;
    private ulong scratchBytes;

    /// <summary>Makes a stream; an asynchronous one queues work on the CPU's own threads.</summary>
    public DeviceStream(Device device, bool asynchronous = false, ulong scratchBytes = 0) {
        var error = new NativeError();
        var desc = new NativeStreamDesc {
            struct_size = (uint)sizeof(NativeStreamDesc),
            flags = asynchronous ? Flags.StreamFlagAsync : 0,
            scratch_bytes = scratchBytes
        };
        void* created;
        MoertException.Check(
            moert_stream_create(device.Handle, &desc, &created, &error), &error);
        Handle = new StreamHandle(created);
        this.device = device.Handle.Share();
        this.scratchBytes = scratchBytes;
        Staged = device.Info.Kind != DeviceKind.Cpu;
    }

    /// <summary>
    /// Wraps a CUstream or hipStream_t of the device's primary context, which must outlive the
    /// result.
    /// </summary>
    public DeviceStream(Device device, void* native) {
        var error = new NativeError();
        void* created;
        MoertException.Check(
            moert_stream_import(device.Handle, native, &created, &error), &error);
        Handle = new StreamHandle(created);
        this.device = device.Handle.Share();
        Staged = device.Info.Kind != DeviceKind.Cpu;
    }

    /// <summary>Releases the stream when its work is done.</summary>
    public void Dispose() {
        lock (Exclusive) {
            Handle.Dispose();
            if (stage != null) stage.Dispose();
            device.Dispose();
        }
    }

    /// <summary>The driver's stream, null on the CPU.</summary>
    public void* Native { get { return moert_stream_native(Handle); } }

    /// <summary>
    /// Grows the stream's scratch to at least that size. Calls without a workspace do it as needed.
    /// </summary>
    public void Reserve(ulong bytes) {
        lock (Exclusive) {
            if (bytes <= scratchBytes) return;
            var error = new NativeError();
            MoertException.Check(moert_stream_reserve(Handle, bytes, &error), &error);
            scratchBytes = bytes;
        }
    }

    /// <summary>Waits until all work is done, then reports like <see cref="Check"/>.</summary>
    public void Synchronize() {
        lock (Exclusive) {
            var error = new NativeError();
            var status = moert_stream_synchronize(Handle, &error);
            Handle.Landed();
            MoertException.Check(status, &error);
        }
    }

    /// <summary>Waits for the work of a call that failed; the caller guards the handle.</summary>
    internal void Finish() {
        moert_stream_finish((void*)Handle.DangerousGetHandle());
        Handle.Landed();
    }

    /// <summary>
    /// Reports, without waiting, the first failure of work that has run since the last report.
    /// </summary>
    public void Check() {
        lock (Exclusive) {
            var error = new NativeError();
            MoertException.Check(moert_stream_check(Handle, &error), &error);
        }
    }

    /// <summary>Work enqueued from now on starts after the event is reached.</summary>
    public void Wait(Event e) {
        lock (Exclusive) {
            var error = new NativeError();
            MoertException.Check(moert_stream_wait_event(Handle, e.Handle, &error), &error);
        }
    }

    /// <summary>
    /// Copies an array to the start of a buffer, after the work enqueued so far; returns when done.
    /// </summary>
    public void Upload(DeviceBuffer to, Matrix from) { Transfer(to, from, true); }

    /// <summary>
    /// Copies the start of a buffer to an array, after the work enqueued so far; returns when done.
    /// </summary>
    public void Download(Matrix to, DeviceBuffer from) { Transfer(from, to, false); }

    private void Transfer(DeviceBuffer buffer, Matrix host, bool up) {
        if (!host.OnHost) {
            throw MoertException.InvalidArgument("the other side of a buffer is host memory");
        }
        var bytes = (ulong)(host.Length * Matrix.Size(host.Dtype));
        if (bytes > buffer.Bytes) {
            throw MoertException.InvalidArgument(
                "an array of " + bytes + " bytes does not fit a buffer of " + buffer.Bytes);
        }
        lock (Exclusive) {
            Handle.Keep(buffer.Handle);
            Copy(buffer.Handle.DangerousGetHandle(), host, bytes, up);
        }
    }

    /// <summary>Copies between device memory and the host, and waits.</summary>
    internal void Copy(IntPtr device, Matrix host, ulong bytes, bool up) {
        var pin = default(GCHandle);
        if (host.Array != null) pin = GCHandle.Alloc(host.Array, GCHandleType.Pinned);
        try {
            var address = (void*)(host.Array != null ? pin.AddrOfPinnedObject() : host.Address);
            if (up) {
                Copy((void*)device, address, bytes);
            } else {
                Copy(address, (void*)device, bytes);
            }
            Synchronize();
        } finally {
            if (pin.IsAllocated) pin.Free();
        }
    }

    internal void Copy(void* to, void* from, ulong bytes) {
        var error = new NativeError();
        MoertException.Check(moert_stream_copy(Handle, to, from, bytes, &error), &error);
    }

    /// <summary>Device memory for copies of host matrices.</summary>
    internal byte* Stage(ulong bytes) {
        if (stage == null || stage.Bytes < bytes) {
            if (stage != null) stage.Dispose();
            stage = new DeviceBuffer(device, bytes);
        }
        return (byte*)stage.Handle.DangerousGetHandle();
    }
}

/// <summary>A point in a stream.</summary>
public sealed unsafe class Event : IDisposable {
    internal readonly EventHandle Handle;
    private readonly object exclusive = new object();

    /// <summary>Makes an event that was never recorded and so counts as reached.</summary>
    public Event(Device device) {
        var error = new NativeError();
        void* created;
        MoertException.Check(moert_event_create(device.Handle, &created, &error), &error);
        Handle = new EventHandle(created);
    }

    /// <summary>Releases the event.</summary>
    public void Dispose() { Handle.Dispose(); }

    /// <summary>Marks the stream's present end.</summary>
    public void Record(DeviceStream stream) {
        lock (stream.Exclusive)
        lock (exclusive) {
            var error = new NativeError();
            MoertException.Check(moert_event_record(Handle, stream.Handle, &error), &error);
        }
    }

    /// <summary>
    /// Whether the event is reached; never blocks. Once it is, a failure of the stream's work up to
    /// here is thrown.
    /// </summary>
    public bool Reached {
        get {
            var error = new NativeError();
            var status = moert_event_query(Handle, &error);
            if (status == (int)Status.NotReady) return false;
            MoertException.Check(status, &error);
            return true;
        }
    }

    /// <summary>Blocks until the event is reached; reports like <see cref="Reached"/>.</summary>
    public void Wait() {
        var error = new NativeError();
        MoertException.Check(moert_event_wait(Handle, &error), &error);
    }
}

}
