//! The task that runs chains and second opinions: follows the journal, asks sources, reports
//! results.
//!
//! It runs in parallel to the agent's loop and needs no broker. Invariants:
//! - A chain that is older than [`MAX_AGE`] asks no further source.
//! - A result is computed from what is stored, and sent until the runtime has it. Only then is the
//!   chain deleted, or when the journal no longer has the event.
//! - A result that the runtime refuses stays stored, and is sent again after the next start. Once
//!   retention has deleted its event, it is deleted too.
//! - A full or read-only disk is waited for; any other error of the store ends the task.
//!
//! Not here: which chain runs next (`queue`).

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::{JoinError, JoinSet};
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::clock::{is_older, wall_now};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_evidence::chain::{Final, Source, Step};
use watchkeeper_evidence::source::{SourceAnswer, SourceResult};
use watchkeeper_llm::money::Money;
use watchkeeper_store::{Batch, Op, Store, StoreError};

use super::ask::Sources;
use super::counts::SharedCounts;
use super::lookup_service::LookupService;
use super::on_disk::{self, StoredChain};
use super::queue::{MAX_AGE, Queue, QueueSetup, RunningChain};
use super::report::{WeighedOpinion, new_assessment};
use crate::background::BackgroundTask;
use crate::journal_tail::{JournalTail, end_of_journal};
use crate::record_assessment::{SendEnd, record_assessment};
use crate::references::ReferenceService;
use crate::second_opinion::scene::SceneAnswers;
use crate::second_opinion::{self, Answer, Asker};

/// Pauses between tries to store.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_CEILING: Duration = Duration::from_secs(10);
/// Longest wait for the end of the journal before a chain starts: its last record may be lost.
const MAX_CATCH_UP: Duration = Duration::from_secs(60);
/// How long questions may take when the agent stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Dependencies of the task at its start.
#[derive(Debug)]
pub(crate) struct Setup {
    pub lookups: LookupService,
    /// Absent if no model may see pictures.
    pub asker: Option<Arc<Asker>>,
    /// Reference pictures, whose vectors this task computes.
    pub references: ReferenceService,
    pub store: Arc<dyn Store>,
    /// Chains that the last run left.
    pub restored: Vec<StoredChain>,
    /// Position of the last run in the journal.
    pub cursor: Option<EventSeq>,
    pub opinion_counts: second_opinion::SharedCounts,
    pub trace: Trace,
}

impl Setup {
    /// Reads what the store in `folder` holds.
    ///
    /// # Errors
    /// When the store fails, or holds a record of a newer version.
    pub(crate) fn restore(
        store: &dyn Store,
        folder: &Path,
    ) -> Result<(Vec<StoredChain>, Option<EventSeq>), StoreError> {
        let chains = on_disk::restore(store, folder)?;
        Ok((chains, on_disk::CURSOR.read(store)?))
    }
}

/// Starts the task. Once stopped it asks no more sources and waits for questions in progress,
/// [`STOP_TIMEOUT`] at most.
#[must_use]
pub(crate) fn spawn(runtime: &RuntimeClient, setup: Setup) -> BackgroundTask {
    let runtime = runtime.clone();
    BackgroundTask::spawn("chains", |stopped| run(runtime, setup, stopped))
}

async fn run(runtime: RuntimeClient, setup: Setup, stopped: oneshot::Receiver<()>) {
    let lookups = setup.lookups.opened().await;
    // In this task: a panic ends it, which the agent notices.
    let vectors = setup.references.serve();
    let queue = QueueSetup {
        restored: setup.restored,
        lookups: Arc::clone(&lookups),
        has_opinions: setup.asker.is_some(),
        skips_old: setup.cursor.is_none(),
    };
    let deps = Deps {
        sources: Sources {
            lookups,
            asker: setup.asker,
            references: setup.references.clone(),
        },
        answers: Mutex::default(),
        runtime: runtime.clone(),
        store: setup.store,
        trace: setup.trace,
        counts: Arc::clone(setup.lookups.counts()),
        opinion_counts: setup.opinion_counts,
    };
    let task = ChainTask {
        deps: Arc::new(deps),
        queue: Queue::new(queue, wall_now()),
        active: JoinSet::new(),
        journal: JournalTail::from_start("chains", runtime, setup.cursor),
    };
    if let Err(error) = task.run(vectors, stopped).await {
        tracing::error!(%error, "chains: the store failed; restart the agent");
    }
}

/// Chains with the journal that they come from.
struct ChainTask {
    deps: Arc<Deps>,
    queue: Queue,
    active: JoinSet<Result<(), StoreError>>,
    journal: JournalTail,
}

impl ChainTask {
    /// Runs until the stop, or until the store fails.
    async fn run(
        mut self,
        vectors: impl Future<Output = ()>,
        mut stopped: oneshot::Receiver<()>,
    ) -> Result<(), StoreError> {
        let mut vectors = pin!(vectors);
        let mut asking_end = pin!(end_of_journal(self.deps.runtime.clone()));
        let mut catch_up = pin!(tokio::time::sleep(MAX_CATCH_UP));
        let mut end = None;
        loop {
            let is_caught_up = end.is_some_and(|end| self.journal.cursor() >= end);
            self.queue.set_caught_up(is_caught_up);
            while let Some(chain) = self.queue.next() {
                self.active.spawn(run_chain(Arc::clone(&self.deps), chain));
            }
            self.count_waiting();
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                Some(ended) = self.active.join_next(), if !self.active.is_empty() => {
                    check_end(ended)?;
                }
                record = self.journal.next(), if self.queue.has_room() => {
                    self.on_record(record.as_deref()).await?;
                }
                seq = &mut asking_end, if end.is_none() => end = Some(seq),
                () = &mut catch_up, if !is_caught_up => end = Some(EventSeq(0)),
                () = &mut vectors => {}
            }
        }
        let active = async { while self.active.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, active).await.is_err() {
            tracing::info!("chains: interrupted by the stop; resumed after the next start");
        }
        Ok(())
    }

    /// Stores what `record` adds or changes, in one batch with the cursor after it.
    async fn on_record(&mut self, record: Option<&Event>) -> Result<(), StoreError> {
        let running = record.and_then(|record| self.queue.running(record.id));
        // Held while it is stored: the chain itself stores nothing older meanwhile.
        let mut held = match running {
            Some(chain) => Some(chain.lock_owned().await),
            None => None,
        };
        let changed = match (record, &mut held) {
            (None, _) => None,
            (Some(record), None) => self.queue.take(record, wall_now()),
            (Some(record), Some(chain)) => chain.follow(record).then(|| (**chain).clone()),
        };
        let has_changed = changed.is_some();
        let Some(op) = self.journal.cursor_op(on_disk::CURSOR, has_changed) else {
            return Ok(());
        };
        let ops = changed.iter().map(on_disk::save_op);
        self.deps.commit(ops.chain([op]).collect()).await
    }

    fn count_waiting(&self) {
        self.deps.counts.lock().waiting = self.queue.count(false);
        self.deps.opinion_counts.lock().waiting = self.queue.count(true);
    }
}

/// Logs the end of a chain by a panic.
///
/// # Errors
/// When the store failed.
fn check_end(ended: Result<Result<(), StoreError>, JoinError>) -> Result<(), StoreError> {
    ended.unwrap_or_else(|_| {
        tracing::error!("chains: a question panicked; resumed after the next start");
        Ok(())
    })
}

/// Dependencies of the run of one chain.
struct Deps {
    sources: Sources,
    /// Answers that second opinions about the same scenes share.
    answers: Mutex<SceneAnswers>,
    runtime: RuntimeClient,
    store: Arc<dyn Store>,
    trace: Trace,
    counts: SharedCounts,
    opinion_counts: second_opinion::SharedCounts,
}

/// Runs a chain to its end and reports it.
async fn run_chain(deps: Arc<Deps>, running: RunningChain) -> Result<(), StoreError> {
    loop {
        let mut stored = Arc::clone(&running).lock_owned().await;
        if is_older(stored.event.at, wall_now(), MAX_AGE) && stored.chain.given_up().is_none() {
            let why = "the event is too old to ask further sources";
            stored.chain.give_up(why);
        }
        let source = match stored.chain.next(wall_now()) {
            Step::Done(done) => return deps.report(stored, &done).await,
            Step::Ask { source } => source,
        };
        stored.chain.begin();
        deps.commit(vec![on_disk::save_op(&stored)]).await?;
        let asked = stored.clone();
        drop(stored);
        let (result, answer) = deps.ask(&source, &asked).await;
        tracing::debug!(event = %asked.event.id, source = source.name, ?result, "source asked");
        let mut stored = running.lock().await;
        stored.answer = answer;
        stored.chain.answer(result);
        deps.commit(vec![on_disk::save_op(&stored)]).await?;
    }
}

impl Deps {
    /// Asks a source. A second opinion has its answer besides.
    async fn ask(&self, source: &Source, asked: &StoredChain) -> (SourceResult, Option<Answer>) {
        if asked.is_opinion() {
            return self.ask_opinion(&asked.event).await;
        }
        let result = self.sources.ask(source, &asked.event, &asked.chain).await;
        self.counts.lock().count_source(&source.name, &result);
        (result, None)
    }

    /// Asks for the second opinion on an event, unless there is one about its scene.
    async fn ask_opinion(&self, event: &Event) -> (SourceResult, Option<Answer>) {
        let started = Instant::now();
        let shared = self.answers.lock().shared(event);
        let answer = match shared {
            Some(answer) => Ok(answer),
            None => {
                let asked = self.sources.opinion(event).await;
                asked.inspect(|answer| self.answers.lock().remember(event, answer))
            }
        };
        let (found, cost) = match &answer {
            Ok(answer) => (answer.to_source(), Some(answer.cost)),
            Err(no) => (SourceAnswer::failed(&no.why), no.cost),
        };
        let result = SourceResult {
            answer: found,
            at: wall_now(),
            took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            cost_usd: cost.map(Money::dollars),
        };
        (result, answer.ok())
    }

    /// Sends the result until the runtime has it, then deletes the chain.
    async fn report(
        &self,
        mut held: OwnedMutexGuard<StoredChain>,
        done: &Final,
    ) -> Result<(), StoreError> {
        // What the result is computed from, with answers of the event itself.
        held.is_reported = true;
        self.commit(vec![on_disk::save_op(&held)]).await?;
        let stored = held.clone();
        drop(held);
        let id = stored.event.id;
        let opinion = stored
            .is_opinion()
            .then(|| WeighedOpinion::of(&stored, wall_now()));
        let new = match &opinion {
            Some(opinion) => opinion.new_assessment(),
            None => new_assessment(&stored.event, &stored.chain, done),
        };
        let reason = new
            .decision
            .as_ref()
            .map(|decision| decision.reason.as_str());
        tracing::info!(event = %id, reason, "chain ended");
        let links = new.links.clone();
        let end = record_assessment(self.runtime.clone(), stored.event.seq, new).await;
        if end == SendEnd::Refused {
            tracing::error!(event = %id, "chains: result refused; sent again after the next start");
            match opinion {
                Some(_) => self.opinion_counts.lock().refused += 1,
                None => self.counts.lock().refused += 1,
            }
            return Ok(());
        }
        self.commit(vec![on_disk::delete_op(id)]).await?;
        if end == SendEnd::EventGone {
            return Ok(());
        }
        match opinion {
            Some(opinion) => self.count_opinion(&opinion).await,
            None => {
                self.counts.lock().count(done.result);
                let details = json!({
                    "sentence": done.reason, "event": id, "links": links,
                    "verdict": done.verdict, "confidence": done.confidence,
                });
                self.trace.note_or_log_in_background("chain", details).await;
            }
        }
        Ok(())
    }

    /// Counts and traces a second opinion that the runtime recorded.
    async fn count_opinion(&self, opinion: &WeighedOpinion) {
        let WeighedOpinion {
            event,
            answer,
            weighed,
        } = opinion;
        let answer = answer.as_ref().ok();
        self.opinion_counts.lock().count(weighed.outcome, answer);
        if let Some(answer) = answer {
            let details = json!({
                "sentence": weighed.decision.reason, "event": event.id,
                "outcome": weighed.outcome, "opinion": answer.opinion, "model": answer.model,
                "usd": answer.cost.dollars(),
            });
            self.trace
                .note_or_log_in_background("opinion", details)
                .await;
        }
    }

    /// Stores operations in one batch; repeats that while the disk refuses them.
    async fn commit(&self, ops: Vec<Op>) -> Result<(), StoreError> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..));
        loop {
            let (store, ops) = (Arc::clone(&self.store), ops.clone());
            let stored = tokio::task::spawn_blocking(move || store.commit(Batch::from_iter(ops)));
            let error = match stored.await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if error.is_transient() => error.to_string(),
                Ok(Err(error)) => return Err(error),
                Err(died) => died.to_string(),
            };
            if backoff.attempts() == 0 {
                tracing::warn!(error, "chains: not stored; retrying");
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }
}
