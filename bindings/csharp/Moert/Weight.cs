// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using static Moert.MoertException;

namespace Moert {

/// <summary>One weight of a layer or router.</summary>
public sealed class Weight {
    /// <summary>What it is for.</summary>
    public Role Role { get; private set; }
    /// <summary>Whether rows are outputs or inputs.</summary>
    public Orientation Orientation { get; set; }
    /// <summary>How gate and up are packed in one tensor.</summary>
    public Packing Packing { get; set; }
    /// <summary>Elements from one row to the next; 0 means packed.</summary>
    public long RowStride { get; set; }
    /// <summary>Elements from one expert to the next; 0 means that one follows the other.</summary>
    public long ExpertStride { get; set; }

    private readonly long rows, cols;
    private readonly Matrix data;
    private readonly Matrix[] experts;

    /// <summary>
    /// A matrix of that shape. For the roles that each expert has, one matrix follows the other and
    /// the shape is that of one.
    /// </summary>
    public Weight(Role role, Matrix data, long rows, long cols) {
        Role = role;
        this.data = data;
        this.rows = rows;
        this.cols = cols;
    }

    /// <summary>One matrix for each local expert.</summary>
    public Weight(Role role, Matrix[] experts, long rows, long cols) {
        Role = role;
        this.experts = experts;
        this.rows = rows;
        this.cols = cols;
    }

    /// <summary>
    /// The weight for the C ABI, which sees pointers only: what they point to must be long enough.
    /// </summary>
    internal unsafe NativeWeight ToNative(Pins pins, long numExperts) {
        if (rows < 0 || cols < 0 || RowStride < 0 || ExpertStride < 0) {
            throw InvalidArgument(
                "the weight " + Role + " has " + rows + " rows, " + cols + " columns, row stride " +
                RowStride + " and expert stride " + ExpertStride + "; none may be negative");
        }
        var raw = new NativeWeight {
            struct_size = (uint)sizeof(NativeWeight),
            role = (int)Role,
            dtype = (int)(experts != null && experts.Length > 0 ? experts[0] : data).Dtype,
            orientation = (int)Orientation,
            packing = (int)Packing,
            rows = rows,
            cols = cols,
            row_stride = RowStride,
            expert_stride = ExpertStride
        };
        if (experts == null) {
            var eachExpert = Role >= Role.ExpertGate && Role <= Role.ExpertDownBias;
            CheckLength(data, eachExpert ? numExperts : 1);
            raw.data = pins.Pin(data);
            return raw;
        }
        if (experts.LongLength != numExperts) {
            throw InvalidArgument(
                "the weight " + Role + " has " + experts.Length + " matrices for " + numExperts +
                " experts");
        }
        var addresses = new IntPtr[experts.Length];
        for (var i = 0; i < experts.Length; i++) {
            CheckLength(experts[i], 1);
            if (experts[i].Dtype != experts[0].Dtype) {
                throw InvalidArgument("the weight " + Role + " has experts of several dtypes");
            }
            addresses[i] = (IntPtr)pins.Pin(experts[i]);
        }
        raw.experts = (void**)pins.Pin(addresses);
        return raw;
    }

    private void CheckLength(Matrix matrix, long count) {
        if (!matrix.OnHost) throw InvalidArgument("the weight " + Role + " is not host memory");
        // Exact below 2^53 elements, which no memory has.
        double rowStride = RowStride != 0 ? RowStride : cols;
        var expertStride = ExpertStride != 0 ? ExpertStride : rows * rowStride;
        var needed = (rows - 1) * rowStride + cols + (count - 1) * expertStride;
        if (rows > 0 && count > 0 && needed > matrix.Length) {
            throw InvalidArgument(
                "the weight " + Role + " of " + rows + " rows and " + cols + " columns has " +
                    matrix.Length +
                " elements, not enough for " + count + " such");
        }
    }

    internal static NativeWeight[] ToNative(IList<Weight> weights, Pins pins, long numExperts) {
        var list = new NativeWeight[weights.Count];
        for (var i = 0; i < list.Length; i++) list[i] = weights[i].ToNative(pins, numExperts);
        return list;
    }
}

/// <summary>Arrays that stay where they are until Dispose.</summary>
internal sealed unsafe class Pins : IDisposable {
    private readonly List<GCHandle> pins = new List<GCHandle>();

    internal void* Pin(Array array) {
        var pin = GCHandle.Alloc(array, GCHandleType.Pinned);
        pins.Add(pin);
        return (void*)pin.AddrOfPinnedObject();
    }

    internal void* Pin(Matrix matrix) {
        return matrix.Array != null ? Pin(matrix.Array) : (void*)matrix.Address;
    }

    public void Dispose() {
        foreach (var pin in pins) pin.Free();
        pins.Clear();
    }
}

}
