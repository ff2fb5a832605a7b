//! A plain TCP stream over a link: what it carries at most, which every other figure is measured beside.
//!
//! Each side does what it is best at: the client's is a few words of shell, and the server's, a thread in its
//! namespace, holds the clock. The time is from the first bytes to the end of the last: starting a program
//! takes a client 30 ms, which is 1 % of a stream of 3 s.
//!
//! ```text
//! up      client  head ── bytes ──▶ server     clock: from the first of them
//! down    client  wc, then "go" ──▶ server     clock: from there
//!                 wc ◀── bytes ────
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Client, Error, Namespace, Result, interrupt, remains};

const PORT: u16 = 5001;
const TIMEOUT: Duration = Duration::from_secs(120);
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
const BUFFER_BYTES: usize = 64 << 10;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server, as data that are written go.
    Up,
    /// From the server to the client.
    Down,
}

/// Sends `bytes` through one connection, and returns how many went each second.
///
/// # Errors
/// If the stream does not come to its end.
pub fn measure(client: &Client, server: &Namespace, direction: Direction, bytes: u64) -> Result<f64> {
    let address = server.address;
    let listener = in_namespace(&server.name, move || TcpListener::bind((address, PORT)))?;
    let doing = format!("a TCP stream between {} and {address}", client.name());
    listener.set_nonblocking(true).map_err(Error::io(doing.as_str()))?;
    let device = format!("/dev/tcp/{address}/{PORT}");
    let script = match direction {
        Direction::Up => format!("head -c {bytes} /dev/zero >{device}"),
        // Only wc has the connection in the end: it is closed as soon as all is there.
        Direction::Down => format!(
            "exec 3<>{device}; wc -c <&3 >/tmp/stream & sleep 0.3; echo go >&3; exec 3>&-; wait
            [ $(cat /tmp/stream) = {bytes} ]"
        ),
    };
    let running = client.spawn(&script)?;
    let connection = accept(&listener).map_err(Error::io(doing.as_str()))?;
    let moved = match direction {
        Direction::Up => receive(connection),
        Direction::Down => send(connection, bytes),
    };
    let Moved { bytes: moved, rate } = moved.map_err(Error::io(doing.as_str()))?;
    let output = running.wait(TIMEOUT)?;
    interrupt::check()?;
    if output.status != 0 || moved != bytes {
        return Err(Error::Impossible(format!(
            "{doing}: {moved} of {bytes} bytes; the client says {output}"
        )));
    }
    Ok(rate)
}

struct Moved {
    bytes: u64,
    /// Bytes a second.
    rate: f64,
}

/// A socket belongs to the network that its thread was in when it was made.
fn in_namespace<T: Send>(name: &str, make: impl FnOnce() -> std::io::Result<T> + Send) -> Result<T> {
    let path = remains::namespace_path(name);
    let entered = || {
        let namespace = File::open(&path)?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        make()
    };
    let result = thread::scope(|scope| scope.spawn(entered).join());
    result.expect("it does not panic").map_err(Error::file("listen in", &path))
}

fn accept(listener: &TcpListener) -> std::io::Result<TcpStream> {
    let asked = Instant::now();
    loop {
        match listener.accept() {
            Ok((connection, _)) => {
                connection.set_nonblocking(false)?;
                connection.set_read_timeout(Some(TIMEOUT))?;
                connection.set_write_timeout(Some(TIMEOUT))?;
                return Ok(connection);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock && asked.elapsed() < ACCEPT_TIMEOUT => {
                thread::sleep(POLL);
            }
            Err(e) => return Err(e),
        }
    }
}

/// The clock starts with the first bytes, which do not count: how long they took nobody knows.
fn receive(mut connection: TcpStream) -> std::io::Result<Moved> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let first = connection.read(&mut buffer)? as u64;
    let started = Instant::now();
    let rest = std::io::copy(&mut connection, &mut std::io::sink())?;
    Ok(Moved { bytes: first + rest, rate: rest as f64 / started.elapsed().as_secs_f64() })
}

/// The other side closes when it has read all: only then is it over.
fn send(mut connection: TcpStream, bytes: u64) -> std::io::Result<Moved> {
    let mut go = [0; 3];
    connection.read_exact(&mut go)?;
    let started = Instant::now();
    let sent = std::io::copy(&mut std::io::repeat(0).take(bytes), &mut connection)?;
    connection.flush()?;
    connection.shutdown(Shutdown::Write)?;
    std::io::copy(&mut connection, &mut std::io::sink())?;
    Ok(Moved { bytes: sent, rate: bytes as f64 / started.elapsed().as_secs_f64() })
}
