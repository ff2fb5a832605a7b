//! News of changes, for tasks that wait. They are woken in the order in which they came; tokio's `watch` draws the order,
//! and a simulation would not be the same twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Source of news.
#[derive(Default)]
pub(super) struct News {
    count: AtomicU64,
    told: Notify,
}

/// Reader of news, from when it was made.
pub(super) struct NewsReader {
    news: Arc<News>,
    seen: u64,
}

impl News {
    /// There is news.
    pub fn tell(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// A reader of what comes from now on.
    pub fn reader(self: &Arc<Self>) -> NewsReader {
        NewsReader { news: Arc::clone(self), seen: self.count.load(Ordering::SeqCst) }
    }
}

impl NewsReader {
    /// Waits for news since the last.
    pub async fn changed(&mut self) {
        loop {
            // Before the look: what is told after it wakes this.
            let told = self.news.told.notified();
            let count = self.news.count.load(Ordering::SeqCst);
            if count != self.seen {
                self.seen = count;
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_gets_what_came_since_and_waits_for_more() {
        let news = Arc::new(News::default());
        news.tell();
        let mut reader = news.reader();
        let moment = Duration::from_millis(1);
        assert!(tokio::time::timeout(moment, reader.changed()).await.is_err(), "it came before");
        news.tell();
        news.tell();
        reader.changed().await;
        let later = Arc::clone(&news);
        tokio::spawn(async move {
            tokio::time::sleep(moment).await;
            later.tell();
        });
        assert!(tokio::time::timeout(2 * moment, reader.changed()).await.is_ok());
    }
}
