//! The heartbeat within the loop: has a task look when it is time, has what was found told.
//!
//! Invariant: the loop never waits for a look or a model. What is known is stored after what tells of it, so a crash in between has it told twice rather
//! than never.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Zoned;
use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{Agent, AgentError, Rider};
use crate::fleet::mqtt::payload::heartbeat_draft;
use crate::fleet::outbox;
use crate::heartbeat::asker::{Added, Asker};
use crate::heartbeat::on_disk::{self, Kept};
use crate::heartbeat::{Finding, Look, State, gather};
use crate::notify::message::Own;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::{age, wall_now};

/// Time between the start and the first look, where the last one is long ago: what begins has begun by then.
const FIRST: Duration = Duration::from_secs(60);

/// The heartbeat, where one is configured.
pub(super) struct Heart {
    every: Duration,
    due: Instant,
    state: State,
    asker: Arc<Asker>,
    doing: Option<BoxFuture<'static, Beat>>,
}

/// What a task of it came to.
pub(super) enum Beat {
    /// It looked.
    Looked(Box<Look>),
    /// What was found has all that will be said of it.
    Ready(Box<Word>),
}

/// What is to be told, and what is known when it was.
pub(super) struct Word {
    at: Wall,
    found: Vec<Finding>,
    added: Option<Added>,
    state: State,
}

/// What only the loop knows of a look.
struct Known {
    cursor: Option<EventSeq>,
    undelivered: u64,
    silent_channels: Vec<ChannelId>,
    given_up: u64,
}

impl Heart {
    /// One that goes on where the last run ended.
    pub(super) fn new(every: Duration, asker: Asker, kept: Option<Kept>, now: Instant) -> Self {
        let passed = kept.as_ref().map(|kept| age(kept.at, wall_now()));
        let left = passed.map_or(Duration::ZERO, |passed| every.saturating_sub(passed));
        Self {
            every,
            due: now + left.max(FIRST.min(every)),
            state: kept.map(|kept| kept.state).unwrap_or_default(),
            asker: Arc::new(asker),
            doing: None,
        }
    }

    /// When it is time to look; none while something is done.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.doing.is_none().then_some(self.due)
    }
}

/// What a task came to. Dropping this future loses nothing.
pub(super) async fn beaten(heart: &mut Option<Heart>) -> Beat {
    match heart {
        Some(heart) => super::finished(&mut heart.doing).await,
        None => std::future::pending().await,
    }
}

impl Agent {
    /// Begins a look when it is time.
    pub(super) fn beat_when_due(&mut self, now: Instant) {
        let Some(cursor) = self.heart.as_ref().and_then(|heart| {
            let is_due = heart.deadline().is_some_and(|due| due <= now);
            is_due.then_some(heart.state.cursor)
        }) else {
            return;
        };
        let stats = self.outbox.stats();
        let waiting = stats.events.entries + stats.assured.entries;
        let is_cut_off = self.broker.is_some() && self.session.up().is_none();
        let troubled = self.fares().into_iter();
        let troubled = troubled.filter(|(_, fare)| fare.trouble.is_some());
        let own = Known {
            cursor,
            undelivered: if is_cut_off { waiting as u64 } else { 0 },
            silent_channels: troubled.map(|(id, _)| id).collect(),
            given_up: self.opined.without_answer,
        };
        let runtime = self.runtime.clone();
        if let Some(heart) = &mut self.heart {
            heart.due = now + heart.every;
            heart.doing = Some(look(runtime, Arc::clone(&heart.asker), own).boxed());
        }
    }

    pub(super) fn on_beat(&mut self, beat: Beat) -> Result<(), AgentError> {
        match beat {
            Beat::Looked(look) => {
                let Some(heart) = &mut self.heart else {
                    return Ok(());
                };
                let mut state = heart.state.clone();
                let found = state.judge(&look);
                if found.is_empty() {
                    heart.state = state.clone();
                    let at = look.at;
                    return self.carry(on_disk::rider(&Kept { at, state }));
                }
                let at = look.at;
                let adds = Arc::clone(&heart.asker).add(found.clone(), *look);
                let ready = adds.map(move |added| {
                    Beat::Ready(Box::new(Word {
                        at,
                        found,
                        added,
                        state,
                    }))
                });
                heart.doing = Some(ready.boxed());
                Ok(())
            }
            Beat::Ready(word) => self.tell_word(*word),
        }
    }

    fn tell_word(&mut self, word: Word) -> Result<(), AgentError> {
        let Word {
            at,
            found,
            added,
            state,
        } = word;
        for finding in &found {
            let reason = finding.sentence();
            tracing::info!(kind = finding.kind(), reason, "heartbeat");
            let id = ulid::Ulid::new().to_string();
            let draft = heartbeat_draft(finding, &id, at, added.as_ref());
            if let Some(telling) = &self.telling {
                let (ops, owing) = telling.owe(Own {
                    id,
                    at,
                    severity: finding.severity(),
                    notify: Vec::new(),
                    reason,
                    camera: finding.camera().cloned(),
                    by_model: added.as_ref().map(|added| added.words.clone()),
                    payload: draft.payload.clone(),
                });
                // Stored with the next change, and told once it is.
                self.riders.extend(ops);
                self.riding.push(Rider::Own(owing));
            }
            if self.broker.is_some() {
                self.tell_outbox(outbox::Input::Own(draft))?;
            }
        }
        if let Some(heart) = &mut self.heart {
            heart.state = state.clone();
        }
        self.carry(on_disk::rider(&Kept { at, state }))
    }
}

async fn look(runtime: RuntimeClient, asker: Arc<Asker>, own: Known) -> Beat {
    let at = wall_now();
    let local = (at.quality != TimeQuality::Unsynced).then(|| Zoned::now().datetime());
    let house = gather::house(&runtime, own.cursor).await;
    if let Err(error) = &house {
        tracing::debug!(%error, "the heartbeat had no answer of the runtime");
    }
    Beat::Looked(Box::new(Look {
        at,
        local,
        house: house.ok(),
        undelivered: own.undelivered,
        silent_channels: own.silent_channels,
        budget: asker.budget().await,
        given_up: own.given_up,
    }))
}
