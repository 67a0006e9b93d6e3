//! Cameras and zones in a request: `of the gate`, `at the bench`, `taken with the Canon EOS R5`.
//!
//! - A camera is one that the box knows, one behind the word `camera`, or the model of EXIF.
//! - A model begins with "taken with" or the like, or has the name of a maker: "of the Eiffel
//!   Tower" is none.
//! - "And" or "or" between cameras: each picture is of one of them.

use super::self_standing::Test;
use super::unread_words::{TAKEN, Words};
use super::words::{ORDERS, is_filler, is_folder, is_maker, is_path, is_picture_word};
use crate::cameras::{CameraNames, KnownNames, MAX_NAME_WORDS};

/// Words between "taken" and a camera.
const WITH: [&str; 4] = ["with", "by", "on", "from"];

impl Words {
    /// Uses up the cameras of which pictures are wanted: those that the box knows, or `of camera
    /// X100`.
    pub(super) fn cameras(&mut self, known: &CameraNames) -> Vec<String> {
        let is_named = |place: &usize| self.known_camera_at(*place, known).is_some();
        // "Split into the gate and the dock" asks for groups.
        let is_group = |place: &usize| {
            let article = self.with_lead(*place, &["the"]);
            self.is_after(article, 1, &["into"]) && is_named(place)
        };
        if (0..self.len()).any(|at| is_group(&at)) {
            return Vec::new();
        }
        let named = (0..self.len()).find(is_named);
        let Some(place) = named.or_else(|| (0..self.len()).find(|at| self.names_camera(*at)))
        else {
            return self.all_cameras(known);
        };
        self.use_up_cameras(self.with_lead(place, &["camera"]), known)
    }

    /// Uses up `both cameras`, if the box has two, or `all cameras`.
    fn all_cameras(&mut self, known: &CameraNames) -> Vec<String> {
        let is_all = |at: &usize| self.is_in(*at, "all|both") && self.stands(at + 1, &["cameras"]);
        let ids = known.ids();
        if let Some(at) = (0..self.len()).find(is_all)
            && (self.stands(at, &["all"]) || ids.len() == 2)
            && !self.has_folder
        {
            self.use_up(at, 2);
            return ids;
        }
        Vec::new()
    }

    /// Uses up the models of EXIF of which pictures are wanted.
    pub(super) fn models(&mut self, known: &CameraNames) -> Vec<String> {
        let found = (0..self.len())
            .filter(|at| !self.is_denied(*at))
            .find_map(|at| {
                let (_, end) = self.camera_model(at)?;
                // "Canon or Nikon photos".
                let behind_all = || Some(self.cameras_at(at, known)?.1);
                let lead = self.lead_of_model(at, end);
                Some((lead.or_else(|| self.lead_of_model(at, behind_all()?))?, at))
            });
        let Some((begin, place)) = found else {
            return Vec::new();
        };
        let names = self.use_up_cameras(place, known);
        self.use_up(begin, place - begin);
        names
    }

    fn use_up_cameras(&mut self, place: usize, known: &CameraNames) -> Vec<String> {
        let Some((names, end)) = self.cameras_at(place, known) else {
            return Vec::new();
        };
        // "On the gate".
        let article = self.with_lead(place, &["the"]);
        let begin = match self.with_lead(article, &["on"]) {
            lead if lead < article => lead,
            _ => place,
        };
        self.use_up(begin, end - begin);
        names
    }

    /// The cameras at a place, joined by "and" or "or", and the place behind them.
    pub(super) fn cameras_at(
        &self,
        place: usize,
        known: &CameraNames,
    ) -> Option<(Vec<String>, usize)> {
        let (first, mut end) = self.camera_at(place, known)?;
        let mut names = vec![first];
        while self.is_one(end, &["and", "or"])
            && let Some((name, behind)) = self.camera_at(end + 1, known)
        {
            names.push(name);
            end = behind;
        }
        Some((names, end))
    }

    /// The camera at a place, perhaps beside the word `camera`, and the place behind it.
    fn camera_at(&self, place: usize, known: &CameraNames) -> Option<(String, usize)> {
        let begin = place + usize::from(self.is_one(place, &["the", "my", "our"]));
        let named = begin + usize::from(self.stands(begin, &["camera"]));
        if let Some((id, length)) = self.known_camera_at(named, known) {
            let end = named + length;
            return Some((id, end + usize::from(self.stands(end, &["camera"]))));
        }
        if named > begin
            && let Some(name) = self.get(named)
            && !is_filler(name)
        {
            return Some((name.trim_matches('"').to_owned(), named + 1));
        }
        self.camera_model(place)
    }

    /// The ID of the camera whose name stands at a place, and the number of its words.
    pub(super) fn known_camera_at(
        &self,
        place: usize,
        cameras: &CameraNames,
    ) -> Option<(String, usize)> {
        (1..=MAX_NAME_WORDS).rev().find_map(|length| {
            let words: Option<Vec<&str>> = (place..place + length).map(|n| self.get(n)).collect();
            let words = words.filter(|words| !words.iter().all(|word| is_filler(word)))?;
            Some((cameras.id(&words.join(" "))?.to_owned(), length))
        })
    }

    /// `at the bench` or `in the bench zone`: a zone or line of events that the box knows.
    pub(super) fn known_zone(&self, place: usize, known: &KnownNames) -> Option<(Test, usize)> {
        let begin = place + 1 + usize::from(self.stands(place + 1, &["the"]));
        // "Of benches" shows some.
        let is_of = self.stands(place, &["of"]) && begin > place + 1;
        let is_led = is_of || self.is_in(place, "at|in|on");
        let is_camera = self.known_camera_at(begin, &known.cameras).is_some();
        let (zone, end) = (1..=MAX_NAME_WORDS).rev().find_map(|length| {
            let words: Option<Vec<&str>> = (begin..begin + length).map(|at| self.get(at)).collect();
            Some((known.zone(&words?.join(" "))?, begin + length))
        })?;
        let end = end + usize::from(self.is_in(end, "zone|line|area"));
        let is_meant = is_led && !is_camera && !self.has_folder;
        is_meant.then(|| (Test::is("zone", zone), end))
    }

    /// Returns whether the word at a place is one of the name of a known camera.
    pub(super) fn is_in_camera(&self, place: usize, cameras: &CameraNames) -> bool {
        let mut begins = place.saturating_sub(MAX_NAME_WORDS)..=place;
        begins.any(|at| {
            let known = self.known_camera_at(at, cameras);
            known.is_some_and(|(_, length)| at + length > place)
        })
    }

    /// Returns whether the word at `place` names a camera: `of camera X100` or `camera "EOS R5"`.
    pub(super) fn names_camera(&self, place: usize) -> bool {
        let is = |back: usize, words: &[&str]| self.is_after(place, back, words);
        let fits = match self.get(place) {
            Some(name) if name.starts_with('"') => !is(2, &["by", "each", "per", "every"]),
            Some(name) if is_number_of_model(name) => !is_path(name),
            Some(name) => is(2, &["of", "from"]) && !is_filler(name) && !is_path(name),
            None => false,
        };
        fits && is(1, &["camera"])
    }

    /// The place where the phrase begins that makes a model at a place the camera of pictures.
    pub(super) fn lead_of_model(&self, place: usize, end: usize) -> Option<usize> {
        let is = |back: usize, words: &[&str]| self.is_after(place, back, words);
        let has_number = || (place..end).any(|at| self.get(at).is_some_and(is_number_of_model));
        let has_maker = self.has_maker(place, end);
        // "Sort into Canon and iPhone photos" and "group by Canon" ask for groups.
        let is_group =
            is(1, &["into"]) || is(1, &["by"]) && !is(2, &TAKEN) && self.is_arranged_before(place);
        match () {
            () if is_group => None,
            // "Taken on a Sunday" and "from a tower" name no model.
            () if is(1, &WITH) && is(2, &TAKEN) => {
                let is_clear = is(1, &["with", "by"]) || has_maker || has_number();
                is_clear.then(|| place - 2)
            }
            () if is(1, &["by"]) && (has_maker || has_number()) => Some(place - 1),
            () if !has_maker => None,
            // "What the Nikon took".
            () if self.has_folder
                && self.is_one(place, &["the", "my", "our"])
                && !is(1, &["and", "or"]) =>
            {
                Some(place)
            }
            () if is(1, &["of", "from", "on", "with", "only"]) => Some(place - 1),
            () => self
                .get(end)
                .filter(|word| is_picture_word(&word.to_lowercase()))
                .map(|_| place),
        }
    }

    /// Returns whether the name of a maker is among some words.
    pub(super) fn has_maker(&self, place: usize, end: usize) -> bool {
        (place..end).any(|at| self.get(at).is_some_and(is_maker))
    }

    /// The words at a place that have a capital or a digit, or name a maker, and the place behind.
    /// A capital alone without an article may begin a person's name; no model begins with a number.
    pub(super) fn camera_model(&self, place: usize) -> Option<(String, usize)> {
        let has_article = self.is_one(place, &["the", "a", "an", "my"]);
        let begin = place + usize::from(has_article);
        let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
        let is_clear = |word: &&str| is_number_of_model(word) || is_maker(word);
        let is_name =
            |word: &str| word.contains(char::is_uppercase) || has_digit(word) || is_maker(word);
        // Of "the EOS R5, 20 newest" the number is no word of the name.
        let is_count = |at: usize, word: &str| {
            word.parse::<u64>().is_ok() && self.meaning(at + 1, ORDERS).is_some()
        };
        let words = (begin..self.len()).map_while(|at| {
            let is_part = |word: &&str| {
                let is_other = is_folder(word) || is_filler(word);
                !is_other && is_name(word) && !is_count(at, word)
            };
            self.get(at).filter(is_part)
        });
        let words: Vec<&str> = words.collect();
        let is_number = words.first()?.parse::<u64>().is_ok();
        if is_number || !has_article && !words.iter().any(is_clear) {
            return None;
        }
        let end = begin + words.len();
        let end = end + usize::from(self.is_in(end, "camera|device|phone"));
        Some((words.join(" "), end))
    }
}

/// Returns whether a word is one such as D850: letters and digits. "5th" is a date.
pub(super) fn is_number_of_model(word: &str) -> bool {
    let has = |test: fn(char) -> bool| word.contains(test);
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_ordinal = ["st", "nd", "rd", "th"].contains(&rest);
    has(|c| c.is_ascii_digit()) && has(char::is_alphabetic) && !is_ordinal
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn cameras_are_named_by_any_preposition_and_joined() {
        let mut known = CameraNames::default();
        known.add("gate", Some("Front gate"));
        known.add("dock-2", None);
        for (text, expected) in [
            ("photos taken with the Canon EOS R5", "Canon EOS R5; "),
            ("photos by Canon", "Canon; "),
            ("by the D850 by day", "D850; by day"),
            ("from the iPhone 12", "iPhone 12; "),
            ("after 18:00 with the Nikon", "Nikon; after 18:00"),
            ("the Canon EOS R5 photos", "Canon EOS R5; "),
            ("Canon or Nikon photos", "Canon, Nikon; "),
            ("iPhone Photos", "iPhone; "),
            (
                "taken by the Nikon D850 or my iPhone 12",
                "Nikon D850, iPhone 12; ",
            ),
            ("taken with the EOS R5, 20 newest", "EOS R5; 20 newest"),
            (
                "of the Front Gate and dock 2 by day",
                "gate, dock-2; by day",
            ),
            ("on the gate camera", "gate; "),
            ("of camera X100", "X100; "),
            ("of the Eiffel Tower", "; Eiffel Tower"),
            ("of Pier 39", "; Pier 39"),
            ("taken by Anna", "; by Anna"),
            ("taken on a Sunday", "; on Sunday"),
            ("organise ./a by Canon", "; ./a by Canon"),
            ("split into Canon photos", "; Canon"),
            ("split into the gate and dock 2", "; gate dock 2"),
            ("taken on the 5th", "; on 5th"),
            ("not by the Nikon", "; not by Nikon"),
        ] {
            let mut words = Words::new(text, "2026-11-28T15:00:00".parse().unwrap());
            let mut names = words.models(&known);
            if names.is_empty() {
                names = words.cameras(&known);
            }
            let found = format!("{}; {}", names.join(", "), words.left().join(" "));
            assert_eq!(found, expected, "{text}");
        }
    }
}
