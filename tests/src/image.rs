//! Image of a diskless machine, and the initramfs that finds it: a shell, a compiler, and nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of this machine that the image has, with the libraries that they need.
const PROGRAMS: [&str; 2] = ["/usr/bin/bash", "/usr/bin/tcc"];
/// What the compiler reads.
const COMPILER_FILES: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu/tcc",
    "/usr/lib/x86_64-linux-gnu/crt1.o",
    "/usr/lib/x86_64-linux-gnu/crti.o",
    "/usr/lib/x86_64-linux-gnu/crtn.o",
    "/usr/lib/x86_64-linux-gnu/libc.so",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libc_nonshared.a",
    "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
];
/// A kernel, for its initramfs.
pub struct KernelFiles {
    /// Folder with the modules of its release, as /lib/modules.
    pub modules: PathBuf,
    /// Release, such as `6.1.0-56-cloud-amd64`.
    pub release: String,
    /// Its configuration.
    pub config: String,
    /// Modules beside those that the hook adds, a name in a line.
    pub more_modules: &'static str,
}

impl KernelFiles {
    /// User Mode Linux, as `make setup` installs it.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn uml() -> Self {
        let modules = PathBuf::from("/usr/lib/uml/modules");
        let release = sh(&format!("ls {} | head -1", modules.display()));
        Self { modules, release, config: sh("linux.uml --showconfig"), more_modules: "" }
    }

    /// A kernel of a folder, as `scripts/setup-pxe.sh` makes it.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn of(folder: &Path, more_modules: &'static str) -> Self {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}: make pxe", path.display()))
        };
        let release = read("release").trim().to_owned();
        Self { modules: folder.join("modules"), release, config: read("config"), more_modules }
    }
}

/// Runs a script, as root of this machine.
#[track_caller]
fn sh(script: &str) -> String {
    let output =
        Command::new("bash").args(["-eu", "-o", "pipefail", "-c", script]).output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {}\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Makes the image in a new folder.
///
/// # Panics
/// If a program of `make setup` is missing.
#[track_caller]
pub fn make_image(folder: &Path) {
    for dir in ["usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "var/lib", "root"] {
        fs::create_dir_all(folder.join(dir)).expect("a folder");
    }
    for dir in ["proc", "sys", "dev", "run", "tmp", "mnt"] {
        fs::create_dir(folder.join(dir)).expect("a folder");
    }
    for (name, to) in [("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        symlink(to, folder.join(name)).expect("a link");
    }
    let into = folder.display();
    for program in PROGRAMS {
        sh(&format!("cp --parents -L {program} {into}"));
        sh(&format!(
            "ldd {program} | grep -o '/[^ ]*' | while read -r library; do cp --parents -L $library {into}; done"
        ));
    }
    sh(&format!(
        "echo '#include <stdio.h>' | tcc -E - | grep -o '/usr/include/[^\"]*' | sort -u | xargs cp -L --parents -t {into}"
    ));
    sh(&format!(
        "cp /bin/busybox {into}/bin/; for applet in $(busybox --list); do [ -e {into}/bin/$applet ] || ln -s busybox \
         {into}/bin/$applet; done; cp -a --parents {} {into}",
        COMPILER_FILES.join(" ")
    ));
    let init = folder.join(lab::DISKLESS_INIT.trim_start_matches('/'));
    fs::write(&init, lab::INIT).expect("a file");
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).expect("a program");
    fs::write(folder.join("etc/passwd"), "root:x:0:0:root:/root:/bin/bash\n").expect("a file");
    fs::write(folder.join("etc/version"), "1\n").expect("a file");
}

/// Makes an initramfs for a kernel with the hook and the script of `boot/initramfs-tools`, and returns its path.
///
/// # Panics
/// If a program of `make setup` is missing.
#[track_caller]
pub fn make_initramfs(folder: &Path, kernel: &KernelFiles) -> PathBuf {
    let (conf, made) = (folder.join("initramfs-tools"), folder.join("initramfs"));
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../boot");
    let KernelFiles { modules, release, config, more_modules } = kernel;
    fs::create_dir_all(conf.join("boot")).expect("a folder");
    fs::write(conf.join(format!("boot/config-{release}")), config).expect("a file");
    fs::write(conf.join("modules"), more_modules).expect("a file");
    // mkinitramfs looks for modules in /lib/modules, and for what the kernel can do in /boot: in a mount namespace of its own
    // they are there.
    sh(&format!(
        "cp -r {ours}/initramfs-tools/hooks {ours}/initramfs-tools/scripts {conf}/; cp {ours}/root.sh {conf}/heorot-root.sh
         mkdir {conf}/conf.d
         printf 'MODULES=list\nBUSYBOX=y\nCOMPRESS=gzip\nKEYMAP=n\nDEVICE=\n' >{conf}/initramfs.conf
         unshare --mount bash -eu -c \"mount --bind {modules} /lib/modules; mount --bind {conf}/boot /boot
             mkinitramfs -d {conf} -o {made} {release}\"",
        conf = conf.display(),
        ours = ours.display(),
        made = made.display(),
        modules = modules.display(),
    ));
    made
}

/// Makes one with the module of `boot/dracut`, and returns its path.
///
/// # Panics
/// If a program of `make setup` is missing.
#[track_caller]
pub fn make_dracut_initramfs(folder: &Path, kernel: &KernelFiles) -> PathBuf {
    let (base, made) = (folder.join("root/usr/lib/dracut"), folder.join("dracut.img"));
    let KernelFiles { modules, release, .. } = kernel;
    // dracut looks for all of its modules in one place: a copy of that gets ours, as an image does.
    sh(&format!(
        "mkdir -p {root}/usr/lib {root}/sbin; touch {root}/sbin/mount.nfs; cp -r /usr/lib/dracut {root}/usr/lib/; {install} {root}
         unshare --mount bash -eu -c \"mount --bind {modules} /lib/modules
             dracutbasedir={base} dracut --quiet --force --no-hostonly --gzip --tmpdir {folder} --conf /dev/null \\
                 --confdir {root}/etc/dracut.conf.d --kver {release} --omit 'systemd systemd-initrd dracut-systemd' \\
                 --modules 'base network network-legacy kernel-network-modules udev-rules heorot' {made}\"",
        root = folder.join("root").display(),
        install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../boot/install").display(),
        base = base.display(),
        folder = folder.display(),
        modules = modules.display(),
        made = made.display(),
    ));
    made
}
