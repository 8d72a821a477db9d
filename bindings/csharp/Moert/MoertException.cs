// SPDX-License-Identifier: Apache-2.0
using System;

namespace Moert {

/// <summary>A failed call: its status and the text that explains it.</summary>
public sealed class MoertException : Exception {
    /// <summary>Why the call failed.</summary>
    public Status Status { get; private set; }

    /// <summary>errno or a driver's code, as the status says.</summary>
    public long NativeCode { get; private set; }

    /// <summary>
    /// What is wrong with bytes that were refused as <see cref="Status.CorruptData"/>.
    /// </summary>
    public Corruption Corruption {
        get { return (Corruption)(Status == Status.CorruptData ? NativeCode : 0); }
    }

    internal MoertException(Status status, long nativeCode, string message, Exception inner)
        : base(message, inner) {
        Status = status;
        NativeCode = nativeCode;
    }

    internal static MoertException InvalidArgument(string message) {
        return new MoertException(Status.InvalidArgument, 0, message, null);
    }

    internal static unsafe void Check(int status, NativeError* error, Exception inner = null) {
        if (status == (int)Status.Ok) return;
        var message = Text.FromUtf8(error->message);
        throw new MoertException((Status)status, error->native_code, message, inner);
    }
}

}
