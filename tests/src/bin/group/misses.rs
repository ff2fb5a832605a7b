//! Look-up at one metaserver of a file that was created at another, by number of metaservers.

use crate::servers::{DIR, Group, create, stat};
use crate::{median, timed};

const COUNTS: [usize; 4] = [2, 4, 8, 16];
const FILES: usize = 400;

/// Measures and prints the results.
pub fn run() {
    println!("Files made at one metaserver and looked up at once: {FILES} files; medians");
    println!("| metaservers | made | looked up where it was made | looked up at another | more |");
    println!("| --- | --- | --- | --- | --- |");
    for count in COUNTS {
        let group = Group::start(count);
        let clients: Vec<_> = (0..count).map(|n| group.client(n)).collect();
        let (mut made, mut here, mut there) = (vec![], vec![], vec![]);
        for file in 0..FILES {
            let path = format!("{DIR}/{file}");
            let home = file % count;
            let other = &clients[(home + 1 + file / count % (count - 1)) % count];
            made.push(timed(|| create(&clients[home], &path)));
            // The order changes with every second file: the second look-up may find warm caches.
            if file / 2 % 2 == 0 {
                there.push(timed(|| stat(other, &path)));
                here.push(timed(|| stat(&clients[home], &path)));
            } else {
                here.push(timed(|| stat(&clients[home], &path)));
                there.push(timed(|| stat(other, &path)));
            }
        }
        let [made, here, there] = [made, here, there].map(|times| median(&times));
        println!("| {count} | {made:.3} ms | {here:.3} ms | {there:.3} ms | {:.3} ms |", there - here);
    }
}
