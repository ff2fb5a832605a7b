//! Attacks on the admin port: half requests, endless ones, pages in browsers, wrong tokens.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use super::process::{ADMIN_PORT, PORT, Server, heorot, http, own_ip};
use rustix::process::Signal;

/// More than the limit of 1,024 open files.
const HALF_REQUESTS: usize = 2000;
/// Open files without attackers: files, sockets, and the admin connections that the server keeps.
const OPEN_FILES_MAX: usize = 300;

fn up(dir: &Path, ip: Ipv4Addr, more: &[&str]) -> Server {
    let (data, listen, admin) =
        (dir.display().to_string(), format!("{ip}:{PORT}"), format!("{ip}:{ADMIN_PORT}"));
    let args = ["up", "--data", &data, "--data-servers", "1", "--listen", &listen, "--admin", &admin];
    let mut server = Server::start(&[&args, more].concat());
    server.ready();
    server
}

fn metrics(to: SocketAddr) -> String {
    http(to, &format!("GET /metrics HTTP/1.1\r\nHost: {to}\r\n\r\n"))
}

#[test]
fn half_requests_take_no_more_than_their_share() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let mut server = up(dir.path(), ip, &[]);
    let to = SocketAddr::from((ip, ADMIN_PORT));
    let mut half: Vec<TcpStream> = Vec::new();
    for _ in 0..HALF_REQUESTS {
        let mut stream = TcpStream::connect(to).unwrap();
        // The server may have closed the connection already, to accept another.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
        half.push(stream);
    }
    assert!(metrics(to).starts_with("HTTP/1.1 200"), "others are served meanwhile");
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count();
    assert!(open < OPEN_FILES_MAX, "{open} open files");
    // The remaining ones end by their time limit.
    for mut stream in half {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }
    let endless = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    let mut stream = TcpStream::connect(to).unwrap();
    let _ = stream.write_all(endless.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert!(metrics(to).starts_with("HTTP/1.1 200"));
    assert_eq!(server.signal(Signal::TERM), Some(0));
}

#[test]
fn a_program_with_the_token_administers_from_afar_and_a_browser_s_page_does_not() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let file = dir.path().join("token").display().to_string();
    let mut server = up(&dir.path().join("data"), ip, &["--admin-token-file", &file]);
    let to = SocketAddr::from((ip, ADMIN_PORT));
    let admin = to.to_string();
    let asked = |more: &[&str]| {
        let Output { status, stdout, stderr } =
            heorot(&[&["stripe", "set", "/", "--columns", "1", "--admin", &admin], more].concat())
                .output()
                .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
    };
    assert_eq!(
        asked(&["--admin-token-file", &file]).unwrap(),
        "/: 1 MiB on each of 1 target, 1 copy (set here)\n"
    );
    assert!(asked(&[]).unwrap_err().contains("wants the admin token"));
    let wrong = dir.path().join("wrong").display().to_string();
    std::fs::write(&wrong, "0".repeat(64)).unwrap();
    assert!(asked(&["--admin-token-file", &wrong]).unwrap_err().contains("is not the admin token"));

    let token = std::fs::read_to_string(&file).unwrap();
    let shown = format!("Authorization: Bearer {}\r\n", token.trim());
    for (headers, status) in [
        (format!("Host: {to}\r\n{shown}"), 200),
        (format!("Host: {to}\r\nOrigin: http://evil.example\r\n{shown}"), 403),
        (format!("Host: evil.example:{ADMIN_PORT}\r\n{shown}"), 421),
        (format!("Host: {to}\r\n"), 401),
    ] {
        let answer = http(to, &format!("GET /status HTTP/1.1\r\n{headers}\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {answer}");
    }
    let body = "x".repeat(70 << 10);
    let put = format!(
        "PUT /stripe HTTP/1.1\r\nHost: {to}\r\n{shown}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(http(to, &put).starts_with("HTTP/1.1 400"));
    assert_eq!(server.signal(Signal::TERM), Some(0));
}
