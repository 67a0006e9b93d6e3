//! What could have been known, as JSON, as lines and as clauses of a sentence.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use watchkeeper_contract::coverage::SpanEnd;
use watchkeeper_contract::source::Blindness;

use super::knowledge::{CameraKnowledge, Knowledge};
use super::why::Why;
use crate::wording::duration;

/// Range in which a weekday names one day.
pub(super) const MAX_WEEK_MS: i64 = 6 * 86_400_000;

impl Knowledge {
    /// The knowledge as JSON for programs: at most `max` known and unknown times of each camera,
    /// the longest.
    pub fn to_json(&self, max: usize, zone: &TimeZone) -> Value {
        let camera = |camera: &CameraKnowledge| {
            let shown = |ms: i64| zoned(ms, zone).map(|at| at.strftime("%F %T %:z").to_string());
            let known = longest(camera.known.as_slice(), max, |(from, to)| to - from);
            let known: Vec<Value> = known
                .map(|(from, to)| json!({"from": shown(*from), "to": shown(*to)}))
                .collect();
            let unknown = longest(&camera.unknown, max, |gap| gap.to_ms - gap.from_ms);
            let unknown: Vec<Value> = unknown
                .map(|gap| {
                    let (from, to) = (shown(gap.from_ms), shown(gap.to_ms));
                    json!({"from": from, "to": to, "because": reason(&gap.why, zone)})
                })
                .collect();
            let mut answer = json!({
                "camera": camera.camera, "name": camera.name, "known": known, "unknown": unknown,
                "known_times": camera.known.as_slice().len(), "unknown_times": camera.unknown.len(),
                "recorded_only": camera.only, "pictures_per_s": camera.rate,
            });
            if !camera.about.is_empty() {
                answer["classes"] = json!(camera.about);
            }
            answer
        };
        let cameras: Vec<Value> = self.cameras.iter().map(camera).collect();
        let watched = match (self.is_whole(), self.is_none()) {
            (true, _) => "all_the_time",
            (false, true) => "never",
            (false, false) => "part_of_the_time",
        };
        json!({"watched": watched, "cameras": cameras})
    }

    /// When each camera was watched, line by line. Cool-downs are summed within the time around
    /// them.
    pub fn lines(&self, zone: &TimeZone) -> Vec<String> {
        let mut lines = Vec::new();
        let (from, to) = self.question.range;
        for camera in &self.cameras {
            let rows = rows(camera, zone);
            let watched: i64 = rows.iter().filter_map(Row::watched_ms).sum();
            let rate = camera.rate.map_or_else(String::new, |rate| {
                format!(", at least {rate:.1} pictures a second on average")
            });
            lines.push(format!(
                "{}: watched {} of {}{rate}",
                camera.camera,
                duration_ms(watched),
                duration_ms(to - from)
            ));
            lines.extend(rows.iter().map(|row| row.line(zone)));
            let only = camera.only.iter();
            lines.extend(only.map(|only| format!("  recorded only {only}")));
        }
        lines
    }
}

/// A time of one camera, milliseconds since 1970.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    from: i64,
    to: i64,
    /// Part of a watched time that was in cool-downs.
    quiet: i64,
    /// Why nothing is known; `None`: watched.
    why: Option<String>,
}

/// The times of a camera, rising. Watched times and cool-downs that meet are one.
fn rows(camera: &CameraKnowledge, zone: &TimeZone) -> Vec<Row> {
    let known = camera.known.as_slice().iter().map(|&(from, to)| Row {
        from,
        to,
        quiet: 0,
        why: None,
    });
    let unknown = camera.unknown.iter().map(|gap| {
        let is_quiet = gap.why == Why::CoolingDown;
        Row {
            from: gap.from_ms,
            to: gap.to_ms,
            quiet: if is_quiet { gap.to_ms - gap.from_ms } else { 0 },
            why: (!is_quiet).then(|| reason(&gap.why, zone)),
        }
    });
    let mut all: Vec<Row> = known.chain(unknown).collect();
    all.sort_unstable();
    all.dedup_by(|next, row| {
        let is_one = row.to == next.from && row.why == next.why;
        if is_one {
            row.to = next.to;
            row.quiet += next.quiet;
        }
        is_one
    });
    all
}

impl Row {
    fn watched_ms(&self) -> Option<i64> {
        self.why.is_none().then_some(self.to - self.from)
    }

    fn line(&self, zone: &TimeZone) -> String {
        let what = match (&self.why, self.quiet) {
            (Some(why), _) => format!("not known: {why}"),
            (None, 0) => "watched".to_owned(),
            (None, quiet) => format!(
                "watched, {} of it in cool-downs after events",
                duration_ms(quiet)
            ),
        };
        format!(
            "  {} – {}  {what}",
            local_time(self.from, zone),
            local_time(self.to, zone)
        )
    }
}

/// The longest `max` times, in their order.
fn longest<T>(times: &[T], max: usize, length: impl Fn(&T) -> i64) -> impl Iterator<Item = &T> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|at| times.get(*at).map_or(0, |time| -length(time)));
    order.truncate(max);
    order.sort_unstable();
    order.into_iter().filter_map(|at| times.get(at))
}

/// Why nothing is known, as a clause.
pub(super) fn reason(why: &Why, zone: &TimeZone) -> String {
    match why {
        Why::Deleted => "the records of that time are deleted".to_owned(),
        Why::NotWatched => "nothing watched".to_owned(),
        Why::ClockWrong => "the clock of the box was wrong".to_owned(),
        Why::Unstored => "events wait for the disk".to_owned(),
        Why::Inactive => "the rule was inactive by its schedule".to_owned(),
        Why::CoolingDown => "the rule was cooling down after an event".to_owned(),
        Why::NoRule => "the pipeline only counted and had no rule".to_owned(),
        Why::NoClasses { model } => format!("{model} tells no classes apart"),
        Why::RenamedClasses => "the workflow renamed classes".to_owned(),
        Why::OtherClasses { told } => match told.as_slice() {
            [] => "only other classes were looked for".to_owned(),
            told => format!("only the class {} was looked for", told.join(" or ")),
        },
        Why::OtherEvents { told } => format!("the rule records only {}", told.join(", ")),
        Why::Interrupted(end) => interruption(*end).to_owned(),
        Why::Paused { from_ms, to_ms } => {
            let when = match to_ms {
                Some(to_ms) => format!("from {}", span((*from_ms, *to_ms), zone)),
                None => format!(
                    "since {} {}",
                    moment(*from_ms, false, true, zone),
                    zone_name(*from_ms, zone)
                ),
            };
            format!("{} {when}", interruption(SpanEnd::Paused))
        }
    }
}

fn interruption(end: SpanEnd) -> &'static str {
    match end {
        SpanEnd::Open | SpanEnd::Continued | SpanEnd::Unknown => "watching was interrupted",
        SpanEnd::NoFrames => "no pictures came",
        SpanEnd::Disk => "the pipeline waited for the disk",
        SpanEnd::Blind { kind } => match kind {
            Blindness::Frozen => "the picture was frozen",
            Blindness::Black => "the picture was black",
            Blindness::Moved => "the camera was moved",
            Blindness::Covered => "the camera was covered",
            Blindness::Blurred => "the picture was blurred",
        },
        SpanEnd::StepFailed => "a step of the workflow failed",
        SpanEnd::ClockSet => "the clock was set",
        SpanEnd::Paused => "the pipeline was paused",
        SpanEnd::Heat => "the box was hot and paused the pipeline",
        SpanEnd::Stopped => "the pipeline was stopped",
        SpanEnd::Finished => "the recording had ended",
        SpanEnd::Failed => "the pipeline failed",
        // The runtime may run again and hold the pipeline.
        SpanEnd::Killed => "the runtime stopped unexpectedly and had not resumed watching",
    }
}

fn zoned(ms: i64, zone: &TimeZone) -> Option<Zoned> {
    let at = Timestamp::from_millisecond(ms).ok()?;
    Some(at.to_zoned(zone.clone()))
}

/// A moment in local time, with its weekday, and with its date in a long range.
pub(super) fn moment(ms: i64, with_seconds: bool, with_date: bool, zone: &TimeZone) -> String {
    let format = match (with_date, with_seconds) {
        (false, false) => "%a %R",
        (false, true) => "%a %T",
        (true, false) => "%a %-d %b %R",
        (true, true) => "%a %-d %b %T",
    };
    zoned(ms, zone).map_or_else(String::new, |at| at.strftime(format).to_string())
}

/// The abbreviation of a time zone at a moment, such as `CET`.
pub(super) fn zone_name(ms: i64, zone: &TimeZone) -> String {
    zoned(ms, zone).map_or_else(String::new, |at| at.strftime("%Z").to_string())
}

/// A span in local time, with its dates and zone.
pub(super) fn span((from, to): (i64, i64), zone: &TimeZone) -> String {
    let shown = |ms| moment(ms, false, true, zone);
    format!("{} to {} {}", shown(from), shown(to), zone_name(to, zone))
}

/// An hour in local time, with its date in a long range.
pub(super) fn hour(from_ms: i64, with_date: bool, zone: &TimeZone) -> String {
    const HOUR_MS: i64 = 3_600_000;
    let end = zoned(from_ms + HOUR_MS, zone).map(|at| at.strftime("–%R").to_string());
    moment(from_ms, false, with_date, zone) + &end.unwrap_or_default()
}

/// A moment in local time, with its date.
fn local_time(ms: i64, zone: &TimeZone) -> String {
    zoned(ms, zone).map_or_else(String::new, |at| at.strftime("%F %T").to_string())
}

pub(super) fn duration_ms(ms: i64) -> String {
    duration(ms as f64 / 1e3)
}
