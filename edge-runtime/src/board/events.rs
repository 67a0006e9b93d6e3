//! Events about the board: `board_throttled` and `storage_worn`.
//!
//! - Sans-IO: readings go in, records come out.
//! - Throttling ends [`CALM`] after the last reading with a cause, so that a board at its limit
//!   makes one event and not hundreds. A reading without a clear value counts as neither.
//! - Over-current makes no event: an Orin counts short peaks in normal work.
//! - A worn drive is reported once in a run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_board::check::{WORN_PERCENT, share_of_life};
use watchkeeper_board::reading::{Drive, Reading, Reserve, Throttling};
use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::EventId;

use crate::pipeline::box_event::{BoxRecord, round_to_ms};

/// Time without a cause after which throttling is over.
const CALM: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Throttled {
    id: EventId,
    since: Duration,
    /// Time of the last reading with a cause.
    last: Duration,
    message: String,
}

/// The open event about throttling, and the drives that were reported.
#[derive(Debug, Default)]
pub(super) struct BoardEvents {
    throttled: Option<Throttled>,
    worn: BTreeSet<Arc<str>>,
}

impl BoardEvents {
    /// Processes a reading.
    pub(super) fn handle(
        &mut self,
        reading: &Reading,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Vec<BoxRecord> {
        let mut records: Vec<BoxRecord> = Vec::new();
        records.extend(self.throttling(reading, new_id));
        for drive in &reading.drives {
            if is_worn(drive) && self.worn.insert(Arc::clone(&drive.name)) {
                let id = new_id();
                let body = EventBody::StorageWorn {
                    drive: drive.name.to_string(),
                    message: worn_message(drive),
                };
                let both = [Phase::New, Phase::End];
                records.extend(both.map(|phase| BoxRecord::new(id, phase, body.clone())));
            }
        }
        records
    }

    /// Ends the open event, because the runtime stops.
    pub(super) fn end(&mut self) -> Option<BoxRecord> {
        self.throttled
            .take()
            .map(|open| open.record(Phase::End, None))
    }

    fn throttling(
        &mut self,
        reading: &Reading,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Option<BoxRecord> {
        let cause = throttled_message(&reading.throttling);
        match (&mut self.throttled, cause) {
            (None, Some(message)) => {
                let open = Throttled {
                    id: new_id(),
                    since: reading.at,
                    last: reading.at,
                    message: message.to_owned(),
                };
                let record = open.record(Phase::New, None);
                self.throttled = Some(open);
                Some(record)
            }
            (Some(open), Some(_)) => {
                open.last = reading.at;
                None
            }
            (Some(open), None) => {
                let is_known = reading.throttling.is_active().is_some();
                let is_over = is_known && reading.at.saturating_sub(open.last) >= CALM;
                let open = self.throttled.take_if(|_| is_over)?;
                let lasted = open.last.saturating_sub(open.since);
                Some(open.record(Phase::End, Some(lasted)))
            }
            (None, None) => None,
        }
    }
}

impl Throttled {
    fn record(&self, phase: Phase, lasted: Option<Duration>) -> BoxRecord {
        let body = EventBody::BoardThrottled {
            message: self.message.clone(),
            lasted_s: lasted.map(round_to_ms),
        };
        BoxRecord::new(self.id, phase, body)
    }
}

fn throttled_message(throttling: &Throttling) -> Option<&'static str> {
    if throttling.under_voltage == Some(true) {
        Some("The supply voltage of the board is too low; use a stronger power supply.")
    } else if throttling.thermal == Some(true) {
        Some("Heat slows the board down; improve its cooling, or reduce its load.")
    } else {
        None
    }
}

fn is_worn(drive: &Drive) -> bool {
    drive.life_used.is_some_and(|used| used.0 >= WORN_PERCENT)
        || matches!(drive.reserve, Some(Reserve::Warning | Reserve::Urgent))
}

fn worn_message(drive: &Drive) -> String {
    let name = &drive.name;
    match drive.life_used {
        Some(used) => {
            let used = share_of_life(used.0);
            format!("Storage {name} has used {used}; back it up and replace it.")
        }
        None => format!("Storage {name} has few reserve blocks left; back it up and replace it."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use watchkeeper_board::reading::DriveKind;
    use watchkeeper_board::units::Percent;

    fn reading(second: u64, thermal: Option<bool>) -> Reading {
        Reading {
            at: Duration::from_secs(second),
            throttling: Throttling {
                thermal,
                ..Throttling::default()
            },
            ..Reading::default()
        }
    }

    fn phases(events: &mut BoardEvents, reading: &Reading) -> Vec<(Phase, Option<f64>)> {
        let records = events.handle(reading, &mut EventId::generate);
        let phases = records.iter().map(|record| match &record.body {
            EventBody::BoardThrottled { lasted_s, .. } => (record.phase, *lasted_s),
            _ => (record.phase, None),
        });
        phases.collect()
    }

    #[test]
    fn throttling_ends_after_calm_with_its_duration() {
        let mut events = BoardEvents::default();
        assert_eq!(phases(&mut events, &reading(0, Some(false))), []);
        assert_eq!(
            phases(&mut events, &reading(2, Some(true))),
            [(Phase::New, None)]
        );
        assert_eq!(phases(&mut events, &reading(4, Some(false))), []);
        assert_eq!(phases(&mut events, &reading(12, Some(true))), []);
        assert_eq!(phases(&mut events, &reading(41, Some(false))), []);
        let end = [(Phase::End, Some(10.0))];
        assert_eq!(phases(&mut events, &reading(42, Some(false))), end);
        assert_eq!(events.end(), None);
    }

    #[test]
    fn reading_that_can_not_tell_ends_nothing() {
        let mut events = BoardEvents::default();
        assert_eq!(phases(&mut events, &reading(0, Some(true))).len(), 1);
        assert_eq!(phases(&mut events, &reading(900, None)), []);
        assert_eq!(events.end().map(|record| record.phase), Some(Phase::End));
    }

    #[test]
    fn worn_drive_is_reported_once() {
        let mut events = BoardEvents::default();
        let mut worn = reading(0, None);
        worn.drives.push(Drive {
            name: "mmcblk0".into(),
            model: None,
            kind: DriveKind::Emmc,
            size: None,
            life_used: Some(Percent(90.0)),
            reserve: None,
            temperature: None,
        });
        let both = [(Phase::New, None), (Phase::End, None)];
        assert_eq!(phases(&mut events, &worn), both);
        assert_eq!(phases(&mut events, &worn), []);
    }

    proptest! {
        #[test]
        fn events_begin_and_end_in_turn(
            states in prop::collection::vec((any::<Option<bool>>(), 0_u64..60), 0..80),
        ) {
            let mut events = BoardEvents::default();
            let (mut second, mut is_open) = (0, false);
            for (state, step) in states {
                second += step;
                for (phase, _) in phases(&mut events, &reading(second, state)) {
                    prop_assert_eq!(phase, if is_open { Phase::End } else { Phase::New });
                    is_open = !is_open;
                }
            }
            prop_assert_eq!(events.end().is_some(), is_open);
        }
    }
}
