//! Changes of an existing watch: which one, and which settings a sentence names.
//!
//! - What was not said stays as it is.
//! - A change with an unread word is refused.

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::rule::Schedule;
use watchkeeper_engine::templates::watch;

use crate::against::Before;
use crate::answer::Missing;
use crate::apart;
use crate::audience;
use crate::deployed::{OTHERS, THINGS, ids, its_camera, listed, listed_of};
use crate::hours;
use crate::intent::{Edit, Intent, Objects};
use crate::lexicon::Lexicon;
use crate::names::{self, Cameras, Mention, Stand};
use crate::need::{Need, Notes};
use crate::place;
use crate::reader::{Found, Reader, left_over};
use crate::request::{Wishes, channels, confidence, cooldown, refuse_one_of_them, wishes};
use crate::scene::{Deployed, Scene, quoted};
use crate::wanted::Wanted;
use crate::weighty;

/// Reads the settings that a sentence names; their words are used then.
pub(crate) fn wanted(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Wanted, Need> {
    let (notify, _) = channels(r, scene, notes);
    let only = r.find(&["only|just"]).is_some();
    let wished = wishes(r, notes)?;
    refuse_wishes_of_a_new_watch(&wished)?;
    // The name of a watch may stand between a setting and its value.
    let cooldown_s = set_to(
        r,
        &["cooldown|cool-down time|period?", "cool down time|period?"],
        "<d>",
    )
    .or_else(|| cooldown(r));
    let stays_s = set_to(r, &["duration|delay|dwell time?", "time"], "<d>");
    let stays = stays_s
        .is_none()
        .then(|| {
            r.take(&[
                "for|after at|more|longer? least|than? <d>",
                "duration|time|delay|wait of|to|is? <d>",
                "more|longer|over|at than|least? <d>",
                "it|that <d>",
                "to <d>",
                "<d> or longer|more?",
            ])
        })
        .flatten();
    if let Some(found) = &stays {
        refuse_limit_or_difference(r, found)?;
    }
    let score = confidence(r, notes)?;
    let schedules = hours::schedules(r, &mut notes.assumed);
    let score = named_score(r, score);
    let mentions = names::classes(r, scene, lexicon);
    notes.assumed.extend(names::substitutions(&mentions));
    refuse_one_of_them(r, &mentions)?;
    refuse_mentions(&mentions, &schedules)?;
    let adds = r.take_all(&[
        "add|also|too|additionally|include|includes|including",
        "as well",
    ]) && !(only && apart::only_these(r, &mentions));
    audience::refuse_people(r, &mentions)?;
    let wanted = Wanted {
        mentions,
        adds,
        confidence: score,
        cooldown_s,
        stays_s: stays_s.or(stays.map(|f| f.value(0))),
        schedules,
        notify,
        clip: wished.clip,
    };
    apart::refuse_for_one_class(r, &wanted)?;
    apart::refuse_either_hours(r)?;
    Ok(wanted)
}

/// Refuses what can be wished of a new watch only.
fn refuse_wishes_of_a_new_watch(wished: &Wishes) -> Result<(), Need> {
    if wished.quiet || wished.second_opinion {
        return Err(Need::new(
            Missing::Meaning,
            match wished.quiet {
                true => {
                    "A change adds a channel and takes none away. For a watch that tells nobody ask for a new one and say \"no notifications\", or pause this one."
                }
                false => {
                    "Whether a second opinion is asked is set with a new watch: ask for it and say \"with a second opinion\"."
                }
            },
        ));
    }
    Ok(())
}

/// Refuses a time that may be a limit or an end, and one beside the one that there is.
fn refuse_limit_or_difference(r: &Reader, found: &Found) -> Result<(), Need> {
    // `only for an hour` is a limit, or an end.
    if found
        .at
        .start
        .checked_sub(1)
        .is_some_and(|i| matches!(r.word(i), "only" | "just"))
        && r.any_word(found.at.start) == "for"
    {
        let written = r.written(found.at.start - 1..found.at.end);
        return Err(Need::not_read(
            format!(
                "{} may be how long it lasts or when it ends. Say \"for the next hour\" for a watch that ends by itself, or \"make it an hour\" for how long somebody stays.",
                quoted(&written)
            ),
            vec![written],
        ));
    }
    // `10 seconds more` is a time beside the one that there is.
    if matches!(
        r.word(found.at.end),
        "more" | "longer" | "extra" | "additional" | "less" | "shorter"
    ) {
        let written = r.written(found.at.start..found.at.end + 1);
        return Err(Need::not_read(
            format!(
                "I set a time, and add nothing to it or take it away ({}). Say how long it shall be, such as \"40 seconds\".",
                quoted(&written)
            ),
            vec![written],
        ));
    }
    Ok(())
}

/// The score: `said`, or the value of a setting that is named like one.
fn named_score(r: &mut Reader, said: Option<f64>) -> Option<f64> {
    let mut score = said;
    if score.is_none() {
        let named = set_to(r, &["confidence|threshold|score|certainty"], "<p>");
        score = named
            .or_else(|| bare_share(r))
            .filter(|v| (0.0..=1.0).contains(v));
    }
    if score.is_some() {
        r.take_all(&["confidence|threshold|score|certainty|minimum"]);
    }
    score
}

/// Refuses classes that no change can hold.
fn refuse_mentions(mentions: &[Mention], schedules: &[Schedule]) -> Result<(), Need> {
    if let Some(nobody) = mentions.iter().find(|m| m.is_nobody()) {
        return Err(Need::not_read(
            "A change sets what a watch looks for, how long and at which hours, and whom it tells besides. For a watch that tells nobody, or that waits until nobody is there, ask for a \
             new one.",
            vec![nobody.said.clone()],
        ));
    }
    // `ignore cars at night` keeps cars by day: neither classes nor hours can say that.
    if !schedules.is_empty() && mentions.iter().any(|m| m.stand == Stand::Excluded) {
        return Err(Need::new(
            Missing::Meaning,
            "A class can be left out at all hours, not at some. Say the classes and the hours one at a time, or ask for a new watch of that class with hours of its own.",
        ));
    }
    Ok(())
}

/// The value of a setting that is named before it: `the cool-down of the gate watch to 5 minutes`.
/// Between the two stand only words that are used already, or that say nothing.
fn set_to(r: &mut Reader, names: &[&str], hole: &str) -> Option<f64> {
    let name = r.find(names)?;
    let value = format!("of|to|at|is|be|=|:? {hole}");
    let says_nothing = |i: usize| {
        r.word(i).is_empty()
            || r.fits(THINGS, i).is_some()
            || matches!(
                r.word(i),
                "of" | "for" | "on" | "the" | "my" | "our" | "should" | "shall"
            )
    };
    let mut at = name.at.end;
    while at < r.tokens.len() {
        if let Some(found) = r.fits(&value, at) {
            r.mark(name.at);
            r.mark(found.at.clone());
            return Some(found.value(0));
        }
        if !says_nothing(at) {
            return None;
        }
        at += 1;
    }
    None
}

/// A share without a name, which is a confidence where something is set: `to cars at 0.6`. Where a
/// place is named it is one of the picture, and a whole number is none.
fn bare_share(r: &mut Reader) -> Option<f64> {
    const PLACED: &str = "line|lines|tripwire|vertical|horizontal|zone|area|region|half|third|quarter|corner|edge|side|left|right|top|bottom|middle|centre|center|width|\
                          height|rectangle|polygon|box|picture|image|frame";
    if r.find(&[PLACED]).is_some() {
        return None;
    }
    let found = r.find(&["at|to|is <p>"])?;
    let last = found.at.end.checked_sub(1)?;
    let is_share = matches!(r.any_word(last), "%" | "percent") || r.any_word(last).contains('.');
    is_share.then(|| {
        r.mark(found.at.clone());
        found.value(0)
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
    let (named, left_out) = named_and_left_out(wanted);
    let is_read = |m: &Mention| m.stand == Stand::Wanted || !m.labels.is_empty();
    let unclear = !wanted.mentions.iter().all(is_read);
    if unclear || (!left_out.is_empty() && now.is_none() && known.is_empty()) {
        return Err(Need::new(
            Missing::Meaning,
            format!(
                "The classes that {of} shall have are not clear from that. Say them all, such as \"change {of} to only cars and trucks\"."
            ),
        ));
    }
    // Present classes stay where one is added or left out, and go where classes are named.
    let keeps = wanted.adds || (named.is_empty() && !left_out.is_empty());
    // `everything but cats`
    let all = keeps
        && !wanted.adds
        && wanted
            .mentions
            .iter()
            .any(|m| m.stand == Stand::Wanted && m.labels.is_empty());
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
    Ok((!labels.is_empty()).then_some(Objects { labels, said }))
}

/// Classes that a change names, and those that it leaves out. For an existing watch `no cats`
/// leaves cats out.
fn named_and_left_out(wanted: &Wanted) -> (Vec<&Mention>, Vec<&Mention>) {
    let classes = wanted.mentions.iter().filter(|m| !m.labels.is_empty());
    classes.partition(|m| m.stand == Stand::Wanted)
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
pub(crate) fn change(
    mut r: Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
) -> Result<Intent, Need> {
    let verbs = lexicon.verbs.change.iter();
    for verb in verbs {
        if r.take(&[verb.as_str()]).is_some() {
            break;
        }
    }
    a_part(&r)?;
    let before = Before::taken(&mut r);
    if r.find(&["for now", "for the moment"]).is_some() {
        return Err(Need::new(
            Missing::Meaning,
            "What is changed stays so until it is changed again. Say it without \"for now\", or ask for another watch beside this one with its end (\"for the next two hours\").",
        ));
    }
    r.take_all(&[OTHERS[0], OTHERS[1]]);
    let target = target(&mut r, scene, lexicon)?;
    let wanted = wanted(&mut r, scene, lexicon, notes)?;
    apart::refuse_at_hours(&r, &wanted)?;
    take_filling(&mut r);
    only_these(&r, &wanted, target)?;
    let known = known_labels(target, scene);
    let now = watch::named_classes(&target.spec.workflow);
    let objects = classes(&wanted, now, known, target.spec.id.as_str())?;
    refuse_left_over(&r, objects.is_some(), target, lexicon)?;
    // `tell me everything` names no class.
    let sets_nothing = wanted.sets_nothing();
    if objects.is_none() && sets_nothing {
        return Err(Need::new(
            Missing::Class,
            format!(
                "What shall be different about {}? Say classes (\"only cars\"), a confidence (\"confidence 0.6\"), a cool-down, a duration, hours, a channel or a clip.",
                target.spec.id
            ),
        ));
    }
    let edit = Edit {
        pipeline: target.spec.id.clone(),
        objects,
        confidence: wanted.confidence,
        cooldown_s: wanted.cooldown_s,
        stays_s: wanted.stays_s,
        schedules: wanted.schedules,
        notify: wanted.notify,
        clip: wanted.clip,
    };
    before.refuse(&edit, &target.spec)?;
    Ok(Intent::Change(Box::new(edit)))
}

/// Takes words around a setting that carry no meaning.
fn take_filling(r: &mut Reader) {
    r.take_all(&[
        THINGS,
        "less|more|too? nervous|sensitive|noisy|jumpy|twitchy|touchy",
        "existing|current",
        "apply|applies|use|used",
        "look|looks for",
        "run|runs|stay|stays|fire|fires|notify|tell|tells|watches|keep|keeps|record|records|save|saves",
        "let|lets know|hear about|of?",
        "about|of the|my|our? watch|watches|alarm|alarms|pipeline|pipelines",
        "send|sends|post|posts|forward|forwards|route|report|reports|trigger|triggers|detect|detects",
    ]);
    // `instead of the other` would have to take something away.
    if r.find(&["instead of"]).is_none() {
        r.take_all(&["instead"]);
    }
}

/// The one pipeline that is to be changed.
fn target<'s>(r: &mut Reader, scene: &'s Scene, lexicon: &Lexicon) -> Result<&'s Deployed, Need> {
    let before_names = r.used.clone();
    let named = names::pipelines(r, scene);
    let cameras = match named.is_empty() {
        true => names::cameras(r, scene, lexicon),
        false => {
            its_camera(r, &named, scene, lexicon);
            Cameras::None
        }
    };
    all_but(r, &before_names, scene)?;
    let candidates: Vec<&Deployed> = match (&named[..], &cameras) {
        ([], Cameras::These(on)) => scene
            .pipelines
            .iter()
            .filter(|p| on.contains(&p.spec.source))
            .collect(),
        ([], Cameras::Unknown(_)) => Vec::new(),
        ([], _) => scene.pipelines.iter().collect(),
        (named, _) => scene
            .pipelines
            .iter()
            .filter(|p| named.contains(&p.spec.id))
            .collect(),
    };
    let several = match (&named[..], &cameras) {
        ([], Cameras::These(on)) => on.len(),
        (named, _) => named.len(),
    };
    if several > 1 {
        return Err(apart::one_at_a_time(r.written(0..r.tokens.len())));
    }
    if let [target] = candidates.as_slice() {
        return Ok(target);
    }
    // Of those that were meant one is asked for, else of all.
    let (text, choices) = match candidates.as_slice() {
        [] => (listed(scene), ids(scene)),
        some => {
            let ids = some.iter().map(|p| p.spec.id.to_string()).collect();
            (listed_of(some), ids)
        }
    };
    let text = format!("Which pipeline shall be changed? {text}");
    Err(Need::new(Missing::Pipeline, text).with(choices))
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

/// Refuses words that are left over, and those that turn the change into another one.
fn refuse_left_over(
    r: &Reader,
    has_objects: bool,
    target: &Deployed,
    lexicon: &Lexicon,
) -> Result<(), Need> {
    let mut rest = left_over(r, lexicon);
    let turns = weighty::left_out(r);
    if let Some(at) = turns.clone() {
        let written = r.written(at);
        // `not` carries no meaning elsewhere; here it does.
        if !rest
            .iter()
            .any(|words| words.split(' ').any(|w| w == written))
        {
            rest.push(written);
        }
    }
    if let Some(turned) = r.find(&TURNS).or_else(|| way_of(r))
        && has_objects
    {
        rest.push(r.written(turned.at));
    }
    if !rest.is_empty() {
        return Err(not_read(rest, &target.spec.id));
    }
    Ok(())
}

/// Everyday words that say nothing elsewhere, and turn a change of classes into another one:
/// `take the cars out`, `cars, always`.
const TURNS: [&str; 1] = [
    "out|off|away|always|first|another|crowd|crowds|right|longer|least|most|constantly|continuously",
];

/// A way that things go, which no change of classes can limit: `only people going in`.
fn way_of(r: &Reader) -> Option<Found> {
    const GO: &str =
        "come|comes|coming|go|goes|going|get|gets|getting in|into|up|over|through|from|to";
    if let Some(found) = r.find(&[GO]) {
        return Some(found);
    }
    let mut with = r.clone();
    place::way(&mut with)?;
    let mut said =
        (0..r.tokens.len()).filter(|i| with.word(*i).is_empty() && !r.word(*i).is_empty());
    let start = said.next()?;
    Some(Found {
        at: start..said.next_back().unwrap_or(start) + 1,
        held: Vec::new(),
    })
}

/// Refuses that only these channels are told where others are: a change adds a channel and takes
/// none away.
fn only_these(r: &Reader, wanted: &Wanted, target: &Deployed) -> Result<(), Need> {
    let others = |rule: &watchkeeper_contract::rule::RuleSpec| {
        rule.notify.iter().any(|c| !wanted.notify.contains(c))
    };
    let only = r.find(&["only|just"]).is_some();
    if wanted.notify.is_empty()
        || !only
        || !wanted.mentions.is_empty()
        || !wanted.schedules.is_empty()
        || !target.spec.rules.iter().flatten().any(others)
    {
        return Ok(());
    }
    Err(Need::new(
        Missing::Meaning,
        format!(
            "A change adds a channel and takes none away, and {} tells others too. Say it without \"only\", or ask for a new watch and stop this one.",
            target.spec.id
        ),
    ))
}

/// Refuses a change of all but one that is named: it would change the one.
fn all_but(r: &Reader, before_names: &[bool], scene: &Scene) -> Result<(), Need> {
    let is_name = |i: &usize| before_names.get(*i) != r.used.get(*i);
    let out = (0..r.tokens.len()).filter(is_name).any(|start| {
        let little = |i: &usize| {
            matches!(
                r.any_word(*i),
                "the"
                    | "my"
                    | "our"
                    | "for"
                    | "on"
                    | "at"
                    | "camera"
                    | "in"
                    | "one"
                    | "ones"
                    | "that"
                    | "those"
                    | "watch"
                    | "which"
                    | "is"
                    | "are"
                    | "of"
            )
        };
        let before = (0..start).rev().find(|i| !little(i));
        before.is_some_and(|i| {
            matches!(
                r.any_word(i),
                "but" | "except" | "excluding" | "not" | "besides" | "than" | "without"
            ) || (r.any_word(i) == "from"
                && matches!(r.any_word(i.saturating_sub(1)), "apart" | "aside"))
        })
    });
    if !out {
        return Ok(());
    }
    Err(Need::new(
        Missing::Pipeline,
        format!(
            "I change one watch at a time, and none by leaving another out. Which pipeline shall be changed? {}",
            listed(scene)
        ),
    )
    .with(ids(scene)))
}

/// Refuses another value of a part of a watch that has none here, such as its zone; that of its
/// clip is said with the clip.
fn a_part(r: &Reader) -> Result<(), Need> {
    const PARTS: &str = "zone|zones|area|region|line|tripwire|place|video|videos|clip|clips|recording|recordings|picture|pictures|image|images|snapshot|still|feed|view|frame|scene|\
                         notification|notifications|message|messages|channel|channels|name|camera|model|severity";
    let Some(found) = r.find(&[
        &format!("the|its|their|a {PARTS} of|for|on|in|from"),
        &format!("the|its|their length|size|position of|for the|its|a? {PARTS}"),
        &format!("its|their {PARTS} to|from|length"),
    ]) else {
        return Ok(());
    };
    // `save a clip of 10 seconds`, `at the line of the gate` say what is kept and where.
    let is_set = found.at.start.checked_sub(1).is_none_or(|i| {
        matches!(
            r.any_word(i),
            "change"
                | "set"
                | "make"
                | "update"
                | "adjust"
                | "modify"
                | "edit"
                | "tune"
                | "raise"
                | "lower"
                | "increase"
                | "decrease"
                | "reduce"
                | "limit"
                | "restrict"
                | "shorten"
                | "lengthen"
                | "extend"
                | "and"
                | ","
        ) || r.word(i).is_empty()
    });
    let keeps = matches!(r.any_word(found.at.end), "<d>") || r.fits("<d>", found.at.end).is_some();
    if !is_set || keeps {
        return Ok(());
    }
    let written = r.written(found.at.start..found.at.end - 1);
    Err(Need::new(
        Missing::Meaning,
        format!(
            "I cannot change {} of a watch. I can change its classes (\"only cars\"), the confidence, the cool-down, the duration, the hours, the channels (\"also tell #security\") and the \
             clip (\"keep a 10 second clip\"); for another place or another event, ask for a new watch and stop this one.",
            quoted(&written)
        ),
    ))
}

/// Refuses a change of which words are left over: what runs is changed only as it was said,
/// whatever the words are.
fn not_read(rest: Vec<String>, of: &PipelineId) -> Need {
    let words: Vec<String> = rest.iter().map(|w| quoted(w)).collect();
    let text = format!(
        "I did not understand {} of the change of {of}. What runs is changed only where all that was said is understood, so I offer nothing. I can change its classes (\"only \
         cars\", \"ignore bicycles\"), the confidence, the cool-down, the duration, the hours, the channels and the clip; for another place or another event, ask for a new \
         watch and stop this one.",
        words.join(", ")
    );
    Need::not_read(text, rest)
}
