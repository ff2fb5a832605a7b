//! Makes a failing sequence as short and as simple as it can be: rows left out, first many at once, then one by one;
//! then numbers made 0.

use crate::choose::Picks;

/// A run of a short case takes about a millisecond for each command.
const RUNS_MAX: usize = 3000;

/// `disagrees` says at which row a sequence fails, if it does.
pub fn shrink(rows: &[Picks], disagrees: impl Fn(&[Picks]) -> Option<usize>) -> Vec<Picks> {
    let mut runs = 0;
    let mut still_fails = |rows: &mut Vec<Picks>| {
        runs += 1;
        match disagrees(rows) {
            Some(at) if runs < RUNS_MAX => {
                rows.truncate(at + 1); // what comes after the failure has no part in it
                true
            }
            Some(_) | None => false,
        }
    };
    let mut shortest = rows.to_vec();
    let mut piece = shortest.len() / 2;
    while piece > 0 {
        let mut from = 0;
        while from < shortest.len() {
            let mut shorter = shortest.clone();
            shorter.drain(from..(from + piece).min(shortest.len()));
            if still_fails(&mut shorter) {
                shortest = shorter;
            } else {
                from += piece;
            }
        }
        piece /= 2;
    }
    for row in 0..shortest.len() {
        for pick in 0..shortest.get(row).map_or(0, |row| row.len()) {
            let mut simpler = shortest.clone();
            if simpler[row][pick] != 0 {
                simpler[row][pick] = 0;
                if still_fails(&mut simpler) && simpler.len() > row {
                    shortest = simpler;
                }
            }
        }
    }
    shortest
}
