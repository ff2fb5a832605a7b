//! Experiment: one cluster of a configuration, built, measured with a plain TCP stream, loaded, and removed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bench::result::Results;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::config::{Cluster, Config, Run, System};
use crate::server::in_namespace;
use crate::stream::{self, Direction};
use crate::{Client, Error, Ganesha, Heorot, Kernel, Lab, Link, Namespace, Result, disk, heorot, interrupt};

/// Mount point on clients.
const MOUNT_POINT: &str = "/mnt/lab";
/// Duration of a stream: its first round trips, and the burst of a token bucket, are less than 0.1 % of it.
const STREAM: Duration = Duration::from_secs(5);
const STREAMS: usize = 2;
const MOUNT_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Speeds in bytes a second: of a plain TCP stream, and of the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// From a client to a server.
    pub up: f64,
    /// From a server to a client.
    pub down: f64,
    /// Synchronous writes to the disk that all servers share.
    pub disk: f64,
}

impl Speed {
    /// The faster of two measurements of each: other load on the machine can only make a measurement slower.
    #[must_use]
    pub fn or_quicker(self, other: Speed) -> Speed {
        Speed { up: self.up.max(other.up), down: self.down.max(other.down), disk: self.disk.max(other.disk) }
    }
}

/// Report of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Output on all machines.
    pub text: String,
    /// Results in `{json}`, if the run wrote any.
    pub results: Option<Results>,
    /// User and system seconds of all servers meanwhile.
    pub cpu_seconds: f64,
}

/// Running cluster, mounted on all its clients.
pub struct Experiment {
    // Drop order: clients first, since they wait for servers that are gone.
    clients: Vec<Client>,
    servers: Servers,
    /// Namespace for commands of this machine, on a link without a limit. Clients reach their programs there.
    desk: Namespace,
    program: PathBuf,
    link: Link,
    lab: Lab,
}

enum Servers {
    Heorot(Heorot),
    Ganesha(Ganesha, Namespace),
}

impl Experiment {
    /// Builds the cluster.
    ///
    /// # Errors
    /// When a part of the cluster cannot be built.
    pub fn build(config: &Config, cluster: &Cluster) -> Result<Experiment> {
        let (lab, shaped, program) = (Lab::open()?, config.link(cluster), heorot::program()?);
        let link = Some(shaped);
        let servers = match cluster.system {
            System::Heorot => {
                let (metaservers, data_servers) = (cluster.metaservers, cluster.data_servers);
                let heorot = Heorot::start(&lab, &program, metaservers, data_servers, link)?;
                heorot.stripe(&program, cluster)?;
                Servers::Heorot(heorot)
            }
            System::Ganesha => {
                let place = lab.namespace(link)?;
                Servers::Ganesha(Ganesha::start(&lab, Some(&place))?, place)
            }
        };
        let kernel = Kernel::chosen()?;
        let client = |number| lab.client(kernel, &format!("client{number}"), config.memory_mib, link);
        let clients = (0..cluster.clients).map(client).collect::<Result<Vec<_>>>()?;
        for client in &clients {
            client.wait_booted()?;
        }
        let desk = lab.namespace(None)?;
        let experiment = Experiment { clients, servers, desk, program, link: shaped, lab };
        for client in &experiment.clients {
            client.run(MOUNT_TIMEOUT, &experiment.mount_script(&config.mount))?;
            if let Some(kib) = config.read_ahead_kib {
                let script =
                    format!("echo {kib} >/sys/class/bdi/$(mountpoint -d {MOUNT_POINT})/read_ahead_kb");
                client.run(MOUNT_TIMEOUT, &script)?;
            }
            if let Some(kib) = config.dirty_background_kib {
                let script = format!("echo {} >/proc/sys/vm/dirty_background_bytes", u64::from(kib) << 10);
                client.run(MOUNT_TIMEOUT, &script)?;
            }
        }
        Ok(experiment)
    }

    fn mount_script(&self, version: &str) -> String {
        match &self.servers {
            Servers::Heorot(heorot) => heorot::mount_script(heorot.metaserver, version, MOUNT_POINT),
            Servers::Ganesha(ganesha, _) => ganesha.mount_script(MOUNT_POINT),
        }
    }

    /// Namespace of the first server with file data.
    fn data_server(&self) -> &Namespace {
        match &self.servers {
            Servers::Heorot(heorot) => &heorot.namespaces()[1],
            Servers::Ganesha(_, place) => place,
        }
    }

    /// Measures a plain TCP stream between the first client and the first data server, then the disk, without
    /// other load.
    ///
    /// # Errors
    /// When a measurement fails.
    pub fn speed(&self) -> Result<Speed> {
        let bytes = (self.link.bytes_per_second() * STREAM.as_secs_f64()) as u64;
        let (client, server) = (&self.clients[0], self.data_server());
        let quickest = |direction| {
            let mut streams = (0..STREAMS).map(|_| stream::measure(client, server, direction, bytes));
            streams.try_fold(0.0, |quickest: f64, stream| Ok(quickest.max(stream?)))
        };
        let (up, down) = (quickest(Direction::Up)?, quickest(Direction::Down)?);
        Ok(Speed { up, down, disk: disk::measure(self.lab.folder())? })
    }

    /// Link of each machine.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Network and folder of the cluster.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Executes `run` on all machines at the same time, and waits for all of them.
    ///
    /// # Errors
    /// When a command fails or exceeds the timeout.
    pub fn run(&self, run: &Run) -> Result<Report> {
        let timeout = Duration::from_secs(run.minutes_max * 60);
        let cpu_seconds = self.cpu_seconds()?;
        let json_here = self.lab.folder().join("here.json");
        let here = run.here.as_deref().map(|command| {
            let script = self.fill_in(command, &json_here.display().to_string());
            Here::start(&self.desk, &script, &self.lab.folder().join("here.out"))
        });
        let here = here.transpose()?;
        let mut running = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            // Write the results to the client's memory first: a file in the exchange folder is written once.
            let mut commands: Vec<_> = run.each.iter().collect();
            commands.extend(run.first.iter().filter(|_| number == 0));
            for command in commands {
                let result = client.exchange().join("result.json");
                let script = self.fill_in(command, "/tmp/result.json");
                let copy = format!("\n[ ! -e /tmp/result.json ] || mv /tmp/result.json {}", result.display());
                running.push(client.spawn(&(script + &copy))?);
            }
        }
        let mut text = String::new();
        for running in running {
            let output = running.wait(timeout)?;
            if output.status != 0 {
                // The cause may be on this machine.
                let here = here.as_ref().map_or_else(String::new, Here::said);
                return Err(Error::Impossible(format!("run {:?} on a client: {output}\n{here}", run.name)));
            }
            text += &output.text;
        }
        if let Some(here) = here {
            text += &here.wait(timeout, &run.name)?;
        }
        let files = [json_here, self.clients[0].exchange().join("result.json")];
        let results = files.iter().find_map(|file| take(file)).transpose()?;
        Ok(Report { text, results, cpu_seconds: self.cpu_seconds()? - cpu_seconds })
    }

    fn cpu_seconds(&self) -> Result<f64> {
        match &self.servers {
            Servers::Heorot(heorot) => heorot.cpu_seconds(),
            Servers::Ganesha(ganesha, _) => ganesha.cpu_seconds(),
        }
    }

    fn fill_in(&self, command: &str, json: &str) -> String {
        let folder = self.program.parent().unwrap_or(Path::new("/"));
        let command = command
            .replace("{dir}", MOUNT_POINT)
            .replace("{json}", json)
            .replace("{clients}", &self.clients.len().to_string())
            .replace("{address}", &self.desk.address.to_string());
        format!("PATH={}:$PATH\n{command}", folder.display())
    }
}

/// Reads and removes a file with results.
fn take(file: &Path) -> Option<Result<Results>> {
    let text = fs::read(file).ok()?;
    let _ = fs::remove_file(file);
    Some(serde_json::from_slice(&text).map_err(|e| Error::Impossible(format!("results of a run: {e}"))))
}

/// Script on this machine; killed with all its processes on drop.
struct Here {
    process: Child,
    output: PathBuf,
    started: Instant,
}

impl Here {
    fn start(place: &Namespace, script: &str, output: &Path) -> Result<Here> {
        let file = fs::File::create(output).map_err(Error::file("make", output))?;
        let too = file.try_clone().map_err(Error::file("make", output))?;
        let process = in_namespace(Some(&place.name))
            .args(["bash", "-eu", "-o", "pipefail", "-c", script])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(too)
            .spawn()
            .map_err(Error::io("start setpriv bash"))?;
        Ok(Here { process, output: output.into(), started: Instant::now() })
    }

    /// Its output so far.
    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    fn wait(mut self, timeout: Duration, name: &str) -> Result<String> {
        loop {
            interrupt::check()?;
            match self.process.try_wait() {
                Ok(None) if self.started.elapsed() < timeout => std::thread::sleep(POLL),
                ended => {
                    let text = self.said();
                    return match ended {
                        Ok(Some(status)) if status.success() => Ok(text),
                        Ok(Some(status)) => {
                            Err(Error::Impossible(format!("run {name:?} on this machine: {status}\n{text}")))
                        }
                        _ => Err(Error::Impossible(format!(
                            "run {name:?}: not done after {timeout:?}\n{text}"
                        ))),
                    };
                }
            }
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}
