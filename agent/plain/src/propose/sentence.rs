//! Sentences about a watch and about its parts.

use watchkeeper_contract::rule::{Condition, CountBound, CrossDirection};
use watchkeeper_english::{is_several, several};

use crate::new_watch::NewWatch;
use crate::place::Where;
use crate::request::inwards;
use crate::scene::{Shape, joined};
use crate::settings::seconds;

/// Describes a watch in one sentence.
pub(super) fn sentence(watch: &NewWatch) -> String {
    let events = watch.conditions.iter().map(|when| condition(when, watch));
    let events = joined(events, " and ");
    let over = match watch.place.as_ref().is_some_and(Where::is_line) {
        true => "that cross",
        false => "in",
    };
    let many = several(&watch.objects.said);
    let counts = format!("count {many} {over} {}", place(watch));
    let what = match (watch.counts, events.is_empty()) {
        (true, true) => format!("{counts}; no events"),
        (true, false) => format!("{counts}, and an event {events}"),
        (false, _) => format!("an event {events}"),
    };
    let parts = std::iter::once(what).chain(watch.settings.describe());
    format!("On camera {}: {}.", watch.camera, joined(parts, ", "))
}

fn place(watch: &NewWatch) -> &str {
    let place = watch.place.as_ref();
    place.map_or("the picture", |p| p.text.as_str())
}

/// Describes a condition, such as `when a car enters the yard`.
fn condition(when: &Condition, watch: &NewWatch) -> String {
    let said = &watch.objects.said;
    let who = watchkeeper_english::one(said);
    let verb = |one: &'static str, more: &'static str| {
        if is_several(said) { more } else { one }
    };
    let is = verb("is", "are");
    let place = place(watch);
    match when {
        Condition::Appears { .. } => format!("when {who} {is} seen for the first time"),
        Condition::Enters { .. } => format!("when {who} {} {place}", verb("enters", "enter")),
        Condition::Leaves { .. } => format!("when {who} {} {place}", verb("leaves", "leave")),
        Condition::Stays { for_s, .. } => {
            format!("when {who} {is} in {place} for {}", seconds(*for_s))
        }
        Condition::Crosses { direction, .. } => format!(
            "when {who} {} {place}{}",
            verb("crosses", "cross"),
            crossing(*direction, watch.place.as_ref().map(|p| &p.shape))
        ),
        Condition::Count { bound, for_s, .. } => {
            let hold = (*for_s > 0.0).then(|| format!(" for {}", seconds(*for_s)));
            let hold = hold.unwrap_or_default();
            let many = several(said);
            let people = watch.objects.labels.as_slice() == ["person"];
            let there = match bound {
                CountBound::Over(0) => format!("{who} {is}"),
                CountBound::Over(n) => format!("at least {} {many} are", n.saturating_add(1)),
                CountBound::Under(1) if people => "nobody is".to_owned(),
                CountBound::Under(1) if watch.objects.labels.is_empty() => "nothing is".to_owned(),
                CountBound::Under(1) => format!("no {many} are"),
                CountBound::Under(n) => format!("fewer than {n} {many} are"),
            };
            format!("when {there} in {place}{hold}")
        }
        _ => String::new(),
    }
}

/// The ways of a picture, as they are said.
const ALONG: [(&str, [f64; 2]); 4] = [
    ("left to right", [1.0, 0.0]),
    ("right to left", [-1.0, 0.0]),
    ("upwards", [0.0, -1.0]),
    ("downwards", [0.0, 1.0]),
];

/// Describes a direction over a line as it is seen in the picture, and as the line's counter calls
/// it.
fn crossing(direction: CrossDirection, line: Option<&Shape>) -> String {
    let (sign, name) = match direction {
        CrossDirection::Any => return " in either direction".to_owned(),
        CrossDirection::In => (1.0, "inwards"),
        CrossDirection::Out => (-1.0, "outwards"),
    };
    let Some(Shape::Line(a, b)) = line else {
        return format!(" {name}");
    };
    let far = |way: &[f64; 2]| sign * inwards(*way, (*a, *b));
    let way = ALONG
        .iter()
        .max_by(|(_, one), (_, other)| far(one).total_cmp(&far(other)));
    match way {
        Some((said, _)) if said.contains("to") => format!(" from {said} ({name})"),
        Some((said, _)) => format!(" {said} ({name})"),
        None => format!(" {name}"),
    }
}
