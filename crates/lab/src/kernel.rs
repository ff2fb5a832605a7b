//! Kernels of client machines.
//!
//! User Mode Linux runs as a process of this machine. `make setup` installs this machine's own;
//! `scripts/setup-kernels.sh` unpacks the others, each to a folder:
//!
//! ```text
//! HEOROT_KERNELS, or heorot/kernels in the user's cache folder
//! ├─ uml-sid/  release        7.2.7
//! │            package        the package that it comes from
//! │            config         the kernel's configuration
//! │            modules/7.2.7  its modules
//! │            usr/bin/linux.uml, lib
//! └─ qemu-trixie/  release, package, config, modules as above
//!                  vmlinuz, initramfs
//! ```

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Environment variable with the default kernel of clients.
const CHOICE: &str = "HEOROT_KERNEL";
const FOLDER: &str = "HEOROT_KERNELS";
const UML_MODULES: &str = "/usr/lib/uml/modules";

/// Kernel of a client machine, by its Debian package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// This machine's package `user-mode-linux`: Linux 6.1 in Debian 12.
    Uml,
    /// Debian 13's `user-mode-linux`: Linux 6.12.
    UmlTrixie,
    /// The newest `user-mode-linux` of Debian at the time of installation: Linux 7.2 in November 2026.
    UmlSid,
    /// Debian 13's `linux-image-amd64`, Linux 6.12, in QEMU.
    QemuTrixie,
}

impl Kernel {
    /// All kernels, installed or not.
    pub const ALL: [Kernel; 4] = [Kernel::Uml, Kernel::UmlTrixie, Kernel::UmlSid, Kernel::QemuTrixie];

    /// Name in `HEOROT_KERNEL`, in `scripts/setup-kernels.sh`, and of the kernel's folder.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Uml => "uml",
            Kernel::UmlTrixie => "uml-trixie",
            Kernel::UmlSid => "uml-sid",
            Kernel::QemuTrixie => "qemu-trixie",
        }
    }

    /// Kernel in the environment variable `HEOROT_KERNEL`; default: [`Kernel::Uml`].
    ///
    /// # Errors
    /// When no kernel has that name.
    pub fn chosen() -> Result<Kernel> {
        let Some(name) = std::env::var_os(CHOICE) else { return Ok(Kernel::Uml) };
        Kernel::ALL.into_iter().find(|kernel| *kernel.name() == *name).ok_or_else(|| {
            let names = Kernel::ALL.map(Kernel::name).join(", ");
            Error::Impossible(format!("{CHOICE}={}: it is one of {names}", name.display()))
        })
    }

    /// Installed kernels.
    pub fn installed() -> Vec<Kernel> {
        Kernel::ALL.into_iter().filter(|kernel| kernel.is_installed()).collect()
    }

    /// Whether the kernel is installed.
    pub fn is_installed(self) -> bool {
        match self {
            Kernel::Uml => Path::new(UML_MODULES).exists(),
            _ => self.folder().join("release").exists(),
        }
    }

    /// Checks that the kernel is installed.
    pub(crate) fn require(self) -> Result<()> {
        match self {
            _ if self.is_installed() => Ok(()),
            Kernel::Uml => Err(Error::Missing("linux.uml")),
            _ => Err(Error::NoKernel { name: self.name(), folder: self.folder() }),
        }
    }

    /// Folder of `scripts/setup-kernels.sh` for the kernel; unused for [`Kernel::Uml`].
    pub(crate) fn folder(self) -> PathBuf {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let kernels = variable(FOLDER).or_else(|| Some(cache()?.join("heorot/kernels")));
        kernels.unwrap_or_default().join(self.name())
    }

    /// Folder of the kernel's modules, as /lib/modules on a machine.
    pub(crate) fn modules(self) -> Result<PathBuf> {
        let folder = match self {
            Kernel::Uml => UML_MODULES.into(),
            _ => self.folder().join("modules"),
        };
        fs::canonicalize(&folder).map_err(Error::file("look for", &folder))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_a_name_of_its_own() {
        for (number, kernel) in Kernel::ALL.into_iter().enumerate() {
            assert!(Kernel::ALL[..number].iter().all(|other| other.name() != kernel.name()), "{kernel}");
        }
    }
}
