//! The address of a source, parsed once.
//!
//! - The address that a user wrote is parsed here and nowhere else.
//! - A parsed network address holds no credentials: libraries print the addresses they are given.

use std::path::PathBuf;

use url::Url;
use watchkeeper_contract::problem::nearest;

use crate::demo::{DemoOptions, DemoOptionsError};
use crate::redact::{self, Redactor};

/// Schemes of addresses.
const SCHEMES: [&str; 8] = [
    "rtsp", "rtsps", "http", "https", "file", "v4l2", "csi", "demo",
];

/// User name and password of a network source.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    /// Password; empty when none was written.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(***)")
    }
}

/// Address of a source of pictures.
#[derive(Clone, PartialEq)]
pub enum Address {
    /// A video file, a picture, or a folder of pictures: decided when it is opened.
    Path(PathBuf),
    /// An RTSP camera.
    Rtsp {
        /// Address without user information.
        url: Url,
        credentials: Option<Credentials>,
    },
    /// An MJPEG camera or a video file over HTTP.
    Http {
        /// Address without user information.
        url: Url,
        credentials: Option<Credentials>,
    },
    /// A Video4Linux device.
    V4l2 {
        /// Path of the device node.
        device: PathBuf,
        /// Picture size in pixels to ask for.
        size: Option<[u32; 2]>,
        /// Frames per second to ask for.
        fps: Option<u32>,
    },
    /// A camera on the CSI connector of a Jetson or a Raspberry Pi.
    Csi {
        /// Number of the sensor, from 0.
        sensor: u32,
        /// Picture size in pixels to ask for.
        size: Option<[u32; 2]>,
        /// Frames per second to ask for.
        fps: Option<u32>,
    },
    /// The built-in street scene.
    Demo(DemoOptions),
}

/// Prints no credentials; a token may be in the query, where the camera wants it.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Rtsp { url, .. } => write!(f, "Rtsp({})", redact::uri(url.as_str())),
            Self::Http { url, .. } => write!(f, "Http({})", redact::uri(url.as_str())),
            Self::V4l2 { device, size, fps } => f
                .debug_struct("V4l2")
                .field("device", device)
                .field("size", size)
                .field("fps", fps)
                .finish(),
            Self::Csi { sensor, size, fps } => f
                .debug_struct("Csi")
                .field("sensor", sensor)
                .field("size", size)
                .field("fps", fps)
                .finish(),
            Self::Demo(options) => f.debug_tuple("Demo").field(options).finish(),
        }
    }
}

/// Why an address can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "source address is empty; use a file, a folder of pictures, rtsp://…, http://…, /dev/video0, csi://0 or demo:"
    )]
    Empty,
    /// The scheme is unknown.
    #[error(
        "the scheme {scheme:?} of {uri:?} is unknown; allowed are rtsp, rtsps, http, https, file, \
         v4l2, csi and demo{}",
        .nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default()
    )]
    Scheme {
        /// Address without credentials.
        uri: String,
        /// Text before the colon.
        scheme: String,
        /// The scheme that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The address has a scheme and can't be parsed.
    #[error("source address {uri:?} can't be read: {reason}")]
    Malformed {
        /// Address without credentials.
        uri: String,
        reason: String,
    },
    /// An option of the demo scene is wrong.
    #[error(transparent)]
    Demo(#[from] DemoOptionsError),
}

impl Address {
    /// Parses the address of a source.
    ///
    /// # Errors
    /// [`AddressError`], free of credentials.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if let Some(rest) = text.strip_prefix("demo:") {
            return Ok(Self::Demo(DemoOptions::parse(rest)?));
        }
        if let Some(rest) = text.strip_prefix("v4l2:") {
            return v4l2(text, rest);
        }
        if text.starts_with("/dev/video") || text.starts_with("/dev/v4l/") {
            return v4l2(text, text);
        }
        let malformed = |reason: &str| AddressError::Malformed {
            uri: redact::uri(text),
            reason: reason.to_owned(),
        };
        let Some((scheme, _)) = text.split_once("://") else {
            // Parsed as a file, the password would be shown wherever the file's name is.
            if redact::has_credential(text) {
                return Err(malformed(
                    "it has a password and no scheme; write rtsp://… or http://…, or file:///… for a file",
                ));
            }
            return Ok(Self::Path(PathBuf::from(text)));
        };
        if !redact::is_scheme(scheme) {
            return Err(malformed(
                "the text before :// is not a scheme; write rtsp://… or http://…",
            ));
        }
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "rtsp" | "rtsps" | "rtspt" | "http" | "https" => {
                let (url, credentials) = network(text)?;
                if scheme.starts_with("rtsp") {
                    return Ok(Self::Rtsp { url, credentials });
                }
                // Otherwise its media type shows it only when the camera is opened.
                let path = url.path().to_ascii_lowercase();
                if path.ends_with(".m3u8") || path.ends_with(".mpd") {
                    return Err(malformed(
                        "a playlist (HLS, DASH) is not played; use the camera's rtsp:// address",
                    ));
                }
                Ok(Self::Http { url, credentials })
            }
            "csi" => csi(text),
            "file" => {
                let url = Url::parse(text).map_err(|e| malformed(&e.to_string()))?;
                url.to_file_path()
                    .map(Self::Path)
                    .map_err(|()| malformed("it names no local file"))
            }
            _ => Err(AddressError::Scheme {
                uri: redact::uri(text),
                nearest: nearest(&scheme, SCHEMES),
                scheme,
            }),
        }
    }

    /// Returns a filter for messages about this source.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        match self {
            Self::Rtsp { url, credentials } | Self::Http { url, credentials } => {
                let of_user = credentials.iter().map(|c| c.password.clone());
                let of_options = redact::secret_values(url.as_str());
                // Messages may hold them encoded or decoded.
                let of_options = of_options.flat_map(|v| [v.to_owned(), percent_decoded(v)]);
                Redactor::new(of_user.chain(of_options))
            }
            Self::Path(_) | Self::V4l2 { .. } | Self::Csi { .. } | Self::Demo(_) => {
                Redactor::default()
            }
        }
    }

    /// Returns whether the source can end and be read again from its start, so that it is not a
    /// live camera.
    ///
    /// An HTTP address shows this only when it is opened; until then it counts as live.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        matches!(self, Self::Path(_) | Self::Demo(_))
    }
}

fn network(text: &str) -> Result<(Url, Option<Credentials>), AddressError> {
    let malformed = |reason: String| AddressError::Malformed {
        uri: redact::uri(text),
        reason,
    };
    // `url` would drop or escape these, which changes the address.
    if text.contains(|c: char| c == ' ' || c == '\\' || c.is_control()) {
        return Err(malformed(
            "it holds a space, a backslash or a control character; write %20 or %5C".to_owned(),
        ));
    }
    // Storing an address as the API shows it would store the mask.
    if text.contains(redact::MASK) {
        return Err(malformed(format!(
            "it holds {} instead of a credential, as addresses are shown; write the credential itself",
            redact::MASK
        )));
    }
    // The end of a password with a bare `/` would become a path, and its beginning a host.
    let behind_host = text
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once(['/', '?', '#']));
    if behind_host.is_some_and(|(_, rest)| rest.contains('@')) {
        return Err(malformed(
            "it has an @ after the host; in a password write / as %2F, ? as %3F and # as %23, in a path write @ as %40"
                .to_owned(),
        ));
    }
    let mut url = Url::parse(text).map_err(|e| malformed(e.to_string()))?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(malformed("it names no host".to_owned()));
    }
    let is_given = !url.username().is_empty() || url.password().is_some();
    let credentials = is_given.then(|| Credentials {
        user: percent_decoded(url.username()),
        password: percent_decoded(url.password().unwrap_or_default()),
    });
    // Only addresses without a host refuse this, and those were refused above.
    let cleared = url.set_username("").and_then(|()| url.set_password(None));
    cleared.map_err(|()| malformed("it can't carry a user name".to_owned()))?;
    Ok((url, credentials))
}

fn v4l2(whole: &str, text: &str) -> Result<Address, AddressError> {
    let malformed = |reason: String| AddressError::Malformed {
        uri: redact::uri(whole),
        reason,
    };
    let (device, options) = text.split_once('?').unwrap_or((text, ""));
    if device.is_empty() {
        return Err(malformed(
            "it names no device; write v4l2:/dev/video0".to_owned(),
        ));
    }
    let (size, fps) = mode(options).map_err(malformed)?;
    Ok(Address::V4l2 {
        device: PathBuf::from(device),
        size,
        fps,
    })
}

/// Parses the address of a CSI camera, such as `csi://0?width=1280&height=720&fps=30`.
fn csi(text: &str) -> Result<Address, AddressError> {
    let malformed = |reason: String| AddressError::Malformed {
        uri: redact::uri(text),
        reason,
    };
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let (sensor, options) = rest.split_once('?').unwrap_or((rest, ""));
    let sensor = sensor.trim_end_matches('/').parse().map_err(|_| {
        malformed("it names no sensor; write csi://0 for the first camera".to_owned())
    })?;
    let (size, fps) = mode(options).map_err(malformed)?;
    Ok(Address::Csi { sensor, size, fps })
}

/// Picture size in pixels and frames per second.
type Mode = (Option<[u32; 2]>, Option<u32>);

/// Parses the options `width`, `height` and `fps` of a device; an error is a reason.
fn mode(options: &str) -> Result<Mode, String> {
    let (mut width, mut height, mut fps) = (None, None, None);
    for option in options.split('&').filter(|o| !o.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let slot = match name {
            "width" => &mut width,
            "height" => &mut height,
            "fps" => &mut fps,
            _ => {
                return Err(format!(
                    "unknown option {name:?}; allowed are width, height and fps"
                ));
            }
        };
        let number = value.parse().ok().filter(|n| (1..=16_384).contains(n));
        *slot = Some(
            number.ok_or_else(|| format!("option {name} needs a whole number from 1 to 16384"))?,
        );
    }
    match (width, height) {
        (Some(w), Some(h)) => Ok((Some([w, h]), fps)),
        (None, None) => Ok((None, fps)),
        _ => Err("give both width and height, or neither".to_owned()),
    }
}

/// Decodes `%41` to `A`; an invalid escape stays unchanged.
fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_off_the_address_and_decoded() {
        let Address::Rtsp { url, credentials } =
            Address::parse("rtsp://admin:p%40ss%2F1@10.0.0.7:554/h264?channel=1").unwrap()
        else {
            panic!("not RTSP");
        };
        assert_eq!(url.as_str(), "rtsp://10.0.0.7:554/h264?channel=1");
        let credentials = credentials.unwrap();
        assert_eq!(credentials.user, "admin");
        assert_eq!(credentials.password, "p@ss/1");
        assert!(!format!("{credentials:?}").contains("p@ss"));
    }

    #[test]
    fn an_address_as_it_is_shown_is_no_address() {
        for shown in [
            "rtsp://***@cam/live",
            "http://cam/live?token=***",
            "rtsp://cam/user=***&channel=1",
        ] {
            let error = Address::parse(shown).unwrap_err().to_string();
            assert!(error.contains("credential itself"), "{error}");
        }
    }

    #[test]
    fn a_password_in_the_path_is_in_no_message() {
        let address =
            Address::parse("rtsp://cam/user=admin&password=pa%35s5&channel=1.sdp").unwrap();
        let said = address.redactor().text("cam refused pa5s5 and pa%35s5");
        assert_eq!(said, "cam refused *** and ***");
        assert!(!format!("{address:?}").contains("s5"));
    }

    #[test]
    fn a_token_in_the_query_is_not_in_the_debug_print() {
        let address = Address::parse("http://cam/live?token=abcdef&fps=5").unwrap();
        assert_eq!(
            format!("{address:?}"),
            "Http(http://cam/live?token=***&fps=5)"
        );
    }

    #[test]
    fn percent_sign_without_escape_stays_in_password() {
        let address = Address::parse("rtsp://admin:50%+5%x@cam/live").unwrap();
        let Address::Rtsp { credentials, .. } = address else {
            panic!("not RTSP");
        };
        assert_eq!(credentials.unwrap().password, "50%+5%x");
    }

    #[test]
    fn password_with_bare_slash_is_refused() {
        let error = Address::parse("rtsp://admin:1/secret@cam/live/..")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("%2F") && !error.contains("secret"),
            "{error}"
        );
    }

    #[test]
    fn a_password_without_a_user_is_a_credential() {
        let Address::Rtsp { credentials, .. } = Address::parse("rtsp://:pa55@cam/live").unwrap()
        else {
            panic!("not RTSP");
        };
        assert_eq!(credentials.unwrap().password, "pa55");
    }

    #[test]
    fn password_without_scheme_is_refused_with_remedy() {
        let error = Address::parse("admin:secret@10.0.0.7/live")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("rtsp://") && !error.contains("secret"),
            "{error}"
        );
    }

    #[test]
    fn every_kind_of_source_is_told_by_its_address() {
        assert!(matches!(
            Address::parse("clips/a.mp4").unwrap(),
            Address::Path(_)
        ));
        assert_eq!(
            Address::parse("file:///srv/a%20b.mp4").unwrap(),
            Address::Path("/srv/a b.mp4".into())
        );
        assert!(matches!(
            Address::parse("https://cam/video.mjpg").unwrap(),
            Address::Http { .. }
        ));
        assert!(matches!(Address::parse("demo:").unwrap(), Address::Demo(_)));
        assert_eq!(
            Address::parse("v4l2:/dev/video2?width=1280&height=720&fps=30").unwrap(),
            Address::V4l2 {
                device: "/dev/video2".into(),
                size: Some([1280, 720]),
                fps: Some(30)
            }
        );
        assert_eq!(
            Address::parse("csi://1?width=1280&height=720&fps=30").unwrap(),
            Address::Csi {
                sensor: 1,
                size: Some([1280, 720]),
                fps: Some(30)
            }
        );
        for device in ["/dev/video0", "/dev/v4l/by-id/usb-046d_C920-video-index0"] {
            assert!(matches!(
                Address::parse(device).unwrap(),
                Address::V4l2 { size: None, .. }
            ));
        }
    }

    #[test]
    fn unknown_scheme_is_refused_with_allowed_ones() {
        let error = Address::parse("ftp://me:secret@host/a")
            .unwrap_err()
            .to_string();
        assert!(error.contains("ftp") && error.contains("rtsp"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn malformed_address_is_refused_without_password() {
        for bad in [
            "rtsp://me:secret@",
            "rtsp://me:secret@host:99999/x",
            "http://",
        ] {
            let error = Address::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        for bad in ["csi://", "csi://front", "csi://0?width=3", "csi://0?gain=3"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
        for playlist in ["http://cam/live/index.m3u8?q=1", "https://cam/LIVE.MPD"] {
            let error = Address::parse(playlist).unwrap_err().to_string();
            assert!(error.contains("use the camera's rtsp://"), "{error}");
        }
        assert!(Address::parse("rtsp://cam/live.m3u8").is_ok());
        assert!(Address::parse("v4l2:").is_err());
        assert!(Address::parse("v4l2:/dev/video0?width=3").is_err());
        assert!(Address::parse("  ").is_err());
    }

    #[test]
    fn redactor_hides_own_password_in_any_text() {
        let address = Address::parse("rtsp://me:hunter2@cam/live?token=abcdef").unwrap();
        let text = address.redactor().text("login hunter2 failed with abcdef");
        assert_eq!(text, "login *** failed with ***");
    }
}
