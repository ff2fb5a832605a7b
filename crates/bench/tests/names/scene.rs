//! Directory, and several agents of this process that work on it.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bench::crew::Crew;
use bench::phase::{AgentDone, Phase};
use bench::result::{Machine, Measurement, Results};
use bench::run::Run;
use bench::session::{Watcher, conduct};
use bench::target::{Attributes, Mounted, Open, OpenFile, Target};
use bench::team::{Team, Watch};
use bench::trouble::Trouble;
use bench::work::{Progress, Stage};
use clap::Parser;
use tempfile::TempDir;

pub struct Scene {
    dir: TempDir,
    agents: usize,
    faulty: Option<Faulty>,
}

/// Fault of some paths.
#[derive(Clone, Copy)]
pub struct Faulty {
    /// Part of the paths, or their end if operations fail.
    pub path: &'static str,
    /// Whether creation is slow; otherwise every operation on these paths fails.
    pub slow: bool,
}

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    run: Run,
}

pub fn parsed(run: &str) -> Result<Run, clap::Error> {
    let words = ["bench"].into_iter().chain(run.split_whitespace()).chain(["/"]);
    Line::try_parse_from(words).map(|line| line.run)
}

pub fn operations(results: &Results, name: &str) -> u64 {
    results.measurements.iter().filter(|m| m.name == name).map(|m| m.operations).sum()
}

impl Scene {
    pub fn new(agents: usize) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), agents, faulty: None }
    }

    pub fn with(self, faulty: Faulty) -> Self {
        Self { faulty: Some(faulty), ..self }
    }

    pub fn run(&self, run: &str) -> Results {
        let (results, trouble) = self.try_run(run);
        assert_eq!(trouble, None, "{run}");
        results
    }

    pub fn try_run(&self, run: &str) -> (Results, Option<String>) {
        let (results, trouble) = self.conduct(run).unwrap();
        (results, trouble.map(|trouble| trouble.to_string()))
    }

    pub fn refused(&self, run: &str) -> String {
        self.conduct(run).map(|(results, _)| results).unwrap_err().to_string()
    }

    pub fn must_be_empty(&self) {
        let left: Vec<_> = fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    fn conduct(&self, run: &str) -> Result<(Results, Option<Trouble>), Trouble> {
        let run = parsed(run).unwrap();
        let (name, _, common, plan) = run.parts();
        let mounted = Mounted::open(self.dir.path(), true).unwrap();
        let target: Arc<dyn Target> = Arc::new(FaultyTarget { inner: mounted, faulty: self.faulty });
        let mut team = Agents { count: self.agents, target };
        conduct(name, plan, common, &mut team, &mut Nobody)
    }
}

/// Team of crews of this process.
struct Agents {
    count: usize,
    target: Arc<dyn Target>,
}

impl Team for Agents {
    fn agents(&self) -> usize {
        self.count
    }

    fn machines(&self) -> Vec<Machine> {
        vec![]
    }

    fn free_bytes(&self) -> Option<u64> {
        self.target.free_bytes()
    }

    fn has_caches(&self) -> bool {
        self.target.has_caches()
    }

    fn run(&mut self, phase: &Phase, _watch: &mut Watch<'_>) -> Result<Vec<AgentDone>, Trouble> {
        let crews = (0..self.count)
            .map(|agent| Crew::prepare(phase, agent, &self.target))
            .collect::<Result<Vec<_>, _>>()?;
        let start = Instant::now();
        crews.iter().for_each(|crew| crew.start(start));
        loop {
            let stages: Vec<Stage> = crews.iter().map(|crew| crew.wait(Duration::from_millis(1))).collect();
            if stages.iter().all(|stage| *stage == Stage::Ended) {
                return crews.into_iter().map(Crew::end).collect();
            }
            // A crew that ended before the time is not at the stonewall.
            let at_the_wall = |stage: &Stage| match stage {
                Stage::AtTheWall(furthest) => Some(*furthest),
                _ => None,
            };
            if stages.iter().all(|stage| *stage != Stage::Working) {
                let furthest = stages.iter().filter_map(at_the_wall).max().unwrap_or(0);
                crews.iter().for_each(|crew| crew.go_on_to(furthest));
            }
        }
    }
}

struct FaultyTarget {
    inner: Mounted,
    faulty: Option<Faulty>,
}

impl FaultyTarget {
    fn check(&self, path: &str) -> io::Result<()> {
        match self.faulty {
            Some(faulty) if !faulty.slow && path.ends_with(faulty.path) => Err(io::Error::other("a fault")),
            _ => Ok(()),
        }
    }
}

impl Target for FaultyTarget {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }

    fn fetched_bytes(&self) -> Option<u64> {
        self.inner.fetched_bytes()
    }

    fn forget_names(&self) -> io::Result<()> {
        self.inner.forget_names()
    }

    fn open(&self, path: &str, open: Open) -> io::Result<Box<dyn OpenFile>> {
        self.check(path)?;
        if let (Some(Faulty { path: slow, slow: true }), Open::New) = (self.faulty, open)
            && path.contains(slow)
        {
            // The delay is the subject of the test.
            thread::sleep(Duration::from_millis(2));
        }
        self.inner.open(path, open)
    }

    fn stat(&self, path: &str) -> io::Result<Attributes> {
        self.check(path)?;
        self.inner.stat(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(to)?;
        self.inner.rename(from, to)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.inner.unlink(path)
    }

    fn mkdir(&self, path: &str) -> io::Result<()> {
        self.inner.mkdir(path)
    }

    fn rmdir(&self, path: &str) -> io::Result<()> {
        self.inner.rmdir(path)
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str, bool)) -> io::Result<()> {
        self.inner.list(path, each)
    }
}

struct Nobody;

impl Watcher for Nobody {
    fn begins(&mut self, _phase: &Phase) {}

    fn goes_on(&mut self, _progress: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn ended(&mut self, _measurement: Option<&Measurement>) {}
}
