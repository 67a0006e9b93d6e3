//! Builds candidates and compares them with the serving network, on its own thread.
//!
//! - Candidates are tried in their order until one serves.
//! - One network is built at a time, because building takes more memory than running.
//! - The task ends with the serving network or the program. A build is asked to stop then.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::agreement::Comparison;
use super::count::ChangeCount;
use super::golden::{GoldenFrame, MAX_BYTES};
use super::link::{Link, Signal};
use super::serving::{ChangingNetwork, Reload};
use super::state::{BackendChange, ChangeInput, ChangePolicy};
use crate::backend::BackendChoice;
use crate::backend_in_use::{BackendInUse, ChangeReport, ChangeState};
use crate::network::{Network, WAIT_FOR_EACH_OTHER};

/// Pause between two looks at whether the network is still used, while another one is built or
/// after a failed build.
const TURN_INTERVAL: Duration = Duration::from_millis(200);

/// Threads, checks and reports of changes.
pub trait ChangeHost: Send + Sync {
    /// Runs the task on its own thread.
    fn spawn(&self, task: ChangeTask);

    /// Checks that `backend` loads `model`, before this process does.
    ///
    /// # Errors
    /// One sentence.
    fn check(&self, model: &str, backend: BackendChoice) -> Result<(), String>;
}

/// Receiver of a change's result.
pub trait ChangeReporter: Sync {
    /// Takes the begin of a change, or its result. Progress is not reported.
    fn report(&self, report: &ChangeReport);

    /// Whether the program stops. What is built then is cancelled, and its failure is not a result.
    fn is_stopping(&self) -> bool;

    /// Lowers the priority of the calling thread.
    fn lower_priority(&self);
}

/// Builds a network. Calls its argument with the share done, `0.0..=1.0`, and stops when that
/// returns false.
pub type Build = Box<dyn FnOnce(&dyn Fn(f32) -> bool) -> Result<Box<dyn Network>, String> + Send>;

/// A back end that may replace the serving one.
pub struct Candidate {
    pub backend: &'static str,
    /// Whether it runs a network of int8, whose changes are counted over all frames.
    pub is_int8: bool,
    pub build: Build,
}

/// Parts of a change, besides the serving network.
pub struct ChangeParts {
    /// Name of the manifest.
    pub model: String,
    /// Loads the serving network again.
    pub reload: Reload,
    /// In the order in which they are tried.
    pub candidates: Vec<Candidate>,
    pub comparison: Comparison,
    pub policy: ChangePolicy,
    /// Shared by all tasks of which one builds at a time.
    pub turn: Arc<Mutex<()>>,
}

/// Changes the back end of one network.
pub struct ChangeTask {
    network: Subject,
    candidates: Vec<Candidate>,
}

/// The network whose back end changes.
struct Subject {
    model: String,
    in_use: BackendInUse,
    comparison: Comparison,
    policy: ChangePolicy,
    link: Arc<Link>,
    /// Held by the task that builds.
    turn: Arc<Mutex<()>>,
}

/// How the try of one candidate ended.
enum TryEnd {
    /// The next candidate may be tried.
    Next,
    Over,
}

impl ChangeTask {
    /// Lets `network` serve, and prepares its change.
    #[must_use]
    pub fn new(network: Box<dyn Network>, parts: ChangeParts) -> (ChangingNetwork, Self) {
        let link = Arc::<Link>::default();
        let serving = ChangingNetwork::new(network, parts.reload, Arc::clone(&link));
        let network = Subject {
            model: parts.model,
            in_use: serving.in_use(),
            comparison: parts.comparison,
            policy: parts.policy,
            link,
            turn: parts.turn,
        };
        let candidates = parts.candidates;
        let task = Self {
            network,
            candidates,
        };
        (serving, task)
    }

    /// Name of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.network.model
    }

    /// Tries the candidates; returns when one is settled for good, or the network is dropped.
    pub fn run(self, reporter: &dyn ChangeReporter) {
        let Self {
            network,
            candidates,
        } = self;
        // A change that is to come is shown at once: what is measured meanwhile is of the former.
        if let Some(first) = candidates.first() {
            network.in_use.set_change(ChangeReport {
                model: network.model.clone(),
                from: network.in_use.name(),
                to: first.backend,
                state: ChangeState::Building { share: 0.0 },
            });
        }
        if !network.link.sleep(network.policy.start_delay) {
            return;
        }
        for candidate in candidates {
            if let TryEnd::Over = network.try_candidate(candidate, reporter) {
                return;
            }
        }
    }
}

impl Subject {
    fn try_candidate(&self, candidate: Candidate, reporter: &dyn ChangeReporter) -> TryEnd {
        let attempt = Attempt {
            network: self,
            reporter,
            from: self.in_use.name(),
            to: candidate.backend,
            is_int8: candidate.is_int8,
            change: Mutex::new(BackendChange::new(self.policy)),
        };
        let built = {
            let Some(_turn) = attempt.wait_for_turn() else {
                return TryEnd::Over;
            };
            attempt.report();
            attempt.build(candidate.build)
        };
        let Some(network) = built else {
            return attempt.end();
        };
        if let Some(network) = attempt.compare_slowly(network) {
            if let Some(network) = self.link.offer(network, false) {
                self.share(network.as_ref());
                self.link.offer(network, true);
            }
            attempt.watch();
        }
        attempt.end()
    }

    /// Prepares a candidate for several streams.
    fn share(&self, candidate: &dyn Network) {
        if let Err(why) = candidate.share() {
            tracing::warn!(model = self.model, why, "{WAIT_FOR_EACH_OTHER}");
        }
    }
}

/// The change to one candidate in progress.
struct Attempt<'a> {
    network: &'a Subject,
    reporter: &'a dyn ChangeReporter,
    from: &'static str,
    to: &'static str,
    is_int8: bool,
    change: Mutex<BackendChange>,
}

impl Attempt<'_> {
    /// Whether the network is dropped or the program stops.
    fn is_over(&self) -> bool {
        self.network.link.is_closed() || self.reporter.is_stopping()
    }

    fn wait_for_turn(&self) -> Option<MutexGuard<'_, ()>> {
        while !self.is_over() {
            if let Some(turn) = self.network.turn.try_lock_for(TURN_INTERVAL) {
                return Some(turn);
            }
        }
        None
    }

    /// Processes an input and publishes the state; returns it.
    fn handle(&self, input: ChangeInput) -> ChangeState {
        let mut change = self.change.lock();
        change.handle(input);
        let state = change.state().clone();
        drop(change);
        self.network
            .in_use
            .set_change(self.report_of(state.clone()));
        state
    }

    fn report_of(&self, state: ChangeState) -> ChangeReport {
        ChangeReport {
            model: self.network.model.clone(),
            from: self.from,
            to: self.to,
            state,
        }
    }

    /// Publishes the state and hands it to the host.
    fn report(&self) {
        let report = self.report_of(self.change.lock().state().clone());
        self.network.in_use.set_change(report.clone());
        self.reporter.report(&report);
    }

    fn build(&self, build: Build) -> Option<Box<dyn Network>> {
        let progress = |share: f32| {
            self.handle(ChangeInput::Progress(share));
            !self.is_over()
        };
        let built = catch_unwind(AssertUnwindSafe(|| build(&progress)));
        if !matches!(built, Ok(Ok(_))) {
            // A stop of the service may end the child that builds before this program knows of it.
            self.network.link.sleep(TURN_INTERVAL);
        }
        match built.unwrap_or_else(|_| Err(format!("{} panicked", self.to))) {
            _ if self.is_over() => {
                self.handle(ChangeInput::Unused);
                None
            }
            Err(why) => {
                self.handle(ChangeInput::Failed(why));
                None
            }
            Ok(network) => {
                self.handle(ChangeInput::Built);
                Some(network)
            }
        }
    }

    /// Compares on a thread of low priority. The candidate's own threads keep the normal one,
    /// because they serve afterwards: a thread can't raise its priority again.
    fn compare_slowly(&self, candidate: Box<dyn Network>) -> Option<Box<dyn Network>> {
        let compare = || {
            self.reporter.lower_priority();
            self.compare(candidate)
        };
        let failed = |why| {
            self.handle(ChangeInput::Failed(why));
            None
        };
        std::thread::scope(|threads| {
            let thread = Builder::new().name("compare".to_owned());
            match thread.spawn_scoped(threads, compare) {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|_| failed("its comparison panicked".to_owned())),
                Err(error) => failed(format!("no thread compares it: {error}")),
            }
        })
    }

    /// Runs golden frames until the candidate is agreed on, and returns it then.
    fn compare(&self, candidate: Box<dyn Network>) -> Option<Box<dyn Network>> {
        let comparison = &self.network.comparison;
        let mut count = self.is_int8.then(|| ChangeCount::new(comparison.clone()));
        loop {
            let input = match self.network.link.next_golden() {
                None => ChangeInput::Unused,
                Some(Err(bytes)) => ChangeInput::Failed(format!(
                    "a frame with its outputs takes {bytes} bytes, and at most {MAX_BYTES} are \
                     kept for a comparison"
                )),
                Some(Ok(frame)) => self.compare_frame(candidate.as_ref(), &frame, count.as_mut()),
            };
            match self.handle(input) {
                ChangeState::Agreed => return Some(candidate),
                ChangeState::Comparing { .. } => {}
                _ => return None,
            }
            // A closed link ends the wait for the next frame.
            self.network.link.sleep(self.network.policy.interval);
        }
    }

    fn compare_frame(
        &self,
        candidate: &dyn Network,
        frame: &GoldenFrame,
        mut count: Option<&mut ChangeCount>,
    ) -> ChangeInput {
        let (feeds, golden) = (frame.feeds(), frame.outputs());
        let mut input = ChangeInput::Failed(format!("{} returned nothing", self.to));
        let ran = catch_unwind(AssertUnwindSafe(|| {
            candidate.infer(&feeds, &mut |outputs| {
                let compared = match &mut count {
                    Some(count) => count
                        .add(&feeds, &golden, outputs)
                        .map(ChangeInput::Counted),
                    None => self
                        .network
                        .comparison
                        .compare(&feeds, &golden, outputs)
                        .map(|is_conclusive| ChangeInput::Agreed { is_conclusive }),
                };
                input = compared.unwrap_or_else(ChangeInput::Disagreed);
            })
        }));
        match ran {
            Ok(Ok(())) => input,
            Ok(Err(why)) => ChangeInput::Failed(why),
            Err(_) => ChangeInput::Failed(format!("{} panicked", self.to)),
        }
    }

    /// Follows the candidate from the offer until it fails or the network is dropped.
    fn watch(&self) {
        while let Some(signal) = self.network.link.next_signal() {
            // The last use of the signal frees a network, which the serving network does not do.
            match signal {
                Signal::TookOver(_former) => {
                    self.handle(ChangeInput::TookOver);
                    self.report();
                }
                Signal::WentBack(why, _candidate) => {
                    self.handle(ChangeInput::WentBack(why));
                    return;
                }
            }
        }
        self.handle(ChangeInput::Unused);
    }

    /// Reports the result.
    fn end(&self) -> TryEnd {
        let state = self.change.lock().state().clone();
        match state {
            ChangeState::Refused { .. } | ChangeState::Failed { .. } => {
                self.report();
                TryEnd::Next
            }
            // Reported when it took over.
            ChangeState::Swapped => TryEnd::Over,
            _ => {
                self.report();
                TryEnd::Over
            }
        }
    }
}
