//! A window that shows annotated pictures as they come.
//!
//! - The window is a separate process: this program, started by [`Window::open`], ended with it.
//!   Display libraries exit or crash when the screen goes away; the runtime must not.
//! - The process reads pictures from standard input and writes why it ended to standard output.
//! - A slow screen never slows the pipeline: a picture is dropped while the queue is full.
//! - The screen is the one that the session names; none is guessed.
//! - The end of a window is noticed at once, not with the next picture.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::ObjectExt;
use image::RgbImage;

use super::sink::{Sink, SinkError, init, make, missing_element};

/// Max pictures that wait for the window's process.
const QUEUE_SIZE: usize = 2;
/// Rate that is announced to the screen; pictures are shown when they come.
const FPS: f64 = 25.0;
/// This program, even if its file was replaced or deleted.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// Reason that the process writes when a user closed the window; any other text is an error.
const CLOSED_REASON: &str = "closed";
/// Max bytes of a reason.
const MAX_REASON_BYTES: u64 = 4096;

/// Error of showing pictures.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// The session names no screen.
    #[error("there is no screen: neither WAYLAND_DISPLAY nor DISPLAY is set")]
    NoScreen,
    /// The window's process cannot be started.
    #[error("the window's process can't be started: {0}")]
    Start(std::io::Error),
    /// A user closed the window.
    #[error("the window is closed")]
    Closed,
    /// The process is gone; the callback of [`Window::open`] has the reason.
    #[error("the window is gone")]
    Gone,
    /// The size cannot be parsed.
    #[error("{0:?} is not a size; use WIDTHxHEIGHT, such as 640x480")]
    Size(String),
    /// The screen cannot be used.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Size of a window in pixels, written `640x480`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize(pub [u32; 2]);

impl FromStr for WindowSize {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let wrong = || WindowError::Size(text.to_owned());
        let (width, height) = text.split_once('x').ok_or_else(wrong)?;
        let side = |text: &str| text.parse().ok().filter(|n| (1..=16_384).contains(n));
        match (side(width), side(height)) {
            (Some(width), Some(height)) => Ok(Self([width, height])),
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for WindowSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.0[0], self.0[1])
    }
}

/// Reason of a window's end, other than a drop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowEnd {
    /// A user closed it.
    Closed,
    /// The window could not be opened, or its screen went away; one sentence.
    Failed(String),
}

/// An open window, as the pipeline sees it. Dropping it closes it.
#[derive(Debug)]
pub struct Window {
    size: [u32; 2],
    process: Child,
    pictures: SyncSender<RgbImage>,
    shared: Arc<SharedState>,
    dropped: u64,
}

/// State of a window that its threads share.
#[derive(Debug, Default)]
struct SharedState {
    /// The pipeline has dropped the window.
    is_dropped: AtomicBool,
    /// The process has ended.
    is_finished: AtomicBool,
}

impl Window {
    /// Opens a window for pictures of this size.
    ///
    /// `ended` is called once, on its own thread, if the window ends before it is dropped.
    ///
    /// # Errors
    /// [`WindowError`], such as without a screen.
    pub fn open(
        size: [u32; 2],
        ended: impl FnOnce(WindowEnd) + Send + 'static,
    ) -> Result<Self, WindowError> {
        screen_elements()?;
        let process = Command::new(OWN_PROGRAM)
            .arg("--window")
            .arg(WindowSize(size).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(WindowError::Start)?;
        let (sender, pictures) = sync_channel(QUEUE_SIZE);
        let mut window = Self {
            size,
            pictures: sender,
            shared: Arc::default(),
            dropped: 0,
            process,
        };
        let input = window.process.stdin.take().ok_or(WindowError::Gone)?;
        let output = window.process.stdout.take().ok_or(WindowError::Gone)?;
        let thread = || std::thread::Builder::new().name("window".to_owned());
        thread()
            .spawn(move || write_pictures(&pictures, input))
            .map_err(WindowError::Start)?;
        let shared = Arc::clone(&window.shared);
        thread()
            .spawn(move || {
                let end = wait_for_end(output);
                shared.is_finished.store(true, Ordering::Release);
                if !shared.is_dropped.load(Ordering::Acquire) {
                    ended(end);
                }
            })
            .map_err(WindowError::Start)?;
        Ok(window)
    }

    /// Whether pictures of this size fit.
    pub fn fits(&self, size: [u32; 2]) -> bool {
        self.size == size
    }

    /// Whether the process has ended.
    pub fn is_finished(&self) -> bool {
        self.shared.is_finished.load(Ordering::Acquire)
    }

    /// Queues a picture; drops it while the queue is full.
    ///
    /// # Errors
    /// [`WindowError::Gone`] if the window has ended or the size differs.
    pub fn show(&mut self, picture: RgbImage) -> Result<(), WindowError> {
        if self.is_finished() || !self.fits([picture.width(), picture.height()]) {
            return Err(WindowError::Gone);
        }
        match self.pictures.try_send(picture) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.dropped += 1;
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Err(WindowError::Gone),
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        tracing::debug!(dropped = self.dropped, "window closed");
        self.shared.is_dropped.store(true, Ordering::Release);
        // If the process is gone already, the threads that serve it end by themselves.
        if self.process.kill().is_ok() {
            drop(self.process.wait());
        }
    }
}

/// Writes pictures to the process until the window is dropped or the process is gone.
fn write_pictures(pictures: &Receiver<RgbImage>, mut input: ChildStdin) {
    while let Ok(picture) = pictures.recv() {
        if input.write_all(picture.as_raw()).is_err() {
            return;
        }
    }
}

/// Waits until the process ends and returns the reason.
fn wait_for_end(output: ChildStdout) -> WindowEnd {
    let mut text = Vec::new();
    // An unreadable reason counts as none.
    output.take(MAX_REASON_BYTES).read_to_end(&mut text).ok();
    match String::from_utf8_lossy(&text).trim() {
        CLOSED_REASON => WindowEnd::Closed,
        "" => WindowEnd::Failed("the window's process died".to_owned()),
        reason => WindowEnd::Failed(reason.to_owned()),
    }
}

/// Runs the window's own process: shows pictures from standard input until it ends.
///
/// An earlier end is reported on standard output.
///
/// # Errors
/// [`WindowError`], also when a user closes the window.
pub fn serve(size: WindowSize) -> Result<(), WindowError> {
    let served = run_window(size);
    if let Err(error) = &served {
        let reason = match error {
            WindowError::Closed => CLOSED_REASON.to_owned(),
            other => other.to_string(),
        };
        // The parent may be gone.
        writeln!(std::io::stdout(), "{reason}").ok();
    }
    served
}

fn run_window(size: WindowSize) -> Result<(), WindowError> {
    let sink = Arc::new(open_sink(size.0)?);
    let (ended, end) = sync_channel(2);
    let feeder = (Arc::clone(&sink), ended.clone());
    let start = |run: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().spawn(run);
        thread.map(|_| ()).map_err(WindowError::Start)
    };
    start(Box::new(move || {
        let (sink, ended) = feeder;
        ended.send(feed_pictures(size, &sink)).ok();
    }))?;
    // Without this thread a closed window would go unnoticed until the next picture.
    start(Box::new(move || {
        ended.send(Err(sink.failure())).ok();
    }))?;
    end.recv().unwrap_or(Ok(())).map_err(|error| match error {
        SinkError::Gone { .. } => WindowError::Closed,
        other => other.into(),
    })
}

/// Shows pictures from standard input.
fn feed_pictures(size: WindowSize, sink: &Sink) -> Result<(), SinkError> {
    let interval = Duration::from_secs_f64(1.0 / FPS);
    let mut input = std::io::stdin().lock();
    let mut pts = Duration::ZERO;
    loop {
        let mut picture = RgbImage::new(size.0[0], size.0[1]);
        if input.read_exact(&mut picture).is_err() {
            return Ok(());
        }
        sink.push(picture, pts, interval)?;
        pts += interval;
    }
}

/// Returns the elements that draw on the session's screen, the best first.
fn screen_elements() -> Result<&'static [&'static str], WindowError> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("WAYLAND_DISPLAY") {
        Ok(&["waylandsink", "nv3dsink"])
    } else if is_set("DISPLAY") {
        Ok(&["nv3dsink", "xvimagesink", "ximagesink"])
    } else {
        Err(WindowError::NoScreen)
    }
}

fn open_sink(size: [u32; 2]) -> Result<Sink, WindowError> {
    let screens = screen_elements()?;
    init()?;
    let mut failed = None;
    for name in screens {
        if gst::ElementFactory::find(name).is_none() {
            continue;
        }
        let screen = make(name)?;
        screen.set_property("sync", false);
        // An installed element may lack support, such as XVideo on a virtual screen.
        match Sink::open(size, FPS, &[screen], true, "showing the window") {
            Ok(sink) => return Ok(sink),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed
        .unwrap_or_else(|| missing_element(screens.last().copied().unwrap_or("ximagesink")))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_round_trips_as_text() {
        assert_eq!(
            WindowSize([640, 480])
                .to_string()
                .parse::<WindowSize>()
                .ok(),
            Some(WindowSize([640, 480]))
        );
        for wrong in ["", "640", "0x480", "640x", "99999x1", "-1x2"] {
            assert!(wrong.parse::<WindowSize>().is_err(), "{wrong}");
        }
    }
}
