//! Keeps locks and removed files open while servers die. Runs inside a client machine.
//!
//! ```text
//! keeper hold FILE SIGNS   locks 0..100 for writes and 300..400 for reads, keeps FILE.removed open, and
//!                          removes it; then (SIGNS.go) writes under its lock, reads its removed file,
//!                          and releases all
//! keeper wait FILE SIGNS   locks 200..300, is denied 50..60, and waits for it; then reads the holder's bytes
//! keeper try FILE          is denied the locks of both
//! keeper ask FILE          prints the lock that conflicts with 50..60
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_RDLCK, F_UNLCK, F_WRLCK};
use rustix::fs::Advice;
use tests::Dice;

const WRITTEN_AT: u64 = 10;
const WRITTEN: &[u8] = b"under the lock";
const FILE_BYTES: u64 = 4096;
const REMOVED_BYTES: usize = 300_000; // some in each of several stripe units

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["hold", file, signs] => hold(file, signs),
        ["wait", file, signs] => wait(file, signs),
        ["try", file] => attempt(file),
        ["ask", file] => ask(file),
        _ => Err(io::Error::other("keeper hold|wait FILE SIGNS, keeper try|ask FILE")),
    };
    if let Err(e) = outcome {
        println!("keeper {}: {e}", arguments.join(" "));
        std::process::exit(1);
    }
}

fn hold(path: &str, signs: &str) -> io::Result<()> {
    let file = open(path)?;
    file.set_len(FILE_BYTES)?;
    must(lock(&file, F_WRLCK, 0, 100)?, "lock 0..100")?;
    must(lock(&file, F_RDLCK, 300, 100)?, "lock 300..400 to read")?;
    let removed_path = format!("{path}.removed");
    let removed = open(&removed_path)?;
    let mut bytes = bytes(1);
    removed.write_all_at(&bytes, 0)?;
    removed.sync_all()?;
    fs::remove_file(&removed_path)?;
    fs::write(format!("{signs}.holding"), "")?;

    while !Path::new(&format!("{signs}.go")).exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    file.write_all_at(WRITTEN, WRITTEN_AT)?;
    file.sync_all()?;
    must(!lock(&file, F_WRLCK, 200, 10)?, "be refused 200..210, which the other has")?;
    must(removed.metadata()?.nlink() == 0, "find that the removed file has no link")?;
    same_from_servers(&removed, &bytes)?;
    let more = bytes.clone();
    removed.write_all_at(&more, bytes.len() as u64)?;
    removed.sync_all()?;
    bytes.extend_from_slice(&more);
    same_from_servers(&removed, &bytes)
}

fn wait(path: &str, signs: &str) -> io::Result<()> {
    let file = open(path)?;
    must(lock(&file, F_WRLCK, 200, 100)?, "lock 200..300")?;
    must(!lock(&file, F_WRLCK, 50, 10)?, "be refused 50..60")?;
    fs::write(format!("{signs}.waiting"), "")?;
    fcntl(&file, FcntlArg::F_SETLKW(&range(F_WRLCK, 50, 10)))?;
    let mut found = [0; WRITTEN.len()];
    file.read_exact_at(&mut found, WRITTEN_AT)?;
    must(found == WRITTEN, "see what was written under the lock")
}

fn attempt(path: &str) -> io::Result<()> {
    let file = open(path)?;
    must(!lock(&file, F_WRLCK, 99, 1)?, "be refused 99..100 to write")?;
    must(!lock(&file, F_RDLCK, 0, 1)?, "be refused 0..1 to read")?;
    must(!lock(&file, F_WRLCK, 399, 1)?, "be refused 399..400 to write")?;
    must(lock(&file, F_RDLCK, 399, 1)?, "lock 399..400 to read")?;
    must(lock(&file, F_WRLCK, 100, 100)?, "lock 100..200, which nobody has")
}

fn ask(path: &str) -> io::Result<()> {
    let mut found = range(F_WRLCK, 50, 10);
    fcntl(&open(path)?, FcntlArg::F_GETLK(&mut found))?;
    match i32::from(found.l_type) {
        F_UNLCK => println!("nothing is in the way"),
        kind => println!("in the way: kind {kind}, {} bytes from {}", found.l_len, found.l_start),
    }
    Ok(())
}

fn open(path: &str) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn must(is_so: bool, what: &str) -> io::Result<()> {
    if is_so { Ok(()) } else { Err(io::Error::other(format!("should {what}"))) }
}

fn lock(file: &File, kind: i32, start: i64, length: i64) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_SETLK(&range(kind, start, length))) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn range(kind: i32, start: i64, length: i64) -> nix::libc::flock {
    let whence = nix::libc::SEEK_SET as i16;
    nix::libc::flock { l_type: kind as i16, l_whence: whence, l_start: start, l_len: length, l_pid: 0 }
}

fn bytes(seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..REMOVED_BYTES / 8).flat_map(|_| dice.bits().to_le_bytes()).collect()
}

fn same_from_servers(file: &File, expected: &[u8]) -> io::Result<()> {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?;
    let mut found = vec![0; expected.len()];
    file.read_exact_at(&mut found, 0)?;
    must(found == expected, "read from the removed file what was written to it")
}
