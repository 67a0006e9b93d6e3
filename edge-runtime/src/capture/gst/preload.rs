//! Loading of the plugins of a video file before it is opened.

use std::path::Path;

use gstreamer as gst;
use gstreamer::prelude::PluginFeatureExtManual;
use watchkeeper_contract::source::DecoderChoice;

use super::platform::{Codec, Platform};
use crate::capture::stills;

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
    let plugins = plugins_of(path);
    if plugins.is_empty() || gst::init().is_err() {
        return;
    }
    for name in &plugins {
        drop(gst::Plugin::load_by_name(name));
    }
    // A hardware decoder is loaded when it is used: that may take its device.
    let decoder = Platform::probe().choose(Codec::H264, choice, None);
    if let Some((decoder, _)) = decoder.filter(|(decoder, _)| !decoder.is_hardware())
        && is_mp4(path)
        && let Some(factory) = gst::ElementFactory::find(decoder.element)
    {
        drop(factory.load());
    }
}

/// Plugins of a file of this name, without its decoder; none for pictures and folders.
fn plugins_of(path: &Path) -> Vec<&'static str> {
    if path.extension().is_none() || stills::is_picture(path) {
        return Vec::new();
    }
    let of_mp4 = MP4_FILE.into_iter().filter(|_| is_mp4(path));
    ANY_FILE.into_iter().chain(of_mp4).collect()
}

fn is_mp4(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|found| MP4.iter().any(|mp4| found.eq_ignore_ascii_case(mp4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_loaded(plugin: &str) -> bool {
        let found = gst::Registry::get().find_plugin(plugin);
        found.is_some_and(|plugin| plugin.is_loaded())
    }

    #[test]
    fn plugins_follow_from_the_name() {
        let of = |name: &str| plugins_of(Path::new(name));
        assert!(of("/nowhere/pictures").is_empty() && of("/nowhere/a.jpg").is_empty());
        assert_eq!(of("/nowhere/a.webm"), ANY_FILE);
        assert_eq!(of("/nowhere/a.MP4").len(), ANY_FILE.len() + MP4_FILE.len());
    }

    #[test]
    fn file_need_not_be_there_to_load_its_plugins() {
        preload(Path::new("/nowhere/a.MP4"), DecoderChoice::Software);
        assert!(is_loaded("playback") && is_loaded("isomp4"));
        let decoder = Platform::probe().choose(Codec::H264, DecoderChoice::Software, None);
        let needs_libav = decoder.is_some_and(|(decoder, _)| decoder.element == "avdec_h264");
        assert!(!needs_libav || is_loaded("libav"));
    }
}
