//! This run of the runtime: its identity, and the monotonic time since it began.
//!
//! - Every event names its run, and its monotonic time counts from there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ulid::Ulid;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::time::Wall;

use crate::clock;
use crate::journal::Stamp;

/// One run of the runtime. Clones are of the same run.
#[derive(Debug, Clone)]
pub struct Boot {
    id: Arc<str>,
    started: Instant,
    started_at: Wall,
}

impl Boot {
    /// A run that begins now, with a new identity.
    #[expect(clippy::new_without_default, reason = "each run is another one")]
    pub fn new() -> Self {
        Self {
            id: Ulid::new().to_string().into(),
            started: Instant::now(),
            started_at: clock::wall(),
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn started_at(&self) -> Wall {
        self.started_at
    }

    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Milliseconds from the start to `at`.
    pub fn mono_ms(&self, at: Instant) -> u64 {
        clock::millis(at.saturating_duration_since(self.started))
    }

    /// The stamp of an event that is made now.
    pub fn stamp(&self) -> Stamp {
        Stamp {
            boot_id: self.id.to_string(),
            mono_ms: self.mono_ms(Instant::now()),
            at: clock::wall(),
            id: EventId::generate(),
        }
    }
}
