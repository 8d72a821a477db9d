// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using System.Text;
using static Moert.MoertException;

namespace Moert {

/// <summary>Strings and lists across the C ABI: UTF-8, copied at once.</summary>
internal static unsafe class Text {
    internal static string FromUtf8(void* text) {
        if (text == null) return "";
        var length = 0;
        while (((byte*)text)[length] != 0) length++;
        return Encoding.UTF8.GetString((byte*)text, length);
    }

    /// <summary>A C string for <c>fixed</c>; null stays null.</summary>
    internal static byte[] ToUtf8(string text, string name) {
        if (text == null) return null;
        if (text.IndexOf('\0') >= 0) {
            throw InvalidArgument(name + " contains a NUL character: " + text);
        }
        return Encoding.UTF8.GetBytes(text + "\0");
    }

    internal static long[] List(long* data, int count) {
        var list = new long[data == null ? 0 : count];
        for (var i = 0; i < list.Length; i++) list[i] = data[i];
        return list;
    }

    internal static ulong[] List(ulong* data, int count) {
        var list = new ulong[data == null ? 0 : count];
        for (var i = 0; i < list.Length; i++) list[i] = data[i];
        return list;
    }

    internal static uint[] List(uint* data, int count) {
        var list = new uint[data == null ? 0 : count];
        for (var i = 0; i < list.Length; i++) list[i] = data[i];
        return list;
    }
}

}
