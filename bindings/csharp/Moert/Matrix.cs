// SPDX-License-Identifier: Apache-2.0
using System;
using static Moert.MoertException;
using static Moert.MoertNative;

namespace Moert {

/// <summary>
/// What a call reads or writes: an array, memory at a pointer, or part of a
/// <see cref="DeviceBuffer"/>. Arrays convert into one. <c>default(Matrix)</c> is absent.
/// </summary>
public struct Matrix {
    internal Array Array;
    internal BufferHandle Memory;
    internal IntPtr Address; // Of pointer or buffer memory.
    internal long Length;    // Elements from the beginning to the end.
    internal Dtype Dtype;
    private bool shaped; // Else rows follow from the columns that the call expects.
    private long rows, cols, rowStride;

    private static Matrix Of(Array array, Dtype dtype) {
        if (array == null) return default(Matrix);
        return new Matrix { Array = array, Length = array.LongLength, Dtype = dtype };
    }

    /// <summary>
    /// A matrix of an array; its rows follow from the columns that the call expects.
    /// </summary>
    public static implicit operator Matrix(float[] array) { return Of(array, Dtype.Float32); }

    /// <summary>
    /// A matrix of an array; its rows follow from the columns that the call expects.
    /// </summary>
    public static implicit operator Matrix(BFloat16[] array) { return Of(array, Dtype.Bfloat16); }

    /// <summary>
    /// A matrix of an array; its rows follow from the columns that the call expects.
    /// </summary>
    public static implicit operator Matrix(Float16[] array) { return Of(array, Dtype.Float16); }

    /// <summary>
    /// A matrix of an array; its rows follow from the columns that the call expects.
    /// </summary>
    public static implicit operator Matrix(int[] array) { return Of(array, Dtype.Int32); }

    /// <summary>
    /// Host memory that stays where it is during the call, such as a pinned Span. As with an array,
    /// the call returns when it is done with the memory.
    /// </summary>
    public static unsafe Matrix At(void* data, long length, Dtype dtype) {
        return new Matrix { Address = (IntPtr)data, Length = length, Dtype = dtype };
    }

    internal static Matrix Of(DeviceBuffer buffer, Dtype dtype, long offset, long rows, long cols) {
        var left = offset < 0 ? 0 : Math.Max(0, (long)buffer.Bytes - offset);
        var start = NativeHandle.Open(buffer.Handle).DangerousGetHandle().ToInt64();
        var matrix = new Matrix {
            Memory = buffer.Handle,
            Address = new IntPtr(start + offset),
            Length = left / Math.Max(1, Size(dtype)),
            Dtype = dtype
        };
        return matrix.Strided(rows, cols, cols);
    }

    /// <summary>The same elements as rows that lie rowStride elements apart.</summary>
    public Matrix Strided(long rows, long cols, long rowStride) {
        var matrix = this;
        matrix.shaped = true;
        matrix.rows = rows;
        matrix.cols = cols;
        matrix.rowStride = rowStride;
        return matrix;
    }

    internal static int Size(Dtype dtype) { return (int)(moert_dtype_bits((int)dtype) / 8); }

    internal bool Present {
        get { return Array != null || Memory != null || Address != IntPtr.Zero; }
    }

    internal bool OnHost { get { return Memory == null; } }

    /// <summary>The shape for the C ABI; what has none gets the columns.</summary>
    internal NativeMatrix Resolve(string name, long columns) {
        long r = rows, c = cols, stride = rowStride;
        if (!shaped) {
            c = stride = columns;
            if (columns == 0 ? Length != 0 : Length % columns != 0) {
                throw InvalidArgument(
                    name + " has " + Length + " elements, which is not a multiple of its " +
                    columns + " columns");
            }
            r = columns == 0 ? 0 : Length / columns;
        }
        var tooLong = r > 0 && (c > Length || r > 1 && (Length - c) / (r - 1) < stride);
        if (r < 0 || c < 0 || stride < c || tooLong) {
            throw InvalidArgument(
                name + " of " + r + " rows, " + c + " columns and row stride " + stride +
                " does not fit into " + Length + " elements");
        }
        return new NativeMatrix { rows = r, cols = c, row_stride = stride, dtype = (int)Dtype };
    }
}

}
