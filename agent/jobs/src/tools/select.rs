//! `rank`, `select_best` and `filter`.
//!
//! - Pictures without scores are measured where an order or a condition needs them.
//! - What is unknown comes last in an order, and meets no condition but `is not` and `is unknown`;
//!   the summary counts it.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::Deserialize;
use watchkeeper_pictures::condition::Condition;
use watchkeeper_pictures::select::{Order, compare, rank};
use watchkeeper_pictures::{Group, Measurer, Picture, Trait};

use super::common::{
    COUNT, Collection, FROM, GROUPS, OF_PICTURES, PICTURES, add_scores, groups_done, names,
    pictures_done, try_add_scores, unread_but_some,
};
use crate::counted;
use crate::tool::{
    Context, Kind, Param, Tool, ToolError, ToolOutput, ToolSpec, Values, in_words, local_time, read,
};

const ORDERS: [(&str, Order); 21] = [
    ("quality", Order::Score(Trait::Overall)),
    ("sharpness", Order::Score(Trait::Sharpness)),
    ("exposure", Order::Score(Trait::Exposure)),
    ("contrast", Order::Score(Trait::Contrast)),
    ("noise", Order::Score(Trait::Noise)),
    ("newest", Order::Newest),
    ("oldest", Order::Oldest),
    ("largest", Order::Largest),
    ("smallest", Order::Smallest),
    ("widest", Order::Widest),
    ("tallest", Order::Tallest),
    ("most_bytes", Order::MostBytes),
    ("fewest_bytes", Order::FewestBytes),
    ("ends", Order::Ends),
    ("name", Order::Name),
    ("worst", Order::Least(Trait::Overall)),
    ("blurriest", Order::Least(Trait::Sharpness)),
    ("flattest", Order::Least(Trait::Contrast)),
    ("noisiest", Order::Least(Trait::Noise)),
    ("brightest", Order::Score(Trait::Brightness)),
    ("darkest", Order::Least(Trait::Brightness)),
];

const ORDER_NAMES: [&str; ORDERS.len()] = names(&ORDERS);

pub(super) fn order(name: Option<&str>) -> Order {
    let known = ORDERS.iter().find(|(known, _)| name == Some(known));
    known.map_or(Order::Score(Trait::Overall), |(_, order)| *order)
}

/// Measures the pictures without scores if they are ordered by scores.
fn measure_for(
    order: Order,
    measurer: &Measurer,
    groups: &mut [Group],
    context: &Context<'_>,
) -> Result<String, ToolError> {
    match order {
        Order::Score(_) | Order::Least(_) => add_scores(measurer, groups, context),
        _ => Ok(String::new()),
    }
}

/// Counts pictures without a time at the end of a summary; empty if there is none.
fn without_time<'p>(pictures: impl IntoIterator<Item = &'p Picture>, effect: &str) -> String {
    let unknown = pictures
        .into_iter()
        .filter(|picture| picture.taken.is_none());
    match unknown.count() {
        0 => String::new(),
        number => format!("; without a time, {effect}: {number}"),
    }
}

/// Counts pictures without a time in groups that are ordered by it.
fn last_by_time(groups: &[Group], order: Order) -> String {
    match order {
        Order::Newest | Order::Oldest => {
            without_time(groups.iter().flat_map(|group| &group.pictures), "last")
        }
        _ => String::new(),
    }
}

pub(super) const BY: Param = Param::optional(
    "by",
    Kind::Choice(&ORDER_NAMES),
    "The order, best first; quality if absent. most_bytes: the largest file first; ends: the \
     earliest, then the latest.",
);

#[derive(Debug)]
pub(super) struct Rank(pub(super) Arc<Measurer>);

#[derive(Debug, Deserialize)]
struct RankParams {
    pictures: Collection,
    by: Option<String>,
}

impl Tool for Rank {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "rank",
            about: "Orders pictures, best first: all, or those of each group. By time, groups too.",
            params: &[
                Param {
                    kind: Kind::Collection,
                    about: "Pictures, or groups of pictures.",
                    ..OF_PICTURES
                },
                BY,
            ],
            outputs: &[PICTURES, COUNT, GROUPS],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let RankParams { pictures, by } = read(params)?;
        let order = order(by.as_deref());
        let zone = TimeZone::system();
        let mut groups = pictures.into_groups("ranked");
        let unread = measure_for(order, &self.0, &mut groups, context)?;
        for group in &mut groups {
            rank(&mut group.pictures, order, &zone);
        }
        if matches!(order, Order::Newest | Order::Oldest) {
            rank_groups(&mut groups, order);
        }
        let untimed = last_by_time(&groups, order);
        let first = groups.iter().find_map(|group| group.pictures.first());
        let first = first.map(|first| format!("; first {}", first.name()));
        let by = by.unwrap_or_else(|| "quality".to_owned());
        let first = first.unwrap_or_default();
        let number: usize = groups.iter().map(|group| group.pictures.len()).sum();
        let number = counted(number, "picture");
        let summary = format!("{number} ranked by {by}{first}{untimed}{unread}");
        Ok(groups_done(&groups, summary))
    }
}

/// Orders groups as their first pictures.
fn rank_groups(groups: &mut [Group], order: Order) {
    let firsts = groups.iter().filter_map(|group| group.pictures.first());
    let mut firsts: Vec<Picture> = firsts.cloned().collect();
    rank(&mut firsts, order, &TimeZone::system());
    let places = firsts.iter().enumerate();
    let places: HashMap<&str, usize> = places.map(|(n, p)| (p.file.as_str(), n)).collect();
    groups.sort_by_key(|group| {
        let first = group.pictures.first();
        let place = first.and_then(|first| places.get(first.file.as_str()));
        place.copied().unwrap_or(usize::MAX)
    });
}

#[derive(Debug)]
pub(super) struct SelectBest(pub(super) Arc<Measurer>);

#[derive(Debug, Deserialize)]
struct BestParams {
    from: Collection,
    count: usize,
    total: Option<usize>,
    percent: Option<usize>,
    by: Option<String>,
}

impl Tool for SelectBest {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "select_best",
            about: "Keeps the best pictures: of all, or of each group.",
            params: &[
                FROM,
                Param::required(
                    "count",
                    Kind::Integer {
                        min: 1,
                        max: 10_000,
                    },
                    "Most pictures that are kept, of each group where there are groups.",
                ),
                Param::optional(
                    "total",
                    Kind::Integer {
                        min: 1,
                        max: 10_000,
                    },
                    "Most pictures that are kept of all groups together; of those of each group \
                     the first of all in the order.",
                ),
                Param::optional(
                    "percent",
                    Kind::Integer { min: 1, max: 100 },
                    "Largest share of the pictures that is kept, of each group where there are \
                     groups; one at least.",
                ),
                BY,
            ],
            outputs: &[PICTURES, COUNT, GROUPS],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let BestParams {
            from,
            count,
            total,
            percent,
            by,
        } = read(params)?;
        let order = order(by.as_deref());
        let zone = TimeZone::system();
        let mut groups = from.into_groups("best");
        let all: usize = groups.iter().map(|group| group.pictures.len()).sum();
        let untimed = last_by_time(&groups, order);
        let unread = measure_for(order, &self.0, &mut groups, context)?;
        let mut copies = 0;
        for group in &mut groups {
            rank(&mut group.pictures, order, &zone);
            let share = percent.map(|percent| (group.pictures.len() * percent / 100).max(1));
            let count = share.map_or(count, |share| share.min(count));
            copies += keep_first(&mut group.pictures, count, order, &zone);
        }
        if let Some(total) = total {
            keep_in_total(&mut groups, total, order, &zone);
        }
        let kept: usize = groups.iter().map(|group| group.pictures.len()).sum();
        let of_groups = match groups.len() {
            1 => String::new(),
            number => format!(
                ", at most {count} from each of {}",
                counted(number, "group")
            ),
        };
        let all = counted(all, "picture");
        let copies = match copies {
            0 => String::new(),
            number => format!("; copies left out: {number}"),
        };
        let summary = format!("{kept} of {all} kept{of_groups}{copies}{untimed}{unread}");
        Ok(groups_done(&groups, summary))
    }
}

/// Keeps the first `count` of ranked pictures; of files of equal bytes that a score ranks it keeps
/// one. Returns how many of these it dropped.
fn keep_first(pictures: &mut Vec<Picture>, count: usize, order: Order, zone: &TimeZone) -> usize {
    let is_by_score = matches!(order, Order::Score(_) | Order::Least(_));
    let mut kept: Vec<Picture> = Vec::new();
    let mut copies = 0;
    for picture in std::mem::take(pictures) {
        if kept.len() == count {
            break;
        }
        // Copies have equal scores.
        let beside = kept.iter().rev();
        let mut beside =
            beside.take_while(|one| compare(one, &picture, order, zone) == Ordering::Equal);
        let is_scored = is_by_score && picture.scores.is_some();
        match is_scored && beside.any(|one| is_same_file(one, &picture)) {
            true => copies += 1,
            false => kept.push(picture),
        }
    }
    *pictures = kept;
    copies
}

/// Returns whether two pictures are files of equal bytes.
fn is_same_file(one: &Picture, other: &Picture) -> bool {
    let is_as_long = one.file_bytes().is_some() && one.file_bytes() == other.file_bytes();
    let bytes = || Some((one.bytes().ok()?, other.bytes().ok()?));
    is_as_long && bytes().is_some_and(|(one, other)| one == other)
}

/// Keeps the first of all pictures in an order, in their groups; empty groups are dropped.
fn keep_in_total(groups: &mut Vec<Group>, total: usize, order: Order, zone: &TimeZone) {
    let all = groups.iter().flat_map(|group| &group.pictures);
    let mut all: Vec<Picture> = all.cloned().collect();
    rank(&mut all, order, zone);
    // A picture may be in several groups.
    let mut found = HashSet::new();
    all.retain(|picture| found.insert(picture.file.clone()));
    all.truncate(total);
    let kept: HashSet<&str> = all.iter().map(|picture| picture.file.as_str()).collect();
    for group in &mut *groups {
        let is_kept = |picture: &Picture| kept.contains(picture.file.as_str());
        group.pictures.retain(is_kept);
    }
    groups.retain(|group| !group.pictures.is_empty());
}

#[derive(Debug)]
pub(super) struct Filter(pub(super) Arc<Measurer>);

#[derive(Debug, Deserialize)]
struct FilterParams {
    pictures: Vec<Picture>,
    min_quality: Option<f64>,
    min_sharpness: Option<f64>,
    camera: Option<String>,
    class: Option<String>,
    zone: Option<String>,
    since: Option<String>,
    until: Option<String>,
    #[serde(default, rename = "where")]
    conditions: Vec<String>,
    #[serde(default)]
    any: bool,
}

impl Tool for Filter {
    fn spec(&self) -> &'static ToolSpec {
        const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0 };
        const SPEC: ToolSpec = ToolSpec {
            name: "filter",
            about: "Keeps the pictures that meet all conditions; one whose value is unknown does not.",
            params: &[
                OF_PICTURES,
                Param::optional("min_quality", SHARE, "Least overall score."),
                Param::optional("min_sharpness", SHARE, "Least sharpness."),
                Param::optional(
                    "camera",
                    Kind::Text,
                    "Name of the camera, or some of its words, such as the maker.",
                ),
                Param::optional("class", Kind::Text, "Class of the object."),
                Param::optional("zone", Kind::Text, "Zone or line of the object."),
                Param::optional(
                    "since",
                    Kind::Time,
                    "Local time, such as 2026-03-01 or 2026-03-01T08:00.",
                ),
                Param::optional(
                    "until",
                    Kind::Time,
                    "Local time that is no longer included.",
                ),
                Param::optional(
                    "where",
                    Kind::Conditions,
                    "FIELD is [not] TEXT [or TEXT], FIELD is FROM-TO [or FROM-TO], \
                     time is [not] FROM to TO [or FROM to TO], \
                     place is [not] within NUMBER m | km of LATITUDE LONGITUDE, \
                     FIELD [not] < | <= | = | >= | > NUMBER, FIELD is known | unknown.",
                ),
                Param::optional(
                    "any",
                    Kind::Flag,
                    "Whether one of the conditions, beside the times, is enough.",
                ),
            ],
            outputs: &[PICTURES, COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let said = in_words(&params);
        let params: FilterParams = read(params)?;
        let mut conditions = params.conditions()?;
        conditions
            .iter_mut()
            .for_each(|condition| condition.know_cameras(&params.pictures));
        let (of_scores, others): (Vec<_>, Vec<_>) = conditions
            .iter()
            .partition(|condition| params.any || condition.needs_scores());
        let since = params.since.as_deref().and_then(local_time);
        let until = params.until.as_deref().and_then(local_time);
        let number = counted(params.pictures.len(), "picture");
        let mut unknown = match since.or(until) {
            Some(_) => without_time(&params.pictures, "left out"),
            None => String::new(),
        };
        for condition in &others {
            let pictures = params.pictures.iter();
            let lacking = pictures.filter(|one| condition.lacks_value(one));
            match lacking.count() {
                0 => {}
                number => {
                    write!(unknown, "; without {}: {number}", condition.field()).unwrap_or(())
                }
            }
        }
        let mut groups = Collection::Pictures(params.pictures).into_groups("");
        for group in &mut groups {
            group.pictures.retain(|picture| {
                others.iter().all(|condition| condition.is_met(picture))
                    && since.is_none_or(|since| picture.taken.is_some_and(|taken| taken >= since))
                    && until.is_none_or(|until| picture.taken.is_some_and(|taken| taken < until))
            });
        }
        // Only the pictures that are left are decoded.
        let unread = match of_scores.iter().any(|condition| condition.needs_scores()) {
            true => try_add_scores(&self.0, &mut groups, context)?,
            false => Vec::new(),
        };
        let mut kept: Vec<Picture> = groups
            .into_iter()
            .flat_map(|group| group.pictures)
            .collect();
        let is_any_measured = kept.iter().any(|picture| picture.scores.is_some());
        kept.retain(|picture| {
            let mut met = of_scores.iter().map(|condition| condition.is_met(picture));
            if params.any {
                met.any(|is| is)
            } else {
                met.all(|is| is)
            }
        });
        unknown += &unread_but_some(is_any_measured || !kept.is_empty(), &unread)?;
        let summary = format!("{} of {number} met: {said}{unknown}", kept.len());
        Ok(pictures_done(&kept, summary))
    }
}

impl FilterParams {
    /// All conditions but those of time.
    fn conditions(&self) -> Result<Vec<Condition>, ToolError> {
        let texts = [
            ("camera", &self.camera),
            ("class", &self.class),
            ("zone", &self.zone),
        ];
        let bounds = [
            ("quality", self.min_quality),
            ("sharpness", self.min_sharpness),
        ];
        let texts = texts
            .iter()
            .filter_map(|(name, text)| Condition::is(name, text.as_deref()?));
        let bounds = bounds
            .iter()
            .filter_map(|(name, least)| Condition::at_least(name, (*least)?));
        let mut conditions: Vec<Condition> = texts.chain(bounds).collect();
        for text in &self.conditions {
            let read = text.parse::<Condition>();
            conditions.push(read.map_err(|error| ToolError::Permanent(error.to_string()))?);
        }
        Ok(conditions)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_equal_files_one_is_among_the_best() {
        let dir = tempfile::tempdir().unwrap();
        let picture = |name: &str, bytes: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, bytes).unwrap();
            let scores = json!({"sharpness": 0.5, "exposure": 0.5, "contrast": 0.5, "noise": 0.5,
                "overall": 0.5});
            let picture = json!({"file": file, "width": 4, "height": 3, "scores": scores});
            serde_json::from_value::<Picture>(picture).unwrap()
        };
        let mut pictures = [("a", "one"), ("b", "one"), ("c", "two"), ("d", "six")]
            .map(|(name, bytes)| picture(name, bytes))
            .to_vec();
        let by = Order::Score(Trait::Overall);
        assert_eq!(keep_first(&mut pictures, 2, by, &TimeZone::UTC), 1);
        let names: Vec<&str> = pictures.iter().map(Picture::name).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn order_by_time_counts_pictures_without_a_time() {
        let group = |taken: [Option<&str>; 2]| {
            let pictures =
                taken.map(|taken| json!({"file": "a", "width": 4, "height": 3, "taken": taken}));
            let group = json!({"name": "g", "why": "", "pictures": pictures});
            serde_json::from_value::<Group>(group).unwrap()
        };
        let timed = Some("2026-03-01T10:00:00");
        let groups = [group([timed, None]), group([None, timed])];
        let note = last_by_time(&groups, Order::Newest);
        assert_eq!(note, "; without a time, last: 2");
        for (groups, order) in [
            (&groups[..], Order::Name),
            (&[group([timed; 2])], Order::Oldest),
        ] {
            assert_eq!(last_by_time(groups, order), "");
        }
    }

    #[test]
    fn groups_are_ordered_by_time_with_unknown_ones_last() {
        let picture = |file: &str, taken: Option<&str>| json!({"file": file, "width": 4, "height": 3, "taken": taken});
        let groups = json!([
            {"name": "no day", "why": "", "pictures": [picture("c", None)]},
            {"name": "first", "why": "", "pictures": [picture("a", Some("2026-03-01T10:00:00"))]},
            {"name": "none", "why": "", "pictures": []},
            {"name": "second", "why": "", "pictures": [picture("b", Some("2026-03-02T10:00:00"))]},
        ]);
        for (order, expected) in [
            (Order::Newest, ["second", "first", "no day", "none"]),
            (Order::Oldest, ["first", "second", "no day", "none"]),
        ] {
            let mut groups: Vec<Group> = serde_json::from_value(groups.clone()).unwrap();
            rank_groups(&mut groups, order);
            let names = groups.iter().map(|group| group.name.as_str());
            assert!(names.eq(expected), "{order:?}");
        }
    }
}
