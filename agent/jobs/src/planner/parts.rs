//! Requests for several outputs: `the sharp ones of ./a into album good, the rest into album more`.
//!
//! - A request is divided only if each part names an output, and one is of the rest or the whole is
//!   not understood. What stands before the first part says nothing but the folder.
//! - "The rest" is what the other part has left of the folder. It has no conditions of its own, and
//!   that part either a choice or conditions.
//!
//! Not here: how a part is read ([`Request::read`]).

use jiff::civil::DateTime;
use watchkeeper_english::{one_of, part_of_day, singular};

use super::condition_set::Conditions;
use super::request::{Request, Source};
use super::words::{ORDERS, Range, is_filler, is_folder, is_path, is_picture_noun, number, tokens};
use crate::cameras::KnownNames;

/// Most parts of a request.
const MAX_PARTS: usize = 8;
/// Words that stand for what another part has left.
const REST: [&str; 7] = [
    "those without",
    "the rest of them",
    "the rest",
    "the others",
    "the other ones",
    "the remaining ones",
    "everything else",
];

/// Returns whether a request has several outputs, one of them of the rest.
pub(super) fn names_rest(text: &str) -> bool {
    divide(text).is_some_and(|parts| parts.iter().any(|part| rest(part).is_some()))
}

/// Reads a request as several, each with an output of its own name.
pub(super) fn read(text: &str, now: DateTime, names: &KnownNames) -> Option<Vec<Request>> {
    let all = tokens(text);
    let mut folders = all.iter().filter(|word| is_path(word.trim_matches('"')));
    let folder = folders.next().filter(|_| folders.next().is_none())?;
    let parts = divide(text).or_else(|| two_orders(text))?;
    let mut requests: Vec<Request> = Vec::new();
    for part in &parts {
        let rest = rest(part);
        let said = rest.as_ref().unwrap_or(part);
        let said = match said.contains(folder.as_str()) {
            true => said.clone(),
            false => format!("photos in {folder}, {said}"),
        };
        let mut request = Request::read(&said, now, names).ok()?;
        if rest.is_some() {
            let former = requests.first().filter(|_| parts.len() == 2)?;
            let is_clear = narrowings(&request) == 0 && narrowings(former) == 1;
            if !is_clear || former.selection.sets.is_some() || former.like.is_some() {
                return None;
            }
            request.rest_of = Some(Box::new(former.clone()));
        } else if narrowings(&request) == 0 && request.selection.by.is_empty() {
            return None;
        }
        let is_taken = |name: &String| requests.iter().any(|one| file(one) == *name);
        let wanted = file(&request);
        if is_taken(&wanted) {
            let mut others = (requests.len() + 1..).map(|n| format!("{wanted} {n}"));
            request.name = others.find(|name| !is_taken(name));
        }
        requests.push(request);
    }
    let is_folder = |one: &Request| matches!(one.source, Source::Folder(_));
    requests.iter().all(is_folder).then_some(requests)
}

/// Kinds of what a request keeps of a folder: a time, a camera, conditions, a choice.
fn narrowings(request: &Request) -> usize {
    let kinds = [
        request.range != Range::default(),
        !request.cameras.is_empty(),
        request.selection.conditions != Conditions::default(),
        request.selection.best.is_some(),
        request.selection.sets.is_some() || request.like.is_some(),
    ];
    kinds.into_iter().filter(|is| *is).count()
}

/// The name of what a request makes.
fn file(request: &Request) -> String {
    let usual = if request.sheet { "sheet" } else { "album" };
    request.name.clone().unwrap_or_else(|| usual.to_owned())
}

/// Returns a part for the rest with words for all pictures instead; `None` for another part.
fn rest(part: &str) -> Option<String> {
    let lower = part.to_ascii_lowercase();
    let find = |rest: &&str| {
        let begin = lower.find(*rest)?;
        let (before, behind) = (part.get(..begin)?, part.get(begin + rest.len()..)?);
        // "Those without people" are others, and an album may be called "the rest".
        let is_alone = *rest != "those without" || behind.trim_start().starts_with("in");
        let is_meant = is_alone && !before.contains('"');
        is_meant.then(|| format!("{before}all photos{behind}"))
    };
    REST.iter().find_map(find)
}

/// Divides `the brightest and the 2 darkest photos` at its orders, each an album of that name.
fn two_orders(text: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let order = |at: usize| {
        words
            .get(at)
            .and_then(|word| ORDERS.get(&word.to_lowercase()))
    };
    let is_led = |at: usize| {
        let word = words.get(at);
        word.is_some_and(|word| *word == "the" || number(word).is_some())
    };
    let and = (1..words.len()).find(|at| words.get(*at) == Some(&"and"))?;
    // "The best and sharpest photos" are both.
    let second = (and + 1..words.len()).find(|at| !is_led(*at))?;
    let begin = (0..and - 1).rev().take_while(|at| is_led(*at)).last();
    let (begin, _, _) = (begin.unwrap_or(and - 1), order(and - 1)?, order(second)?);
    let (lead, behind) = (words.get(..begin)?, words.get(second + 1..)?);
    let part = |order: &[&str]| {
        let name = order.last().copied().unwrap_or_default();
        let words = [lead, order, behind].concat().join(" ");
        format!("{words}, album called {name}")
    };
    let parts = [words.get(begin..and)?, words.get(and + 1..=second)?].map(part);
    (second > and + 1).then(|| parts.to_vec())
}

/// A part of a sentence, and what ends it: `,`, `:` or a word such as "and".
type Clause = (String, String);

/// Divides a text into parts with an output each.
fn divide(text: &str) -> Option<Vec<String>> {
    let (mut frame, mut parts, mut open) = (None, Vec::<String>::new(), String::new());
    for (clause, end) in clauses(text) {
        match output(&clause, !parts.is_empty()) {
            Some(output) => parts.push(std::mem::take(&mut open) + &output),
            None if parts.is_empty() && [",", ":"].contains(&end.as_str()) && open.is_empty() => {
                frame = frame.or(Some(albums_of(&clause)?));
            }
            None => open = format!("{open}{clause} {end} "),
        }
    }
    // What follows the last output may be of it, or of all; the folder is of all.
    let says_more = |word: &String| !is_filler(word) && !is_folder(word);
    let is_open = tokens(&open).iter().any(says_more);
    let is_counted = frame
        .flatten()
        .is_none_or(|albums| albums == parts.len() as u64);
    let is_divided = !is_open && is_counted && (2..=MAX_PARTS).contains(&parts.len());
    is_divided.then_some(parts)
}

/// The number of `make two albums out of ./a`, if it has one; `None` if a clause says more than the
/// folder. "Parcel photos in ./parcels" does not.
fn albums_of(clause: &str) -> Option<Option<u64>> {
    let words = tokens(clause);
    let count = words.iter().find_map(|word| number(word));
    let folders = words.iter().filter(|word| is_folder(word));
    let names: Vec<&str> = folders
        .flat_map(|folder| folder.split(|c: char| !c.is_alphanumeric()))
        .collect();
    let is_described = |at: usize| {
        let is_named = |word: &String| {
            let is_one_of = |name: &&str| *name != word && singular(name) == *word;
            part_of_day(word).is_none() && names.iter().any(is_one_of)
        };
        words.get(at).is_some_and(is_named)
            && words.get(at + 1).is_some_and(|next| is_picture_noun(next))
    };
    let is_frame = |(at, word): (usize, &String)| {
        let is_usual = is_filler(word) || is_folder(word) || number(word).is_some();
        is_usual || one_of("albums|out", word) || is_described(at)
    };
    let has_albums = words.iter().any(|word| word == "albums");
    (words.iter().enumerate().all(is_frame) && count.is_some() == has_albums).then_some(count)
}

/// Divides a text at commas, colons, "and" and the like outside of quotation marks.
fn clauses(text: &str) -> Vec<Clause> {
    let (mut all, mut open): (Vec<Clause>, _) = (Vec::new(), Vec::new());
    let mut is_quoted = false;
    for word in text.split_whitespace() {
        let was_quoted = is_quoted;
        is_quoted ^= word.matches('"').count() % 2 == 1;
        let bare = word.trim_end_matches([',', ';', ':', '.']);
        let is_joint = !was_quoted && one_of("and|then|while|but", &bare.to_lowercase());
        if !is_joint {
            open.push(bare);
        }
        let ends = !is_quoted && bare.len() < word.len();
        if (is_joint || ends) && !open.is_empty() {
            let end = match (is_joint, word.ends_with(':')) {
                (true, _) => bare,
                (_, true) => ":",
                _ => ",",
            };
            all.push((open.join(" "), end.to_owned()));
            open.clear();
        }
    }
    all.push((open.join(" "), ",".to_owned()));
    all.retain(|(clause, _)| !clause.is_empty());
    all
}

/// Returns a clause with an output in the form that the rules read; `None` if it names none. Behind
/// another part "one for the Canon" is an album.
fn output(clause: &str, is_further: bool) -> Option<String> {
    let words: Vec<&str> = clause.split(' ').collect();
    let is_in = |at: usize, list: &str| {
        let word = words.get(at).map(|word| word.to_lowercase());
        word.is_some_and(|word| one_of(list, &word))
    };
    let last = words.len() - 1;
    match () {
        () if is_further && is_in(0, "one") && is_in(1, "for|of|with") => {
            Some(format!("an album {}", words.get(1..)?.join(" ")))
        }
        () if is_in(last, "another") => Some(format!("{} an album", words.get(..last)?.join(" "))),
        () if (0..=last).any(|at| is_in(at, "album|sheet")) => Some(clause.to_owned()),
        // "The sharp ones go to good".
        () if last > 2 && is_in(last - 1, "into|to") && is_in(last - 2, "go|goes") => {
            let name = words.last()?.trim_matches('"');
            let rest = words.get(..last - 2)?.join(" ");
            let is_free = !is_filler(name) && !is_folder(name);
            is_free.then(|| format!("{rest}, album called \"{name}\""))
        }
        () => None,
    }
}
