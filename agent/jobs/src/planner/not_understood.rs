//! Why the rules plan no request, as a sentence that names what they know.

use std::collections::HashSet;
use std::fmt;

use strsim::damerau_levenshtein;
use watchkeeper_english::one_of;

use super::self_standing::SCORES;
use super::words::{
    BLURRED, DUPLICATES, EACH, GROUPINGS, ORDERS, VIDEOS, is_folder, is_plural, is_slash_date,
};
use crate::cameras::{CameraNames, KnownNames};
use crate::spelling::nearest;

/// Rules and classes that a refusal names.
const MAX_NAMES: usize = 12;

/// Fewest letters of a word that may be misspelt.
const MIN_MISSPELT: usize = 6;

/// Verbs for what no job does with the pictures that it reads.
const CHANGES: [&str; 5] = ["delete", "erase", "move", "rename", "trash"];

/// Why a request has no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotUnderstood {
    /// Whether it is said which pictures are meant.
    names_pictures: bool,
    /// Words that no rule has read.
    words: Vec<String>,
    /// Those of them that no rule knows, or all.
    named: Vec<String>,
    hint: Option<String>,
}

impl NotUnderstood {
    pub(super) fn words(words: Vec<String>, cameras: &CameraNames) -> Self {
        let hint = near_camera(&words, cameras).or_else(|| near_word(&words));
        Self::new(words, hint)
    }

    /// It is not said which pictures are meant.
    pub(super) fn without_pictures(words: Vec<String>, cameras: &CameraNames) -> Self {
        Self {
            names_pictures: false,
            ..Self::words(words, cameras)
        }
    }

    /// The request has more characters than the rules read.
    pub(super) fn too_long(begin: &str, most: usize) -> Self {
        let hint = format!("a request has at most {most} characters");
        Self::new(vec![begin.to_owned()], Some(hint))
    }

    /// A refinement names a month and another time.
    pub(super) fn two_times(month: String) -> Self {
        let hint = "the request has another time; say the whole request again, with one time";
        Self::new(vec![month], Some(hint.to_owned()))
    }

    /// It is not said what is done with the pictures of a folder.
    pub(super) fn folder_alone(folder: &str) -> Self {
        let hint = format!(
            "say what to do with its pictures, such as: {folder} by day, or: {folder} as an album"
        );
        Self::new(vec![folder.to_owned()], Some(hint))
    }

    fn new(mut words: Vec<String>, hint: Option<String>) -> Self {
        let mut found = HashSet::new();
        words.retain(|word| found.insert(word.clone()));
        let mut named = words.clone();
        named.retain(|word| !is_known(&word.to_lowercase()));
        if named.is_empty() {
            named.clone_from(&words);
        }
        Self {
            names_pictures: true,
            words,
            named,
            hint,
        }
    }

    /// Words of a request for events. A plural among them may be meant as a rule or a class.
    pub(super) fn events(words: Vec<String>, names: &KnownNames) -> Self {
        let hint = near_camera(&words, &names.cameras)
            .or_else(|| near_word(&words))
            .or_else(|| known_events(&words, names));
        Self::new(words, hint)
    }

    /// A noun that names no object there.
    pub(super) fn object(noun: &str, mut words: Vec<String>, names: &KnownNames) -> Self {
        let conditions = SCORES.into_iter().chain(DUPLICATES).chain(BLURRED);
        let is_condition = conditions
            .into_iter()
            .any(|known| noun.eq_ignore_ascii_case(known));
        let why = match names.are_of_runtime() {
            _ if names.has_class(&names.class_of(noun)) || is_condition => {
                format!("say \"with\" or \"without\" before {noun}")
            }
            false => format!("if {noun} is a class of objects, start the runtime: it knows them"),
            true if names.classes.is_empty() => {
                "no detector is installed; `watchkeeper models pull ssd-mobilenet-v2`".to_owned()
            }
            true => format!("no installed detector finds {noun}, and no condition has that name"),
        };
        let near = near_camera(&words, &names.cameras);
        words.push(noun.to_owned());
        let hint = match (near, near_word(&words)) {
            (Some(near), _) => Some(format!("{near} {why}")),
            (None, near) => near.or(Some(why)),
        };
        Self::new(words, hint)
    }
}

/// Returns whether a word stays unread only because of one beside it: "every" of "every november".
fn is_known(word: &str) -> bool {
    EACH.contains(&word) || one_of("by|most|least|more|than", word) || GROUPINGS.get(word).is_some()
}

/// The rules and classes that there are, if one of the words may be meant as one.
fn known_events(words: &[String], names: &KnownNames) -> Option<String> {
    let noun = words.iter().find(|word| is_plural(word))?;
    if !names.are_of_runtime() {
        return Some("start the runtime, or try again: it knows the rules and classes".to_owned());
    }
    if names.of_events(noun).is_some() {
        return Some("events are of one class or rule: name one".to_owned());
    }
    let known = names.rules.iter().chain(&names.classes);
    let (shown, number) = (known.clone().take(MAX_NAMES), known.count());
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    let others = match number.saturating_sub(MAX_NAMES) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    Some(match shown.is_empty() {
        true => format!("no rule and no class is named {noun}; there is none yet"),
        false => format!(
            "no rule and no class is named {noun}; there are {}{others}",
            shown.join(", ")
        ),
    })
}

/// The question whether words that are not understood mean a camera.
fn near_camera(words: &[String], cameras: &CameraNames) -> Option<String> {
    let all = words.join(" ");
    let mut texts = std::iter::once(&all).chain(words);
    let near = texts.find_map(|text| cameras.nearest(text))?;
    Some(format!("did you mean the camera {near}?"))
}

/// The question whether one of the words is misspelt.
fn near_word(words: &[String]) -> Option<String> {
    let known = GROUPINGS
        .phrases()
        .chain(ORDERS.phrases())
        .chain(DUPLICATES)
        .chain(BLURRED)
        .chain(SCORES)
        .chain(["pictures", "photos", "without"]);
    // A short word is often another one: "west" is no "best".
    let mut words = words.iter().filter(|word| word.len() >= MIN_MISSPELT);
    let near = words.find_map(|word| {
        let near = nearest(word, known.clone())?;
        (damerau_levenshtein(&word.to_lowercase(), near) == 1).then_some(near)
    })?;
    Some(format!("did you mean {near}?"))
}

/// Alternatives for words, of the mistakes that rules know.
fn remedies(words: &[String]) -> Vec<&'static str> {
    let has = |list: &[&str]| {
        let mut words = words.iter();
        words.any(|word| list.contains(&&*word.to_lowercase()))
    };
    let is_quoted = |word: &String| word.starts_with('"');
    let is_called = has(&["called", "named"]);
    let is_name = is_called && words.iter().any(is_quoted);
    let is_path = |word: &String| is_folder(word) && !(is_name && is_quoted(word));
    let remedies = [
        (
            has(&CHANGES),
            "jobs copy pictures; they never rename, move or delete an original",
        ),
        (
            has(&VIDEOS),
            "jobs work on pictures; `watchkeeper archive query` finds clips",
        ),
        (
            words.iter().any(|word| is_slash_date(word)),
            "day and month are not told apart: write 2026-11-17 or 17 November 2026, and a folder \
             as ./1/2",
        ),
        (
            has(&["tiff", "tif", "bmp", "gif", "raw", "heic"]),
            "jobs read JPEG, PNG and WebP files",
        ),
        (is_name, "write a name after \"album called\""),
        (
            is_called && words.iter().any(|word| word.contains('/')),
            "the name of what is made has no slash and does not begin with a dot",
        ),
        (
            words.iter().any(is_path),
            "a request reads one folder or collection; --output names the folder to write",
        ),
    ];
    let fitting = remedies.into_iter().filter(|(fits, _)| *fits);
    fitting.map(|(_, remedy)| remedy).collect()
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            names_pictures,
            words,
            named,
            hint,
        } = self;
        if !names_pictures {
            f.write_str(
                "say which pictures: a folder, which begins with ./ or /, a time, a camera, or a \
                 collection",
            )?;
        }
        if !words.is_empty() {
            let joint = if *names_pictures { "" } else { "; " };
            let quoted: Vec<String> = named.iter().map(|word| format!("{word:?}")).collect();
            write!(f, "{joint}not understood: {}", quoted.join(", "))?;
        }
        let hints = hint.iter().map(String::as_str).chain(remedies(words));
        let hints: Vec<&str> = hints.collect();
        for hint in &hints {
            write!(f, " ({hint})")?;
        }
        match words.as_slice() {
            _ if !names_pictures => write!(f, "; for example: {EXAMPLE}"),
            _ if hints.is_empty() => f.write_str(FORMS),
            _ => Ok(()),
        }
    }
}

/// Requests that are understood.
const EXAMPLE: &str = "organise ./photos by day and keep the 3 best of each, or: the best 10 \
                       pictures of last week's cars";

/// The most frequent forms that the rules read.
const FORMS: &str = "; times are as in: last week, on 5 October, in March 2026, after 18:00; groups as \
                     in: by day, per camera; choices as in: the 3 best of each day, newest first; all \
                     words are in docs/guide/jobs.md";

impl std::error::Error for NotUnderstood {}
