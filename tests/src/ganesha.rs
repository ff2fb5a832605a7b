//! nfs-ganesha of Debian, on the lab's network: [`lab::Ganesha`] whose failures panic.

use crate::{Client, Lab, must};

/// Running ganesha that exports one folder of this machine; killed on drop.
pub struct Ganesha(lab::Ganesha);

impl Ganesha {
    /// Starts ganesha on a folder of the lab, on the same disk as Heorot's data.
    ///
    /// # Panics
    /// If ganesha is not installed: `make bench` installs it.
    #[track_caller]
    pub fn start(lab: &Lab) -> Ganesha {
        Ganesha(must(lab::Ganesha::start(lab.inner(), None)))
    }

    /// Mounts the folder on `mount_point`, with `vers=4.2`.
    #[track_caller]
    pub fn mount_at(&self, client: &Client, mount_point: &str) {
        client.run(&self.0.mount_script(mount_point));
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.0.pid().expect("it was started")
    }

    /// Output of `ganesha.nfsd -v`, such as `NFS-Ganesha Release = V4.3`.
    pub fn version() -> String {
        lab::Ganesha::version()
    }
}
