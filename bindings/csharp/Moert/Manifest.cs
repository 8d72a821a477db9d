// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using static Moert.MoertException;
using static Moert.MoertNative;

namespace Moert {

/// <summary>How to pack a checkpoint.</summary>
public sealed class PackOptions {
    /// <summary>The manifest to write; null: model.moem in the folder.</summary>
    public string Output { get; set; }
    /// <summary>A family description (JSON) to use; null: a built-in one.</summary>
    public string FamilyPath { get; set; }
    /// <summary>Records sizes only.</summary>
    public bool SkipHashes { get; set; }
    /// <summary>Accepts shards with bytes that belong to no tensor.</summary>
    public bool AllowHoles { get; set; }
    /// <summary>
    /// Hears bytes done and in all. False or an exception stops the call with CallbackFailed.
    /// </summary>
    public Func<ulong, ulong, bool> Progress { get; set; }
}

/// <summary>How to open a manifest.</summary>
public sealed class ManifestOptions {
    /// <summary>Folder of the files; null: the manifest's own.</summary>
    public string BaseDir { get; set; }
    /// <summary>Refuses files reached through a symbolic link.</summary>
    public bool ForbidSymlinks { get; set; }
    /// <summary>Reads files into memory instead of mapping them.</summary>
    public bool Read { get; set; }
}

/// <summary>An opened, verified manifest with its files mapped.</summary>
public sealed unsafe class Manifest : IDisposable {
    internal readonly ManifestHandle Handle;

    /// <summary>Writes a manifest for a Hugging Face checkpoint; no weight is copied.</summary>
    public static PackResult Pack(Runtime runtime, string directory, PackOptions options = null) {
        options = options ?? new PackOptions();
        var error = new NativeError();
        var result = new NativePackResult { struct_size = (uint)sizeof(NativePackResult) };
        using (var progress = new ProgressHandle(options.Progress))
        fixed (byte* folder = Text.ToUtf8(directory, "directory"))
        fixed (byte* output = Text.ToUtf8(options.Output, "Output"))
        fixed (byte* family = Text.ToUtf8(options.FamilyPath, "FamilyPath")) {
            var desc = new NativePackDesc {
                struct_size = (uint)sizeof(NativePackDesc),
                flags = (options.SkipHashes ? Flags.PackFlagSkipHashes : 0) |
                        (options.AllowHoles ? Flags.PackFlagAllowHoles : 0),
                directory = folder,
                output = output,
                family_path = family,
                progress = progress.Function,
                user_data = progress.Data
            };
            var status = moert_manifest_pack(runtime.Handle, &desc, &result, &error);
            Check(status, &error, progress.State.Exception);
        }
        return new PackResult(&result);
    }

    /// <summary>Opens the manifest at that path.</summary>
    public Manifest(Runtime runtime, string path, ManifestOptions options = null) {
        fixed (byte* pointer = Text.ToUtf8(path, "path")) {
            Handle = Open(runtime, new NativeManifestDesc { path = pointer }, options);
        }
    }

    /// <summary>Opens a manifest in memory, which is copied.</summary>
    public Manifest(Runtime runtime, byte[] data, ManifestOptions options = null) {
        fixed (byte* pointer = data) {
            var desc = new NativeManifestDesc { data = pointer, size = (ulong)data.LongLength };
            Handle = Open(runtime, desc, options);
        }
    }

    private static ManifestHandle Open(Runtime runtime, NativeManifestDesc desc,
        ManifestOptions options) {
        options = options ?? new ManifestOptions();
        var error = new NativeError();
        void* created;
        fixed (byte* baseDir = Text.ToUtf8(options.BaseDir, "BaseDir")) {
            desc.struct_size = (uint)sizeof(NativeManifestDesc);
            desc.flags = (options.ForbidSymlinks ? Flags.ManifestFlagForbidSymlinks : 0) |
                         (options.Read ? Flags.ManifestFlagRead : 0);
            desc.base_dir = baseDir;
            Check(moert_manifest_open(runtime.Handle, &desc, &created, &error), &error);
        }
        return new ManifestHandle(created);
    }

    /// <summary>Releases the manifest when running calls are done.</summary>
    public void Dispose() { Handle.Dispose(); }

    /// <summary>
    /// Reads every file: sizes, hashes and headers against what was packed. The delegate hears
    /// bytes done and in all; false or an exception stops the call with CallbackFailed.
    /// </summary>
    public void Verify(Func<ulong, ulong, bool> progress = null) {
        var error = new NativeError();
        using (var handle = new ProgressHandle(progress)) {
            var status = moert_manifest_verify(Handle, handle.Function, handle.Data, &error);
            Check(status, &error, handle.State.Exception);
        }
    }

    /// <summary>Facts about the manifest.</summary>
    public ManifestInfo GetInfo() {
        using (new Guard(Handle)) {
            var error = new NativeError();
            var raw = new NativeManifestInfo { struct_size = (uint)sizeof(NativeManifestInfo) };
            Check(moert_manifest_get_info(Handle, &raw, &error), &error);
            return new ManifestInfo(&raw);
        }
    }

    /// <summary>The index-th file.</summary>
    public FileInfo File(uint index) {
        using (new Guard(Handle)) {
            var error = new NativeError();
            var raw = new NativeFileInfo { struct_size = (uint)sizeof(NativeFileInfo) };
            Check(moert_manifest_file(Handle, index, &raw, &error), &error);
            return new FileInfo(&raw);
        }
    }

    /// <summary>The index-th tensor, in the order of names.</summary>
    public TensorInfo Tensor(ulong index) {
        using (new Guard(Handle)) {
            var error = new NativeError();
            var raw = new NativeTensorInfo { struct_size = (uint)sizeof(NativeTensorInfo) };
            Check(moert_manifest_tensor(Handle, index, &raw, &error), &error);
            return new TensorInfo(&raw);
        }
    }

    /// <summary>Index of the tensor of that name.</summary>
    public ulong FindTensor(string name) {
        var error = new NativeError();
        ulong index;
        fixed (byte* pointer = Text.ToUtf8(name, "name")) {
            Check(moert_manifest_find_tensor(Handle, pointer, &index, &error), &error);
        }
        return index;
    }

    /// <summary>
    /// The bytes of a tensor where they lie, possibly unaligned; valid until the manifest is
    /// released.
    /// </summary>
    public byte* TensorPointer(ulong index) {
        var error = new NativeError();
        void* data;
        Check(moert_manifest_tensor_data(Handle, index, &data, &error), &error);
        return (byte*)data;
    }

    /// <summary>A copy of the bytes of a tensor.</summary>
    public byte[] TensorData(ulong index) {
        using (new Guard(Handle)) {
            var data = new byte[Tensor(index).Bytes];
            if (data.Length > 0) Marshal.Copy((IntPtr)TensorPointer(index), data, 0, data.Length);
            return data;
        }
    }

    /// <summary>The index-th MoE layer, in the model's order.</summary>
    public LayerInfo Layer(uint index) {
        var error = new NativeError();
        var raw = new NativeLayerInfo { struct_size = (uint)sizeof(NativeLayerInfo) };
        Check(moert_manifest_layer(Handle, index, &raw, &error), &error);
        return new LayerInfo(&raw);
    }

    /// <summary>Index of the MoE layer with the model's own number.</summary>
    public uint FindLayer(int modelLayer) {
        var error = new NativeError();
        uint index;
        Check(moert_manifest_find_layer(Handle, modelLayer, &index, &error), &error);
        return index;
    }

    /// <summary>A layer's routing.</summary>
    public Routing LayerRouting(uint index) {
        var error = new NativeError();
        var raw = new NativeRouting { struct_size = (uint)sizeof(NativeRouting) };
        Check(moert_manifest_layer_routing(Handle, index, &raw, &error), &error);
        return new Routing(&raw);
    }

    /// <summary>Activation of a layer's experts.</summary>
    public Activation LayerActivation(uint index) {
        var error = new NativeError();
        var raw = new NativeActivation { struct_size = (uint)sizeof(NativeActivation) };
        Check(moert_manifest_layer_activation(Handle, index, &raw, null, &error), &error);
        return new Activation(&raw);
    }

    /// <summary>Activation of a layer's shared expert.</summary>
    public Activation LayerSharedActivation(uint index) {
        var error = new NativeError();
        var raw = new NativeActivation { struct_size = (uint)sizeof(NativeActivation) };
        Check(moert_manifest_layer_activation(Handle, index, null, &raw, &error), &error);
        return new Activation(&raw);
    }

    /// <summary>The weightIndex-th weight of a layer.</summary>
    public WeightInfo LayerWeight(uint index, uint weightIndex) {
        using (new Guard(Handle)) {
            var error = new NativeError();
            var raw = new NativeWeightInfo { struct_size = (uint)sizeof(NativeWeightInfo) };
            Check(moert_manifest_layer_weight(Handle, index, weightIndex, &raw, &error), &error);
            return new WeightInfo(&raw);
        }
    }
}

/// <summary>What the library calls a progress delegate with, for the time of one call.</summary>
internal sealed unsafe class ProgressHandle : IDisposable {
    internal readonly ProgressState State = new ProgressState();
    private readonly GCHandle handle;

    internal ProgressHandle(Func<ulong, ulong, bool> progress) {
        State.Progress = progress;
        if (progress != null) handle = GCHandle.Alloc(State);
    }

    internal IntPtr Function {
        get { return handle.IsAllocated ? Callbacks.Progress : IntPtr.Zero; }
    }

    internal void* Data {
        get { return handle.IsAllocated ? (void*)GCHandle.ToIntPtr(handle) : null; }
    }

    public void Dispose() {
        if (handle.IsAllocated) handle.Free();
    }
}

}
