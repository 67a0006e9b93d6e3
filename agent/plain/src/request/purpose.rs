//! What a request wants of its events: how grave they are, who hears of them, what they keep, and
//! whether it watches or counts.

use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;

use super::acts::{Acts, Wishes, verbs, wishes};
use super::amounts::cooldown;
use super::channels::channels;
use super::ending::ending;
use super::mixed;
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::{Need, Notes};
use crate::reader::Reader;
use crate::scene::Scene;
use crate::weighty;

/// The purpose of a request.
pub(super) struct Purpose {
    pub(super) severity: Severity,
    pub(super) wished: Wishes,
    pub(super) notify: Vec<ChannelId>,
    pub(super) cooldown_s: f64,
    pub(super) ends_after_s: Option<f64>,
    /// Whether a verb of watching stands in it, or nothing says that it only counts.
    pub(super) told: bool,
    pub(super) counted: bool,
    /// `keep a head count`
    heads: bool,
    /// `an abandoned bag`
    abandoned: bool,
}

/// Reads the purpose of a request; it comes before every other phrase.
pub(super) fn purpose(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Purpose, Need> {
    mixed::not_a_place(r);
    let ends_after_s = ending(r)?;
    weighty::refuse_a_report(r)?;
    // `and nothing else` restates the default.
    r.take_all(&["and|but? nothing else|more"]);
    let severity = severity(r);
    mark_openings(r);
    let abandoned = mark_abandoned(r, scene, lexicon);
    let heads = r
        .find(&["head count|counts", "headcount|head-count|crowd|crowds"])
        .is_some();
    let wished = wishes(r, notes)?;
    let (notify, is_sent) = channels(r, scene, notes);
    // `at most one alert every hour`: the verb of it asks for nothing more.
    let cooldown_s = cooldown(r).unwrap_or(0.0);
    let (told, counted) = verbs(r, scene, lexicon);
    // It was asked to watch, even where another phrase took the verb.
    let told = told || wished.any || is_sent || !counted;
    if told && wished.quiet {
        notes.assumed.push(
            "Nobody is told over a channel: each event is kept with its picture, and published over MQTT as any other.".to_owned(),
        );
    }
    Ok(Purpose {
        severity: match wished.quiet {
            true => Severity::Info,
            false => severity,
        },
        wished,
        notify,
        cooldown_s,
        ends_after_s,
        told,
        counted,
        heads,
        abandoned,
    })
}

impl Purpose {
    /// Adds to what happens what the words for a purpose say of it.
    pub(super) fn add_to(&self, acts: &mut Acts) {
        acts.people |= self.heads;
        acts.stays |= self.abandoned;
        if self.counted && !self.told && acts.enters && acts.leaves {
            // Those who come in and those who go out are counted where they do.
            (acts.crosses, acts.both_ways) = (true, true);
        }
    }
}

fn severity(r: &mut Reader) -> Severity {
    const CRITICAL: [&str; 1] = ["critical|critically|urgent|urgently|emergency"];
    if r.find(&CRITICAL).is_some() {
        r.take_all(&CRITICAL);
        Severity::Critical
    } else if r.find(&["warn|warning|alarm|alert|alerts"]).is_some() {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// Marks words at the beginning that say nothing of what is watched for.
fn mark_openings(r: &mut Reader) {
    // `stop the hall watch; instead tell me …`
    if r.word(0) == "instead" {
        r.mark(0..1);
    }
    // `the second a lorry turns up` is no place and no time.
    const SOON: &str =
        "the second|moment|minute|instant a|an|any|someone|somebody|anyone|anybody|it|they|people";
    while let Some(found) = r.find(&[SOON]) {
        r.mark(found.at.start..found.at.start + 2);
    }
}

/// Marks `abandoned` before a class, and says whether it stands there.
fn mark_abandoned(r: &mut Reader, scene: &Scene, lexicon: &Lexicon) -> bool {
    let abandoned: Vec<usize> = (0..r.tokens.len())
        .filter(|i| {
            matches!(r.word(*i), "unattended" | "abandoned")
                && names::class_begins(r, i + 1, scene, lexicon)
        })
        .collect();
    for at in &abandoned {
        r.mark(*at..at + 1);
    }
    !abandoned.is_empty()
}
