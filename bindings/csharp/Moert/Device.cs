// SPDX-License-Identifier: Apache-2.0
using System;
using static Moert.MoertException;
using static Moert.MoertNative;

namespace Moert {

/// <summary>Options of a device.</summary>
public sealed class DeviceOptions {
    /// <summary>Does not read MOERT_KERNEL_PATH or MOERT_CPU_ISA.</summary>
    public bool IgnoreEnvironment { get; set; }
    /// <summary>GPU: a kernel file, or the folder that holds it.</summary>
    public string KernelPath { get; set; }
    /// <summary>GPU: the contents of a kernel file.</summary>
    public byte[] KernelData { get; set; }
    /// <summary>CPU: threads, the caller's included; 0 means all.</summary>
    public uint CpuThreads { get; set; }
}

/// <summary>An open device with all its kernels loaded.</summary>
public sealed unsafe class Device : IDisposable {
    internal readonly DeviceHandle Handle;

    /// <summary>
    /// Opens "cpu", "cuda:N", "hip:N", or "best": a GPU that works, else the CPU.
    /// </summary>
    public Device(Runtime runtime, string name = "cpu", DeviceOptions options = null) {
        options = options ?? new DeviceOptions();
        var error = new NativeError();
        void* created;
        fixed (byte* namePointer = Text.ToUtf8(name, "name"))
        fixed (byte* path = Text.ToUtf8(options.KernelPath, "KernelPath"))
        fixed (byte* kernels = options.KernelData) {
            var desc = new NativeDeviceDesc {
                struct_size = (uint)sizeof(NativeDeviceDesc),
                flags = options.IgnoreEnvironment ? Flags.DeviceFlagIgnoreEnvironment : 0,
                kernel_path = path,
                kernel_data = kernels,
                kernel_size = kernels == null ? 0 : (ulong)options.KernelData.LongLength,
                cpu_threads = options.CpuThreads
            };
            var status =
                moert_device_create(runtime.Handle, namePointer, &desc, &created, &error);
            Check(status, &error);
        }
        Handle = new DeviceHandle(created);
    }

    /// <summary>Releases the device.</summary>
    public void Dispose() { Handle.Dispose(); }

    /// <summary>Facts about the device.</summary>
    public DeviceInfo Info {
        get {
            var error = new NativeError();
            var raw = new NativeDeviceInfo { struct_size = (uint)sizeof(NativeDeviceInfo) };
            Check(moert_device_get_info(Handle, &raw, &error), &error);
            return new DeviceInfo(&raw);
        }
    }
}

/// <summary>
/// A block of device memory, not initialised. Work that uses it keeps it alive. What work on two
/// streams at once does to the same bytes is up to the caller's events.
/// </summary>
public sealed unsafe class DeviceBuffer : IDisposable {
    internal readonly BufferHandle Handle;

    /// <summary>Allocates device memory.</summary>
    public DeviceBuffer(Device device, ulong bytes) : this(device.Handle, bytes) { }

    internal DeviceBuffer(DeviceHandle device, ulong bytes) {
        using (new Guard(device)) {
            var error = new NativeError();
            void* memory;
            Check(moert_device_alloc(device, bytes, &memory, &error), &error);
            // The memory's own reference to the device.
            moert_device_retain(device);
            Handle = new BufferHandle(device.DangerousGetHandle(), memory);
        }
        Bytes = bytes;
    }

    /// <summary>Its size in bytes.</summary>
    public ulong Bytes { get; private set; }

    /// <summary>Frees the memory once no work uses it.</summary>
    public void Dispose() { Handle.Dispose(); }

    /// <summary>A packed matrix that begins offset bytes into the buffer.</summary>
    public Matrix Matrix(Dtype dtype, long offset, long rows, long cols) {
        return Moert.Matrix.Of(this, dtype, offset, rows, cols);
    }
}

}
