//! What went wrong, in the words of the contract, and what a person can do about it.
//!
//! Owns the reading of GStreamer's and the operating system's errors. Invariant: every sentence names the thing and a
//! remedy; credentials are filtered by the caller, which knows them.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use gstreamer as gst;
use url::Url;
use watchkeeper_contract::source::LossCause;

use super::feed::Broken;

/// Longest time that each half of [`probe`] may take: finding the address, and connecting.
const PROBE: Duration = Duration::from_millis(800);

/// Name servers that do not answer keep a thread for half a minute; no more than so many at a time.
const MAX_ASKING: usize = 8;

/// Why a local file or folder can't be used. Files do not heal: somebody has to act.
pub(super) fn of_path(path: &Path, error: &io::Error) -> Broken {
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
    Broken {
        cause,
        message,
        heals: false,
    }
}

/// An element that is not installed. Installing it takes a restart, so this does not heal.
pub(super) fn of_missing_element(element: &str) -> Broken {
    let remedy = super::check::package_of(element).map_or_else(
        || "install the GStreamer plugin that has it".to_owned(),
        |package| format!("sudo apt-get install {package}"),
    );
    Broken {
        cause: LossCause::Codec,
        message: format!("GStreamer element {element} is not installed; {remedy}"),
        heals: false,
    }
}

/// What an element said in its debug text: that begins with where in its source the error was made and with the path of the element, both of
/// which hold numbers that mean nothing, and ends with the words, if there are any (`gst_element_message_full`).
fn words_of(debug: &str) -> &str {
    debug.split_once(":\n").map_or("", |(_, words)| words)
}

/// Cause of an error that a GStreamer element posted, by its domain and code, and where those are vague by its text.
pub(super) fn of_gst(error: &gst::glib::Error, debug: &str) -> LossCause {
    let text = format!("{} {}", error.message(), words_of(debug)).to_ascii_lowercase();
    // Addresses hold whatever a person named a path or a host.
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
    // Text first: rtspsrc and souphttpsrc put several causes under one code.
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
    // "Internal data stream error": some element returned an error without saying which, a source as well as a decoder.
    if error.kind::<gst::StreamError>() == Some(gst::StreamError::Failed) {
        return LossCause::Other;
    }
    if error.kind::<gst::StreamError>().is_some() || error.kind::<gst::CoreError>().is_some() {
        return LossCause::Codec;
    }
    LossCause::Other
}

/// What `ask` answers, or `None` when it takes longer than `patience`: then it is left to itself. `None` at once while
/// [`MAX_ASKING`] others, counted in `asking`, are still at it.
fn within<T: Send + 'static>(
    patience: Duration,
    asking: &Arc<AtomicUsize>,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let before = asking.fetch_add(1, Ordering::Relaxed);
    let counted = Counted(Arc::clone(asking));
    if before >= MAX_ASKING {
        return None;
    }
    let (answer, wait) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("probe".to_owned());
    let started = thread.spawn(move || {
        let _counted = counted;
        // Whoever asked may have given up.
        drop(answer.send(ask()));
    });
    started.ok()?;
    wait.recv_timeout(patience).ok()
}

/// Finds out why a connection failed when the library only says that it did: one TCP connect. Takes 1.6 s at most, also
/// where the name server does not answer, because whoever closes the source waits for this.
pub(super) fn probe(url: &Url) -> Option<LossCause> {
    static ASKING: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
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
    let address = within(PROBE, &ASKING, find).flatten();
    let Some(address) = address else {
        return Some(LossCause::Unreachable);
    };
    match TcpStream::connect_timeout(&address, PROBE) {
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

/// A sentence for a person about a network source or device: what, where, and what to do.
pub(super) fn sentence(cause: LossCause, place: &str, detail: &str) -> String {
    match cause {
        LossCause::Refused => format!(
            "{place} refused the connection; check that the camera's service is on and the port is right"
        ),
        LossCause::Unreachable => {
            format!("{place} can't be reached; check the host name, the cable and the network")
        }
        LossCause::Timeout => {
            format!(
                "{place} did not answer in time; check that the camera is on and the address is right"
            )
        }
        LossCause::Authentication => {
            format!(
                "{place} rejected the user name or password; check both in the source's address"
            )
        }
        LossCause::Untrusted => {
            format!(
                "{place} shows a certificate that is not trusted; have its authority trusted by the system, or set \
                 tls_verify = false for this source"
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
        of_gst(&gst::glib::Error::new(kind, text), "")
    }

    #[test]
    fn the_words_of_rtspsrc_and_souphttpsrc_map_to_causes() {
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
    fn a_cause_is_in_the_words_and_not_in_line_numbers_counters_or_addresses() {
        let of = |debug: &str| {
            let text = "Could not open resource for reading.";
            of_gst(
                &gst::glib::Error::new(gst::ResourceError::OpenRead, text),
                debug,
            )
        };
        let place = "gstrtspsrc.c(8403): gst_rtspsrc_retrieve_sdp (): /GstPipeline:pipeline403/GstRTSPSrc:rtspsrc401";
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
    }

    #[test]
    fn stream_errors_are_about_the_codec() {
        let error =
            gst::glib::Error::new(gst::StreamError::TypeNotFound, "could not determine type");
        assert_eq!(of_gst(&error, ""), LossCause::Codec);
        let error = gst::glib::Error::new(gst::StreamError::Failed, "Internal data stream error.");
        assert_eq!(of_gst(&error, ""), LossCause::Other);
    }

    #[test]
    fn a_port_where_nobody_listens_is_told_as_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let url = Url::parse(&format!("rtsp://127.0.0.1:{port}/x")).expect("valid");
        assert_eq!(probe(&url), Some(LossCause::Refused));
        let url = Url::parse("rtsp://nobody.invalid/x").expect("valid");
        assert_eq!(probe(&url), Some(LossCause::Unreachable));
    }

    #[test]
    fn a_name_server_that_does_not_answer_is_not_waited_for_and_takes_no_more_than_a_few_threads() {
        let (asking, started) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(std::sync::Mutex::new(hang));
        for _ in 0..3 * MAX_ASKING {
            let (hang, started) = (Arc::clone(&hang), Arc::clone(&started));
            let answer = within(Duration::from_millis(1), &asking, move || {
                started.fetch_add(1, Ordering::SeqCst);
                drop(hang.lock().map(|hang| hang.recv()));
            });
            assert_eq!(answer, None);
        }
        assert!(started.load(Ordering::SeqCst) <= MAX_ASKING);
        drop(release);
        // Once they are back, others may ask.
        while within(Duration::from_secs(60), &asking, || 7) != Some(7) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_missing_element_names_the_command_that_brings_it() {
        let broken = of_missing_element("avdec_h264");
        assert!(
            broken
                .message
                .contains("apt-get install gstreamer1.0-libav")
        );
    }
}
