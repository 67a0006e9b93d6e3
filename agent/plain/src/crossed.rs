//! Several cameras in one request, with a wish for each: `people at the door and cats at the pool`.
//!
//! - A wish is never watched for on a camera that it was not said of.
//! - A request that plainly has one wish for each camera is cut there.
//! - Where hours, numbers or channels may belong to either camera, nothing is proposed.

use std::ops::Range;

use watchkeeper_contract::id::SourceId;

use crate::asks::{Asks, asks};
use crate::lexicon::Lexicon;
use crate::names;
use crate::need::Need;
use crate::reader::{Reader, left_over};
use crate::scene::Scene;
use crate::token::{Kind, Token, number_word};
use crate::weighty;

/// Words between two cameras that are one list of them.
const LIST: &[&str] = &[
    "and", "or", "&", "+", ",", "/", "(", ")", "the", "my", "our", "at", "on", "in", "near", "by",
    "for", "from", "to", "camera", "cam", "cameras", "both", "either", "also", "as", "well",
    "plus",
];
/// Words before a camera that belong to it.
const BEFORE: &[&str] = &[
    "the", "my", "our", "at", "on", "in", "near", "by", "for", "from", "camera", "cam", "also",
];
/// Words that say that what was said of one camera is so on another.
const SAME: &str = "same|too|likewise|also|well|identically";
/// Everyday words that turn what is said of another camera into something else:
/// `two people at the gate and one in the yard`, `and when they go from the dock`.
const TURNS: &[&str] = &[
    "one",
    "some",
    "only",
    "just",
    "#",
    "then",
    "afterwards",
    "later",
    "go",
    "goes",
    "going",
    "get",
    "gets",
    "getting",
    "out",
    "off",
    "away",
    "up",
    "over",
    "through",
    "into",
    "onto",
    "first",
    "more",
    "most",
    "least",
    "other",
    "another",
    "always",
    "new",
];
/// Where one part ends and another begins.
const JOINS: &[&str] = &["and", "or", ",", ";", ".", "but", "then"];
/// What says on what condition something is told.
const WHEN: &[&str] = &["when", "whenever", "if", "once", "while", "as"];
/// What happens, of which nothing is left open.
const HAPPENS: &str = "appears|appear|enters|enter|entering|leaves|leave|leaving|arrives|arrive|shows|show|seen|comes|come|coming|is|are|spotted|detected";

/// Cameras that stand together.
struct Group {
    at: Range<usize>,
    cameras: Vec<SourceId>,
}

/// The requests that a request to watch is: itself, or one for each camera.
pub(crate) fn parts(
    tokens: &[Token],
    scene: &Scene,
    lexicon: &Lexicon,
) -> Result<Vec<Vec<Token>>, Need> {
    let whole = Reader::new(tokens.to_vec());
    let all = "all|every|each|both of? the? cameras|camera|cams";
    let groups = groups(&whole, scene, lexicon);
    let (Some(first), Some(last)) = (groups.first(), groups.last()) else {
        return Ok(vec![tokens.to_vec()]);
    };
    let differs = groups
        .iter()
        .any(|g| g.cameras.iter().any(|c| !first.cameras.contains(c)));
    let refused = || {
        let written = whole.written(first.at.start..last.at.end);
        Err(Need::not_read(
            "That is about several cameras, and I cannot tell which part of it is meant for which of them, so I offer nothing. Say a sentence for each: \"Tell me about people on \
             the door camera. Tell me about cars on the garage camera after 22:00.\"",
            vec![written],
        ))
    };
    if let Some(all) = whole.find(&[all]) {
        // `cars on all cameras and people at the gate`
        let between = match all.at.start < first.at.start {
            true => all.at.end..first.at.start,
            false => last.at.end..all.at.start,
        };
        let between = Reader::new(tokens.get(between).unwrap_or_default().to_vec());
        return match names::mentions_class(&between, scene, lexicon) {
            true => refused(),
            false => Ok(vec![tokens.to_vec()]),
        };
    }
    if groups
        .iter()
        .any(|group| leads_another(&whole, group, scene, lexicon))
    {
        return refused();
    }
    if !differs || goes_to_another(&whole, &groups) {
        return Ok(vec![tokens.to_vec()]);
    }
    if is_same(&whole, &groups, lexicon) {
        return Ok(vec![tokens.to_vec()]);
    }
    match cut(&whole, &groups, scene, lexicon) {
        Some(parts) => Ok(parts),
        None => refused(),
    }
}

/// The cameras that are named, those of one list together.
fn groups(r: &Reader, scene: &Scene, lexicon: &Lexicon) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, camera) in names::camera_spots(r, scene, lexicon) {
        // A channel may be called like a camera.
        let is_channel = at
            .start
            .checked_sub(1)
            .is_some_and(|b| r.any_word(b) == "#");
        if is_channel || r.any_word(at.end) == "channel" {
            continue;
        }
        match groups.last_mut() {
            Some(last) if (last.at.end..at.start).all(|i| LIST.contains(&r.any_word(i))) => {
                last.at.end = at.end;
                last.cameras.push(camera);
            }
            _ => groups.push(Group {
                at,
                cameras: vec![camera],
            }),
        }
    }
    groups
}

/// `dogs at the gate, at the dock cars`: the last camera of what looks like a list is that of what
/// stands behind it.
fn leads_another(r: &Reader, group: &Group, scene: &Scene, lexicon: &Lexicon) -> bool {
    let little = |i: &usize| {
        matches!(
            r.any_word(*i),
            "camera" | "cam" | "about" | ":" | "the" | "a" | "an" | "any" | "-" | "–"
        )
    };
    let end = group.at.end;
    let next = (end..r.tokens.len()).find(|i| !little(i)).unwrap_or(end);
    let before = Reader::new(r.tokens.get(..group.at.start).unwrap_or_default().to_vec());
    let behind = r.tokens.get(next..next + 1).unwrap_or_default();
    group.cameras.len() > 1
        && names::mentions_class(&Reader::new(behind.to_vec()), scene, lexicon)
        && names::mentions_class(&before, scene, lexicon)
}

/// `from the gate … to the dock`, of which it is said elsewhere that nobody is followed.
fn goes_to_another(r: &Reader, groups: &[Group]) -> bool {
    let before = |group: &Group| {
        let skip = |i: &usize| !matches!(r.any_word(*i), "the" | "my" | "our" | "camera");
        (0..group.at.start).rev().find(skip)
    };
    matches!(groups, [a, b] if before(a).is_some_and(|i| r.any_word(i) == "from") && before(b).is_some_and(|i| r.any_word(i) == "to"))
}

/// Whether the later cameras are only added to what was said of the first:
/// `people at the dock, and at the gate too`.
fn is_same(r: &Reader, groups: &[Group], lexicon: &Lexicon) -> bool {
    let [first, rest @ ..] = groups else {
        return true;
    };
    let Some(last) = rest.last() else {
        return true;
    };
    let joint = (first.at.end..last.at.start)
        .rev()
        .find(|i| JOINS.contains(&r.any_word(*i)));
    let Some(joint) = joint.filter(|_| rest.len() == 1) else {
        return false;
    };
    let mut tail = Reader::new(r.tokens.get(joint..).unwrap_or_default().to_vec());
    tail.mark(last.at.start - joint..last.at.end - joint);
    let adds = tail.take_all(&["do the same", SAME]);
    let another = tail.tokens.iter().any(|t| TURNS.contains(&t.text.as_str()));
    let nothing_else =
        !another && left_over(&tail, lexicon).is_empty() && weighty::left_out(&tail).is_none();
    // Without a word for it, only where nothing was said of the first that may be meant for it
    // alone.
    let plain = || {
        if r.any_word(joint) == "." {
            return false;
        }
        let tokens = r.tokens.get(..joint).unwrap_or_default();
        !tokens.iter().any(|t| {
            matches!(t.kind, Kind::Number(_) | Kind::Clock(_))
                || number_word(&t.text).is_some_and(|n| n > 1.0)
                || matches!(t.text.as_str(), "#" | "only" | "clip" | "critical")
                || weighty::is_weighty(&t.text)
        })
    };
    nothing_else && (adds || plain())
}

/// One request for each camera, where every word plainly belongs to one of them.
fn cut(r: &Reader, groups: &[Group], scene: &Scene, lexicon: &Lexicon) -> Option<Vec<Vec<Token>>> {
    let starts = starts(r, groups)?;
    let ends = starts.iter().skip(1).copied().chain([r.tokens.len()]);
    let slices: Vec<&[Token]> = starts
        .iter()
        .zip(ends)
        .map(|(from, to)| r.tokens.get(*from..to).unwrap_or_default())
        .collect();
    let verb = slices.iter().find_map(|slice| verb(slice, lexicon))?;
    let asked_when = |slice: &[Token]| slice.iter().any(|t| WHEN.contains(&t.text.as_str()));
    let first_when = slices.first().is_some_and(|slice| asked_when(slice));
    let mut parts = Vec::new();
    for (nth, slice) in slices.into_iter().enumerate() {
        // `if a cat is at the pool and a dog is at the gate` is so when both are.
        let joint = slice.first().map_or("", |t| t.text.as_str());
        if nth > 0 && first_when && !asked_when(slice) && joint != "or" {
            return None;
        }
        if !is_plain(slice, scene, lexicon) {
            return None;
        }
        let skip = usize::from(nth > 0 && JOINS.contains(&joint));
        let said = slice.get(skip..).unwrap_or_default().to_vec();
        parts.push(match asks(&said, lexicon) {
            Asks::Watch => said,
            Asks::Nothing => [verb.clone(), said].concat(),
            _ => return None,
        });
    }
    Some(parts)
}

/// Where each part begins: behind the camera of the part before it, or before its own where that
/// leads.
fn starts(r: &Reader, groups: &[Group]) -> Option<Vec<usize>> {
    let is_mark = |i: usize| r.tokens.get(i).is_some_and(|t| t.kind == Kind::Mark);
    let before = |group: &Group| {
        let mut at = group.at.start;
        while at > 0 && BEFORE.contains(&r.any_word(at - 1)) {
            at -= 1;
        }
        at
    };
    let (first, last) = (groups.first()?, groups.last()?);
    let mut starts = vec![0];
    if before(first) == 0 {
        for group in groups.get(1..)? {
            let at = before(group).checked_sub(1)?;
            JOINS.contains(&r.any_word(at)).then_some(())?;
            starts.push(at);
        }
        return Some(starts);
    }
    let mut rest = last.at.end..r.tokens.len();
    rest.all(|i| is_mark(i) || matches!(r.any_word(i), "camera" | "cam" | "please"))
        .then_some(())?;
    for group in groups.get(..groups.len() - 1)? {
        let mut at = group.at.end;
        while matches!(r.any_word(at), "camera" | "cam") {
            at += 1;
        }
        JOINS.contains(&r.any_word(at)).then_some(())?;
        // `, and when …`
        let next = at + usize::from(r.any_word(at) == "," && JOINS.contains(&r.any_word(at + 1)));
        starts.push(next);
    }
    Some(starts)
}

/// The verb of watching or counting in a part.
fn verb(part: &[Token], lexicon: &Lexicon) -> Option<Vec<Token>> {
    let r = Reader::new(part.to_vec());
    let verbs = lexicon.verbs.watch.iter().chain(&lexicon.verbs.count);
    let found = verbs.filter_map(|verb| r.find(&[verb]));
    let at = found
        .min_by_key(|f| (f.at.start, std::cmp::Reverse(f.at.len())))?
        .at;
    part.get(at).map(<[Token]>::to_vec)
}

/// Whether a part says only what to watch for and where, so that nothing in it may hold for another
/// part.
fn is_plain(part: &[Token], scene: &Scene, lexicon: &Lexicon) -> bool {
    let mut r = Reader::new(part.to_vec());
    drop(names::cameras(&mut r, scene, lexicon));
    let mentions = names::classes(&mut r, scene, lexicon);
    let wanted = |m: &names::Mention| m.stand == names::Stand::Wanted && !m.is_nobody();
    for verb in lexicon.verbs.watch.iter().chain(&lexicon.verbs.count) {
        r.take_all(&[verb]);
    }
    r.take_all(&[HAPPENS]);
    let marks = ["#", ">", "<", "=", ":"];
    let has_marks = part.iter().any(|t| marks.contains(&t.text.as_str()));
    let only = part
        .iter()
        .any(|t| matches!(t.text.as_str(), "only" | "one"));
    !mentions.is_empty()
        && mentions.iter().all(wanted)
        && !has_marks
        && !only
        && left_over(&r, lexicon).is_empty()
        && weighty::left_out(&r).is_none()
}
