//! Outages of sources as events: one `new` when a source is lost or blind, one `end` when it sees again.
//!
//! Owns which outages are open. Sans-IO: notices go in, event bodies come out. Invariant: each source has at most one open outage, and every outage
//! that began ends, by the source's return or by the runtime stopping to watch it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, SourceId};
use watchkeeper_contract::source::{Blindness, LossCause};

use crate::pipeline::box_event::BoxRecord;

/// What happened to a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It stopped delivering.
    Lost {
        cause: LossCause,
        /// One sentence, free of credentials.
        message: String,
    },
    /// Frames come, but show nothing.
    Blind(Blindness),
    /// Frames come and show something.
    Seeing,
    /// Nobody watches it any more.
    Forgotten,
}

#[derive(Debug, Clone)]
struct Open {
    id: EventId,
    since: Instant,
    cause: Option<LossCause>,
    message: String,
}

/// The open outages.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    open: BTreeMap<SourceId, Open>,
    /// What is wrong with sources at which somebody only looked; nobody asked to be told.
    glimpsed: BTreeMap<SourceId, Notice>,
}

impl Outages {
    /// Takes a notice about `source` at `now`.
    pub(crate) fn notice(
        &mut self,
        now: Instant,
        source: &SourceId,
        notice: Notice,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        self.glimpsed.remove(source);
        match notice {
            Notice::Lost { cause, message } => {
                self.begin(now, source, Some(cause), message, new_id)
            }
            Notice::Blind(how) => {
                let message = match how {
                    Blindness::Frozen => "the picture is frozen",
                    Blindness::Black => "the picture is black or one flat colour",
                };
                self.begin(now, source, None, message.to_owned(), new_id)
            }
            Notice::Seeing | Notice::Forgotten => {
                let open = self.open.remove(source)?;
                let lasted = now.saturating_duration_since(open.since);
                Some(BoxRecord {
                    id: open.id,
                    phase: Phase::End,
                    body: body(open.cause, open.message, Some(lasted)),
                })
            }
        }
    }

    /// Takes a notice about a source that no pipeline watches: it begins no outage, but ends the one that is open.
    pub(crate) fn glimpse(
        &mut self,
        now: Instant,
        source: &SourceId,
        notice: Notice,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        match notice {
            Notice::Lost { .. } | Notice::Blind(_) if !self.open.contains_key(source) => {
                self.glimpsed.insert(source.clone(), notice);
                None
            }
            Notice::Lost { .. } | Notice::Blind(_) | Notice::Seeing | Notice::Forgotten => {
                self.notice(now, source, notice, new_id)
            }
        }
    }

    /// A pipeline begins to watch `source`: what was only glimpsed is an outage from now on.
    pub(crate) fn watched(
        &mut self,
        now: Instant,
        source: &SourceId,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        let glimpsed = self.glimpsed.remove(source)?;
        self.notice(now, source, glimpsed, new_id)
    }

    fn begin(
        &mut self,
        now: Instant,
        source: &SourceId,
        cause: Option<LossCause>,
        message: String,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        if let Some(open) = self.open.get_mut(source) {
            // The same outage with another face (stalled, then refused) is worth an update; the same face is not.
            if open.cause == cause {
                return None;
            }
            open.cause = cause;
            open.message.clone_from(&message);
            return Some(BoxRecord {
                id: open.id,
                phase: Phase::Update,
                body: body(cause, message, None),
            });
        }
        let open = Open {
            id: new_id(),
            since: now,
            cause,
            message: message.clone(),
        };
        let id = open.id;
        self.open.insert(source.clone(), open);
        Some(BoxRecord {
            id,
            phase: Phase::New,
            body: body(cause, message, None),
        })
    }
}

fn body(cause: Option<LossCause>, message: String, lasted: Option<Duration>) -> EventBody {
    EventBody::SourceOutage {
        cause,
        message,
        lasted_s: lasted.map(|d| (d.as_secs_f64() * 1e3).round() / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> impl FnMut() -> EventId {
        let mut next = 0u128;
        move || {
            next += 1;
            EventId(ulid::Ulid(next))
        }
    }

    fn gate() -> SourceId {
        SourceId::new("gate").unwrap_or_else(|e| panic!("{e}"))
    }

    fn lost(cause: LossCause) -> Notice {
        Notice::Lost {
            cause,
            message: format!("{cause:?}"),
        }
    }

    #[test]
    fn an_outage_begins_once_and_ends_with_its_length() {
        let (mut outages, mut new_id, start) = (Outages::default(), ids(), Instant::now());
        let begun = outages.notice(start, &gate(), lost(LossCause::Stalled), &mut new_id);
        let begun = begun.map(|r| (r.id, r.phase));
        assert!(matches!(begun, Some((_, Phase::New))));
        let again = outages.notice(start, &gate(), lost(LossCause::Stalled), &mut new_id);
        assert_eq!(again, None);
        let after = start + Duration::from_millis(10_250);
        let ended = outages.notice(after, &gate(), Notice::Seeing, &mut new_id);
        let ended = ended.map(|r| (r.id, r.phase, r.body));
        let Some((id, Phase::End, EventBody::SourceOutage { lasted_s, .. })) = ended else {
            panic!("not an end: {ended:?}");
        };
        assert_eq!(Some(id), begun.map(|b| b.0));
        assert_eq!(lasted_s, Some(10.25));
    }

    #[test]
    fn another_cause_is_an_update_of_the_same_outage() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        let first = outages.notice(now, &gate(), lost(LossCause::Stalled), &mut new_id);
        let second = outages.notice(now, &gate(), lost(LossCause::Refused), &mut new_id);
        let (Some(first), Some(second)) = (first, second) else {
            panic!("both are worth a record");
        };
        assert_eq!(second.phase, Phase::Update);
        assert_eq!(first.id, second.id);
    }

    #[test]
    fn a_source_that_was_never_lost_has_nothing_to_end() {
        let (mut outages, mut new_id) = (Outages::default(), ids());
        let said = outages.notice(Instant::now(), &gate(), Notice::Seeing, &mut new_id);
        assert_eq!(said, None);
    }

    #[test]
    fn a_look_at_a_dead_source_is_no_outage_until_a_pipeline_watches_it() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        let seen = outages.glimpse(now, &gate(), lost(LossCause::Refused), &mut new_id);
        assert_eq!(seen, None);
        let begun = outages.watched(now, &gate(), &mut new_id);
        assert_eq!(begun.map(|r| r.phase), Some(Phase::New));
        let ended = outages.glimpse(now, &gate(), Notice::Forgotten, &mut new_id);
        assert_eq!(ended.map(|r| r.phase), Some(Phase::End));
    }

    #[test]
    fn what_was_glimpsed_is_forgotten_with_the_look() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        outages.glimpse(now, &gate(), lost(LossCause::Refused), &mut new_id);
        outages.glimpse(now, &gate(), Notice::Forgotten, &mut new_id);
        assert_eq!(outages.watched(now, &gate(), &mut new_id), None);
    }

    #[test]
    fn two_sources_do_not_share_an_outage() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        let yard = SourceId::new("yard").unwrap_or_else(|e| panic!("{e}"));
        let a = outages.notice(now, &gate(), lost(LossCause::Refused), &mut new_id);
        let b = outages.notice(now, &yard, lost(LossCause::Refused), &mut new_id);
        assert_ne!(a.map(|r| r.id), b.map(|r| r.id));
        let ended = outages.notice(now, &yard, Notice::Seeing, &mut new_id);
        assert!(ended.is_some());
        let still = outages.notice(now, &gate(), Notice::Forgotten, &mut new_id);
        assert!(still.is_some());
    }
}
