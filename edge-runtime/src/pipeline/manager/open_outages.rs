//! The open outages of sources: `new` when a source is lost or blind, `end` when it delivers again.
//!
//! - Sans-IO: notices go in, records come out.
//! - Each source has at most one open outage.
//! - Every outage ends: by the source's return, or, without a duration, when the return can't be
//!   observed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, SourceId};
use watchkeeper_contract::source::{Blindness, LossCause};

use crate::pipeline::box_event::{BoxRecord, round_to_ms};

/// Change of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The source stopped delivering.
    Lost {
        cause: LossCause,
        /// One sentence, free of credentials.
        message: String,
    },
    /// Frames arrive, but do not show what they should.
    Blind {
        how: Blindness,
        /// One sentence or more.
        message: String,
    },
    /// Frames arrive and show something, after this time without.
    Seeing { lasted: Duration },
    /// The source is no longer watched, or was lost while it was blind.
    Forgotten,
}

#[derive(Debug, Clone)]
struct OpenOutage {
    id: EventId,
    since: Instant,
    fault: Fault,
    message: String,
}

/// What is wrong with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Lost(LossCause),
    Blind(Blindness),
}

/// Why frames do not show what they should, in one sentence.
pub(super) fn describe_blindness(how: Blindness) -> &'static str {
    match how {
        Blindness::Frozen => "the picture is frozen",
        Blindness::Black => {
            "the picture is black or one flat colour: uncover the lens, or switch the light on"
        }
        Blindness::Moved => {
            "the camera shows another view than usual, so each line, zone and mask of its \
             pipelines may be in the wrong place: aim it again, or draw them again. After an hour \
             the view counts as usual"
        }
        Blindness::Covered => "something covers more than half of the usual view",
        Blindness::Blurred => {
            "the picture has lost its detail: the lens is out of focus, dirty, fogged or dazzled"
        }
    }
}

/// Maximum number of lines and zones that a message names.
const MAX_PLACES: usize = 10;

/// The message about a source whose pipelines have these lines and zones.
pub(super) fn blindness_message(how: Blindness, places: &[String]) -> String {
    let why = describe_blindness(how);
    if how != Blindness::Moved || places.is_empty() {
        return why.to_owned();
    }
    let named: Vec<&str> = places.iter().take(MAX_PLACES).map(String::as_str).collect();
    let more = match places.len().saturating_sub(MAX_PLACES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{why}. Check {}{more}", named.join(", "))
}

/// The open outages.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    open: BTreeMap<SourceId, OpenOutage>,
    /// Faults of sources without a pipeline, noticed by other subscribers; not reported.
    unwatched: BTreeMap<SourceId, Notice>,
}

impl Outages {
    /// Processes a notice about a watched `source` at `now`.
    pub(crate) fn notice(
        &mut self,
        now: Instant,
        source: &SourceId,
        notice: Notice,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        self.unwatched.remove(source);
        match notice {
            Notice::Lost { cause, message } => {
                self.begin(now, source, Fault::Lost(cause), message, new_id)
            }
            Notice::Blind { how, message } => {
                self.begin(now, source, Fault::Blind(how), message, new_id)
            }
            Notice::Seeing { .. } | Notice::Forgotten => {
                let open = self.open.remove(source)?;
                let lasted = match notice {
                    // The source counts from the first such picture; merged notices from the first.
                    Notice::Seeing { lasted } => {
                        Some(lasted.max(now.saturating_duration_since(open.since)))
                    }
                    // Nobody saw the source return.
                    _ => None,
                };
                let body = body(open.fault, open.message, lasted);
                Some(BoxRecord::new(open.id, Phase::End, body))
            }
        }
    }

    /// Processes a notice about a source without a pipeline: it begins no outage, but ends an open
    /// one.
    pub(crate) fn notice_unwatched(
        &mut self,
        now: Instant,
        source: &SourceId,
        notice: Notice,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        match notice {
            Notice::Lost { .. } | Notice::Blind { .. } if !self.open.contains_key(source) => {
                self.unwatched.insert(source.clone(), notice);
                None
            }
            Notice::Lost { .. }
            | Notice::Blind { .. }
            | Notice::Seeing { .. }
            | Notice::Forgotten => self.notice(now, source, notice, new_id),
        }
    }

    /// A pipeline begins to watch `source`: a fault that was only noticed becomes an outage.
    pub(crate) fn begin_watching(
        &mut self,
        now: Instant,
        source: &SourceId,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        let unwatched = self.unwatched.remove(source)?;
        self.notice(now, source, unwatched, new_id)
    }

    fn begin(
        &mut self,
        now: Instant,
        source: &SourceId,
        fault: Fault,
        message: String,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        if let Some(open) = self.open.get_mut(source) {
            // Another cause (stalled, then refused) is an update; a repeated one is not reported.
            if open.fault == fault {
                return None;
            }
            open.fault = fault;
            open.message.clone_from(&message);
            let body = body(fault, message, None);
            return Some(BoxRecord::new(open.id, Phase::Update, body));
        }
        let id = new_id();
        let open = OpenOutage {
            id,
            since: now,
            fault,
            message: message.clone(),
        };
        self.open.insert(source.clone(), open);
        Some(BoxRecord::new(id, Phase::New, body(fault, message, None)))
    }
}

fn body(fault: Fault, message: String, lasted: Option<Duration>) -> EventBody {
    let (cause, blind) = match fault {
        Fault::Lost(cause) => (Some(cause), None),
        Fault::Blind(how) => (None, Some(how)),
    };
    EventBody::SourceOutage {
        cause,
        blind,
        message,
        lasted_s: lasted.map(round_to_ms),
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

    fn seeing(after_s: u64) -> Notice {
        let lasted = Duration::from_secs(after_s);
        Notice::Seeing { lasted }
    }

    #[test]
    fn outage_begins_once_and_ends_with_its_duration() {
        let (mut outages, mut new_id, start) = (Outages::default(), ids(), Instant::now());
        let begun = outages.notice(start, &gate(), lost(LossCause::Stalled), &mut new_id);
        let begun = begun.map(|r| (r.id, r.phase));
        assert!(matches!(begun, Some((_, Phase::New))));
        let repeated = outages.notice(start, &gate(), lost(LossCause::Stalled), &mut new_id);
        assert_eq!(repeated, None);
        let after = start + Duration::from_millis(10_250);
        let ended = outages.notice(after, &gate(), seeing(0), &mut new_id);
        let ended = ended.map(|r| (r.id, r.phase, r.body));
        let Some((id, Phase::End, EventBody::SourceOutage { lasted_s, .. })) = ended else {
            panic!("not an end: {ended:?}");
        };
        assert_eq!(Some(id), begun.map(|b| b.0));
        assert_eq!(lasted_s, Some(10.25));
    }

    #[test]
    fn blindness_lasts_from_the_first_such_picture() {
        let (mut outages, mut new_id, told) = (Outages::default(), ids(), Instant::now());
        let how = Blindness::Frozen;
        let message = blindness_message(how, &[]);
        outages.notice(told, &gate(), Notice::Blind { how, message }, &mut new_id);
        let after = told + Duration::from_secs(5);
        let ended = outages.notice(after, &gate(), seeing(35), &mut new_id);
        let body = ended.map(|record| record.body);
        let Some(EventBody::SourceOutage { lasted_s, .. }) = body else {
            panic!("not an outage: {body:?}");
        };
        assert_eq!(lasted_s, Some(35.0));
    }

    #[test]
    fn moved_camera_names_the_lines_and_zones_of_its_pipelines() {
        let places: Vec<String> = (1..=12).map(|n| format!("line {n} of gate")).collect();
        let message = blindness_message(Blindness::Moved, &places[..2]);
        assert!(
            message.ends_with(". Check line 1 of gate, line 2 of gate"),
            "{message}"
        );
        let message = blindness_message(Blindness::Moved, &places);
        assert!(message.ends_with("line 10 of gate and 2 more"), "{message}");
        let black = blindness_message(Blindness::Black, &places);
        assert!(!black.contains("line 1"), "{black}");
    }

    #[test]
    fn forgotten_outage_ends_without_a_return() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        outages.notice(now, &gate(), lost(LossCause::NotFound), &mut new_id);
        let ended = outages.notice(now, &gate(), Notice::Forgotten, &mut new_id);
        let body = ended.map(|record| record.body);
        assert!(
            matches!(&body, Some(EventBody::SourceOutage { lasted_s: None, .. })),
            "{body:?}"
        );
    }

    #[test]
    fn another_cause_updates_the_outage() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        let first = outages.notice(now, &gate(), lost(LossCause::Stalled), &mut new_id);
        let second = outages.notice(now, &gate(), lost(LossCause::Refused), &mut new_id);
        let (Some(first), Some(second)) = (first, second) else {
            panic!("both causes make a record");
        };
        assert_eq!(second.phase, Phase::Update);
        assert_eq!(first.id, second.id);
    }

    #[test]
    fn healthy_source_has_no_outage_to_end() {
        let (mut outages, mut new_id) = (Outages::default(), ids());
        let record = outages.notice(Instant::now(), &gate(), seeing(0), &mut new_id);
        assert_eq!(record, None);
    }

    #[test]
    fn unwatched_fault_is_no_outage_until_watched() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        let record = outages.notice_unwatched(now, &gate(), lost(LossCause::Refused), &mut new_id);
        assert_eq!(record, None);
        let begun = outages.begin_watching(now, &gate(), &mut new_id);
        assert_eq!(begun.map(|r| r.phase), Some(Phase::New));
        let ended = outages.notice_unwatched(now, &gate(), Notice::Forgotten, &mut new_id);
        assert_eq!(ended.map(|r| r.phase), Some(Phase::End));
    }

    #[test]
    fn unwatched_fault_is_dropped_when_forgotten() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        outages.notice_unwatched(now, &gate(), lost(LossCause::Refused), &mut new_id);
        outages.notice_unwatched(now, &gate(), Notice::Forgotten, &mut new_id);
        assert_eq!(outages.begin_watching(now, &gate(), &mut new_id), None);
    }

    #[test]
    fn sources_do_not_share_an_outage() {
        let (mut outages, mut new_id, now) = (Outages::default(), ids(), Instant::now());
        let yard = SourceId::new("yard").unwrap_or_else(|e| panic!("{e}"));
        let a = outages.notice(now, &gate(), lost(LossCause::Refused), &mut new_id);
        let b = outages.notice(now, &yard, lost(LossCause::Refused), &mut new_id);
        assert_ne!(a.map(|r| r.id), b.map(|r| r.id));
        let ended = outages.notice(now, &yard, seeing(0), &mut new_id);
        assert!(ended.is_some());
        let still = outages.notice(now, &gate(), Notice::Forgotten, &mut new_id);
        assert!(still.is_some());
    }
}
