#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes all generated code of the bindings.

    generate.py            in place
    generate.py --check    into a scratch folder; fails if what is checked in differs

SWIG 4.1 reads moert.i. It wraps the functions for Go and C#; for Rust, which it does not know, and
for documented enums and structs, generator/ writes code from SWIG's parse tree. Needs swig, gofmt
and rustfmt.
"""
import argparse
import difflib
import pathlib
import subprocess
import sys
import tempfile

BINDINGS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BINDINGS / "generator"))
sys.dont_write_bytecode = True
import csharp  # noqa: E402
import go  # noqa: E402
import rust  # noqa: E402
import tree  # noqa: E402

# What generator/ writes.
FILES = {
    "rust/moert-sys/src/bindings.rs": rust.bindings,
    "rust/moert/src/enums.rs": rust.enums,
    "rust/moert/src/values.rs": rust.values,
    "go/internal/capi/types.go": go.types,
    "go/enums.go": go.enums,
    "go/values.go": go.values,
    "csharp/Moert/Generated/Structs.cs": csharp.structs,
    "csharp/Moert/Generated/Enums.cs": csharp.enums,
    "csharp/Moert/Generated/Values.cs": csharp.values,
}
# What SWIG writes.
GO = ("go/internal/capi/capi.go", "go/internal/capi/capi_wrap.c")
CSHARP = ("csharp/Moert/Generated/MoertNative.cs",
          "csharp/Moert/Generated/MoertNativePINVOKE.cs", "csharp/native/moert_csharp.c")


def run(*command):
    subprocess.run([str(c) for c in command], check=True)


def swig(*arguments):
    # From the bindings' folder, so that no path of this machine gets into the output.
    subprocess.run(["swig", "-Werror", "-I../include", *map(str, arguments), "moert.i"],
                   cwd=BINDINGS, check=True)


def generate(root):
    for name in (*FILES, *GO, *CSHARP):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        xml = pathlib.Path(scratch) / "tree.xml"
        # 451: assigning to a string of a struct, which no wrapper here does.
        swig("-DMOERT_TREE", "-w451", "-java", "-doxygen", "-xmlout", xml, "-outdir", scratch,
             "-o", pathlib.Path(scratch) / "wrap.c")
        library = tree.Library(xml)
    for name, write in FILES.items():
        (root / name).write_text("".join(write(library)), encoding="utf-8")
    go_dir = root / "go/internal/capi"
    swig("-go", "-cgo", "-intgosize", "64", "-package", "capi", "-module", "capi",
         "-outdir", go_dir, "-o", go_dir / "capi_wrap.c")
    cs_dir = root / "csharp/Moert/Generated"
    # 314: a parameter called `out` is renamed. The helpers left out keep global state.
    swig("-csharp", "-w314", "-DSWIG_CSHARP_NO_EXCEPTION_HELPER", "-DSWIG_CSHARP_NO_STRING_HELPER",
         "-DSWIG_CSHARP_NO_IMCLASS_STATIC_CONSTRUCTOR", "-module", "MoertNative",
         "-namespace", "Moert", "-dllimport", "moert_csharp", "-outdir", cs_dir,
         "-o", root / "csharp/native/moert_csharp.c")
    run("gofmt", "-w", *(root / n for n in (*FILES, *GO) if n.endswith(".go")))
    config = BINDINGS / "rust/rustfmt.toml"
    rust_files = [root / n for n in FILES if n.endswith(".rs")]
    run("rustfmt", "--edition", "2021", "--config-path", config, *rust_files)


def differences(root):
    for name in (*FILES, *GO, *CSHARP):
        old, new = BINDINGS / name, root / name
        old_lines = old.read_text(encoding="utf-8").splitlines() if old.exists() else []
        new_lines = new.read_text(encoding="utf-8").splitlines()
        yield from difflib.unified_diff(old_lines, new_lines, name, "generated", lineterm="")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if the checked-in code differs")
    if not parser.parse_args().check:
        generate(BINDINGS)
        return
    with tempfile.TemporaryDirectory() as scratch:
        generate(pathlib.Path(scratch))
        found = list(differences(pathlib.Path(scratch)))
    print("\n".join(found[:100]) if found else "the generated code is up to date")
    sys.exit(1 if found else 0)


main()
