//! Plain TCP stream over a link: its maximal throughput, the reference of all other results.
//!
//! The client side is a short shell command; the server side, a thread in its namespace, measures the time,
//! from the first bytes to the last: the start of a program takes a client 30 ms, which is 1 % of a stream of
//! 3 s.
//!
//! ```text
//! up      client  head ── bytes ──▶ server     time: from the first bytes
//! down    client  wc, then "go" ──▶ server     time: from "go"
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

/// Direction of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server, as in a write.
    Up,
    /// From the server to the client, as in a read.
    Down,
}

/// Sends `bytes` through one connection, and returns bytes a second.
///
/// # Errors
/// When the stream does not end.
pub fn measure(client: &Client, server: &Namespace, direction: Direction, bytes: u64) -> Result<f64> {
    let address = server.address;
    let listener = in_namespace(&server.name, move || TcpListener::bind((address, PORT)))?;
    let doing = format!("a TCP stream between {} and {address}", client.name());
    listener.set_nonblocking(true).map_err(Error::io(doing.as_str()))?;
    let device = format!("/dev/tcp/{address}/{PORT}");
    let script = match direction {
        Direction::Up => format!("head -c {bytes} /dev/zero >{device}"),
        // Only wc has the connection at the end, and closes it after the last byte.
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

/// Runs `make` in a namespace: a socket belongs to the namespace of the thread that makes it.
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

/// Measures from the first bytes, which do not count: their start time is unknown.
fn receive(mut connection: TcpStream) -> std::io::Result<Moved> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let first = connection.read(&mut buffer)? as u64;
    let started = Instant::now();
    let rest = std::io::copy(&mut connection, &mut std::io::sink())?;
    Ok(Moved { bytes: first + rest, rate: rest as f64 / started.elapsed().as_secs_f64() })
}

/// Measures until the other side closes, which it does after reading all.
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
