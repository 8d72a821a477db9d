/work/main/bindings/rust/target/debug/deps/moert_sys-85e767b4f7c09e8e.rmeta: moert-sys/src/lib.rs moert-sys/src/bindings.rs

/work/main/bindings/rust/target/debug/deps/moert_sys-85e767b4f7c09e8e.d: moert-sys/src/lib.rs moert-sys/src/bindings.rs

moert-sys/src/lib.rs:
moert-sys/src/bindings.rs:

# env-dep:CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
