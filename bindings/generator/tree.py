# SPDX-License-Identifier: Apache-2.0
"""Reads the declarations of moert.h out of the parse tree that SWIG writes with -xmlout.

Types arrive in SWIG's notation, outermost first: p.q(const).char is `const char*`, a(4).float is
`float[4]`, p.f(p.void,int).void is a pointer to a function.
"""
import dataclasses
import re
import xml.etree.ElementTree as ElementTree

PREFIX = "moert_"


@dataclasses.dataclass
class Scalar:
    name: str  # a C type name, `void` included
    const: bool = False


@dataclasses.dataclass
class Pointer:
    to: object
    const: bool = False  # the pointer itself, not what it points to


@dataclasses.dataclass
class Array:
    of: object
    count: int


@dataclasses.dataclass
class Function:
    result: object
    parameters: list


@dataclasses.dataclass
class Variable:
    """A field of a struct or a parameter of a function."""
    name: str
    type: object
    doc: list


@dataclasses.dataclass
class Constant:
    name: str
    value: int
    doc: list


@dataclasses.dataclass
class Enum:
    name: str  # without the prefix and the _e
    items: list
    doc: list
    typed: bool  # whether `typedef int32_t moert_NAME` names its values; flags have none

    @property
    def item_prefix(self):
        return f"MOERT_{self.name.upper()}_"


@dataclasses.dataclass
class Struct:
    name: str
    fields: list
    doc: list

    @property
    def short_name(self):
        return self.name[len(PREFIX):]


@dataclasses.dataclass
class Declared:
    """A function, or with kind `typedef` the type of a callback."""
    name: str
    type: Function
    names: list
    doc: list

    @property
    def parameters(self):
        return [Variable(n, t, []) for n, t in zip(self.names, self.type.parameters)]


def split(text):
    """Splits at the commas that no parentheses enclose."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p for p in parts + [text[start:]] if p]


def parse_type(text):
    if text.startswith("p.f(") or text.startswith("f("):
        text = text[2:] if text.startswith("p.") else text
        depth, end = 0, 1
        while True:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
            if depth == 0:
                break
        parameters = [parse_type(p) for p in split(text[2:end - 1])]
        if parameters == [Scalar("void")]:
            parameters = []
        return Function(parse_type(text[end + 1:]), parameters)
    if text.startswith("p."):
        return Pointer(parse_type(text[2:]))
    if match := re.match(r"a\((\d+)\)\.", text):
        return Array(parse_type(text[match.end():]), int(match[1]))
    if text.startswith("q(const)."):
        return dataclasses.replace(parse_type(text[len("q(const)."):]), const=True)
    return Scalar(re.sub(r"^(struct|enum) ", "", text))


def clean_doc(text):
    """Lines of a doc comment without its stars; Doxygen commands as plain words."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in text.strip().split("\n")]
    text = "\n".join(lines)
    text = re.sub(r"@param (\w+)\s+", r"`\1`: ", text)
    text = re.sub(r"@since (\S+)", r"Since \1.", text)
    return text.split("\n") if text else []


def attributes(element):
    found = element.find("attributelist")
    found = [] if found is None else found.findall("attribute")
    return {a.get("name"): a.get("value") for a in found}


def parameter_names(element):
    found = element.find("attributelist")
    parms = None if found is None else found.find("parmlist")
    parms = [] if parms is None else parms.findall("parm")
    return [a["name"] for a in map(attributes, parms) if "name" in a]


class Library:
    """What moert.h declares, each list in the header's order."""

    def __init__(self, path):
        self.constants, self.enums, self.structs = [], [], []
        self.functions, self.callbacks = [], []
        aliases, opaque = {}, {}
        for element in ElementTree.parse(path).getroot().iter():
            if element.tag not in ("cdecl", "enum", "class", "constant"):
                continue
            a = attributes(element)
            name, doc = a.get("name", ""), clean_doc(a.get("doxygen", ""))
            if not name.lower().startswith(PREFIX):
                continue
            if element.tag == "constant":
                self.constants.append(Constant(name, int(a["value"], 0), doc))
            elif element.tag == "enum":
                self.enums.append(self.enum(element, name, doc))
            elif element.tag == "class":
                self.structs.append(Struct(name, self.fields(element), doc))
            elif a.get("kind") == "function":
                type_ = parse_type(a["decl"] + a["type"])
                self.functions.append(Declared(name, type_, parameter_names(element), doc))
            elif a.get("kind") == "typedef" and a["decl"].startswith("p.f("):
                type_ = parse_type(a["decl"] + a["type"])
                self.callbacks.append(Declared(name, type_, parameter_names(element), doc))
            elif a.get("kind") == "typedef" and a["type"] == "struct " + name:
                opaque[name] = doc
            elif a.get("kind") == "typedef":
                aliases[name] = doc
        self.struct_names = {s.name: s for s in self.structs}
        self.handles = [n for n in opaque if n not in self.struct_names]
        for enum in self.enums:
            enum.typed = PREFIX + enum.name in aliases
            enum.doc = enum.doc or aliases.get(PREFIX + enum.name, [])
        self.enum_types = {PREFIX + e.name: e for e in self.enums if e.typed}
        self.callback_names = {c.name: c for c in self.callbacks}

    @staticmethod
    def enum(element, name, doc):
        items = []
        for item in element.findall("enumitem"):
            a = attributes(item)
            value = int(a.get("enumvalue") or a["enumvalueex"], 0)
            items.append(Constant(a["name"], value, clean_doc(a.get("doxygen", ""))))
        return Enum(re.sub(r"_e$", "", name[len(PREFIX):]), items, doc, False)

    @staticmethod
    def fields(element):
        found = []
        for field in element.findall("cdecl"):
            a = attributes(field)
            doc = clean_doc(a.get("doxygen", ""))
            found.append(Variable(a["name"], parse_type(a["decl"] + a["type"]), doc))
        return found

    def flags(self, struct):
        """The flag enum of a struct with `flags`, if it has one of its own."""
        return next((e for e in self.enums if e.name == struct.short_name + "_flag"), None)


# Structs that cross into the languages as values: facts, and settings without pointers into memory
# of the caller. The other structs are handled by hand.
VALUES = ("device_info", "pack_result", "manifest_info", "file_info", "tensor_info", "layer_info",
          "weight_info", "routing", "activation")
# Those that a caller fills as well.
SETTINGS = ("routing", "activation")


@dataclasses.dataclass
class ValueField:
    """One field of a value: how a language shows it."""
    name: str
    kind: str  # flag, bool, number, enum, string, text (char array), list, numbers (array)
    type: object
    doc: list
    extra: object = None  # the flag's constant, the enum, a list's length field, an array's size


def value_fields(library, struct):
    counts = {"shape": "rank", "tensors": "num_tensors"}
    flags = library.flags(struct)
    for field in struct.fields:
        t = field.type
        if field.name in ("struct_size", "reserved", "rank"):
            continue
        if field.name == "flags":
            for item in flags.items:
                name = item.name[len(flags.item_prefix):].lower()
                yield ValueField(name, "flag", t, item.doc, item)
        elif field.name.startswith("has_"):
            yield ValueField(field.name, "bool", t, field.doc or ["Whether there is one."])
        elif isinstance(t, Array):
            kind = "text" if t.of.name == "char" else "numbers"
            yield ValueField(field.name, kind, t, field.doc, t.count)
        elif isinstance(t, Pointer):
            kind = "string" if t.to.name == "char" else "list"
            yield ValueField(field.name, kind, t, field.doc, counts.get(field.name))
        elif t.name in library.enum_types:
            yield ValueField(field.name, "enum", t, field.doc, library.enum_types[t.name])
        else:
            yield ValueField(field.name, "number", t, field.doc)


def pascal(name, acronyms={}):
    """layer_info -> LayerInfo; `acronyms` spells words that differ."""
    return "".join(acronyms.get(w.upper(), w.capitalize()) for w in name.split("_"))
