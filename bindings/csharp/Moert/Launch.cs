// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;

namespace Moert {

/// <summary>What a call does with a matrix.</summary>
internal enum Access { Read, Write, ReadWrite }

/// <summary>
/// The matrices of one call on a stream, which the caller has to itself: pins arrays, copies them
/// to other devices, and keeps buffers. With host memory among them, End returns when the work is
/// done; Dispose waits for it in any case.
/// </summary>
internal unsafe struct Launch : IDisposable {
    private const ulong Alignment = 256;

    private struct Operand {
        internal GCHandle Pin;
        internal IntPtr Host; // Zero: device memory.
        internal ulong Bytes;
        internal Access Access;
        internal bool Strided;
    }

    private readonly DeviceStream stream;
    private readonly Guard guard;
    private readonly NativeMatrix* matrices;
    private readonly Operand[] operands;
    private int count;
    private bool onHost;

    /// <summary>The matrices are written to the given place.</summary>
    internal Launch(DeviceStream stream, NativeMatrix* matrices, int capacity) {
        this.stream = stream;
        guard = new Guard(stream.Handle);
        this.matrices = matrices;
        operands = new Operand[capacity];
        count = 0;
        onHost = false;
    }

    /// <summary>Adds a matrix and gives its place, null if it is absent.</summary>
    internal NativeMatrix* Add(string name, Matrix matrix, long cols, Access access) {
        if (!matrix.Present) return null;
        var native = matrix.Resolve(name, cols);
        var operand = new Operand { Access = access, Strided = native.row_stride != native.cols };
        if (matrix.OnHost) {
            onHost = true;
            operand.Host = matrix.Address;
            if (matrix.Array != null) {
                operand.Pin = GCHandle.Alloc(matrix.Array, GCHandleType.Pinned);
                operand.Host = operand.Pin.AddrOfPinnedObject();
            }
            if (native.rows > 0) {
                var elements = (native.rows - 1) * native.row_stride + native.cols;
                operand.Bytes = (ulong)(elements * Matrix.Size(matrix.Dtype));
            }
        } else {
            stream.Handle.Keep(matrix.Memory);
        }
        native.data = (void*)(matrix.OnHost ? operand.Host : matrix.Address);
        operands[count] = operand;
        matrices[count] = native;
        return &matrices[count++];
    }

    /// <summary>Copies what other devices read.</summary>
    internal void Begin() {
        if (!onHost || !stream.Staged) return;
        var total = 0UL;
        for (var i = 0; i < count; i++) total += Aligned(operands[i].Bytes);
        var place = stream.Stage(total);
        for (var i = 0; i < count; i++) {
            if (operands[i].Host == IntPtr.Zero) continue;
            matrices[i].data = place;
            place += Aligned(operands[i].Bytes);
            // Gaps of an output must survive, so they are copied in first.
            if (operands[i].Access != Access.Write || operands[i].Strided) {
                stream.Copy(matrices[i].data, (void*)operands[i].Host, operands[i].Bytes);
            }
        }
    }

    /// <summary>Copies what other devices wrote, and waits where host memory takes part.</summary>
    internal void End() {
        if (!onHost) return;
        for (var i = 0; stream.Staged && i < count; i++) {
            if (operands[i].Host == IntPtr.Zero || operands[i].Access == Access.Read) continue;
            stream.Copy((void*)operands[i].Host, matrices[i].data, operands[i].Bytes);
        }
        onHost = false;
        stream.Synchronize();
    }

    public void Dispose() {
        try {
            if (onHost) stream.Finish();
        } finally {
            for (var i = 0; i < count; i++) {
                if (operands[i].Pin.IsAllocated) operands[i].Pin.Free();
            }
            guard.Dispose();
        }
    }

    private static ulong Aligned(ulong bytes) {
        return (bytes + Alignment - 1) / Alignment * Alignment;
    }
}

}
