//! Failed jobs of schedules, on their way to the notification channels.
//!
//! - One waits at a time: the scheduler, not the loop, waits until it is durable.

use tokio::sync::{mpsc, oneshot};

use crate::jobs::scheduler::JobNotice;
use crate::notify::message::Notice;

#[derive(Debug)]
pub(crate) struct JobNotices {
    sender: mpsc::Sender<JobNotice>,
    receiver: mpsc::Receiver<JobNotice>,
    /// Id of the notice that is being stored, and the waiting sender.
    unstored: Option<(String, oneshot::Sender<()>)>,
}

impl JobNotices {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        Self {
            sender,
            receiver,
            unstored: None,
        }
    }

    pub(crate) fn sender(&self) -> mpsc::Sender<JobNotice> {
        self.sender.clone()
    }

    /// Waits for the next notice, to be stored. Never ends: `self` holds a sender.
    pub(crate) async fn next(&mut self) -> Notice {
        match self.receiver.recv().await {
            Some(JobNotice { notice, stored }) => {
                self.unstored = Some((notice.id.clone(), stored));
                notice
            }
            None => std::future::pending().await,
        }
    }

    /// Answers the scheduler if `id` is that of its notice, which is durable now.
    pub(crate) fn confirm(&mut self, id: &str) {
        if let Some((_, stored)) = self.unstored.take_if(|(unstored, _)| unstored == id) {
            // A scheduler that no longer waits needs no answer.
            stored.send(()).ok();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_client::clock::wall_now;
    use watchkeeper_contract::rule::Severity;

    use super::*;

    #[tokio::test]
    async fn scheduler_is_answered_for_its_own_notice_alone() {
        let mut notices = JobNotices::new();
        let (stored, mut is_stored) = oneshot::channel();
        let notice = Notice {
            id: "j-failed".to_owned(),
            at: wall_now(),
            severity: Severity::Warning,
            reason: String::new(),
            camera: None,
            by_model: None,
            payload: Vec::new(),
        };
        let sent = JobNotice {
            notice: notice.clone(),
            stored,
        };
        notices.sender().send(sent).await.unwrap();
        assert_eq!(notices.next().await, notice);
        notices.confirm("of a heartbeat");
        assert!(is_stored.try_recv().is_err(), "answered for another notice");
        notices.confirm("j-failed");
        is_stored.try_recv().unwrap();
    }
}
