// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using static Moert.MoertException;
using static Moert.MoertNative;

namespace Moert {

/// <summary>Facts about the loaded library.</summary>
public static unsafe class Library {
    /// <summary>The ABI number of the loaded library.</summary>
    public static uint AbiVersion { get { return moert_abi_version(); } }

    /// <summary>The loaded library's version, such as "0.1.0".</summary>
    public static string Version { get { return Text.FromUtf8(moert_version_string()); } }

    /// <summary>Names of the built-in families, separated by commas.</summary>
    public static string FamilyNames { get { return Text.FromUtf8(moert_family_names()); } }

    /// <summary>A short name of a status, such as "INVALID_ARGUMENT".</summary>
    public static string Name(Status status) {
        return Text.FromUtf8(moert_status_name((int)status));
    }

    /// <summary>Name of a dtype as safetensors spells it.</summary>
    public static string Name(Dtype dtype) { return Text.FromUtf8(moert_dtype_name((int)dtype)); }

    /// <summary>Bits of one element.</summary>
    public static uint Bits(Dtype dtype) { return moert_dtype_bits((int)dtype); }
}

/// <summary>Receives log lines, on any thread. An exception ends there.</summary>
public delegate void LogCallback(LogLevel level, string message);

/// <summary>
/// Knows the devices. Two runtimes share nothing. Objects may be disposed in any order and used on
/// any thread; what is not disposed is released some time after it became unreachable.
/// </summary>
public sealed unsafe class Runtime : IDisposable {
    internal readonly RuntimeHandle Handle;

    /// <summary>Makes a runtime; log may be null.</summary>
    public Runtime(LogCallback log = null, LogLevel minLevel = LogLevel.Debug) {
        var desc = new NativeRuntimeDesc { struct_size = (uint)sizeof(NativeRuntimeDesc) };
        var sink = new NativeLogSink { struct_size = (uint)sizeof(NativeLogSink) };
        if (log != null) {
            sink.min_level = (int)minLevel;
            sink.user_data = (void*)GCHandle.ToIntPtr(GCHandle.Alloc(log));
            sink.write = Callbacks.Log;
            sink.free_fn = Callbacks.Free;
            desc.log = &sink;
        }
        var error = new NativeError();
        void* created;
        Check(moert_runtime_create(&desc, &created, &error), &error);
        Handle = new RuntimeHandle(created);
    }

    /// <summary>Releases the runtime.</summary>
    public void Dispose() { Handle.Dispose(); }

    /// <summary>What was found, the CPU first.</summary>
    public DeviceInfo[] Devices {
        get {
            var error = new NativeError();
            uint count;
            Check(moert_runtime_num_devices(Handle, &count, &error), &error);
            var devices = new DeviceInfo[count];
            for (uint i = 0; i < count; i++) {
                var raw = new NativeDeviceInfo { struct_size = (uint)sizeof(NativeDeviceInfo) };
                Check(moert_runtime_device_info(Handle, i, &raw, &error), &error);
                devices[i] = new DeviceInfo(&raw);
            }
            return devices;
        }
    }
}

/// <summary>Tells ahead-of-time compilers which methods native code calls.</summary>
[AttributeUsage(AttributeTargets.Method)]
internal sealed class MonoPInvokeCallbackAttribute : Attribute {
    public MonoPInvokeCallbackAttribute(Type type) { }
}

/// <summary>What a progress delegate is called through, with its exception.</summary>
internal sealed class ProgressState {
    internal Func<ulong, ulong, bool> Progress;
    internal Exception Exception;
}

/// <summary>Functions that the library calls. Their user_data is a GCHandle.</summary>
internal static unsafe class Callbacks {
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    private delegate void LogFunction(IntPtr data, int level, IntPtr message);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    private delegate int ProgressFunction(IntPtr data, ulong done, ulong total);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    private delegate void FreeFunction(IntPtr data);

    private static readonly LogFunction log = WriteLog;
    private static readonly ProgressFunction progress = ReportProgress;
    private static readonly FreeFunction free = FreeHandle;

    internal static readonly IntPtr Log = Marshal.GetFunctionPointerForDelegate(log);
    internal static readonly IntPtr Progress = Marshal.GetFunctionPointerForDelegate(progress);
    internal static readonly IntPtr Free = Marshal.GetFunctionPointerForDelegate(free);

    // No exception may unwind through C frames.

    [MonoPInvokeCallback(typeof(LogFunction))]
    private static void WriteLog(IntPtr data, int level, IntPtr message) {
        try {
            ((LogCallback)GCHandle.FromIntPtr(data).Target)((LogLevel)level,
                Text.FromUtf8((void*)message));
        } catch (Exception) {
        }
    }

    [MonoPInvokeCallback(typeof(ProgressFunction))]
    private static int ReportProgress(IntPtr data, ulong done, ulong total) {
        var state = (ProgressState)GCHandle.FromIntPtr(data).Target;
        try {
            return state.Progress(done, total) ? 0 : 1;
        } catch (Exception e) {
            state.Exception = e;
            return 1;
        }
    }

    [MonoPInvokeCallback(typeof(FreeFunction))]
    private static void FreeHandle(IntPtr data) { GCHandle.FromIntPtr(data).Free(); }
}

}
