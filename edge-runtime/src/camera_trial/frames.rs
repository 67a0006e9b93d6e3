//! Takes frames of a source for a trial or a calibration, and keeps copies of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_config::{Config, PrivacyMasks};
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{DecoderChoice, Pace, RtspTransport, SourceSpec};
use watchkeeper_detect::night_gain::{Gamma, NightGain};
use watchkeeper_vision::frame::{Frame, OwnedPlanes, Picture};

use crate::capture::mailbox::Recv;
use crate::capture::source::{Deps, Source};

/// Maximum bytes of the kept frames.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// Longest wait for a frame, because a camera must be opened.
const FRAME_TIMEOUT: Duration = Duration::from_secs(15);

/// Which frames to take.
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
    let deps = Deps {
        privacy,
        ..Deps::default()
    };
    let source = Source::spawn(spec, deps);
    let frames = source.subscribe();
    let mut taken = Taken {
        uri,
        frames: Vec::new(),
        gains: Vec::new(),
        size: [0, 0],
        source_fps: None,
        masked_classes,
    };
    let (mut night_gain, mut bytes) = (NightGain::default(), 0);
    let deadline = Instant::now() + FRAME_TIMEOUT + Duration::from_secs_f64(2.0 * wanted.seconds);
    let (mut next, mut fps) = (0.0, wanted.max_fps);
    while taken.frames.len() < wanted.max_frames && bytes < MAX_BYTES && Instant::now() < deadline {
        let frame = match frames.recv(FRAME_TIMEOUT) {
            Recv::Frame(frame) => frame,
            Recv::Ended => break,
            Recv::Failed { message, .. } => return Err(message),
            Recv::Timeout | Recv::Closed if taken.frames.is_empty() => {
                let sentence = "the camera sent no frame in time; check its address and power";
                return Err(sentence.to_owned());
            }
            Recv::Timeout | Recv::Closed => break,
        };
        let at = frame.pts.as_secs_f64();
        if at > wanted.seconds {
            break;
        }
        let size = [frame.picture.width, frame.picture.height];
        let is_other = wanted.is_one_size && !taken.frames.is_empty() && size != taken.size;
        if at < next || is_other {
            continue;
        }
        taken.size = size;
        taken.source_fps = taken.source_fps.or(frame.fps);
        taken.gains.push(night_gain.observe(&frame.picture));
        let (picture, length) = copied(&frame.picture);
        bytes += length;
        if taken.frames.is_empty() {
            fps = wanted.fps_within(length);
        }
        next = at + 0.9 / fps;
        taken.frames.push(Frame { picture, ..frame });
    }
    if taken.frames.is_empty() {
        let sentence = "the source has no frame; name a camera or a longer recording";
        return Err(sentence.to_owned());
    }
    Ok(taken)
}

impl Wanted<'_> {
    /// The rate at which frames of this many bytes fill the memory over all seconds.
    fn fps_within(&self, bytes: usize) -> f64 {
        let frames = (MAX_BYTES / bytes.max(1)).clamp(1, self.max_frames.max(1));
        (frames as f64 / self.seconds).min(self.max_fps)
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
    let uri = path.map_or_else(
        || wanted.source.to_owned(),
        |path| path.display().to_string(),
    );
    // No configured source has this name, so none lends it its mask.
    let is_free = |id: &String| config.sources.iter().all(|spec| spec.id.as_str() != id);
    let id = (0..).map(|n| format!("trial-{n}")).find(is_free);
    let id = SourceId::new(id.unwrap_or_default());
    let id = id.map_err(|e| e.to_string())?;
    Ok(SourceSpec {
        id,
        name: None,
        uri,
        pace: Pace::Fast,
        max_fps: None,
        rtsp_transport: RtspTransport::default(),
        tls_verify: !wanted.no_tls_verify,
        stall_s: None,
        fixed_view: true,
        controls: std::collections::BTreeMap::default(),
        decoder: DecoderChoice::default(),
        scale: None,
    })
}

/// Copies a picture, because the memory of a decoder is a small pool. Returns the copied bytes too.
fn copied(picture: &Picture) -> (Picture, usize) {
    let planes = (0..3).map(|index| picture.planes.plane(index));
    let planes: Vec<(Vec<u8>, usize)> = planes
        .take_while(|plane| !plane.data.is_empty())
        .map(|plane| (plane.data.to_vec(), plane.stride))
        .collect();
    let bytes = planes.iter().map(|(data, _)| data.len()).sum();
    let copy = Picture {
        planes: Arc::new(OwnedPlanes { planes }),
        ..picture.clone()
    };
    (copy, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_frames_are_spread_over_the_seconds() {
        // A frame of 3840 × 2160 has 12.4 MB: 21 of them fit.
        let wanted = Wanted {
            source: "gate",
            seconds: 10.0,
            no_tls_verify: false,
            max_frames: 60,
            max_fps: 5.0,
            is_one_size: true,
        };
        assert!((wanted.fps_within(12_441_600) - 2.1).abs() < 1e-9);
        assert!((wanted.fps_within(460_800) - 5.0).abs() < 1e-9);
    }
}
