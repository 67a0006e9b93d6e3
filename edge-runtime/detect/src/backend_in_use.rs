//! The back end that runs a network now, and the change to another one in progress.
//!
//! - Clones share one state, so a status shows a change without asking the network.
//! - The lock is held for copies only.
//! - Not here: the change itself ([`change`](crate::change)).

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// The execution provider that is not named in reports.
const CPU: &str = "CPU";

/// Name of the back end that runs a network, such as `rten`, with its execution provider. Clones
/// follow a change.
#[derive(Clone)]
pub struct BackendInUse(Arc<Mutex<InUse>>);

struct InUse {
    name: &'static str,
    provider: Option<&'static str>,
    change: Option<ChangeReport>,
}

/// A change of one model's back end, as it is reported.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeReport {
    pub model: String,
    /// Back end that served at the start of the change.
    pub from: &'static str,
    /// Back end of the candidate.
    pub to: &'static str,
    pub state: ChangeState,
}

/// State of the change to one candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeState {
    /// The candidate is built; `share` of it is done, `0.0..=1.0`.
    Building { share: f32 },
    /// The candidate runs golden frames.
    Comparing {
        /// Frames that agree.
        agreed: u32,
        /// Frames that must agree.
        wanted: u32,
        /// Whether only conclusive frames count from here on.
        needs_objects: bool,
    },
    /// The candidate serves from the next frame on.
    Agreed,
    /// The candidate serves.
    Swapped,
    /// The candidate computes something else.
    Refused { why: String },
    /// The candidate can't be built or run.
    Failed { why: String },
    /// The candidate served, failed, and the former back end serves again.
    Reverted { why: String },
    /// No detector uses the network any more.
    Cancelled,
}

impl BackendInUse {
    #[must_use]
    pub fn new(name: &'static str, provider: Option<&'static str>) -> Self {
        Self(Arc::new(Mutex::new(InUse {
            name,
            provider,
            change: None,
        })))
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.lock().name
    }

    /// Execution provider within the back end, such as `CPU`; `None` if it has none.
    #[must_use]
    pub fn provider(&self) -> Option<&'static str> {
        self.0.lock().provider
    }

    /// The latest change; `None` before the first.
    #[must_use]
    pub fn change(&self) -> Option<ChangeReport> {
        self.0.lock().change.clone()
    }

    pub(crate) fn set(&self, name: &'static str, provider: Option<&'static str>) {
        let mut in_use = self.0.lock();
        (in_use.name, in_use.provider) = (name, provider);
    }

    pub(crate) fn set_change(&self, change: ChangeReport) {
        self.0.lock().change = Some(change);
    }
}

impl From<&'static str> for BackendInUse {
    fn from(name: &'static str) -> Self {
        Self::new(name, None)
    }
}

impl PartialEq for BackendInUse {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// The provider is left out where it is the usual one, the CPU.
impl fmt::Display for BackendInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_use = self.0.lock();
        match in_use.provider.filter(|provider| *provider != CPU) {
            Some(provider) => write!(f, "{} ({provider})", in_use.name),
            None => f.write_str(in_use.name),
        }
    }
}

impl fmt::Debug for BackendInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
