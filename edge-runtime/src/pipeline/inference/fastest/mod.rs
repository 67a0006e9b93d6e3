//! Which of rten and ONNX Runtime runs a model faster on this box, and the threads of the latter,
//! measured once and kept.
//!
//! - A measurement runs in a child process, in the background, [`DELAY`] after the model was
//!   opened, for [`BUDGET`]. It applies from the next opening.
//! - It belongs to the file, the back ends, the threads, the precision and the processor
//!   ([`key_of`]); another of them has the model measured again.
//! - One model is measured at a time. At most [`MAX_WAITING`] wait; the next opening of any other
//!   asks again.
//! - A model that can't be measured is not asked for again before the next start.
//! - Where ONNX Runtime is faster and once took over from rten, it serves from the next opening on.
//! - Not here: the measurement itself ([`bench`](super::bench)), and TensorRT, which is not
//!   measured: its engine is built in the background.

mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::backend::{BackendBench, MeasuredModel, ModelBench};
use watchkeeper_detect::{BackendChoice, ChangeReport, ChangeState, OpenRequest};
use watchkeeper_models::Sha256Sum;

use self::records::{Measurement, Records};
use super::child::ChildProgram;
use super::kept_files::Key;
use super::settings::ModelSettings;
use crate::thread::Thread;

/// Name of the subcommand that measures a model.
const SUBCOMMAND: &str = "model-bench";

/// From the opening of a model to its measurement, so that the start of a pipeline has the cores.
const DELAY: Duration = Duration::from_secs(10);

/// Time of the measured runs.
const BUDGET: Duration = Duration::from_secs(3);

/// Longest time of the child, with loading and runs before the measurement.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Most models that wait for their measurement.
const MAX_WAITING: usize = 16;

/// Pause between two looks at the stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A model that waits for its measurement.
#[derive(Debug)]
struct Wanted {
    model: String,
    key: Key,
    since: Instant,
}

/// Measurements of this box.
#[derive(Debug)]
pub(super) struct Fastest {
    shared: Arc<Shared>,
    wanted: SyncSender<Wanted>,
    /// Absent if the system started none.
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Shared {
    settings: ModelSettings,
    child: ChildProgram,
    records: Records,
    this_box: MeasuredBox,
    /// Models that wait, are measured, or could not be measured.
    asked: Mutex<BTreeSet<Key>>,
    /// Networks by the name under which they were opened last.
    opened: Mutex<BTreeMap<String, Key>>,
    /// Networks that ONNX Runtime took over in this run.
    agreed: Mutex<BTreeSet<Key>>,
}

/// The processor, and this build of the program with the back ends in it.
#[derive(Debug)]
struct MeasuredBox {
    cpu: String,
    program: String,
}

impl MeasuredBox {
    fn read(child: &ChildProgram) -> Self {
        Self {
            cpu: watchkeeper_board::cpu::model(Path::new("/")).unwrap_or_default(),
            program: child.stamp(),
        }
    }

    /// Names all that a measurement depends on besides the file.
    fn stamp(&self, settings: &ModelSettings) -> String {
        let Self { cpu, program } = self;
        let (library, threads) = (settings.library_stamp(), settings.threads);
        let precision = settings.ort_settings().precision.name();
        format!("{program} / {library} / {threads:?} / {precision} / {cpu}")
    }
}

impl Fastest {
    /// Keeps records in the state folder of `settings`; starts the thread that measures.
    pub(super) fn spawn(settings: ModelSettings, child: ChildProgram) -> Self {
        let (wanted, queue) = sync_channel(MAX_WAITING);
        let shared = Arc::new(Shared {
            records: Records::new(&settings.state_dir),
            this_box: MeasuredBox::read(&child),
            settings,
            child,
            asked: Mutex::default(),
            opened: Mutex::default(),
            agreed: Mutex::default(),
        });
        let worker = Arc::clone(&shared);
        // It ends with the daemon, or when the last sender is dropped.
        let thread = Thread::spawn("measure".to_owned(), move || worker.serve(&queue));
        let thread = thread.inspect_err(|error| {
            tracing::warn!(%error, "no thread measures models; back ends keep their usual order");
        });
        Self {
            shared,
            wanted,
            thread: thread.ok(),
        }
    }

    /// Waits at most `timeout` for the end of the thread, once the daemon stops.
    pub(super) fn shut_down(&self, timeout: Duration) {
        if let Some(thread) = &self.thread {
            thread.join(timeout);
        }
    }

    /// Applies the measurement of the network with this checksum to `request`, once there is one.
    /// ONNX Runtime runs with the measured number of threads. It is not a candidate where the back
    /// end is `auto` and rten is faster, and begins where it is faster and has agreed.
    pub(super) fn apply(&self, sum: &Sha256Sum, request: &mut OpenRequest) {
        let key = self.shared.key(sum);
        let Some(measured) = key.and_then(|key| self.shared.records.use_for_opening(&key)) else {
            return;
        };
        let is_auto = self.shared.settings.backend() == BackendChoice::Auto;
        if is_auto && measured.model.fastest == BackendChoice::Rten.name() {
            request.candidates.retain(|to| *to != BackendChoice::Ort);
        }
        request.ort.measured_threads = measured.ort_threads;
        let is_faster = measured.model.fastest == BackendChoice::Ort.name();
        // An engine of TensorRT must not be built before the first frame.
        request.at_once &= !(is_faster && measured.has_ort_agreed && request.trt.is_none());
    }

    /// Keeps the result of a change to ONNX Runtime for the next openings.
    pub(super) fn note_change(&self, report: &ChangeReport) {
        let has_agreed = match report.state {
            ChangeState::Swapped => true,
            ChangeState::Reverted { .. } | ChangeState::Refused { .. } => false,
            _ => return,
        };
        let key = self.shared.opened.lock().get(&report.model).cloned();
        let Some(key) = key.filter(|_| report.to == BackendChoice::Ort.name()) else {
            return;
        };
        let mut agreed = self.shared.agreed.lock();
        match has_agreed {
            true => agreed.insert(key.clone()),
            false => agreed.remove(&key),
        };
        self.shared.records.set_agreement(&key, has_agreed);
    }

    /// Has a model measured that was opened and is not measured yet.
    pub(super) fn want(&self, model: &str, sum: &Sha256Sum) {
        let Some(key) = self.shared.key(sum) else {
            return;
        };
        let mut opened = self.shared.opened.lock();
        opened.insert(model.to_owned(), key.clone());
        drop(opened);
        if self.shared.records.get(&key).is_some() || !self.shared.asked.lock().insert(key.clone())
        {
            return;
        }
        let wanted = Wanted {
            model: model.to_owned(),
            key: key.clone(),
            since: Instant::now(),
        };
        if self.wanted.try_send(wanted).is_err() {
            self.shared.asked.lock().remove(&key);
        }
    }

    /// Lists the measurements that apply, by model.
    pub(super) fn list(&self) -> Vec<MeasuredModel> {
        self.shared.records.list(&self.shared.stamp())
    }
}

impl Shared {
    /// Key of a network here; `None` where only one back end is available.
    fn key(&self, sum: &Sha256Sum) -> Option<Key> {
        let is_alone = self.settings.library_stamp().is_empty();
        (!is_alone).then(|| key_of(sum, &self.stamp()))
    }

    /// Everything but the file that a measurement depends on.
    fn stamp(&self) -> String {
        self.this_box.stamp(&self.settings)
    }

    fn serve(&self, queue: &Receiver<Wanted>) {
        loop {
            let wanted = match queue.recv_timeout(POLL_INTERVAL) {
                Ok(wanted) => wanted,
                Err(RecvTimeoutError::Timeout) if self.child.is_stopping() => return,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while wanted.since.elapsed() < DELAY {
                if self.child.is_stopping() {
                    return;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            self.measure(&wanted);
        }
    }

    fn measure(&self, wanted: &Wanted) {
        let model = wanted.model.as_str();
        let seconds = BUDGET.as_secs().to_string();
        let all = BackendChoice::MEASURED.map(BackendChoice::name);
        let mut args = vec!["--for", &seconds];
        for name in all {
            args.extend(["--backend", name]);
        }
        args.extend(["--", model]);
        let bench: ModelBench = match self.child.ask(SUBCOMMAND, &self.settings, &args, TIMEOUT) {
            Ok(bench) => bench,
            Err(reason) => {
                tracing::info!(model, %reason, "model not measured; back ends keep their order");
                return;
            }
        };
        let Some(mut record) = decide(model, &bench.backends) else {
            tracing::info!(
                model,
                "fewer than two back ends ran the model; they keep their order"
            );
            return;
        };
        tracing::info!(
            model,
            fastest = record.model.fastest,
            infer_ms = ?record.model.infer_ms,
            "rten and ONNX Runtime measured; applies from the next opening"
        );
        let agreed = self.agreed.lock();
        record.has_ort_agreed = agreed.contains(&wanted.key);
        self.records.put(&wanted.key, &self.stamp(), record);
        drop(agreed);
        self.asked.lock().remove(&wanted.key);
    }
}

/// Names the measurement of the network with checksum `sum` under `stamp`.
fn key_of(sum: &Sha256Sum, stamp: &str) -> Key {
    Key::of(format!("{sum} {stamp}").as_bytes())
}

/// The fastest back end by the median time of a whole frame; `None` unless several ran.
fn decide(model: &str, measured: &[BackendBench]) -> Option<Measurement> {
    let ran = || measured.iter().filter(|bench| bench.runs > 0);
    let frame_ms = |b: &BackendBench| b.preprocess.p50_ms + b.infer.p50_ms + b.postprocess.p50_ms;
    if ran().count() < 2 {
        return None;
    }
    let fastest = ran().min_by(|a, b| frame_ms(a).total_cmp(&frame_ms(b)))?;
    let ort = ran().find(|bench| bench.backend == BackendChoice::Ort.name());
    Some(Measurement {
        model: MeasuredModel {
            model: model.to_owned(),
            fastest: fastest.backend.clone(),
            infer_ms: ran()
                .map(|bench| (bench.backend.clone(), bench.infer.p50_ms))
                .collect(),
        },
        ort_threads: ort.and_then(|bench| NonZeroUsize::new(bench.threads?)),
        has_ort_agreed: false,
    })
}

#[cfg(test)]
mod tests;
