//! Finds the library, or builds it. QUIRE_LIB_DIR (the folder of libquire.so), QUIRE_DIR (an installation's prefix) or pkg-config lead to an
//! installed one. With the feature `vendored` cmake builds it here, of the source in `vendor` or in the tree around this crate, as an archive.
//! With the feature `dlopen`, and where docs.rs builds documentation (DOCS_RS), nothing is looked for.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn below(prefix: &Path, file: &str) -> Option<PathBuf> {
    let triplet = variable("TARGET").replace("-unknown", "");
    ["lib".to_string(), "lib64".to_string(), format!("lib/{}", triplet)]
        .iter()
        .map(|folder| prefix.join(folder))
        .find(|folder| folder.join(file).exists())
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
        return below(&prefix, "libquire.so")
            .ok_or_else(|| format!("QUIRE_DIR: no libquire.so in lib, lib64 or lib/<triplet> of {}", prefix.display()));
    }
    pkg_config("--variable=libdir")
}

fn link_installed() -> Result<(), String> {
    let advice = "set PKG_CONFIG_PATH to the folder of quire.pc, or QUIRE_DIR to the prefix where quire is installed, \
        or QUIRE_LIB_DIR to the folder of libquire.so, or use the feature `vendored` or `dlopen`";
    let folder = libdir().map_err(|reason| format!("libquire was not found: {}\n{}", reason, advice))?;
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=quire");
    println!("cargo:libdir={}", folder.display());
    if let Ok(include) = pkg_config("--variable=includedir") {
        println!("cargo:include={}", include.display());
    }
    Ok(())
}

/// The library's source: packaged with this crate, or around it.
fn source() -> Result<PathBuf, String> {
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let places = [own.join("vendor"), own.join("../../..")];
    match places.iter().find(|folder| folder.join("core/CMakeLists.txt").exists()) {
        Some(folder) => Ok(folder.clone()),
        None => Err(format!(
            "there is no source of quire in {}: bindings/rust/vendor.sh of quire's repository puts it there",
            places[0].display()
        )),
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let said = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "cmake is not installed; the feature `vendored` needs cmake 3.25 and a compiler of C++20".to_string()
        }
        _ => format!("{:?} cannot be run: {}", command, error),
    })?;
    if said.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!("{:?} failed\n{}{}", command, text(&said.stdout), text(&said.stderr)))
}

/// What is built: the archive, and modules that need nothing but a compiler. Others are taken where the source has them.
const COMPONENTS: [(&str, &str); 5] = [
    ("quire_static", "static"),
    ("quire_driver_cpu", "driver_cpu"),
    ("quire_driver_null", "driver_null"),
    ("quire_connector_host", "connector_host"),
    ("quire_connector_null", "connector_null"),
];

/// Builds and installs into OUT_DIR: the prefix.
fn build() -> Result<PathBuf, String> {
    let (source, out) = (source()?, PathBuf::from(variable("OUT_DIR")));
    let (tree, prefix) = (out.join("build"), out.join("quire"));
    let cmake = env::var("CMAKE").unwrap_or_else(|_| "cmake".to_string());
    let mut configure = Command::new(&cmake);
    configure.arg("-S").arg(&source).arg("-B").arg(&tree).arg(format!("-DCMAKE_INSTALL_PREFIX={}", prefix.display()));
    configure.args(["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_LIBDIR=lib", "-DQUIRE_STATIC=ON", "-DQUIRE_UNITY=ON"]);
    run(configure.args(["-DQUIRE_TOOLS=OFF", "-DQUIRE_TESTS=OFF", "-DQUIRE_WERROR=OFF"]))?;
    let mut make = Command::new(&cmake);
    make.arg("--build").arg(&tree).arg("--parallel").arg(env::var("NUM_JOBS").unwrap_or_else(|_| "1".to_string())).arg("--target");
    run(make.args(COMPONENTS.iter().map(|(target, _)| target)))?;
    for (_, component) in &COMPONENTS {
        run(Command::new(&cmake).arg("--install").arg(&tree).args(["--component", component]))?;
    }
    for folder in ["CMakeLists.txt", "abi", "bindings/cpp", "cmake", "core", "drivers", "plugins"] {
        println!("cargo:rerun-if-changed={}", source.join(folder).display());
    }
    println!("cargo:include={}", source.join("abi/include").display());
    Ok(prefix)
}

/// An archive knows nothing of the libraries that it needs: quire-static.pc lists them.
fn needs(lib: &Path) -> Result<Vec<String>, String> {
    let file = lib.join("pkgconfig/quire-static.pc");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {}", file.display(), error))?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("Libs.private:")).ok_or_else(|| format!("{}: no Libs.private", file.display()))?;
    Ok(line.split_whitespace().filter_map(|word| word.strip_prefix("-l")).map(str::to_string).collect())
}

/// QUIRE_STATIC_DIR names the prefix of an archive that is built already.
fn link_vendored() -> Result<(), String> {
    let prefix = match env::var_os("QUIRE_STATIC_DIR") {
        Some(prefix) => PathBuf::from(prefix),
        None => build()?,
    };
    let lib = below(&prefix, "libquire.a")
        .ok_or_else(|| format!("QUIRE_STATIC_DIR: no libquire.a in lib, lib64 or lib/<triplet> of {}", prefix.display()))?;
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=static=quire");
    for name in needs(&lib)? {
        println!("cargo:rustc-link-lib=dylib={}", name);
    }
    println!("cargo:libdir={}", lib.display());
    println!("cargo:rustc-env=QUIRE_VENDORED_MODULES={}", lib.join("quire/0").display());
    Ok(())
}

fn main() {
    for name in ["QUIRE_LIB_DIR", "QUIRE_DIR", "QUIRE_STATIC_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "CMAKE", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    println!("cargo:rerun-if-changed=build.rs");
    let has = |feature: &str| env::var_os(feature).is_some();
    if has("DOCS_RS") {
        return;
    }
    let linked = match (has("CARGO_FEATURE_VENDORED"), has("CARGO_FEATURE_DLOPEN")) {
        (true, true) => {
            Err("the features `vendored` and `dlopen` exclude each other: one links the library, the other one loads it".to_string())
        }
        (true, false) => link_vendored(),
        (false, true) => Ok(()),
        (false, false) => link_installed(),
    };
    if let Err(reason) = linked {
        reason.lines().for_each(|line| eprintln!("quire-kv-sys: {}", line));
        exit(1);
    }
}
