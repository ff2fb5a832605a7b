//! Rows of numbers that commands are chosen by, and how a failing sequence of them is made as short and as
//! simple as it can be: rows left out, first many at once, then one by one; then numbers made 0.

/// What one command is chosen by.
pub type Picks = [u16; 20];

/// The rows of a case (splitmix64).
pub fn of_seed(seed: u64, count: usize) -> Vec<Picks> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as u16
    };
    (0..count).map(|_| std::array::from_fn(|_| next())).collect()
}

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
