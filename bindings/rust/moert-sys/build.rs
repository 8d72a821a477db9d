// SPDX-License-Identifier: Apache-2.0
//! Tells cargo where libmoert is: the folder in MOERT_LIB_DIR, else what pkg-config says, else the
//! linker's own search path.
use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=MOERT_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Some(dir) = env::var("MOERT_LIB_DIR").ok().or_else(pkg_config) {
        println!("cargo:rustc-link-search=native={}", dir);
    }
    println!("cargo:rustc-link-lib=dylib=moert");
}

fn pkg_config() -> Option<String> {
    let output = Command::new("pkg-config").args(["--variable=libdir", "moert"]).output().ok()?;
    let dir = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !dir.is_empty()).then(|| dir)
}
