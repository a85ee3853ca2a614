// SPDX-License-Identifier: BSD-3-Clause
//! Links libucp: from the directory that CAUSEWAY_LIB_DIR names, else from where pkg-config says that `ucx` is, else
//! from where the linker looks by itself.

use std::process::Command;

/// What pkg-config says; None without pkg-config, or if it does not know `ucx`.
fn from_pkg_config() -> Option<String> {
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let output = Command::new(program).args(["--variable=libdir", "ucx"]).output().ok()?;
    let directory = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !directory.is_empty()).then(|| directory)
}

fn main() {
    for variable in ["CAUSEWAY_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if let Ok(directory) = std::env::var("CAUSEWAY_LIB_DIR") {
        println!("cargo:rustc-link-search=native={directory}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{directory}");
    } else if let Some(directory) = from_pkg_config() {
        println!("cargo:rustc-link-search=native={directory}");
    }
    println!("cargo:rustc-link-lib=dylib=ucp");
    println!("cargo:rustc-link-lib=dylib=ucs");
}
