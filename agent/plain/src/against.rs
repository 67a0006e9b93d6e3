//! Compares a change with the present settings: `lower the confidence to 80%` where it is 10 %.
//!
//! Invariant: a change that its own words contradict is asked about and never offered.

use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::Condition;

use crate::answer::Missing;
use crate::intent::Edit;
use crate::need::Need;
use crate::reader::Reader;
use crate::request::seconds;

/// What a request says of how it was before, or how what it sets compares with that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Before {
    /// Whether what it sets is to be more than it was.
    more: Option<bool>,
    /// Seconds that it says there are now.
    seconds: Option<f64>,
    /// The confidence that it says there is now.
    share: Option<f64>,
}

/// One setting of a change.
struct Setting {
    wanted: Option<f64>,
    /// Present value of each rule or step.
    now: Vec<f64>,
    /// Present value by the words of the request.
    said: Option<f64>,
    /// Names the setting with a value.
    named: fn(f64) -> String,
}

impl Before {
    /// Takes the verbs that say more or less, and what a setting is now where what it is to be
    /// stands behind: `from 20 seconds to 40 seconds`. Hours are from one to the other.
    pub(crate) fn taken(r: &mut Reader) -> Self {
        const FALSE_ALARMS: &str = "nervous|sensitive|noisy|jumpy|twitchy|touchy";
        let more = r.take_all(&["raise|increase|lengthen|extend|prolong"])
            || r.find(&["turn|put|set|bring up", &format!("less {FALSE_ALARMS}")])
                .is_some();
        let less = r.take_all(&["lower|decrease|reduce|shorten|cut"])
            || r.find(&["turn|put|set|bring down", &format!("more {FALSE_ALARMS}")])
                .is_some();
        let mut before = Self {
            more: (more != less).then_some(more),
            ..Self::default()
        };
        for hole in ["<d>", "<p>"] {
            let Some(both) = r.find(&[&format!("from {hole} to {hole}")]) else {
                continue;
            };
            let is_share = |i: usize| r.any_word(i).contains('.') || r.any_word(i) == "%";
            let is_setting = hole == "<d>" || both.at.clone().any(is_share);
            if let Some(first) = r.fits(&format!("from {hole}"), both.at.start)
                && is_setting
            {
                r.mark(first.at.clone());
                match hole {
                    "<d>" => before.seconds = Some(first.value(0)),
                    _ => before.share = Some(first.value(0)),
                }
            }
        }
        before
    }

    /// Refuses a change that says what is not so.
    pub(crate) fn refuse(&self, edit: &Edit, now: &PipelineSpec) -> Result<(), Need> {
        let settings = [
            Setting {
                wanted: edit.confidence,
                now: confidences(now),
                said: self.share,
                named: |value| format!("a confidence of {value}"),
            },
            Setting {
                wanted: edit.stays_s,
                now: times(now),
                said: self.seconds,
                named: |value| format!("a time of {}", seconds(value)),
            },
            Setting {
                wanted: edit.cooldown_s,
                now: cooldowns(now),
                said: self.seconds,
                named: |value| format!("a cool-down of {}", seconds(value)),
            },
        ];
        settings
            .iter()
            .try_for_each(|setting| self.refuse_setting(setting, edit))
    }

    /// Where rules differ, each has to fit.
    fn refuse_setting(&self, setting: &Setting, edit: &Edit) -> Result<(), Need> {
        let Some(wanted) = setting.wanted else {
            return Ok(());
        };
        let named = setting.named;
        let same = |a: f64, b: f64| (a - b).abs() < 1e-6;
        if let Some(said) = setting.said
            && let Some(is) = setting.now.iter().find(|is| !same(**is, said))
        {
            let text = format!(
                "{} has {} now, and not {}, so I offer nothing. Say the request again without what it is now, or about another watch.",
                edit.pipeline,
                named(*is),
                named(said)
            );
            return Err(Need::new(Missing::Meaning, text));
        }
        let wrong = |is: &&f64| match self.more {
            Some(true) => wanted <= **is,
            Some(false) => wanted >= **is,
            None => false,
        };
        if let Some(is) = setting.now.iter().find(wrong) {
            let text = format!(
                "{} has {} now, and {wanted_is} is {}, so I offer nothing. Say what it shall be with \"set\", such as \"set it to {wanted_is}\" with the name of the watch.",
                edit.pipeline,
                named(*is),
                match (self.more, same(*is, wanted)) {
                    (_, true) => "the same",
                    (Some(true), _) => "less and not more",
                    _ => "more and not less",
                },
                wanted_is = named(wanted),
            );
            return Err(Need::new(Missing::Meaning, text));
        }
        Ok(())
    }
}

/// The lowest scores of the steps that detect.
fn confidences(now: &PipelineSpec) -> Vec<f64> {
    let steps = now.workflow.get("steps").and_then(|s| s.as_array());
    let detects = |step: &&serde_json::Value| step.get("class_filter").is_some();
    let score = |step: &serde_json::Value| step.get("confidence")?.as_f64();
    let all = steps.into_iter().flatten();
    let found: Vec<f64> = all.clone().filter(detects).filter_map(score).collect();
    match found.is_empty() {
        true => all.filter_map(score).collect(),
        false => found,
    }
}

fn times(now: &PipelineSpec) -> Vec<f64> {
    let rules = now.rules.iter().flatten();
    let time = |when: &Condition| match when {
        Condition::Stays { for_s, .. }
        | Condition::Count { for_s, .. }
        | Condition::Value { for_s, .. } => Some(*for_s),
        _ => None,
    };
    rules.filter_map(|rule| time(&rule.when)).collect()
}

fn cooldowns(now: &PipelineSpec) -> Vec<f64> {
    let rules = now.rules.iter().flatten();
    rules.map(|rule| rule.cooldown_s).collect()
}
