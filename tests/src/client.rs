//! Client machine for tests: [`lab::Client`] whose failures panic.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::time::Duration;

use crate::must;

const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// Booted client machine, killed on drop.
pub struct Client {
    client: lab::Client,
    kernel: String,
}

/// Running script on a client.
pub struct Running(lab::Running);

/// Output and exit status of a script.
#[derive(Debug, Clone)]
pub struct Output(lab::Output);

impl Client {
    #[track_caller]
    pub(crate) fn booted(client: lab::Client) -> Client {
        let kernel = must(client.wait_booted());
        Client { client, kernel }
    }

    /// Host name, which is part of the NFSv4 client owner.
    pub fn name(&self) -> &str {
        self.client.name()
    }

    /// Address in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.client.address()
    }

    /// Release of the kernel, such as `6.1.176`.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Starts a bash script (`-eu -o pipefail`) as root. Several can run at once. It may write under /mnt and
    /// /tmp, which are in the client's memory.
    #[track_caller]
    pub fn spawn(&self, script: &str) -> Running {
        Running(must(self.client.spawn(script)))
    }

    /// Runs a script and returns its output.
    ///
    /// # Panics
    /// If the script fails, or takes more than two minutes.
    #[track_caller]
    pub fn run(&self, script: &str) -> String {
        self.run_within(RUN_TIMEOUT, script)
    }

    /// [`run`](Client::run) with its own time limit.
    #[track_caller]
    pub fn run_within(&self, timeout: Duration, script: &str) -> String {
        must(self.client.run(timeout, script))
    }

    /// Runs a script that may fail.
    #[track_caller]
    pub fn try_run(&self, script: &str) -> Output {
        self.spawn(script).wait(RUN_TIMEOUT)
    }

    /// Last lines of the kernel's log.
    pub fn console(&self) -> String {
        self.client.console()
    }
}

impl Running {
    /// Waits for the end of the script.
    ///
    /// # Panics
    /// If the script exceeds `timeout`, or the client's kernel dies; with the kernel's log and the script's
    /// state.
    #[track_caller]
    pub fn wait(self, timeout: Duration) -> Output {
        Output(must(self.0.wait(timeout)))
    }

    /// Whether the script has ended: [`wait`](Running::wait) then returns at once.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Kills the script and its processes; [`wait`](Running::wait) still returns its status.
    pub fn kill(&self) {
        self.0.kill();
    }
}

impl Output {
    /// Output, if the exit status is 0.
    #[track_caller]
    pub fn must_succeed(self, script: &str) -> String {
        assert!(self.status == 0, "{}\n--- script\n{script}\n", self.0);
        self.0.text
    }
}

impl Deref for Output {
    type Target = lab::Output;
    fn deref(&self) -> &lab::Output {
        &self.0
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
