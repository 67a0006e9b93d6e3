//! Whether a request that the rules do not plan is one for a job.
//!
//! Invariant: a request is taken only if it begins as one for a job does, and neither asks nor
//! waits for something. Any other belongs to the assistant.

use jiff::civil::DateTime;
use watchkeeper_english::{is_courtesy, one_of};

use super::request::Request;
use super::words::{ORDERS, is_maker, is_path, is_picture_word, number, tokens};
use crate::cameras::KnownNames;

/// Words before the first one that counts, beside [`is_courtesy`].
const OPENINGS: &str = "all|give|i'd|let|like|now|to";

/// Verbs that name nothing but a job here, whatever follows.
const ORGANISING: &str = "organise|organize|sort|arrange";

/// Verbs of requests for jobs that say which pictures.
const BEGINNINGS: &str = "\
    album|build|choose|clean|collect|contact|copy|create|drop|export|extract|gather|group|keep\
    |leave|make|pick|put|rank|remove|select|separate|split|tag|tidy";

/// First words of requests for jobs that say which pictures are kept, and of questions.
const UNCLEAR_BEGINNINGS: &str = "find|get|last|show|this|today|which|yesterday";

/// Words of questions, and of watches that wait for something.
const QUESTIONS: &str = "\
    alert|how|if|many|much|notify|number|tell|warn|what|when|whenever|whether|who|why";

/// Returns whether a text asks how many there are.
pub(super) fn asks_number(text: &str) -> bool {
    let mut words = tokens(text).into_iter();
    words.any(|word| one_of("how|many|number|count", &word.to_lowercase()))
}

/// Returns whether a text is a request for a job, also if the rules do not understand all of it.
///
/// It says which pictures, and what to do with them or in which folder they are.
pub fn is_job_request(text: &str, now: DateTime, names: &KnownNames) -> bool {
    let words: Vec<String> = tokens(text)
        .iter()
        .map(|word| word.to_lowercase())
        .collect();
    let Some(first) = words
        .iter()
        .find(|word| !(is_courtesy(word) || one_of(OPENINGS, word)))
    else {
        return false;
    };
    let is_question = words.iter().any(|word| one_of(QUESTIONS, word));
    let has_address = words.iter().any(|word| word.contains("://"));
    if is_question || has_address {
        return false;
    }
    let names_folder = || words.iter().any(|word| is_folder(word));
    let read = || {
        Request::read_in_part(text, now, names)
            .ok()
            .map(|(request, _)| request)
    };
    if one_of(ORGANISING, first) {
        return true;
    }
    if one_of(BEGINNINGS, first) {
        return read().is_some_and(|request| request.organises() || names_folder());
    }
    let is_order = ORDERS.get(first).is_some();
    let is_unclear = one_of(UNCLEAR_BEGINNINGS, first)
        || is_picture_word(first)
        || number(first).is_some()
        || is_maker(first)
        || is_order;
    is_unclear && read().is_some_and(|request| request.keeps() || names_folder())
}

/// Whether a word is the path of a folder, as far as its name shows: that of a file has a dot.
fn is_folder(word: &str) -> bool {
    let path = word.trim_matches('"').trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or_default();
    is_path(word.trim_matches('"')) && !name.trim_start_matches('.').contains('.')
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn requests_for_jobs_are_told_from_questions_and_watches() {
        let now: DateTime = "2026-11-28T15:00:00".parse().unwrap();
        for (text, expected) in [
            (
                "organise last week's deliveries by bay, the crispest three of each",
                true,
            ),
            ("three crisp ones of ./photos", true),
            ("Canon photos in ./photos", true),
            ("could you please sort the pictures nicely", true),
            ("make an album of yesterday's cars, the shiny ones", true),
            ("the sharpest of ./a that show a person", true),
            ("pick a moody pair out of /srv/photos/2026", true),
            ("what happened yesterday by hour", false),
            ("how many cars came last week by day", false),
            ("show me how many people came yesterday by camera", false),
            ("find when the truck came last week by bay", false),
            ("tell me when a car parks by the gate today", false),
            (
                "watch the gate and keep the best pictures of each day",
                false,
            ),
            ("count the cars of last week by day", false),
            ("show yesterday's latest blue event", false),
            ("show yesterday's tall people by camera", false),
            ("show the best three of yesterday's tall people", true),
            (
                "make rtsp://10.0.0.7/main a camera by day since 2026-01-01",
                false,
            ),
            ("find people in /srv/video.mp4", false),
            ("tag the photos in ./a by their mood", true),
            ("which photos in ./a look moody", true),
            ("which camera saw a car yesterday", false),
            ("which events of yesterday are false", false),
            ("remove camera gate", false),
            ("please", false),
            ("pick a picture of the gate every hour", false),
            ("", false),
        ] {
            assert_eq!(
                is_job_request(text, now, &KnownNames::default()),
                expected,
                "{text}"
            );
        }
    }
}
