-- SPDX-License-Identifier: Apache-2.0
-- Makes an MoE layer from plain arrays and runs it, from LuaJIT. What functions and structs look like
-- is read from moert.h itself.
--   luajit luajit_ffi.lua LIBRARY HEADER      e.g. libmoert.so.0 include/moert/moert.h
local ffi = require("ffi")

-- The declarations of the header: without comments, preprocessor lines and the C++ bracket.
local function declarations(path)
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  text = text:gsub("/%*.-%*/", "")
  text = ("\n" .. text):gsub("\\\n", " "):gsub("\n%s*#[^\n]*", "\n")
  text = text:gsub('extern "C" {', ""):gsub("\n}%s*$", "\n"):gsub("MOERT_API", "")
  return text
end

local library_path, header_path = arg[1], arg[2]
if not header_path then
  io.stderr:write("usage: luajit luajit_ffi.lua LIBRARY HEADER\n")
  os.exit(1)
end
ffi.cdef(declarations(header_path))
local moert = ffi.load(library_path)

-- A struct that begins with struct_size; what `fields` leaves out is zero, its default.
local function struct(name, fields)
  local value = ffi.new(name)
  value.struct_size = ffi.sizeof(name)
  for key, field in pairs(fields or {}) do value[key] = field end
  return value
end

-- Calls a function of the library; a failure is raised with its message.
local function call(name, ...)
  local err = struct("moert_error")
  local arguments = {...}
  arguments[select("#", ...) + 1] = err
  if moert["moert_" .. name](unpack(arguments, 1, select("#", ...) + 1)) ~= 0 then
    error(ffi.string(err.message), 0)
  end
end

-- Calls a function that makes a handle. The garbage collector releases it, in whatever order.
local function create(kind, name, ...)
  local out = ffi.new("moert_" .. kind .. "*[1]")
  local arguments = {...}
  arguments[select("#", ...) + 1] = out
  call(name, unpack(arguments, 1, select("#", ...) + 1))
  return ffi.gc(out[0], moert["moert_" .. kind .. "_release"])
end

-- Two experts, hidden 2, intermediate 1. Each is y = down * max(up . x, 0)^2, and a token goes to the
-- expert whose row of the router it agrees with more.
local router = ffi.new("float[4]", {1, 0, 0, 1}) -- [experts, hidden]
local up = ffi.new("float[4]", {1, 0, 0, 1})     -- [experts][1, hidden]
local down = ffi.new("float[4]", {1, 2, -1, 1})  -- [experts][hidden, 1]

local function make_layer(device)
  local weights = ffi.new("moert_weight[3]")
  for i, weight in ipairs({
    {role = ffi.C.MOERT_ROLE_ROUTER, rows = 2, cols = 2, data = router},
    {role = ffi.C.MOERT_ROLE_EXPERT_UP, rows = 1, cols = 2, data = up},
    {role = ffi.C.MOERT_ROLE_EXPERT_DOWN, rows = 2, cols = 1, data = down},
  }) do
    weight.dtype = ffi.C.MOERT_DTYPE_FLOAT32
    weights[i - 1] = struct("moert_weight", weight)
  end
  local routing = struct("moert_routing", {
    num_experts = 2, top_k = 1, renormalize = ffi.C.MOERT_RENORMALIZE_SUM})
  local activation = struct("moert_activation", {
    kind = ffi.C.MOERT_ACTIVATION_KIND_RELU2, flags = ffi.C.MOERT_ACTIVATION_FLAG_UNGATED})
  -- Not a tail call: the locals that desc points to must live until it is done.
  local layer = create("layer", "layer_create", device, struct("moert_layer_desc", {
    hidden = 2, intermediate = 1, routing = routing, activation = activation,
    weights = weights, num_weights = 3}))
  return layer
end

local function matrix(data, rows, cols, dtype)
  local view = ffi.new("moert_matrix")
  moert.moert_matrix_init(view, data, rows, cols, dtype)
  return view
end

local function main()
  print("moert " .. ffi.string(moert.moert_version_string()))
  local runtime = create("runtime", "runtime_create", nil)
  local device = create("device", "device_create", runtime, "cpu", nil)
  local stream = create("stream", "stream_create", device, nil)
  local layer = make_layer(device)

  local x = ffi.new("float[6]", {3, 1, 1, 2, -1, -2})
  local y = ffi.new("float[6]")
  local ids = ffi.new("int32_t[3]")
  local x_view = matrix(x, 3, 2, ffi.C.MOERT_DTYPE_FLOAT32)
  local y_view = matrix(y, 3, 2, ffi.C.MOERT_DTYPE_FLOAT32)
  local ids_view = matrix(ids, 3, 1, ffi.C.MOERT_DTYPE_INT32)
  local args = struct("moert_layer_forward_args", {x = x_view, y = y_view, ids = ids_view})
  local scratch = ffi.new("uint64_t[1]")
  call("layer_workspace_size", layer, args, scratch)
  call("stream_reserve", stream, scratch[0])
  call("layer_forward", layer, stream, args)
  call("stream_synchronize", stream)
  for t = 0, 2 do
    print(("x (%g, %g) -> expert %d -> y (%g, %g)"):format(
      x[2 * t], x[2 * t + 1], ids[t], y[2 * t], y[2 * t + 1]))
  end
end

local ok, message = pcall(main)
if not ok then
  io.stderr:write("luajit_ffi: " .. tostring(message) .. "\n")
  os.exit(1)
end
