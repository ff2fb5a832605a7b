//! Encoding of messages between a coordinator and an agent.
//!
//! ```text
//! agent        heorot bench 0.1.0\n        both send this line first: so each learns the other's version,
//! coordinator  heorot bench 0.1.0\n        for any format of its frames
//! both         length (4 bytes, big endian) │ that many bytes of JSON       ... and again
//! ```
//!
//! All input is untrusted: lines and frames have bounds, and memory grows with the received bytes, not with
//! the announced length.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Prefix of the version in the first line.
const GREETING: &str = "heorot bench ";
/// Maximal length of the first line; `heorot bench 0.1.0` has 18 bytes.
const GREETING_BYTES_MAX: u64 = 64;
/// Maximal length of the first frame: a machine, with the options of its mount.
pub const HELLO_BYTES_MAX: u32 = 1 << 16;
/// Maximal length of a later frame: a phase with a name of 50 bytes for each of a million directories, or the
/// histograms of 4096 workers.
pub const FRAME_BYTES_MAX: u32 = 1 << 26;
/// Time after which a machine without power counts as lost (TCP keepalive); a live kernel answers, however
/// busy.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const PROBE_EACH: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// Sending side of a connection.
#[derive(Debug)]
pub struct Sender(TcpStream);

/// Receiving side of a connection.
#[derive(Debug)]
pub struct Receiver(BufReader<TcpStream>);

/// Splits a connection.
///
/// # Errors
/// When the connection is gone.
pub fn split(stream: TcpStream) -> io::Result<(Sender, Receiver)> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, PROBE_EACH)?;
    sockopt::set_tcp_keepintvl(&stream, PROBE_EACH)?;
    sockopt::set_tcp_keepcnt(&stream, PROBES)?;
    let silence_ms = u32::try_from(SILENCE_MAX.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(&stream, silence_ms)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok((Sender(stream.try_clone()?), Receiver(BufReader::new(stream))))
}

impl Sender {
    /// Sends the first line.
    ///
    /// # Errors
    /// Error of the connection.
    pub fn greet(&mut self, version: &str) -> io::Result<()> {
        self.0.write_all(format!("{GREETING}{version}\n").as_bytes())
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// Error of the connection, or a frame that is too long.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut frame = vec![0; 4];
        serde_json::to_writer(&mut frame, message)?;
        let length = u32::try_from(frame.len() - 4).ok().filter(|length| *length <= FRAME_BYTES_MAX);
        let length = length.ok_or_else(|| {
            io::Error::other(format!("a message of {} bytes; {FRAME_BYTES_MAX} are the most", frame.len()))
        })?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.0.write_all(&frame)
    }

    /// Closes the connection in both directions, which ends all waits for it.
    pub fn hang_up(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

impl Receiver {
    /// Sets the time limit of reads; `None`: no limit.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn patience(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.get_ref().set_read_timeout(time)
    }

    /// Reads the version in the other side's first line.
    ///
    /// # Errors
    /// Error of the connection, or another protocol.
    pub fn greeting(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.0.by_ref().take(GREETING_BYTES_MAX).read_until(b'\n', &mut line)?;
        let text = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix('\n'));
        let version = text.and_then(|text| text.strip_prefix(GREETING));
        let printable = version.filter(|version| version.bytes().all(|byte| byte.is_ascii_graphic()));
        printable.map(str::to_owned).ok_or_else(|| not("it does not speak heorot bench"))
    }

    /// Reads one frame of at most `bytes_max`.
    ///
    /// # Errors
    /// Error of the connection, a frame that is too long, or one that does not decode.
    pub fn receive<T: DeserializeOwned>(&mut self, bytes_max: u32) -> io::Result<T> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > bytes_max {
            return Err(not(&format!("it announced {length} bytes; {bytes_max} are the most here")));
        }
        let mut frame = Vec::new();
        if self.0.by_ref().take(length.into()).read_to_end(&mut frame)? < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&frame).map_err(|e| not(&format!("it sent what is no message: {e}")))
    }
}

fn not(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, line)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Receiver of bytes from a connection that the other side has closed.
    fn received(bytes: &[u8]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        let bytes = bytes.to_vec();
        thread::spawn(move || stream.write_all(&bytes));
        split(accepted).unwrap().1
    }

    #[test]
    fn what_was_sent_is_received() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut sender, _) = split(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let (_, mut receiver) = split(listener.accept().unwrap().0).unwrap();
        sender.greet("1.2.3").unwrap();
        let words = vec!["a".repeat(300_000), String::new()];
        let sent = words.clone();
        thread::spawn(move || sender.send(&sent).unwrap());
        assert_eq!(receiver.greeting().unwrap(), "1.2.3");
        assert_eq!(receiver.receive::<Vec<String>>(FRAME_BYTES_MAX).unwrap(), words);
        let end = receiver.receive::<Vec<String>>(FRAME_BYTES_MAX).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_first_line_of_something_else_is_refused() {
        let long = format!("{GREETING}{}\n", "1".repeat(100));
        for line in ["", "GET / HTTP/1.1\r\n", "heorot bench 1.0", "heorot bench 1\u{7}\n", long.as_str()] {
            let error = received(line.as_bytes()).greeting().unwrap_err();
            assert!(error.to_string().contains("does not speak heorot bench"), "{line:?}: {error}");
        }
    }

    #[test]
    fn frames_that_lie_about_their_length_cost_nothing_and_are_refused() {
        let cases: [(&[u8], &str); 4] = [
            (&[0x7f, 0xff, 0xff, 0xff, b'{'], "it announced 2147483647 bytes; 67108864 are the most here"),
            (&[0x03, 0xff, 0xff, 0xff, b'['], "unexpected end of file"),
            (&[0, 0, 0, 2, b'{', b'{'], "no message"),
            (&[0, 0, 0, 0], "no message"),
        ];
        for (bytes, line) in cases {
            let error = received(bytes).receive::<Vec<String>>(FRAME_BYTES_MAX).unwrap_err();
            assert!(error.to_string().contains(line), "{bytes:?}: {error}");
        }
        let nested = "[".repeat(100_000);
        let mut frame = u32::try_from(nested.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(nested.as_bytes());
        let error = received(&frame).receive::<serde_json::Value>(FRAME_BYTES_MAX).unwrap_err();
        assert!(error.to_string().contains("recursion limit"), "{error}");
    }
}
