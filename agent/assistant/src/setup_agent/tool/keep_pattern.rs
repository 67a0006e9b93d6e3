//! Saves a pattern of events as knowledge.
//!
//! A language model names camera, class and hours. The box counts, and saves a fixed sentence with
//! checked names. So no text of a picture, a name or a note becomes knowledge.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::problem::nearest;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use watchkeeper_plain::answer::EventsWanted;

use super::super::tool_context::ToolContext;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::past::search_events;
use crate::permissions::Effect;
use crate::wording::{counted, cut};

/// Longest span, in days.
const MAX_DAYS: u32 = 31;
/// Minimum events of a pattern.
const MIN_EVENTS: usize = 5;

pub(super) const TOOL: Tool = Tool {
    name: "keep_pattern",
    description: "Keeps as knowledge how many events of a camera fell into some hours of the day. \
        You name the hours; the box counts in its journal and writes the sentence. The result is \
        the sentence, or the reason why nothing was kept.",
    schema: || {
        let hour = |about: &str| {
            json!({"type": "integer", "minimum": 0, "maximum": 24,
        "description": about})
        };
        let properties = json!({
            "camera": text("the camera"),
            "class": text("only events of this class; empty: all"),
            "days": {"type": "integer", "minimum": 1, "maximum": MAX_DAYS, "description": "how \
                many days back"},
            "from_hour": hour("first hour, local time"),
            "to_hour": hour("first hour after the span; 24 is midnight; smaller than from_hour: \
                over midnight"),
        });
        schema(
            &properties,
            &["camera", "class", "days", "from_hour", "to_hour"],
        )
    },
    effect: Effect::Write,
    max_uses: 6,
    run: |given| async move { keep(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    camera: String,
    #[serde(default)]
    class: String,
    days: u32,
    from_hour: u32,
    to_hour: u32,
}

async fn keep(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let wanted: Arguments = given.arguments()?;
    let notes = given.context.memory.as_ref();
    let notes = notes.ok_or("this box keeps no notes")?;
    let here = given.context.snapshot().await?;
    let camera = ToolContext::camera(&wanted.camera, &here)?;
    let known = || here.models.iter().flat_map(|model| &model.labels);
    if !wanted.class.is_empty() && !known().any(|label| *label == wanted.class) {
        let near = nearest(&wanted.class, known().map(String::as_str));
        let meant = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
        let class = cut(wanted.class, 60);
        return Err(format!("no model here knows the class {class:?}{meant}"));
    }
    let hours = Hours::new(wanted.from_hour, wanted.to_hour)?;
    if !(1..=MAX_DAYS).contains(&wanted.days) {
        return Err(format!("days must be between 1 and {MAX_DAYS}"));
    }
    let back = SignedDuration::from_hours(24 * i64::from(wanted.days));
    let search = EventsWanted {
        camera: Some(camera.clone()),
        labels: Some(wanted.class.clone())
            .filter(|c| !c.is_empty())
            .into_iter()
            .collect(),
        from: Some(here.now.timestamp() - back),
        only_number: true,
        most: None,
        ..EventsWanted::default()
    };
    let happened = search_events(&given.context.client, &search).await;
    let happened = happened.map_err(|e| e.in_full())?;
    let counted = Count::from_moments(&happened.moments, hours, here.now.time_zone());
    if counted.all < MIN_EVENTS {
        return Err(format!(
            "there were {} in that time; a pattern needs at least {MIN_EVENTS}",
            crate::wording::counted(counted.all as u64, "event")
        ));
    }
    let on = here.now.date().to_string();
    let sentence = sentence(&counted, &wanted, &camera, &on, !happened.is_complete());
    let tags = [Some("pattern"), Some(given.head.blueprint.as_str())];
    let entry = Entry {
        camera: Some(camera),
        tags: tags.into_iter().flatten().flat_map(Tag::new).collect(),
        ..Entry::new(
            Kind::Knowledge,
            Origin::Agent,
            Words::new(&sentence).map_err(|e| e.to_string())?,
        )
    };
    notes.remember(entry).await?;
    let reply: Value = json!({"kept": sentence});
    Ok(ToolOutcome::json(&reply))
}

/// A span of hours of a day; `to` is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hours {
    from: u32,
    to: u32,
}

impl Hours {
    fn new(from: u32, to: u32) -> Result<Self, String> {
        if from > 23 || to > 24 || from == to {
            return Err(
                "from_hour must be between 0 and 23, to_hour between 0 and 24, and they must differ"
                    .to_owned(),
            );
        }
        Ok(Self { from, to })
    }

    fn contains(self, hour: u32) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&hour),
            false => hour >= self.from || hour < self.to,
        }
    }
}

/// Counts of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    all: usize,
    within: usize,
    /// Days with an event within the hours.
    days: usize,
}

impl Count {
    fn from_moments(moments: &[Timestamp], hours: Hours, zone: &TimeZone) -> Self {
        let local = moments.iter().map(|at| at.to_zoned(zone.clone()));
        let within: Vec<_> = local
            .filter(|at| hours.contains(u32::try_from(at.hour()).unwrap_or(0)))
            .collect();
        let days: BTreeSet<_> = within.iter().map(|at| at.date()).collect();
        Self {
            all: moments.len(),
            within: within.len(),
            days: days.len(),
        }
    }
}

fn sentence(
    count: &Count,
    wanted: &Arguments,
    camera: &SourceId,
    on: &str,
    is_incomplete: bool,
) -> String {
    let of = match wanted.class.as_str() {
        "" => String::new(),
        class => format!(" of {class}"),
    };
    let cut = if is_incomplete {
        " Not all of the journal for that time could be read."
    } else {
        ""
    };
    format!(
        "In the {} before {on}, {} of {}{of} on camera {camera} fell between {}:00 and {}:00, on \
            {}.{cut}",
        counted(u64::from(wanted.days), "day"),
        count.within,
        counted(count.all as u64, "event"),
        wanted.from_hour,
        wanted.to_hour,
        counted(count.days as u64, "day"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn hours_may_span_midnight_and_are_never_empty() {
        let night = Hours::new(22, 6).unwrap();
        assert!(
            night.contains(23) && night.contains(0) && !night.contains(6) && !night.contains(12)
        );
        assert!(Hours::new(7, 24).unwrap().contains(23));
        for (from, to) in [(7, 7), (24, 3), (1, 25)] {
            assert!(Hours::new(from, to).is_err(), "{from} {to}");
        }
    }

    #[test]
    fn events_are_counted_in_local_time() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let moments = [
            at("2026-11-20T07:30:00Z"),
            at("2026-11-20T08:30:00Z"),
            at("2026-11-21T08:10:00Z"),
            at("2026-11-21T20:00:00Z"),
        ];
        let hours = Hours::new(8, 10).unwrap();
        let count = |zone: TimeZone| Count::from_moments(&moments, hours, &zone);
        assert_eq!(
            count(TimeZone::UTC),
            Count {
                all: 4,
                within: 2,
                days: 2
            }
        );
        let cet = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(
            count(cet.clone()),
            Count {
                all: 4,
                within: 3,
                days: 2
            }
        );
        let wanted = Arguments {
            camera: "gate".to_owned(),
            class: "car".to_owned(),
            days: 7,
            from_hour: 8,
            to_hour: 10,
        };
        let camera = SourceId::new("gate").unwrap();
        assert_eq!(
            sentence(&count(cet), &wanted, &camera, "2026-11-22", false),
            "In the 7 days before 2026-11-22, 3 of 4 events of car on camera gate fell between \
                8:00 and 10:00, on 2 days."
        );
    }
}
