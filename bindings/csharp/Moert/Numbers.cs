// SPDX-License-Identifier: Apache-2.0
using System.Runtime.InteropServices;

namespace Moert {

/// <summary>A bfloat16: the upper half of a float.</summary>
[StructLayout(LayoutKind.Sequential)]
public struct BFloat16 {
    /// <summary>The bits.</summary>
    public ushort Bits;

    /// <summary>Takes the bits.</summary>
    public BFloat16(ushort bits) { Bits = bits; }

    /// <summary>The nearest bfloat16; ties go to the even one, a NaN stays a NaN.</summary>
    public static unsafe BFloat16 FromSingle(float value) {
        var bits = *(uint*)&value;
        if (float.IsNaN(value)) return new BFloat16((ushort)(bits >> 16 | 0x40));
        return new BFloat16((ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
    }

    /// <summary>The same number as a float.</summary>
    public unsafe float ToSingle() {
        var bits = (uint)Bits << 16;
        return *(float*)&bits;
    }

    /// <summary>Converts an array.</summary>
    public static BFloat16[] FromSingles(float[] values) {
        var result = new BFloat16[values.Length];
        for (var i = 0; i < values.Length; i++) result[i] = FromSingle(values[i]);
        return result;
    }

    /// <summary>Converts an array back.</summary>
    public static float[] ToSingles(BFloat16[] values) {
        var result = new float[values.Length];
        for (var i = 0; i < values.Length; i++) result[i] = values[i].ToSingle();
        return result;
    }
}

/// <summary>The bits of an IEEE half-precision number.</summary>
[StructLayout(LayoutKind.Sequential)]
public struct Float16 {
    /// <summary>The bits.</summary>
    public ushort Bits;

    /// <summary>Takes the bits.</summary>
    public Float16(ushort bits) { Bits = bits; }
}

}
