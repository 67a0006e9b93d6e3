//! What a request wants of its events: how grave they are, who hears of them, what they keep, and
//! whether it watches or counts.

use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::rule::Severity;

use super::acts::Acts;
use super::amounts::cooldown;
use super::channels::channels;
use super::wishes::{Wishes, wishes};
use crate::names;
use crate::need::Need;
use crate::reader::{Reader, Slot, one_of};

/// The purpose of a request.
pub(super) struct Purpose {
    pub(super) severity: Severity,
    pub(super) wished: Wishes,
    pub(super) notify: Vec<ChannelId>,
    pub(super) cooldown_s: Option<f64>,
    /// Whether a verb of watching stands in it, or nothing says that it only counts.
    pub(super) told: bool,
    pub(super) counted: bool,
    /// `keep a head count`
    heads: bool,
    /// `an abandoned bag`
    abandoned: bool,
}

/// Reads the purpose of a request; it comes before every other phrase.
pub(super) fn purpose(r: &mut Reader<'_>) -> Result<Purpose, Need> {
    r.slot = Slot::Wish;
    let severity = severity(r);
    let wished = wishes(r)?;
    let (notify, is_sent) = channels(r);
    let cooldown_s = cooldown(r);
    r.slot = Slot::Other;
    take_courtesies(r);
    let abandoned = take_abandoned(r);
    let heads = r
        .find(&["head count|counts", "headcount|head-count|crowd|crowds"])
        .is_some();
    r.slot = Slot::Verb;
    let (told, counted) = verbs(r);
    // It was asked to watch, even where another phrase took the verb.
    let told = told || wished.any || is_sent || !counted;
    if wished.quiet && severity == Severity::Critical {
        return Err(Need::meaning(
            "It is to be urgent, and nobody is to be told: what is critical is always told. Say it without one of the two.",
        ));
    }
    if wished.quiet && is_sent {
        return Err(Need::meaning(
            "Somebody is to be told, and nobody is to be told. Say it without one of the two.",
        ));
    }
    if told && wished.quiet {
        r.assume("Nobody is told over a channel: each event is kept with its picture, and published over MQTT as any other.");
    }
    Ok(Purpose {
        severity: match wished.quiet {
            true => Severity::Info,
            false => severity,
        },
        wished,
        notify,
        cooldown_s,
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

fn severity(r: &mut Reader<'_>) -> Severity {
    const CRITICAL: [&str; 1] = ["critical|critically|urgent|urgently|emergency"];
    // An emergency exit is a place.
    let is_place = |i: &usize| r.begins(*i, &["emergency exit|exits|entrance|door|doors"]);
    let places: Vec<usize> = (0..r.tokens.len()).filter(is_place).collect();
    places.iter().for_each(|i| r.mark(*i..i + 1));
    let is_critical = r.take_all(&CRITICAL);
    for i in places {
        r.set(i..i + 1, Slot::Free);
    }
    if is_critical {
        Severity::Critical
    } else if r.find(&["warn|warning|alarm|alert|alerts"]).is_some() {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// Takes words that say nothing of what is watched for.
fn take_courtesies(r: &mut Reader<'_>) {
    // `stop the hall watch; instead tell me …`
    if r.word(0) == "instead" {
        r.mark(0..1);
    }
    if r.fits("note|notes|reminder|fyi|memo|request|task|todo :|-|–", 0)
        .is_some()
    {
        r.mark(0..2);
    }
    r.take_all(&[
        "right|straight away|now",
        "at once when|if|whenever",
        "in case",
        "as well",
        "thank you",
        "live",
    ]);
    // What goes on (`nothing else but a dog`) says something else.
    let last = r.find(&["and|but? nothing else|more"]);
    if let Some(found) = last.filter(|f| one_of("|.|,|;|!|\n|)", r.any_word(f.at.end))) {
        r.mark(found.at);
    }
    // `the second a lorry turns up`, `once a person enters`
    const SOON: &str = "the? second|moment|minute|instant|once a|an|any|someone|somebody|anyone|anybody|it|they|people";
    while let Some(found) = r.find(&[SOON]) {
        r.mark(found.at.start..found.at.end - 1);
    }
}

/// Marks `abandoned` before a class, and says whether it stands there.
fn take_abandoned(r: &mut Reader<'_>) -> bool {
    let abandoned: Vec<usize> = (0..r.tokens.len())
        .filter(|i| one_of("unattended|abandoned", r.word(*i)) && names::class_begins(r, i + 1))
        .collect();
    for at in &abandoned {
        r.mark(*at..at + 1);
    }
    !abandoned.is_empty()
}

/// Whether a verb of watching and one of counting stood there; all of them are used.
fn verbs(r: &mut Reader<'_>) -> (bool, bool) {
    let lexicon = r.lexicon;
    // `at the counter` and `parking spot` are places, and `Watch tower` a camera where there is
    // one.
    let nouns = (1..r.tokens.len()).filter(|i| match r.word(*i) {
        "counter" => one_of("the|our|my|at", r.before(*i)),
        "spot" => one_of("the|my|our|parking", r.before(*i)),
        _ => false,
    });
    let names: Vec<usize> = nouns
        .chain(names::camera_spots(r).into_iter().flat_map(|(at, _)| at))
        .collect();
    for i in &names {
        r.mark(*i..i + 1);
    }
    let mut take = |verbs: &[String]| {
        let takes = |any, verb: &String| r.take_all(&[verb.as_str()]) | any;
        verbs.iter().fold(false, takes)
    };
    let counted = take(&lexicon.verbs.count);
    let told = take(&lexicon.verbs.watch);
    r.take_all(&["message|messages|msg with?"]);
    if counted {
        r.take_all(&["how many", "the? number of"]);
    }
    for i in names {
        r.set(i..i + 1, Slot::Free);
    }
    (told, counted)
}
