//! The task that runs chains: follows the journal, asks sources, reports results.
//!
//! It runs beside the agent's loop and needs no broker. Invariants:
//! - At most [`MAX_WAITING`] chains wait and [`MAX_ACTIVE`] are asked at a time, the most severe
//!   first, among equals the oldest. Above that the least severe is left to a person.
//! - A chain that is older than [`MAX_AGE`] asks no further source.
//! - A result is computed from what is stored, and sent until the runtime has it. Only then is the
//!   chain deleted, or when the journal no longer has the event.
//! - A result that the runtime refuses stays stored, and is sent again after the next start. Once
//!   retention has deleted its event, it is deleted too.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::backoff::Backoff;
use watchkeeper_client::clock::{age, wall_now};
use watchkeeper_contract::event::{Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::rule::Gates;
use watchkeeper_evidence::chain::{Chain, Final, Step};
use watchkeeper_evidence::value::EventFacts;
use watchkeeper_store::{Batch, Op, Store, StoreError};

use super::ask::Sources;
use super::counts::SharedCounts;
use super::lookup_service::LookupService;
use super::on_disk::{self, StoredChain};
use super::report::new_assessment;
use crate::background::BackgroundTask;
use crate::journal_tail::JournalTail;
use crate::record_assessment::{SendEnd, record_assessment};
use crate::references::ReferenceService;
use crate::second_opinion::Asker;

/// Chains that wait or are asked.
pub(crate) const MAX_WAITING: usize = 64;
/// Chains that are asked at a time.
pub(crate) const MAX_ACTIVE: usize = 4;
/// Age of an event after which no source is asked any more.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(600);
/// Pauses between tries to store.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_CEILING: Duration = Duration::from_secs(10);
/// How long questions may take when the agent stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// What the task needs to start.
#[derive(Debug)]
pub(crate) struct Setup {
    pub lookups: LookupService,
    /// Absent where no model may see pictures.
    pub asker: Option<Arc<Asker>>,
    /// Its vectors are computed by this task.
    pub references: ReferenceService,
    pub store: Arc<dyn Store>,
    /// Chains that the last run left.
    pub restored: Vec<StoredChain>,
    /// Where the last run was in the journal.
    pub cursor: Option<EventSeq>,
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

async fn run(runtime: RuntimeClient, setup: Setup, mut stopped: oneshot::Receiver<()>) {
    let deps = Arc::new(Deps {
        sources: Sources {
            lookups: setup.lookups.opened().await,
            asker: setup.asker,
            references: setup.references.clone(),
        },
        runtime: runtime.clone(),
        store: setup.store,
        trace: setup.trace,
        counts: Arc::clone(setup.lookups.counts()),
    });
    // In this task: a panic ends it, which the agent notices.
    let mut vectors = pin!(setup.references.serve());
    let mut journal = JournalTail::new("chains", runtime, setup.cursor);
    let mut queue = Queue::new(Arc::clone(&deps), setup.restored);
    loop {
        queue.start_next();
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            Some(done) = queue.active.join_next(), if !queue.active.is_empty() => {
                queue.ended(done.is_ok());
            }
            record = journal.next(), if queue.has_room() => {
                let added = record.and_then(|record| queue.add(&record));
                if let Some(op) = journal.cursor_op(on_disk::CURSOR, added.is_some()) {
                    let ops = added.into_iter().map(|stored| on_disk::save_op(&stored));
                    deps.commit(ops.chain([op]).collect()).await;
                }
            }
            () = &mut vectors => {}
        }
    }
    let active = async { while queue.active.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_TIMEOUT, active).await.is_err() {
        tracing::info!("chains: interrupted by the stop; resumed after the next start");
    }
}

/// Chains that wait, and those that are asked.
struct Queue {
    deps: Arc<Deps>,
    waiting: BTreeMap<EventId, StoredChain>,
    active: JoinSet<()>,
}

impl Queue {
    fn new(deps: Arc<Deps>, restored: Vec<StoredChain>) -> Self {
        let now = wall_now();
        let restored = restored.into_iter().map(|mut stored| {
            stored.chain.resume(now);
            (stored.event.id, stored)
        });
        Self {
            deps,
            waiting: restored.collect(),
            active: JoinSet::new(),
        }
    }

    /// Adds the chain of the event that `record` begins, to be stored before it is asked.
    fn add(&mut self, record: &Event) -> Option<StoredChain> {
        let EventBody::Rule(rule) = &record.body else {
            return None;
        };
        let is_open = matches!(record.decision.verdict, Verdict::Escalate | Verdict::Review);
        let spec = rule.decide.as_ref()?;
        if record.phase != Phase::New || !is_open {
            return None;
        }
        let gates = record
            .decision
            .asks
            .map_or_else(Gates::default, |asks| asks.gates);
        let lookups = self.deps.sources.lookups.configs();
        let stored = StoredChain {
            chain: Chain::new(spec, gates, lookups, EventFacts::of(record)),
            event: record.clone(),
        };
        self.waiting.insert(record.id, stored.clone());
        self.give_up_surplus();
        self.count_waiting();
        Some(stored)
    }

    /// Whether more records may be read; those that are given up wait for their report too.
    fn has_room(&self) -> bool {
        self.waiting.len() < 2 * MAX_WAITING
    }

    fn give_up_surplus(&mut self) {
        let open = self
            .waiting
            .values_mut()
            .filter(|stored| !stored.chain.is_given_up());
        let mut open: Vec<&mut StoredChain> = open.collect();
        let Some(over) = open.len().checked_sub(MAX_WAITING) else {
            return;
        };
        open.sort_by_key(|stored| (stored.event.severity, stored.event.seq));
        for stored in open.into_iter().take(over) {
            stored
                .chain
                .give_up("too many events wait for their sources");
        }
    }

    /// Starts the most severe chains, among equals the oldest; those that were given up first.
    fn start_next(&mut self) {
        while self.active.len() < MAX_ACTIVE {
            let order = |stored: &StoredChain| {
                let is_given_up = stored.chain.is_given_up();
                (
                    Reverse(is_given_up),
                    Reverse(stored.event.severity),
                    stored.event.seq,
                )
            };
            let next = self.waiting.values().min_by_key(|stored| order(stored));
            let Some(id) = next.map(|stored| stored.event.id) else {
                return;
            };
            if let Some(stored) = self.waiting.remove(&id) {
                let deps = Arc::clone(&self.deps);
                self.active
                    .spawn(async move { deps.run_chain(stored).await });
            }
        }
    }

    fn ended(&self, is_done: bool) {
        if !is_done {
            tracing::error!("chains: a question panicked; resumed after the next start");
        }
        self.count_waiting();
    }

    fn count_waiting(&self) {
        self.deps.counts.lock().waiting = self.waiting.len() + self.active.len();
    }
}

/// What the run of one chain needs.
struct Deps {
    sources: Sources,
    runtime: RuntimeClient,
    store: Arc<dyn Store>,
    trace: Trace,
    counts: SharedCounts,
}

impl Deps {
    /// Runs a chain to its end and reports it.
    async fn run_chain(&self, mut stored: StoredChain) {
        let id = stored.event.id;
        loop {
            if age(stored.event.at, wall_now()) > MAX_AGE && !stored.chain.is_given_up() {
                stored
                    .chain
                    .give_up("the event is too old to ask further sources");
            }
            let source = match stored.chain.next(wall_now()) {
                Step::Done(done) => {
                    self.report(&stored, &done).await;
                    return;
                }
                Step::Ask { source } => source,
            };
            stored.chain.begin();
            self.commit(vec![on_disk::save_op(&stored)]).await;
            let result = self
                .sources
                .ask(&source, &stored.event, &stored.chain)
                .await;
            tracing::debug!(event = %id, source = source.name, ?result, "source asked");
            self.counts.lock().count_source(&source.name, &result);
            stored.chain.answer(result);
            self.commit(vec![on_disk::save_op(&stored)]).await;
        }
    }

    /// Sends the result until the runtime has it, then deletes the chain.
    async fn report(&self, stored: &StoredChain, done: &Final) {
        // What the result is computed from, with answers of the event itself.
        self.commit(vec![on_disk::save_op(stored)]).await;
        let id = stored.event.id;
        let new = new_assessment(&stored.event, &stored.chain, done);
        tracing::info!(event = %id, result = ?done.result, reason = done.reason, "chain ended");
        let details = json!({
            "sentence": done.reason, "event": id, "links": new.links,
            "verdict": done.verdict, "confidence": done.confidence,
        });
        let end = record_assessment(self.runtime.clone(), stored.event.seq, new).await;
        if end == SendEnd::Refused {
            tracing::error!(event = %id, "chains: result refused; sent again after the next start");
            self.counts.lock().refused += 1;
            return;
        }
        self.commit(vec![on_disk::delete_op(id)]).await;
        if end == SendEnd::EventGone {
            return;
        }
        self.counts.lock().count(done.result);
        self.trace.note_or_log_in_background("chain", details).await;
    }

    /// Stores operations in one batch; repeats that while the disk refuses them.
    async fn commit(&self, ops: Vec<Op>) {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..));
        loop {
            let (store, ops) = (Arc::clone(&self.store), ops.clone());
            let stored = tokio::task::spawn_blocking(move || store.commit(Batch::from_iter(ops)));
            let error = match stored.await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(died) => died.to_string(),
            };
            if backoff.attempts() == 0 {
                tracing::warn!(error, "chains: not stored; retrying");
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }
}
