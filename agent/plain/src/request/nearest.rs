//! The template that is nearest to a request of which only a part was understood.

use watchkeeper_contract::rule::CountBound;
use watchkeeper_english::several;

use super::objects::{dedup, pick};
use super::parts::Parts;
use crate::lexicon::Polarity;
use crate::names::{Mention, class_begins};
use crate::reader::{Reader, Slot};
use crate::scene::joined;

/// The template for a class that is seen, whatever it does.
const ARRIVAL: &str = "arrival";

impl Parts {
    /// The command line of the nearest template with the camera and the classes that were
    /// understood. A number or a time beside unread words may be another one. None where nothing
    /// was understood, or where such a word turns it round: `people without a helmet`.
    pub(super) fn nearest_template(&self, r: &Reader<'_>) -> Option<String> {
        // A class that was not read would be lost.
        let turns = |i: usize| {
            r.lexicon.limits(r.free_word(i)) || r.number(i).is_some() || class_begins(r, i)
        };
        let is_missing = |m: &Mention| m.polarity == Polarity::Missing;
        let is_missing = self.mentions.iter().any(is_missing);
        // No template is for what leaves.
        if is_missing || self.acts.leaves || r.positions().any(turns) {
            return None;
        }
        let classes = self.classes(r);
        if classes.is_empty() && !self.is_empty() {
            return None;
        }
        let name = self.template_name();
        // What is unread elsewhere than before a class may be what happens: `falls down`.
        let is_act = |i: usize| {
            !r.is_read(i) && {
                let next = (i + 1..r.tokens.len()).find(|i| r.slot_of(*i) != Slot::Free);
                next.is_none_or(|next| r.slot_of(next) != Slot::Class)
            }
        };
        if name == ARRIVAL && !self.acts.appears && r.positions().any(is_act) {
            return None;
        }
        let template = r.lexicon.templates.iter().find(|t| t.name == name)?;
        Some(template.command_line(|parameter| match parameter {
            "class" => (!classes.is_empty()).then(|| several(&classes)),
            "camera" => match r.scene.named_cameras(&self.cameras).as_slice() {
                [one] => Some(one.id.to_string()),
                _ => None,
            },
            _ => None,
        }))
    }

    /// The classes that a model here knows.
    fn classes(&self, r: &Reader<'_>) -> String {
        let is_named = |m: &&Mention| m.polarity != Polarity::Excluded && !m.is_nobody();
        let models = &r.scene.models;
        let is_known = |m: &&Mention| models.iter().any(|model| !pick(model, m).is_empty());
        let known = self.mentions.iter().filter(is_named).filter(is_known);
        joined(dedup(known.map(|m| m.said.clone()).collect()), " or ")
    }

    fn template_name(&self) -> &'static str {
        let is_long = self.acts.stays || self.settings.hold_s.is_some();
        match self.bound {
            _ if self.crosses() && self.reports => "line-crossing",
            _ if self.crosses() => "traffic-count",
            _ if self.is_empty() => "unattended",
            Some(CountBound::Under(_)) => "unattended",
            Some(CountBound::Over(_)) => "crowd",
            None if !self.reports => "occupancy",
            None if is_long => "loitering",
            None if self.acts.enters => "zone-entry",
            None if self.settings.times.is_some() => "intruder",
            None => ARRIVAL,
        }
    }
}
