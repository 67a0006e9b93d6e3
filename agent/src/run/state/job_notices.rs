//! Failed jobs of schedules, on their way to the notification channels.
//!
//! - At most [`MAX_NOTICES`] wait; the scheduler, not the loop, waits for a place.

use tokio::sync::mpsc;

use crate::notify::message::Notice;

/// Most notices that wait for the loop; the scheduler waits beyond that.
const MAX_NOTICES: usize = 8;

/// Queue of notices.
#[derive(Debug)]
pub(crate) struct JobNotices {
    sender: mpsc::Sender<Notice>,
    receiver: mpsc::Receiver<Notice>,
}

impl JobNotices {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(MAX_NOTICES);
        Self { sender, receiver }
    }

    pub(crate) fn sender(&self) -> mpsc::Sender<Notice> {
        self.sender.clone()
    }

    /// Waits for the next notice. Never ends: `self` holds a sender.
    pub(crate) async fn next(&mut self) -> Notice {
        match self.receiver.recv().await {
            Some(notice) => notice,
            None => std::future::pending().await,
        }
    }
}
