//! Which privacy mask a source has: by its name, and by the address of the camera behind it.
//!
//! - A source that the configuration file does not declare can't show a masked camera.
//! - Two addresses are one camera if they name the same host, device, file or folder.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::privacy::{MAX_CORNERS, PrivacyMask};
use watchkeeper_contract::source::SourceSpec;

use crate::address::Address;
use crate::config::Config;

/// Smallest cross product of two sides of a region; below it all corners are on one line.
const MIN_CROSS: f64 = 1e-6;

/// Why corners are not a region of a privacy mask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; allowed: {allowed}")]
pub struct RegionError {
    pub problem: &'static str,
    pub allowed: String,
}

/// Checks the corners of a region, in fractions of the picture's width and height.
///
/// # Errors
/// [`RegionError`] for too few or too many corners, one outside the picture, or no area.
pub fn check_region(corners: &[[f64; 2]]) -> Result<(), RegionError> {
    let refuse = |problem, allowed: &str| {
        let allowed = allowed.to_owned();
        Err(RegionError { problem, allowed })
    };
    let (Some([x, y]), 3..=MAX_CORNERS) = (corners.first(), corners.len()) else {
        let allowed = format!("3 to {MAX_CORNERS} corners of x and y each");
        return refuse("is not a region", &allowed);
    };
    if !corners.iter().flatten().all(|at| (0.0..=1.0).contains(at)) {
        return refuse(
            "has a corner outside the picture",
            "fractions of the picture's width and height, from 0 to 1; divide pixels by the size \
             of the picture",
        );
    }
    let is_flat = corners.windows(2).all(|side| {
        let [[ax, ay], [bx, by]] = [side[0], side[1]];
        ((ax - x) * (by - y) - (bx - x) * (ay - y)).abs() < MIN_CROSS
    });
    if is_flat {
        return refuse("encloses no area", "corners that are not on one line");
    }
    Ok(())
}

/// The masks of a configuration, and the addresses that it declares.
#[derive(Debug, Default)]
pub struct PrivacyMasks {
    masks: Vec<(Arc<PrivacyMask>, Option<Address>)>,
    declared: Vec<SourceSpec>,
}

impl PrivacyMasks {
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let with_address = |mask: &PrivacyMask| {
            let address = Address::parse(&mask.uri).ok();
            (Arc::new(mask.clone()), address)
        };
        Self {
            masks: config.privacy.iter().map(with_address).collect(),
            declared: config.sources.clone(),
        }
    }

    /// Returns the mask of a source, if it has one.
    ///
    /// # Errors
    /// A sentence, if the source is another way to a masked camera.
    pub fn of(&self, spec: &SourceSpec) -> Result<Option<Arc<PrivacyMask>>, String> {
        if let Some(mask) = self.by_name(&spec.id) {
            return Ok(Some(Arc::clone(mask)));
        }
        let is_declared = |of: &SourceSpec| of.id == spec.id && of.uri == spec.uri;
        match self.at(&spec.uri) {
            Some(mask) if !self.declared.iter().any(is_declared) => Err(format!(
                "the camera at this address has the privacy mask of [sources.{0}] in the \
                 configuration file; use the source {0:?}, or declare this address in that file",
                mask.source.as_str()
            )),
            _ => Ok(None),
        }
    }

    #[must_use]
    pub fn by_name(&self, source: &SourceId) -> Option<&Arc<PrivacyMask>> {
        let mut masks = self.masks.iter().map(|(mask, _)| mask);
        masks.find(|mask| mask.source == *source)
    }

    /// Returns the mask of the camera at this address. It is that of the source with exactly this
    /// address, else the first mask of a source that is the same camera.
    #[must_use]
    pub fn at(&self, uri: &str) -> Option<&Arc<PrivacyMask>> {
        let address = Address::parse(uri).ok()?;
        let masked = |is_it: &dyn Fn(&Address) -> bool| {
            let mut masks = self.masks.iter();
            let found = masks.find(|(_, of)| of.as_ref().is_some_and(is_it));
            found.map(|(mask, _)| mask)
        };
        if let Some(mask) = masked(&|of| is_equal(of, &address)) {
            return Some(mask);
        }
        let mut declared = self.declared.iter();
        let declares =
            |of: &SourceSpec| Address::parse(&of.uri).is_ok_and(|of| is_equal(&of, &address));
        if declared.any(declares) {
            return None;
        }
        masked(&|of| is_one_camera(of, &address))
    }
}

/// Whether two addresses are equal apart from their credentials.
fn is_equal(a: &Address, b: &Address) -> bool {
    match (a, b) {
        (
            Address::Rtsp { url: a, .. } | Address::Http { url: a, .. },
            Address::Rtsp { url: b, .. } | Address::Http { url: b, .. },
        ) => a == b,
        (a, b) => a == b,
    }
}

fn is_one_camera(a: &Address, b: &Address) -> bool {
    if let (Some(a), Some(b)) = (host(a), host(b)) {
        return a == b;
    }
    match (a, b) {
        (Address::Demo(_), Address::Demo(_)) => true,
        (
            Address::Path(a) | Address::V4l2 { device: a, .. },
            Address::Path(b) | Address::V4l2 { device: b, .. },
        ) => {
            let (a, b) = (real(a), real(b));
            a.starts_with(&b) || b.starts_with(&a)
        }
        // A CSI camera may have a device node too, whose number is not the sensor's.
        (Address::Csi { .. } | Address::V4l2 { .. }, Address::Csi { .. })
        | (Address::Csi { .. }, Address::V4l2 { .. }) => is_one_sensor(a, b),
        _ => false,
    }
}

/// Whether two addresses may be one CSI camera: a device node may belong to any sensor.
fn is_one_sensor(a: &Address, b: &Address) -> bool {
    match (a, b) {
        (Address::Csi { sensor: a, .. }, Address::Csi { sensor: b, .. }) => a == b,
        _ => true,
    }
}

/// The host of an address, the same for its spellings: letter case, a final dot, an IPv4 address
/// written as IPv6, any loopback address.
fn host(address: &Address) -> Option<String> {
    let url = match address {
        Address::Rtsp { url, .. } | Address::Http { url, .. } => url,
        Address::Path(_) | Address::V4l2 { .. } | Address::Csi { .. } | Address::Demo(_) => {
            return None;
        }
    };
    let host = url.host_str()?.trim_end_matches('.').to_ascii_lowercase();
    let number = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(number) = number.parse::<IpAddr>().map(|number| number.to_canonical()) else {
        return Some(host);
    };
    Some(match number.is_loopback() {
        true => "localhost".to_owned(),
        false => number.to_string(),
    })
}

/// The path without links; as written if it is not there.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::privacy::MaskFill;

    use super::*;

    fn source(id: &str, uri: &str) -> SourceSpec {
        let json = serde_json::json!({"id": id, "uri": uri});
        serde_json::from_value(json).expect("a specification")
    }

    /// A camera `gate` with a mask, and others without.
    fn masks(gate: &str, others: &[(&str, &str)]) -> PrivacyMasks {
        let mask = PrivacyMask {
            source: SourceId::new("gate").expect("a name"),
            uri: gate.to_owned(),
            regions: vec![vec![[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]],
            fill: MaskFill::Black,
            classes: Vec::new(),
        };
        let gate_itself = [("gate", gate)];
        let declared = others.iter().chain(&gate_itself);
        PrivacyMasks {
            masks: vec![(Arc::new(mask), Address::parse(gate).ok())],
            declared: declared.map(|(id, uri)| source(id, uri)).collect(),
        }
    }

    #[test]
    fn mask_stays_with_its_name_whatever_the_address() {
        let masks = masks("rtsp://10.0.0.7/live", &[]);
        for uri in ["rtsp://10.0.0.7/live", "rtsp://10.0.0.9/other", "demo:"] {
            let mask = masks.of(&source("gate", uri)).expect("its own mask");
            assert!(mask.is_some(), "{uri}");
        }
        let other = masks.of(&source("yard", "rtsp://10.0.0.9/live"));
        assert!(other.expect("another camera").is_none());
    }

    #[test]
    fn other_way_to_masked_camera_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let clip = folder.path().join("clip.mp4");
        std::fs::write(&clip, "").expect("a file");
        let link = folder.path().join("link.mp4");
        std::os::unix::fs::symlink(&clip, &link).expect("a link");
        let path = |path: &Path| path.display().to_string();
        for (gate, other) in [
            ("rtsp://a:b@Cam.local/live", "rtsp://cam.local/live"),
            ("rtsp://cam.local/live", "rtsp://u:p@cam.local:8554/sub"),
            ("rtsp://cam.local/live", "http://cam.local/video.mjpg"),
            ("/dev/video0", "v4l2:/dev/video0?fps=5"),
            ("demo:?seconds=60", "demo:"),
            (&path(&clip), &path(&link)),
            (&path(&clip), &path(folder.path())),
        ] {
            let refused = masks(gate, &[]).of(&source("yard", other));
            let told = refused.err().unwrap_or_default();
            assert!(told.contains("[sources.gate]"), "{gate} {other}: {told}");
        }
    }

    #[test]
    fn host_is_found_in_each_of_its_spellings() {
        for (gate, other) in [
            ("rtsp://cam.local/1", "rtsp://CAM.local./2"),
            ("rtsp://10.0.0.7/1", "rtsp://[::ffff:10.0.0.7]/2"),
            ("http://127.0.0.1:80/a", "rtsp://127.0.0.2/b"),
            ("rtsp://localhost/a", "rtsp://[::1]/b"),
        ] {
            let refused = masks(gate, &[]).of(&source("yard", other));
            assert!(refused.is_err(), "{gate} {other}");
        }
        let other = masks("rtsp://10.0.0.7/1", &[]).of(&source("yard", "rtsp://10.0.0.8/1"));
        assert!(other.expect("another camera").is_none());
    }

    #[test]
    fn channel_of_recorder_is_free_only_where_the_file_declares_it() {
        let second = "rtsp://u:p@recorder.local/2";
        let masks = masks("rtsp://recorder.local/1", &[("yard", second)]);
        assert!(
            masks
                .of(&source("yard", second))
                .expect("declared")
                .is_none()
        );
        assert!(masks.at("rtsp://recorder.local/2").is_none());
        assert!(masks.at("rtsp://recorder.local/3").is_some());
        assert!(
            masks
                .of(&source("yard", "rtsp://recorder.local/1"))
                .is_err()
        );
        assert!(
            masks
                .of(&source("yard", "rtsp://recorder.local/3"))
                .is_err()
        );
    }
}
