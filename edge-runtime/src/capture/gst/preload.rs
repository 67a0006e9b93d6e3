//! Loading of the plugins of a video file before it is opened.

use std::path::Path;

use gstreamer as gst;
use gstreamer::prelude::PluginFeatureExtManual;
use watchkeeper_contract::source::DecoderChoice;

use super::platform::{Codec, Platform};
use crate::capture::{animation, stills};

/// Plugins of every video file. Loading them takes longer than opening the file.
const ANY_FILE: [&str; 5] = [
    "coreelements",
    "app",
    "playback",
    "typefindfunctions",
    "videoconvertscale",
];

/// Further plugins of files with [`MP4`].
const MP4_FILE: [&str; 2] = ["isomp4", "videoparsersbad"];

/// Extensions of files that are nearly always H.264 in MP4.
const MP4: [&str; 3] = ["mp4", "m4v", "mov"];

/// Loads what a file of this name needs, so that it opens sooner, on a thread that nothing waits
/// for. Does not touch the file. A missing plugin is reported when the file needs it.
pub(in crate::capture) fn preload_in_background(path: &Path, choice: DecoderChoice) {
    let path = path.to_owned();
    let thread = std::thread::Builder::new().name("gst-preload".to_owned());
    if let Err(error) = thread.spawn(move || preload(&path, choice)) {
        tracing::debug!(%error, "no thread to load plugins in advance");
    }
}

fn preload(path: &Path, choice: DecoderChoice) {
    let is_picture = stills::is_picture(path) || animation::is_animation(path);
    let Some(extension) = path.extension().filter(|_| !is_picture) else {
        return;
    };
    if gst::init().is_err() {
        return;
    }
    let load = |name: &str| drop(gst::Plugin::load_by_name(name));
    ANY_FILE.into_iter().for_each(load);
    if !MP4.iter().any(|mp4| extension.eq_ignore_ascii_case(mp4)) {
        return;
    }
    MP4_FILE.into_iter().for_each(load);
    // A hardware decoder is loaded when it is used: that may take its device.
    let decoder = Platform::probe().choose(Codec::H264, choice, None);
    if let Some((decoder, _)) = decoder.filter(|(decoder, _)| !decoder.is_hardware())
        && let Some(factory) = gst::ElementFactory::find(decoder.element)
    {
        drop(factory.load());
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn is_loaded(plugin: &str) -> bool {
        let found = gst::Registry::get().find_plugin(plugin);
        found.is_some_and(|plugin| plugin.is_loaded())
    }

    #[test]
    fn only_an_mp4_file_loads_its_demuxer_and_decoder() {
        gst::init().unwrap();
        let load = |name: &str| preload(Path::new(name), DecoderChoice::Software);
        load("/nowhere/pictures");
        load("/nowhere/a.jpg");
        assert!(!is_loaded("playback"));
        load("/nowhere/a.webm");
        assert!(is_loaded("playback"));
        assert!(!is_loaded("isomp4") && !is_loaded("libav"));
        load("/nowhere/a.MP4");
        let decoder = Platform::probe().choose(Codec::H264, DecoderChoice::Software, None);
        let needs_libav = decoder.is_some_and(|(decoder, _)| decoder.element == "avdec_h264");
        assert!(is_loaded("isomp4"));
        assert_eq!(is_loaded("libav"), needs_libav);
    }
}
