//! The way from a text to an answer.
//!
//! Invariant: requests of different kinds in one text are not done in part; the person is asked to say them one at a time.

use crate::answer::{Answer, Looked, Missing, Question, Unknown};
use crate::chosen::{self, Chosen};
use crate::control;
use crate::data::DataError;
use crate::intent::{Intent, Look};
use crate::lexicon::Lexicon;
use crate::look;
use crate::need::{Need, Notes};
use crate::pieces::{self, Asks, Request};
use crate::propose::propose;
use crate::reader::{Reader, left_over};
use crate::request;
use crate::scene::Scene;
use crate::templates::Templates;
use crate::token::{MAX_CHARS, tokens};
use crate::tongue;

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
    templates: Templates,
}

impl Plain {
    /// With the words and templates that the program carries.
    ///
    /// # Errors
    /// What is wrong with the data files.
    pub fn new() -> Result<Self, DataError> {
        Ok(Self {
            lexicon: Lexicon::builtin()?,
            templates: Templates::builtin()?,
        })
    }

    /// The templates of the commonest watches.
    #[must_use]
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Understands one request.
    ///
    /// # Errors
    /// [`TooLong`] when the text has more than [`MAX_CHARS`] characters; it isn't read then.
    pub fn understand(&self, text: &str, scene: &Scene) -> Result<Answer, TooLong> {
        let found = text.chars().count();
        if found > MAX_CHARS {
            return Err(TooLong { found });
        }
        let tokens = tokens(text);
        if tongue::is_german(&tokens) {
            return Ok(unknown(Vec::new(), tongue::ONLY_ENGLISH.to_owned()));
        }
        // A template is a request in plain words, which is read like any other.
        match chosen::chosen(&tokens, text, scene, &self.lexicon, &self.templates) {
            Some(Chosen::Request(request)) => Ok(self.read(&request, scene)),
            Some(Chosen::Ask(question)) => Ok(Answer::Ask(question)),
            None => Ok(self.read(text, scene)),
        }
    }

    /// Reads a request in plain words.
    fn read(&self, text: &str, scene: &Scene) -> Answer {
        let tokens = tokens(text);
        let requests = pieces::requests(&tokens, scene, &self.lexicon);
        let ask = |need: Need| {
            Answer::Ask(Question {
                about: need.about,
                text: need.text,
                choices: need.choices,
                request: text.trim().to_owned(),
            })
        };
        let Some(first) = requests.first() else {
            return unknown(Vec::new(), String::new());
        };
        let kinds = requests.iter().map(|r| r.asks).collect::<Vec<_>>();
        // `don't change anything, what is running?`
        let harmless = |r: &Request| {
            let reader = Reader::new(r.tokens.clone());
            r.asks == Asks::Look
                || (r.asks == Asks::Not
                    && reader
                        .find(&["don't|dont|not|never stop|change|pause|touch|delete|do|start any|anything|nothing|it|them?"])
                        .is_some())
        };
        if kinds.contains(&Asks::Not)
            && requests.iter().all(harmless)
            && let Some(looks) = requests.iter().find(|r| r.asks == Asks::Look)
        {
            return self.look(looks, scene);
        }
        if kinds.contains(&Asks::Not) {
            return ask(Need::new(
                Missing::Meaning,
                "I understood that something is not wanted. Say what to watch for, or what to stop or to change, such as \"change the gate watch to only cars\".",
            ));
        }
        let mixed = kinds.iter().any(|k| *k != first.asks);
        let one_watch = requests.len() > 1 && first.asks != Asks::Watch && first.asks != Asks::Look;
        if mixed || one_watch {
            return ask(Need::new(
                Missing::Meaning,
                "That is more than one request. Please say them one at a time.",
            ));
        }
        let mut notes = Notes::default();
        let intent = match first.asks {
            Asks::Nothing | Asks::Not => {
                let reader = Reader::new(first.tokens.clone());
                return unknown(left_over(&reader, &self.lexicon), String::new());
            }
            Asks::Look => return self.look(first, scene),
            Asks::Watch => self.watches(&requests, scene, &mut notes),
            Asks::Change => control::change(
                Reader::new(first.tokens.clone()),
                scene,
                &self.lexicon,
                &mut notes,
            ),
            asks => control::control(
                Reader::new(first.tokens.clone()),
                asks,
                scene,
                &self.lexicon,
                &mut notes,
            ),
        };
        match intent.and_then(|intent| propose(intent, scene, notes)) {
            Ok(proposal) => Answer::Propose(Box::new(proposal)),
            Err(need) if !need.not_read.is_empty() => unknown(need.not_read, need.text),
            Err(need) => ask(need),
        }
    }

    fn watches(
        &self,
        requests: &[Request],
        scene: &Scene,
        notes: &mut Notes,
    ) -> Result<Intent, Need> {
        let mut watches = Vec::new();
        for request in requests {
            let before = watches
                .last()
                .map(|w: &crate::intent::WatchFor| w.camera.clone());
            let reader = Reader::new(request.tokens.clone());
            watches.extend(request::watch(
                reader,
                scene,
                &self.lexicon,
                before.as_ref(),
                notes,
            )?);
        }
        Ok(Intent::Watch(watches))
    }

    fn look(&self, request: &Request, scene: &Scene) -> Answer {
        let mut reader = Reader::new(request.tokens.clone());
        let mut notes = Notes::default();
        match look::look(&mut reader, scene, &self.lexicon, &mut notes) {
            Ok((look, text)) => {
                let text = match look {
                    Look::Templates => self.templates.listed(),
                    _ => text,
                };
                let mut said = vec![text];
                said.extend(notes.assumed);
                said.retain(|s| !s.is_empty());
                Answer::Look(Looked {
                    look,
                    text: said.join(" "),
                    not_understood: notes.not_understood,
                })
            }
            Err(text) => unknown(left_over(&reader, &self.lexicon), text),
        }
    }
}

fn unknown(not_understood: Vec<String>, text: String) -> Answer {
    let text = if text.is_empty() {
        format!(
            "I found no request in that which I understand; I read common requests in English. {}",
            look::HELP
        )
    } else {
        text
    };
    Answer::Unknown(Unknown {
        text,
        not_understood,
    })
}
