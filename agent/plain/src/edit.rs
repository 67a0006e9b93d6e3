//! Changes of an existing watch: which one, and which settings a sentence names.
//!
//! - What was not said stays unchanged.
//! - A change with an unread word, or one that its own words contradict, is refused.
//! - A watch has one list of classes and one value of each setting at all of its hours.

use std::collections::BTreeMap;

use watchkeeper_contract::id::SourceId;
use watchkeeper_engine::templates::watch;

use crate::answer::Missing;
use crate::closed;
use crate::deployed::{self, sentence, which};
use crate::lexicon::{NOTIFIES, Polarity, WATCHES, Way};
use crate::names::{self, Mention};
use crate::new_watch::Objects;
use crate::place::Where;
use crate::propose::{ChangeSet, check_direction, replace};
use crate::reader::{Reader, Slot};
use crate::refusal::Refusal;
use crate::request::{are_only_these, labels, one_list, pick};
use crate::scene::{Deployed, Scene, quoted};
use crate::settings::Settings;

/// Words that say nothing in a change.
const FILLERS: &str = "to|of|for|on|at|and|with|about|let|know|look|looks|tell|tells|telling|notify|alert|alerts|alerting|detect|detects|watches|watch|for|send|sends|post|posts|forward|forwards|route|keep|keeps|save|saves|record|records|use|used|apply|applies|run|runs|fire|fires|report|reports|existing|current|hear|pipeline|rule|monitoring|confidence|threshold|score|certainty|minimum|wait|waits";

/// What a sentence changes of a deployed watch, or of a waiting proposal ([`crate::amend`]).
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) mentions: Vec<Mention>,
    /// Whether the classes are added to the present ones.
    pub(crate) adds: bool,
    pub(crate) settings: Settings,
    /// Only of a proposal, as place and ways.
    pub(crate) cameras: Vec<SourceId>,
    pub(crate) place: Option<Where>,
    pub(crate) ways: Vec<Way>,
}

impl Wanted {
    /// Takes what a sentence changes. `of_a_watch`: it changes a deployed one, so that a share
    /// without a name is a confidence.
    pub(crate) fn read(r: &mut Reader<'_>, of_a_watch: bool) -> Result<Self, Refusal> {
        let settings = Settings::read_change(r, of_a_watch)?;
        r.slot = Slot::Other;
        r.take_all(&["look out"]);
        let adds = r.take_all(&["@adds"]);
        let mentions = one_list(r, false, false);
        let adds = adds && !are_only_these(r, &mentions);
        // The recipient of a watch is not a class: `should notify staff`.
        let is_told = |m: &&Mention| {
            let start = r.before_articles(m.at.start);
            let is_recipient = r.is_behind(start, NOTIFIES) || r.is_behind(start, "to");
            m.labels.as_slice() == ["person"] && is_recipient
        };
        // `everything` is what to look for only where that is said.
        let is_vague = |m: &Mention| {
            let looks = r.is_behind(m.at.start, "for|about|to") && m.said != "something";
            of_a_watch && m.labels.is_empty() && m.polarity == Polarity::Wanted && !looks
        };
        let wrong = |m: &&Mention| m.is_nobody() || is_told(m) || is_vague(m);
        let wrong = mentions.iter().find(wrong);
        if let Some(at) = wrong.map(|m| m.at.clone()) {
            r.set_slot(at, Slot::Free);
        }
        r.notes.assumed.extend(names::substitutions(&mentions));
        r.slot = Slot::Other;
        let is_of_class = |r: &Reader<'_>, i: usize| r.slot_of(i) == Slot::Class;
        r.mark_where(|r, i| {
            let beside = is_of_class(r, i + 1) || i > 0 && is_of_class(r, i - 1);
            beside && r.is_free(i, "only|just|solely")
        });
        let wanted = Self {
            mentions,
            adds,
            settings,
            ..Self::default()
        };
        refuse_for_a_part(r, &wanted)?;
        Ok(wanted)
    }
}

/// Why one end of a span is not set alone.
pub(crate) const BOTH_ENDS: &str = "Say both ends of the hours, such as \"from 8:00 to 19:30\".";
const NO_CHANNEL_AWAY: &str = "A change takes no channel away. Ask for a new watch with \"no notifications\", or pause this one.";
/// Why hours or days are not added to others.
pub(crate) const ONE_TIME: &str = "A watch has one span of hours a day and one list of days. Say the whole of it, such as \"from 8:00 to 22:00\" or \"on weekdays and saturdays\", or ask for a new watch for the other hours.";

const SAME_FOR_ALL: &str = "A watch has the same classes and settings at all of its hours, and the same settings for all of its classes. Say one thing at a time, or ask for a new watch of that class with hours of its own.";

/// Refuses settings that were said of one class or of some hours, and would be set for all.
fn refuse_for_a_part(r: &Reader<'_>, wanted: &Wanted) -> Result<(), Refusal> {
    let settings = &wanted.settings;
    let numbers = settings.confidence.is_some() || settings.limits_events();
    let besides = Settings {
        times: None,
        notes: BTreeMap::new(),
        ..settings.clone()
    };
    let of_one = wanted.mentions.iter().any(|m| {
        let at = r.before_articles(m.at.start);
        r.is_behind(at, "for|of") && !r.is_behind(at.saturating_sub(1), "look|watch|only|just")
    });
    let of_hours =
        settings.times.is_some() && (!wanted.mentions.is_empty() || besides != Settings::default());
    Refusal::first(&[(of_hours || numbers && of_one, SAME_FOR_ALL)])
}

/// Returns the classes of a watch after a change; absent: they stay. "Left out" and "must not be
/// there" mean the same here: a running watch does not look for a class that must be absent.
fn classes(wanted: &Wanted, target: &Deployed, scene: &Scene) -> Result<Option<Objects>, Refusal> {
    let id = &target.spec.id;
    let (said, out): (Vec<&Mention>, Vec<&Mention>) =
        (wanted.mentions.iter()).partition(|m| m.polarity == Polarity::Wanted);
    let names_all = said.iter().any(|m| m.labels.is_empty());
    let Some(mut model) = scene.model_of(target).cloned() else {
        return Ok(None);
    };
    // A model without classes sees everything already.
    if wanted.mentions.is_empty() || names_all && model.labels.is_empty() {
        return Ok(None);
    }
    let now = watch::named_classes(&target.spec.workflow);
    let is_unknown = |m: &&&Mention| !m.labels.is_empty() && pick(&model, m).is_empty();
    if let Some(unknown) = said.iter().find(is_unknown) {
        let said = quoted(unknown.written());
        let text =
            format!("The model of {id} does not know {said}. Which classes shall it watch for?");
        return Err(Refusal::new(Missing::Class, text));
    }
    let base = match said.is_empty() || wanted.adds {
        _ if names_all => model.labels.clone(),
        true => now.clone().unwrap_or_else(|| model.labels.clone()),
        false => Vec::new(),
    };
    // A class that the watch's model does not know may be left out too.
    model.labels.extend(now.iter().flatten().cloned());
    let (labels, left_out) = labels(&model, base, &said, &out)?;
    let said = match (now, left_out.is_empty()) {
        (_, true) if names_all => "anything".to_owned(),
        (None, false) => format!("anything but {}", left_out.join(" or ")),
        _ => labels.join(" or "),
    };
    Ok(Some(Objects { labels, said }))
}

/// Understands a request to change a pipeline.
pub(crate) fn change(r: &mut Reader<'_>) -> Result<ChangeSet, Refusal> {
    let (more, less) = (r.take_all(&["@raises"]), r.take_all(&["@lowers"]));
    r.take(&["@change"]);
    r.take_all(&["@others_stay", "from now on"]);
    let target = target(r)?;
    drop_used(r);
    r.take_all(&["duration|delay|dwell time?", "time"]);
    let mut wanted = Wanted::read(r, true)?;
    let times = wanted.settings.times.as_ref();
    let refused = [
        (wanted.adds && times.is_some(), ONE_TIME),
        (times.is_some_and(|times| times.has_open_end), BOTH_ENDS),
        (wanted.settings.quiet, NO_CHANNEL_AWAY),
    ];
    Refusal::first(&refused)?;
    wanted.settings.move_notes(&mut r.notes);
    r.take_all(&["@nervous"]);
    // A change adds a channel and takes none away.
    let limits = match wanted.settings.notify.is_empty() {
        true => "only|just|instead",
        false => "",
    };
    let mut left = closed::unread_words(r, &format!("{FILLERS}|{limits}"));
    // What is changed stays so.
    let for_now = r.find(&["for now", "for the moment"]);
    left.extend(for_now.map(|found| r.written(found.at)));
    closed::refuse_words(
        r,
        left,
        "I can change its classes (\"only cars\", \"ignore bicycles\"), the confidence, the cool-down, the duration, the hours, the channels and the clip; for another place or another event, ask for a new watch and delete this one.",
    )?;
    let objects = classes(&wanted, target, r.scene)?;
    if objects.is_none() && wanted.settings == Settings::default() {
        let notes = r.notes.not_possible.iter();
        let no_channel: String = notes.map(|note| format!("{note} ")).collect();
        return Err(Refusal::new(
            Missing::Class,
            format!(
                "{no_channel}What shall be different about {}? Say classes (\"only cars\"), a confidence (\"confidence 0.6\"), a cool-down, a duration, hours, a channel or a clip.",
                target.spec.id
            ),
        ));
    }
    let direction = (more != less).then_some(more);
    check_direction(&target.spec, &wanted.settings, direction)?;
    let spec = target.spec.clone();
    replace(spec, objects.as_ref(), &wanted.settings, &mut r.notes)
}

/// Drops the used words, because a watch's name may part a setting from its value: `the cool-down
/// of the gate watch to 5 minutes`.
fn drop_used(r: &mut Reader<'_>) {
    let is_used = |i: usize| r.slot_of(i) != Slot::Free;
    let is_kept = |i: usize| {
        let names_watch = i > 0 && is_used(i - 1) && r.match_at(WATCHES, i).is_some();
        !is_used(i) && !names_watch
    };
    let kept = r.tokens_where(is_kept);
    let notes = std::mem::take(&mut r.notes);
    *r = r.with_tokens(&kept);
    r.notes = notes;
}

/// The one pipeline that is to be changed.
fn target<'s>(r: &mut Reader<'s>) -> Result<&'s Deployed, Refusal> {
    let scene = r.scene;
    let (named, _) = deployed::named(r, false);
    let on = match named.is_empty() {
        true => names::cameras(r),
        false => Vec::new(),
    };
    let is_meant = |p: &&Deployed| match on.is_empty() {
        true => named.is_empty() || named.contains(&p.spec.id),
        false => on.contains(&p.spec.source),
    };
    let meant: Vec<&Deployed> = scene.pipelines.iter().filter(is_meant).collect();
    match meant.as_slice() {
        some if named.len().max(on.len()) > 1 => Err(Refusal::not_read(
            format!(
                "One watch is changed at a time, so nothing is done. Say a sentence for each, with its name. {}",
                sentence(some)
            ),
            vec![r.written(r.positions())],
        )),
        [target] => Ok(target),
        some => Err(which("Which pipeline shall be changed?", some, scene)),
    }
}
