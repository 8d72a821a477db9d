#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless every exported function is used by the own API of each language or is in
left_out.txt for it, and unless that list is exact; or if a name that SWIG made up is public, or the
C# project leaves out a source or puts native libraries elsewhere than NuGet looks.

    check_coverage.py tests/abi/symbols.txt
"""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

BINDINGS = pathlib.Path(__file__).resolve().parent
LANGUAGES = ("rust", "go", "csharp")


def words(paths):
    text = "\n".join(p.read_text(encoding="utf-8") for p in paths)
    return set(re.findall(r"\w+", re.sub(r"//.*", "", text)))


def camel_case(symbol):
    return "".join(word.capitalize() for word in symbol.split("_"))


def used(symbols):
    """For each language the symbols that its own code names."""
    rust = words((BINDINGS / "rust/moert/src").glob("*.rs"))
    go = words(p for p in (BINDINGS / "go").glob("*.go") if not p.name.endswith("_test.go"))
    csharp = words((BINDINGS / "csharp/Moert").glob("*.cs"))
    # What the small functions of moert_csharp.i call.
    wrapper = (BINDINGS / "csharp/native/moert_csharp.c").read_text(encoding="utf-8")
    functions = r"^static void (moert_\w+)\(.*?\) \{(.*?)\}$"
    for name, body in re.findall(functions, wrapper, re.S | re.M):
        if name in csharp:
            csharp |= set(re.findall(r"\w+", body))
    return {
        "rust": {s for s in symbols if s in rust},
        "go": {s for s in symbols if camel_case(s) in go},
        "csharp": {s for s in symbols if s in csharp},
    }


def left_out():
    """For each language the symbols that left_out.txt excuses."""
    found = {language: set() for language in LANGUAGES}
    languages = []
    for line in (BINDINGS / "left_out.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            for language in languages:
                found[language].add(line.strip())
        elif line and not line.startswith("#"):
            names, reason = line.split(": ", 1)
            languages = names.split()
            if not reason or not set(languages) <= set(LANGUAGES):
                sys.exit(f"left_out.txt: {line!r} is not LANGUAGES: REASON")
    return found


def made_up_names():
    for path in [*(BINDINGS / "go").glob("*.go"), *(BINDINGS / "csharp/Moert").rglob("*.cs")]:
        if re.search(r"SWIGTYPE|_SS_", path.read_text(encoding="utf-8")):
            yield path.relative_to(BINDINGS)


def project_problems():
    folder = BINDINGS / "csharp/Moert"
    project = xml.etree.ElementTree.parse(folder / "Moert.csproj")
    patterns = [p for c in project.iter("Compile") for p in c.get("Include").split(";")]
    left = set(folder.rglob("*.cs")) - {path for p in patterns for path in folder.glob(p)}
    yield from (f"Moert.csproj: lacks {path.name}" for path in sorted(left))
    native = [n.attrib for n in project.iter("None")]
    if native != [{"Include": "runtimes/**", "Pack": "true", "PackagePath": "runtimes"}]:
        yield f"Moert.csproj: {native} does not pack runtimes/RID/native"
    version = project.findtext(".//Version")
    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    if package["version"] != version:
        yield f"package.json: version {package['version']}, but {version} in Moert.csproj"
    if not json.loads((folder / "Moert.asmdef").read_text(encoding="utf-8"))["allowUnsafeCode"]:
        yield "Moert.asmdef: does not allow unsafe code"


def main():
    lines = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    symbols = {line.split()[0] for line in lines if line.startswith("moert_")}
    uses, excuses, problems = used(symbols), left_out(), []
    for language in LANGUAGES:
        use, excuse = uses[language], excuses[language]
        for wrong, what in ((symbols - use - excuse, "is neither used nor in left_out.txt"),
                            (excuse & use, "is in left_out.txt but used"),
                            (excuse - symbols, "is in left_out.txt but not exported")):
            problems += [f"{language}: {symbol} {what}" for symbol in sorted(wrong)]
    problems += [f"{path}: a name that SWIG made up" for path in made_up_names()]
    problems += project_problems()
    print("\n".join(problems) or f"{len(symbols)} functions: used, or left out with a reason")
    sys.exit(1 if problems else 0)


main()
