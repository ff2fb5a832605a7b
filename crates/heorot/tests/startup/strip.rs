//! `make build` takes the debug symbols out of the programs.

use std::path::Path;
use std::process::Command;

fn sections(program: &Path) -> String {
    let output =
        Command::new("readelf").args(["--sections", "--wide"]).arg(program).output().expect("readelf");
    assert!(output.status.success(), "{}", program.display());
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_stripped_program_runs_and_names_its_symbols() {
    let dir = tempfile::tempdir().expect("a directory");
    let (program, symbols) = (dir.path().join("program"), dir.path().join("program.debug"));
    let source = dir.path().join("program.rs");
    std::fs::write(&source, r#"fn main() { print!("it runs"); }"#).expect("a source");
    // This test's own program has no symbols where CARGO_PROFILE_DEV_DEBUG says so.
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled =
        Command::new(rustc).arg("-g").arg("-o").arg(&program).arg(&source).output().expect("rustc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    assert!(sections(&program).contains(" .debug_line "));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/strip.sh");
    let strip = || assert!(Command::new(&script).arg(&program).status().expect("strip.sh runs").success());
    strip();
    let stripped = sections(&program);
    assert!(!stripped.contains(" .debug_line ") && stripped.contains(" .gnu_debuglink "), "{stripped}");
    assert!(sections(&symbols).contains(" .debug_line "));
    let run = Command::new(&program).output().expect("it runs");
    assert!(run.status.success() && run.stdout == b"it runs");
    // Again: it changes nothing.
    let before = std::fs::read(&program).expect("the program");
    strip();
    assert!(std::fs::read(&program).expect("the program") == before && symbols.exists());
}
