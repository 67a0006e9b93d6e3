//! Why the rules plan no request, as a sentence that names what they know.

use std::fmt;

use super::self_standing::SCORES;
use super::unread_words::{BLURRED, DUPLICATES};
use super::words::{GROUPINGS, ORDERS, VIDEOS, is_folder, is_plural};
use crate::cameras::{CameraNames, KnownNames};

/// Rules and classes that a refusal names.
const MAX_NAMES: usize = 12;

/// Verbs for what no job does with the pictures that it reads.
const CHANGES: [&str; 5] = ["delete", "erase", "move", "rename", "trash"];

/// Why a request has no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotUnderstood {
    /// Whether it is said which pictures are meant.
    names_pictures: bool,
    /// Words that no rule has read.
    words: Vec<String>,
    hint: Option<String>,
}

impl NotUnderstood {
    pub(super) fn words(words: Vec<String>, cameras: &CameraNames) -> Self {
        let hint = near_camera(&words, cameras);
        Self::new(words, hint)
    }

    /// It is not said which pictures are meant.
    pub(super) fn without_pictures(words: Vec<String>, cameras: &CameraNames) -> Self {
        Self {
            names_pictures: false,
            ..Self::words(words, cameras)
        }
    }

    fn new(words: Vec<String>, hint: Option<String>) -> Self {
        Self {
            names_pictures: true,
            words,
            hint,
        }
    }

    /// Words of a request for events. A plural among them may be meant as a rule or a class.
    pub(super) fn events(words: Vec<String>, names: &KnownNames) -> Self {
        let hint = near_camera(&words, &names.cameras).or_else(|| known_events(&words, names));
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
            false => "start the runtime, or try again: it knows the classes".to_owned(),
            true if names.classes.is_empty() => {
                "no detector is installed; `watchkeeper models pull ssd-mobilenet-v2`".to_owned()
            }
            true => format!("no installed detector finds {noun}"),
        };
        let near = near_camera(&words, &names.cameras);
        words.push(noun.to_owned());
        let hint = match near {
            Some(near) => format!("{near} {why}"),
            None => why,
        };
        Self::new(words, Some(hint))
    }
}

/// The rules and classes that there are, if one of the words may be meant as one.
fn known_events(words: &[String], names: &KnownNames) -> Option<String> {
    let noun = words.iter().find(|word| is_plural(word))?;
    if !names.are_of_runtime() {
        return Some("start the runtime, or try again: it knows the rules and classes".to_owned());
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

/// Alternatives for words, of the mistakes that rules know.
fn remedies(words: &[String]) -> Vec<&'static str> {
    let has = |list: &[&str]| {
        let mut words = words.iter();
        words.any(|word| list.contains(&&*word.to_lowercase()))
    };
    let is_date =
        |word: &str| word.contains('/') && word.chars().all(|c| c.is_ascii_digit() || c == '/');
    let is_quoted = |word: &String| word.starts_with('"');
    let is_name = has(&["called", "named"]) && words.iter().any(is_quoted);
    let is_path =
        |word: &String| is_folder(word) && !is_date(word) && !(is_name && is_quoted(word));
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
            words.iter().any(|word| is_date(word)),
            "a date is written as 2026-11-17",
        ),
        (is_name, "a name stands behind \"album called\""),
        (
            words.iter().any(is_path),
            "a request reads one folder; --output names the one to write",
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
            let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            write!(f, "{joint}not understood: {}", quoted.join(", "))?;
        }
        let hints = hint.iter().map(String::as_str).chain(remedies(words));
        for hint in hints {
            write!(f, " ({hint})")?;
        }
        f.write_str(
            "; for example: organise ./photos by day and keep the 3 best of each, \
             or: the best 10 pictures of last week's cars. Groups are by ",
        )?;
        let groupings: Vec<&str> = GROUPINGS.iter().map(|(word, _)| *word).collect();
        let orders: Vec<&str> = ORDERS.iter().map(|(word, _)| *word).collect();
        let (groupings, orders) = (groupings.join(", "), orders.join(", "));
        write!(f, "{groupings}; choices are the {orders}")
    }
}

impl std::error::Error for NotUnderstood {}
