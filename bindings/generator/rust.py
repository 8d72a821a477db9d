# SPDX-License-Identifier: Apache-2.0
"""Writes Rust: the whole C ABI for the crate moert-sys; enums and plain values for moert."""
import re

from tree import SETTINGS, VALUES, Array, Function, Pointer, Scalar, pascal, value_fields

HEADER = "// Written by bindings/generate.py from moert.h. Do not edit.\n"
SCALARS = {"char": "c_char", "void": "c_void", "float": "f32", "double": "f64", "int32_t": "i32",
           "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64"}


def docs(lines, indent=""):
    """Doc comments; brackets outside of code are no links."""
    text = "\n".join(lines)
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\[\]])", r"\\\1", part) for part in parts[::2]]
    lines = "`".join(parts).split("\n") if text else []
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in lines)


def raw(t):
    """The type as moert-sys spells it."""
    if isinstance(t, Pointer):
        const = not isinstance(t.to, Function) and t.to.const
        return f"*{'const' if const else 'mut'} {raw(t.to)}"
    if isinstance(t, Array):
        return f"[{raw(t.of)}; {t.count}]"
    if isinstance(t, Function):
        parameters = ", ".join(raw(p) for p in t.parameters)
        return f"Option<unsafe extern \"C\" fn({parameters}){arrow(t)}>"
    return SCALARS.get(t.name, t.name)


def arrow(function):
    void = function.result == Scalar("void")
    return "" if void else f" -> {raw(function.result)}"


def parameters(declared):
    return ", ".join(f"{p.name}: {raw(p.type)}" for p in declared.parameters)


# moert-sys


def bindings(library):
    yield HEADER + "use std::os::raw::{c_char, c_void};\n"
    for c in library.constants:
        yield f"\n{docs(c.doc)}pub const {c.name}: u32 = {c.value};\n"
    for e in library.enums:
        type_ = "u32"
        if e.typed:
            type_ = f"moert_{e.name}"
            yield f"\n{docs(e.doc)}pub type {type_} = i32;\n"
        else:
            yield "\n"
        for item in e.items:
            yield f"{docs(item.doc)}pub const {item.name}: {type_} = {item.value};\n"
    for name in library.handles:
        yield (f"\n#[repr(C)]\npub struct {name} {{\n    _opaque: [u8; 0],\n"
               "    _marker: std::marker::PhantomData<*mut u8>,\n}\n")
    for c in library.callbacks:
        yield f"\n{docs(c.doc)}pub type {c.name} = {raw(c.type)};\n"
    for s in library.structs:
        yield from raw_struct(s)
    yield '\nextern "C" {\n'
    for f in library.functions:
        yield f"{docs(f.doc, '    ')}    pub fn {f.name}({parameters(f)}){arrow(f.type)};\n"
    yield "}\n"
    yield from layout_test(library)


def raw_struct(s):
    yield f"\n{docs(s.doc)}#[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct {s.name} {{\n"
    for field in s.fields:
        yield f"{docs(field.doc, '    ')}    pub {field.name}: {raw(field.type)},\n"
    yield f"}}\n\nimpl Default for {s.name} {{\n    fn default() -> Self {{\n"
    yield "        // SAFETY: numbers, pointers and optional functions may all be zero.\n"
    if s.fields[0].name == "struct_size":
        yield ("        let mut value: Self = unsafe { std::mem::zeroed() };\n"
               "        value.struct_size = std::mem::size_of::<Self>() as u32;\n        value\n")
    else:
        yield "        unsafe { std::mem::zeroed() }\n"
    yield "    }\n}\n"


def layout_test(library):
    yield ("\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n"
           "    fn structs_are_as_large_as_the_librarys() {\n")
    inits = {f.name for f in library.functions}
    for s in library.structs:
        if s.name + "_init" in inits and s.fields[0].name == "struct_size":
            yield (f"        let mut value = {s.name} {{ struct_size: 0, ..Default::default() }};\n"
                   f"        unsafe {{ {s.name}_init(&mut value) }};\n"
                   "        assert_eq!(value.struct_size as usize, "
                   f"std::mem::size_of::<{s.name}>());\n")
    yield "    }\n}\n"


# moert


def enums(library):
    yield HEADER + "use crate::sys;\n"
    for e in library.enums:
        if e.typed:
            yield from enum(e)


def enum(e):
    name = pascal(e.name)
    yield (f"\n{docs(e.doc or [f'{name}.'])}#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n"
           f"#[repr(i32)]\n#[non_exhaustive]\npub enum {name} {{\n")
    for item in e.items:
        variant = pascal(item.name[len(e.item_prefix):])
        doc = item.doc or [f"`{item.name}`."]
        yield f"{docs(doc, '    ')}    {variant} = sys::{item.name},\n"
    yield f"}}\n\nimpl {name} {{\n"
    yield "    /// The value of the C ABI, if this version knows it.\n"
    yield "    pub fn from_raw(raw: i32) -> Option<Self> {\n        Some(match raw {\n"
    for item in e.items:
        variant = pascal(item.name[len(e.item_prefix):])
        yield f"            sys::{item.name} => Self::{variant},\n"
    yield "            _ => return None,\n        })\n    }\n\n"
    yield "    /// The value of the C ABI.\n    pub fn to_raw(self) -> i32 {\n"
    yield "        self as i32\n    }\n}\n"
    if zero := next((i for i in e.items if i.value == 0), None):
        yield (f"\nimpl Default for {name} {{\n    fn default() -> Self {{\n"
               f"        Self::{pascal(zero.name[len(e.item_prefix):])}\n    }}\n}}\n")


def values(library):
    yield HEADER + "use crate::error::{known, Result};\n"
    yield "use crate::text;\nuse crate::{enums::*, sys};\n"
    for s in library.structs:
        if s.short_name in VALUES:
            yield from value(library, s)


def value_type(field):
    simple = {"flag": "bool", "bool": "bool", "text": "String", "string": "String"}
    return simple.get(field.kind) or {
        "enum": lambda: pascal(field.extra.name),
        "number": lambda: raw(field.type),
        "numbers": lambda: raw(field.type),
        "list": lambda: f"Vec<{raw(field.type.to)}>",
    }[field.kind]()


def from_raw(field):
    access = f"raw.{field.name}"
    return {
        "flag": f"raw.flags & sys::{getattr(field.extra, 'name', '')} != 0",
        "bool": f"{access} != 0",
        "number": access,
        "numbers": access,
        "enum": f"known(\"{field.name}\", {access}, {value_type(field)}::from_raw)?",
        "text": f"text::array(&{access})",
        "string": f"text::owned({access})",
        "list": f"text::list({access}, raw.{field.extra} as usize)",
    }[field.kind]


def value(library, s):
    name, fields = pascal(s.short_name), list(value_fields(library, s))
    setting = s.short_name in SETTINGS
    numbers = all(f.kind in ("flag", "bool", "enum", "number", "numbers") for f in fields)
    exact = not any(f.kind == "number" and f.type.name == "float" for f in fields)
    derives = ["Clone"] + (["Copy"] if numbers else []) + ["Debug", "PartialEq"]
    derives += (["Eq"] if exact else []) + (["Default"] if setting else [])
    yield f"\n{docs(s.doc)}#[derive({', '.join(derives)})]\n"
    yield ("" if setting else "#[non_exhaustive]\n") + f"pub struct {name} {{\n"
    for f in fields:
        yield f"{docs(f.doc or [readable(f.name)], '    ')}    pub {f.name}: {value_type(f)},\n"
    yield f"}}\n\nimpl {name} {{\n"
    if not numbers:
        yield "    /// # Safety\n    /// The pointers in `raw` are the library's.\n"
    qualifiers = "pub(crate)" if numbers else "pub(crate) unsafe"
    yield f"    {qualifiers} fn from_raw(raw: &sys::{s.name}) -> Result<Self> {{\n"
    yield "        Ok(Self {\n"
    for f in fields:
        yield f"            {f.name}: {from_raw(f)},\n"
    yield "        })\n    }\n"
    if setting:
        yield from settings(s, fields)
    yield "}\n"


def settings(s, fields):
    yield f"\n    pub(crate) fn to_raw(self) -> sys::{s.name} {{\n"
    flags = [f for f in fields if f.kind == "flag"]
    yield f"        sys::{s.name} {{\n"
    if flags:
        terms = " | ".join(f"self.{f.name} as u32 * sys::{f.extra.name}" for f in flags)
        yield f"            flags: {terms},\n"
    for f in fields:
        if f.kind == "number":
            yield f"            {f.name}: self.{f.name},\n"
        elif f.kind == "enum":
            yield f"            {f.name}: self.{f.name}.to_raw(),\n"
    yield "            ..Default::default()\n        }\n    }\n"
    for f in fields:
        yield (f"\n    /// Sets `{f.name}`.\n    #[must_use]\n"
               f"    pub fn {f.name}(mut self, value: {value_type(f)}) -> Self {{\n"
               f"        self.{f.name} = value;\n        self\n    }}\n")


def readable(name):
    """A doc line for a field that the header does not explain."""
    return re.sub(r"_", " ", name).capitalize() + "."
