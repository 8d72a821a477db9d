#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the text generator as a user does: generate_test.py PROGRAM MODEL_DIR"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

program, source = sys.argv[1:]


def expect(condition, what, printed):
    if not condition:
        sys.exit(f"expected {what}; printed:\n{printed}")


def run(*arguments, code=0):
    """Runs the generator on the CPU; returns what went to standard output and to standard error."""
    device = () if "--device" in arguments else ("--device", "cpu")
    done = subprocess.run([program, model, *device, *arguments], capture_output=True)
    out, err = done.stdout, done.stderr.decode()
    expect(done.returncode == code, f"exit code {code} of {arguments}, not {done.returncode}",
           out.decode(errors="replace") + err)
    return out, err


def test_packs_and_equals_the_reference():
    run("--check", f"{model}/reference.json")
    expect(os.path.exists(f"{model}/model.moem"), "a manifest", os.listdir(model))


def test_check_notices_a_wrong_reference():
    wrong = dict(reference, greedy=reference["greedy"][:-1] + "#")
    with open(f"{model}/wrong.json", "w") as file:
        json.dump(wrong, file)
    out, err = run("--check", f"{model}/wrong.json", code=1)
    expect(b"DIFFERS" in out, "the difference", out)


def test_prints_the_text_to_the_byte_then_speed_and_experts():
    prompt, text = reference["prompt"], reference["greedy"]
    out, err = run("--prompt", prompt, "--tokens", str(len(text) - len(prompt)))
    expect(out == text.encode() + b"\n", "the reference's text", out)
    expect(re.search(r"[0-9]+ tokens/s", err), "the speed", err)
    for layer in range(4):
        shares = re.search(rf"^layer {layer} +\S+((?: +[0-9.]+){{8}})$", err, re.MULTILINE)
        expect(shares, f"the experts of layer {layer}", err)
        total = sum(map(float, shares[1].split()))
        expect(abs(total - 100) < 0.5, f"shares of layer {layer} that sum to 100", err)


def test_a_seed_fixes_the_random_choice():
    first, second, other = (run("--tokens", "60", "--temperature", "1", "--seed", seed)[0]
                            for seed in ("7", "7", "8"))
    expect(first == second, "the same text for the same seed", first + second)
    expect(first != other, "another text for another seed", first + other)


def test_the_whole_context_can_be_filled_and_no_more():
    run("--prompt", "x", "--tokens", "1023")
    out, err = run("--prompt", "x", "--tokens", "1024", code=1)
    expect("--tokens 1024 is too many" in err and "1023 of its 1024" in err, "the room left", err)


def test_runs_in_bfloat16():
    out, err = run("--tokens", "20", "--dtype", "bf16")
    expect(len(out) == len(reference["prompt"]) + 21, "20 more bytes", out)


def test_says_in_a_line_what_cannot_be_done():
    for arguments, word in [(("--device", "abacus"), "abacus"),
                            (("--check", f"{model}/absent.json"), "absent.json")]:
        out, err = run(*arguments, code=1)
        expect(re.fullmatch(rf"generate: .*{word}.*\n", err), f"a line that names {word}", err)


def test_refuses_options_that_make_no_sense():
    for arguments in [("--tokens", "-1"), ("--temperature", "-1"), ("--dtype", "f8"),
                      ("--prompt", ""), ("--tokenz", "1")]:
        out, err = run(*arguments, code=1)
        expect(arguments[0] in err and not out, f"an error that names {arguments[0]}", err)


with tempfile.TemporaryDirectory() as model:
    for name in ("config.json", "model.safetensors", "reference.json", "reference.safetensors"):
        shutil.copy(os.path.join(source, name), model)
    with open(f"{model}/reference.json") as file:
        reference = json.load(file)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
