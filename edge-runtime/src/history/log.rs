//! The history of all sources: what pipelines write, and the thread that brings it to the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_detect::{DetectorInfo, RawDetection};
use watchkeeper_store::private_folder::make_private;
use watchkeeper_vision::frame::Frame;

use super::chunk::{ChunkHead, FORMAT, SeenBox, SeenFrame, Thinning};
use super::files::{self, FLUSH_INTERVAL};
use crate::clock;
use crate::thread::Thread;

/// Folder below the state folder.
const FOLDER: &str = "detections";
/// Longest chunk, in seconds of the wall clock.
const MAX_CHUNK_S: i64 = 600;
/// Most bytes of a chunk that wait for the disk; further frames are left out.
const MAX_BUFFER: usize = 1 << 20;
/// Most ended chunks that wait for the disk; further ones lose their last bytes.
const MAX_ENDED: usize = 64;
/// Silence of the pipeline that writes after which another one may.
const OWNER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a detector reported of a frame.
#[derive(Debug)]
pub struct Observed<'a> {
    pub frame: &'a Frame,
    /// Name of the model, as the workflow or the pipeline gives it.
    pub model: &'a str,
    pub info: &'a DetectorInfo,
    /// Lowest score that was reported.
    pub confidence: f32,
    pub found: &'a [RawDetection],
}

/// A chunk that grows.
#[derive(Debug)]
struct OpenChunk {
    head: ChunkHead,
    path: PathBuf,
    /// Bytes that are not on the disk yet.
    buffer: Vec<u8>,
    /// Source time of its first and of its latest frame, in seconds.
    first_s: f64,
    last_s: f64,
    last_wall_ms: i64,
    thinning: Thinning,
    owner: PipelineId,
    written: Instant,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<(SourceId, String), OpenChunk>,
    /// Last bytes of chunks that ended.
    ended: Vec<(PathBuf, Vec<u8>)>,
    /// Chunks so far, for unique names.
    chunks: u64,
    left_out: u64,
    is_closing: bool,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
    /// One flush at a time.
    flushing: Mutex<()>,
    closing: Condvar,
}

/// The detection history of all sources.
#[derive(Debug)]
pub struct DetectionHistory {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

/// Writes for one pipeline.
#[derive(Debug, Clone)]
pub struct HistoryWriter {
    shared: Arc<Shared>,
    pipeline: PipelineId,
    on_motion: bool,
}

impl DetectionHistory {
    /// Opens the history in the folder `state`, with at most `max_bytes`; 0 keeps none.
    ///
    /// # Errors
    /// When its folder can't be made, or the system starts no thread.
    pub fn open(state: &Path, max_bytes: u64) -> std::io::Result<Arc<Self>> {
        let folder = state.join(FOLDER);
        let shared = Arc::new(Shared {
            folder,
            max_bytes,
            state: Mutex::default(),
            flushing: Mutex::new(()),
            closing: Condvar::new(),
        });
        if max_bytes == 0 {
            return Ok(Arc::new(Self {
                shared,
                thread: None,
            }));
        }
        make_private(&shared.folder)?;
        let of_thread = Arc::clone(&shared);
        let thread = Thread::spawn("history".to_owned(), move || of_thread.flush_regularly())?;
        Ok(Arc::new(Self {
            shared,
            thread: Some(thread),
        }))
    }

    /// A writer for `pipeline`; `None` where no history is kept. `on_motion`: frames without motion
    /// are not looked at.
    #[must_use]
    pub fn writer(&self, pipeline: &PipelineId, on_motion: bool) -> Option<HistoryWriter> {
        self.thread.as_ref().map(|_| HistoryWriter {
            shared: Arc::clone(&self.shared),
            pipeline: pipeline.clone(),
            on_motion,
        })
    }

    /// The chunks of a source and model that reach past `from_ms`, oldest first; `chunk` returns
    /// false to end.
    pub fn read(
        &self,
        source: &SourceId,
        model: &str,
        from_ms: i64,
        mut chunk: impl FnMut(ChunkHead, Vec<SeenFrame>) -> bool,
    ) {
        self.shared.flush();
        let earliest = from_ms.saturating_sub(MAX_CHUNK_S * 1000);
        let files = files::all(&self.shared.folder).unwrap_or_default();
        for (_, path) in files.into_iter().filter(|(start, _)| *start >= earliest) {
            let is_wanted = files::head(&path)
                .is_some_and(|head| head.source == *source && head.model == model);
            if is_wanted
                && let Some((head, frames)) = files::chunk(&path)
                && !chunk(head, frames)
            {
                return;
            }
        }
    }

    /// Writes what waits, and ends the thread.
    pub fn shut_down(&self, timeout: Duration) {
        self.shared.state.lock().is_closing = true;
        self.shared.closing.notify_all();
        if let Some(thread) = &self.thread {
            thread.join(timeout);
        }
    }
}

impl HistoryWriter {
    /// Records what a detector reported; never waits for the disk.
    pub fn record(&self, seen: &Observed<'_>) {
        let wall_ms = seen.frame.wall.unix_ms;
        let source_s = seen.frame.pts.as_secs_f64();
        let mut state = self.shared.state.lock();
        let key = (seen.frame.id.source.clone(), seen.model.to_owned());
        let head = head_of(seen, &key.0, self.on_motion);
        let needs_new = match state.open.get_mut(&key) {
            Some(open) if open.owner != self.pipeline && open.written.elapsed() < OWNER_TIMEOUT => {
                return;
            }
            // Another step of the same frame.
            Some(open) if open.last_s == source_s && open.last_wall_ms == wall_ms => return,
            Some(open) => !open.takes(&head, source_s, wall_ms),
            None => true,
        };
        if needs_new {
            let number = state.chunks;
            state.chunks += 1;
            let path = files::path_of(&self.shared.folder, wall_ms, number);
            let begun = OpenChunk::new(head, path, source_s, self.pipeline.clone());
            if let Some(old) = state.open.insert(key.clone(), begun)
                && state.ended.len() < MAX_ENDED
            {
                state.ended.push((old.path, old.buffer));
            }
        }
        let Some(open) = state.open.get_mut(&key) else {
            return;
        };
        open.owner.clone_from(&self.pipeline);
        if !open.push(seen.found, source_s, wall_ms) {
            state.left_out += 1;
        }
    }
}

fn head_of(seen: &Observed<'_>, source: &SourceId, on_motion: bool) -> ChunkHead {
    let picture = &seen.frame.picture;
    ChunkHead {
        format: FORMAT,
        source: source.clone(),
        model: seen.model.to_owned(),
        labels: seen.info.labels.iter().map(ToString::to_string).collect(),
        knows_classes: seen.info.knows_classes,
        follows_one_picture: seen.info.follows_one_picture,
        size: [picture.width, picture.height],
        confidence: seen.confidence,
        on_motion,
        fps: seen.frame.fps,
        recorded: seen.frame.recorded,
        start_ms: seen.frame.wall.unix_ms,
    }
}

impl OpenChunk {
    fn new(head: ChunkHead, path: PathBuf, source_s: f64, owner: PipelineId) -> Self {
        // Plain data, which always has this form.
        let buffer = rmp_serde::to_vec(&head).unwrap_or_default();
        Self {
            last_wall_ms: head.start_ms,
            head,
            path,
            buffer,
            first_s: source_s,
            last_s: source_s,
            thinning: Thinning::default(),
            owner,
            written: Instant::now(),
        }
    }

    /// Whether a frame of this head and time belongs to the chunk.
    fn takes(&self, head: &ChunkHead, source_s: f64, wall_ms: i64) -> bool {
        let is_later = source_s >= self.last_s && wall_ms >= self.last_wall_ms;
        let is_short = wall_ms - self.head.start_ms <= MAX_CHUNK_S * 1000;
        // A pause, or a clock that was set: the two clocks went on differently.
        let wall_s = (wall_ms - self.last_wall_ms) as f64 / 1000.0;
        let agrees = (source_s - self.last_s).max(wall_s) <= OWNER_TIMEOUT.as_secs_f64();
        is_later && is_short && agrees && self.head.continues(head)
    }

    /// Adds a frame; false if it was left out because the disk is too slow.
    fn push(&mut self, found: &[RawDetection], source_s: f64, wall_ms: i64) -> bool {
        self.written = Instant::now();
        (self.last_s, self.last_wall_ms) = (source_s, wall_ms);
        if !self.thinning.keeps(source_s, !found.is_empty()) {
            return true;
        }
        if self.buffer.len() >= MAX_BUFFER {
            return false;
        }
        let since = |ms: f64| ms.clamp(0.0, f64::from(u32::MAX)).round() as u32;
        let frame = SeenFrame {
            wall_ms: since((wall_ms - self.head.start_ms) as f64),
            source_ms: since((source_s - self.first_s) * 1000.0),
            boxes: found.iter().map(SeenBox::of).collect(),
        };
        self.buffer
            .extend(rmp_serde::to_vec(&frame).unwrap_or_default());
        true
    }
}

impl Shared {
    fn flush_regularly(&self) {
        loop {
            let is_closing = {
                let mut state = self.state.lock();
                if !state.is_closing {
                    self.closing.wait_for(&mut state, FLUSH_INTERVAL);
                }
                state.is_closing
            };
            self.flush();
            if let Err(error) = files::retain(&self.folder, self.max_bytes, clock::wall().unix_ms) {
                tracing::debug!(%error, "cannot delete old chunks of the detection history");
            }
            if is_closing {
                return;
            }
        }
    }

    /// Brings to the disk what waits, where it has room; ends chunks that nobody writes.
    fn flush(&self) {
        let _flushing = self.flushing.lock();
        let (waiting, left_out) = {
            let mut state = self.state.lock();
            let mut waiting = std::mem::take(&mut state.ended);
            let open = state.open.values_mut();
            waiting.extend(open.map(|open| (open.path.clone(), std::mem::take(&mut open.buffer))));
            waiting.retain(|(_, bytes)| !bytes.is_empty());
            let is_used = |open: &OpenChunk| open.written.elapsed() < OWNER_TIMEOUT;
            state.open.retain(|_, open| is_used(open));
            (waiting, std::mem::take(&mut state.left_out))
        };
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "frames left out of the detection history: slow disk"
            );
        }
        let has_space = waiting.is_empty() || files::has_space(&self.folder);
        for (path, bytes) in waiting {
            let written = match has_space {
                true => files::append(&path, &bytes),
                false => Err(std::io::ErrorKind::StorageFull.into()),
            };
            if let Err(error) = written {
                tracing::debug!(%error, path = %path.display(), "cannot write the detection history");
                // What follows would have no head, or continue a torn frame.
                self.state.lock().open.retain(|_, open| open.path != path);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_detect::OwnThresholds;
    use watchkeeper_models::manifest::Task;
    use watchkeeper_vision::frame::{FrameId, Picture};
    use watchkeeper_vision::geometry::BBox;

    use super::*;

    const MIB: u64 = 1 << 20;

    struct Bench {
        _dir: tempfile::TempDir,
        history: Arc<DetectionHistory>,
        info: DetectorInfo,
        start_ms: i64,
    }

    fn yard() -> SourceId {
        SourceId::new("yard").unwrap()
    }

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self {
                history: DetectionHistory::open(dir.path(), MIB).unwrap(),
                _dir: dir,
                info: DetectorInfo {
                    model: "yolox-nano".to_owned(),
                    backend: "test".to_owned(),
                    task: Task::ObjectDetection,
                    labels: ["person".into()].into(),
                    knows_classes: true,
                    follows_one_picture: false,
                    input: None,
                    space: None,
                    own: OwnThresholds::default(),
                },
                start_ms: clock::wall().unix_ms - 3_600_000,
            }
        }

        fn writer(&self, pipeline: &str) -> HistoryWriter {
            let id = PipelineId::new(pipeline).unwrap();
            self.history.writer(&id, false).unwrap()
        }

        /// Records a box at `x`, at these milliseconds of source time and of the wall clock.
        fn record(&self, writer: &HistoryWriter, source_ms: u64, wall_ms: i64, x: f64) {
            let frame = Frame {
                id: FrameId {
                    source: yard(),
                    seq: 1,
                },
                pts: Duration::from_millis(source_ms),
                arrived: Instant::now(),
                wall: Wall {
                    unix_ms: self.start_ms + wall_ms,
                    quality: TimeQuality::Synced,
                },
                fps: None,
                recorded: false,
                picture: Picture::rgb(4, 4, vec![0; 48]),
            };
            writer.record(&Observed {
                frame: &frame,
                model: "yolox-nano",
                info: &self.info,
                confidence: 0.3,
                found: &[RawDetection {
                    bbox: BBox::new(x, 0.0, x + 10.0, 20.0),
                    score: 0.8,
                    class_id: 0,
                    column: 0,
                }],
            });
        }

        /// Left edges of the boxes, by chunk.
        fn read(&self, from_ms: i64) -> Vec<Vec<f64>> {
            let mut all = Vec::new();
            let from_ms = self.start_ms + from_ms;
            self.history
                .read(&yard(), "yolox-nano", from_ms, |_, frames| {
                    let boxes = frames.iter().flat_map(|frame| &frame.boxes);
                    all.push(boxes.map(|seen| seen.raw().bbox.x1).collect());
                    true
                });
            all
        }
    }

    #[test]
    fn what_was_recorded_is_read_back_in_order_before_any_flush() {
        let bench = Bench::new();
        let writer = bench.writer("watch");
        for n in 0..5_u16 {
            let ms = u64::from(n) * 100;
            bench.record(&writer, ms, i64::from(n) * 100, f64::from(n));
        }
        assert_eq!(bench.read(0), [[0.0, 1.0, 2.0, 3.0, 4.0]]);
        bench.record(&writer, 500, 500, 5.0);
        assert_eq!(bench.read(0), [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]);
    }

    #[test]
    fn one_of_two_pipelines_writes_and_a_frame_is_recorded_once() {
        let bench = Bench::new();
        let (first, second) = (bench.writer("a"), bench.writer("b"));
        for n in 0..3_u16 {
            let (ms, wall) = (u64::from(n) * 100, i64::from(n) * 100);
            bench.record(&first, ms, wall, f64::from(n));
            bench.record(&first, ms, wall, 50.0);
            bench.record(&second, ms, wall, 90.0);
        }
        assert_eq!(bench.read(0), [[0.0, 1.0, 2.0]]);
    }

    #[test]
    fn gap_clock_change_and_restart_of_the_source_begin_a_chunk() {
        let bench = Bench::new();
        let writer = bench.writer("watch");
        bench.record(&writer, 0, 0, 0.0);
        bench.record(&writer, 20_000, 20_000, 1.0);
        bench.record(&writer, 20_100, 90_000, 2.0);
        bench.record(&writer, 0, 90_100, 3.0);
        assert_eq!(bench.read(0), [[0.0], [1.0], [2.0], [3.0]]);
        let others = SourceId::new("door").unwrap();
        let mut read = 0;
        bench.history.read(&others, "yolox-nano", 0, |_, _| {
            read += 1;
            true
        });
        assert_eq!(read, 0);
    }

    #[test]
    fn oldest_chunks_give_way_and_those_of_a_wrong_clock_too() {
        let bench = Bench::new();
        let folder = &bench.history.shared.folder;
        let now_ms = bench.start_ms + 3_600_000;
        let write = |start_ms: i64, bytes: usize| {
            files::append(&files::path_of(folder, start_ms, 0), &vec![0; bytes]).unwrap();
        };
        write(now_ms + 60_000, 10);
        write(now_ms - 25 * 3_600_000, 10);
        write(now_ms - 3_000, 400);
        write(now_ms - 2_000, 400);
        write(now_ms - 1_000, 400);
        files::retain(folder, 900, now_ms).unwrap();
        let left: Vec<i64> = files::all(folder).unwrap().iter().map(|f| f.0).collect();
        assert_eq!(left, [now_ms - 2_000, now_ms - 1_000]);
    }

    #[test]
    fn no_bytes_keep_no_history() {
        let dir = tempfile::tempdir().unwrap();
        let history = DetectionHistory::open(dir.path(), 0).unwrap();
        let id = PipelineId::new("watch").unwrap();
        assert!(history.writer(&id, false).is_none());
        assert!(!dir.path().join(FOLDER).exists());
    }
}
