//! `heorot bench` and `heorot model` run heorot-bench: from beside heorot, from PATH, or not at all.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;

/// Folder with heorot in it, and another folder on PATH.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["heorot", "path"] {
            std::fs::create_dir(place.dir.path().join(folder)).unwrap();
        }
        if std::fs::hard_link(env!("CARGO_BIN_EXE_heorot"), place.program()).is_err() {
            std::fs::copy(env!("CARGO_BIN_EXE_heorot"), place.program()).unwrap();
        }
        place
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("heorot/heorot")
    }

    /// Writes a script as heorot-bench.
    fn put(&self, folder: &str, script: &str) {
        let program = self.dir.path().join(folder).join("heorot-bench");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn run(&self, line: &str) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().join("path").display());
        Command::new(self.program()).args(line.split(' ')).env("PATH", path).output().unwrap()
    }

    #[track_caller]
    fn prints(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn the_arguments_come_as_they_are() {
    let place = Place::new();
    place.put("heorot", "echo \"$@\"");
    for line in [
        "bench",
        "bench record-size /mnt --size 64MiB -o A.json",
        "bench --help",
        "bench io500 -h",
        "--log-json bench mdtest /mnt",
        "bench mdtest /mnt --log-json",
        "model --clients -1 --write",
        "help bench",
        "help model",
        "help bench record-size",
    ] {
        assert_eq!(place.prints(line).trim_end(), line);
    }
    assert!(place.prints("help").contains("Measure a file system"), "of heorot itself");
    assert!(place.prints("help node").contains("drain"), "of heorot itself");
}

#[test]
fn the_program_beside_heorot_goes_before_that_on_path() {
    let place = Place::new();
    place.put("path", "echo on PATH");
    assert_eq!(place.prints("bench"), "on PATH\n");
    place.put("heorot", "echo beside");
    assert_eq!(place.prints("bench"), "beside\n");
}

#[test]
fn it_ends_as_heorot_bench_ends() {
    let place = Place::new();
    place.put("heorot", "exit 130");
    assert_eq!(place.run("bench").status.code(), Some(130));
    place.put("heorot", "kill -TERM $$");
    assert_eq!(place.run("model").status.signal(), Some(Signal::TERM.as_raw()), "in the same process");
}

#[test]
fn without_it_one_line_says_which_package_brings_it() {
    let place = Place::new();
    for line in ["bench record-size /mnt", "bench --help", "help bench", "model --clients 8"] {
        let output = place.run(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len(), text.lines().count()),
            (Some(1), 0, 1),
            "{line}: {text}"
        );
        assert!(
            text.starts_with("heorot: heorot-bench is neither beside this program nor on PATH: "),
            "{text}"
        );
        assert!(text.contains("install the package heorot-bench"), "{text}");
    }
    place.put("heorot", "");
    std::fs::set_permissions(place.dir.path().join("heorot/heorot-bench"), PermissionsExt::from_mode(0o644))
        .unwrap();
    let text = String::from_utf8(place.run("bench").stderr).unwrap();
    assert_eq!(text, "heorot: start heorot-bench: Permission denied (os error 13)\n");
}

#[test]
fn manual_pages_and_completions_have_what_heorot_bench_describes() {
    let place = Place::new();
    let pages = place.dir.path().join("man1");
    let man = format!("man {}", pages.display());
    place.prints(&man);
    assert!(
        !has(&pages, "heorot-bench-swim.1") && has(&pages, "heorot-bench.1") && has(&pages, "heorot-up.1")
    );
    assert!(place.prints("completions bash").contains("service-address"));
    let swim = r#"{"name":"swim","about":"Swims","long_about":null,"arguments":[],"commands":[]}"#;
    let bench = |swim: &str| {
        format!(r#"{{"name":"bench","about":null,"long_about":null,"arguments":[],"commands":[{swim}]}}"#)
    };
    place.put("heorot", &format!("[ $1 = describe ] && echo '{}'", bench(&bench(swim))));
    place.prints(&man);
    assert!(has(&pages, "heorot-bench-swim.1") && has(&pages, "heorot-model.1"));
    assert!(place.prints("completions bash").contains("swim"));
    place.put("heorot", "echo what");
    assert!(!place.run(&man).status.success(), "no description");
}

fn has(folder: &Path, file: &str) -> bool {
    folder.join(file).exists()
}
