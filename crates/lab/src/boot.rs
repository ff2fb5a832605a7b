//! Boot of a client machine's kernel: the command line of its process.
//!
//! For any kernel, standard input and output are the line for requests to run scripts, and standard error is
//! the kernel's console. `init.sh` reads the rest from its environment: words of the kernel's command line.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Kernel, Result, processor, xstate};

const QEMU: &str = "qemu-system-x86_64";

/// Client machine to boot.
pub(crate) struct Boot<'a> {
    pub(crate) kernel: Kernel,
    pub(crate) name: &'a str,
    pub(crate) address: Ipv4Addr,
    pub(crate) memory_mib: u32,
    /// Network device (tap) on the host.
    pub(crate) tap: &'a str,
    /// Folder for files of the machine on the host.
    pub(crate) folder: &'a Path,
    /// None: its root is the host's.
    pub(crate) diskless: Option<&'a Diskless>,
}

/// What a machine boots whose root is not the host's. Only its scripts, and their output, are the host's files.
#[derive(Debug, Clone)]
pub struct Diskless {
    /// The initramfs, which finds the root.
    pub initramfs: PathBuf,
    /// What tells it where the root is: words of the kernel's command line.
    pub words: Vec<String>,
}

/// Path of `init.sh` in the root of a diskless machine.
pub const DISKLESS_INIT: &str = "/sbin/lab-init";

impl Boot<'_> {
    /// Path of the init program, the same on the host and in the machine.
    pub(crate) fn init(&self) -> PathBuf {
        self.folder.join("init.sh")
    }

    /// The only host folder that the machine may write to.
    pub(crate) fn exchange(&self) -> PathBuf {
        self.folder.join("exchange")
    }

    /// Command that runs the machine; the kernel kills it when the thread that started it ends.
    pub(crate) fn command(&self) -> Result<Command> {
        self.kernel.require()?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        match self.kernel {
            Kernel::Uml | Kernel::UmlTrixie | Kernel::UmlSid => {
                command.args(["taskset", "--cpu-list", &processor::next()?.to_string()]);
                self.uml_program(&mut command)?;
                self.uml(&mut command)?;
            }
            Kernel::QemuTrixie if self.diskless.is_some() => {
                return Err(Error::Impossible(format!("{} has no diskless machines yet", self.kernel)));
            }
            Kernel::QemuTrixie => {
                crate::command::require(QEMU)?;
                command.arg(QEMU);
                self.qemu(&mut command)?;
            }
        }
        Ok(command)
    }

    /// Uses `env`, so that setpriv, a host program, does not see the variables for the kernel.
    fn uml_program(&self, command: &mut Command) -> Result<()> {
        command.arg("env");
        if matches!(self.kernel, Kernel::Uml | Kernel::UmlTrixie) {
            let lab = self.folder.parent().unwrap_or(self.folder);
            if let Some(library) = xstate::library(lab)? {
                command.arg(format!("LD_PRELOAD={}", library.display()));
            }
        }
        if self.kernel == Kernel::Uml {
            command.arg("linux.uml");
        } else {
            // The program file has a relative path to the loader of its libc, below this folder.
            let folder = self.kernel.folder();
            command.arg(format!("LD_LIBRARY_PATH={}", folder.join("lib").display()));
            command.arg(folder.join("usr/bin/linux.uml")).current_dir(folder);
        }
        Ok(())
    }

    fn uml(&self, command: &mut Command) -> Result<()> {
        let (tap, mac) = (self.tap, self.mac());
        command
            .arg(format!("mem={}M", self.memory_mib))
            .args(self.root())
            .arg(format!("uml_dir={}/", self.folder.join("uml").display()))
            .arg(format!("umid={}", self.name))
            .args(self.words("/dev/tty0")?)
            .arg(format!("vec0:transport=tap,ifname={tap},depth=128,gro=1,mac={mac}"))
            .args(["con=null", "con0=fd:0,fd:1", "con1=null,fd:2", "console=tty1", "panic=-1"])
            .env("TMPDIR", "/dev/shm");
        Ok(())
    }

    /// Words for the root of a machine of User Mode Linux.
    fn root(&self) -> Vec<String> {
        let Some(Diskless { initramfs, words }) = self.diskless else {
            return ["root=/dev/root", "rootfstype=hostfs", "ro"].map(Into::into).into();
        };
        let network = format!("ip={}:::255.255.255.0:{}:vec0:off", self.address, self.name);
        [&[format!("initrd={}", initramfs.display()), network], words.as_slice()].concat()
    }

    fn qemu(&self, command: &mut Command) -> Result<()> {
        let (folder, exchange, tap) = (self.kernel.folder(), self.exchange(), self.tap);
        // KVM, or QEMU's own translation: scripts/setup-kernels.sh has tested the accelerator on this
        // machine.
        let file = folder.join("accelerator");
        let accelerator = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        // A panic causes a reboot, and a reboot ends the process.
        command
            .args(["-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-accel", accelerator.trim(), "-cpu", "max"])
            .arg("-m")
            .arg(format!("{}M", self.memory_mib))
            .args(["-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line"])
            .args(["-chardev", "file,id=console,path=/dev/stderr", "-serial", "chardev:console"])
            .arg("-netdev")
            .arg(format!("tap,id=net,ifname={tap},script=no,downscript=no"))
            .arg("-device")
            .arg(format!("virtio-net-pci,netdev=net,romfile=,mac={}", self.mac()))
            .args(["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"])
            .args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"])
            .arg("-fsdev")
            .arg(format!("local,id=exchange,path={},security_model=none", exchange.display()))
            .args(["-device", "virtio-9p-pci,fsdev=exchange,mount_tag=exchange"])
            .arg("-kernel")
            .arg(folder.join("vmlinuz"))
            .arg("-initrd")
            .arg(folder.join("initramfs"))
            .arg("-append")
            .arg(format!("console=ttyS1 panic=-1 quiet {}", self.words("/dev/ttyS0")?.join(" ")));
        Ok(())
    }

    /// Words for `init.sh`; [`crate::remove_those_of_the_dead`] also finds the process by them.
    fn words(&self, line: &str) -> Result<Vec<String>> {
        let diskless = self.diskless.map(|_| "diskless".to_owned());
        let words = [
            match self.diskless {
                Some(_) => format!("init={DISKLESS_INIT}"),
                None => format!("init={}", self.init().display()),
            },
            format!("name={}", self.name),
            format!("address={}/24", self.address),
            format!("exchange={}", self.exchange().display()),
            format!("modules={}", self.kernel.modules()?.display()),
            format!("line={line}"),
        ];
        Ok(words.into_iter().chain(diskless).collect())
    }

    /// MAC address: locally administered, unique as the IP address in it.
    fn mac(&self) -> String {
        let [a, b, c, d] = self.address.octets();
        format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }
}
