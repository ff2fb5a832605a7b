//! Machines without a disk, as tests switch them on.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::{Path, PathBuf};

use lab::Diskless;
use tests::copies::until;
use tests::{Client, Lab, Metaservers};

/// Port of the scripts and of what they load.
pub const HTTP: u16 = 8069;

/// Answer of a metaserver to a machine that boots.
pub fn get(address: IpAddr, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect((address, HTTP)).expect("a metaserver listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: heorot\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{path}: {}",
        String::from_utf8_lossy(&answer[..100.min(answer.len())])
    );
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    answer.split_off(head + 4)
}

/// Nodes of a cluster: they do what iPXE does with the script for their MAC address.
pub struct Nodes<'a> {
    lab: &'a Lab,
    address: IpAddr,
}

impl<'a> Nodes<'a> {
    /// Nodes that ask the first service address, when it answers.
    #[track_caller]
    pub fn of(lab: &'a Lab, cluster: &Metaservers) -> Self {
        let address = cluster.service(0);
        cluster.heorot(0, &["set", "boot_http_port", &HTTP.to_string()]);
        until("a metaserver listens", || TcpStream::connect((address, HTTP)).is_ok());
        Self { lab, address }
    }

    /// Adds a node to a group.
    #[track_caller]
    pub fn add(&self, cluster: &Metaservers, name: &str, group: &str) {
        cluster.heorot(0, &["boot", "node", "add", name, &Self::mac(name), "--group", group]);
    }

    fn mac(name: &str) -> String {
        let sum = name.bytes().fold(0_u8, u8::wrapping_add);
        format!("52:54:00:00:00:{sum:02x}")
    }

    /// Kernel and initramfs of a node, by their paths.
    pub fn paths(&self, name: &str) -> [String; 2] {
        let script = self.script(name);
        ["kernel ", "initrd "].map(|word| {
            let url = words(&script, word).into_iter().find(|word| word.starts_with("http://"));
            let url = url.expect("a URL");
            url[url.find("/boot").expect("a path")..].to_owned()
        })
    }

    fn script(&self, name: &str) -> String {
        let script = get(self.address, &format!("/boot/node/{}", Self::mac(name)));
        String::from_utf8(script).expect("a script")
    }

    /// Switches a node on.
    pub fn boot(&self, name: &str) -> Client {
        let script = self.script(name);
        let [_, path] = self.paths(name);
        let initramfs: PathBuf = self.lab.folder().join(format!("{name}.initramfs"));
        std::fs::write(&initramfs, get(self.address, &path)).expect("a file");
        // User Mode Linux is the kernel itself, and its network has no DHCP.
        let words =
            words(&script, "kernel ").into_iter().skip_while(|word| word != "initrd=initrd.img").skip(1);
        let words = words.take_while(|word| word != "||").filter(|word| word != "ip=dhcp").collect();
        self.lab.diskless(name, &Diskless { initramfs, words })
    }
}

/// Words of the line of a script that begins so.
fn words(script: &str, word: &str) -> Vec<String> {
    let line = script.lines().find(|line| line.starts_with(word));
    line.unwrap_or_else(|| panic!("no {word}: {script}")).split(' ').map(str::to_owned).collect()
}

/// Puts the kernel of this machine's User Mode Linux into an image, and an initramfs of it.
pub fn put_kernel(image: &Path, initramfs: &Path) {
    std::fs::create_dir_all(image.join("boot")).expect("a folder");
    std::fs::copy("/usr/bin/linux.uml", image.join("boot/vmlinuz-1")).expect("the kernel");
    std::fs::copy(initramfs, image.join("boot/initrd.img-1")).expect("the initramfs");
}
