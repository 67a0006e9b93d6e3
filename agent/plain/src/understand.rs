//! The way from a text to an answer.
//!
//! - Several requests of one kind are one proposal or none; those of several kinds are refused.

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::rule::Condition;
use watchkeeper_english::{several, singulars};

use crate::DataError;
use crate::MAX_CHARS;
use crate::amend;
use crate::answer::{Answer, Looked, Missing, Question, Unknown};
use crate::closed::content_words;
use crate::control;
use crate::edit;
use crate::follow_up::follow_up;
use crate::intent::Intent;
use crate::lexicon::{Lexicon, folded};
use crate::look;
use crate::names;
use crate::new_watch::NewWatch;
use crate::pieces::{self, Request};
use crate::propose::{ChangeSet, deploy, pause, propose};
use crate::reader::Reader;
use crate::refusal::{Notes, Refusal};
use crate::request::Parts;
use crate::scene::{Deployed, RUNNING, Scene, joined, quoted};
use crate::templates::Template;
use crate::token::{Token, tokens};

const NOT_WANTED: &str = "I understood that something is not wanted. Say what to watch for, or what to stop or to change, such as \"change the gate watch to only cars\".";

const NOTHING_FOUND: &str = "I did not find a request that I understand; I read common requests in English. Ask \"help\" for examples.";
const NO_VERB: &str = "I read no request there. I can watch, count, notify and answer questions. Begin with \"tell me when\", \"count\", \"pause\" or \"change\", or ask a question, such as \"how many cars today\".";

/// A text that is too long to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request has {found} characters; write at most {MAX_CHARS}, one request at a time")]
pub struct TooLong {
    /// How many it has.
    pub found: usize,
}

/// Understands requests. Made once; holds the words and the templates.
#[derive(Debug, Clone)]
pub struct Plain {
    lexicon: Lexicon,
}

impl Plain {
    /// With the words and templates that the program carries.
    ///
    /// # Errors
    /// What is wrong with the data files.
    pub fn new() -> Result<Self, DataError> {
        Ok(Self {
            lexicon: Lexicon::builtin()?,
        })
    }

    /// The templates of the commonest watches.
    pub fn templates(&self) -> &[Template] {
        &self.lexicon.templates
    }

    /// The classes, of those `known`, that a word stands for: one of them, its plural, or a group.
    pub fn classes<'k>(&self, word: &str, known: &[&'k str]) -> Vec<&'k str> {
        let word = folded(word);
        let group = self.lexicon.class(&word).filter(|(_, narrower)| !narrower);
        let group = group.map_or(&[][..], |(labels, _)| labels);
        let forms: Vec<String> = singulars(&word).chain(group.iter().cloned()).collect();
        let is_meant = |label: &&&str| forms.iter().any(|form| form == **label);
        known.iter().filter(is_meant).copied().collect()
    }

    /// Understands one request.
    ///
    /// # Errors
    /// [`TooLong`] when the text has more than [`MAX_CHARS`] characters; it isn't read then.
    pub fn understand(&self, text: &str, scene: &Scene) -> Result<Answer, TooLong> {
        self.corrected(text, &[], scene)
    }

    /// Understands a request together with the corrections of its proposal, in their order.
    ///
    /// # Errors
    /// [`TooLong`] when one of the texts has more than [`MAX_CHARS`] characters; none is read then.
    pub fn corrected(
        &self,
        text: &str,
        corrections: &[String],
        scene: &Scene,
    ) -> Result<Answer, TooLong> {
        let texts = std::iter::once(text).chain(corrections.iter().map(String::as_str));
        let mut lengths = texts.map(|text| text.chars().count());
        if let Some(found) = lengths.find(|length| *length > MAX_CHARS) {
            return Err(TooLong { found });
        }
        let said = corrections.iter().map(|said| self.reader(said, scene));
        let said: Vec<Reader<'_>> = said.collect();
        Ok(self.read(text, &said, &self.reader(text, scene)))
    }

    /// Whether a text says how something that was proposed should be, and is not a separate
    /// request.
    pub fn is_correction(&self, text: &str, scene: &Scene) -> bool {
        text.chars().count() <= MAX_CHARS && amend::is_correction(&self.reader(text, scene))
    }

    /// Understands "and in the yard?" or the like as the question before with another camera, class
    /// or time. Returns the whole question too.
    pub fn follow_up(&self, before: &str, text: &str, scene: &Scene) -> Option<(String, Looked)> {
        if [before, text]
            .map(str::len)
            .into_iter()
            .any(|length| length > MAX_CHARS)
        {
            return None;
        }
        let whole = follow_up(&self.reader(before, scene), &self.reader(text, scene))?;
        match self.understand(&whole, scene) {
            Ok(Answer::Look(Looked { look, text })) => {
                let text = format!("Read as {whole:?}. {text}");
                Some((whole, Looked { look, text }))
            }
            _ => None,
        }
    }

    /// Whether a text asks for something by itself, and so answers no question. It is an order
    /// about what runs, or a watch with its condition.
    pub fn is_request(&self, text: &str, scene: &Scene) -> bool {
        let asks = |request: &Request<'_>| {
            let waits = request.intent == Intent::Watch && request.r.has(&["when|if|whenever"]);
            waits || request.intent.is_control()
        };
        text.chars().count() <= MAX_CHARS
            && pieces::requests(&self.reader(text, scene)).iter().any(asks)
    }

    /// Reads a text with the words for what is often written in their place, such as `pls`.
    fn reader<'s>(&'s self, text: &str, scene: &'s Scene) -> Reader<'s> {
        let right = |token: Token| match self.lexicon.written.get(&token.text) {
            Some(right) => tokens(right),
            None => vec![token],
        };
        let tokens = tokens(text).into_iter().flat_map(right).collect();
        Reader::new(tokens, scene, &self.lexicon)
    }

    /// Reads a request in plain words.
    fn read(&self, text: &str, corrections: &[Reader<'_>], whole: &Reader<'_>) -> Answer {
        let mut notes = whole.notes.clone();
        let requests = pieces::requests(whole);
        let Some(first) = requests.first() else {
            return unknown(Vec::new(), String::new());
        };
        let is_other = |request: &&Request<'_>| {
            let are_orders = request.intent.is_control() && first.intent.is_control();
            request.intent != first.intent && !are_orders
        };
        let other = requests.iter().find(is_other);
        let forbidden = requests.iter().find(|one| one.intent == Intent::Not);
        let answer = match first.intent {
            _ if let Some(forbidden) = forbidden => Err(Refusal::meaning(
                forbidden.r.remedy("forbidden").unwrap_or(NOT_WANTED),
            )),
            Intent::Nothing => {
                let mut r = first.r.clone();
                names::cameras(&mut r);
                let classes = names::find_classes(&r);
                names::mark_classes(&mut r, &classes);
                let usual = if classes.is_empty() { "" } else { NO_VERB };
                let text = first.r.remedy("nothing").unwrap_or(usual);
                return unknown(content_words(&r), text.to_owned());
            }
            _ if let Some(other) = other => Err(one_at_a_time(&other.r)),
            Intent::Look => return self.look(first, notes, requests.len() == 1),
            Intent::Watch => watches(&requests, corrections, whole.scene, &mut notes),
            _ => orders(&requests, corrections, &mut notes),
        };
        let answer = answer.and_then(|proposed| propose(proposed, notes));
        match answer {
            Ok(proposal) => Answer::Propose(Box::new(proposal)),
            Err(refusal) if !refusal.not_read.is_empty() => Answer::Unknown(Unknown {
                text: refusal.text,
                not_understood: refusal.not_read,
                unseen: match refusal.about {
                    Missing::KnownClass => refusal.choices,
                    _ => Vec::new(),
                },
            }),
            Err(refusal) => Answer::Ask(Question {
                about: refusal.about,
                text: refusal.text,
                choices: refusal.choices,
                request: text.trim().to_owned(),
            }),
        }
    }

    fn look(&self, request: &Request<'_>, notes: Notes, is_alone: bool) -> Answer {
        let mut r = request.r.clone();
        r.notes = notes;
        match look::look(&mut r) {
            Ok(_) if !is_alone => {
                unknown(Vec::new(), "Please ask one question at a time.".to_owned())
            }
            Ok((look, text)) => {
                let mut said = vec![text];
                said.extend(r.notes.assumed);
                said.retain(|s| !s.is_empty());
                Answer::Look(Looked {
                    look,
                    text: said.join(" "),
                })
            }
            Err(text) => unknown(content_words(&r), text),
        }
    }
}

/// The answer to a text that is not understood. With an empty `text` it says how to get examples.
fn unknown(not_understood: Vec<String>, text: String) -> Answer {
    Answer::Unknown(Unknown {
        text: match text.is_empty() {
            true => NOTHING_FOUND.to_owned(),
            false => text,
        },
        not_understood,
        unseen: Vec::new(),
    })
}

/// Returns what orders and changes mean, in their order.
fn orders(
    requests: &[Request<'_>],
    corrections: &[Reader<'_>],
    notes: &mut Notes,
) -> Result<Vec<ChangeSet>, Refusal> {
    if let Some(said) = corrections.first() {
        return Err(amend::unclear(said, amend::SAY_AGAIN));
    }
    let mut proposed = Vec::new();
    for Request { intent, mut r } in requests.iter().cloned() {
        proposed.push(match intent {
            Intent::Change => edit::change(&mut r)?,
            intent => control::control(&mut r, intent)?,
        });
        notes.extend(r.notes);
    }
    Ok(proposed)
}

/// Returns what requests to watch mean after the corrections; they are proposed together.
fn watches(
    requests: &[Request<'_>],
    corrections: &[Reader<'_>],
    scene: &Scene,
    notes: &mut Notes,
) -> Result<Vec<ChangeSet>, Refusal> {
    let mut watches = Vec::new();
    for request in requests {
        let mut r = request.r.clone();
        watches.push(Parts::read(&mut r)?);
        notes.extend(r.notes);
    }
    for said in corrections {
        let mut r = said.clone();
        amend::amend(&mut watches, &mut r)?;
        notes.extend(r.notes);
    }
    let mut new = Vec::new();
    for parts in watches {
        new.extend(parts.watches(scene, notes)?);
    }
    let deployed = deploy(&new, scene)?;
    note_twins(&new, scene, notes);
    let replaced = pause_replaced(&new, scene, notes);
    Ok(std::iter::once(deployed).chain(replaced).collect())
}

/// Notes the watches that report objects of a new one on its camera already. A condition on their
/// number reports no object.
fn note_twins(new: &[NewWatch], scene: &Scene, notes: &mut Notes) {
    let is_of_one = |when: &Condition| !matches!(when, Condition::Count { .. });
    let reports = |one: &Deployed| {
        let rules = one.spec.rules.as_ref();
        rules.is_none_or(|rules| rules.iter().any(|rule| is_of_one(&rule.when)))
    };
    for watch in new
        .iter()
        .filter(|w| w.conditions.iter().any(is_of_one) && !w.only)
    {
        let labels = &watch.objects.labels;
        let is_twin = |one: &&Deployed| {
            let classes = one.classes();
            let shares = classes == *labels || classes.iter().any(|class| labels.contains(class));
            shares && reports(one) && one.state() == RUNNING
        };
        for twin in scene.on(&watch.camera).filter(is_twin) {
            notes.assume(format!(
                "{} reports some of these ({}) there already and continues, so an event may come twice.",
                twin.spec.id,
                several(&watch.objects.said)
            ));
        }
    }
}

/// Refuses a second request of another kind, because it may depend on the first: `tell me when
/// somebody comes, then pause the yard watch`.
fn one_at_a_time(other: &Reader<'_>) -> Refusal {
    let written = other.written(other.positions());
    let text = format!(
        "I read another request there ({}), so I propose nothing. Please say them one at a time.",
        quoted(&written)
    );
    Refusal::not_read(text, vec![written])
}

/// Pauses the watches for other classes on the camera of a new watch that should report only its
/// own classes.
fn pause_replaced(new: &[NewWatch], scene: &Scene, notes: &mut Notes) -> Option<ChangeSet> {
    let tells_others = |deployed: &&Deployed| {
        let mut only = (new.iter()).filter(|w| w.only && w.camera == deployed.spec.source);
        let is_other = |w: &NewWatch| {
            let mut classes = deployed.classes().into_iter();
            classes.any(|class| !w.objects.labels.contains(&class))
        };
        deployed.makes_events() && !deployed.paused && only.any(is_other)
    };
    let replaced = scene.pipelines.iter().filter(tells_others);
    let replaced: Vec<PipelineId> = replaced.map(|p| p.spec.id.clone()).collect();
    if replaced.is_empty() {
        return None;
    }
    notes.assume(format!(
        "You said \"only\", so the new watch takes the place of {}: paused, and \"delete\" removes it for good.",
        joined(&replaced, " and ")
    ));
    Some(pause(replaced, None, scene))
}
