//! Errors that decoders report to GStreamer's debug log alone.
//!
//! - libav conceals damage in a picture that it gives; neither the buffer nor the bus shows it.
//! - An error does not name its decoder. It is of the one that this thread feeds: GStreamer decodes
//!   a live stream in the thread that feeds it. Of recordings libav decodes several pictures at a
//!   time, and an error from one of its own threads counts for each decoder that runs.
//! - The log is printed only with `GST_DEBUG`, as without this module.

use std::cell::RefCell;
use std::sync::{Arc, Once, Weak};

use gstreamer as gst;
use gstreamer::prelude::{ElementExt, PadExtManual};
use parking_lot::Mutex;

use super::completeness::Completeness;

/// Categories of the debug log, the least severe level that reports an error, and how it begins.
const CATEGORIES: [(&str, gst::DebugLevel, &str); 2] = [
    ("libav", gst::DebugLevel::Error, ""),
    ("videodecoder", gst::DebugLevel::Warning, "error: "),
];

thread_local! {
    /// Decoder that this thread feeds.
    static FED: RefCell<Weak<Mutex<Completeness>>> = const { RefCell::new(Weak::new()) };
}

/// Running software decoders.
static RUNNING: Mutex<Vec<Weak<Mutex<Completeness>>>> = Mutex::new(Vec::new());

/// Counts the errors of a software decoder from now on, while `watched` lives.
pub(super) fn watch(watched: &Arc<Mutex<Completeness>>, decoder: Option<&gst::Element>) {
    if let Some(entry) = decoder.and_then(|decoder| decoder.static_pad("sink")) {
        follow_thread(&entry, watched);
    }
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        if std::env::var_os("GST_DEBUG").is_none() {
            gst::log::remove_default_log_function();
        }
        gst::log::add_log_function(|category, level, _, _, _, _, message| {
            let mut known = CATEGORIES.iter();
            let Some((.., start)) = known.find(|(name, least, _)| {
                category.name() == *name && level <= *least && level != gst::DebugLevel::None
            }) else {
                return;
            };
            if message.get().is_some_and(|text| text.starts_with(start)) {
                note_error();
            }
        });
    });
    // A category exists once its plugin is loaded.
    for (name, least, _) in CATEGORIES {
        let category = gst::DebugCategory::get(name);
        if let Some(category) = category.filter(|category| category.threshold() < least) {
            category.set_threshold(least);
        }
    }
    let mut running = RUNNING.lock();
    running.retain(|decoder| decoder.strong_count() > 0);
    running.push(Arc::downgrade(watched));
}

/// Notes which threads feed the decoder whose entry is `pad`.
fn follow_thread(pad: &gst::Pad, watched: &Arc<Mutex<Completeness>>) {
    let watched = Arc::downgrade(watched);
    pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
        FED.set(Weak::clone(&watched));
        gst::PadProbeReturn::Ok
    });
}

fn note_error() {
    // A thread that ends has no decoder any more.
    let fed = FED.try_with(|fed| fed.borrow().upgrade());
    if let Some(fed) = fed.ok().flatten() {
        return fed.lock().note_error(false);
    }
    let running: Vec<_> = RUNNING.lock().iter().filter_map(Weak::upgrade).collect();
    for decoder in &running {
        decoder.lock().note_error(running.len() > 1);
    }
}
