//! The common part of video files and windows: pictures of ours into a GStreamer pipeline.
//!
//! Invariants: whoever hands a picture over waits only while the pipeline goes on; one that broke stays broken, says why to everybody who asks,
//! and is not waited for.

use std::sync::OnceLock;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, GObjectExtManualGst, GstBinExtManual, ObjectExt};
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;
use image::RgbImage;

/// Pictures that may wait for the encoder or the screen.
const WAITING: u64 = 4;

/// How long an error that has just been posted may take to come.
const SAID_WITHIN: Duration = Duration::from_secs(5);

/// Why pictures can't be shown or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// GStreamer does not start.
    #[error("gstreamer does not start: {0}")]
    Start(String),
    /// An element is not installed.
    #[error("gstreamer element {element} is not installed; {remedy}")]
    Missing {
        /// The first choice among those that would do.
        element: String,
        /// The command that brings it.
        remedy: String,
    },
    /// The pipeline broke.
    #[error("{what} failed: {message}")]
    Broken {
        /// What was being done.
        what: &'static str,
        /// What the pipeline said.
        message: String,
    },
    /// What it was drawn on or written to went away. Elements that draw on a screen say so when a person closes their window
    /// (`GST_RESOURCE_ERROR_NOT_FOUND`; ximagesink, xvimagesink and waylandsink do).
    #[error("{what} ended: {message}")]
    Gone {
        /// What was being done.
        what: &'static str,
        /// What the pipeline said.
        message: String,
    },
    /// The picture has another size than the first one.
    #[error("picture is {got:?} pixels, the video is {expected:?}")]
    Size {
        /// Width and height of this picture.
        got: [u32; 2],
        /// Width and height of the video.
        expected: [u32; 2],
    },
}

pub(super) fn start() -> Result<(), SinkError> {
    gst::init().map_err(|e| SinkError::Start(e.to_string()))
}

/// The element, or what to install.
pub(super) fn make(name: &str) -> Result<gst::Element, SinkError> {
    gst::ElementFactory::make(name)
        .build()
        .map_err(|_| missing(name))
}

pub(super) fn missing(element: &str) -> SinkError {
    let remedy = crate::capture::check::package_of(element).map_or_else(
        || "install the GStreamer plugin that has it".to_owned(),
        |package| format!("sudo apt-get install {package}"),
    );
    SinkError::Missing {
        element: element.to_owned(),
        remedy,
    }
}

/// A running pipeline that takes RGB pictures.
#[derive(Debug)]
pub(super) struct Sink {
    pipeline: gst::Pipeline,
    src: gst_app::AppSrc,
    size: [u32; 2],
    what: &'static str,
    /// What broke it.
    broke: OnceLock<SinkError>,
}

impl Sink {
    /// `appsrc ! videoconvert ! rest…`; with `drop` a full queue loses the oldest picture, without it the caller waits.
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
        make("appsrc")?;
        let src = gst_app::AppSrc::builder()
            .caps(&caps)
            .format(gst::Format::Time)
            .max_bytes(0)
            .block(!drop)
            .build();
        src.set_property("max-buffers", WAITING);
        src.set_property_from_str("leaky-type", if drop { "downstream" } else { "none" });
        let convert = make("videoconvert")?;
        let pipeline = gst::Pipeline::new();
        let mut chain: Vec<&gst::Element> = vec![src.as_ref(), &convert];
        chain.extend(rest);
        pipeline
            .add_many(&chain)
            .and_then(|()| gst::Element::link_many(&chain))
            .map_err(|e| broken(e.to_string()))?;
        if let Some(bus) = pipeline.bus() {
            let waited_for = src.downgrade();
            bus.set_sync_handler(move |_, message| match message.view() {
                gst::MessageView::Error(_) => {
                    // Nothing takes pictures any more, and who waits until one is taken is woken by an end of stream.
                    if let Some(src) = waited_for.upgrade() {
                        let ended = src.end_of_stream();
                        tracing::debug!(?ended, "the pipeline broke");
                    }
                    gst::BusSyncReply::Pass
                }
                gst::MessageView::Eos(_) => gst::BusSyncReply::Pass,
                _ => gst::BusSyncReply::Drop,
            });
        }
        let sink = Self {
            pipeline,
            src,
            size,
            what,
            broke: OnceLock::new(),
        };
        if sink.pipeline.set_state(gst::State::Playing).is_err() {
            return Err(sink
                .error()
                .unwrap_or_else(|| broken("it does not start".to_owned())));
        }
        Ok(sink)
    }

    /// Hands one picture over.
    pub(super) fn push(
        &self,
        picture: RgbImage,
        pts: Duration,
        lasts: Duration,
    ) -> Result<(), SinkError> {
        let got = [picture.width(), picture.height()];
        if got != self.size {
            return Err(SinkError::Size {
                got,
                expected: self.size,
            });
        }
        let mut buffer = self.padded(picture);
        let time = |d: Duration| gst::ClockTime::try_from(d).unwrap_or(gst::ClockTime::ZERO);
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(time(pts));
            buffer.set_duration(time(lasts));
        }
        if let Some(error) = self.error() {
            return Err(error);
        }
        self.src.push_buffer(buffer).map(|_| ()).map_err(|refusal| {
            // Refused because it broke meanwhile; the reason is on its way.
            let why = self.next_error(gst::ClockTime::try_from(SAID_WITHIN).ok());
            why.unwrap_or_else(|| self.broken(refusal.to_string()))
        })
    }

    /// GStreamer's RGB rows begin at multiples of four bytes.
    fn padded(&self, picture: RgbImage) -> gst::Buffer {
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
    pub(super) fn finish(&self, within: Duration) -> Result<(), SinkError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        self.src
            .end_of_stream()
            .map_err(|e| self.broken(e.to_string()))?;
        let within = gst::ClockTime::try_from(within).unwrap_or(gst::ClockTime::SECOND);
        let kinds = [gst::MessageType::Eos, gst::MessageType::Error];
        let message = self
            .pipeline
            .bus()
            .and_then(|bus| bus.timed_pop_filtered(within, &kinds));
        match message.as_ref().map(|m| m.view()) {
            Some(gst::MessageView::Eos(_)) => Ok(()),
            Some(gst::MessageView::Error(error)) => Err(self.told(error)),
            _ => Err(self.broken("it did not come to an end in time".to_owned())),
        }
    }

    /// Waits until the pipeline breaks, however long that takes.
    pub(super) fn failure(&self) -> SinkError {
        self.next_error(gst::ClockTime::NONE)
            .unwrap_or_else(|| self.broken("it can't be watched".to_owned()))
    }

    fn error(&self) -> Option<SinkError> {
        self.next_error(Some(gst::ClockTime::ZERO))
    }

    fn next_error(&self, within: Option<gst::ClockTime>) -> Option<SinkError> {
        if let Some(error) = self.broke.get() {
            return Some(error.clone());
        }
        let bus = self.pipeline.bus()?;
        let message = bus.timed_pop_filtered(within, &[gst::MessageType::Error])?;
        match message.view() {
            gst::MessageView::Error(error) => {
                Some(self.broke.get_or_init(|| self.told(error)).clone())
            }
            _ => None,
        }
    }

    fn told(&self, error: &gst::message::Error) -> SinkError {
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
        if self.pipeline.set_state(gst::State::Null).is_err() {
            tracing::debug!(what = self.what, "pipeline did not stop cleanly");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn who_waits_for_a_pipeline_that_breaks_is_told_and_waits_no_longer() {
        start().unwrap();
        // Slower than pictures come, so that somebody waits when it breaks.
        let breaking = make("identity").unwrap();
        breaking.set_property("sleep-time", 200_000u32);
        breaking.set_property("error-after", 3i32);
        let end = make("fakesink").unwrap();
        let (told, outcome) = mpsc::channel();
        std::thread::spawn(move || {
            let sink = Sink::open([16, 16], 10.0, &[breaking, end], false, "testing").unwrap();
            let push = |n: u64| {
                let (at, lasts) = (Duration::from_millis(n * 100), Duration::from_millis(100));
                sink.push(RgbImage::new(16, 16), at, lasts)
            };
            let first = (0..50).find_map(|n| push(n).err());
            told.send((first, sink.finish(Duration::from_secs(600))))
                .unwrap();
        });
        let (first, finished) = outcome
            .recv_timeout(Duration::from_secs(60))
            .expect("whoever pushes hangs, or whoever finishes");
        assert!(matches!(first, Some(SinkError::Broken { .. })), "{first:?}");
        assert_eq!(finished.err(), first);
    }
}
