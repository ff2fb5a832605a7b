//! nfs-ganesha from Debian, on the lab's network: [`lab::Ganesha`], where what fails panics.

use crate::{Client, Lab, must};

/// A running ganesha that exports one folder of this machine. Dropping it kills it.
pub struct Ganesha(lab::Ganesha);

impl Ganesha {
    /// Starts it on a folder in the lab's, which is on the disk that Heorot's data are on too.
    ///
    /// # Panics
    /// If it is not installed: `make bench` provides it.
    #[track_caller]
    pub fn start(lab: &Lab) -> Ganesha {
        Ganesha(must(lab::Ganesha::start(lab.inner(), None)))
    }

    /// Mounts its folder on `mount_point`, with `vers=4.2`.
    #[track_caller]
    pub fn mount_at(&self, client: &Client, mount_point: &str) {
        client.run(&self.0.mount_script(mount_point));
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid().expect("it was started")
    }

    /// What `ganesha.nfsd -v` says, such as `NFS-Ganesha Release = V4.3`.
    pub fn version() -> String {
        lab::Ganesha::version()
    }
}
