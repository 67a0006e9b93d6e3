//! GStreamer pipeline behind a video file or a window.
//!
//! - A caller waits only while the pipeline runs, and at most [`PUSH_TIMEOUT`] for one picture.
//! - A broken pipeline stays broken, returns its error to every caller, and blocks none.
//! - One that hangs is broken; its threads are left behind ([`capture::tear_down`]).

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, GObjectExtManualGst, GstBinExtManual, ObjectExt};
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;
use image::RgbImage;

use crate::capture;
use crate::capture::check::install_remedy;
use crate::clock::{self, ProcessorSum};

/// Max pictures that wait for the encoder or the screen.
const QUEUE_SIZE: u64 = 4;

/// Longest wait until the encoder or the disk takes one more picture. The thread that pushes the
/// annotated video detects, too.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two looks at a full queue, which holds several pictures meanwhile.
const FULL_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Max delay between a failed push and the error message about it.
const ERROR_TIMEOUT: Duration = Duration::from_secs(5);

/// Error of showing or writing pictures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// GStreamer does not start.
    #[error("gstreamer does not start: {0}")]
    Start(String),
    /// An element is not installed.
    #[error("gstreamer element {element} is not installed; {remedy}")]
    Missing {
        /// First choice among the possible elements.
        element: String,
        /// Command that installs it.
        remedy: String,
    },
    /// The pipeline failed.
    #[error("{what} failed: {message}")]
    Broken {
        /// Activity that failed.
        what: &'static str,
        message: String,
    },
    /// The screen or file went away. Elements of a window that a user closes report it
    /// (`GST_RESOURCE_ERROR_NOT_FOUND`: ximagesink, xvimagesink and waylandsink).
    #[error("{what} ended: {message}")]
    Gone {
        /// Activity that ended.
        what: &'static str,
        message: String,
    },
    /// The picture has another size than the first one.
    #[error("picture is {got:?} pixels, the video is {expected:?}")]
    Size { got: [u32; 2], expected: [u32; 2] },
}

pub(super) fn init() -> Result<(), SinkError> {
    gst::init().map_err(|e| SinkError::Start(e.to_string()))
}

/// Creates an element; the error names the package to install.
pub(super) fn make(name: &str) -> Result<gst::Element, SinkError> {
    gst::ElementFactory::make(name)
        .build()
        .map_err(|_| missing_element(name))
}

pub(super) fn missing_element(element: &str) -> SinkError {
    SinkError::Missing {
        element: element.to_owned(),
        remedy: install_remedy(element),
    }
}

/// Converts a time, which is zero if it is too large.
pub(super) fn clock_time(time: Duration) -> gst::ClockTime {
    gst::ClockTime::try_from(time).unwrap_or(gst::ClockTime::ZERO)
}

/// Keeps the errors and the end of the pipeline for callers, and adds the times of its threads to
/// `sum`, where one is set.
fn handle_messages(pipeline: &gst::Pipeline, sum: Arc<OnceLock<Arc<ProcessorSum>>>) {
    let Some(bus) = pipeline.bus() else { return };
    bus.set_sync_handler(move |_, message| match message.view() {
        gst::MessageView::Error(_) | gst::MessageView::Eos(_) => gst::BusSyncReply::Pass,
        gst::MessageView::StreamStatus(status) => {
            add_time(status.type_(), &sum);
            gst::BusSyncReply::Drop
        }
        _ => gst::BusSyncReply::Drop,
    });
}

/// Adds the time that the calling thread spent for a pipeline. GStreamer reports the beginning and
/// the end on that thread, which may have served another pipeline before.
fn add_time(status: gst::StreamStatusType, sum: &OnceLock<Arc<ProcessorSum>>) {
    thread_local!(static BEGAN: Cell<Duration> = const { Cell::new(Duration::ZERO) });
    match (status, sum.get()) {
        (gst::StreamStatusType::Enter, _) => BEGAN.set(clock::thread_time()),
        (gst::StreamStatusType::Leave, Some(sum)) => {
            sum.add(clock::thread_time().saturating_sub(BEGAN.get()));
        }
        _ => {}
    }
}

/// A running pipeline that takes RGB pictures.
#[derive(Debug)]
pub(super) struct Sink {
    pipeline: gst::Pipeline,
    src: gst_app::AppSrc,
    size: [u32; 2],
    /// Whether a full queue loses the oldest picture, instead of making the caller wait.
    is_leaky: bool,
    what: &'static str,
    /// First error of the pipeline.
    first_error: OnceLock<SinkError>,
    /// Sum to which the processor time of its threads is added.
    time: Arc<OnceLock<Arc<ProcessorSum>>>,
}

impl Sink {
    /// Starts `appsrc ! videoconvert ! rest…`. With `drop`, a full queue loses the oldest picture;
    /// without it, the caller waits.
    pub(super) fn open(
        size: [u32; 2],
        fps: f64,
        rest: &[gst::Element],
        drop: bool,
        what: &'static str,
    ) -> Result<Self, SinkError> {
        let broken = |message: String| SinkError::Broken { what, message };
        let rate = gst::Fraction::approximate_f64(fps).unwrap_or(gst::Fraction::new(25, 1));
        let info = gst_video::VideoInfo::builder(gst_video::VideoFormat::Rgb, size[0], size[1])
            .fps(rate)
            .build()
            .map_err(|e| broken(e.to_string()))?;
        let caps = info.to_caps().map_err(|e| broken(e.to_string()))?;
        let convert = make("videoconvert")?;
        let chain: Vec<gst::Element> = std::iter::once(convert)
            .chain(rest.iter().cloned())
            .collect();
        let mut sink = Self::start(&caps, size, &chain, what)?;
        if drop {
            sink.is_leaky = true;
            sink.src.set_property_from_str("leaky-type", "downstream");
        }
        Ok(sink)
    }

    /// Starts `appsrc ! rest…` with this format; a caller waits while the queue is full.
    pub(super) fn start(
        caps: &gst::Caps,
        size: [u32; 2],
        rest: &[gst::Element],
        what: &'static str,
    ) -> Result<Self, SinkError> {
        let broken = |message: String| SinkError::Broken { what, message };
        make("appsrc")?;
        let src = gst_app::AppSrc::builder()
            .caps(caps)
            .format(gst::Format::Time)
            .max_bytes(0)
            .build();
        src.set_property("max-buffers", QUEUE_SIZE);
        let pipeline = gst::Pipeline::new();
        let mut chain: Vec<&gst::Element> = vec![src.as_ref()];
        chain.extend(rest);
        pipeline
            .add_many(&chain)
            .and_then(|()| gst::Element::link_many(&chain))
            .map_err(|e| broken(e.to_string()))?;
        let time = Arc::default();
        handle_messages(&pipeline, Arc::clone(&time));
        let sink = Self {
            pipeline,
            src,
            size,
            is_leaky: false,
            what,
            first_error: OnceLock::new(),
            time,
        };
        if sink.pipeline.set_state(gst::State::Playing).is_err() {
            return Err(sink
                .error()
                .unwrap_or_else(|| broken("it does not start".to_owned())));
        }
        Ok(sink)
    }

    /// Adds the processor time of its threads to `sum` when they end; the first call counts.
    pub(super) fn add_time_to(&self, sum: Arc<ProcessorSum>) {
        self.time.get_or_init(|| sum);
    }

    /// Appends one picture.
    pub(super) fn push(
        &self,
        picture: RgbImage,
        pts: Duration,
        duration: Duration,
    ) -> Result<(), SinkError> {
        let got = [picture.width(), picture.height()];
        if got != self.size {
            return Err(SinkError::Size {
                got,
                expected: self.size,
            });
        }
        let mut buffer = self.pad_rows(picture);
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(clock_time(pts));
            buffer.set_duration(clock_time(duration));
        }
        self.push_buffer(buffer)
    }

    /// Appends a buffer of the pipeline's format.
    pub(super) fn push_buffer(&self, buffer: gst::Buffer) -> Result<(), SinkError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        if !self.is_leaky {
            self.wait_for_place(PUSH_TIMEOUT)?;
        }
        self.src.push_buffer(buffer).map(|_| ()).map_err(|refusal| {
            // The pipeline broke meanwhile, and its error message is about to arrive.
            let why = self.next_error(gst::ClockTime::try_from(ERROR_TIMEOUT).ok());
            why.unwrap_or_else(|| self.broken(refusal.to_string()))
        })
    }

    /// Waits until the queue is not full; after `timeout` the pipeline counts as broken.
    fn wait_for_place(&self, timeout: Duration) -> Result<(), SinkError> {
        let until = Instant::now() + timeout;
        while self.src.property::<u64>("current-level-buffers") >= QUEUE_SIZE {
            if let Some(error) = self.next_error(Some(clock_time(FULL_POLL_INTERVAL))) {
                return Err(error);
            }
            if Instant::now() >= until {
                let error = self.broken(format!("it hangs: no picture taken for {timeout:?}"));
                return Err(self.first_error.get_or_init(|| error).clone());
            }
        }
        Ok(())
    }

    /// Copies a picture to rows of a multiple of four bytes, as GStreamer's RGB needs.
    fn pad_rows(&self, picture: RgbImage) -> gst::Buffer {
        let row = self.size[0] as usize * 3;
        let stride = row.next_multiple_of(4);
        let data = picture.into_raw();
        if stride == row || row == 0 {
            return gst::Buffer::from_mut_slice(data);
        }
        let mut padded = vec![0; stride * self.size[1] as usize];
        for (to, from) in padded.chunks_exact_mut(stride).zip(data.chunks_exact(row)) {
            to[..row].copy_from_slice(from);
        }
        gst::Buffer::from_mut_slice(padded)
    }

    /// Ends the stream and waits until everything is written.
    pub(super) fn finish(&self, timeout: Duration) -> Result<(), SinkError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        self.src
            .end_of_stream()
            .map_err(|e| self.broken(e.to_string()))?;
        let timeout = gst::ClockTime::try_from(timeout).unwrap_or(gst::ClockTime::SECOND);
        let kinds = [gst::MessageType::Eos, gst::MessageType::Error];
        let message = self
            .pipeline
            .bus()
            .and_then(|bus| bus.timed_pop_filtered(timeout, &kinds));
        match message.as_ref().map(|m| m.view()) {
            Some(gst::MessageView::Eos(_)) => Ok(()),
            Some(gst::MessageView::Error(error)) => Err(self.convert_error(error)),
            _ => Err(self.broken(format!("it did not end within {} s", timeout.seconds()))),
        }
    }

    /// Waits until the pipeline breaks.
    pub(super) fn failure(&self) -> SinkError {
        self.next_error(gst::ClockTime::NONE)
            .unwrap_or_else(|| self.broken("it has no message bus".to_owned()))
    }

    fn error(&self) -> Option<SinkError> {
        self.next_error(Some(gst::ClockTime::ZERO))
    }

    fn next_error(&self, timeout: Option<gst::ClockTime>) -> Option<SinkError> {
        if let Some(error) = self.first_error.get() {
            return Some(error.clone());
        }
        let bus = self.pipeline.bus()?;
        let message = bus.timed_pop_filtered(timeout, &[gst::MessageType::Error])?;
        match message.view() {
            gst::MessageView::Error(error) => Some(
                self.first_error
                    .get_or_init(|| self.convert_error(error))
                    .clone(),
            ),
            _ => None,
        }
    }

    fn convert_error(&self, error: &gst::message::Error) -> SinkError {
        let error = error.error();
        let message = error.to_string();
        match error.kind::<gst::ResourceError>() {
            Some(gst::ResourceError::NotFound) => SinkError::Gone {
                what: self.what,
                message,
            },
            _ => self.broken(message),
        }
    }

    fn broken(&self, message: String) -> SinkError {
        SinkError::Broken {
            what: self.what,
            message,
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        capture::tear_down(&self.pipeline);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn broken_pipeline_wakes_a_waiting_caller_with_its_error() {
        init().unwrap();
        // Slower than the pushes, so that one of them waits when it breaks.
        let breaking = make("identity").unwrap();
        breaking.set_property("sleep-time", 200_000u32);
        breaking.set_property("error-after", 3i32);
        let end = make("fakesink").unwrap();
        let (sender, outcome) = mpsc::channel();
        std::thread::spawn(move || {
            let sink = Sink::open([16, 16], 10.0, &[breaking, end], false, "testing").unwrap();
            let push = |n: u64| {
                let (at, duration) = (Duration::from_millis(n * 100), Duration::from_millis(100));
                sink.push(RgbImage::new(16, 16), at, duration)
            };
            let first = (0..50).find_map(|n| push(n).err());
            sender
                .send((first, sink.finish(Duration::from_secs(600))))
                .unwrap();
        });
        let (first, finished) = outcome
            .recv_timeout(Duration::from_secs(60))
            .expect("push or finish hangs");
        assert!(matches!(first, Some(SinkError::Broken { .. })), "{first:?}");
        assert_eq!(finished.err(), first);
    }

    #[test]
    fn pipeline_that_takes_no_picture_is_broken_after_the_timeout() {
        init().unwrap();
        let slow = make("identity").unwrap();
        slow.set_property("sleep-time", 500_000u32);
        let end = make("fakesink").unwrap();
        let sink = Sink::open([16, 16], 10.0, &[slow, end], false, "testing").unwrap();
        let full = (0..1000).find_map(|n| {
            let pts = Duration::from_millis(n * 100);
            sink.push(RgbImage::new(16, 16), pts, pts).unwrap();
            sink.wait_for_place(Duration::ZERO).err()
        });
        assert!(matches!(full, Some(SinkError::Broken { .. })), "{full:?}");
        let finished = sink.finish(Duration::from_secs(600));
        assert_eq!(finished.err(), full);
    }
}
