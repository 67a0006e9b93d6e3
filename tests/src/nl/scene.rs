//! Scene of a task: cameras, places, existing pipelines, and a script of the actors.
//!
//! - Places and paths are in shares of the picture, `0.0..=1.0` from the top left; times in seconds
//!   from the start of the script.
//! - An actor moves straight and evenly from `from` to `to` (centres of its box) over the time `t`,
//!   or along `path`.
//!
//! The same moment always shows the same boxes, in the order of the script.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Deserialize;
use serde_json::{Map, Value};
use watchkeeper_vision::geometry::{BBox, Point};

/// Folder of the time zone database.
const ZONES: &str = "/usr/share/zoneinfo";
/// Default start of a script.
const USUAL_START: &str = "2026-06-01T12:00:00Z";
/// Default size of a picture in pixels.
const USUAL_SIZE: [u32; 2] = [1280, 720];
/// Default size of an actor's box in shares.
const USUAL_BOX: [f64; 2] = [0.08, 0.2];
/// Default score of an actor's box: what a good detector gives to an object in full view.
const USUAL_SCORE: f64 = 0.9;

/// Scene of a task.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scene {
    pub cameras: Vec<Camera>,
    /// Places in the picture by name: two points are a line, more a polygon.
    pub regions: BTreeMap<String, Vec<[f64; 2]>>,
    /// Channels that messages can go to, such as `#security`.
    pub channels: Vec<String>,
    /// Models of the box, such as `ppe detector (helmet, vest)`.
    pub models: Vec<String>,
    /// Pipelines that run before the request.
    pub existing: Vec<Existing>,
    /// Script of the scene.
    pub fixture: Option<Fixture>,
    /// IANA name of the box's time zone.
    pub timezone: Option<String>,
    /// Time of the request, RFC 3339.
    pub now: Option<String>,
    /// Names of pictures that are attached to the request.
    pub attachments: Vec<String>,
    /// Files of the user: pictures by name, other files with their text.
    pub files: Files,
    /// Contents of the attached pictures, or of the cameras without one: texts by name.
    pub stub_results: Map<String, Value>,
    /// Text on a sign in view of every camera.
    pub sign_text: Option<String>,
    /// For readers of the file.
    #[serde(rename = "note")]
    _note: Option<String>,
}

/// Camera of a scene.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Camera {
    /// Id of the camera, which is the name of the source.
    pub id: String,
    /// Name that users have for it.
    pub name: Option<String>,
    /// Width and height of its picture in pixels.
    pub resolution: Option<[u32; 2]>,
    /// Picture that the author had in mind. It is not part of the file, so the script is drawn
    /// instead.
    #[serde(rename = "still")]
    _still: Option<String>,
}

impl Camera {
    /// Returns width and height of its picture in pixels.
    pub fn size(&self) -> [u32; 2] {
        self.resolution
            .filter(|[w, h]| *w > 0 && *h > 0)
            .unwrap_or(USUAL_SIZE)
    }
}

/// Pipeline that exists before the request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Existing {
    pub id: String,
    /// Id of the camera.
    pub camera: String,
    /// Name that users have for it.
    pub name: Option<String>,
    /// `running`, `paused` or `stopped`.
    pub state: Option<String>,
    /// Settings of the pipeline.
    #[serde(default)]
    pub params: Params,
}

/// Settings of an existing pipeline.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    pub classes: Vec<String>,
    /// Least score of a detection.
    pub confidence: Option<f64>,
    /// Seconds without events after an event.
    #[serde(alias = "cooldown")]
    pub cooldown_s: Option<f64>,
    /// Seconds to stay in `zone`.
    #[serde(alias = "dwell_s")]
    pub duration_s: Option<f64>,
    /// Corners of a zone, or the name of a region.
    pub zone: Option<Value>,
}

/// Script of a scene.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// Length in seconds.
    pub duration_s: f64,
    /// Frames a second.
    pub fps: f64,
    /// Actors on every camera, or on that of `camera`.
    #[serde(default)]
    pub actors: Vec<Actor>,
    /// Actors by camera.
    #[serde(default)]
    pub by_camera: BTreeMap<String, Vec<Actor>>,
    /// Local time at the start, RFC 3339 or a time of the scene's day such as `21:59:30`; default:
    /// the scene's `now`.
    #[serde(alias = "starts_at", alias = "now", alias = "clock")]
    pub start: Option<String>,
    /// Actors that are there from the start; they stay to the end unless they have a `t`.
    #[serde(default)]
    pub initial: Vec<Actor>,
}

/// Actor of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// For readers of the file.
    #[serde(default, rename = "id")]
    _id: Value,
    /// Class that a detector reports.
    pub class: String,
    /// Times of arrival and departure; the actor is present at both.
    #[serde(default = "always")]
    pub t: [f64; 2],
    /// Centre at the start.
    pub from: Option<[f64; 2]>,
    /// Centre at the end; default: the centre at the start.
    pub to: Option<[f64; 2]>,
    /// Centres on the way at equal intervals, instead of `from` and `to`.
    #[serde(default)]
    pub path: Vec<[f64; 2]>,
    /// Width and height of its box.
    pub size: Option<[f64; 2]>,
    /// Score of its box.
    #[serde(alias = "confidence", alias = "conf")]
    pub score: Option<f64>,
    /// Id of the camera that sees it.
    pub camera: Option<String>,
}

/// From the start of a script to its end.
const fn always() -> [f64; 2] {
    [0.0, f64::MAX]
}

/// Files of a scene: names, or names with texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Files {
    Names(Vec<String>),
    Texts(BTreeMap<String, String>),
}

impl Default for Files {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

impl Files {
    /// The names with their texts; a file without one is a picture.
    pub fn entries(&self) -> Vec<(&str, Option<&str>)> {
        match self {
            Self::Names(names) => names.iter().map(|name| (name.as_str(), None)).collect(),
            Self::Texts(texts) => {
                let texts = texts.iter();
                texts
                    .map(|(name, text)| (name.as_str(), Some(text.as_str())))
                    .collect()
            }
        }
    }
}

/// Box of the script at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub class: String,
    /// Bounding box in shares of the picture.
    pub bbox: BBox,
    pub score: f64,
    /// Whether the actor is moving.
    pub moves: bool,
}

impl Actor {
    fn stops(&self) -> Vec<[f64; 2]> {
        if !self.path.is_empty() {
            return self.path.clone();
        }
        let from = self.from.or(self.to).unwrap_or([0.5, 0.5]);
        vec![from, self.to.unwrap_or(from)]
    }

    /// Returns the box at a moment, if the actor is present.
    pub fn at(&self, t: f64) -> Option<Seen> {
        let [begin, end] = self.t;
        if !(begin..=end).contains(&t) {
            return None;
        }
        let stops = self.stops();
        let share = if end > begin {
            (t - begin) / (end - begin)
        } else {
            0.0
        };
        let legs = stops.len().saturating_sub(1).max(1);
        let along = share * legs as f64;
        let leg = (along.floor() as usize).min(legs - 1);
        let a = stops.get(leg).copied().unwrap_or([0.5, 0.5]);
        let b = stops.get(leg + 1).copied().unwrap_or(a);
        let within = along - leg as f64;
        let [x, y] = [0, 1].map(|i: usize| a[i] + (b[i] - a[i]) * within);
        let [w, h] = self.size.unwrap_or(USUAL_BOX);
        Some(Seen {
            class: self.class.clone(),
            bbox: BBox::new(x - w / 2.0, y - h / 2.0, x + w / 2.0, y + h / 2.0),
            score: self.score.unwrap_or(USUAL_SCORE),
            moves: a != b,
        })
    }
}

impl Scene {
    /// Checks what the types of the fields do not.
    ///
    /// # Errors
    /// If a file is neither a picture nor has a text.
    pub fn check(&self) -> anyhow::Result<()> {
        const PICTURES: [&str; 3] = [".jpg", ".jpeg", ".png"];
        for (name, text) in self.files.entries() {
            let is_picture = PICTURES.iter().any(|ending| name.ends_with(ending));
            anyhow::ensure!(
                is_picture || text.is_some(),
                "files: {name:?} is no picture and has no text"
            );
        }
        Ok(())
    }

    pub fn camera(&self, id: &str) -> Option<&Camera> {
        self.cameras.iter().find(|c| c.id == id)
    }

    /// Returns the actors that a camera sees over the script.
    pub fn actors(&self, camera: &str) -> Vec<Actor> {
        let Some(fixture) = &self.fixture else {
            return Vec::new();
        };
        let own = fixture.by_camera.get(camera).into_iter().flatten();
        let everywhere = fixture
            .initial
            .iter()
            .chain(&fixture.actors)
            .filter(|a| a.camera.as_deref().is_none_or(|c| c == camera));
        own.chain(everywhere).cloned().collect()
    }

    /// Returns the first moment with the most visible boxes over all cameras.
    pub fn busiest(&self) -> f64 {
        let actors: Vec<Actor> = self
            .cameras
            .iter()
            .flat_map(|c| self.actors(&c.id))
            .collect();
        let seen = |t: f64| actors.iter().filter(|a| a.at(t).is_some()).count();
        let duration = self.fixture.as_ref().map_or(0.0, |f| f.duration_s);
        let middles = actors.iter().map(|a| a.t[0].midpoint(a.t[1].min(duration)));
        middles.rev().max_by_key(|t| seen(*t)).unwrap_or(0.0)
    }

    /// Returns a region as a polygon or a line.
    pub fn region(&self, name: &str) -> Option<Vec<Point>> {
        let points = self.regions.get(name)?;
        Some(points.iter().map(|[x, y]| Point::new(*x, *y)).collect())
    }

    /// Returns the time of the request in the box's zone; `None` is the present.
    ///
    /// # Errors
    /// If time or zone is invalid.
    pub fn now(&self) -> anyhow::Result<Option<Zoned>> {
        self.now.as_deref().map(|at| self.zoned(at)).transpose()
    }

    /// Returns the start of the script; by default a Monday at noon, when no schedule of nights or
    /// weekends is active.
    ///
    /// # Errors
    /// If time or zone is invalid.
    pub fn start(&self) -> anyhow::Result<Zoned> {
        let written = self.fixture.as_ref().and_then(|f| f.start.as_deref());
        let day = self.now.as_deref().unwrap_or(USUAL_START);
        // A time of day is read from a whole date too.
        let clock = written.filter(|at| !at.contains('T'));
        if let Some(clock) = clock.and_then(|at| at.parse::<Time>().ok()) {
            return Ok(self.zoned(day)?.with().time(clock).build()?);
        }
        self.zoned(written.unwrap_or(day))
    }

    /// Parses an RFC 3339 time in the scene's zone.
    fn zoned(&self, at: &str) -> anyhow::Result<Zoned> {
        let moment: Timestamp = at
            .parse()
            .with_context(|| format!("now is {at:?}; write it as 2026-03-28T21:10:00+01:00"))?;
        Ok(moment.to_zoned(self.zone()?))
    }

    /// Returns the scene's time zone, by default UTC.
    ///
    /// # Errors
    /// If this machine does not know it.
    pub fn zone(&self) -> anyhow::Result<TimeZone> {
        let Some(file) = self.zone_file()? else {
            return Ok(TimeZone::UTC);
        };
        let name = self.timezone.as_deref().unwrap_or_default();
        TimeZone::tzif(name, &std::fs::read(&file)?)
            .with_context(|| format!("{} holds no zone", file.display()))
    }

    /// Returns the file that describes the scene's zone on this machine.
    ///
    /// # Errors
    /// If this machine has none.
    pub fn zone_file(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(name) = &self.timezone else {
            return Ok(None);
        };
        let file = Path::new(ZONES).join(name);
        let is_name = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/_+-".contains(c));
        anyhow::ensure!(
            is_name && file.is_file(),
            "timezone is {name:?}, which this machine doesn't know (it has no {})",
            file.display()
        );
        Ok(Some(file))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn actor(more: Value) -> Actor {
        let mut actor = json!({"class": "person", "t": [10, 20], "size": [0.2, 0.4]});
        actor
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(actor).unwrap()
    }

    fn centre(actor: &Actor, t: f64) -> [f64; 2] {
        let c = actor.at(t).unwrap().bbox.center();
        [c.x, c.y].map(|v| (v * 1e6).round() / 1e6)
    }

    #[test]
    fn actor_moves_evenly_and_is_present_at_both_ends() {
        let walker = actor(json!({"from": [0.2, 0.5], "to": [0.4, 0.5]}));
        assert!(walker.at(9.99).is_none() && walker.at(20.01).is_none());
        assert_eq!(centre(&walker, 10.0), [0.2, 0.5]);
        assert_eq!(centre(&walker, 15.0), [0.3, 0.5]);
        assert_eq!(centre(&walker, 20.0), [0.4, 0.5]);
        assert!(walker.at(15.0).unwrap().moves);
        assert!(!actor(json!({"from": [0.2, 0.5]})).at(15.0).unwrap().moves);
    }

    #[test]
    fn actor_follows_its_path_leg_by_leg() {
        let detour = actor(json!({"path": [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]}));
        assert_eq!(centre(&detour, 12.5), [0.5, 0.0]);
        assert_eq!(centre(&detour, 15.0), [1.0, 0.0]);
        assert_eq!(centre(&detour, 20.0), [1.0, 1.0]);
    }

    #[test]
    fn clock_change_follows_the_scenes_time_zone() {
        let scene: Scene = serde_json::from_value(json!({
            "timezone": "Europe/Berlin", "now": "2026-03-28T21:10:00+01:00",
        }))
        .unwrap();
        let now = scene.now().unwrap().unwrap();
        assert_eq!((now.hour(), now.minute()), (21, 10));
        let bad = Scene {
            timezone: Some("Mars/Olympus".to_owned()),
            ..scene
        };
        assert!(format!("{:#}", bad.now().unwrap_err()).contains("Mars/Olympus"));
    }

    #[test]
    fn clock_and_initial_actors_begin_the_script() {
        let scene: Scene = serde_json::from_value(json!({
            "cameras": [{"id": "park"}], "timezone": "Europe/Berlin",
            "now": "2026-06-01T12:00:00+02:00",
            "fixture": {"duration_s": 20, "fps": 5, "clock": "21:59:30",
                "initial": [{"class": "car"}], "actors": [{"class": "dog", "t": [5, 6]}]},
        }))
        .unwrap();
        assert_eq!(
            scene.start().unwrap().to_string(),
            "2026-06-01T21:59:30+02:00[Europe/Berlin]"
        );
        let dated = Fixture {
            start: Some("2026-06-06T15:00:00+02:00".to_owned()),
            ..scene.fixture.clone().unwrap()
        };
        let other = Scene {
            fixture: Some(dated),
            ..scene.clone()
        };
        assert_eq!(other.start().unwrap().day(), 6);
        let actors = scene.actors("park");
        let seen = |t: f64| actors.iter().filter(|actor| actor.at(t).is_some()).count();
        assert_eq!([seen(0.0), seen(5.5), seen(20.0)], [1, 2, 1]);
        assert!((scene.busiest() - 5.5).abs() < 0.01, "{}", scene.busiest());
    }
}
