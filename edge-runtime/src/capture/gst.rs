//! GStreamer pipelines as feeds: video files, RTSP, HTTP and V4L2.
//!
//! Invariants: pictures leave as I420 or NV12 in the memory the decoder wrote them to (converted only where it gives
//! something else); nothing but the first video stream is decoded; credentials are given as properties, never in an
//! address, because elements print addresses; dropping the feed stops the pipeline.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::{
    Cast, ElementExt, ElementExtManual, GObjectExtManualGst, GstBinExtManual, GstObjectExt,
    ObjectExt, PadExt, PadExtManual,
};
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;
use gstreamer_video::prelude::VideoFrameExt;
use url::Url;
use watchkeeper_contract::source::{LossCause, RtspTransport};

use super::address::Credentials;
use super::cause;
use super::feed::{Broken, Feed, Raw, Step};
use crate::frame::{ColorMatrix, Colorimetry, Picture, PixelFormat, Plane, Planes};

/// Pictures that may wait between GStreamer and the source's thread.
const WAITING: u32 = 2;

/// Order and loss of RTP packets are mended within this time.
const RTSP_LATENCY_MS: u32 = 100;

/// How long a network element may wait for an answer, seconds; below the supervisor's own deadline, so that the
/// element's more exact error comes first.
const NETWORK_TIMEOUT_S: u32 = 8;

/// What to open.
pub(super) enum Origin<'a> {
    File {
        path: &'a Path,
        native_pace: bool,
    },
    Rtsp {
        url: &'a Url,
        credentials: Option<&'a Credentials>,
        transport: RtspTransport,
    },
    Http {
        url: &'a Url,
        credentials: Option<&'a Credentials>,
        native_pace: bool,
    },
    V4l2 {
        device: &'a Path,
        size: Option<[u32; 2]>,
        fps: Option<u32>,
    },
}

/// What the streaming threads tell the feed.
#[derive(Default)]
struct Signs {
    connected: AtomicBool,
    /// What arrives over HTTP is a sequence of JPEGs and not a file.
    multipart: AtomicBool,
}

/// A running pipeline.
pub(super) struct GstFeed {
    pipeline: gst::Pipeline,
    sink: gst_app::AppSink,
    bus: gst::Bus,
    signs: Arc<Signs>,
    told_connected: bool,
    layout: Option<(gst::Caps, gst_video::VideoInfo)>,
    place: String,
    kind: Kind,
}

enum Kind {
    File,
    Network(Url),
    Device,
}

impl GstFeed {
    /// Builds and starts the pipeline; network sources connect in the background.
    pub(super) fn open(origin: &Origin<'_>) -> Result<Self, Broken> {
        gst::init().map_err(|e| fault(&format!("GStreamer does not start: {e}")))?;
        let signs = Arc::new(Signs::default());
        let pipeline = gst::Pipeline::new();
        let sink = tail(&pipeline, origin)?;
        let (place, kind) = match origin {
            Origin::File { path, .. } => (path.display().to_string(), Kind::File),
            Origin::Rtsp { url, .. } | Origin::Http { url, .. } => {
                (url.to_string(), Kind::Network((*url).clone()))
            }
            Origin::V4l2 { device, .. } => (device.display().to_string(), Kind::Device),
        };
        head(&pipeline, origin, &signs)?;
        let bus = pipeline
            .bus()
            .ok_or_else(|| fault("pipeline without a bus"))?;
        // Everything else (state changes, tags, quality of service) would pile up unread.
        bus.set_sync_handler(|_, message| match message.view() {
            gst::MessageView::Error(_) | gst::MessageView::Element(_) => gst::BusSyncReply::Pass,
            _ => gst::BusSyncReply::Drop,
        });
        let mut feed = Self {
            pipeline,
            sink,
            bus,
            signs,
            told_connected: false,
            layout: None,
            place,
            kind,
        };
        if feed.pipeline.set_state(gst::State::Playing).is_err() {
            return Err(feed
                .error()
                .unwrap_or_else(|| fault(&format!("{} does not start", feed.place))));
        }
        Ok(feed)
    }

    /// The error that the pipeline posted, if it did.
    fn error(&mut self) -> Option<Broken> {
        let mut missing = None;
        while let Some(message) = self.bus.pop() {
            match message.view() {
                gst::MessageView::Element(element) => {
                    let name = element.structure().filter(|s| s.name() == "missing-plugin");
                    missing = name.and_then(|s| s.get::<String>("name").ok()).or(missing);
                }
                gst::MessageView::Error(error) => {
                    return Some(self.explain(&error.error(), error.debug().as_deref(), missing));
                }
                _ => {}
            }
        }
        None
    }

    fn explain(
        &self,
        error: &gst::glib::Error,
        debug: Option<&str>,
        missing: Option<String>,
    ) -> Broken {
        let debug = debug.unwrap_or_default();
        let mut cause = cause::of_gst(error, debug);
        let detail = missing.map_or_else(
            || sentence_part(error.message()),
            |what| format!("{what} is not installed; sudo apt-get install gstreamer1.0-libav"),
        );
        match &self.kind {
            Kind::File => {
                // The file was opened before, so whatever the elements say is about its content.
                let cause = LossCause::Codec;
                let message = format!(
                    "{} is not a video that can be decoded ({detail}); check the file",
                    self.place
                );
                Broken {
                    cause,
                    message,
                    heals: false,
                }
            }
            Kind::Network(url) => {
                let connected = self.signs.connected.load(Ordering::Relaxed);
                if cause == LossCause::Other && !connected {
                    cause = cause::probe(url).unwrap_or(cause);
                }
                if cause == LossCause::Other && connected {
                    cause = LossCause::EndOfStream;
                }
                Broken {
                    cause,
                    message: cause::sentence(cause, &self.place, &detail),
                    heals: true,
                }
            }
            Kind::Device => Broken {
                cause,
                message: cause::sentence(cause, &self.place, &detail),
                heals: true,
            },
        }
    }

    fn raw(&mut self, sample: &gst::Sample) -> Result<Raw, Broken> {
        let buffer = sample.buffer_owned();
        let caps = sample.caps_owned();
        let (Some(buffer), Some(caps)) = (buffer, caps) else {
            return Err(fault("a picture without data or layout"));
        };
        let pts = buffer.pts().map(Duration::from);
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
        let fps = nominal_fps(info);
        let (width, height, color) = (info.width(), info.height(), colorimetry(info));
        let frame = gst_video::VideoFrame::from_buffer_readable(buffer, info)
            .map_err(|_| fault("a picture that can't be mapped to memory"))?;
        Ok(Raw {
            picture: Picture {
                width,
                height,
                format,
                color,
                planes: Arc::new(Mapped(frame)),
            },
            pts,
            fps,
        })
    }
}

impl Feed for GstFeed {
    fn next(&mut self, wait: Duration) -> Step {
        if !self.told_connected && self.signs.connected.load(Ordering::Relaxed) {
            self.told_connected = true;
            return Step::Connected;
        }
        let wait = gst::ClockTime::try_from(wait).unwrap_or(gst::ClockTime::SECOND);
        if let Some(sample) = self.sink.try_pull_sample(wait) {
            return self.raw(&sample).map_or_else(Step::Broken, Step::Picture);
        }
        if let Some(broken) = self.error() {
            return Step::Broken(broken);
        }
        if self.sink.is_eos() {
            return Step::End;
        }
        Step::Nothing
    }

    fn is_recording(&self) -> bool {
        match &self.kind {
            Kind::File => true,
            Kind::Network(url) => {
                url.scheme().starts_with("http") && !self.signs.multipart.load(Ordering::Relaxed)
            }
            Kind::Device => false,
        }
    }
}

impl Drop for GstFeed {
    fn drop(&mut self) {
        if self.pipeline.set_state(gst::State::Null).is_err() {
            tracing::debug!("pipeline did not stop cleanly");
        }
    }
}

/// A decoded buffer, mapped for reading as long as the picture lives.
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

fn fault(message: &str) -> Broken {
    Broken {
        cause: LossCause::Other,
        message: message.to_owned(),
        heals: true,
    }
}

/// An element's words as part of a sentence of ours.
fn sentence_part(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

fn make(name: &str) -> Result<gst::Element, Broken> {
    gst::ElementFactory::make(name)
        .build()
        .map_err(|_| cause::of_missing_element(name))
}

fn add(pipeline: &gst::Pipeline, elements: &[&gst::Element]) -> Result<(), Broken> {
    pipeline
        .add_many(elements)
        .and_then(|()| gst::Element::link_many(elements))
        .map_err(|e| fault(&format!("pipeline can't be built: {e}")))
}

/// Converter and sink, named for [`link_video`].
fn tail(pipeline: &gst::Pipeline, origin: &Origin<'_>) -> Result<gst_app::AppSink, Broken> {
    let convert = make("videoconvert")?;
    make("appsink")?;
    let (sync, drop) = match origin {
        Origin::File { native_pace, .. } | Origin::Http { native_pace, .. } => {
            (*native_pace, *native_pace)
        }
        Origin::Rtsp { .. } | Origin::V4l2 { .. } => (false, true),
    };
    let caps = gst_video::VideoCapsBuilder::new()
        .format_list([gst_video::VideoFormat::I420, gst_video::VideoFormat::Nv12])
        .build();
    let sink = gst_app::AppSink::builder()
        .caps(&caps)
        .max_buffers(WAITING)
        .sync(sync)
        .drop(drop)
        .build();
    // Tells decoders that padded rows are welcome, which spares them a copy of every picture.
    if let Some(pad) = sink.static_pad("sink") {
        pad.add_probe(gst::PadProbeType::QUERY_DOWNSTREAM, |_, info| {
            if let Some(query) = info.query_mut()
                && let gst::QueryViewMut::Allocation(allocation) = query.view_mut()
            {
                allocation.add_allocation_meta::<gst_video::VideoMeta>(None);
                return gst::PadProbeReturn::Handled;
            }
            gst::PadProbeReturn::Ok
        });
    }
    pipeline
        .add_many([&convert, sink.upcast_ref()])
        .and_then(|()| convert.link(&sink))
        .map_err(|e| fault(&format!("pipeline can't be built: {e}")))?;
    Ok(sink)
}

/// From the origin to a decoder that links itself to `convert` when it knows what it has.
fn head(pipeline: &gst::Pipeline, origin: &Origin<'_>, signs: &Arc<Signs>) -> Result<(), Broken> {
    let convert = pipeline
        .iterate_elements()
        .into_iter()
        .flatten()
        .find(|e| e.factory().is_some_and(|f| f.name() == "videoconvert"))
        .ok_or_else(|| fault("pipeline without a converter"))?;
    let decode = decoder(&convert, signs)?;
    match origin {
        Origin::File { path, .. } => {
            let src = make("filesrc")?;
            src.set_property("location", path);
            add(pipeline, &[&src, &decode])
        }
        Origin::V4l2 { device, size, fps } => {
            let src = make("v4l2src")?;
            src.set_property("device", device.display().to_string());
            let filter = make("capsfilter")?;
            filter.set_property("caps", device_caps(*size, *fps));
            add(pipeline, &[&src, &filter, &decode])
        }
        Origin::Http {
            url, credentials, ..
        } => {
            let src = make("souphttpsrc")?;
            src.set_property("location", url.as_str());
            src.set_property("timeout", NETWORK_TIMEOUT_S);
            src.set_property("retries", 0i32);
            src.set_property("do-timestamp", true);
            log_in(&src, *credentials);
            let typefind = make("typefind")?;
            let signs = signs.clone();
            typefind.connect("have-type", false, move |args| {
                let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
                let first = caps.as_ref().and_then(|c| c.structure(0));
                if first.is_some_and(|s| s.name() == "multipart/x-mixed-replace") {
                    signs.multipart.store(true, Ordering::Relaxed);
                }
                None
            });
            add(pipeline, &[&src, &typefind, &decode])
        }
        Origin::Rtsp {
            url,
            credentials,
            transport,
        } => {
            let src = make("rtspsrc")?;
            src.set_property("location", url.as_str());
            src.set_property("latency", RTSP_LATENCY_MS);
            src.set_property_from_str(
                "protocols",
                match (url.scheme(), transport) {
                    ("rtsps", _) => "tls",
                    (_, RtspTransport::Tcp) => "tcp",
                    (_, RtspTransport::Udp) => "udp",
                },
            );
            let micros = u64::from(NETWORK_TIMEOUT_S) * 1_000_000;
            src.set_property("timeout", micros);
            src.set_property("tcp-timeout", micros);
            log_in(&src, *credentials);
            let chosen = Arc::new(AtomicBool::new(false));
            src.connect("select-stream", false, move |args| {
                let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
                let media = caps
                    .as_ref()
                    .and_then(|c| c.structure(0))
                    .and_then(|s| s.get::<String>("media").ok());
                let first =
                    media.as_deref() == Some("video") && !chosen.swap(true, Ordering::Relaxed);
                Some(gst::glib::Value::from(&first))
            });
            pipeline
                .add_many([&src, &decode])
                .map_err(|e| fault(&format!("pipeline can't be built: {e}")))?;
            let decode = decode.downgrade();
            src.connect_pad_added(move |_, pad| {
                let target = decode.upgrade().and_then(|d| d.static_pad("sink"));
                if let Some(target) = target.filter(|t| !t.is_linked())
                    && let Err(error) = pad.link(&target)
                {
                    tracing::debug!(%error, "stream does not fit the decoder");
                }
            });
            Ok(())
        }
    }
}

fn log_in(src: &gst::Element, credentials: Option<&Credentials>) {
    if let Some(Credentials { user, password }) = credentials {
        src.set_property("user-id", user);
        src.set_property("user-pw", password);
    }
}

fn device_caps(size: Option<[u32; 2]>, fps: Option<u32>) -> gst::Caps {
    let mut caps = gst::Caps::new_empty();
    for name in ["video/x-raw", "image/jpeg"] {
        let mut structure = gst::Structure::builder(name);
        if let Some([width, height]) = size {
            structure = structure
                .field("width", i32::try_from(width).unwrap_or(i32::MAX))
                .field("height", i32::try_from(height).unwrap_or(i32::MAX));
        }
        if let Some(fps) = fps {
            let fps = gst::Fraction::new(i32::try_from(fps).unwrap_or(i32::MAX), 1);
            structure = structure.field("framerate", fps);
        }
        caps.make_mut().append_structure(structure.build());
    }
    caps
}

/// A decoder for whatever comes; only the first video stream is decoded.
fn decoder(convert: &gst::Element, signs: &Arc<Signs>) -> Result<gst::Element, Broken> {
    let decode = make("decodebin")?;
    decode.connect("autoplug-continue", false, |args| {
        let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
        let name = caps.as_ref().and_then(|c| c.structure(0)).map(|s| s.name());
        // Sound and subtitles are exposed as they are and left unconnected.
        let skip = name.is_some_and(|n| {
            n.starts_with("audio/") || n.starts_with("text/") || n.starts_with("subpicture/")
        });
        Some(gst::glib::Value::from(&!skip))
    });
    let (convert, signs) = (convert.downgrade(), signs.clone());
    decode.connect_pad_added(move |_, pad| {
        let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
        let is_video = caps.structure(0).is_some_and(|s| s.name() == "video/x-raw");
        let target = convert.upgrade().and_then(|c| c.static_pad("sink"));
        if let Some(target) = target.filter(|t| is_video && !t.is_linked()) {
            match pad.link(&target) {
                Ok(_) => signs.connected.store(true, Ordering::Relaxed),
                Err(error) => tracing::debug!(%error, "decoder does not fit the converter"),
            }
        }
    });
    Ok(decode)
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
        // What is not said follows the habit: high definition is BT.709.
        _ if info.height() >= 720 => ColorMatrix::Bt709,
        _ => ColorMatrix::Bt601,
    };
    Colorimetry {
        matrix,
        full_range: colorimetry.range() == gst_video::VideoColorRange::Range0_255,
    }
}
