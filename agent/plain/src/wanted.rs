//! Settings that a sentence may name, of a pipeline to change ([`crate::edit`]) or of a proposal to
//! correct ([`crate::amend`]).

use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::{ClipSpec, Schedule};

use crate::names::Mention;

/// Settings that a sentence names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Classes that it names, and how.
    pub(crate) mentions: Vec<Mention>,
    /// Whether they come to those that there are.
    pub(crate) adds: bool,
    /// The lowest score of a detection.
    pub(crate) confidence: Option<f64>,
    /// Seconds of quiet after an event.
    pub(crate) cooldown_s: Option<f64>,
    /// Seconds for which it has to be so.
    pub(crate) stays_s: Option<f64>,
    pub(crate) schedules: Vec<Schedule>,
    /// Channels by which people are told.
    pub(crate) notify: Vec<ChannelId>,
    /// The clip that each event keeps.
    pub(crate) clip: Option<ClipSpec>,
}

impl Wanted {
    /// Whether it names none at all.
    pub(crate) fn is_nothing(&self) -> bool {
        self.mentions.is_empty() && self.sets_nothing()
    }

    /// Whether it names none but classes.
    pub(crate) fn sets_nothing(&self) -> bool {
        self.confidence.is_none()
            && self.cooldown_s.is_none()
            && self.stays_s.is_none()
            && self.schedules.is_empty()
            && self.notify.is_empty()
            && self.clip.is_none()
    }
}
