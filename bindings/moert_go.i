// SPDX-License-Identifier: Apache-2.0
// Go's view: flat functions of the internal package capi, which package moert wraps. Handles and
// functions are addresses, other pointers are unsafe.Pointer.
%insert(cgo_comment_typedefs) %{
#cgo LDFLAGS: -lmoert
%}

// moert_layer_forward -> MoertLayerForward
%rename("%(camelcase)s", %$isfunction) "";

%typemap(gotype) int32_t, moert_status "int32"
%typemap(gotype) uint32_t "uint32"
%typemap(gotype) int64_t "int64"
%typemap(gotype) uint64_t "uint64"

%typemap(gotype) SWIGTYPE *, SWIGTYPE **, const char * "unsafe.Pointer"
%typemap(in) SWIGTYPE *, SWIGTYPE **, const char * %{ $1 = ($1_ltype)$input; %}
%typemap(freearg) const char * ""
%typemap(out) SWIGTYPE * %{ $result = (void *)$1; %}

%define MOERT_HANDLE(NAME)
%typemap(gotype) moert_##NAME *, const moert_##NAME * "uintptr"
%typemap(in) moert_##NAME *, const moert_##NAME * %{ $1 = ($1_ltype)$input; %}
%enddef
MOERT_HANDLE(runtime)
MOERT_HANDLE(device)
MOERT_HANDLE(stream)
MOERT_HANDLE(event)
MOERT_HANDLE(manifest)
MOERT_HANDLE(layer)
MOERT_HANDLE(gate)
MOERT_HANDLE(router)
MOERT_HANDLE(optimizer)

%typemap(gotype) moert_progress_fn, void *user_data "uintptr"
%typemap(in) moert_progress_fn, void *user_data %{ $1 = ($1_ltype)$input; %}

// Strings that the library owns are copied at once. (SWIG's own typemap fails `go vet`.)
%typemap(gotype) const char *moert_version_string, const char *moert_family_names,
                 const char *moert_status_name, const char *moert_dtype_name "string"
%typemap(imtype) const char *moert_version_string, const char *moert_family_names,
                 const char *moert_status_name, const char *moert_dtype_name "*byte"
%typemap(out) const char * %{ $result = (void *)$1; %}
%typemap(goout) const char * %{ $result = C.GoString((*C.char)(unsafe.Pointer($1))) %}

// A status becomes an error: null, or a copy of the moert_error that Go frees. It is taken within
// the same C call.
%typemap(in, numinputs=0) moert_error *error (moert_error failure) %{
  memset(&failure, 0, sizeof(failure));
  $1 = &failure;
%}
%typemap(gotype) moert_status "error"
%typemap(imtype) moert_status "*byte"
%typemap(out) moert_status %{ $result = NULL; %}
%typemap(argout) moert_error *error %{
  if (result != MOERT_STATUS_OK) _swig_go_result = (void *)moert_go_failure(result, $1);
%}
%typemap(goout) moert_status %{ $result = takeError($1) %}
%typemap(gotype) moert_status status "int32"
%typemap(imtype) moert_status status "int32"
%typemap(in) moert_status status %{ $1 = $input; %}
%{
static moert_error *moert_go_failure(moert_status code, const moert_error *error) {
  moert_error *copy = (moert_error *)malloc(sizeof(moert_error));
  if (!copy) abort(); /* As cgo's own C.malloc. */
  *copy = *error;
  copy->code = code;
  return copy;
}
%}
