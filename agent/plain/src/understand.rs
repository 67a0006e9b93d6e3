//! The way from a text to an answer.
//!
//! - Several requests in one text are one proposal or none.
//! - A question among requests has to be asked by itself.

use watchkeeper_contract::id::PipelineId;
use watchkeeper_engine::templates::watch;

use crate::DataError;
use crate::amend;
use crate::answer::{Answer, Looked, Missing, Question, Unknown};
use crate::asks::Asks;
use crate::control;
use crate::edit;
use crate::intent::{Intent, Look, WatchFor};
use crate::keeping;
use crate::lexicon::Lexicon;
use crate::look;
use crate::need::{Need, Notes};
use crate::pieces::{self, Request, ends_sentence};
use crate::propose::propose;
use crate::reader::{Reader, content_words};
use crate::request;
use crate::scene::{Deployed, Scene, quoted};
use crate::spelling::{self, Slip};
use crate::templates::Templates;
use crate::token::{Kind, MAX_CHARS, Token, tokens};

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
        for text in std::iter::once(text).chain(corrections.iter().map(String::as_str)) {
            let found = text.chars().count();
            if found > MAX_CHARS {
                return Err(TooLong { found });
            }
        }
        let (tokens, notes) = self.put_right(text, scene);
        Ok(self.read(text, &tokens, corrections, scene, notes))
    }

    /// Whether a text says how something that was proposed should be, and is no request of its own.
    #[must_use]
    pub fn is_correction(&self, text: &str, scene: &Scene) -> bool {
        if text.chars().count() > MAX_CHARS {
            return false;
        }
        let (tokens, _) = self.put_right(text, scene);
        amend::is_correction(&tokens, scene, &self.lexicon)
    }

    /// Whether a text that begins like a note holds an order, such as
    /// `remember that I like dogs, and stop all watches`.
    ///
    /// It must not be kept as a note then: [`understand`](Self::understand) answers the order.
    #[must_use]
    pub fn holds_an_order(&self, text: &str, scene: &Scene) -> bool {
        if text.chars().count() > MAX_CHARS {
            return false;
        }
        let (tokens, _) = self.put_right(text, scene);
        keeping::holds_an_order(&tokens, scene, &self.lexicon)
    }

    /// Returns the tokens of a text with misspelt words corrected, and the notes about them.
    fn put_right(&self, text: &str, scene: &Scene) -> (Vec<Token>, Notes) {
        let mut tokens = tokens(text);
        let slips = spelling::put_right(&mut tokens, scene, &self.lexicon);
        let mut notes = Notes::default();
        notes.assumed.extend(slips.iter().map(Slip::told));
        (tokens, notes)
    }

    /// Reads a request in plain words.
    fn read(
        &self,
        text: &str,
        tokens: &[Token],
        corrections: &[String],
        scene: &Scene,
        mut notes: Notes,
    ) -> Answer {
        let ask = |need: Need| {
            Answer::Ask(Question {
                about: need.about,
                text: need.text,
                choices: need.choices,
                request: text.trim().to_owned(),
            })
        };
        if let Some(note) = keeping::before_an_order(tokens, scene, &self.lexicon) {
            return unknown(vec![note], keeping::ONE_AT_A_TIME.to_owned());
        }
        let tokens = keeping::without_reminder(tokens);
        let requests = pieces::requests(tokens, scene, &self.lexicon);
        let Some(first) = requests.first() else {
            return unknown(Vec::new(), String::new());
        };
        let has = |asks: Asks| requests.iter().any(|r| r.asks == asks);
        if has(Asks::Not) {
            // `don't change anything, what is running?`
            let looks = requests.iter().find(|r| r.asks == Asks::Look);
            return match looks.filter(|_| requests.iter().all(is_harmless)) {
                Some(looks) => self.look(looks, scene, notes),
                None => ask(not_wanted()),
            };
        }
        if first.asks == Asks::Nothing {
            let reader = Reader::new(first.tokens.clone());
            return unknown(content_words(&reader, &self.lexicon), String::new());
        }
        if has(Asks::Look) {
            if requests.iter().any(|r| r.asks != Asks::Look) {
                return ask(Need::new(
                    Missing::Meaning,
                    "That is a question and a request. Please say them one at a time.",
                ));
            }
            notes.assumed.extend(unanswered(&requests));
            return self.look(first, scene, notes);
        }
        let intents = self.corrected_acts(&requests, corrections, scene, &mut notes);
        match intents.and_then(|intents| propose(intents, scene, notes)) {
            Ok(proposal) => Answer::Propose(Box::new(proposal)),
            Err(need) if !need.not_read.is_empty() => unknown(need.not_read, need.text),
            Err(need) => ask(need),
        }
    }

    /// Returns what requests that act mean after the corrections.
    fn corrected_acts(
        &self,
        requests: &[Request],
        corrections: &[String],
        scene: &Scene,
        notes: &mut Notes,
    ) -> Result<Vec<Intent>, Need> {
        let intents = self.acts(requests, scene, notes)?;
        corrections.iter().try_fold(intents, |intents, said| {
            let (tokens, slips) = self.put_right(said, scene);
            notes.assumed.extend(slips.assumed);
            amend::amend(intents, tokens, scene, &self.lexicon, notes)
        })
    }

    /// Returns the intents of requests that act, in their order. All watches are one intent.
    fn acts(
        &self,
        requests: &[Request],
        scene: &Scene,
        notes: &mut Notes,
    ) -> Result<Vec<Intent>, Need> {
        let mut intents = Vec::new();
        refuse_when_it_happens(requests)?;
        for request in requests {
            let tokens = request.tokens.clone();
            let lexicon = &self.lexicon;
            intents.push(match request.asks {
                Asks::Watch => continue,
                Asks::Change => edit::change(Reader::new(tokens), scene, lexicon, notes)?,
                asks => control::control(Reader::new(tokens), asks, scene, lexicon, notes)?,
            });
        }
        let (watches, others): (Vec<_>, Vec<_>) =
            requests.iter().partition(|r| r.asks == Asks::Watch);
        if !watches.is_empty() {
            let before = requests
                .iter()
                .take_while(|r| r.asks != Asks::Watch)
                .count();
            let watches = self.watches(&watches, scene, notes)?;
            let replaced = replaced(&watches, scene);
            intents.insert(before.min(others.len()), Intent::Watch(watches));
            if !replaced.is_empty() {
                let names: Vec<&str> = replaced.iter().map(|id| id.as_str()).collect();
                notes.assumed.push(format!(
                    "You said \"only\", so the new watch takes the place of {}, which is paused; say \"delete\" to remove it for good.",
                    names.join(" and ")
                ));
                intents.push(Intent::Pause {
                    pipelines: replaced,
                    until: None,
                });
            }
        }
        Ok(intents)
    }

    fn watches(
        &self,
        requests: &[&Request],
        scene: &Scene,
        notes: &mut Notes,
    ) -> Result<Vec<WatchFor>, Need> {
        let mut watches: Vec<WatchFor> = Vec::new();
        for request in requests {
            let before = watches.last().map(|w| w.camera.clone());
            let reader = Reader::new(request.tokens.clone());
            watches.extend(request::watch(
                reader,
                scene,
                &self.lexicon,
                before.as_ref(),
                notes,
            )?);
        }
        Ok(watches)
    }

    fn look(&self, request: &Request, scene: &Scene, mut notes: Notes) -> Answer {
        let mut reader = Reader::new(request.tokens.clone());
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
            Err(text) => unknown(content_words(&reader, &self.lexicon), text),
        }
    }
}

/// The watches that tell of other classes on the camera of one that is to tell of these only.
fn replaced(watches: &[WatchFor], scene: &Scene) -> Vec<PipelineId> {
    let tells_others = |deployed: &&Deployed, new: &WatchFor| {
        let classes = watch::named_classes(&deployed.spec.workflow).unwrap_or_default();
        deployed.spec.source == new.camera
            && !deployed.paused
            && deployed
                .spec
                .rules
                .as_ref()
                .is_none_or(|rules| !rules.is_empty())
            && classes
                .iter()
                .any(|class| !new.objects.labels.contains(class))
    };
    let only = watches.iter().filter(|w| w.objects.only);
    let running = only.flat_map(|w| scene.pipelines.iter().filter(move |p| tells_others(p, w)));
    running.map(|p| p.spec.id.clone()).collect()
}

/// Refuses to stop, pause or change what runs when something happens:
/// `tell me when somebody comes, and then pause the yard watch`.
fn refuse_when_it_happens(requests: &[Request]) -> Result<(), Need> {
    let then = requests.windows(2).find_map(|pair| match pair {
        [first, next] => {
            let waits = first.asks == Asks::Watch && !ends_sentence(&first.tokens);
            let acts = next.asks.is_control() || next.asks == Asks::Change;
            (waits && acts).then(|| Reader::new(next.tokens.clone()))
        }
        _ => None,
    });
    let Some(does) = then else {
        return Ok(());
    };
    let written = does.written(0..does.tokens.len());
    Err(Need::not_read(
        format!(
            "What runs is not stopped, paused or changed when something happens ({}). Say it as a sentence of its own.",
            quoted(&written)
        ),
        vec![written],
    ))
}

fn not_wanted() -> Need {
    Need::new(
        Missing::Meaning,
        "I understood that something is not wanted. Say what to watch for, or what to stop or to change, such as \"change the gate watch to only cars\".",
    )
}

/// What is said of questions that stand behind the one that is answered.
fn unanswered(questions: &[Request]) -> Option<String> {
    let rest = questions.get(1..).filter(|rest| !rest.is_empty())?;
    let words: Vec<String> = rest
        .iter()
        .map(|question| {
            let reader = Reader::new(question.tokens.clone());
            let end = question.tokens.iter().rposition(|t| t.kind != Kind::Mark);
            quoted(&reader.written(0..end.map_or(0, |end| end + 1)))
        })
        .collect();
    Some(format!(
        "One question is answered at a time: ask {} by itself.",
        words.join(" and ")
    ))
}

/// Whether a request changes nothing: it looks, or says only that nothing is to be changed.
fn is_harmless(request: &Request) -> bool {
    let reader = Reader::new(request.tokens.clone());
    request.asks == Asks::Look
        || (request.asks == Asks::Not
            && reader
                .find(&["don't|dont|not|never stop|change|pause|touch|delete|do|start any|anything|nothing|it|them?"])
                .is_some())
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
