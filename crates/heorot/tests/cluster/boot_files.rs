//! Images come in as directories and tars, and machines load what boots them by HTTP and TFTP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::backup::{read, up};
use crate::servers::{LIMIT, Process, ask, mount, own_ip, until};

const HTTP: u16 = 8069;
const TFTP: u16 = 8070;
const MAC: &str = "52:54:00:00:00:01";

fn noise(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|n| (n as u8).wrapping_mul(31).wrapping_add((n >> 8) as u8) ^ seed).collect()
}

/// An image with a kernel of this version.
fn make_image(folder: &Path, version: u8) {
    std::fs::create_dir_all(folder.join("boot")).unwrap();
    std::fs::create_dir_all(folder.join("usr/bin")).unwrap();
    std::fs::write(folder.join(format!("boot/vmlinuz-6.{version}")), noise(300_000, version)).unwrap();
    std::fs::write(folder.join(format!("boot/initrd.img-6.{version}")), noise(2_500_003, version)).unwrap();
    let _ = std::fs::remove_file(folder.join("vmlinuz"));
    symlink(format!("boot/vmlinuz-6.{version}"), folder.join("vmlinuz")).unwrap();
    std::fs::write(folder.join("version"), format!("{version}\n")).unwrap();
    std::fs::write(folder.join("usr/bin/su"), "set-id").unwrap();
    std::fs::set_permissions(folder.join("usr/bin/su"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::fs::write(folder.join("empty"), "").unwrap();
}

/// Status and body of an answer.
fn get(ip: Ipv4Addr, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect((ip, HTTP)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {ip}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    if status == 200 {
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        assert_eq!(length, Some(answer.len() - end), "{head}");
    }
    (status, answer[end..].to_vec())
}

fn script(ip: Ipv4Addr, mac: &str) -> String {
    let (status, text) = get(ip, &format!("/boot/node/{mac}"));
    let text = String::from_utf8(text).unwrap();
    assert!(status == 200 && text.starts_with("#!ipxe\n"), "{status} {text}");
    text
}

/// Kernel, initramfs and words of a script.
fn loaded(ip: Ipv4Addr, script: &str) -> (Vec<u8>, Vec<u8>, String) {
    let base = format!("http://{ip}:{HTTP}");
    let line = |word: &str| script.lines().find(|line| line.starts_with(word)).expect("a line").to_owned();
    let path =
        |line: &str| line.split(' ').find_map(|word| word.strip_prefix(&base)).expect("a path").to_owned();
    let (kernel, initrd) = (line("kernel "), line("initrd "));
    (get(ip, &path(&kernel)).1, get(ip, &path(&initrd)).1, kernel)
}

/// A file by TFTP (RFC 1350), in blocks of 512 bytes; or the code of an error.
fn tftp(ip: Ipv4Addr, name: &str) -> Result<Vec<u8>, u16> {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let request = [&[0, 1], name.as_bytes(), b"\0octet\0"].concat();
    socket.send_to(&request, (ip, TFTP)).unwrap();
    let (mut file, mut packet) = (Vec::new(), [0; 600]);
    loop {
        let (len, peer): (usize, SocketAddr) = socket.recv_from(&mut packet).unwrap();
        assert_eq!(peer.ip(), ip, "firmware takes answers of the address that it asked alone");
        match packet[1] {
            3 => {
                file.extend_from_slice(&packet[4..len]);
                socket.send_to(&[0, 4, packet[2], packet[3]], peer).unwrap();
                if len < 516 {
                    return Ok(file);
                }
            }
            5 => return Err(u16::from_be_bytes([packet[2], packet[3]])),
            other => panic!("a packet of the kind {other}"),
        }
    }
}

fn begun(dir: &Path, ip: Ipv4Addr) -> Process {
    let server = up(dir, ip);
    ask(ip, &["set", "boot_http_port", &HTTP.to_string()]).unwrap();
    ask(ip, &["set", "boot_tftp_port", &TFTP.to_string()]).unwrap();
    until("it listens", || TcpStream::connect((ip, HTTP)).is_ok() && UdpSocket::bind((ip, TFTP)).is_err());
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_loads_the_version_that_is_assigned_and_that_of_before_after_a_rollback() {
    let (place, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let server = begun(&place.path().join("data"), ip);
    let folder = place.path().join("image");
    make_image(&folder, 1);
    std::fs::write(folder.join("gone"), "of version 1 alone").unwrap();
    let source = folder.to_str().unwrap();
    let said = ask(ip, &["boot", "image", "import", source, "debian@1"]).unwrap();
    assert!(said.contains("debian@1 is imported: 10 files"), "{said}");

    assert!(script(ip, MAC).contains("heorot boot node add"), "it is in no list");
    assert!(ask(ip, &["boot", "node", "add", "oak", MAC]).unwrap().contains("no image yet"));
    assert!(script(ip, MAC).contains("oak has no image"));
    ask(ip, &["boot", "assign", "nodes", "debian@1"]).unwrap();
    let first = script(ip, &MAC.replace(':', "-"));
    assert!(first.contains("oak boots debian@1"), "{first}");
    let (kernel, initrd, words) = loaded(ip, &first);
    assert!(kernel == noise(300_000, 1) && initrd == noise(2_500_003, 1));
    let root = format!(
        "heorot.root={ip}:/boot/images/debian/.snapshot/1 heorot.overlay=512m heorot.node=oak ip=dhcp"
    );
    assert!(words.contains(&root), "{words}");

    // The next version has what its source has, and no more.
    make_image(&folder, 2);
    for gone in ["gone", "boot/vmlinuz-6.1", "boot/initrd.img-6.1"] {
        std::fs::remove_file(folder.join(gone)).unwrap();
    }
    ask(ip, &["boot", "image", "import", source, "debian@2"]).unwrap();
    let client = mount(ip).await;
    for version in ["1", "2"] {
        let at = |path: &str| format!("boot/images/debian/.snapshot/{version}/{path}");
        assert_eq!(read(&client, &at("version")).await, format!("{version}\n").into_bytes());
        let su = client.getattr_path(&at("usr/bin/su")).await.unwrap();
        assert_eq!(su.file_mode & 0o7777, 0o4755);
        assert_eq!(client.lookup_path(&at("gone")).await.is_ok(), version == "1");
    }
    client.umount().await.unwrap();

    // One node first, then its group, and back.
    ask(ip, &["boot", "assign", "oak", "debian@2"]).unwrap();
    let (kernel, initrd, _) = loaded(ip, &script(ip, MAC));
    assert!(kernel == noise(300_000, 2) && initrd == noise(2_500_003, 2));
    ask(ip, &["boot", "rollback", "oak"]).unwrap();
    assert!(script(ip, MAC).contains("oak boots debian@1"));
    ask(ip, &["boot", "assign", "oak", "debian@2"]).unwrap();
    ask(ip, &["boot", "assign", "oak", "--as-group"]).unwrap();
    assert!(script(ip, MAC).contains("oak boots debian@1"));
    ask(ip, &["boot", "assign", "nodes", "debian@2"]).unwrap();
    assert!(script(ip, MAC).contains("oak boots debian@2"));
    ask(ip, &["boot", "rollback", "nodes"]).unwrap();
    assert!(script(ip, MAC).contains("oak boots debian@1"));

    // A root of the group's own, and directories of the node's own.
    ask(ip, &["boot", "group", "set", "nodes", "--clone", "--words", "quiet"]).unwrap();
    let (kernel, _, words) = loaded(ip, &script(ip, MAC));
    assert!(
        words.contains(":/boot/groups/nodes/debian-1 heorot.write heorot.node=oak ip=dhcp quiet"),
        "{words}"
    );
    assert_eq!(kernel, noise(300_000, 1));
    ask(ip, &["boot", "group", "set", "nodes", "--own", "/etc,/var"]).unwrap();
    let (.., words) = loaded(ip, &script(ip, MAC));
    assert!(words.contains("heorot.own=/boot/nodes/oak heorot.own_dirs=/etc,/var"), "{words}");
    assert!(ask(ip, &["volume", "list"]).unwrap().contains("/boot/nodes/oak"));
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn firmware_loads_by_tftp_and_http_what_was_added_and_nothing_else() {
    let (place, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let server = begun(&place.path().join("data"), ip);
    let loader = place.path().join("ipxe.efi");
    for version in [1, 2] {
        std::fs::write(&loader, noise(150_000 + 512 * usize::from(version), version)).unwrap();
        ask(ip, &["boot", "loader", "add", loader.to_str().unwrap()]).unwrap();
        let expected = std::fs::read(&loader).unwrap();
        until("TFTP has it", || tftp(ip, "ipxe.efi") == Ok(expected.clone()));
        assert!(get(ip, "/boot/loader/ipxe.efi") == (200, expected));
    }
    for name in ["other", "../images", "..", "", "/etc/passwd"] {
        assert_eq!(tftp(ip, name), Err(1), "{name:?}");
    }
    for path in [
        "/boot/loader/..%2f..%2fetc",
        "/boot/root/0/kernel",
        "/boot/root/x/kernel",
        "/",
        "/metrics",
        "/boot/node/x",
    ] {
        assert!(get(ip, path).0 >= 400, "{path}");
    }
    // What a stranger sends is no harm.
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    for garbage in [&b""[..], b"\0", b"\0\x02up\0octet\0", b"\0\x01no end", &[0xff; 1400]] {
        socket.send_to(garbage, (ip, TFTP)).unwrap();
    }
    let idle: Vec<TcpStream> = (0..31).map(|_| TcpStream::connect((ip, HTTP)).unwrap()).collect();
    for stream in &idle {
        (&*stream).write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
    }
    assert_eq!(get(ip, "/boot/start").0, 200);
    assert!(tftp(ip, "ipxe.efi").is_ok());
    let printed = ask(ip, &["boot", "dnsmasq"]).unwrap();
    assert!(printed.contains(&format!("dhcp-boot=tag:ipxe,http://{ip}:{HTTP}/boot/start")), "{printed}");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn images_and_nodes_that_cannot_be_are_refused_and_leave_nothing_that_boots() {
    let (place, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let server = begun(&place.path().join("data"), ip);
    let folder = place.path().join("image");
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let import = |source: &str, image: &str| ask(ip, &["boot", "image", "import", source, image]);
    let refused = |said: Result<String, String>, why: &str| {
        let error = said.expect_err(why);
        assert!(error.contains(why), "{error}");
    };
    std::fs::create_dir_all(folder.join("boot")).unwrap();
    refused(import(&path("image"), "debian@1"), "there is no kernel");
    std::fs::write(folder.join("boot/vmlinuz-1"), "kernel").unwrap();
    refused(import(&path("image"), "debian@1"), "there is no initramfs");
    refused(import(&path("nothing"), "debian@1"), "No such file");
    for name in ["debian", "../debian@1", "a/b@1", "debian@.."] {
        refused(import(&path("image"), name), "names no image");
    }
    assert_eq!(ask(ip, &["boot", "image", "list"]).unwrap().lines().count(), 1, "no image");

    // A tar that climbs, one that is cut off, one that is compressed.
    std::fs::write(folder.join("boot/initrd.img-1"), noise(100_000, 1)).unwrap();
    let tar = |arguments: &[&str]| {
        assert!(Command::new("tar").args(arguments).current_dir(&folder).status().unwrap().success());
    };
    tar(&["-cPf", &path("climbs.tar"), "--transform", "s,^boot/v,../v,", "boot"]);
    refused(import(&path("climbs.tar"), "debian@1"), "without ..");
    tar(&["-czf", &path("whole.tar.gz"), "."]);
    refused(import(&path("whole.tar.gz"), "debian@1"), "gzip -dc");
    tar(&["-cf", &path("whole.tar"), "."]);
    let whole = std::fs::read(path("whole.tar")).unwrap();
    std::fs::write(path("cut.tar"), &whole[..60_000]).unwrap();
    refused(import(&path("cut.tar"), "debian@1"), "the tar cannot be read");
    // A cut between two entries is one, too, and nothing is not an empty image.
    let boundary = whole.len() - whole.iter().rev().take_while(|byte| **byte == 0).count();
    std::fs::write(path("cut.tar"), &whole[..boundary.next_multiple_of(512)]).unwrap();
    refused(import(&path("cut.tar"), "debian@1"), "it ends early");
    std::fs::write(path("cut.tar"), "").unwrap();
    refused(import(&path("cut.tar"), "debian@1"), "it ends early");
    std::fs::write(path("cut.tar"), [0; 1024]).unwrap();
    refused(import(&path("cut.tar"), "debian@1"), "nothing came");
    ask(ip, &["volume", "create", "/projects"]).unwrap();
    import(&path("whole.tar"), "/projects@1").unwrap();
    refused(import(&path("whole.tar"), "/projects@2"), "with --force");
    // The next import goes on from there; its tar comes from a program.
    let mut child = Command::new(env!("CARGO_BIN_EXE_heorot"))
        .args(["boot", "image", "import", "-", "debian@1", "--admin", &crate::servers::places::of(ip)])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&whole).unwrap();
    assert!(child.wait().unwrap().success());
    refused(import(&path("whole.tar"), "debian@1"), "exists: give another version");

    let boot = |arguments: &[&str]| ask(ip, &[&["boot"], arguments].concat());
    boot(&["node", "add", "oak", MAC, "--image", "debian@1"]).unwrap();
    refused(boot(&["node", "add", "elm", MAC]), "another node has this MAC address");
    refused(boot(&["node", "add", "oak", "52:54:00:00:00:02"]), "is there already");
    refused(boot(&["node", "add", "elm", "01:54:00:00:00:02"]), "of no interface");
    refused(boot(&["node", "add", "Elm", "52:54:00:00:00:02"]), "is no host name");
    refused(boot(&["node", "add", "elm", "52:54:00:00:00:02", "--group", "blue"]), "there is no group blue");
    refused(boot(&["assign", "oak", "debian@2"]), "there is no image debian@2");
    refused(boot(&["assign", "elm", "debian@1"]), "neither a group nor a node");
    refused(boot(&["rollback", "nodes"]), "has booted nothing else");
    refused(boot(&["group", "set", "nodes", "--own", "/etc,/../x"]), "is no directory for a node");
    refused(boot(&["group", "set", "nodes", "--words", "a ; reboot"]), "are no words");
    refused(boot(&["group", "remove", "nodes"]), "nodes are in the group");

    refused(ask(ip, &["snapshot", "remove", "/boot/images/debian@1"]), "is what oak boot");
    refused(ask(ip, &["volume", "remove", "/boot/images/debian"]), "is what oak boot");
    ask(ip, &["snapshot", "remove", "/boot/images/debian@1", "--force"]).unwrap();
    assert!(script(ip, MAC).contains("the image of oak was removed"));
    assert!(boot(&["list"]).unwrap().contains("(removed)"));
    boot(&["node", "remove", "oak"]).unwrap();
    boot(&["group", "remove", "nodes"]).unwrap();
    assert_eq!(server.stop().code(), Some(0));
}
