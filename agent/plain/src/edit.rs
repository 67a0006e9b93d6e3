//! Changes of an existing watch: which one, and which settings a sentence names.
//!
//! - What was not said stays as it is.
//! - A change with an unread word, or one that its own words contradict, is refused.
//! - A watch has one list of classes and one value of each setting at all of its hours.

use watchkeeper_contract::rule::Condition;
use watchkeeper_engine::templates::watch;

use crate::answer::Missing;
use crate::closed;
use crate::deployed::{self, OTHERS, THINGS, which};
use crate::hours;
use crate::intent::{Edit, Intent, Objects, Settings};
use crate::names::{self, Cameras, Mention, Stand};
use crate::need::Need;
use crate::reader::{Found, Reader, Slot, one_of};
use crate::request::{
    are_only_these, channels, confidence, cooldown, is_for_a_time, one_list, share, wishes,
};
use crate::scene::{Deployed, Scene, quoted};

/// Words that say nothing in a change.
pub(crate) const SMALL: &str = "to|of|for|on|at|and|with|about|only|just|less|more|look|looks|tell|tells|telling|notify|alert|alerts|alerting|detect|detects|watches|watch|for|send|sends|post|posts|forward|forwards|route|keep|keeps|save|saves|record|records|use|used|apply|applies|run|runs|fire|fires|report|reports|instead|existing|current|hear|pipeline|rule|monitoring|confidence|threshold|score|certainty|minimum";

const TELLS: &str = "tell|tells|notify|notifies|alert|alerts|warn|warns|inform|informs|message|ping|text|email|mail|call|phone|page|to";

/// What a sentence names, of a pipeline to change or of a proposal to correct ([`crate::amend`]).
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Classes that it names, and how.
    pub(crate) mentions: Vec<Mention>,
    /// Whether they come to those that there are.
    pub(crate) adds: bool,
    pub(crate) settings: Settings,
}

/// Reads the settings that a sentence names; their words are used then.
pub(crate) fn wanted(r: &mut Reader<'_>) -> Result<Wanted, Need> {
    r.slot = Slot::Other;
    let (notify, _) = channels(r);
    let wished = wishes(r)?;
    if wished.quiet || wished.second_opinion {
        return Err(Need::meaning(
            "A change takes no channel away and sets no second opinion. Ask for a new watch with \"no notifications\" or \"with a second opinion\", or pause this one.",
        ));
    }
    // The name of a watch may stand between a setting and its value.
    let quiet = ["cooldown|cool-down time|period?", "cool down time|period?"];
    let value = |found: Found| found.value(0);
    let cooldown_s = set_to(r, &quiet, "<d>").map(value).or_else(|| cooldown(r));
    let stays_s = set_to(r, &["duration|delay|dwell time?", "time"], "<d>")
        .map(value)
        .or_else(|| stays(r));
    let mut score = confidence(r)?;
    if score.is_none() {
        let found = set_to(r, &["confidence|threshold|score|certainty"], "<p>");
        let found = found.or_else(|| bare_share(r));
        score = found.map(|found| share(r, &found)).transpose()?;
    }
    let schedules = hours::schedules(r);
    let mentions = one_list(r, false, false);
    // Whom a watch tells is no class: `should notify staff`.
    let is_told = |m: &&Mention| {
        let article = |i: &usize| one_of("the|our|my|all", r.any_word(*i));
        let before = (0..m.at.start).rev().find(|i| !article(i));
        m.labels.as_slice() == ["person"] && before.is_some_and(|i| one_of(TELLS, r.any_word(i)))
    };
    let wrong = mentions.iter().find(|m| m.is_nobody() || is_told(m));
    if let Some(at) = wrong.map(|m| m.at.clone()) {
        r.set(at, Slot::Free);
    }
    r.notes.assumed.extend(names::substitutions(&mentions));
    r.slot = Slot::Other;
    let adds = r.take_all(&[
        "add|also|too|additionally|include|includes|including",
        "as well",
    ]) && !are_only_these(r, &mentions);
    let settings = Settings {
        confidence: score,
        cooldown_s,
        stays_s,
        schedules,
        notify,
        clip: wished.clip,
    };
    let wanted = Wanted {
        mentions,
        adds,
        settings,
    };
    refuse_for_a_part(r, &wanted)?;
    Ok(wanted)
}

/// The time for which somebody stays.
fn stays(r: &mut Reader<'_>) -> Option<f64> {
    let found = r.find(&[
        "for|after at|more|longer? least|than? <d>",
        "wait|waits of|to|is? <d>",
        "more|longer|over|at than|least? <d>",
        "it|that <d>",
        "to <d>",
        "<d> or longer|more?",
    ])?;
    is_for_a_time(r, &found).then(|| {
        r.mark(found.at.clone());
        found.value(0)
    })
}

/// Refuses settings that were said of one class or of some hours, and would be set for all.
fn refuse_for_a_part(r: &Reader<'_>, wanted: &Wanted) -> Result<(), Need> {
    let numbers = wanted.settings.stays_s.is_some()
        || wanted.settings.confidence.is_some()
        || wanted.settings.cooldown_s.is_some();
    let of_one = wanted.mentions.iter().any(|m| {
        let article = |i: &usize| one_of("the|a|an|any|all", r.any_word(*i));
        let before = (0..m.at.start).rev().find(|i| !article(i));
        before.is_some_and(|i| {
            one_of("for|of", r.any_word(i)) && !one_of("look|watch|only|just", r.before(i))
        })
    });
    let is_left_out = |m: &Mention| m.stand != Stand::Wanted;
    let said_when = r.find(&["only|just|hours|schedule|active"]).is_some();
    let sets = numbers || wanted.settings.clip.is_some() || !wanted.settings.notify.is_empty();
    let of_hours = !wanted.settings.schedules.is_empty()
        && (wanted.mentions.iter().any(is_left_out)
            || (wanted.adds && !wanted.mentions.is_empty())
            || (sets && !said_when));
    if !(of_hours || numbers && of_one) {
        return Ok(());
    }
    Err(Need::meaning(
        "A watch has the same classes and settings at all of its hours, and the same settings for all of its classes. Say one thing at a time, or ask for a new watch of that class with \
         hours of its own.",
    ))
}

/// The value of a setting that is named before it: `the cool-down of the gate watch to 5 minutes`.
/// Between the two stand only words that are used already, or that say nothing.
fn set_to(r: &mut Reader<'_>, names: &[&str], hole: &str) -> Option<Found> {
    let name = r.find(names)?;
    let value = format!("of|to|at|is|be|=|:? {hole}");
    let says_nothing = |i: usize| {
        r.word(i).is_empty()
            || r.fits(THINGS, i).is_some()
            || one_of("of|for|on|the|my|our|should|shall", r.word(i))
    };
    let at = (name.at.end..r.tokens.len())
        .find(|at| r.fits(&value, *at).is_some() || !says_nothing(*at))?;
    let found = r.fits(&value, at)?;
    r.mark(name.at);
    r.mark(found.at.clone());
    Some(found)
}

/// A share without a name, which is a confidence where something is set: `to cars at 0.6`.
fn bare_share(r: &mut Reader<'_>) -> Option<Found> {
    let placed =
        "line|lines|zone|area|half|third|quarter|corner|side|picture|rectangle|polygon|box";
    let found = r.find(&["at|to|is <p>"])?;
    let last = r.any_word(found.at.end.checked_sub(1)?);
    let is_share = one_of("%|percent", last) || last.contains('.');
    (is_share && r.find(&[placed]).is_none()).then(|| {
        r.mark(found.at.clone());
        found
    })
}

/// Returns the classes of a watch after a change; absent: they stay.
///
/// `now` are its present classes, absent where they are unknown; `known` are those of its model.
pub(crate) fn classes(
    wanted: &Wanted,
    now: Option<Vec<String>>,
    known: &[String],
    of: &str,
) -> Result<Option<Objects>, Need> {
    if wanted.mentions.is_empty() {
        return Ok(None);
    }
    let classes = wanted.mentions.iter().filter(|m| !m.labels.is_empty());
    let (named, left_out): (Vec<&Mention>, Vec<&Mention>) =
        classes.partition(|m| m.stand == Stand::Wanted);
    if !left_out.is_empty() && now.is_none() && known.is_empty() {
        let text = format!(
            "The classes that {of} shall have are not clear from that. Say them all, such as \"change {of} to only cars and trucks\"."
        );
        return Err(Need::meaning(text));
    }
    // Present classes stay where one is added or left out, and go where classes are named.
    let keeps = wanted.adds || (named.is_empty() && !left_out.is_empty());
    // `everything but cats`
    let anything = |m: &Mention| m.stand == Stand::Wanted && m.labels.is_empty();
    let all = keeps && !wanted.adds && wanted.mentions.iter().any(anything);
    let mut labels = match (keeps, all, now) {
        (true, false, Some(now)) => now,
        (true, ..) => known.to_vec(),
        (false, ..) => Vec::new(),
    };
    add_classes(&mut labels, &named, known, of)?;
    labels.retain(|label| !left_out.iter().any(|m| m.labels.contains(label)));
    if labels.is_empty() && !left_out.is_empty() {
        return Err(Need::new(
            Missing::Class,
            "Nothing is left to watch for. Which classes shall it watch for?",
        ));
    }
    let said = match all {
        true => {
            let out: Vec<&str> = left_out.iter().map(|m| m.said.as_str()).collect();
            format!("anything but not {}", out.join(" or "))
        }
        false => labels.join(" or "),
    };
    let only = false;
    Ok((!labels.is_empty()).then_some(Objects { labels, said, only }))
}

/// Adds the labels of named classes; refuses a class that the model does not know.
fn add_classes(
    labels: &mut Vec<String>,
    named: &[&Mention],
    known: &[String],
    of: &str,
) -> Result<(), Need> {
    for mention in named {
        let mut of_it = known
            .iter()
            .filter(|l| mention.labels.contains(l))
            .peekable();
        if of_it.peek().is_none() {
            let text = format!(
                "The model of {of} does not know {}. Which classes shall it watch for?",
                quoted(&mention.said)
            );
            return Err(Need::new(Missing::Class, text));
        }
        for label in of_it {
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }
    }
    Ok(())
}

/// Understands a request to change a pipeline.
pub(crate) fn change(r: &mut Reader<'_>) -> Result<Intent, Need> {
    let verb = r
        .lexicon
        .verbs
        .change
        .iter()
        .find_map(|verb| r.take(&[verb.as_str()]));
    drop(verb);
    let more = direction(r);
    r.take_all(&[OTHERS[0], OTHERS[1]]);
    let target = target(r)?;
    let wanted = wanted(r)?;
    r.take_all(&["too? nervous|sensitive|noisy|jumpy|twitchy|touchy"]);
    refuse_another_channel(r, &wanted)?;
    let mut left = closed::unread_words(r, SMALL);
    // What is changed stays so.
    let for_now = r.find(&["for now", "for the moment"]);
    left.extend(for_now.map(|found| r.written(found.at)));
    if !left.is_empty() {
        return Err(not_read(left, target));
    }
    let known = known_labels(target, r.scene);
    let now = watch::named_classes(&target.spec.workflow);
    let objects = classes(&wanted, now, known, target.spec.id.as_str())?;
    if objects.is_none() && wanted.settings == Settings::default() {
        return Err(Need::new(
            Missing::Class,
            format!(
                "What shall be different about {}? Say classes (\"only cars\"), a confidence (\"confidence 0.6\"), a cool-down, a duration, hours, a channel or a clip.",
                target.spec.id
            ),
        ));
    }
    if let Some(more) = more {
        refuse_the_other_way(more, &wanted, target)?;
    }
    Ok(Intent::Change(Box::new(Edit {
        pipeline: target.spec.id.clone(),
        objects,
        settings: wanted.settings,
    })))
}

/// Refuses `only` and `instead` beside a channel: a change adds channels and takes none away.
fn refuse_another_channel(r: &Reader<'_>, wanted: &Wanted) -> Result<(), Need> {
    let of_channel = |i: &usize| {
        let of_class = |i: usize| r.slot_of(i) == Slot::Class;
        one_of("instead|only|just|solely", r.word(*i))
            && !of_class(i + 1)
            && !of_class(i.wrapping_sub(1))
    };
    let said = (0..r.tokens.len()).find(of_channel);
    let Some(at) = said.filter(|_| !wanted.settings.notify.is_empty()) else {
        return Ok(());
    };
    let word = r.written(at..at + 1);
    Err(Need::not_read(
        format!(
            "A change adds a channel and takes no channel away, so nothing is done for {}. Say it without that word, or ask for a new watch and delete this one.",
            quoted(&word)
        ),
        vec![word],
    ))
}

/// Takes the verbs that say that a setting is to be more or less than it is.
fn direction(r: &mut Reader<'_>) -> Option<bool> {
    let more = r.take_all(&["raise|increase|lengthen|extend|prolong"]);
    let less = r.take_all(&["lower|decrease|reduce|shorten|cut"]);
    (more != less).then_some(more)
}

/// Refuses `lower the confidence to 80%` where it is 10 %.
fn refuse_the_other_way(more: bool, wanted: &Wanted, target: &Deployed) -> Result<(), Need> {
    let rules = target.spec.rules.iter().flatten();
    let steps = target.spec.workflow["steps"].as_array();
    let scores = steps
        .into_iter()
        .flatten()
        .map(|s| (wanted.settings.confidence, s["confidence"].as_f64()));
    let of_rules = rules.flat_map(|rule| {
        let for_s = match rule.when {
            Condition::Stays { for_s, .. } | Condition::Count { for_s, .. } => Some(for_s),
            _ => None,
        };
        [
            (wanted.settings.stays_s, for_s),
            (wanted.settings.cooldown_s, Some(rule.cooldown_s)),
        ]
    });
    let mut settings = scores
        .chain(of_rules)
        .filter_map(|(wanted, now)| Some((wanted?, now?)));
    let other = settings.find(|(wanted, now)| if more { wanted <= now } else { wanted >= now });
    let Some((_, now)) = other else {
        return Ok(());
    };
    Err(Need::meaning(format!(
        "{} has {now} now, and what you say is not {} than that, so nothing is done. Say what it shall be with \"set\".",
        target.spec.id,
        if more { "more" } else { "less" }
    )))
}

/// The one pipeline that is to be changed.
fn target<'s>(r: &mut Reader<'s>) -> Result<&'s Deployed, Need> {
    let scene = r.scene;
    let named = deployed::named(r);
    let on = match named.is_empty() {
        true => names::cameras(r),
        false => Cameras::None,
    };
    let (several, meant): (usize, Vec<&Deployed>) = match on {
        _ if !named.is_empty() => {
            let named: Vec<_> = named.iter().filter_map(|id| scene.pipeline(id)).collect();
            (named.len(), named)
        }
        Cameras::These(on) => (on.len(), on.iter().flat_map(|on| scene.on(on)).collect()),
        Cameras::Unknown(_) => (0, Vec::new()),
        Cameras::All | Cameras::None => (0, scene.pipelines.iter().collect()),
    };
    match meant.as_slice() {
        _ if several > 1 => Err(Need::not_read(
            "One watch is changed at a time, so nothing is done. Say a sentence for each: \"the gate watch should only look for cars\".",
            vec![r.written(0..r.tokens.len())],
        )),
        [target] => Ok(target),
        some => Err(which("Which pipeline shall be changed?", some, scene)),
    }
}

/// The labels that the model of a pipeline knows.
fn known_labels<'s>(target: &Deployed, scene: &'s Scene) -> &'s [String] {
    let used = target
        .spec
        .model
        .clone()
        .or_else(|| watch::named_model(&target.spec.workflow).map(str::to_owned));
    let model = scene
        .models
        .iter()
        .find(|m| Some(&m.name) == used.as_ref())
        .or(scene.models.first());
    model.map(|m| m.labels.as_slice()).unwrap_or_default()
}

/// Refuses a change of which words are left over.
fn not_read(left: Vec<String>, target: &Deployed) -> Need {
    let words: Vec<String> = left.iter().map(|w| quoted(w)).collect();
    let text = format!(
        "I do not understand {} of the change of {}, so nothing is done. I can change its classes (\"only cars\", \"ignore bicycles\"), the confidence, the cool-down, the duration, the hours, the \
         channels and the clip; for another place or another event, ask for a new watch and delete this one.",
        words.join(", "),
        target.spec.id
    );
    Need::not_read(text, left)
}
