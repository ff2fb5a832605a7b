//! Rounds of reads: all reads that wait at a moment share one question to the leader.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// Rounds of reads, one at a time.
#[derive(Default)]
pub(crate) struct ReadRounds {
    arrived: AtomicU64,
    last: Mutex<Round>,
}

/// Last round: its answer holds for the first `covers` reads that arrived.
#[derive(Default)]
struct Round {
    covers: u64,
    answer: Option<Result<u64, String>>,
}

impl ReadRounds {
    /// Index that must be applied before a read that begins now: the answer of `ask`, or that of a round
    /// which began after this call.
    pub(crate) async fn index(&self, ask: impl Future<Output = Result<u64, String>>) -> Result<u64, String> {
        let turn = self.arrived.fetch_add(1, Ordering::SeqCst) + 1;
        // A read that waits for a round in progress came after that round began.
        let mut last = self.last.lock().await;
        if let Some(answer) = last.answer.as_ref().filter(|_| last.covers >= turn) {
            return answer.clone();
        }
        let covers = self.arrived.load(Ordering::SeqCst);
        let answer = ask.await;
        *last = Round { covers, answer: Some(answer.clone()) };
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_comes_during_a_round_is_answered_by_the_next() {
        let (reads, asked) = (Arc::new(ReadRounds::default()), Arc::new(AtomicU64::new(0)));
        let read = || {
            let (reads, asked) = (Arc::clone(&reads), Arc::clone(&asked));
            tokio::spawn(async move {
                let ask = async {
                    let round = asked.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    Ok(round)
                };
                reads.index(ask).await
            })
        };
        let first = read();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let later: Vec<_> = (0..50).map(|_| read()).collect();
        assert_eq!(first.await.unwrap(), Ok(0));
        for read in later {
            assert_eq!(
                read.await.unwrap(),
                Ok(1),
                "the first round does not know of what was committed meanwhile"
            );
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
