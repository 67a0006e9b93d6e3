//! The template that is nearest to a request of which only a part was understood.

use watchkeeper_contract::rule::CountBound;
use watchkeeper_english::several;

use super::objects::pick;
use super::parts::Parts;
use crate::lexicon::Stand;
use crate::names::Mention;
use crate::reader::Reader;

impl Parts {
    /// The command line of the nearest template with the camera and the classes that were
    /// understood. A number or a time beside unread words may be another one. None where nothing
    /// was understood, or where such a word turns it round: `people without a helmet`.
    pub(super) fn nearest_template(&self, r: &Reader<'_>) -> Option<String> {
        let turns = |i: usize| r.lexicon.turns(r.word(i)) || r.number(i).is_some();
        let is_missing = self.mentions.iter().any(|m| m.stand == Stand::Missing);
        if is_missing || (0..r.tokens.len()).any(turns) {
            return None;
        }
        let classes = self.classes(r);
        if classes.is_empty() && !self.is_empty() {
            return None;
        }
        let name = self.template_name();
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
        let is_named = |m: &&Mention| m.stand != Stand::Excluded && !m.is_nobody();
        let models = &r.scene.models;
        let is_known = |m: &&Mention| models.iter().any(|model| !pick(model, m).is_empty());
        let known = self.mentions.iter().filter(is_named).filter(is_known);
        let said: Vec<&str> = known.map(|m| m.said.as_str()).collect();
        said.join(" or ")
    }

    fn template_name(&self) -> &'static str {
        let is_long = self.acts.stays || self.settings.hold_s.is_some();
        match self.bound {
            _ if self.crosses() && self.told => "line-crossing",
            _ if self.crosses() => "traffic-count",
            _ if self.is_empty() => "unattended",
            Some(CountBound::Under(_)) => "unattended",
            Some(CountBound::Over(_)) => "crowd",
            None if !self.told => "occupancy",
            None if is_long => "loitering",
            None if self.acts.enters => "zone-entry",
            None if self.settings.times.is_some() => "intruder",
            None => "arrival",
        }
    }
}
