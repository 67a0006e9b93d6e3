//! GStreamer pipelines as feeds: video files, RTSP, HTTP, V4L2 and CSI.
//!
//! - Pictures leave as I420 or NV12 in system memory; other formats are converted.
//! - Only the first video stream is decoded.
//! - A hardware decoder that fails, or takes frames and gives none, ends the feed with
//!   [`Step::DecoderFailed`]. The source then opens the stream again without hardware.
//! - A recording that lacks its end or pictures is reported before [`Step::End`].
//! - Credentials are passed as properties: elements print addresses.
//! - Dropping the feed stops the pipeline, and waits at most [`teardown::STOP_TIMEOUT`] for it.

mod completeness;
mod damage;
mod decoder_log;
mod describe;
mod device;
mod entry;
mod http;
mod jpeg;
mod mode;
mod packet_probe;
mod pipeline;
mod platform;
mod signals;
mod teardown;
mod timestamps;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::{Cast, ElementExt, ElementExtManual, GstObjectExt};
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;
use gstreamer_video::prelude::VideoFrameExt;
use url::Url;
use watchkeeper_contract::source::{DecoderChoice, DecoderStatus, LossCause};
use watchkeeper_vision::frame::{ColorMatrix, Colorimetry, Picture, PixelFormat, Plane, Planes};

use self::completeness::missing_end_of_avi;
pub(super) use self::describe::{Origin, Request};
pub use self::device::DRAIN_V4L2_ENV;
use self::platform::Platform;
use self::signals::{Signals, fault};
pub use self::teardown::{hanging_teardowns, tear_down, teardown_failure, teardown_trouble};
use super::cause;
use super::check::{Missing, package_of};
use super::feed::{Feed, FeedError, Losses, Raw, Step};
use super::packets::PacketRing;
use super::privacy::Unmasked;

/// Buffers that a hardware decoder may hold before its first picture, and between two. They are the
/// 16 that H.264 and H.265 reorder, and as many in the decoder's own queues.
const MAX_UNDECODED: u64 = 32;

/// Checks that decoders of this choice are installed.
///
/// # Errors
/// A sentence with the remedy.
pub fn check_decoder(choice: DecoderChoice) -> Result<(), String> {
    if choice == DecoderChoice::Auto {
        return Ok(());
    }
    gst::init().map_err(|e| format!("GStreamer does not start: {e}"))?;
    Platform::probe().check_choice(choice)
}

/// Lists the elements of this board's hardware decoders that are not installed.
pub fn missing_hardware() -> Vec<Missing> {
    if gst::init().is_err() {
        // Everything is missing then, and reported by `missing_elements`.
        return Vec::new();
    }
    let missing = Platform::probe().all_missing_hardware().into_iter();
    missing
        .map(|hardware| Missing {
            element: hardware.element.to_owned(),
            package: package_of(hardware.element).unwrap_or_default().to_owned(),
            needed_for: format!("hardware decoding by {}", hardware.by),
        })
        .collect()
}

/// A running GStreamer pipeline.
pub(super) struct GstFeed {
    pipeline: gst::Pipeline,
    sink: gst_app::AppSink,
    bus: gst::Bus,
    signals: Arc<Signals>,
    has_reported_connected: bool,
    /// Pictures taken from the sink.
    taken: u64,
    layout: Option<(gst::Caps, gst_video::VideoInfo)>,
    /// Gaps of the recording that are not reported yet; set at its end.
    missing: Option<std::vec::IntoIter<String>>,
    place: String,
    kind: Kind,
}

enum Kind {
    File(PathBuf),
    Network(Url),
    Device,
}

impl GstFeed {
    /// Builds and starts the pipeline; network sources connect in the background.
    /// `packets` takes the encoded stream, if there is one.
    pub(super) fn open(
        request: &Request<'_>,
        packets: Option<Arc<PacketRing>>,
    ) -> Result<Self, FeedError> {
        gst::init().map_err(|e| fault(&format!("GStreamer does not start: {e}")))?;
        let signals = Arc::new(Signals {
            packets,
            ..Signals::default()
        });
        let pipeline = gst::Pipeline::new();
        let sink = pipeline::build(&pipeline, request, &signals)?;
        let (place, kind) = match &request.origin {
            Origin::File { path, .. } => {
                (path.display().to_string(), Kind::File(path.to_path_buf()))
            }
            Origin::Rtsp { url, .. } | Origin::Http { url, .. } => {
                (url.to_string(), Kind::Network((*url).clone()))
            }
            Origin::V4l2 { device, .. } => (device.display().to_string(), Kind::Device),
            Origin::Csi { sensor, .. } => (format!("csi://{sensor}"), Kind::Device),
        };
        let bus = pipeline
            .bus()
            .ok_or_else(|| fault("pipeline without a bus"))?;
        // Other messages (state changes, tags, quality of service) would pile up unread.
        bus.set_sync_handler(|_, message| match message.view() {
            gst::MessageView::Error(_) | gst::MessageView::Element(_) => gst::BusSyncReply::Pass,
            _ => gst::BusSyncReply::Drop,
        });
        let mut feed = Self {
            pipeline,
            sink,
            bus,
            signals,
            has_reported_connected: false,
            taken: 0,
            layout: None,
            missing: None,
            place,
            kind,
        };
        if feed.pipeline.set_state(gst::State::Playing).is_err() {
            return Err(match feed.error() {
                Some(Step::Broken(error) | Step::DecoderFailed(error)) => error,
                _ => fault(&format!("{} does not start", feed.place)),
            });
        }
        Ok(feed)
    }

    /// Returns the step for the error that the pipeline posted, if any.
    fn error(&mut self) -> Option<Step> {
        let mut missing = None;
        while let Some(message) = self.bus.pop() {
            match message.view() {
                gst::MessageView::Element(element) => {
                    let name = element.structure().filter(|s| s.name() == "missing-plugin");
                    missing = name.and_then(|s| s.get::<String>("name").ok()).or(missing);
                }
                gst::MessageView::Error(error) => {
                    if let Some(step) = self.blame_decoder(error) {
                        return Some(step);
                    }
                    let explained = self.explain(&error.error(), error.debug().as_deref(), missing);
                    return Some(Step::Broken(explained));
                }
                _ => {}
            }
        }
        let failure = self.signals.failure.lock().take()?;
        Some(match self.hardware() {
            Some(element) => self.decoder_failed(&element, &failure.message),
            None => Step::Broken(failure),
        })
    }

    /// Returns the hardware decoder of this feed.
    fn hardware(&self) -> Option<String> {
        let decoder = self.signals.decoder.lock();
        let status = &decoder.as_ref()?.status;
        status.hardware.then(|| status.element.clone())
    }

    /// Blames the hardware decoder for an error that one of its elements posted, or that the
    /// stream's format caused before the first picture. Other elements report that it was refused.
    fn blame_decoder(&self, error: &gst::message::Error) -> Option<Step> {
        let element = self.hardware()?;
        let glib = error.error();
        let is_of_decoder = error.src().is_some_and(|src| {
            let decoder = self.signals.decoder.lock();
            let parts = decoder.iter().flat_map(|decoder| &decoder.elements);
            let mut parts = parts.filter_map(gst::glib::WeakRef::upgrade);
            parts.any(|part| src == part.upcast_ref::<gst::Object>() || src.has_as_ancestor(&part))
        });
        let is_of_format = self.taken == 0
            && (glib.kind::<gst::StreamError>().is_some()
                || glib.kind::<gst::CoreError>().is_some());
        (is_of_decoder || is_of_format).then(|| self.decoder_failed(&element, glib.message()))
    }

    fn decoder_failed(&self, element: &str, detail: &str) -> Step {
        Step::DecoderFailed(self.decoder_error(element, detail))
    }

    fn decoder_error(&self, element: &str, detail: &str) -> FeedError {
        let detail = lowercase_first(detail);
        FeedError {
            cause: LossCause::Codec,
            message: format!(
                "hardware decoder {element} failed on {} ({detail}); the processor decodes until \
                 the runtime restarts",
                self.place
            ),
            is_retryable: true,
        }
    }

    fn explain(
        &self,
        error: &gst::glib::Error,
        debug: Option<&str>,
        missing: Option<String>,
    ) -> FeedError {
        let debug = debug.unwrap_or_default();
        let mut cause = cause::from_gst(error, debug);
        let is_unlinked =
            missing.is_none() && error.kind::<gst::StreamError>() == Some(gst::StreamError::Failed);
        let detail = missing.map_or_else(
            || lowercase_first(error.message()),
            |what| {
                format!(
                    "{what} is not installed; install the package that `watchkeeper doctor` names, \
                     or gstreamer1.0-libav"
                )
            },
        );
        match &self.kind {
            // The file could be opened, so the error is about its content.
            Kind::File(_) => FeedError {
                cause: LossCause::Codec,
                message: format!(
                    "{} {}",
                    self.place,
                    self.explain_content(&detail, is_unlinked)
                ),
                is_retryable: false,
            },
            Kind::Network(url) => {
                let connected = self.signals.connected.load(Ordering::Relaxed);
                if self.signals.untrusted.load(Ordering::Relaxed) {
                    cause = LossCause::Untrusted;
                }
                if cause == LossCause::Other && !connected {
                    cause = cause::probe(url).unwrap_or(cause);
                }
                if cause == LossCause::Other && connected {
                    cause = LossCause::EndOfStream;
                }
                let detail = match (cause, cause::server_error(debug)) {
                    (LossCause::Other, Some(status)) => format!(
                        "its server answers with error {status}; restart the camera if that lasts"
                    ),
                    (LossCause::Other, None) => {
                        format!("it sends no video ({detail}); check the address and the port")
                    }
                    (LossCause::EndOfStream, _) => {
                        format!("the stream broke off ({detail}); check the network and the camera")
                    }
                    _ => detail,
                };
                FeedError {
                    cause,
                    message: cause::describe(cause, &self.place, &detail),
                    is_retryable: true,
                }
            }
            Kind::Device => FeedError {
                cause,
                message: cause::describe(cause, &self.place, &detail),
                is_retryable: true,
            },
        }
    }

    /// Describes why the content of a file can't be decoded, with the remedy.
    fn explain_content(&self, detail: &str, is_unlinked: bool) -> String {
        let has_sound = self.signals.has_sound.load(Ordering::Relaxed);
        if has_sound && is_unlinked && !self.signals.connected.load(Ordering::Relaxed) {
            return "holds sound and no video; name a video file".to_owned();
        }
        if detail.contains("no playable streams") {
            return "has no index of its pictures: its recording was probably cut; copy the whole \
                    file again"
                .to_owned();
        }
        format!(
            "is not a video that can be decoded ({detail}); copy it again, or convert it to MP4"
        )
    }

    /// Returns the next part that the recording lacks, at its end.
    fn next_missing(&mut self) -> Option<FeedError> {
        if !self.is_recording() {
            return None;
        }
        if self.missing.is_none() {
            let decoder = self.signals.decoder.lock();
            let watched = decoder.as_ref().map(|decoder| &decoder.completeness);
            let length = self.pipeline.query_duration::<gst::ClockTime>();
            let mut parts = match &self.kind {
                Kind::File(path) => Vec::from_iter(missing_end_of_avi(path)),
                Kind::Network(_) | Kind::Device => Vec::new(),
            };
            let missing = watched.into_iter();
            parts.extend(missing.flat_map(|w| w.lock().missing_parts(length)));
            self.missing = Some(parts.into_iter());
        }
        let message = self.missing.as_mut()?.next()?;
        Some(FeedError {
            cause: LossCause::Codec,
            message,
            is_retryable: false,
        })
    }

    fn convert(&mut self, sample: &gst::Sample) -> Result<Raw, FeedError> {
        let (Some(buffer), Some(caps)) = (sample.buffer_owned(), sample.caps_owned()) else {
            return Err(fault("a picture without data or layout"));
        };
        // Parts carry no times; elements make some up from an arbitrary rate.
        let timed = !self.signals.multipart.load(Ordering::Relaxed);
        let pts = buffer.pts().filter(|_| timed).map(Duration::from);
        if self.layout.as_ref().is_none_or(|(known, _)| *known != caps) {
            let info = gst_video::VideoInfo::from_caps(&caps)
                .map_err(|e| fault(&format!("pictures of an unknown layout: {e}")))?;
            self.layout = Some((caps, info));
        }
        let Some((_, info)) = &self.layout else {
            return Err(fault("a picture without a layout"));
        };
        let format = match info.format() {
            gst_video::VideoFormat::I420 => PixelFormat::I420,
            gst_video::VideoFormat::Nv12 => PixelFormat::Nv12,
            other => return Err(fault(&format!("pictures of the unexpected layout {other}"))),
        };
        let fps = nominal_fps(info).filter(|_| timed);
        let is_damaged = buffer.flags().contains(gst::BufferFlags::CORRUPTED);
        let (width, height, color) = (info.width(), info.height(), colorimetry(info));
        let frame = gst_video::VideoFrame::from_buffer_readable(buffer, info)
            .map_err(|_| fault("a picture that can't be mapped to memory"))?;
        Ok(Raw {
            picture: Unmasked::from(Picture {
                width,
                height,
                format,
                color,
                planes: Arc::new(Mapped(frame)),
            }),
            pts,
            fps,
            is_damaged,
        })
    }
}

impl Feed for GstFeed {
    fn next(&mut self, wait: Duration) -> Step {
        if !self.has_reported_connected && self.signals.connected.load(Ordering::Relaxed) {
            self.has_reported_connected = true;
            return Step::Connected;
        }
        if let Some(why) = self.signals.content.lock().take() {
            return Step::Broken(why);
        }
        let wait = gst::ClockTime::try_from(wait).unwrap_or(gst::ClockTime::SECOND);
        if let Some(sample) = self.sink.try_pull_sample(wait) {
            self.taken += 1;
            self.signals.taken_since_picture.store(0, Ordering::Relaxed);
            return self
                .convert(&sample)
                .map_or_else(Step::Broken, Step::Picture);
        }
        if let Some(broken) = self.error() {
            return broken;
        }
        if self.sink.is_eos() {
            let is_undecoded = self.signals.taken_since_picture.load(Ordering::Relaxed) > 0;
            return match self.hardware() {
                Some(element) if is_undecoded && self.taken == 0 => {
                    self.decoder_failed(&element, "it took frames and gave none")
                }
                _ => self.next_missing().map_or(Step::End, Step::LeftOut),
            };
        }
        Step::Nothing
    }

    fn is_recording(&self) -> bool {
        match &self.kind {
            Kind::File(_) => true,
            Kind::Network(url) => {
                url.scheme().starts_with("http") && !self.signals.multipart.load(Ordering::Relaxed)
            }
            Kind::Device => false,
        }
    }

    fn decoder(&self) -> Option<DecoderStatus> {
        let decoder = self.signals.decoder.lock();
        decoder.as_ref().map(|decoder| decoder.status.clone())
    }

    fn silent_decoder(&self) -> Option<FeedError> {
        let element = self.hardware()?;
        let is_silent = self.signals.taken_since_picture.load(Ordering::Relaxed) > MAX_UNDECODED;
        is_silent.then(|| self.decoder_error(&element, "it took frames and gave none in time"))
    }

    fn losses(&self) -> Losses {
        let packets = pipeline::lost_packets(&self.pipeline);
        let decoder = self.signals.decoder.lock();
        let undecoded = decoder
            .as_ref()
            .map_or(0, |decoder| decoder.completeness.lock().undecoded());
        // Without dropping, pictures outside of the recording's segment are not taken either.
        let given = self.signals.given.load(Ordering::Relaxed);
        let replaced = given.saturating_sub(self.taken + u64::from(pipeline::MAX_BUFFERS) + 1);
        Losses {
            packets,
            undecoded,
            replaced: if self.sink.is_drop() { replaced } else { 0 },
        }
    }
}

impl Drop for GstFeed {
    fn drop(&mut self) {
        tear_down(&self.pipeline);
    }
}

/// A decoded buffer, mapped for reading while the picture lives.
struct Mapped(gst_video::VideoFrame<gst_video::video_frame::Readable>);

impl Planes for Mapped {
    fn plane(&self, index: usize) -> Plane<'_> {
        let empty = Plane {
            data: &[],
            stride: 0,
        };
        let Ok(number) = u32::try_from(index) else {
            return empty;
        };
        let stride = self.0.plane_stride().get(index).copied();
        match (self.0.plane_data(number), stride.map(usize::try_from)) {
            (Ok(data), Some(Ok(stride))) => Plane { data, stride },
            _ => empty,
        }
    }
}

/// Converts an element's message to a part of a sentence.
fn lowercase_first(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

fn nominal_fps(info: &gst_video::VideoInfo) -> Option<f64> {
    let fps = f64::from(info.fps().numer()) / f64::from(info.fps().denom().max(1));
    // Some cameras announce their clock rate as their frame rate.
    (0.05..=480.0).contains(&fps).then_some(fps)
}

fn colorimetry(info: &gst_video::VideoInfo) -> Colorimetry {
    let colorimetry = info.colorimetry();
    let matrix = match colorimetry.matrix() {
        gst_video::VideoColorMatrix::Bt709 => ColorMatrix::Bt709,
        gst_video::VideoColorMatrix::Bt601 => ColorMatrix::Bt601,
        // Without a matrix, high definition is BT.709 by convention.
        _ if info.height() >= 720 => ColorMatrix::Bt709,
        _ => ColorMatrix::Bt601,
    };
    Colorimetry {
        matrix,
        full_range: colorimetry.range() == gst_video::VideoColorRange::Range0_255,
    }
}
