//! Takes frames of a source for a trial or a calibration, and keeps copies of them.
//!
//! - A trial takes fewer frames where they are large; a calibration is refused then.

use std::path::Path;
use std::time::{Duration, Instant};

use watchkeeper_config::{Config, PrivacyMasks};
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_detect::night_gain::{Gamma, NightGain};
use watchkeeper_vision::frame::Frame;

use crate::capture::mailbox::Recv;
use crate::capture::source::{Deps, Source};
use crate::pipeline::pixels::FramePixels;

/// Maximum bytes of the kept frames of a trial.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// Longest wait for a frame, because a camera must be opened.
const FRAME_TIMEOUT: Duration = Duration::from_secs(15);

/// Selection of frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Name of a configured source, or an address.
    pub(crate) source: &'a str,
    /// Seconds of the source.
    pub(crate) seconds: f64,
    /// Whether self-signed certificates are accepted.
    pub(crate) no_tls_verify: bool,
    pub(crate) max_frames: usize,
    /// Most frames per second of the source.
    pub(crate) max_fps: f64,
    /// Maximum bytes of the kept frames.
    pub(crate) max_bytes: usize,
    /// Whether all of `max_frames` are kept or none, and every picture of a folder is taken.
    pub(crate) is_exact: bool,
    /// Whether frames of another size than the first one are left out.
    pub(crate) is_one_size: bool,
}

/// The frames of a trial.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(super) uri: String,
    pub(crate) frames: Vec<Frame>,
    /// Curve of each frame; absent for light ones.
    pub(crate) gains: Vec<Option<Gamma>>,
    pub(super) size: [u32; 2],
    pub(super) source_fps: Option<f64>,
    /// Classes that a privacy mask hides in pictures.
    pub(super) masked_classes: Vec<String>,
}

impl Taken {
    /// Source time between the first and the last frame.
    pub(super) fn seconds(&self) -> f64 {
        match (self.frames.first(), self.frames.last()) {
            (Some(first), Some(last)) => (last.pts.saturating_sub(first.pts)).as_secs_f64(),
            _ => 0.0,
        }
    }
}

/// Takes frames for the requested seconds of the source.
///
/// # Errors
/// One sentence, if no frame arrives.
pub(crate) fn take(wanted: &Wanted<'_>, config: &Config) -> Result<Taken, String> {
    let spec = spec(wanted, config)?;
    let privacy = PrivacyMasks::new(config);
    let privacy = privacy.of(&spec)?;
    let masked_classes = privacy
        .as_ref()
        .map_or_else(Vec::new, |mask| mask.classes.clone());
    let uri = spec.uri.clone();
    let path = uri.strip_prefix("file://").unwrap_or(&uri);
    let is_folder = wanted.is_exact && Path::new(path).is_dir();
    let deps = Deps {
        privacy,
        ..Deps::default()
    };
    let source = Source::spawn(spec, deps);
    let frames = source.subscribe();
    let taken = Taken {
        uri,
        frames: Vec::new(),
        gains: Vec::new(),
        size: [0, 0],
        source_fps: None,
        masked_classes,
    };
    let mut picker = Picker {
        wanted,
        is_folder,
        night_gain: NightGain::default(),
        bytes: 0,
        next: 0.0,
        fps: wanted.max_fps,
        taken,
    };
    let deadline = Instant::now() + FRAME_TIMEOUT + Duration::from_secs_f64(2.0 * wanted.seconds);
    while picker.has_room() && Instant::now() < deadline {
        let frame = match frames.recv(FRAME_TIMEOUT) {
            Recv::Frame(frame) => frame,
            Recv::Ended => break,
            Recv::Failed { message, .. } => return Err(message),
            Recv::Timeout | Recv::Closed if picker.taken.frames.is_empty() => {
                let sentence = "the camera sent no frame in time; check its address and power";
                return Err(sentence.to_owned());
            }
            Recv::Timeout | Recv::Closed => break,
        };
        if !is_folder && frame.pts.as_secs_f64() > wanted.seconds {
            break;
        }
        picker.look_at(frame)?;
    }
    if picker.taken.frames.is_empty() {
        let sentence = "the source has no frame; name a camera or a longer recording";
        return Err(sentence.to_owned());
    }
    Ok(picker.taken)
}

/// Chooses among the frames of a source.
struct Picker<'a> {
    wanted: &'a Wanted<'a>,
    /// Whether every frame is taken.
    is_folder: bool,
    night_gain: NightGain,
    /// Bytes of the kept frames.
    bytes: usize,
    /// Time of the source from which the next frame is taken, in seconds.
    next: f64,
    fps: f64,
    taken: Taken,
}

impl Picker<'_> {
    fn has_room(&self) -> bool {
        self.taken.frames.len() < self.wanted.max_frames && self.bytes < self.wanted.max_bytes
    }

    /// Keeps a copy of the frame, if it is time for one.
    fn look_at(&mut self, frame: Frame) -> Result<(), String> {
        let at = frame.pts.as_secs_f64();
        let size = [frame.picture.width, frame.picture.height];
        let (wanted, taken) = (self.wanted, &mut self.taken);
        let is_other = wanted.is_one_size && !taken.frames.is_empty() && size != taken.size;
        if (at < self.next && !self.is_folder) || is_other {
            return Ok(());
        }
        // A copy, because the memory of a decoder is a small pool.
        let copy = FramePixels::new(frame.picture.clone()).owned();
        let picture = copy.picture().clone();
        let length = usize::try_from(copy.bytes()).unwrap_or(usize::MAX);
        if taken.frames.is_empty() {
            self.fps = wanted.fps_within(length);
        }
        self.bytes += length;
        if wanted.is_exact {
            wanted.check_bytes(taken.frames.len() + 1, self.bytes)?;
        }
        taken.size = size;
        taken.source_fps = taken.source_fps.or(frame.fps);
        taken.gains.push(self.night_gain.observe(&frame.picture));
        self.next = at + 0.9 / self.fps;
        taken.frames.push(Frame { picture, ..frame });
        Ok(())
    }
}

impl Wanted<'_> {
    /// The rate at which frames of this many bytes fill the memory over all seconds.
    fn fps_within(&self, bytes: usize) -> f64 {
        if self.is_exact {
            return self.max_fps;
        }
        let frames = (self.max_bytes / bytes.max(1)).clamp(1, self.max_frames.max(1));
        (frames as f64 / self.seconds).min(self.max_fps)
    }

    /// Refuses frames that do not fit into the memory: `frames` of them have these bytes.
    fn check_bytes(&self, frames: usize, bytes: usize) -> Result<(), String> {
        let each = bytes.div_ceil(frames.max(1)).max(1);
        let fit = self.max_bytes / each;
        if fit >= self.max_frames {
            return Ok(());
        }
        Err(format!(
            "{} frames of this source need {} MB, at most {} MB are kept; use --frames {fit}, or a \
             source with smaller pictures",
            self.max_frames,
            each.saturating_mul(self.max_frames).div_ceil(1 << 20),
            self.max_bytes >> 20
        ))
    }
}

/// The source of the configuration with this name, else one at this address.
fn spec(wanted: &Wanted<'_>, config: &Config) -> Result<SourceSpec, String> {
    let named = config
        .sources
        .iter()
        .find(|spec| spec.id.as_str() == wanted.source);
    if let Some(spec) = named {
        return Ok(spec.clone());
    }
    // A file is named relative to the folder of the caller.
    let path = std::fs::canonicalize(wanted.source).ok();
    let uri = match path {
        Some(path) => path.display().to_string(),
        None if SourceId::new(wanted.source).is_ok() => {
            return Err(unknown_source(wanted.source, config));
        }
        None => wanted.source.to_owned(),
    };
    // No configured source has this name, so none lends it its mask.
    let is_free = |id: &String| config.sources.iter().all(|spec| spec.id.as_str() != id);
    let id = (0..).map(|n| format!("trial-{n}")).find(is_free);
    let id = SourceId::new(id.unwrap_or_default());
    let id = id.map_err(|e| e.to_string())?;
    Ok(SourceSpec {
        tls_verify: !wanted.no_tls_verify,
        ..SourceSpec::new(id, uri)
    })
}

/// The error for a name that is neither a source nor a file.
fn unknown_source(name: &str, config: &Config) -> String {
    let sources: Vec<&str> = config.sources.iter().map(|s| s.id.as_str()).collect();
    let sources = match sources.as_slice() {
        [] => "none is configured".to_owned(),
        sources => format!("configured are {}", sources.join(", ")),
    };
    format!("{name} is not a source of the configuration ({sources}) and no file here")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(is_exact: bool) -> Wanted<'static> {
        Wanted {
            source: "gate",
            seconds: 10.0,
            no_tls_verify: false,
            max_frames: 60,
            max_fps: 5.0,
            max_bytes: MAX_BYTES,
            is_exact,
            is_one_size: true,
        }
    }

    #[test]
    fn frames_that_do_not_fit_are_refused_with_the_number_that_does() {
        let wanted = wanted(true);
        assert_eq!(wanted.check_bytes(1, 3_110_400), Ok(()));
        let why = wanted.check_bytes(1, 12_441_600).expect_err("refused");
        for part in ["60 frames", "712 MB", "256 MB", "--frames 21"] {
            assert!(why.contains(part), "{why}");
        }
        // The pictures of a folder differ in size.
        assert!(wanted.check_bytes(2, 12_441_600).is_err());
        assert_eq!(wanted.check_bytes(3, 12_441_600), Ok(()));
    }

    #[test]
    fn large_frames_are_spread_over_the_seconds() {
        // A frame of 3840 × 2160 has 12.4 MB: 21 of them fit.
        let wanted = wanted(false);
        assert!((wanted.fps_within(12_441_600) - 2.1).abs() < 1e-9);
        assert!((wanted.fps_within(460_800) - 5.0).abs() < 1e-9);
    }
}
