# SPDX-License-Identifier: Apache-2.0
# A game whose frames feed an MoE layer. Each frame asks whether the layer is done and, if so, checks
# its result and submits the next input; no frame waits for it. Prints how long frames took, then quits.
# After `cmake --build build` and a `moert pack` of the example model, without a display:
#   godot3-server --path build/examples/godot \
#     --manifest=$PWD/examples/tiny-shakespeare-qwen2moe/model.moem [--library=FILE] [--frames=N]
extends Node

const MoertLayer = preload("res://moert_layer.gdns")

# The example model's first layer, for two tokens. Token t has x[h] = (128 t + h) % 7 - 3; the first
# values of its y are from the layer's formula in double precision, apart from moert.
const TOKENS = 2
const HIDDEN = 128
const EXPECTED = [[-0.193, -0.008, -0.345], [0.172, 0.173, -0.022]]
const TOLERANCE = 0.0006

var layer
var inputs = [make_input(0), make_input(1)]
var frames = int(option("frames", "120"))
var submitted = 0
var finished = 0
var in_flight = false
var last_begin = 0
var frame_times = [] # Milliseconds from one frame to the next.
var layer_times = [] # Milliseconds that the layer took of a frame.


# The value of --name=value on the command line.
func option(name, default):
	for argument in OS.get_cmdline_args():
		if argument.begins_with("--%s=" % name):
			return argument.split("=", true, 1)[1]
	return default


# The two tokens, beginning with token `first`.
func make_input(first):
	var x = PoolRealArray()
	for row in TOKENS:
		var token = (first + row) % TOKENS
		for h in HIDDEN:
			x.append((token * HIDDEN + h) % 7 - 3)
	return x


func quit(error):
	if error:
		printerr("moert_layer: ", error)
	set_process(false)
	get_tree().quit(1 if error else 0)


func _ready():
	if frames < 2:
		return quit("--frames takes a number from 2")
	if not MoertLayer.can_instance():
		return quit("the class MoertLayer is not there")
	layer = MoertLayer.new()
	if not layer.open(option("library", ""), option("manifest", ""), 0, TOKENS):
		quit("the layer cannot be opened")


func _process(_delta):
	var begin = OS.get_ticks_usec()
	var error = think()
	layer_times.append((OS.get_ticks_usec() - begin) / 1000.0)
	if last_begin > 0:
		frame_times.append((begin - last_begin) / 1000.0)
	last_begin = begin
	if error:
		return quit(error)
	if layer_times.size() == frames:
		print_summary()
		quit("" if finished > 0 else "no layer finished within the frames")


# The layer's part of a frame: takes a result that is ready, then submits the next input. Inputs take
# turns, so that a result of an earlier frame would be noticed. Returns what is wrong, or "".
func think():
	var y = layer.poll()
	if y != null:
		in_flight = false
		finished += 1
		if not is_expected(y, (finished - 1) % TOKENS):
			return "result %d is not that of its input" % finished
	if not in_flight:
		if not layer.submit(inputs[submitted % TOKENS]):
			return "the layer took no input"
		submitted += 1
		in_flight = true
	return ""


func is_expected(y, first):
	if y.size() != TOKENS * HIDDEN:
		return false
	for row in TOKENS:
		for h in EXPECTED[0].size():
			var error = y[row * HIDDEN + h] - EXPECTED[(first + row) % TOKENS][h]
			if not abs(error) < TOLERANCE:
				return false
	return true


func print_times(name, times):
	times.sort()
	var last = times.size() - 1
	print("%-14s %8.3f %8.3f %8.3f" % [name, times[last / 2], times[last * 99 / 100], times[last]])


func print_summary():
	print("%d frames at %d a second; ms" % [frames, Engine.target_fps])
	print("%-14s %8s %8s %8s" % ["", "median", "99 %", "longest"])
	print_times("frame to frame", frame_times)
	print_times("layer's part", layer_times)
	print("%d layers submitted, %d finished within the frames, results as expected" % [
		submitted, finished])
