//! Clips of synthetic scenes: their contents, their sharing, and the reports about them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use gstreamer::prelude::{Cast, ElementExt, GstBinExt};
use image::RgbImage;
use watchkeeper_contract::event::{EVENT_SCHEMA, Event, EventBody, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_vision::frame::testing::rgb_frame;

use super::clip_file::Encode;
use super::*;
use crate::capture::packets::{NewPacket, PacketReader, PacketRing};
use crate::journal::Journal;
use crate::journal::media::MediaLimits;
use crate::media::video::tests::read_back;
use crate::media::video::{VideoError, VideoWriter};
use crate::pipeline::recorder::tests::recorder;

/// An encoder that can be stopped.
#[derive(Debug, Default)]
struct Encoder {
    stands: parking_lot::Mutex<bool>,
    moved: parking_lot::Condvar,
}

impl Encoder {
    /// A stopped encoder takes no frame, so senders wait.
    fn stand(&self, stands: bool) {
        *self.stands.lock() = stands;
        self.moved.notify_all();
    }

    fn wait(&self) {
        let mut stands = self.stands.lock();
        self.moved.wait_while(&mut stands, |stands| *stands);
    }
}

/// The installed encoder behind a stoppable one.
struct Behind(Arc<Encoder>, VideoWriter);

impl Encode for Behind {
    fn path(&self) -> &Path {
        self.1.path()
    }

    fn size(&self) -> [u32; 2] {
        self.1.size()
    }

    fn push(&mut self, picture: RgbImage, pts: Duration) -> Result<(), VideoError> {
        self.0.wait();
        self.1.push(picture, pts)
    }

    fn finish(self: Box<Self>) -> Result<PathBuf, VideoError> {
        self.1.finish()
    }
}

/// An encoder that fails after some frames.
struct Breaks(usize, VideoWriter);

impl Encode for Breaks {
    fn path(&self) -> &Path {
        self.1.path()
    }

    fn size(&self) -> [u32; 2] {
        self.1.size()
    }

    fn push(&mut self, picture: RgbImage, pts: Duration) -> Result<(), VideoError> {
        let left = self.0.checked_sub(1);
        self.0 = left.ok_or_else(|| VideoError::Broken {
            what: "writing",
            message: "on purpose".to_owned(),
        })?;
        self.1.push(picture, pts)
    }

    fn finish(self: Box<Self>) -> Result<PathBuf, VideoError> {
        self.1.finish()
    }
}

/// Writes this many bytes per frame; the file can't be played.
struct Large(Arc<Encoder>, usize, PathBuf);

impl Encode for Large {
    fn path(&self) -> &Path {
        &self.2
    }

    fn size(&self) -> [u32; 2] {
        [128, 72]
    }

    fn push(&mut self, _: RgbImage, _: Duration) -> Result<(), VideoError> {
        self.0.wait();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.2)
            .unwrap();
        file.write_all(&vec![0; self.1]).unwrap();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<PathBuf, VideoError> {
        Ok(self.2)
    }
}

/// The clips of one pipeline over a journal and a folder.
struct Bench {
    clips: Clips,
    /// Whether the source is a recording rather than a live camera.
    is_recorded: bool,
    journal: Arc<Journal>,
    recorder: Recorder,
    media: Arc<MediaStore>,
    now: Duration,
    _state: tempfile::TempDir,
}

impl Bench {
    fn new(pre_roll_s: f64) -> Self {
        Self::with(pre_roll_s, MediaLimits::default())
    }

    fn with(pre_roll_s: f64, limits: MediaLimits) -> Self {
        let state = tempfile::tempdir().unwrap();
        let (recorder, journal) = recorder(state.path());
        let media = Arc::new(MediaStore::open(&state.path().join("clips"), limits).unwrap());
        let (metrics, started) = (Arc::new(Metrics::new()), Instant::now());
        let clips = Clips::new(
            pre_roll_s,
            Arc::clone(&media),
            recorder.clone(),
            metrics,
            started,
        );
        Self {
            clips,
            is_recorded: true,
            journal,
            recorder,
            media,
            now: Duration::ZERO,
            _state: state,
        }
    }

    /// Wraps the installed encoder.
    fn encode_by(
        &mut self,
        before: impl Fn(VideoWriter) -> Box<dyn Encode> + Send + Sync + 'static,
    ) {
        self.clips.deps.encoder = Arc::new(move |path: &Path, size: [u32; 2]| {
            let writer = VideoWriter::create(path, size, f64::from(pre_roll::RATE))?;
            Ok(before(writer))
        });
    }

    /// A bench in which a clip is full after 64 frames, once `encoder` takes them.
    fn of_large_pictures(encoder: &Arc<Encoder>) -> Self {
        let limits = MediaLimits {
            max_bytes: 256_000,
            ..MediaLimits::default()
        };
        let mut bench = Self::with(5.0, limits);
        let encoder = Arc::clone(encoder);
        bench.clips.deps.encoder = Arc::new(move |path: &Path, _| {
            Ok(Box::new(Large(Arc::clone(&encoder), 1000, path.to_owned())))
        });
        bench
    }

    /// A live camera with a stopped encoder.
    fn live_before(encoder: &Arc<Encoder>) -> Self {
        let mut bench = Self::before(encoder);
        bench.is_recorded = false;
        bench
    }

    /// A recording with a stopped encoder.
    fn before(encoder: &Arc<Encoder>) -> Self {
        let mut bench = Self::new(5.0);
        encoder.stand(true);
        let encoder = Arc::clone(encoder);
        bench.encode_by(move |writer| Box::new(Behind(Arc::clone(&encoder), writer)));
        bench
    }

    /// Shows ten frames a second of a picture that grows lighter.
    fn show(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.show_after(Duration::from_millis(100));
        }
    }

    /// Shows one frame, `gap` after the last one.
    fn show_after(&mut self, gap: Duration) {
        self.now += gap;
        let level = (self.now.as_millis() / 100 % 250) as u8;
        let mut frame = rgb_frame(128, 72, [level; 3]);
        frame.recorded = self.is_recorded;
        frame.pts = self.now;
        frame.wall.unix_ms = i64::try_from(self.now.as_millis()).unwrap();
        self.clips.add_frame(&frame, &frame.picture, self.now);
        self.clips.finish_due(self.now);
    }

    /// Begins an event in the last frame.
    fn happens(&mut self, before_s: f64, after_s: f64) -> Event {
        self.happens_with(ClipSpec {
            before_s,
            after_s,
            ..ClipSpec::default()
        })
    }

    fn happens_with(&mut self, wanted: ClipSpec) -> Event {
        let clip = self.clips.begin(wanted, self.now, !self.is_recorded);
        let event = event(clip);
        self.recorder.record(event.clone(), None);
        self.clips.add_event(event.clone(), self.now);
        event
    }

    /// Reads a stream, for rules that ask for nothing else. Returns where its packets go.
    fn watch_stream(&mut self) -> Arc<PacketRing> {
        let ring = Arc::new(PacketRing::default());
        let reader = PacketReader::new(Arc::clone(&ring), Duration::from_secs(5));
        self.clips.tap = Some(StreamTap::new(Ok(reader)));
        self.clips.has_picture_rules = false;
        self.begin_session(&ring);
        ring
    }

    /// The source is opened again; its clock is zero at the next frame.
    fn begin_session(&self, ring: &PacketRing) {
        ring.begin_session();
        ring.align(Duration::ZERO, self.now + pre_roll::INTERVAL);
    }

    /// Shows a frame for each packet; their times are those since [`Self::begin_session`].
    fn show_packets(&mut self, ring: &PacketRing, packets: impl Iterator<Item = NewPacket>) {
        for packet in packets {
            ring.push(packet);
            self.show_after(pre_roll::INTERVAL);
        }
    }

    /// The reported clip of `event`, once all clips are finished.
    fn reported(&mut self, event: &Event) -> Clip {
        self.clips.close();
        self.clips.wait();
        let flushed = self.recorder.flush(None, Duration::from_secs(60));
        assert_eq!(flushed, crate::pipeline::recorder::FlushResult::Durable);
        let page = self.journal.read_after(EventSeq(0), 1000).unwrap();
        let records = page.events.iter().map(|e| e.event().unwrap());
        let of = records.filter(|e| e.id == event.id && e.phase == Phase::Clip);
        let of: Vec<Event> = of.collect();
        assert_eq!(of.len(), 1, "{of:?}");
        of[0].clip.clone().unwrap()
    }

    /// Kept clips, lost clips and dropped frames, as Prometheus reads them.
    fn counted(&self) -> [u64; 3] {
        let text = self
            .clips
            .deps
            .metrics
            .encode(&crate::metrics::Scrape::default());
        let names = [
            "watchkeeper_clips_total{state=\"kept\"} ",
            "watchkeeper_clips_total{state=\"lost\"} ",
            "watchkeeper_clip_pictures_left_out_total ",
        ];
        names.map(|name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().parse().unwrap()
        })
    }

    fn path(&self, clip: &Clip) -> PathBuf {
        self.media.path(&clip.id).unwrap()
    }
}

fn event(clip: Clip) -> Event {
    Event {
        schema: EVENT_SCHEMA,
        id: EventId::generate(),
        seq: EventSeq(0),
        boot_id: "boot".to_owned(),
        mono_ms: 0,
        at: Wall {
            unix_ms: 0,
            quality: TimeQuality::Synced,
        },
        phase: Phase::New,
        source: None,
        pipeline: None,
        severity: Severity::Info,
        body: EventBody::PipelineHeld {
            message: String::new(),
        },
        decision: watchkeeper_contract::event::Decision {
            verdict: watchkeeper_contract::event::Verdict::Act,
            confidence: 1.0,
            raw_confidence: None,
            reason: String::new(),
            asks: None,
        },
        evidence: Vec::new(),
        media: Vec::new(),
        definition: None,
        assessment: None,
        clip: Some(clip),
        hash: String::new(),
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_near(is: f64, wanted: f64) -> bool {
    (is - wanted).abs() < 0.15
}

fn frames(path: &Path) -> usize {
    read_back(path).0
}

#[test]
fn clip_begins_before_its_event_and_plays_to_its_end() {
    let mut bench = Bench::new(5.0);
    bench.show(20);
    let event = bench.happens(5.0, 4.0);
    let announced = event.clip.clone().unwrap();
    assert_eq!(announced.state, ClipState::Filming);
    assert!(is_near(announced.before_s, 5.0) && is_near(announced.after_s, 4.0));
    assert_eq!(announced.start.unix_ms, 15_000);
    assert!(
        bench.media.read(&announced.id).is_err(),
        "it is not there yet"
    );
    bench.show(10);
    let clip = bench.reported(&event);
    assert_eq!((&clip.id, clip.start), (&announced.id, announced.start));
    assert!(
        is_near(clip.before_s, 5.0) && is_near(clip.after_s, 4.1),
        "{clip:?}"
    );
    assert_eq!(clip.end.unwrap().unix_ms, 24_000);
    let ClipState::Kept { bytes, .. } = clip.state else {
        panic!("{clip:?}");
    };
    assert_eq!(bench.media.read(&clip.id).unwrap().len() as u64, bytes);
    assert_eq!(frames(&bench.path(&clip)), 91);
    let times = bench.recorder.event_times();
    assert!(times.clips == 1 && times.clips_s > 0.0, "{times:?}");
}

#[test]
fn clip_reports_only_what_it_shows() {
    let mut bench = Bench::new(5.0);
    bench.show(2);
    let event = bench.happens(5.0, 60.0);
    assert!(is_near(event.clip.as_ref().unwrap().before_s, 1.9));
    bench.show(3);
    // The pipeline ends.
    let clip = bench.reported(&event);
    assert!(
        is_near(clip.before_s, 1.9) && is_near(clip.after_s, 3.1),
        "{clip:?}"
    );
    assert_eq!(frames(&bench.path(&clip)), 50);
}

#[test]
fn frames_after_a_gap_are_not_in_a_finished_clip() {
    let mut bench = Bench::new(5.0);
    bench.show(6);
    let event = bench.happens(5.0, 4.0);
    bench.show(2);
    bench.show_after(Duration::from_secs(60));
    let clip = bench.reported(&event);
    assert!(
        is_near(clip.before_s, 5.0) && is_near(clip.after_s, 2.1),
        "{clip:?}"
    );
    assert_eq!(clip.end.unwrap().unix_ms, 8_000);
    assert_eq!(frames(&bench.path(&clip)), 71);
    // A slow camera has shown everything only with its next frame.
    let mut slow = Bench::new(5.0);
    slow.show(6);
    let event = slow.happens(5.0, 0.5);
    slow.show_after(Duration::from_secs(1));
    let clip = slow.reported(&event);
    assert!(is_near(clip.after_s, 1.1), "{clip:?}");
}

#[test]
fn close_events_share_a_clip_that_covers_each() {
    let mut bench = Bench::new(5.0);
    bench.show(10);
    let first = bench.happens(5.0, 5.0);
    bench.show(3);
    let second = bench.happens(5.0, 5.0);
    // An event that wants more pre-roll than the clip has begins another clip.
    let mut other = Bench::new(10.0);
    other.show(20);
    let brief = other.happens(1.0, 5.0);
    let long = other.happens(10.0, 5.0);
    assert_ne!(brief.clip.unwrap().id, long.clip.unwrap().id);

    bench.show(10);
    let (one, two) = (bench.reported(&first), bench.reported(&second));
    assert_eq!((&one.id, &one.state), (&two.id, &two.state));
    assert!(
        is_near(one.after_s, 8.1) && is_near(two.before_s, 8.0),
        "{one:?} {two:?}"
    );
    assert!(is_near(two.after_s, 5.1));
    assert_eq!(frames(&bench.path(&one)), 131);
}

#[test]
fn clip_length_and_number_are_limited() {
    let mut bench = Bench::new(5.0);
    bench.show(6);
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..4 {
        // 105 seconds each: a clip has no space for the end of the next one.
        let event = bench.happens(5.0, 100.0);
        ids.insert(event.clip.unwrap().id);
        bench.show(20);
    }
    assert_eq!(ids.len(), 4);
    let event = bench.happens(5.0, 100.0);
    let ClipState::Lost { message } = event.clip.unwrap().state else {
        panic!("a fifth one at once");
    };
    assert!(message.contains("cooldown_s"), "{message}");
    assert_eq!(bench.counted(), [0, 1, 0]);
}

#[test]
fn full_disk_loses_the_clip_without_delaying_the_event() {
    let limits = MediaLimits {
        min_free_bytes: u64::MAX / 2,
        ..MediaLimits::default()
    };
    let mut bench = Bench::with(5.0, limits);
    bench.show(1);
    let event = bench.happens(5.0, 5.0);
    assert_eq!(event.clip.as_ref().unwrap().state, ClipState::Filming);
    bench.show(1);
    let ClipState::Lost { message } = bench.reported(&event).state else {
        panic!("it is kept");
    };
    assert!(message.contains("is full"), "{message}");
}

#[test]
fn unwritable_clip_is_reported_as_lost() {
    let mut bench = Bench::new(5.0);
    bench.show(6);
    let folder = bench.media.folder().to_owned();
    let event = bench.happens(5.0, 5.0);
    // No file can be created or renamed there any more. The writer of the
    // clip may create the folder again between the two calls.
    while std::fs::write(&folder, "not a folder").is_err() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    bench.show(6);
    let clip = bench.reported(&event);
    assert!(matches!(clip.state, ClipState::Lost { .. }), "{clip:?}");
}

#[test]
fn silent_camera_does_not_keep_a_clip_open() {
    let mut bench = Bench::new(5.0);
    bench.show(6);
    let wanted = ClipSpec {
        before_s: 5.0,
        after_s: 20.0,
        ..ClipSpec::default()
    };
    let clip = bench.clips.begin(wanted, bench.now, true);
    let event = event(clip);
    bench.recorder.record(event.clone(), None);
    bench.clips.add_event(event.clone(), bench.now);
    bench.clips.idle(Instant::now() + Duration::from_secs(29));
    assert_eq!(bench.clips.active.len(), 1);
    bench.clips.idle(Instant::now() + Duration::from_secs(31));
    assert_eq!(bench.clips.active.len(), 0);
    let clip = bench.reported(&event);
    assert!(
        is_near(clip.before_s, 5.0) && is_near(clip.after_s, 0.1),
        "{clip:?}"
    );
}

#[test]
fn frames_shown_while_pre_roll_is_written_are_in_clip() {
    let encoder = Arc::new(Encoder::default());
    let mut bench = Bench::live_before(&encoder);
    bench.show(6);
    let event = bench.happens(5.0, 40.0);
    bench.show(30);
    encoder.stand(false);
    bench.show(11);
    let clip = bench.reported(&event);
    assert_eq!(clip.left_out, 0);
    assert!(is_near(clip.after_s, 40.1), "{clip:?}");
    assert_eq!(frames(&bench.path(&clip)), 451);
}

#[test]
fn stopped_encoder_blocks_nothing_and_drops_are_counted() {
    let encoder = Arc::new(Encoder::default());
    let mut bench = Bench::live_before(&encoder);
    // The queue has no space beside the frames that the clip begins with.
    bench.clips.deps.max_bytes = 1;
    bench.show(6);
    let events: Vec<Event> = (0..=frame_queue::MAX_EVENTS)
        .map(|_| bench.happens(5.0, 20.0))
        .collect();
    let ids: std::collections::BTreeSet<String> = events
        .iter()
        .map(|event| event.clip.clone().unwrap().id)
        .collect();
    assert_eq!(ids.len(), 2, "a clip has a limited number of events");
    bench.show(10);
    encoder.stand(false);
    let clip = bench.reported(&events[0]);
    assert_eq!(clip.left_out, 100);
    assert!(
        is_near(clip.before_s, 5.0) && is_near(clip.after_s, 0.1),
        "{clip:?}"
    );
    assert_eq!(frames(&bench.path(&clip)), 51);
    for event in &events[1..] {
        assert_eq!(bench.reported(event).left_out, 100);
    }
    assert_eq!(bench.counted(), [events.len() as u64, 0, 200]);
}

#[test]
fn recording_continues_when_its_encoder_fails() {
    let mut bench = Bench::new(5.0);
    bench.encode_by(|writer| Box::new(Breaks(30, writer)));
    bench.show(6);
    let event = bench.happens(5.0, 60.0);
    bench.show(60);
    let clip = bench.reported(&event);
    let ClipState::Lost { message } = clip.state else {
        panic!("{clip:?}");
    };
    assert!(message.contains("on purpose"), "{message}");
    assert_eq!(clip.left_out, 0);
}

#[test]
fn fast_recording_waits_for_its_clips() {
    let encoder = Arc::new(Encoder::default());
    let mut bench = Bench::before(&encoder);
    bench.show(2);
    let mut events = Vec::new();
    for _ in 0..MAX_ACTIVE {
        events.push(bench.happens(1.0, 1.0));
        bench.show(3);
    }
    assert!(bench.clips.active.is_empty(), "each has a clip of its own");
    let release = std::thread::spawn(move || encoder.stand(false));
    events.push(bench.happens(1.0, 1.0));
    release.join().unwrap();
    bench.show(3);
    for event in &events {
        let clip = bench.reported(event);
        assert!(matches!(clip.state, ClipState::Kept { .. }), "{clip:?}");
        assert!(is_near(clip.before_s, 1.0) && is_near(clip.after_s, 1.1));
    }
}

#[test]
fn clip_with_a_critical_event_is_kept_as_critical() {
    let mut bench = Bench::new(2.0);
    bench.show(3);
    let wanted = ClipSpec {
        before_s: 1.0,
        after_s: 1.0,
        ..ClipSpec::default()
    };
    let info = bench.happens_with(wanted);
    let clip = bench.clips.begin(wanted, bench.now, false);
    let critical = Event {
        severity: Severity::Critical,
        ..event(clip)
    };
    bench.recorder.record(critical.clone(), None);
    bench.clips.add_event(critical.clone(), bench.now);
    bench.show(2);
    let shared = bench.reported(&critical);
    assert_eq!(shared.id, bench.reported(&info).id);
    let name = bench.path(&shared).to_string_lossy().into_owned();
    assert!(name.contains(".critical."), "{name}");
}

#[test]
fn event_does_not_join_a_full_clip() {
    let encoder = Arc::new(Encoder::default());
    let mut bench = Bench::of_large_pictures(&encoder);
    bench.is_recorded = false;
    encoder.stand(true);
    bench.show(6);
    let first = bench.happens(5.0, 100.0);
    bench.show(2);
    encoder.stand(false);
    until("the clip to be full", || {
        bench.clips.active[0].writer.is_finished()
    });
    let second = bench.happens(5.0, 1.0);
    bench.show(1);
    assert_ne!(
        first.clip.as_ref().unwrap().id,
        second.clip.as_ref().unwrap().id
    );
    assert!(bench.clips.active.is_empty(), "a full clip is completed");
    let (one, two) = (bench.reported(&first), bench.reported(&second));
    assert!(
        is_near(one.before_s, 5.0) && is_near(one.after_s, 1.4),
        "{one:?}"
    );
    assert!(
        is_near(two.before_s, 5.0) && is_near(two.after_s, 1.1),
        "{two:?}"
    );
    for (clip, pictures) in [(one, 64), (two, 61)] {
        let length = bench.media.open_file(&clip.id).unwrap().bytes;
        assert_eq!(length, pictures * 1000, "{clip:?}");
    }
}

#[test]
fn event_after_the_last_frame_of_its_clip_has_none() {
    let encoder = Arc::new(Encoder::default());
    let mut bench = Bench::of_large_pictures(&encoder);
    bench.is_recorded = false;
    encoder.stand(true);
    bench.show(6);
    let first = bench.happens(5.0, 100.0);
    bench.show(1);
    let within = bench.happens(5.0, 100.0);
    bench.show(5);
    // It is not known yet that the clip ends before this event.
    let behind = bench.happens(5.0, 100.0);
    let ids = [&first, &within, &behind].map(|event| event.clip.clone().unwrap().id);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    encoder.stand(false);
    until("the clip to be full", || {
        bench.clips.active[0].writer.is_finished()
    });
    let clip = bench.reported(&behind);
    let ClipState::Lost { message } = &clip.state else {
        panic!("{clip:?}");
    };
    assert!(message.contains("full before the event began"), "{message}");
    for (event, before_s) in [(&first, 5.0), (&within, 6.0)] {
        let clip = bench.reported(event);
        assert!(matches!(clip.state, ClipState::Kept { .. }), "{clip:?}");
        assert!(is_near(clip.before_s, before_s), "{clip:?}");
    }
    assert_eq!(bench.counted(), [2, 1, 0]);
}

/// The clip of the stream that an event asks for.
fn of_stream(before_s: f64, after_s: f64) -> ClipSpec {
    ClipSpec {
        before_s,
        after_s,
        made_of: ClipMaterial::Stream,
    }
}

/// An H.264 stream of ten pictures a second, with a key frame each second.
fn stream(seconds: u64) -> Vec<NewPacket> {
    gstreamer::init().unwrap();
    let text = format!(
        "videotestsrc num-buffers={} ! video/x-raw,width=128,height=72,framerate=10/1 ! \
         x264enc tune=zerolatency key-int-max=10 ! \
         video/x-h264,stream-format=byte-stream,alignment=au ! appsink name=out sync=false",
        seconds * 10
    );
    let pipeline = gstreamer::parse::launch(&text).unwrap();
    let pipeline = pipeline.downcast::<gstreamer::Pipeline>().unwrap();
    let out = pipeline.by_name("out").unwrap();
    let out = out.downcast::<gstreamer_app::AppSink>().unwrap();
    pipeline.set_state(gstreamer::State::Playing).unwrap();
    let samples = std::iter::from_fn(|| out.pull_sample().ok());
    let packets = (0..).zip(samples).map(|(n, sample): (u32, _)| {
        let buffer = sample.buffer().unwrap();
        NewPacket {
            pts: pre_roll::INTERVAL * n,
            dts: None,
            is_key: !buffer.flags().contains(gstreamer::BufferFlags::DELTA_UNIT),
            format: Arc::from(sample.caps().unwrap().to_string()),
            data: buffer.map_readable().unwrap().as_slice().to_vec(),
        }
    });
    let packets: Vec<NewPacket> = packets.collect();
    pipeline.set_state(gstreamer::State::Null).unwrap();
    assert_eq!(packets.len() as u64, seconds * 10);
    packets
}

#[test]
fn clip_of_the_stream_ends_where_the_source_was_opened_again() {
    let mut bench = Bench::new(5.0);
    let ring = bench.watch_stream();
    let mut packets = stream(4).into_iter();
    bench.show_packets(&ring, packets.by_ref().take(30));
    let event = bench.happens_with(of_stream(1.0, 10.0));
    let announced = event.clip.clone().unwrap();
    assert_eq!(announced.made_of, ClipMaterial::Stream, "{announced:?}");
    bench.show_packets(&ring, packets);
    assert_eq!(bench.clips.active.len(), 1);
    bench.begin_session(&ring);
    bench.show_packets(&ring, stream(2).into_iter());
    assert!(bench.clips.active.is_empty(), "the clip is completed");
    let next = bench.happens_with(of_stream(1.0, 1.0));

    let clip = bench.reported(&event);
    assert!(matches!(clip.state, ClipState::Kept { .. }), "{clip:?}");
    assert!(
        is_near(clip.before_s, 1.9) && is_near(clip.after_s, 1.1),
        "{clip:?}"
    );
    assert_eq!(clip.left_out, 1, "the gap is counted: {clip:?}");
    assert_eq!(clip.end.unwrap().unix_ms, 4_000);
    assert_eq!(frames(&bench.path(&clip)), 30);
    // The next clip begins in the new stream.
    let clip = bench.reported(&next);
    assert_ne!(clip.id, announced.id);
    assert!(matches!(clip.state, ClipState::Kept { .. }), "{clip:?}");
    assert_eq!((clip.made_of, clip.left_out), (ClipMaterial::Stream, 0));
}

#[test]
fn stream_with_reordered_frames_is_replaced_by_pictures() {
    let mut bench = Bench::new(5.0);
    let ring = bench.watch_stream();
    let packet = |n: u64, is_key| NewPacket {
        pts: Duration::from_millis(n * 100),
        dts: None,
        is_key,
        format: Arc::from("video/x-h264"),
        data: vec![0; 9],
    };
    bench.show_packets(&ring, (0..20).map(|n| packet(n, n % 10 == 0)));
    // In two groups of pictures, one that is shown before others, without a decoding time.
    bench.show_packets(&ring, std::iter::once(packet(5, false)));
    bench.show_packets(&ring, (21..36).map(|n| packet(n, n % 10 == 0)));
    bench.show_packets(&ring, std::iter::once(packet(33, false)));
    bench.show_packets(&ring, (37..60).map(|n| packet(n, n % 10 == 0)));
    let event = bench.happens_with(of_stream(3.0, 1.0));
    bench.show(2);
    let clip = bench.reported(&event);
    assert!(matches!(clip.state, ClipState::Kept { .. }), "{clip:?}");
    assert_eq!(clip.made_of, ClipMaterial::Pictures);
    assert!(is_near(clip.before_s, 3.0), "{clip:?}");
    let note = clip.note.unwrap();
    assert!(note.contains("no decoding times"), "{note}");
}
