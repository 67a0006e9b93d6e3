//! Requests for several outputs: `the sharp ones into album good, the rest into album more`.
//!
//! - A request is divided only if each part names an output, and one is of the rest or the whole is
//!   not understood.
//! - What stands before the first part and a comma or colon, and the folder, are of each part.
//! - "The rest" is what the part before has left of its pictures.
//!
//! Not here: how a part is read ([`Request::read`]).

use jiff::civil::DateTime;
use watchkeeper_english::one_of;

use super::condition_set::Conditions;
use super::request::Request;
use super::words::{ORDERS, Range, is_filler, is_folder, is_path, number, tokens};
use crate::cameras::KnownNames;

/// Most parts of a request.
const MAX_PARTS: usize = 8;
/// Words that stand for what other parts have left.
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
    divide(text).is_some_and(|(_, parts)| parts.iter().any(|part| rest(part).is_some()))
}

/// Reads a request as several, each with an output of its own name.
pub(super) fn read(text: &str, now: DateTime, names: &KnownNames) -> Option<Vec<Request>> {
    let all = tokens(text);
    let folder = all
        .iter()
        .find(|word| is_folder(word) && is_path(word.trim_matches('"')));
    let (shared, parts) = divide(text).or_else(|| two_orders(text))?;
    let mut requests: Vec<Request> = Vec::new();
    for part in parts {
        let rest = rest(&part);
        let said = match &rest {
            Some(rest) => rest.clone(),
            None => format!("{shared}{part}"),
        };
        let is_whole = folder.is_none_or(|folder| said.contains(folder.as_str()));
        let said = match folder.filter(|_| !is_whole) {
            Some(folder) => format!("photos in {folder}, {said}"),
            None => said,
        };
        let mut request = Request::read(&said, now, names).ok()?;
        let narrows = request.conditions != Conditions::default() || request.organises();
        let narrows = narrows || request.best.is_some() || request.range != Range::default();
        match rest {
            Some(_) => leave(&mut request, requests.last()?)?,
            None if !is_whole && !narrows && request.cameras.is_empty() => return None,
            None => {}
        }
        let is_taken = |name: &String| requests.iter().any(|one| file(one) == *name);
        let wanted = file(&request);
        if is_taken(&wanted) {
            let mut others = (requests.len() + 1..).map(|n| format!("{wanted} {n}"));
            request.name = others.find(|name| !is_taken(name));
        }
        requests.push(request);
    }
    Some(requests)
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
        let behind = part.get(begin + rest.len()..)?;
        // "Those without people" are others.
        let is_alone = *rest != "those without" || behind.trim_start().starts_with("in");
        is_alone.then(|| {
            format!(
                "{}all photos{behind}",
                part.get(..begin).unwrap_or_default()
            )
        })
    };
    REST.iter().find_map(find)
}

/// Makes a request one for what a former part has left of its pictures.
fn leave(request: &mut Request, former: &Request) -> Option<()> {
    let is_clear = former.sets.is_none() && former.like.is_none() && former.rest_of.is_none();
    let is_bounded = former.conditions != Conditions::default() || former.best.is_some();
    if !is_clear {
        return None;
    }
    request.source.clone_from(&former.source);
    request.more_folders.clone_from(&former.more_folders);
    if is_bounded {
        request.range = former.range;
        request.cameras.clone_from(&former.cameras);
    }
    if former.best.is_some() {
        request.conditions.clone_from(&former.conditions);
    }
    request.rest_of = Some(Box::new(former.clone()));
    Some(())
}

/// Divides `the brightest and the 2 darkest photos` at its orders, each an album of that name.
fn two_orders(text: &str) -> Option<(String, Vec<String>)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_order = |at: usize| {
        words
            .get(at)
            .and_then(|word| ORDERS.get(&word.to_lowercase()))
    };
    let is_led = |at: usize| {
        words
            .get(at)
            .is_some_and(|word| *word == "the" || number(word).is_some())
    };
    let and = (1..words.len()).find(|at| words.get(*at) == Some(&"and"))?;
    let second = (and + 1..words.len()).find(|at| !is_led(*at))?;
    let begin = (0..and - 1)
        .rev()
        .take_while(|at| is_led(*at))
        .last()
        .unwrap_or(and - 1);
    (is_order(and - 1)?, is_order(second)?);
    let (lead, behind) = (words.get(..begin)?, words.get(second + 1..)?);
    let part = |order: &[&str]| {
        let name = order.last().copied().unwrap_or_default();
        format!(
            "{}, album called {name}",
            [lead, order, behind].concat().join(" ")
        )
    };
    let parts = [words.get(begin..and)?, words.get(and + 1..=second)?].map(part);
    Some((String::new(), parts.to_vec()))
}

/// A part of a sentence, and what ends it: `,`, `:` or a word such as "and".
type Clause = (String, String);

/// Divides a text into what is shared and the parts with an output each.
fn divide(text: &str) -> Option<(String, Vec<String>)> {
    let (mut shared, mut parts) = (String::new(), Vec::<String>::new());
    let mut open = String::new();
    for (clause, end) in clauses(text) {
        let joint = if end == "," {
            ", ".to_owned()
        } else {
            format!(" {end} ")
        };
        let output = output(&clause, !parts.is_empty());
        match output {
            Some(output) => parts.push(std::mem::take(&mut open) + &output),
            None if parts.is_empty() && [",", ":"].contains(&end.as_str()) && open.is_empty() => {
                shared = frame(&clause);
            }
            None => open = open + &clause + &joint,
        }
    }
    // What follows the last output may be of it, or of all; the folder is of all.
    let is_open = tokens(&open)
        .iter()
        .any(|word| !is_filler(word) && !is_folder(word));
    let is_divided = !is_open && (2..=MAX_PARTS).contains(&parts.len());
    is_divided.then_some((shared, parts))
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

/// What is shared of `make two albums out of ./a`: the number and its noun are said by the parts.
fn frame(clause: &str) -> String {
    let words: Vec<&str> = clause.split(' ').collect();
    let is_count = |at: usize| {
        let is_noun = |at: usize| {
            words
                .get(at)
                .is_some_and(|word| one_of("albums|folders", word))
        };
        let is_number = |at: usize| words.get(at).is_some_and(|word| number(word).is_some());
        is_noun(at) || is_number(at) && is_noun(at + 1)
    };
    let kept = words.iter().enumerate().filter(|(at, _)| !is_count(*at));
    let kept: Vec<&str> = kept.map(|(_, word)| *word).collect();
    format!("{}, ", kept.join(" "))
}

/// Returns a clause with an output in the form that the rules read; `None` if it names none. Behind
/// another part "one for the Canon" is an album.
fn output(clause: &str, is_further: bool) -> Option<String> {
    let words: Vec<&str> = clause.split(' ').collect();
    let is_in = |at: usize, list: &str| {
        words
            .get(at)
            .is_some_and(|word| one_of(list, &word.to_lowercase()))
    };
    let last = words.len() - 1;
    let is_free = |word: &str| !is_filler(word) && !is_folder(word) && number(word).is_none();
    match () {
        () if is_further && is_in(0, "one") && is_in(1, "for|of|with") => {
            Some(format!("an album {}", words.get(1..)?.join(" ")))
        }
        () if is_in(last, "another") => Some(format!("{} album", clause.replace("another", "an"))),
        () if (0..=last).any(|at| is_in(at, "album|sheet")) => Some(clause.to_owned()),
        // "The sharp ones go to good".
        () if last > 1 && is_in(last - 1, "into|to") && is_free(words.last()?) => {
            let verb = usize::from(is_in(last - 2, "go|goes|move|moved"));
            let rest = words.get(..last - 1 - verb)?.join(" ");
            Some(format!(
                "{rest}, album called \"{}\"",
                words.last()?.trim_matches('"')
            ))
        }
        () => None,
    }
}
