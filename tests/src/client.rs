//! A client machine whose scripts must succeed: [`lab::Client`], where what fails panics.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::time::Duration;

use crate::must;

const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// A booted client machine. Dropping it kills it.
pub struct Client {
    client: lab::Client,
    kernel: String,
}

/// A script that was started on a client.
pub struct Running(lab::Running);

/// What a script wrote, and how it ended.
#[derive(Debug, Clone)]
pub struct Output(lab::Output);

impl Client {
    #[track_caller]
    pub(crate) fn booted(client: lab::Client) -> Client {
        let kernel = must(client.wait_booted());
        Client { client, kernel }
    }

    /// Its host name, by which NFSv4 servers tell it apart.
    pub fn name(&self) -> &str {
        self.client.name()
    }

    /// Its address in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.client.address()
    }

    /// The release of its kernel, such as `6.1.176`.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Starts a bash script (`-eu -o pipefail`) as root. Several can run at once. It may write under /mnt and
    /// /tmp, which are the client's own, in memory.
    #[track_caller]
    pub fn spawn(&self, script: &str) -> Running {
        Running(must(self.client.spawn(script)))
    }

    /// Runs a script, and returns what it wrote.
    ///
    /// # Panics
    /// If it fails, or takes more than two minutes.
    #[track_caller]
    pub fn run(&self, script: &str) -> String {
        self.run_within(RUN_TIMEOUT, script)
    }

    /// [`run`](Client::run) with a time-out of its own.
    #[track_caller]
    pub fn run_within(&self, timeout: Duration, script: &str) -> String {
        must(self.client.run(timeout, script))
    }

    /// Runs a script that may fail.
    #[track_caller]
    pub fn try_run(&self, script: &str) -> Output {
        self.spawn(script).wait(RUN_TIMEOUT)
    }

    /// The last lines of its kernel's log.
    pub fn console(&self) -> String {
        self.client.console()
    }
}

impl Running {
    /// Waits for it to end.
    ///
    /// # Panics
    /// If it does not within `timeout`, or if the client's kernel dies; with the kernel's log, and with what
    /// the script was doing.
    #[track_caller]
    pub fn wait(self, timeout: Duration) -> Output {
        Output(must(self.0.wait(timeout)))
    }

    /// Whether it has ended: [`wait`](Running::wait) then returns at once.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Kills it and the processes it started; [`wait`](Running::wait) still tells how it ended.
    pub fn kill(&self) {
        self.0.kill();
    }
}

impl Output {
    /// What it wrote, if it ended with status 0.
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
