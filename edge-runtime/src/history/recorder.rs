//! The history of all sources: what pipelines write, and the thread that writes it to the disk.
//!
//! Locks, in order: `flushing`, `state`. Only `flushing` is held while the disk is used.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_detect::{DetectorInfo, RawDetection};
use watchkeeper_models::Sha256Sum;
use watchkeeper_vision::frame::Frame;

use super::chunk::{ChunkHead, FORMAT, Looks, SeenBox, SeenFrame, Thinning, Thresholds};
use super::files::{self, FLUSH_INTERVAL, StoredChunk};
use super::pictures::{self, thumbnail};
use crate::clock;
use crate::thread::{Closing, Thread};

/// Folder below the state folder.
const FOLDER: &str = "detections";
/// Longest chunk, in seconds of the wall clock.
const MAX_CHUNK_S: i64 = 600;
/// Most bytes of a chunk that wait for the disk; further frames are left out.
const MAX_BUFFER: usize = 1 << 20;
/// Most ends of chunks and of their pictures that wait for the disk; further ones are lost, which
/// is logged.
const MAX_ENDED: usize = 64;
/// Flushes between two deletions of old chunks.
const RETAIN_EVERY: u32 = 12;

/// A detector's report on a frame.
#[derive(Debug)]
pub struct Observed<'a> {
    pub frame: &'a Frame,
    /// Name of the model, as the workflow or the pipeline gives it.
    pub model: &'a str,
    pub info: &'a DetectorInfo,
    /// Thresholds that the step asked for.
    pub asked: Thresholds,
    pub found: &'a [RawDetection],
}

/// A chunk that grows.
#[derive(Debug)]
struct OpenChunk {
    /// Start, thresholds and looks; the rest is in the file.
    head: ChunkHead,
    labels: Arc<[Arc<str>]>,
    path: PathBuf,
    /// Bytes that are not on the disk yet.
    buffer: Vec<u8>,
    /// Pictures that are not on the disk yet.
    pictures: Vec<u8>,
    /// Wall clock of the last picture of this source and model, in this chunk or an earlier one.
    last_picture_ms: Option<i64>,
    /// Source time of its first and of its latest frame, in seconds.
    first_s: f64,
    last_s: f64,
    last_wall_ms: i64,
    last_boxes: Vec<SeenBox>,
    thinning: Thinning,
    owner: PipelineId,
    written: Instant,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<SourceId, BTreeMap<String, OpenChunk>>,
    /// Last bytes of chunks that ended.
    ended: Vec<(PathBuf, Vec<u8>)>,
    /// Digests of what the sources show: address and privacy mask.
    addresses: BTreeMap<SourceId, String>,
    /// Number of the next chunk.
    number: u64,
    left_out: u64,
    /// Why the last flush could not write.
    disk_error: Option<String>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
    /// One flush at a time.
    flushing: Mutex<()>,
    closing: Closing,
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
    looks: Looks,
}

impl DetectionHistory {
    /// Opens the history in the folder `state`, with at most `max_bytes`; 0 deletes it and keeps
    /// none. A disk that refuses is tried again with each flush.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn open(state: &Path, max_bytes: u64) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            folder: state.join(FOLDER),
            max_bytes,
            state: Mutex::default(),
            flushing: Mutex::new(()),
            closing: Closing::default(),
        });
        if max_bytes == 0 {
            if let Err(error) = files::delete_all(&shared.folder) {
                tracing::warn!(%error, "cannot delete the detection history");
            }
            return Ok(Arc::new(Self {
                shared,
                thread: None,
            }));
        }
        shared.state.lock().number = files::next_number(&shared.folder);
        let of_thread = Arc::clone(&shared);
        let thread = Thread::spawn("history".to_owned(), move || of_thread.flush_regularly())?;
        Ok(Arc::new(Self {
            shared,
            thread: Some(thread),
        }))
    }

    /// A writer for `pipeline`; `None` if no history is kept.
    #[must_use]
    pub fn writer(&self, pipeline: &PipelineId, looks: Looks) -> Option<HistoryWriter> {
        self.thread.as_ref().map(|_| HistoryWriter {
            shared: Arc::clone(&self.shared),
            pipeline: pipeline.clone(),
            looks,
        })
    }

    /// Why nothing is written at the moment.
    pub fn disk_error(&self) -> Option<String> {
        self.shared.state.lock().disk_error.clone()
    }

    /// Sets what a source shows, such as its address. What was recorded of another view is not read
    /// any more.
    pub fn set_view(&self, source: &SourceId, view: &str) {
        let address = Sha256Sum::of(view.as_bytes()).to_string();
        let mut state = self.shared.state.lock();
        if state.addresses.insert(source.clone(), address.clone()) != Some(address) {
            let old = state.open.remove(source).unwrap_or_default();
            old.into_values().for_each(|chunk| state.end(chunk));
        }
    }

    /// The chunks of a source and model that may reach past `from_ms`, oldest first.
    pub fn chunks(&self, source: &SourceId, model: &str, from_ms: i64) -> Vec<StoredChunk> {
        self.shared.flush();
        let address = self.shared.state.lock().addresses.get(source).cloned();
        let address = address.unwrap_or_default();
        let earliest = from_ms.saturating_sub(MAX_CHUNK_S * 1000);
        let files = files::all(&self.shared.folder).unwrap_or_default();
        let recent = files.into_iter().filter(|(start, _)| *start >= earliest);
        let chunks = recent.filter_map(|(_, path)| StoredChunk::open(path));
        let is_wanted = |head: &ChunkHead| {
            head.source == *source && head.model == model && head.address == address
        };
        chunks.filter(|chunk| is_wanted(&chunk.head)).collect()
    }

    /// Writes what waits, and ends the thread.
    pub fn shut_down(&self, timeout: Duration) {
        self.shared.closing.close();
        if let Some(thread) = &self.thread {
            thread.join(timeout);
        }
    }
}

impl HistoryWriter {
    /// Records what a detector reported; never waits for the disk.
    pub fn record(&self, seen: &Observed<'_>) {
        let mut state = self.shared.state.lock();
        let source = &seen.frame.id.source;
        let open = state
            .open
            .get(source)
            .and_then(|models| models.get(seen.model));
        let needs_new = match open {
            Some(open) if self.is_left_to(open) || open.has(seen.frame) => return,
            Some(open) => open.owner != self.pipeline || !open.takes(seen, self.looks),
            None => true,
        };
        if needs_new {
            self.begin(&mut state, seen);
        }
        let models = state.open.get_mut(source);
        let Some(open) = models.and_then(|models| models.get_mut(seen.model)) else {
            return;
        };
        open.last_boxes.clear();
        open.last_boxes.extend(seen.found.iter().map(SeenBox::of));
        let picture_of = open.picture_due(seen.frame).then(|| open.path.clone());
        if !open.push(seen.frame) {
            state.left_out += 1;
        }
        drop(state);
        if let Some(chunk) = picture_of {
            self.record_picture(seen, &chunk);
        }
    }

    /// Adds a small picture of the frame to its chunk. It is made without the lock.
    fn record_picture(&self, seen: &Observed<'_>, chunk: &Path) {
        let jpeg = match thumbnail(&seen.frame.picture) {
            Ok(jpeg) => jpeg,
            Err(error) => {
                tracing::debug!(%error, "no picture of a frame in the detection history");
                return;
            }
        };
        let mut state = self.shared.state.lock();
        let mut open = state.open_chunks();
        if let Some(open) = open.find(|open| open.path == chunk)
            && open.pictures.len() < MAX_BUFFER
        {
            let wall_ms = open.wall_ms(seen.frame);
            open.pictures.extend(pictures::encode(wall_ms, jpeg));
        }
    }

    /// Records that a frame was not looked at and shows what the one before it showed.
    pub fn repeat(&self, frame: &Frame) {
        let mut state = self.shared.state.lock();
        let open = state.open.get_mut(&frame.id.source);
        let open = open.into_iter().flat_map(BTreeMap::values_mut);
        let own = open.filter(|open| open.owner == self.pipeline && !open.has(frame));
        let mut left_out = 0;
        for open in own {
            let source_s = frame.pts.as_secs_f64();
            if !open.thinning.is_near(source_s) && open.is_next(frame) && !open.push(frame) {
                left_out += 1;
            }
        }
        state.left_out += left_out;
    }

    /// Whether another pipeline records this source and model, and looks as often.
    fn is_left_to(&self, open: &OpenChunk) -> bool {
        let is_silent = open.written.elapsed().as_secs_f64() >= open.head.looks.max_gap_s();
        let looks_less = open.head.looks.every_s > self.looks.every_s;
        open.owner != self.pipeline && !is_silent && !looks_less
    }

    /// Begins a chunk with this frame.
    fn begin(&self, state: &mut State, seen: &Observed<'_>) {
        let frame = seen.frame;
        let source = &frame.id.source;
        let head = ChunkHead {
            format: FORMAT,
            source: source.clone(),
            address: state.addresses.get(source).cloned().unwrap_or_default(),
            model: seen.model.to_owned(),
            labels: seen.info.labels.iter().map(ToString::to_string).collect(),
            knows_classes: seen.info.knows_classes,
            follows_one_picture: seen.info.follows_one_picture,
            size: [frame.picture.width, frame.picture.height],
            asked: seen.asked,
            own: seen.info.own.into(),
            looks: self.looks,
            fps: frame.fps,
            recorded: frame.recorded,
            start_ms: frame.wall.unix_ms,
        };
        let path = files::path_of(&self.shared.folder, head.start_ms, state.number, source);
        let models = state.open.get(source);
        let old = models.and_then(|models| models.get(seen.model));
        let last_picture_ms = old.and_then(|old| old.last_picture_ms);
        state.number = state.number.saturating_add(1);
        let source_s = frame.pts.as_secs_f64();
        let begun = OpenChunk {
            // Plain data, which always has this form.
            buffer: rmp_serde::to_vec(&head).unwrap_or_default(),
            pictures: Vec::new(),
            last_picture_ms,
            labels: Arc::clone(&seen.info.labels),
            path,
            first_s: source_s,
            last_s: source_s,
            last_wall_ms: head.start_ms,
            last_boxes: Vec::new(),
            thinning: Thinning::default(),
            owner: self.pipeline.clone(),
            written: Instant::now(),
            head,
        };
        let models = state.open.entry(source.clone()).or_default();
        if let Some(old) = models.insert(seen.model.to_owned(), begun) {
            state.end(old);
        }
    }
}

impl State {
    fn end(&mut self, chunk: OpenChunk) {
        if self.ended.len() >= MAX_ENDED {
            tracing::warn!(
                chunk = %chunk.path.display(),
                bytes = chunk.buffer.len(),
                "the end of a chunk of the detection history is lost: slow disk"
            );
            return;
        }
        let pictures = files::pictures_of(&chunk.path);
        self.ended.push((pictures, chunk.pictures));
        self.ended.push((chunk.path, chunk.buffer));
    }

    fn open_chunks(&mut self) -> impl Iterator<Item = &mut OpenChunk> {
        self.open.values_mut().flat_map(BTreeMap::values_mut)
    }

    /// Sets why nothing is written; logs the first failure and its end.
    fn set_disk_error(&mut self, error: Option<String>) {
        match (&self.disk_error, &error) {
            (None, Some(error)) => tracing::warn!(error, "can't write the detection history"),
            (Some(_), None) => tracing::info!("the detection history is written again"),
            _ => {}
        }
        self.disk_error = error;
    }

    /// Keeps the open chunks that `keeps` accepts.
    fn retain_open(&mut self, keeps: impl Fn(&OpenChunk) -> bool) {
        for models in self.open.values_mut() {
            models.retain(|_, open| keeps(open));
        }
    }
}

impl OpenChunk {
    /// Whether this frame was recorded already, for another step.
    fn has(&self, frame: &Frame) -> bool {
        self.last_s == frame.pts.as_secs_f64() && self.last_wall_ms == frame.wall.unix_ms
    }

    /// Whether what was seen belongs to the chunk.
    fn takes(&self, seen: &Observed<'_>, looks: Looks) -> bool {
        let (head, frame) = (&self.head, seen.frame);
        let is_alike = head.size == [frame.picture.width, frame.picture.height]
            && head.asked == seen.asked
            && head.looks == looks
            && head.fps == frame.fps
            && head.recorded == frame.recorded
            && (Arc::ptr_eq(&self.labels, &seen.info.labels) || self.labels == seen.info.labels);
        is_alike && self.is_next(frame)
    }

    /// Whether a frame follows the last one: neither clock went back or jumped.
    fn is_next(&self, frame: &Frame) -> bool {
        let step_s = frame.pts.as_secs_f64() - self.last_s;
        let wall_step_ms = frame.wall.unix_ms - self.last_wall_ms;
        let is_short = frame.wall.unix_ms - self.head.start_ms <= MAX_CHUNK_S * 1000;
        let is_near = step_s.max(wall_step_ms as f64 / 1e3) <= self.head.looks.max_gap_s();
        step_s >= 0.0 && wall_step_ms >= 0 && is_short && is_near
    }

    /// Adds a frame with the last boxes; false if it was left out because the disk is too slow.
    fn push(&mut self, frame: &Frame) -> bool {
        let source_s = frame.pts.as_secs_f64();
        self.written = Instant::now();
        (self.last_s, self.last_wall_ms) = (source_s, frame.wall.unix_ms);
        let Some(left_out) = self.thinning.keep(source_s, !self.last_boxes.is_empty()) else {
            return true;
        };
        if self.buffer.len() >= MAX_BUFFER {
            return false;
        }
        let seen = SeenFrame {
            wall_ms: self.wall_ms(frame),
            source_ms: whole_ms((source_s - self.first_s) * 1000.0),
            left_out,
            boxes: self.last_boxes.as_slice(),
        };
        let length = self.buffer.len();
        let is_written = rmp_serde::encode::write(&mut self.buffer, &seen).is_ok();
        if !is_written {
            // What follows half a record can't be read.
            self.buffer.truncate(length);
        }
        is_written
    }

    /// Milliseconds of the wall clock from the start of the chunk to a frame.
    fn wall_ms(&self, frame: &Frame) -> u32 {
        whole_ms((frame.wall.unix_ms - self.head.start_ms) as f64)
    }

    /// Whether a picture of this frame is due; it counts as taken then.
    fn picture_due(&mut self, frame: &Frame) -> bool {
        let (now_ms, has_boxes) = (frame.wall.unix_ms, !self.last_boxes.is_empty());
        let is_due = pictures::is_due(self.last_picture_ms, now_ms, has_boxes);
        if is_due {
            self.last_picture_ms = Some(now_ms);
        }
        is_due
    }
}

fn whole_ms(ms: f64) -> u32 {
    ms.clamp(0.0, f64::from(u32::MAX)).round() as u32
}

impl Shared {
    fn flush_regularly(&self) {
        let mut flushes: u32 = 0;
        loop {
            let is_closing = self.closing.wait(FLUSH_INTERVAL);
            self.flush();
            if flushes.is_multiple_of(RETAIN_EVERY) {
                self.retain();
            }
            flushes = flushes.wrapping_add(1);
            if is_closing {
                return;
            }
        }
    }

    /// Deletes old chunks, except open ones.
    fn retain(&self) {
        let _flushing = self.flushing.lock();
        let open: BTreeSet<PathBuf> = {
            let mut state = self.state.lock();
            state.open_chunks().map(|open| open.path.clone()).collect()
        };
        let now = clock::wall();
        if let Err(error) = files::retain(&self.folder, self.max_bytes, now, &open) {
            tracing::debug!(%error, "cannot delete old chunks of the detection history");
        }
    }

    /// Writes waiting frames if the disk has space; ends chunks without a writer.
    fn flush(&self) {
        let _flushing = self.flushing.lock();
        let (waiting, left_out) = {
            let mut state = self.state.lock();
            let mut waiting = mem::take(&mut state.ended);
            let open = state.open_chunks();
            waiting.extend(open.flat_map(|open| {
                let pictures = files::pictures_of(&open.path);
                [
                    (open.path.clone(), mem::take(&mut open.buffer)),
                    (pictures, mem::take(&mut open.pictures)),
                ]
            }));
            waiting.retain(|(_, bytes)| !bytes.is_empty());
            let is_used = |open: &OpenChunk| {
                open.written.elapsed().as_secs_f64() < open.head.looks.max_gap_s()
            };
            state.retain_open(is_used);
            (waiting, mem::take(&mut state.left_out))
        };
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "frames left out of the detection history: slow disk"
            );
        }
        let was_refused = self.state.lock().disk_error.is_some();
        // Without chunks, this finds out whether the reason is gone.
        if waiting.is_empty() && !was_refused {
            return;
        }
        let (lost, error) = files::append_all(&self.folder, waiting, was_refused);
        let mut state = self.state.lock();
        // What follows would have no head, or continue a torn frame.
        state.retain_open(|open| !lost.contains(&open.path));
        state.set_disk_error(error.map(|error| error.to_string()));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_detect::OwnThresholds;
    use watchkeeper_models::manifest::Task;
    use watchkeeper_store::private_folder::make_private;
    use watchkeeper_vision::frame::{FrameId, Picture};
    use watchkeeper_vision::geometry::BBox;

    use super::*;

    const MIB: u64 = 1 << 20;
    const ALWAYS: Looks = Looks {
        every_s: 0.0,
        on_motion: false,
    };

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
                    model: "yolox-nano".into(),
                    backend: "test".into(),
                    threads: None,
                    tensor_copies: None,
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
            self.history.writer(&id, ALWAYS).unwrap()
        }

        /// A frame at these milliseconds of source time and of the wall clock.
        fn frame(&self, source_ms: u64, wall_ms: i64) -> Frame {
            Frame {
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
                is_damaged: false,
                picture: Picture::rgb(4, 4, vec![0; 48]),
            }
        }

        /// Records a box at `x`.
        fn record(&self, writer: &HistoryWriter, source_ms: u64, wall_ms: i64, x: f64) {
            self.record_frame(writer, &self.frame(source_ms, wall_ms), x);
        }

        fn record_frame(&self, writer: &HistoryWriter, frame: &Frame, x: f64) {
            writer.record(&Observed {
                frame,
                model: "yolox-nano",
                info: &self.info,
                asked: self.info.own.into(),
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
            let from_ms = self.start_ms + from_ms;
            let chunks = self.history.chunks(&yard(), "yolox-nano", from_ms);
            let edges = |chunk: StoredChunk| {
                let frames = chunk.frames();
                let boxes = frames.iter().flat_map(|frame| &frame.boxes);
                boxes.map(|seen| seen.raw().bbox.x1).collect()
            };
            chunks.into_iter().map(edges).collect()
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
    fn refusing_disk_is_known_until_it_accepts_writes() {
        let bench = Bench::new();
        let writer = bench.writer("watch");
        let folder = &bench.history.shared.folder;
        std::fs::write(folder, "in the way").unwrap();
        bench.record(&writer, 0, 0, 0.0);
        assert_eq!(bench.read(0), [[0.0; 0]; 0]);
        assert!(bench.history.disk_error().is_some());
        std::fs::remove_file(folder).unwrap();
        // Also without another frame.
        bench.history.shared.flush();
        assert_eq!(bench.history.disk_error(), None);
        bench.record(&writer, 100, 100, 1.0);
        assert_eq!(bench.read(0), [[1.0]]);
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
        assert!(bench.history.chunks(&others, "yolox-nano", 0).is_empty());
    }

    #[test]
    fn oldest_chunks_and_those_of_a_wrong_clock_are_deleted() {
        let bench = Bench::new();
        let folder = &bench.history.shared.folder;
        make_private(folder).unwrap();
        let now_ms = bench.start_ms + 3_600_000;
        // The oldest can't be deleted, and is not in the way of the others.
        let stuck_ms = now_ms - 26 * 3_600_000;
        std::fs::create_dir(files::path_of(folder, stuck_ms, 0, &yard())).unwrap();
        let write = |start_ms: i64, bytes: usize| {
            let number = files::next_number(folder);
            let path = files::path_of(folder, start_ms, number, &yard());
            files::append(&path, &vec![0; bytes]).unwrap();
            path
        };
        write(now_ms + 60_000, 10);
        write(now_ms - 25 * 3_600_000, 10);
        write(now_ms - 3_000, 400);
        write(now_ms - 2_000, 400);
        write(now_ms - 1_000, 400);
        let open = [write(now_ms - 3_500, 10)].into();
        let left = |quality, unix_ms, max_bytes| {
            files::retain(folder, max_bytes, Wall { unix_ms, quality }, &open).unwrap();
            let left = files::all(folder).unwrap();
            left.iter().map(|f| f.0).collect::<Vec<i64>>()
        };
        // A clock that is behind deletes nothing, and one that is estimated only what is too old.
        assert_eq!(left(TimeQuality::Unsynced, 5, 1 << 20).len(), 7);
        assert_eq!(
            left(TimeQuality::Estimated, now_ms - 1_800_000, 1 << 20).len(),
            6
        );
        assert_eq!(
            left(TimeQuality::Synced, now_ms, 900),
            [stuck_ms, now_ms - 3_500, now_ms - 2_000, now_ms - 1_000]
        );
        // The bound of bytes needs no clock.
        assert_eq!(
            left(TimeQuality::Unsynced, 5, 500),
            [stuck_ms, now_ms - 3_500, now_ms - 1_000]
        );
    }

    #[test]
    fn wrong_clock_does_not_order_deletion_of_full_share() {
        let day_ms = 24 * 3_600_000;
        let right_ms = clock::wall().unix_ms;
        let (ahead, behind) = (right_ms + 3_650 * day_ms, 5 * 60_000);
        // Ahead, then set back without a time source; right, then in 1970 after a cold boot.
        for (first_ms, then_ms, quality) in [
            (ahead, right_ms, TimeQuality::Estimated),
            (right_ms, behind, TimeQuality::Unsynced),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut starts = Vec::new();
            // Each chunk is of another run, and the share has room for four.
            for nth in 0..10 {
                let from_ms = if nth < 5 { first_ms } else { then_ms };
                let unix_ms = from_ms + nth * 1_000;
                let number = files::next_number(dir.path());
                let path = files::path_of(dir.path(), unix_ms, number, &yard());
                files::append(&path, &[0; 100]).unwrap();
                let now = Wall { unix_ms, quality };
                files::retain(dir.path(), 450, now, &BTreeSet::new()).unwrap();
                starts.push(unix_ms);
                let kept = files::all(dir.path()).unwrap();
                let kept: BTreeSet<i64> = kept.into_iter().map(|(start, _)| start).collect();
                let last = starts[starts.len().saturating_sub(4)..].iter().copied();
                assert_eq!(kept, last.collect(), "after {nth}, at {quality:?}");
            }
        }
    }

    #[test]
    fn chunks_of_the_next_run_have_higher_numbers() {
        let mut bench = Bench::new();
        for number in 0..3 {
            bench.record(&bench.writer("watch"), 0, -1_000 * number, 1.0);
            let chunks = bench.history.chunks(&yard(), "yolox-nano", 0);
            assert_eq!(chunks.len(), usize::try_from(number).unwrap() + 1);
            let folder = &bench.history.shared.folder;
            assert_eq!(files::next_number(folder), number.unsigned_abs() + 1);
            bench.history = DetectionHistory::open(folder.parent().unwrap(), MIB).unwrap();
        }
    }

    #[test]
    fn busy_camera_does_not_push_out_another_one() {
        let bench = Bench::new();
        let folder = &bench.history.shared.folder;
        make_private(folder).unwrap();
        let now_ms = bench.start_ms + 3_600_000;
        let door = SourceId::new("door").unwrap();
        let write = |source: &SourceId, ago_ms: i64, bytes: usize| {
            let number = files::next_number(folder);
            let path = files::path_of(folder, now_ms - ago_ms, number, source);
            files::append(&path, &vec![0; bytes / 2]).unwrap();
            files::append(&files::pictures_of(&path), &vec![0; bytes / 2]).unwrap();
        };
        write(&door, 50_000, 200);
        (1..=40).for_each(|n| write(&yard(), 41_000 - n * 1_000, 100));
        let now = Wall {
            unix_ms: now_ms,
            quality: TimeQuality::Synced,
        };
        files::retain(folder, 1_000, now, &BTreeSet::new()).unwrap();
        let left = |source: &SourceId| {
            let names = std::fs::read_dir(folder).unwrap().flatten();
            let names = names.map(|entry| entry.file_name().into_string().unwrap());
            names.filter(|name| name.contains(source.as_str())).count()
        };
        // The newest 800 bytes of the busy one, half of them pictures.
        assert_eq!((left(&door), left(&yard())), (2, 16));
    }

    #[test]
    fn pictures_are_kept_beside_the_boxes() {
        let bench = Bench::new();
        let writer = bench.writer("watch");
        for n in 0..120_u16 {
            let ms = u64::from(n) * 100;
            bench.record(&writer, ms, i64::from(n) * 100, 1.0);
        }
        let chunks = bench.history.chunks(&yard(), "yolox-nano", bench.start_ms);
        let pictures = chunks[0].pictures();
        let times: Vec<u32> = pictures.iter().map(|seen| seen.wall_ms).collect();
        assert_eq!(times, [0, 5_000, 10_000]);
        assert!(pictures[0].jpeg.starts_with(&[0xff, 0xd8]));
    }

    #[test]
    fn changing_rate_begins_chunks_without_a_picture_each() {
        let bench = Bench::new();
        let writer = bench.writer("watch");
        for n in 0..120_u16 {
            let ms = u64::from(n) * 100;
            let frame = Frame {
                fps: Some(f64::from(n / 10 % 2)),
                ..bench.frame(ms, i64::from(n) * 100)
            };
            bench.record_frame(&writer, &frame, 1.0);
        }
        let chunks = bench.history.chunks(&yard(), "yolox-nano", bench.start_ms);
        let pictures = chunks.iter().map(|chunk| chunk.pictures().len());
        assert_eq!((chunks.len(), pictures.sum::<usize>()), (12, 3));
    }

    #[test]
    fn pipeline_that_looks_more_often_takes_over() {
        let bench = Bench::new();
        let id = PipelineId::new("rare").unwrap();
        let rare = Looks {
            every_s: 4.0,
            on_motion: false,
        };
        let rare = bench.history.writer(&id, rare).unwrap();
        let often = bench.writer("often");
        bench.record(&rare, 0, 0, 0.0);
        bench.record(&often, 100, 100, 1.0);
        bench.record(&often, 200, 200, 2.0);
        bench.record(&rare, 4_000, 4_000, 3.0);
        assert_eq!(bench.read(0), [vec![0.0], vec![1.0, 2.0]]);
    }

    #[test]
    fn looks_every_ten_seconds_are_one_chunk_with_held_frames() {
        let bench = Bench::new();
        let id = PipelineId::new("watch").unwrap();
        let looks = Looks {
            every_s: 10.0,
            on_motion: true,
        };
        let writer = bench.history.writer(&id, looks).unwrap();
        bench.record(&writer, 0, 0, 1.0);
        for n in 1..100_u16 {
            let ms = u64::from(n) * 100;
            writer.repeat(&bench.frame(ms, i64::from(n) * 100));
        }
        bench.record(&writer, 10_000, 10_000, 2.0);
        let [boxes] = &bench.read(0)[..] else {
            panic!("one chunk");
        };
        // Once a second.
        assert_eq!(boxes.iter().filter(|x| **x == 1.0).count(), 10);
        assert_eq!(boxes.last(), Some(&2.0));
    }

    #[test]
    fn source_with_another_address_has_another_history() {
        let bench = Bench::new();
        let writer = bench.writer("watch");
        bench.history.set_view(&yard(), "rtsp://a/1");
        bench.record(&writer, 0, 0, 1.0);
        bench.history.set_view(&yard(), "rtsp://a/1");
        bench.record(&writer, 100, 100, 2.0);
        assert_eq!(bench.read(0), [[1.0, 2.0]]);
        bench.history.set_view(&yard(), "rtsp://b/1");
        assert!(bench.read(0).is_empty());
        bench.record(&writer, 200, 200, 3.0);
        assert_eq!(bench.read(0), [[3.0]]);
    }

    #[test]
    fn folder_that_cannot_be_made_stops_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FOLDER), "in the way").unwrap();
        let history = DetectionHistory::open(dir.path(), MIB).unwrap();
        let bench = Bench {
            history,
            ..Bench::new()
        };
        let writer = bench.writer("watch");
        bench.record(&writer, 0, 0, 1.0);
        assert!(bench.read(0).is_empty());
        std::fs::remove_file(dir.path().join(FOLDER)).unwrap();
        bench.record(&writer, 100, 100, 2.0);
        assert_eq!(bench.read(0), [[2.0]]);
    }

    #[test]
    fn no_bytes_keep_no_history_and_delete_what_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        make_private(&folder).unwrap();
        files::append(&files::path_of(&folder, 5, 0, &yard()), b"old").unwrap();
        let history = DetectionHistory::open(dir.path(), 0).unwrap();
        let id = PipelineId::new("watch").unwrap();
        assert!(history.writer(&id, ALWAYS).is_none());
        assert!(!folder.exists());
    }
}
