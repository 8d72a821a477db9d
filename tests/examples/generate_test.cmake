# SPDX-License-Identifier: Apache-2.0
# Runs the text generator as a user does: cmake -DGENERATE=program -DMODEL=folder -P generate_test.cmake
cmake_minimum_required(VERSION 3.25)

# Runs it with `ARGN`; expects the exit code, and leaves what it printed in `out` and `err`.
macro(run expected_code)
  execute_process(COMMAND ${GENERATE} ${MODEL} --device cpu ${ARGN} RESULT_VARIABLE code
                  OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code STREQUAL "${expected_code}")
    message(FATAL_ERROR "generate ${ARGN} ended with ${code}, not ${expected_code}:\n${out}${err}")
  endif()
endmacro()

function(expect condition_text)
  if(NOT (${ARGN}))
    message(FATAL_ERROR "expected ${condition_text}; printed:\n${out}\n${err}")
  endif()
endfunction()

# It packs the checkpoint when there is no manifest, and logits and text equal the reference.
file(REMOVE ${MODEL}/model.moem)
run(0 --check ${MODEL}/reference.json)
expect("a manifest was written" EXISTS ${MODEL}/model.moem)

# What it prints is the reference's text, to the byte, and a line end.
file(READ ${MODEL}/reference.json json)
string(JSON prompt GET "${json}" prompt)
string(JSON text GET "${json}" greedy)
string(LENGTH "${prompt}" prompt_length)
string(LENGTH "${text}" text_length)
math(EXPR tokens "${text_length} - ${prompt_length}")
run(0 --prompt "${prompt}" --tokens ${tokens})
expect("the reference's text" "${out}" STREQUAL "${text}\n")
expect("the speed" "${err}" MATCHES "[0-9]+ tokens/s")
foreach(layer 0 1 2 3)
  expect("the experts of layer ${layer}" "${err}" MATCHES "layer ${layer} [^\n]*( +[0-9]+\\.[0-9]){8}\n")
endforeach()

# A seed fixes the random choice.
run(0 --tokens 60 --temperature 1 --seed 7)
set(first "${out}")
run(0 --tokens 60 --temperature 1 --seed 7)
expect("the same text for the same seed" "${out}" STREQUAL "${first}")
run(0 --tokens 60 --temperature 1 --seed 8)
expect("another text for another seed" NOT "${out}" STREQUAL "${first}")

# The other dtype runs; the whole context can be filled, and no more.
run(0 --tokens 20 --dtype bf16)
run(0 --prompt x --tokens 1023)
run(1 --prompt x --tokens 1024)
expect("the room that is left" "${err}" MATCHES "--tokens 1024 is too many.*1023 of its 1024")

# What cannot be done is said in a line.
run(1 --device abacus)
expect("the device's name in the message" "${err}" MATCHES "^generate: [^\n]*abacus[^\n]*\n$")
run(1 --check ${MODEL}/absent.json)
expect("the file's name in the message" "${err}" MATCHES "^generate: [^\n]*absent.json[^\n]*\n$")
