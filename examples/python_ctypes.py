#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the first MoE layer of a checkpoint from Python, with nothing but the standard library.

    python3 python_ctypes.py LIBRARY CHECKPOINT      e.g. libmoert.so.0 tiny-shakespeare-qwen2moe
"""

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int32, c_int64, c_uint32, c_uint64
from ctypes import c_void_p, sizeof

FLOAT32, INT32 = 1, 9  # moert_dtype


class Sized(ctypes.Structure):
    """A struct of moert.h that begins with struct_size; the other fields are zero, their default."""

    def __init__(self, **fields):
        super().__init__(struct_size=sizeof(type(self)), **fields)


class Error(Sized):
    _fields_ = [("struct_size", c_uint32), ("code", c_int32), ("native_code", c_int64),
                ("message", c_char * 1008)]


class Matrix(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("rows", c_int64), ("cols", c_int64), ("row_stride", c_int64),
                ("dtype", c_int32), ("reserved", c_uint32)]


class PackDesc(Sized):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("directory", c_char_p),
                ("output", c_char_p), ("family_path", c_char_p), ("progress", c_void_p),
                ("user_data", c_void_p), ("free_fn", c_void_p)]


class ManifestDesc(Sized):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("path", c_char_p),
                ("data", c_void_p), ("size", c_uint64), ("base_dir", c_char_p),
                ("files", c_void_p)]


class LayerOpenDesc(Sized):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("dtype", c_int32),
                ("num_local_experts", c_uint32), ("local_experts", c_void_p)]


class LayerInfo(Sized):
    _fields_ = [("struct_size", c_uint32), ("model_layer", c_int32), ("dtype", c_int32),
                ("weight_application", c_int32), ("hidden", c_int64), ("intermediate", c_int64),
                ("latent", c_int64), ("shared_intermediate", c_int64), ("num_experts", c_int32),
                ("top_k", c_int32), ("num_local_experts", c_uint32), ("num_weights", c_uint32),
                ("weight_bytes", c_uint64)]


class ForwardArgs(Sized):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("x", POINTER(Matrix)),
                ("router_x", POINTER(Matrix)), ("y", POINTER(Matrix)), ("ids", POINTER(Matrix)),
                ("weights", POINTER(Matrix)), ("logits", POINTER(Matrix)),
                ("expert_counts", POINTER(Matrix)), ("workspace", c_void_p),
                ("workspace_size", c_uint64), ("saved", c_void_p), ("saved_size", c_uint64)]


class Moert:
    """The library. A call that fails raises RuntimeError with its message."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.moert_version_string.restype = c_char_p

    def call(self, function, *arguments):
        error = Error()
        if getattr(self.library, "moert_" + function)(*arguments, byref(error)) != 0:
            raise RuntimeError(error.message.decode())

    def create(self, function, *arguments):
        """Calls a function whose last output is a handle."""
        handle = c_void_p()
        self.call(function, *arguments, byref(handle))
        return handle

    def release(self, kind, handle):
        getattr(self.library, f"moert_{kind}_release")(handle)


def matrix(values, rows, cols, dtype):
    return Matrix(ctypes.cast(values, c_void_p), rows, cols, cols, dtype, 0)


def run_layer(moert, layer, stream, tokens):
    """Runs the layer on made-up hidden states; returns y, and each token's experts and weights."""
    info = LayerInfo()
    moert.call("layer_get_info", layer, byref(info))
    hidden, top_k = info.hidden, info.top_k
    x = (c_float * (tokens * hidden))(*(i % 7 - 3 for i in range(tokens * hidden)))
    y = (c_float * (tokens * hidden))()
    ids = (c_int32 * (tokens * top_k))()
    weights = (c_float * (tokens * top_k))()
    args = ForwardArgs()
    args.x = ctypes.pointer(matrix(x, tokens, hidden, FLOAT32))
    args.y = ctypes.pointer(matrix(y, tokens, hidden, FLOAT32))
    args.ids = ctypes.pointer(matrix(ids, tokens, top_k, INT32))
    args.weights = ctypes.pointer(matrix(weights, tokens, top_k, FLOAT32))
    scratch = c_uint64()
    moert.call("layer_workspace_size", layer, byref(args), byref(scratch))
    moert.call("stream_reserve", stream, scratch)
    moert.call("layer_forward", layer, stream, byref(args))
    moert.call("stream_synchronize", stream)
    rows = [list(y[t * hidden:(t + 1) * hidden]) for t in range(tokens)]
    chosen = [list(zip(ids[t * top_k:(t + 1) * top_k], weights[t * top_k:(t + 1) * top_k]))
              for t in range(tokens)]
    return rows, chosen


def main(library, checkpoint):
    moert = Moert(library)
    print("moert", moert.library.moert_version_string().decode())
    path = os.path.join(checkpoint, "model.moem")
    runtime = moert.create("runtime_create", None)
    device = moert.create("device_create", runtime, b"cpu", None)
    stream = moert.create("stream_create", device, None)
    if not os.path.exists(path):
        pack = PackDesc(directory=os.fsencode(checkpoint))
        moert.call("manifest_pack", runtime, byref(pack), None)
    file = ManifestDesc(path=os.fsencode(path))
    manifest = moert.create("manifest_open", runtime, byref(file))
    options = LayerOpenDesc(dtype=FLOAT32)
    layer = moert.create("layer_open", device, manifest, c_uint32(0), byref(options))

    rows, chosen = run_layer(moert, layer, stream, tokens=2)
    for token, (row, experts) in enumerate(zip(rows, chosen)):
        listed = ", ".join(f"{expert} ({weight:.3f})" for expert, weight in experts)
        shown = " ".join(f"{value:.3f}" for value in row[:3])
        print(f"token {token}: experts {listed}; y = {shown} ...")

    for kind, handle in [("layer", layer), ("manifest", manifest), ("stream", stream),
                         ("device", device), ("runtime", runtime)]:
        moert.release(kind, handle)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2])
    except (OSError, RuntimeError) as error:
        sys.exit(f"python_ctypes: {error}")
