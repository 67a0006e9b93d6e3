//! The template that is nearest to a request of which only a part was understood.

use watchkeeper_contract::rule::CountBound;
use watchkeeper_english::{one, several};

use super::objects::pick;
use super::parts::Parts;
use super::spot::ALONG;
use crate::hours::clock;
use crate::lexicon::{Stand, Way};
use crate::names::Mention;
use crate::place::Where;
use crate::reader::Reader;
use crate::settings::seconds;

/// What a template that counts or compares a number calls its objects in the plural.
const OF_SEVERAL: [&str; 4] = ["traffic-count", "occupancy", "crowd", "unattended"];

impl Parts {
    /// The command line of the nearest template, with what was understood; that of the help where
    /// nothing was.
    pub(super) fn nearest_template(&self, r: &Reader<'_>) -> String {
        let classes = self.classes(r);
        let mut templates = r.lexicon.templates.iter();
        let nearest = self.template_name(&classes);
        let nearest = templates.find(|template| Some(template.name.as_str()) == nearest);
        nearest.map_or("watchkeeper watch --help".to_owned(), |template| {
            let is_of_several = OF_SEVERAL.contains(&template.name.as_str());
            let said = if is_of_several { several } else { one };
            template.command_line(|parameter| match parameter {
                "class" => (!classes.is_empty()).then(|| said(&classes)),
                _ => self.value_of(parameter, r),
            })
        })
    }

    /// The classes that a model here knows.
    fn classes(&self, r: &Reader<'_>) -> String {
        let is_named = |m: &&Mention| m.stand != Stand::Excluded && !m.is_nobody();
        let models = &r.scene.models;
        let is_known = |m: &&Mention| models.iter().any(|model| !pick(model, m).is_empty());
        let known = self.mentions.iter().filter(is_named).filter(is_known);
        let said: Vec<&str> = known.map(|m| m.said.as_str()).collect();
        said.join(" or ")
    }

    fn template_name(&self, classes: &str) -> Option<&'static str> {
        let is_long = self.acts.stays || self.settings.hold_s.is_some();
        Some(match self.bound {
            _ if self.crosses() && self.told => "line-crossing",
            _ if self.crosses() => "traffic-count",
            _ if self.is_empty() => "unattended",
            Some(CountBound::Under(_)) => "unattended",
            Some(CountBound::Over(_)) => "crowd",
            None if !self.told => "occupancy",
            None if is_long => "loitering",
            None if self.acts.enters => "zone-entry",
            None if self.settings.times.is_some() => "intruder",
            None if self.acts.appears || !classes.is_empty() => "arrival",
            None => return None,
        })
    }

    /// What was understood of a parameter.
    fn value_of(&self, parameter: &str, r: &Reader<'_>) -> Option<String> {
        let place = |is_line| {
            self.place
                .as_ref()
                .filter(|place| place.is_line() == is_line)
        };
        let called = |place: &Where| match &place.name {
            Some(name) if place.drawn => name.clone(),
            _ => place.text.trim_start_matches("the ").to_owned(),
        };
        match parameter {
            "camera" => match r.scene.named_cameras(&self.cameras).as_slice() {
                [one] => Some(one.id.to_string()),
                _ => None,
            },
            "zone" => place(false)
                .map(called)
                .or_else(|| self.unknown_place.clone()),
            "line" => place(true).map(called),
            "direction" => match self.ways.as_slice() {
                [Way::Along(way)] => {
                    let said = ALONG.iter().find(|(_, along)| along == way)?.0;
                    let from = if said.contains("to") { "from " } else { "" };
                    Some(format!("{from}{said}"))
                }
                _ => None,
            },
            "for" => self.settings.hold_s.map(seconds),
            "number" => match self.bound {
                Some(CountBound::Over(most)) => Some(most.saturating_add(1).to_string()),
                _ => None,
            },
            "hours" => {
                let (from, to) = self.settings.times.as_ref()?.hours?;
                Some(format!("between {} and {}", clock(from), clock(to)))
            }
            "quiet" => self.settings.cooldown_s.filter(|s| *s > 0.0).map(seconds),
            _ => None,
        }
    }
}
