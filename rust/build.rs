// SPDX-License-Identifier: BSD-3-Clause
//! Links libucp: from the directory that CAUSEWAY_LIB_DIR names, or from where the linker looks by itself.

fn main() {
    println!("cargo:rerun-if-env-changed=CAUSEWAY_LIB_DIR");
    if let Ok(directory) = std::env::var("CAUSEWAY_LIB_DIR") {
        println!("cargo:rustc-link-search=native={directory}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{directory}");
    }
    println!("cargo:rustc-link-lib=dylib=ucp");
    println!("cargo:rustc-link-lib=dylib=ucs");
}
