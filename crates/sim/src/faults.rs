//! Random faults, one after the other, several at a time.

use std::sync::atomic::Ordering;

use crate::member::Member;
use crate::net::{CLIENTS, LinkConditions};
use crate::rng::Rng;
use crate::shared::Shared;

/// Longest pause between faults.
const BETWEEN_MS_MAX: u64 = 500;
/// Longest partition.
const CUT_MS_MAX: u64 = 1500;

/// Source of random faults.
pub struct Faults {
    rng: Rng,
    clients: u64,
    time_factor: u64,
    next_ms: u64,
    mended_at_ms: u64,
}

impl Faults {
    /// Creates a source, for this many clients; pauses are longer by this factor.
    #[must_use]
    pub fn new(rng: Rng, clients: u64, time_factor: u64) -> Self {
        Self { rng, clients, time_factor, next_ms: 0, mended_at_ms: u64::MAX }
    }

    /// Causes the faults that are due.
    pub fn apply_due(&mut self, members: &mut [Member], shared: &Shared) {
        let now_ms = shared.now_ms();
        if now_ms >= self.mended_at_ms {
            self.mended_at_ms = u64::MAX;
            shared.note(|| "the network is whole".into());
            shared.net().unblock_all();
        }
        if now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + self.rng.within(10..=BETWEEN_MS_MAX * self.time_factor);
        let at = self.rng.below(members.len());
        match self.rng.below(20) {
            0..3 => self.crash(&mut members[at], shared),
            3 | 4 => {
                let changes = self.rng.within(1..=40);
                shared.note(|| format!("member {}: the power goes in {changes} changes", members[at].id));
                members[at].disk.cut_power_after(changes);
            }
            5 if self.rng.below(3) == 0 => members.iter_mut().for_each(|member| self.crash(member, shared)),
            5 | 6 => self.stop(&mut members[at], shared),
            7..10 => self.partition(members, shared),
            10..14 => self.conditions(shared),
            14 | 15 => {
                let ms = self.rng.within(50..=2500);
                shared.note(|| format!("member {} is held up for {ms} ms", members[at].id));
                members[at].stalled_until_ms = now_ms + ms;
            }
            16 => {
                let change_ms = self.rng.within(0..=7_200_000) as i64 - 3_600_000;
                let clock_offset_ms =
                    members[at].clock_offset_ms.fetch_add(change_ms, Ordering::Relaxed) + change_ms;
                shared.note(|| format!("clock of {}: {clock_offset_ms} ms ahead", members[at].id));
            }
            17 => {
                let pace = *self.rng.of(&[(50, 500), (1000, 20_000), (50, 200_000)]).unwrap_or(&(50, 500));
                shared.note(|| format!("disk of {} takes {pace:?} us", members[at].id));
                *members[at].pace.lock() = pace;
            }
            _ => {
                shared.note(|| format!("member {} hands over if it leads", members[at].id));
                members[at].spawn(|replica| async move {
                    replica.transfer_leadership(std::time::Duration::from_secs(1)).await;
                });
            }
        }
    }

    /// Kills the process; half of the time the power fails, too.
    fn crash(&mut self, member: &mut Member, shared: &Shared) {
        if !member.runs() {
            return;
        }
        let power = self.rng.below(2) == 0;
        shared.note(|| format!("member {} crashes{}", member.id, if power { ", without power" } else { "" }));
        member.kill(power);
        member.starts_at_ms = shared.now_ms() + self.rng.within(1..=1500);
        shared.net().reset(member.address);
    }

    fn stop(&mut self, member: &mut Member, shared: &Shared) {
        if member.replica().is_none() {
            return;
        }
        shared.note(|| format!("member {} is stopped", member.id));
        member.stop();
        member.starts_at_ms = shared.now_ms() + self.rng.within(1..=1000);
        shared.net().reset(member.address);
    }

    /// Partitions the network, in a random shape.
    fn partition(&mut self, members: &[Member], shared: &Shared) {
        let all: Vec<u64> =
            members.iter().map(|m| m.address).chain((0..self.clients).map(|n| CLIENTS + n)).collect();
        let one = members[self.rng.below(members.len())].address;
        let shape = self.rng.below(6);
        let (one_in_links, sides) = (self.rng.within(2..=5), self.rng.number());
        let cut = |from: u64, to: u64, rng: &mut Rng| match shape {
            // One member that cannot send, cannot receive, or both; or only not to other members.
            0 => from == one,
            1 => to == one,
            2 => from == one || to == one,
            3 => (from == one || to == one) && from < CLIENTS && to < CLIENTS,
            // Two sides.
            4 => (sides >> (from % 64)) & 1 != (sides >> (to % 64)) & 1,
            // Random links.
            _ => rng.within(1..=one_in_links) == 1,
        };
        let mut net = shared.net();
        let mut what = vec![];
        for from in &all {
            for to in all.iter().filter(|to| *to != from) {
                if cut(*from, *to, &mut self.rng) {
                    net.block_link(*from, *to);
                    what.push(format!("{from}>{to}"));
                }
            }
        }
        drop(net);
        self.mended_at_ms = shared.now_ms() + self.rng.within(50..=CUT_MS_MAX);
        shared.note(|| format!("cut: {}", what.join(" ")));
    }

    fn conditions(&mut self, shared: &Shared) {
        let delay_ms = *self.rng.of(&[(0, 2), (0, 2), (0, 30), (5, 200)]).unwrap_or(&(0, 2));
        let lost = *self.rng.of(&[0, 0, 10, 100]).unwrap_or(&0);
        let twice = *self.rng.of(&[0, 20, 200]).unwrap_or(&0);
        let conditions = LinkConditions { delay_ms, lost, twice };
        shared.note(|| format!("{conditions:?}"));
        shared.net().conditions = conditions;
    }
}
