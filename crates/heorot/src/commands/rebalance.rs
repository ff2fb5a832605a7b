//! `heorot rebalance`: data move to emptier targets now, and not at the leader's next look.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::admin::api::PoolBalance;
use crate::admin::client::AdminClient;
use crate::cli::RebalanceArgs;
use crate::cli::table::aligned;
use command_line::Failure;

/// Interval between two questions of how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time for the leader to find chains to move: it counts the bytes of the fullest targets first. It goes on after it.
const LOOK_TIME_MAX: Duration = Duration::from_secs(10);
/// Time that chains may lack a member while nothing else moves: a data server that starts again is back before.
const WAITING_TIME_MAX: Duration = Duration::from_secs(60);
/// Time in which chains that move, or the removal of what they left behind, must have changed something.
const STILL_TIME_MAX: Duration = Duration::from_secs(900);
/// Time without an answer after which the wait ends: an election takes some seconds.
const SILENT_TIME_MAX: Duration = Duration::from_secs(60);

/// `heorot rebalance`. Ctrl-C ends the wait only: chains move on.
pub(crate) fn rebalance(args: &RebalanceArgs) -> Result<(), Failure> {
    let client = AdminClient::find(&args.admin)?;
    let mut pools: Vec<PoolBalance> = client.post("/rebalance")?;
    let began = Instant::now();
    let (mut answered, mut progressed) = (began, began);
    let mut before = pools.clone();
    let mut line = ProgressLine::new(!args.json);
    loop {
        if pools != before {
            (before, progressed) = (pools.clone(), Instant::now());
        }
        let is_over = match args.wait {
            true => is_over(&pools, progressed.elapsed()),
            false => !pools.iter().any(is_looked_at) || began.elapsed() > LOOK_TIME_MAX,
        };
        if is_over {
            break;
        }
        line.show(&pools)?;
        std::thread::sleep(LOOK_EVERY);
        match client.get("/rebalance", &[]) {
            Ok(now) => (pools, answered) = (now, Instant::now()),
            Err(why) if answered.elapsed() > SILENT_TIME_MAX => return Err(why),
            Err(_) => {}
        }
    }
    line.end()?;
    match args.json {
        true => println!("{:#}", serde_json::to_value(&pools)?),
        false => print!("{}", table(&pools)),
    }
    conclusion(&pools, args.wait).map(|said| {
        if !args.json {
            println!("{said}");
        }
    })
}

fn is_looked_at(pool: &PoolBalance) -> bool {
    pool.state == "looking"
}

fn is_even(pool: &PoolBalance) -> bool {
    pool.state == "even"
}

/// True if the pool comes nearer to its balance.
fn goes_on(pool: &PoolBalance) -> bool {
    ["moving", "cleaning", "looking"].contains(&pool.state.as_str())
}

/// True if nothing more is to be waited for. `still`: the time since something changed.
fn is_over(pools: &[PoolBalance], still: Duration) -> bool {
    let is_waiting = |pool: &PoolBalance| pool.state == "waiting";
    let time_max = match () {
        () if pools.iter().any(goes_on) => STILL_TIME_MAX,
        () if pools.iter().any(is_waiting) => WAITING_TIME_MAX,
        () => return true,
    };
    still > time_max
}

/// What there is to say at the end; an error if the wait has ended and pools are not even.
fn conclusion(pools: &[PoolBalance], has_waited: bool) -> Result<String, Failure> {
    let uneven: Vec<&PoolBalance> = pools.iter().filter(|pool| !is_even(pool)).collect();
    if uneven.is_empty() {
        return Ok("the targets of each pool are equally full, within 5 % of their size".into());
    }
    let still = |pool: &PoolBalance| {
        let minutes = STILL_TIME_MAX.as_secs() / 60;
        (has_waited && goes_on(pool))
            .then(|| format!("{}, and nothing has changed for {minutes} minutes", state(pool)))
    };
    let why = |pool: &&PoolBalance| {
        let reasons = [still(pool), pool.reason.clone()];
        let reasons = reasons.into_iter().flatten().collect::<Vec<_>>().join(": ");
        (!reasons.is_empty()).then(|| format!("pool {}: {reasons}", pool.pool))
    };
    let reasons: Vec<String> = uneven.iter().filter_map(why).collect();
    if has_waited {
        return Err(Failure::new(format!("not all pools are even: {}", reasons.join("; "))));
    }
    let go_on = uneven.iter().any(|pool| goes_on(pool));
    let go_on = go_on.then(|| {
        "chains move by themselves from now on; heorot rebalance --wait stays until that ends".into()
    });
    Ok(go_on.into_iter().chain(reasons).collect::<Vec<_>>().join("\n"))
}

fn state(pool: &PoolBalance) -> String {
    match pool.moving {
        0 => pool.state.clone(),
        1 => "1 chain moves".into(),
        count => format!("{count} chains move"),
    }
}

fn table(pools: &[PoolBalance]) -> String {
    let mut rows = vec![["pool", "fullest", "", "emptiest", "", "state"].map(String::from).to_vec()];
    let percent = |percent: f64| format!("{percent:.1} %");
    rows.extend(pools.iter().map(|pool| {
        vec![
            pool.pool.clone(),
            percent(pool.fullest_percent),
            pool.fullest.clone(),
            percent(pool.emptiest_percent),
            pool.emptiest.clone(),
            state(pool),
        ]
    }));
    aligned(&rows, 1..=1)
}

/// Line of a terminal that is written again and again.
struct ProgressLine {
    is_shown: bool,
    width: usize,
}

impl ProgressLine {
    fn new(is_for_people: bool) -> Self {
        Self { is_shown: is_for_people && std::io::stdout().is_terminal(), width: 0 }
    }

    fn show(&mut self, pools: &[PoolBalance]) -> Result<(), Failure> {
        if self.is_shown {
            let of_pool = |pool: &PoolBalance| {
                let (most, least) = (pool.fullest_percent, pool.emptiest_percent);
                format!("{}: {least:.1} % to {most:.1} %, {}", pool.pool, state(pool))
            };
            self.write(&pools.iter().map(of_pool).collect::<Vec<_>>().join("; "))?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.width > 0 {
            self.write("")?;
            write!(std::io::stdout(), "\r")?;
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout();
        write!(out, "\r{text:<width$}", width = self.width)?;
        self.width = text.chars().count();
        Ok(out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, state: &str, moving: u32, reason: Option<&str>) -> PoolBalance {
        PoolBalance {
            pool: name.into(),
            fullest: "ds1:/data/sda".into(),
            fullest_percent: 61.2,
            emptiest: "ds4:/data/sda".into(),
            emptiest_percent: 5.0,
            moving,
            incomplete: 0,
            state: state.into(),
            reason: reason.map(String::from),
        }
    }

    #[test]
    fn the_table_has_the_fullest_and_the_emptiest_target_of_each_pool() {
        let expected = "\
pool     fullest                 emptiest                 state
default   61.2 %  ds1:/data/sda  5.0 %     ds4:/data/sda  16 chains move
flash     61.2 %  ds1:/data/sda  5.0 %     ds4:/data/sda  in vain
";
        let pools = [pool("default", "moving", 16, None), pool("flash", "in vain", 0, Some("no room"))];
        assert_eq!(table(&pools), expected);
    }

    #[test]
    fn the_wait_ends_when_all_pools_are_even_or_nothing_moves_and_says_why() {
        let (even, moves) = (pool("default", "even", 0, None), pool("a", "moving", 2, None));
        let (stays, waits) =
            (pool("b", "in vain", 0, Some("no room")), pool("c", "waiting", 0, Some("away")));
        let seconds = Duration::from_secs;
        let is_over = |pools: &[&PoolBalance], still| {
            is_over(&pools.iter().map(|pool| (*pool).clone()).collect::<Vec<_>>(), seconds(still))
        };
        assert!(is_over(&[], 0) && is_over(&[&even], 0) && is_over(&[&even, &stays], 0));
        assert!(!is_over(&[&even, &moves], 900) && !is_over(&[&waits, &moves], 900));
        assert!(is_over(&[&even, &moves], 901) && is_over(&[&waits, &moves], 901));
        assert!(!is_over(&[&even, &waits], 59) && is_over(&[&even, &waits], 61));

        let said = |pools: &[PoolBalance], waited| conclusion(pools, waited).map_err(|why| why.to_string());
        assert!(said(std::slice::from_ref(&even), true).unwrap().contains("equally full"));
        let uneven = [even.clone(), stays.clone(), waits];
        assert_eq!(said(&uneven, true), Err("not all pools are even: pool b: no room; pool c: away".into()));
        let still = said(std::slice::from_ref(&moves), true).unwrap_err();
        assert_eq!(
            still,
            "not all pools are even: pool a: 2 chains move, and nothing has changed for 15 minutes"
        );
        let begun = said(&[moves, stays], false).unwrap();
        assert!(
            begun.starts_with("chains move by themselves") && begun.ends_with("pool b: no room"),
            "{begun}"
        );
    }
}
