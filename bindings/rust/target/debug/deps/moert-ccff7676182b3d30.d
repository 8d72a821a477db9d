/work/main/bindings/rust/target/debug/deps/moert-ccff7676182b3d30.rmeta: moert/src/lib.rs moert/src/buffer.rs moert/src/device.rs moert/src/element.rs moert/src/enums.rs moert/src/error.rs moert/src/gate.rs moert/src/handle.rs moert/src/layer.rs moert/src/manifest.rs moert/src/matrix.rs moert/src/router.rs moert/src/routing.rs moert/src/runtime.rs moert/src/stream.rs moert/src/text.rs moert/src/values.rs

/work/main/bindings/rust/target/debug/deps/moert-ccff7676182b3d30.d: moert/src/lib.rs moert/src/buffer.rs moert/src/device.rs moert/src/element.rs moert/src/enums.rs moert/src/error.rs moert/src/gate.rs moert/src/handle.rs moert/src/layer.rs moert/src/manifest.rs moert/src/matrix.rs moert/src/router.rs moert/src/routing.rs moert/src/runtime.rs moert/src/stream.rs moert/src/text.rs moert/src/values.rs

moert/src/lib.rs:
moert/src/buffer.rs:
moert/src/device.rs:
moert/src/element.rs:
moert/src/enums.rs:
moert/src/error.rs:
moert/src/gate.rs:
moert/src/handle.rs:
moert/src/layer.rs:
moert/src/manifest.rs:
moert/src/matrix.rs:
moert/src/router.rs:
moert/src/routing.rs:
moert/src/runtime.rs:
moert/src/stream.rs:
moert/src/text.rs:
moert/src/values.rs:

# env-dep:CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
