//! Causes of capture errors, and messages with a remedy.
//!
//! - Reads errors of GStreamer and the operating system.
//! - Every message names the place and a remedy. The caller knows the credentials and redacts them.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use gstreamer as gst;
use url::Url;
use watchkeeper_contract::source::LossCause;

use super::feed::FeedError;

/// Timeout of each half of [`probe`]: resolving the host, and connecting.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);

/// Max lookups in progress: one at an unresponsive name server blocks a thread for 30 s.
const MAX_LOOKUPS: usize = 8;

/// Converts an error of a local file or folder; it does not heal without a user.
pub(super) fn from_path(path: &Path, error: &io::Error) -> FeedError {
    let shown = path.display();
    let (cause, message) = match error.kind() {
        io::ErrorKind::NotFound => (
            LossCause::NotFound,
            format!("{shown} does not exist; check the path"),
        ),
        io::ErrorKind::PermissionDenied => (
            LossCause::Permission,
            format!("{shown} may not be read by this user; check its permissions (ls -l)"),
        ),
        _ => (LossCause::Other, format!("{shown} can't be read: {error}")),
    };
    FeedError {
        cause,
        message,
        is_retryable: false,
    }
}

/// Reports a file that gave no picture until the deadline. Damage has its own error.
pub(super) fn from_slow_file(path: &Path) -> FeedError {
    FeedError {
        cause: LossCause::Timeout,
        message: format!(
            "{} gives no picture yet; its disk is slow, or the machine is overloaded",
            path.display()
        ),
        is_retryable: true,
    }
}

/// Reports a missing element; installing it takes a restart, so this does not heal.
pub(super) fn from_missing_element(element: &str) -> FeedError {
    let remedy = super::check::install_remedy(element);
    FeedError {
        cause: LossCause::Codec,
        message: format!("GStreamer element {element} is not installed; {remedy}"),
        is_retryable: false,
    }
}

/// Returns the text in an element's debug string (`gst_element_message_full`).
///
/// It follows a source location and an element path, whose numbers would look like status codes.
fn message_text(debug: &str) -> &str {
    debug.split_once(":\n").map_or("", |(_, words)| words)
}

/// Returns the status in an element's debug string that says that a server failed, such as `503`.
pub(super) fn server_error(debug: &str) -> Option<&str> {
    let mut words = message_text(debug).split_whitespace();
    words.find_map(|word| {
        let status = word
            .strip_prefix('(')?
            .trim_end_matches([',', '.'])
            .strip_suffix(')')?;
        let is_status = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        (is_status && status.starts_with('5')).then_some(status)
    })
}

/// Returns the cause of an element's error by its text, domain and code.
pub(super) fn from_gst(error: &gst::glib::Error, debug: &str) -> LossCause {
    let text = format!("{} {}", error.message(), message_text(debug)).to_ascii_lowercase();
    // Addresses contain arbitrary names of paths and hosts.
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| !word.contains("://"))
        .collect();
    let text = words.join(" ");
    let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let answered = |status: &str| {
        let bare = |word: &&str| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()) == status;
        words.iter().any(bare)
    };
    // Text first: rtspsrc and souphttpsrc use one code for several causes.
    if says(&["certificate", "tls handshake"]) {
        return LossCause::Untrusted;
    }
    if answered("401") || says(&["unauthorized", "not authorized", "authentication"]) {
        return LossCause::Authentication;
    }
    if answered("403") || says(&["forbidden", "permission denied", "access denied"]) {
        return LossCause::Permission;
    }
    if says(&["connection refused", "refused"]) {
        return LossCause::Refused;
    }
    if says(&[
        "could not resolve",
        "cannot resolve",
        "error resolving",
        "name or service not known",
        "no route",
        "unreachable",
    ]) {
        return LossCause::Unreachable;
    }
    if says(&["timed out", "timeout", "could not receive any udp packets"]) {
        return LossCause::Timeout;
    }
    if let Some(kind) = error.kind::<gst::ResourceError>() {
        return match kind {
            gst::ResourceError::NotFound => LossCause::NotFound,
            gst::ResourceError::NotAuthorized => LossCause::Authentication,
            gst::ResourceError::Busy => LossCause::Refused,
            _ if answered("404") || says(&["no such file", "not found"]) => LossCause::NotFound,
            _ => LossCause::Other,
        };
    }
    // "Internal data stream error": posted by sources and decoders alike.
    if error.kind::<gst::StreamError>() == Some(gst::StreamError::Failed) {
        return LossCause::Other;
    }
    if error.kind::<gst::StreamError>().is_some() || error.kind::<gst::CoreError>().is_some() {
        return LossCause::Codec;
    }
    LossCause::Other
}

/// Runs `lookup` on a thread and returns its result, or `None` after `timeout`; the thread is then
/// abandoned. Returns `None` at once while [`MAX_LOOKUPS`] others, counted in `running`, have not
/// ended.
fn run_with_timeout<T: Send + 'static>(
    timeout: Duration,
    running: &Arc<AtomicUsize>,
    lookup: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let before = running.fetch_add(1, Ordering::Relaxed);
    let counted = Counted(Arc::clone(running));
    if before >= MAX_LOOKUPS {
        return None;
    }
    let (answer, wait) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("probe".to_owned());
    let started = thread.spawn(move || {
        let _counted = counted;
        // The caller may have timed out.
        drop(answer.send(lookup()));
    });
    started.ok()?;
    wait.recv_timeout(timeout).ok()
}

/// Finds the cause of a failed connection with one TCP connect.
///
/// Takes at most 1.6 s, because closing the source waits for it.
pub(super) fn probe(url: &Url) -> Option<LossCause> {
    static RUNNING: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
    let port = url.port().or(match url.scheme() {
        "rtsp" | "rtspt" => Some(554),
        "rtsps" => Some(322),
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    })?;
    let host = url
        .host_str()?
        .trim_start_matches('[')
        .trim_end_matches(']');
    let name = (host.to_owned(), port);
    let find = move || name.to_socket_addrs().ok()?.next();
    let address = run_with_timeout(PROBE_TIMEOUT, &RUNNING, find).flatten();
    let Some(address) = address else {
        return Some(LossCause::Unreachable);
    };
    match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
        Ok(_) => None,
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Some(LossCause::Refused),
            io::ErrorKind::TimedOut => Some(LossCause::Timeout),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Some(LossCause::Unreachable)
            }
            io::ErrorKind::PermissionDenied => Some(LossCause::Permission),
            _ => None,
        },
    }
}

/// Builds the message about a network source or device: what, where, remedy.
pub(super) fn describe(cause: LossCause, place: &str, detail: &str) -> String {
    match cause {
        LossCause::Refused => format!(
            "{place} refused the connection; \
             check that the camera's service is on and the port is right"
        ),
        LossCause::Unreachable => {
            format!("{place} can't be reached; check the host name, the cable and the network")
        }
        LossCause::Timeout => {
            format!(
                "{place} did not answer in time; \
                 check that the camera is on and the address is right"
            )
        }
        LossCause::Authentication => {
            format!(
                "{place} rejected the user name or password; check both in the source's address"
            )
        }
        LossCause::Untrusted => {
            format!(
                "{place} shows a certificate that is not trusted; add its authority to the system, \
                 or set tls_verify = false for this source"
            )
        }
        LossCause::NotFound => {
            format!("{place} does not exist there; check the path in the source's address")
        }
        LossCause::Permission => format!("{place} may not be opened: {detail}"),
        LossCause::Codec => format!("{place} can't be decoded: {detail}"),
        LossCause::NoKeyframe | LossCause::Stalled | LossCause::EndOfStream | LossCause::Other => {
            format!("{place}: {detail}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(kind: gst::ResourceError, text: &str) -> LossCause {
        from_gst(&gst::glib::Error::new(kind, text), "")
    }

    #[test]
    fn messages_of_rtspsrc_and_souphttpsrc_map_to_causes() {
        use gst::ResourceError::{NotAuthorized, NotFound, OpenRead, Read};
        for (kind, text, cause) in [
            (NotAuthorized, "Unauthorized", LossCause::Authentication),
            (OpenRead, "Unauthorized (401)", LossCause::Authentication),
            (NotFound, "Not found", LossCause::NotFound),
            (OpenRead, "Forbidden (403)", LossCause::Permission),
            (
                OpenRead,
                "Could not connect: Connection refused",
                LossCause::Refused,
            ),
            (
                NotFound,
                "Could not resolve server name.",
                LossCause::Unreachable,
            ),
            (
                Read,
                "Could not receive any UDP packets for 5.0000 seconds",
                LossCause::Timeout,
            ),
            (
                OpenRead,
                "Could not open resource for reading.",
                LossCause::Other,
            ),
        ] {
            assert_eq!(resource(kind, text), cause, "{text}");
        }
    }

    #[test]
    fn numbers_in_debug_texts_and_addresses_are_ignored() {
        let of = |debug: &str| {
            let text = "Could not open resource for reading.";
            from_gst(
                &gst::glib::Error::new(gst::ResourceError::OpenRead, text),
                debug,
            )
        };
        let place = "gstrtspsrc.c(8403): gst_rtspsrc_retrieve_sdp (): \
                     /GstPipeline:pipeline403/GstRTSPSrc:rtspsrc401";
        assert_eq!(of(place), LossCause::Other);
        for (words, cause) in [
            ("Failed to connect. (Generic error)", LossCause::Other),
            ("Got error response: 404 (Not Found).", LossCause::NotFound),
            (
                "Unauthorized (401), URL: http://cam/live",
                LossCause::Authentication,
            ),
            (
                "Bad gateway (502), URL: http://cam/refused/401, Redirect to: (NULL)",
                LossCause::Other,
            ),
            (
                "Could not connect to 10.0.0.5:403: Connection refused",
                LossCause::Refused,
            ),
        ] {
            assert_eq!(of(&format!("{place}:\n{words}")), cause, "{words}");
        }
        let answer = "Service Unavailable (503), URL: http://cam/503, Redirect to: (NULL)";
        assert_eq!(server_error(&format!("{place}:\n{answer}")), Some("503"));
        assert_eq!(server_error(&format!("{place}:\nNot Found (404)")), None);
    }

    #[test]
    fn stream_errors_map_to_the_codec() {
        let error =
            gst::glib::Error::new(gst::StreamError::TypeNotFound, "could not determine type");
        assert_eq!(from_gst(&error, ""), LossCause::Codec);
        let error = gst::glib::Error::new(gst::StreamError::Failed, "Internal data stream error.");
        assert_eq!(from_gst(&error, ""), LossCause::Other);
    }

    #[test]
    fn closed_port_is_refused_and_unknown_host_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let url = Url::parse(&format!("rtsp://127.0.0.1:{port}/x")).expect("valid");
        assert_eq!(probe(&url), Some(LossCause::Refused));
        let url = Url::parse("rtsp://nobody.invalid/x").expect("valid");
        assert_eq!(probe(&url), Some(LossCause::Unreachable));
    }

    #[test]
    fn hanging_lookups_time_out_and_are_bounded() {
        let (running, started) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(std::sync::Mutex::new(hang));
        for _ in 0..3 * MAX_LOOKUPS {
            let (hang, started) = (Arc::clone(&hang), Arc::clone(&started));
            let answer = run_with_timeout(Duration::from_millis(1), &running, move || {
                started.fetch_add(1, Ordering::SeqCst);
                drop(hang.lock().map(|hang| hang.recv()));
            });
            assert_eq!(answer, None);
        }
        assert!(started.load(Ordering::SeqCst) <= MAX_LOOKUPS);
        drop(release);
        // Later lookups work once the hanging ones have ended.
        while run_with_timeout(Duration::from_secs(60), &running, || 7) != Some(7) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn missing_element_names_its_install_command() {
        let broken = from_missing_element("avdec_h264");
        assert!(
            broken
                .message
                .contains("apt-get install gstreamer1.0-libav")
        );
    }
}
