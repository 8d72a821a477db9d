// SPDX-License-Identifier: Apache-2.0 The one SWIG interface of the bindings; generate.py runs SWIG
// on it once a language. Go and C# get flat functions over addresses, hidden behind hand-written
// packages. MOERT_TREE asks for the parse tree alone, from which generator/ writes the rest.
%module moert
%{
#include "moert/moert.h"
%}
%include <stdint.i>

// Structs, enums and numbers come from generator/, with their docs.
#if !defined(MOERT_TREE)
%rename("$ignore", %$isclass) "";
%rename("$ignore", %$isenum) "";
%rename("$ignore", %$isenumitem) "";
%rename("$ignore", %$isconstant) "";
#endif

#if defined(SWIGGO)
%include "moert_go.i"
#elif defined(SWIGCSHARP)
%include "moert_csharp.i"
#endif

%include "moert/moert.h"
