//! `group`: pictures by time, place, camera, class, zone, folder, shape, format or sharpness.

use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::Deserialize;
use watchkeeper_pictures::group::{By, group};
use watchkeeper_pictures::{Group, Measurer};

use super::common::{
    COUNT, Collection, GROUPS, OF_PICTURES, PICTURES, add_scores, groups_done, names,
};
use crate::counted;
use crate::tool::{Context, Kind, Param, Tool, ToolError, ToolOutput, ToolSpec, Values, read};

/// Gap and distance if the plan has none.
const GAP_MINUTES: f64 = 60.0;
const PLACE_METRES: f64 = 500.0;

const GROUPINGS: [(&str, By); 17] = [
    ("year", By::Year),
    ("month", By::Month),
    ("week", By::Week),
    ("day", By::Day),
    ("hour", By::Hour),
    ("hour_of_day", By::HourOfDay),
    ("weekday", By::Weekday),
    (
        "gap",
        By::Gap {
            minutes: GAP_MINUTES,
        },
    ),
    (
        "place",
        By::Place {
            metres: PLACE_METRES,
        },
    ),
    ("camera", By::Camera),
    ("class", By::Class),
    ("zone", By::Zone),
    ("folder", By::Folder),
    ("sharpness", By::Sharpness),
    ("shape", By::Shape),
    ("format", By::Format),
    ("code", By::Code),
];

const GROUPING_NAMES: [&str; GROUPINGS.len()] = names(&GROUPINGS);

#[derive(Debug)]
pub(super) struct GroupPictures(pub(super) Arc<Measurer>);

#[derive(Debug, Deserialize)]
struct Params {
    pictures: Collection,
    by: String,
    gap_minutes: Option<f64>,
    place_metres: Option<f64>,
}

impl Tool for GroupPictures {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: "group",
            about: "Groups pictures by what they have in common, or divides groups.",
            params: &[
                Param {
                    kind: Kind::Collection,
                    about: "Pictures, or groups of pictures.",
                    ..OF_PICTURES
                },
                Param::required(
                    "by",
                    Kind::Choice(&GROUPING_NAMES),
                    "What the pictures of a group have in common; gap: no long time between two; \
                     code: the texts that read_codes has read.",
                ),
                Param::optional(
                    "gap_minutes",
                    Kind::Number { min: 0.0, max: 1e6 },
                    "Longest time between two pictures of a group; 60 if absent.",
                ),
                Param::optional(
                    "place_metres",
                    Kind::Number { min: 1.0, max: 1e6 },
                    "Longest distance from the first picture of a group; 500 if absent.",
                ),
            ],
            outputs: &[GROUPS, PICTURES, COUNT],
        };
        &SPEC
    }

    fn run(&self, params: Values, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let params: Params = read(params)?;
        let mut known = GROUPINGS.iter();
        let known = known.find(|(name, _)| *name == params.by);
        // The choice was checked.
        let by = match known.map_or(By::Day, |(_, by)| *by) {
            By::Gap { minutes } => By::Gap {
                minutes: params.gap_minutes.unwrap_or(minutes),
            },
            By::Place { metres } => By::Place {
                metres: params.place_metres.unwrap_or(metres),
            },
            by => by,
        };
        let zone = TimeZone::system();
        let is_divided = matches!(params.pictures, Collection::Groups(_));
        let mut whole = params.pictures.into_groups("");
        let unread = match by {
            By::Sharpness => add_scores(&self.0, &mut whole, context)?,
            _ => String::new(),
        };
        let groups = whole.into_iter().flat_map(|outer| {
            let inner = group(outer.pictures, by, &zone);
            inner.into_iter().map(move |part| match is_divided {
                true => Group {
                    name: format!("{}, {}", outer.name, part.name),
                    why: format!("{}; {}", outer.why, part.why),
                    ..part
                },
                false => part,
            })
        });
        let groups: Vec<Group> = groups.collect();
        let number: usize = groups.iter().map(|group| group.pictures.len()).sum();
        let number = counted(number, "picture");
        let made = counted(groups.len(), "group");
        let summary = format!("{number} in {made} by {}{unread}", params.by);
        Ok(groups_done(&groups, summary))
    }
}
