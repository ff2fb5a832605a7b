//! Admin sockets of the servers of this test program by their address, recorded at their start.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

static DIRS: Mutex<BTreeMap<Ipv4Addr, PathBuf>> = Mutex::new(BTreeMap::new());

/// Records the server that `heorot ARGS` starts: `up`, `run`, `mds` or `ds`.
pub fn note(args: &[&str]) {
    let after =
        |word: &str| args.iter().position(|arg| *arg == word).and_then(|at| args.get(at + 1)).copied();
    let noted = match args.first() {
        Some(&"up") => {
            after("--listen").zip(after("--data")).and_then(|(ip, dir)| Some((ip_of(ip)?, dir.into())))
        }
        Some(&"run") => args.get(1).and_then(|dir| {
            let files = ["mds.toml", "ds.toml"].map(|name| Path::new(dir).join(name));
            let (ip, _) = files.iter().find_map(|file| configured(file))?;
            Some((ip, PathBuf::from(dir)))
        }),
        Some(&("mds" | "ds")) => after("--config").and_then(|file| configured(Path::new(file))),
        _ => None,
    };
    if let Some((ip, dir)) = noted {
        let mut dirs = DIRS.lock();
        // The metaserver has precedence over a data server with the same address.
        match args.first() {
            Some(&"ds") => dirs.entry(ip).or_insert(dir),
            _ => dirs.entry(ip).insert_entry(dir).into_mut(),
        };
    }
}

/// Value of `--admin` for the server at `ip`; a missing directory if none was started.
pub fn of(ip: Ipv4Addr) -> String {
    let dirs = DIRS.lock();
    dirs.get(&ip).map_or_else(|| format!("/no-server-at/{ip}"), |dir| dir.display().to_string())
}

/// Address and directory in a configuration file.
fn configured(file: &Path) -> Option<(Ipv4Addr, PathBuf)> {
    let text = std::fs::read_to_string(file).ok()?;
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let ip = value("admin").and_then(|admin| ip_of(&admin)).or_else(|| ip_of(&value("listen")?))?;
    Some((ip, value("data_dir")?.into()))
}

fn ip_of(address: &str) -> Option<Ipv4Addr> {
    match address.parse().ok()? {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    }
}
