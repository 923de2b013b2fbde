//! Finds the installed library: QUIRE_LIB_DIR (the folder with libquire.so), QUIRE_DIR (an installation's prefix), or pkg-config.
//! With the feature `dlopen` nothing is looked for: the library is loaded when the program runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

fn below(prefix: &Path) -> Option<PathBuf> {
    let triplet = env::var("TARGET").unwrap_or_default().replace("-unknown", "");
    ["lib".to_string(), "lib64".to_string(), format!("lib/{}", triplet)]
        .iter()
        .map(|folder| prefix.join(folder))
        .find(|folder| folder.join("libquire.so").exists())
}

fn pkg_config(question: &str) -> Result<PathBuf, String> {
    let tool = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let answer = Command::new(&tool)
        .args(["--print-errors", question, "quire"])
        .output()
        .map_err(|error| format!("{} cannot be run: {}", tool, error))?;
    if answer.status.success() {
        return Ok(PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim()));
    }
    Err(String::from_utf8_lossy(&answer.stderr).trim().to_string())
}

fn libdir() -> Result<PathBuf, String> {
    if let Some(folder) = env::var_os("QUIRE_LIB_DIR") {
        return Ok(PathBuf::from(folder));
    }
    if let Some(prefix) = env::var_os("QUIRE_DIR") {
        let prefix = PathBuf::from(prefix);
        return below(&prefix).ok_or_else(|| format!("QUIRE_DIR: no libquire.so in lib, lib64 or lib/<triplet> of {}", prefix.display()));
    }
    pkg_config("--variable=libdir")
}

fn main() {
    for name in ["QUIRE_LIB_DIR", "QUIRE_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_DLOPEN").is_some() {
        return;
    }
    match libdir() {
        Ok(folder) => {
            println!("cargo:rustc-link-search=native={}", folder.display());
            println!("cargo:rustc-link-lib=dylib=quire");
            println!("cargo:libdir={}", folder.display());
            if let Ok(include) = pkg_config("--variable=includedir") {
                println!("cargo:include={}", include.display());
            }
        }
        Err(reason) => {
            eprintln!("quire-sys: libquire was not found: {}", reason);
            eprintln!("quire-sys: set PKG_CONFIG_PATH to the folder of quire.pc, or QUIRE_DIR to the prefix where quire is installed,");
            eprintln!("quire-sys: or QUIRE_LIB_DIR to the folder of libquire.so, or use the feature `dlopen`");
            exit(1);
        }
    }
}
