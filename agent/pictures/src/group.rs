//! Groups of pictures by time, place, camera, class, zone, folder, shape, format or
//! sharpness.
//!
//! - Every picture is in exactly one group; those without the needed value are in one of their own,
//!   the last.
//! - Groups are ordered by their first picture's instant, then by name; weekdays from Monday on,
//!   hours of the day from midnight on.
//! - Gaps are measured between instants ([`Picture::instant`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::picture::Picture;
use crate::place::{Place, distance_m};
use crate::scores::SHARP;

/// Pictures that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    /// Why these pictures are together.
    pub why: String,
    pub pictures: Vec<Picture>,
}

/// Criterion of a grouping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum By {
    Year,
    Month,
    /// Week of the ISO calendar, which begins on Monday.
    Week,
    Day,
    Hour,
    /// Hour of any day, such as from 8 to 9.
    HourOfDay,
    /// Day of the week, such as all Mondays.
    Weekday,
    /// No gap between two pictures is longer than this number of minutes.
    Gap {
        minutes: f64,
    },
    /// No picture is farther from the first one than this distance.
    Place {
        metres: f64,
    },
    Camera,
    Class,
    Zone,
    Folder,
    /// Whether the sharpness is [`SHARP`] at least.
    Sharpness,
    /// Landscape, portrait or square.
    Shape,
    /// The ending of the name, such as `jpeg`.
    Format,
    /// The texts of its codes.
    Code,
}

/// Groups pictures; local times without an instant are those of `zone`.
pub fn group(pictures: Vec<Picture>, by: By, zone: &TimeZone) -> Vec<Group> {
    let (mut groups, unknown) = match by {
        By::Gap { minutes } => by_gap(pictures, minutes, zone),
        By::Place { metres } => by_place(pictures, metres),
        _ => by_name(pictures, by),
    };
    let first = |group: &Group| {
        let pictures = group.pictures.iter();
        pictures.filter_map(|p| p.instant(zone)).min()
    };
    let recurring = |group: &Group| {
        let taken = group.pictures.first()?.taken?;
        match by {
            By::Weekday => Some(taken.weekday().to_monday_zero_offset()),
            By::HourOfDay => Some(taken.hour()),
            _ => None,
        }
    };
    groups.sort_by_cached_key(|group| {
        let first = first(group);
        (recurring(group), first.is_none(), first, group.name.clone())
    });
    if !unknown.is_empty() {
        groups.push(without(describe(by), unknown));
    }
    groups
}

/// Groups, and the pictures whose value is unknown.
type Grouped = (Vec<Group>, Vec<Picture>);

fn by_name(pictures: Vec<Picture>, by: By) -> Grouped {
    let root = common_folder(&pictures);
    let mut unknown = Vec::new();
    let mut groups: BTreeMap<String, Vec<Picture>> = BTreeMap::new();
    for picture in pictures {
        match name(&picture, by, &root) {
            Some(name) => groups.entry(name).or_default().push(picture),
            None => unknown.push(picture),
        }
    }
    let made = groups.into_iter().map(|(name, pictures)| Group {
        why: format!("{} {name}", describe(by)),
        name,
        pictures,
    });
    (made.collect(), unknown)
}

/// The innermost folder that holds all pictures.
fn common_folder(pictures: &[Picture]) -> PathBuf {
    let mut folders = pictures.iter().filter_map(|p| Path::new(&p.file).parent());
    let Some(mut root) = folders.next() else {
        return PathBuf::new();
    };
    for folder in folders {
        while !folder.starts_with(root) {
            let Some(above) = root.parent() else {
                break;
            };
            root = above;
        }
    }
    root.to_owned()
}

fn without(what: &str, pictures: Vec<Picture>) -> Group {
    Group {
        name: format!("no {what}"),
        why: format!("the {what} of these pictures is not known"),
        pictures,
    }
}

const fn describe(by: By) -> &'static str {
    match by {
        By::Year => "year",
        By::Month => "month",
        By::Week => "week",
        By::Day => "day",
        By::Hour | By::HourOfDay => "hour",
        By::Weekday => "weekday",
        By::Gap { .. } => "time",
        By::Place { .. } => "place",
        By::Camera => "camera",
        By::Class => "class",
        By::Zone => "zone",
        By::Folder => "folder",
        By::Sharpness => "sharpness",
        By::Shape => "shape",
        By::Format => "format",
        By::Code => "code",
    }
}

fn name(picture: &Picture, by: By, root: &Path) -> Option<String> {
    let time = |format: &str| {
        picture
            .taken
            .map(|taken| taken.strftime(format).to_string())
    };
    match by {
        By::Year => time("%Y"),
        By::Month => time("%Y-%m"),
        By::Week => time("%G-W%V"),
        By::Day => time("%Y-%m-%d"),
        By::Hour => time("%Y-%m-%d %H h"),
        By::HourOfDay => time("%H h"),
        By::Weekday => time("%A"),
        By::Shape => Some(picture.shape().to_owned()),
        By::Format => picture.format(),
        By::Code => {
            let codes = picture.codes.as_ref().filter(|codes| !codes.is_empty());
            codes.map(|codes| codes.join(", "))
        }
        By::Camera => picture.camera.clone(),
        By::Class => picture.class.clone(),
        By::Zone => picture.zone.clone(),
        By::Sharpness => picture.scores.map(|scores| {
            let is_sharp = scores.sharpness >= SHARP;
            if is_sharp { "sharp" } else { "blurred" }.to_owned()
        }),
        By::Folder => {
            let folder = Path::new(&picture.file).parent()?;
            let below = folder.strip_prefix(root).ok()?;
            let named = match below.as_os_str().is_empty() {
                true => Path::new(folder.file_name()?),
                false => below,
            };
            Some(named.to_string_lossy().into_owned())
        }
        By::Gap { .. } | By::Place { .. } => None,
    }
}

fn by_gap(pictures: Vec<Picture>, minutes: f64, zone: &TimeZone) -> Grouped {
    let mut unknown = Vec::new();
    let mut timed: Vec<(Timestamp, DateTime, Picture)> = Vec::new();
    for picture in pictures {
        match (picture.instant(zone), picture.taken) {
            (Some(at), Some(taken)) => timed.push((at, taken, picture)),
            _ => unknown.push(picture),
        }
    }
    timed.sort_by(|a, b| (a.0, &a.2.file).cmp(&(b.0, &b.2.file)));
    let mut groups: Vec<(DateTime, DateTime, Vec<Picture>)> = Vec::new();
    let mut before = Timestamp::MIN;
    for (at, taken, picture) in timed {
        match groups.last_mut() {
            Some((_, last, members)) if minutes_between(before, at) <= minutes => {
                *last = taken;
                members.push(picture);
            }
            _ => groups.push((taken, taken, vec![picture])),
        }
        before = at;
    }
    let groups: Vec<Group> = groups
        .into_iter()
        .map(|(first, last, pictures)| Group {
            name: first.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            why: format!(
                "no gap of more than {minutes} minutes until {}",
                last.strftime("%H:%M:%S")
            ),
            pictures,
        })
        .collect();
    (groups, unknown)
}

fn minutes_between(earlier: Timestamp, later: Timestamp) -> f64 {
    earlier.duration_until(later).as_secs_f64() / 60.0
}

fn by_place(pictures: Vec<Picture>, metres: f64) -> Grouped {
    let mut groups: Vec<(Place, Vec<Picture>)> = Vec::new();
    let mut unknown = Vec::new();
    for picture in pictures {
        let Some(place) = picture.place else {
            unknown.push(picture);
            continue;
        };
        let near = |known: &(Place, Vec<Picture>)| distance_m(known.0, place) <= metres;
        match groups
            .iter()
            .position(near)
            .and_then(|at| groups.get_mut(at))
        {
            Some((_, members)) => members.push(picture),
            None => groups.push((place, vec![picture])),
        }
    }
    let groups: Vec<Group> = groups
        .into_iter()
        .map(|(place, pictures)| {
            let name = format!("{:.4}, {:.4}", place.latitude, place.longitude);
            Group {
                why: format!("within {metres} m of {name}"),
                name,
                pictures,
            }
        })
        .collect();
    (groups, unknown)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::picture::testing::picture;

    fn names(groups: &[Group]) -> Vec<(&str, usize)> {
        let each = groups.iter();
        each.map(|group| (group.name.as_str(), group.pictures.len()))
            .collect()
    }

    #[test]
    fn days_are_in_order_and_pictures_without_time_come_last() {
        let pictures = vec![
            picture("c", None),
            picture("b", Some("2026-03-02T00:00:01")),
            picture("a", Some("2026-03-01T23:59:59")),
            picture("d", Some("2026-03-02T12:00:00")),
        ];
        let groups = group(pictures, By::Day, &TimeZone::UTC);
        let expected = [("2026-03-01", 1), ("2026-03-02", 2), ("no day", 1)];
        assert_eq!(names(&groups), expected);
    }

    #[test]
    fn weekdays_begin_on_monday_and_weeks_are_of_the_iso_calendar() {
        // A Friday, the Sunday behind it and the Monday of the next week.
        let days = ["2027-01-01", "2027-01-03", "2027-01-04"];
        let pictures = days.map(|day| picture(day, Some(&format!("{day}T10:00:00"))));
        let groups = group(pictures.to_vec(), By::Weekday, &TimeZone::UTC);
        let expected = [("Monday", 1), ("Friday", 1), ("Sunday", 1)];
        assert_eq!(names(&groups), expected);
        let groups = group(pictures.to_vec(), By::Week, &TimeZone::UTC);
        assert_eq!(names(&groups), [("2026-W53", 2), ("2027-W01", 1)]);
    }

    #[test]
    fn hours_of_the_day_are_those_of_all_days_in_order() {
        let times = [
            "2027-01-01T20:00:00",
            "2027-01-02T08:10:00",
            "2027-01-03T20:59:59",
        ];
        let pictures = times.map(|time| picture(time, Some(time)));
        let groups = group(pictures.to_vec(), By::HourOfDay, &TimeZone::UTC);
        assert_eq!(names(&groups), [("08 h", 1), ("20 h", 2)]);
    }

    #[test]
    fn gap_is_between_neighbours_in_time() {
        let at = |minute| format!("2026-03-01T10:{minute:02}:00");
        let pictures = [0, 4, 8, 20].map(|minute| picture(&at(minute), Some(&at(minute))));
        let groups = group(pictures.to_vec(), By::Gap { minutes: 5.0 }, &TimeZone::UTC);
        let expected = [("2026-03-01 10:00:00", 3), ("2026-03-01 10:20:00", 1)];
        assert_eq!(names(&groups), expected);
    }

    #[test]
    fn gap_is_one_of_instants_over_changes_of_the_clock() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        // As a camera writes it: the local time, without its offset.
        let local = |at: &str| picture(at, Some(at));
        // As an event has it.
        let event = |at: &str| {
            let at: Timestamp = at.parse().unwrap();
            let taken = at.to_zoned(zone.clone()).datetime();
            let mut picture = picture(&at.to_string(), Some(&taken.to_string()));
            picture.at = Some(at);
            picture
        };
        let by = By::Gap { minutes: 5.0 };
        // In spring 01:59 and 03:01 are two minutes apart.
        let spring = vec![
            local("2026-03-29T03:01:00"),
            event("2026-03-29T00:59:00Z"),
            event("2026-03-29T01:03:00Z"),
        ];
        let groups = group(spring, by, &zone);
        assert_eq!(names(&groups), [("2026-03-29 01:59:00", 3)]);
        // In autumn 02:30 comes twice; the camera's is taken for the first.
        let autumn = vec![
            event("2026-10-25T01:31:00Z"),
            local("2026-10-25T02:32:00"),
            event("2026-10-25T00:30:00Z"),
        ];
        let groups = group(autumn, by, &zone);
        assert_eq!(
            names(&groups),
            [("2026-10-25 02:30:00", 2), ("2026-10-25 02:31:00", 1)]
        );
    }

    #[test]
    fn places_within_the_distance_are_together() {
        let at = |latitude| {
            let mut picture = picture("a", None);
            picture.place = Some(Place {
                latitude,
                longitude: 8.0,
            });
            picture
        };
        let groups = group(
            vec![at(50.0), at(50.0004), at(50.01)],
            By::Place { metres: 100.0 },
            &TimeZone::UTC,
        );
        assert_eq!(
            names(&groups),
            [("50.0000, 8.0000", 2), ("50.0100, 8.0000", 1)]
        );
    }

    #[test]
    fn folders_of_one_name_in_different_places_are_two_groups() {
        let pictures = ["/p/a/07/x", "/p/b/07/y"].map(|file| picture(file, None));
        let groups = group(pictures.to_vec(), By::Folder, &TimeZone::UTC);
        assert_eq!(names(&groups), [("a/07", 1), ("b/07", 1)]);
        let groups = group(vec![picture("/p/a/x", None)], By::Folder, &TimeZone::UTC);
        assert_eq!(names(&groups), [("a", 1)]);
    }

    #[test]
    fn blurred_pictures_are_apart_from_sharp_and_unmeasured_ones() {
        let scored = |file: &str, sharpness: f64| {
            let mut picture = picture(file, None);
            picture.scores = Some(crate::Scores {
                sharpness,
                exposure: 1.0,
                contrast: 1.0,
                noise: 1.0,
                overall: 1.0,
                brightness: None,
                highlights: None,
            });
            picture
        };
        let pictures = vec![scored("a", SHARP), scored("b", 0.1), picture("c", None)];
        let groups = group(pictures, By::Sharpness, &TimeZone::UTC);
        let expected = [("blurred", 1), ("sharp", 1), ("no sharpness", 1)];
        assert_eq!(names(&groups), expected);
    }

    #[test]
    fn zone_whose_name_begins_with_no_is_a_zone() {
        let mut parked = picture("x", Some("2026-03-01T10:00:00"));
        parked.zone = Some("no parking".to_owned());
        let groups = group(vec![picture("y", None), parked], By::Zone, &TimeZone::UTC);
        assert_eq!(names(&groups), [("no parking", 1), ("no zone", 1)]);
    }

    proptest! {
        #[test]
        fn every_picture_is_in_one_group(
            minutes in prop::collection::vec(prop::option::of(0_u32..1440), 0..30),
            gap in 0.0_f64..100.0,
        ) {
            let pictures: Vec<Picture> = minutes.iter().enumerate().map(|(n, minute)| {
                let taken = minute.map(|m| format!("2026-03-01T{:02}:{:02}:00", m / 60, m % 60));
                picture(&n.to_string(), taken.as_deref())
            }).collect();
            let gap = By::Gap { minutes: gap };
            for by in [gap, By::Hour, By::Day, By::Week, By::Camera, By::Folder] {
                let groups = group(pictures.clone(), by, &TimeZone::UTC);
                let mut files: Vec<String> = groups.into_iter()
                    .flat_map(|group| group.pictures).map(|picture| picture.file).collect();
                files.sort();
                let mut all: Vec<String> = pictures.iter().map(|p| p.file.clone()).collect();
                all.sort();
                prop_assert_eq!(files, all);
            }
        }
    }
}
