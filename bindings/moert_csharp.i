// SPDX-License-Identifier: Apache-2.0
// C#'s view: internal flat functions over handles (SafeHandles, which P/Invoke keeps during a call)
// and pointers; hand-written classes wrap them.
%pragma(csharp) moduleclassmodifiers="internal static unsafe class"
%pragma(csharp) imclassclassmodifiers="internal static unsafe class"

// Pointers stay pointers, strings too: the classes convert UTF-8.
%typemap(ctype) SWIGTYPE *, SWIGTYPE **, const char *, moert_progress_fn "void *"
%typemap(imtype) SWIGTYPE *, SWIGTYPE **, const char * "void*"
%typemap(cstype) SWIGTYPE *, SWIGTYPE **, const char * "void*"
%typemap(csin) SWIGTYPE *, SWIGTYPE **, const char *, moert_progress_fn "$csinput"
%typemap(in) SWIGTYPE *, SWIGTYPE **, const char *, moert_progress_fn %{ $1 = ($1_ltype)$input; %}
%typemap(freearg) const char * ""
%typemap(out) SWIGTYPE *, const char * %{ $result = (void *)$1; %}
%typemap(csout, excode=SWIGEXCODE) SWIGTYPE *, const char * { return $imcall; }
%typemap(imtype) moert_progress_fn "global::System.IntPtr"
%typemap(cstype) moert_progress_fn "global::System.IntPtr"

// 64 bits are long and ulong on every system.
%apply long long { int64_t };
%apply unsigned long long { uint64_t };

%define MOERT_HANDLE(NAME, CLASS)
%ignore moert_##NAME##_release;
%typemap(imtype) moert_##NAME *, const moert_##NAME * "CLASS"
%typemap(cstype) moert_##NAME *, const moert_##NAME * "CLASS"
%typemap(csin) moert_##NAME *, const moert_##NAME * "NativeHandle.Open($csinput)"
%inline %{
static void moert_##NAME##_drop(void *address) { moert_##NAME##_release((moert_##NAME *)address); }
%}
%enddef
MOERT_HANDLE(runtime, RuntimeHandle)
MOERT_HANDLE(device, DeviceHandle)
MOERT_HANDLE(stream, StreamHandle)
MOERT_HANDLE(event, EventHandle)
MOERT_HANDLE(manifest, ManifestHandle)
MOERT_HANDLE(layer, LayerHandle)
MOERT_HANDLE(gate, GateHandle)
MOERT_HANDLE(router, RouterHandle)
MOERT_HANDLE(optimizer, OptimizerHandle)

// SafeHandles count references themselves; only memory needs one of its device.
%ignore moert_runtime_retain;
%ignore moert_stream_retain;
%ignore moert_event_retain;
%ignore moert_manifest_retain;
%ignore moert_layer_retain;
%ignore moert_gate_retain;
%ignore moert_router_retain;
%ignore moert_optimizer_retain;
%ignore moert_device_free;
%inline %{
static void moert_stream_finish(void *stream) {
  moert_stream_synchronize((moert_stream *)stream, NULL);
}
static void moert_buffer_drop(void *device, void *memory) {
  moert_device_free((moert_device *)device, memory);
  moert_device_release((moert_device *)device);
}
%}
