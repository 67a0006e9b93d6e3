//! Builds GStreamer pipelines from their descriptions.
//!
//! - [`describe`] decides which elements there are; nothing here depends on the board.
//! - Only the first video stream is decoded. Sound and subtitles are never decoded.
//! - User names and passwords are passed as properties, never in an address.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gstreamer as gst;
use gstreamer::prelude::{
    Cast, ElementExt, ElementExtManual, GObjectExtManualGst, GstBinExt, GstBinExtManual,
    GstObjectExt, ObjectExt, PadExt, PadExtManual,
};
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;

use super::super::address::Credentials;
use super::super::cause;
use super::super::feed::FeedError;
use super::completeness::Completeness;
use super::decoder_log;
use super::describe::{
    Branch, Description, FORMATS, INSIDE, Origin, Property, Request, Stage, Value, describe,
};
use super::device;
use super::entry::KeyFrameAndTimes;
use super::http;
use super::mode::Need;
use super::packet_probe;
use super::platform::{DECODERS, Memory, Platform};
use super::signals::{RunningDecoder, Signals, fault};

/// Max pictures that wait between GStreamer and the source's thread.
pub(super) const MAX_BUFFERS: u32 = 2;

fn make(name: &str) -> Result<gst::Element, FeedError> {
    gst::ElementFactory::make(name)
        .build()
        .map_err(|_| cause::from_missing_element(name))
}

/// Sets a property, unless this version of the element lacks it.
fn set(element: &gst::Element, (name, value): &Property) {
    if element.find_property(name).is_none() {
        let element = element.name();
        tracing::debug!(%element, name, "property is not supported by this version");
        return;
    }
    match value {
        Value::Path(path) => element.set_property(name, path),
        Value::Text(text) => element.set_property(name, text),
        Value::Nick(nick) => element.set_property_from_str(name, nick),
        // Of the width that the element declares.
        Value::Number(number) => element.set_property_from_str(name, &number.to_string()),
        Value::Flag(flag) => element.set_property(name, flag),
    }
}

/// Adds a chain of elements to `pipeline` and links them.
fn add_chain(
    pipeline: &gst::Pipeline,
    stages: &[Stage],
    signals: &Arc<Signals>,
) -> Result<Vec<gst::Element>, FeedError> {
    let cannot = |e: &gst::glib::BoolError| fault(&format!("cannot build the pipeline: {e}"));
    let mut chain: Vec<gst::Element> = Vec::new();
    for stage in stages {
        let element = match stage {
            Stage::Element(name, properties) => {
                let element = make(name)?;
                properties
                    .iter()
                    .for_each(|property| set(&element, property));
                element
            }
            Stage::Caps(caps) => {
                let filter = make("capsfilter")?;
                let caps = caps.parse::<gst::Caps>().map_err(|e| cannot(&e))?;
                filter.set_property("caps", caps);
                filter
            }
            Stage::KeyFrameAndTimes => {
                let pad = chain.last().and_then(|parser| parser.static_pad("src"));
                if let Some(pad) = pad {
                    KeyFrameAndTimes::attach(&pad);
                }
                continue;
            }
        };
        watch_decoder(&element, signals);
        packet_probe::attach(&element, signals);
        pipeline.add(&element).map_err(|e| cannot(&e))?;
        if let Some(last) = chain.last() {
            last.link(&element).map_err(|e| cannot(&e))?;
        }
        chain.push(element);
    }
    Ok(chain)
}

/// Counts the buffers that a hardware decoder takes.
fn watch_decoder(element: &gst::Element, signals: &Arc<Signals>) {
    let is_hardware = is_hardware_decoder(element);
    let Some(pad) = element.static_pad("sink").filter(|_| is_hardware) else {
        return;
    };
    let signals = signals.clone();
    pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
        signals.taken_since_picture.fetch_add(1, Ordering::Relaxed);
        gst::PadProbeReturn::Ok
    });
}

/// Follows the pictures of a decoder, and the errors of a software decoder. That of a camera may
/// have reported what a recording's note is about.
fn watch_pictures(
    decoder: Option<&gst::Element>,
    is_hardware: bool,
) -> Arc<parking_lot::Mutex<Completeness>> {
    let watched = Arc::default();
    if let Some(decoder) = decoder {
        Completeness::watch(&watched, decoder);
    }
    if !is_hardware {
        decoder_log::watch(&watched, decoder);
    }
    watched
}

/// Builds `pipeline` and returns the sink that its pictures come from.
pub(super) fn build(
    pipeline: &gst::Pipeline,
    request: &Request<'_>,
    signals: &Arc<Signals>,
) -> Result<gst_app::AppSink, FeedError> {
    let description = describe(request, Platform::probe()).map_err(|message| FeedError {
        is_retryable: false,
        cause: watchkeeper_contract::source::LossCause::Codec,
        message,
    })?;
    let sink = sink(&description, signals)?;
    pipeline
        .add(&sink)
        .map_err(|e| fault(&format!("cannot build the pipeline: {e}")))?;
    let head = add_chain(pipeline, &description.head, signals)?;
    connect_origin(&head, request, &sink, signals);
    let Some(last) = head.last() else {
        return Err(fault("a pipeline without an origin"));
    };
    let next = match description.branches.is_empty() {
        true => {
            signals.connected.store(true, Ordering::Relaxed);
            sink.clone().upcast()
        }
        false => {
            let decode = decodebin(pipeline, description, &sink, signals)?;
            pipeline
                .add(&decode)
                .map_err(|e| fault(&format!("cannot build the pipeline: {e}")))?;
            decode
        }
    };
    if matches!(request.origin, Origin::Rtsp { .. }) {
        link_when_ready(last, &next);
    } else {
        last.link(&next)
            .map_err(|e| fault(&format!("cannot build the pipeline: {e}")))?;
    }
    if let Origin::V4l2 {
        size, fps, max_fps, ..
    } = request.origin
    {
        choose_device_mode(&head, &Need { size, fps, max_fps });
    }
    Ok(sink)
}

fn sink(description: &Description, signals: &Arc<Signals>) -> Result<gst_app::AppSink, FeedError> {
    make("appsink")?;
    let caps = FORMATS.parse::<gst::Caps>();
    let caps = caps.map_err(|e| fault(&format!("cannot build the pipeline: {e}")))?;
    let sink = gst_app::AppSink::builder()
        .caps(&caps)
        .max_buffers(MAX_BUFFERS)
        .sync(description.sync)
        .drop(description.drop)
        .build();
    if let Some(pad) = sink.static_pad("sink") {
        let signals = signals.clone();
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
            signals.given.fetch_add(1, Ordering::Relaxed);
            gst::PadProbeReturn::Ok
        });
        // Announces support for padded rows, which saves decoders a copy of every picture.
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
    Ok(sink)
}

/// Connects the signals of the origin's elements.
fn connect_origin(
    head: &[gst::Element],
    request: &Request<'_>,
    sink: &gst_app::AppSink,
    signals: &Arc<Signals>,
) {
    let Some(src) = head.first() else { return };
    match &request.origin {
        Origin::Rtsp {
            credentials,
            tls_verify,
            ..
        } => {
            set_credentials(src, *credentials);
            check_certificate(src, *tls_verify, signals);
            select_first_video(src);
        }
        Origin::Http {
            url, credentials, ..
        } => {
            set_credentials(src, *credentials);
            if let Some(typefind) = head.get(1) {
                http::report_content(url, typefind, src, sink, signals);
            }
        }
        Origin::V4l2 { .. } => device::copy_buffers(src),
        Origin::Csi { .. } => {
            // `nvvidconv` copies the frames of the other one.
            if has_name(src, "libcamerasrc") {
                device::copy_buffers(src);
            }
        }
        Origin::File { .. } => {}
    }
}

/// Chooses the best mode of a device that meets the need.
fn choose_device_mode(head: &[gst::Element], need: &Need) {
    let [src, filter, ..] = head else { return };
    // The device reports its modes only once it is open. A failure to open it is reported when
    // the pipeline starts.
    if src.set_state(gst::State::Ready).is_ok()
        && let Some(pad) = src.static_pad("src")
        && let Some(mode) = device::choose_mode(&pad.query_caps(None), need)
    {
        tracing::debug!(device = %src.name(), %mode, "mode of the device");
        filter.set_property("caps", mode);
    }
}

/// Accepts or rejects a certificate that the system does not trust.
///
/// The element asks only about those, and its error afterwards does not name the cause.
fn check_certificate(src: &gst::Element, tls_verify: bool, signals: &Arc<Signals>) {
    let signals = signals.clone();
    src.connect("accept-certificate", false, move |_| {
        signals.untrusted.store(tls_verify, Ordering::Relaxed);
        Some(gst::glib::Value::from(&!tls_verify))
    });
}

fn select_first_video(src: &gst::Element) {
    let is_chosen = Arc::new(AtomicBool::new(false));
    src.connect("select-stream", false, move |args| {
        let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
        let media = caps
            .as_ref()
            .and_then(|c| c.structure(0))
            .and_then(|s| s.get::<String>("media").ok());
        let first = media.as_deref() == Some("video") && !is_chosen.swap(true, Ordering::Relaxed);
        Some(gst::glib::Value::from(&first))
    });
}

/// Links `src` to `next` as soon as its pad exists.
fn link_when_ready(src: &gst::Element, next: &gst::Element) {
    let next = next.downgrade();
    src.connect_pad_added(move |_, pad| {
        let target = next.upgrade().and_then(|d| d.static_pad("sink"));
        if let Some(target) = target.filter(|t| !t.is_linked())
            && let Err(error) = pad.link(&target)
        {
            tracing::debug!(%error, "cannot link the stream to the decoder");
        }
    });
}

fn set_credentials(src: &gst::Element, credentials: Option<&Credentials>) {
    if let Some(Credentials { user, password }) = credentials {
        src.set_property("user-id", user);
        src.set_property("user-pw", password);
    }
}

/// Packets that the network lost, by the jitter buffers of `pipeline`.
pub(super) fn lost_packets(pipeline: &gst::Pipeline) -> u64 {
    // An element that is added meanwhile ends the list; the next call has them all.
    let elements: Result<Vec<_>, _> = pipeline.iterate_recurse().into_iter().collect();
    let elements = elements.unwrap_or_default().into_iter();
    let buffers = elements.filter(|element| has_name(element, "rtpjitterbuffer"));
    let lost = buffers.filter_map(|buffer| {
        let stats: gst::Structure = buffer.property("stats");
        stats.get::<u64>("num-lost").ok()
    });
    lost.sum()
}

fn has_name(element: &gst::Element, name: &str) -> bool {
    element
        .factory()
        .is_some_and(|factory| factory.name() == name)
}

fn is_hardware_decoder(element: &gst::Element) -> bool {
    let Some(factory) = element.factory() else {
        return false;
    };
    is_hardware(&factory)
}

/// Whether these elements decode in hardware: known ones, and those that say so.
fn is_hardware(factory: &gst::ElementFactory) -> bool {
    let mut known = DECODERS.iter().filter(|decoder| decoder.is_hardware());
    let class = factory
        .metadata(gst::ELEMENT_METADATA_KLASS)
        .unwrap_or_default();
    known.any(|decoder| factory.name() == decoder.element)
        || (class.contains("Decoder") && class.contains("Hardware"))
}

/// Creates the `decodebin`, whose first video stream is linked to its branch.
fn decodebin(
    pipeline: &gst::Pipeline,
    description: Description,
    sink: &gst_app::AppSink,
    signals: &Arc<Signals>,
) -> Result<gst::Element, FeedError> {
    let decode = make("decodebin")?;
    let ours: Vec<&str> = description
        .branches
        .iter()
        .filter(|branch| branch.decoder.is_some())
        .map(|branch| branch.media_type)
        .collect();
    let found = signals.clone();
    decode.connect("autoplug-continue", false, move |args| {
        let caps = args.get(2).and_then(|v| v.get::<gst::Caps>().ok());
        let name = caps.as_ref().and_then(|c| c.structure(0)).map(|s| s.name());
        let is_sound = name.is_some_and(|n| n.starts_with("audio/"));
        found.has_sound.fetch_or(is_sound, Ordering::Relaxed);
        // Sound and subtitles are exposed undecoded and stay unlinked.
        let is_exposed = name.is_some_and(|n| {
            is_sound
                || n.starts_with("text/")
                || n.starts_with("subpicture/")
                || ours.iter().any(|media_type| n == media_type)
        });
        Some(gst::glib::Value::from(&!is_exposed))
    });
    if !description.may_use_hardware {
        skip_hardware(&decode);
    }
    let found = signals.clone();
    decode.connect("element-added", false, move |args| {
        if let Some(element) = args.get(1).and_then(|v| v.get::<gst::Element>().ok()) {
            configure_inside(&element, &found);
        }
        None
    });
    let (pipeline, sink, signals) = (pipeline.downgrade(), sink.downgrade(), signals.clone());
    decode.connect_pad_added(move |_, pad| {
        let (Some(pipeline), Some(sink)) = (pipeline.upgrade(), sink.upgrade()) else {
            return;
        };
        let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
        let branch = description.branches.iter().find(|b| is_of(b, &caps));
        let is_first = sink.static_pad("sink").is_some_and(|pad| !pad.is_linked());
        let Some(branch) = branch.filter(|_| is_first) else {
            return;
        };
        match add_branch(&pipeline, branch, pad, &sink, &signals) {
            Ok(()) => signals.connected.store(true, Ordering::Relaxed),
            Err(error) => *signals.failure.lock() = Some(error),
        }
    });
    Ok(decode)
}

/// Whether a branch is for streams of these caps.
fn is_of(branch: &Branch, caps: &gst::Caps) -> bool {
    let memory = caps.features(0).map_or(Memory::System, |features| {
        match features.contains("memory:NVMM") {
            true => Memory::Nvmm,
            false => Memory::System,
        }
    });
    let media_type = caps.structure(0).map(|s| s.name());
    media_type.is_some_and(|name| name == branch.media_type) && memory == branch.memory
}

/// Adds the elements from a new pad of `decodebin` to the sink, and starts them.
fn add_branch(
    pipeline: &gst::Pipeline,
    branch: &Branch,
    pad: &gst::Pad,
    sink: &gst_app::AppSink,
    signals: &Arc<Signals>,
) -> Result<(), FeedError> {
    let cannot = |e: &dyn std::fmt::Display| fault(&format!("cannot decode the stream: {e}"));
    let chain = add_chain(pipeline, &branch.stages, signals)?;
    if let Some(status) = &branch.decoder {
        let decoder = chain.iter().find(|e| has_name(e, &status.element));
        *signals.decoder.lock() = Some(RunningDecoder {
            status: status.clone(),
            elements: chain.iter().map(ObjectExt::downgrade).collect(),
            completeness: watch_pictures(decoder, status.hardware),
        });
    }
    let (Some(first), Some(last)) = (chain.first(), chain.last()) else {
        return Err(fault("a branch without elements"));
    };
    last.link(sink).map_err(|e| cannot(&e))?;
    for element in chain.iter().rev() {
        element.sync_state_with_parent().map_err(|e| cannot(&e))?;
    }
    let target = first.static_pad("sink");
    let target = target.ok_or_else(|| fault("an element without a sink"))?;
    pad.link(&target).map_err(|e| cannot(&e))?;
    Ok(())
}

/// Forbids `decodebin` to choose hardware decoders.
fn skip_hardware(decode: &gst::Element) {
    decode.connect("autoplug-select", false, |args| {
        let factory = args
            .get(3)
            .and_then(|v| v.get::<gst::ElementFactory>().ok());
        let verdict = match factory.is_some_and(|factory| is_hardware(&factory)) {
            true => "skip",
            false => "try",
        };
        // The type is private to `decodebin`.
        let kind = gst::glib::Type::from_name("GstAutoplugSelectResult")?;
        gst::glib::EnumClass::with_type(kind)?.to_value_by_nick(verdict)
    });
}

/// Sets the properties of an element that `decodebin` added, and reports a decoder.
fn configure_inside(element: &gst::Element, signals: &Signals) {
    for (_, name, value) in INSIDE.iter().filter(|(of, ..)| has_name(element, of)) {
        set(element, &(*name, Value::Flag(*value)));
    }
    let Some(factory) = element.factory() else {
        return;
    };
    let class = factory
        .metadata(gst::ELEMENT_METADATA_KLASS)
        .unwrap_or_default();
    let is_picture = class.contains("Video") || class.contains("Image");
    if class.contains("Decoder") && is_picture {
        packet_probe::attach(element, signals);
        let hardware = is_hardware(&factory);
        *signals.decoder.lock() = Some(RunningDecoder {
            status: watchkeeper_contract::source::DecoderStatus {
                element: factory.name().to_string(),
                hardware,
                fallback: None,
            },
            elements: vec![element.downgrade()],
            completeness: watch_pictures(Some(element), hardware),
        });
    }
}
