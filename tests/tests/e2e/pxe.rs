//! Virtual machines go from their power-on, by PXE, to a login, while a metaserver is dead. `make pxe` installs what it takes.
//!
//! ```text
//! BIOS: iPXE of the network card ───────────────────┐
//! UEFI: its own PXE ──TFTP: ipxe.efi──▶ iPXE ───────┴──HTTP──▶ script, kernel, initramfs ──NFS──▶ root, login
//! ```

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tests::image::{KernelFiles, make_image, make_initramfs};
use tests::{Lab, Metaservers};

/// What a virtual machine needs of the kernel before it has a root.
const MODULES: &str = "virtio_net\nvirtio_pci\n";
/// Port of HTTP; TFTP has its own, which firmware cannot change.
const HTTP: &str = "80";

/// Time from power-on to a login, without KVM.
const LIMIT: Duration = Duration::from_secs(200);

/// Firmware of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Firmware {
    Bios,
    Uefi,
}

/// Process that is killed at the end, and what it has printed.
struct Machine {
    process: Child,
    console: Arc<Mutex<String>>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- console\n{}", self.console.lock());
        }
    }
}

impl Machine {
    /// Runs a program, which dies with this one.
    fn run(program: &str, arguments: &[String]) -> Machine {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]).args(arguments).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{program}: {e}"));
        let (mut out, console) = (process.stdout.take().expect("piped"), Arc::new(Mutex::new(String::new())));
        let kept = Arc::clone(&console);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut piece) {
                kept.lock().push_str(&String::from_utf8_lossy(&piece[..len]));
            }
        });
        Machine { process, console }
    }

    fn says(&self, text: &str) -> bool {
        self.console.lock().contains(text)
    }
}

/// A virtual machine with one interface and nothing else.
fn power_on(lab: &Lab, firmware: Firmware, tap: &str, mac: &str) -> Machine {
    let accelerator = fs::read_to_string(kernel_folder().join("accelerator")).expect("make pxe has tried it");
    let accelerator = accelerator.trim();
    let mut words: Vec<String> = format!(
        "-no-user-config -nodefaults -display none -no-reboot -accel {accelerator} -cpu qemu64 -m 1024 -serial stdio \
         -netdev tap,id=net,ifname={tap},script=no,downscript=no -boot n"
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect();
    let mut card = format!("virtio-net-pci,netdev=net,mac={mac},bootindex=0");
    if firmware == Firmware::Uefi {
        // Its own PXE, and not the card's iPXE.
        card += ",romfile=";
        let variables = lab.folder().join("variables");
        fs::copy("/usr/share/OVMF/OVMF_VARS.fd", &variables).expect("make pxe installs ovmf");
        words.extend(["-machine", "q35", "-drive"].map(str::to_owned));
        words.push("if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE.fd".into());
        words.extend(["-drive".into(), format!("if=pflash,format=raw,file={}", variables.display())]);
    }
    words.extend(["-device".into(), card]);
    Machine::run("qemu-system-x86_64", &words)
}

/// dnsmasq in a namespace, with what heorot prints and the lines of the network.
fn dnsmasq(lab: &Lab, cluster: &Metaservers, addresses: &[(&str, std::net::Ipv4Addr)]) -> Machine {
    let place = lab.inner().namespace(None).unwrap_or_else(|e| panic!("{e}"));
    let mut text = cluster.heorot(1, &["boot", "dnsmasq"]);
    let first = addresses[0].1;
    text += &format!(
        "dhcp-range={first},static,255.255.255.0\nport=0\ninterface=eth0\nbind-interfaces\ndhcp-authoritative\n"
    );
    for (name, address) in addresses {
        let end = format!(",{name}\n");
        assert!(text.contains(&end), "{name} is in: {text}");
        text = text.replacen(&end, &format!(",{name},{address}\n"), 1);
    }
    let (file, leases) = (lab.folder().join("dnsmasq.conf"), lab.folder().join("leases"));
    fs::write(&file, text).expect("a file");
    let words = format!(
        "netns exec {} dnsmasq --keep-in-foreground --log-facility=- --log-dhcp --user=root --pid-file= --conf-file={} --dhcp-leasefile={}",
        place.name,
        file.display(),
        leases.display()
    );
    Machine::run("ip", &words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn kernel_folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let kernels = variable("HEOROT_KERNELS").or_else(|| Some(cache?.join("heorot/kernels")));
    kernels.expect("a home").join("pxe")
}

#[test]
#[ignore = "make pxe runs it: it needs QEMU"]
fn machines_go_by_pxe_from_power_on_to_a_login_while_one_of_three_metaservers_is_dead() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let (image, folder) = (lab.folder().join("image"), kernel_folder());
    make_image(&image);
    let kernel = KernelFiles::of(&folder, MODULES);
    let initramfs = make_initramfs(lab.folder(), &kernel);
    fs::create_dir(image.join("boot")).expect("a folder");
    fs::copy(folder.join("vmlinuz"), image.join(format!("boot/vmlinuz-{}", kernel.release)))
        .expect("a kernel");
    fs::copy(initramfs, image.join(format!("boot/initrd.img-{}", kernel.release))).expect("an initramfs");
    std::os::unix::fs::symlink("../bin/busybox", image.join("usr/sbin/init")).expect("a link");
    let getty = "ttyS0::respawn:/bin/getty -L ttyS0 115200 vt100\n::ctrlaltdel:/bin/reboot\n";
    fs::write(image.join("etc/inittab"), getty).expect("a file");

    let heorot = |cluster: &Metaservers, words: &[&str]| cluster.heorot(1, words);
    for words in [
        &["set", "boot_http_port", HTTP][..],
        &["set", "boot_tftp_port", "69"],
        &["boot", "loader", "add", "/usr/lib/ipxe/ipxe.efi", "/usr/lib/ipxe/undionly.kpxe"],
        &["boot", "image", "import", &image.display().to_string(), "tiny@1"],
        &["boot", "group", "set", "machines", "--shared", "64MiB", "--words", "console=ttyS0"],
        &["boot", "assign", "machines", "tiny@1"],
        &["boot", "node", "add", "oak", "52:54:00:77:00:01", "--group", "machines"],
        &["boot", "node", "add", "elm", "52:54:00:77:00:02", "--group", "machines"],
    ] {
        heorot(&cluster, words);
    }
    let (oak, elm) = (lab.inner().tap().expect("a tap"), lab.inner().tap().expect("a tap"));
    let dhcp = dnsmasq(&lab, &cluster, &[("oak", oak.1), ("elm", elm.1)]);
    cluster.wait_until("one leads", |cluster| cluster.leader().is_some());
    let leader = cluster.leader().expect("one leads");
    cluster.kill(leader);
    for (name, tap, mac, firmware) in [
        ("oak", &oak.0, "52:54:00:77:00:01", Firmware::Bios),
        ("elm", &elm.0, "52:54:00:77:00:02", Firmware::Uefi),
    ] {
        let began = std::time::Instant::now();
        let mut machine = power_on(&lab, firmware, tap, mac);
        let login = format!("{name} login:");
        while !machine.says(&login) {
            assert!(began.elapsed() < LIMIT, "{name} has no login");
            let ended = machine.process.try_wait().expect("it is asked");
            assert!(ended.is_none(), "{name} has ended: {ended:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{name}, {firmware:?}: {:.1} s from power-on to the login", began.elapsed().as_secs_f64());
        assert!(machine.says("heorot.node="), "its kernel has the words of the script");
    }
    drop(dhcp);
}
