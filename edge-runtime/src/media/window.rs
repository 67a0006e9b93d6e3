//! A window that shows annotated pictures as they come.
//!
//! The window is a process of its own: this program, started again by [`Window::open`] and ended with it. Libraries that draw
//! on a screen end their process when the screen goes away, and some crash on screens they don't like; the runtime must go on
//! watching. Its process reads pictures from its standard input and says on its standard output why it ends.
//!
//! Invariants: a slow screen never slows the pipeline, a picture that finds the last one still waiting is left out;
//! a screen is never guessed, it is the one the session names; that a window is gone is known at once, not with the next picture.

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

use super::sink::{Sink, SinkError, make, missing, start};

/// Pictures that may wait for the process that shows them.
const WAITING: usize = 2;
/// Rate that is announced to the screen; pictures are shown when they come.
const FPS: f64 = 25.0;
/// This program, whatever has become of its file since it started.
const OURSELVES: &str = "/proc/self/exe";
/// What the window's process says when a person closed it; anything else is the reason why it failed.
const CLOSED: &str = "closed";
/// Longest reason that is read.
const REASON_BYTES: u64 = 4096;

/// Why pictures can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// There is no screen.
    #[error("there is no screen: neither WAYLAND_DISPLAY nor DISPLAY is set")]
    NoScreen,
    /// The process that shows the window can't be started.
    #[error("the window's process can't be started: {0}")]
    Start(std::io::Error),
    /// A person closed the window.
    #[error("the window is closed")]
    Closed,
    /// Its process is gone; whoever opened the window was told why.
    #[error("the window is gone")]
    Gone,
    /// A size that is none.
    #[error("{0:?} is not a size, write WIDTHxHEIGHT")]
    Size(String),
    /// The screen can't be used.
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

/// How a window came to its end other than by being dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowEnd {
    /// A person closed it.
    Closed,
    /// It could not be opened, or its screen went away; the sentence says why.
    Failed(String),
}

/// An open window, as the pipeline sees it. Dropping it closes it.
#[derive(Debug)]
pub struct Window {
    size: [u32; 2],
    process: Child,
    pictures: SyncSender<RgbImage>,
    life: Arc<Life>,
    left_out: u64,
}

/// What both sides know of a window's end.
#[derive(Debug, Default)]
struct Life {
    /// The pipeline has no use for it any more.
    is_dropped: AtomicBool,
    /// Its process has ended.
    is_finished: AtomicBool,
}

impl Window {
    /// Opens a window for pictures of this size. `ended` is called once, from a thread of its own, when the window ends before
    /// it is dropped.
    ///
    /// # Errors
    /// [`WindowError`], such as when there is no screen.
    pub fn open(
        size: [u32; 2],
        ended: impl FnOnce(WindowEnd) + Send + 'static,
    ) -> Result<Self, WindowError> {
        screens()?;
        let process = Command::new(OURSELVES)
            .arg("--window")
            .arg(WindowSize(size).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(WindowError::Start)?;
        let (sender, pictures) = sync_channel(WAITING);
        let mut window = Self {
            size,
            pictures: sender,
            life: Arc::default(),
            left_out: 0,
            process,
        };
        let input = window.process.stdin.take().ok_or(WindowError::Gone)?;
        let said = window.process.stdout.take().ok_or(WindowError::Gone)?;
        let thread = || std::thread::Builder::new().name("window".to_owned());
        thread()
            .spawn(move || hand_over(&pictures, input))
            .map_err(WindowError::Start)?;
        let life = Arc::clone(&window.life);
        thread()
            .spawn(move || {
                let end = listen(said);
                life.is_finished.store(true, Ordering::Release);
                if !life.is_dropped.load(Ordering::Acquire) {
                    ended(end);
                }
            })
            .map_err(WindowError::Start)?;
        Ok(window)
    }

    /// Whether pictures of this size fit.
    #[must_use]
    pub fn fits(&self, size: [u32; 2]) -> bool {
        self.size == size
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.life.is_finished.load(Ordering::Acquire)
    }

    /// Shows a picture.
    ///
    /// # Errors
    /// [`WindowError::Gone`].
    pub fn show(&mut self, picture: RgbImage) -> Result<(), WindowError> {
        if self.is_finished() || !self.fits([picture.width(), picture.height()]) {
            return Err(WindowError::Gone);
        }
        match self.pictures.try_send(picture) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.left_out += 1;
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Err(WindowError::Gone),
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        tracing::debug!(left_out = self.left_out, "window closed");
        self.life.is_dropped.store(true, Ordering::Release);
        // It may be gone already; then the threads that serve it end by themselves too.
        if self.process.kill().is_ok() {
            drop(self.process.wait());
        }
    }
}

/// Ends when the pipeline drops the window, or when the process is gone.
fn hand_over(pictures: &Receiver<RgbImage>, mut input: ChildStdin) {
    while let Ok(picture) = pictures.recv() {
        if input.write_all(picture.as_raw()).is_err() {
            return;
        }
    }
}

/// Waits until the process ends, and reads why.
fn listen(said: ChildStdout) -> WindowEnd {
    let mut text = Vec::new();
    // What could not be read was not said.
    said.take(REASON_BYTES).read_to_end(&mut text).ok();
    match String::from_utf8_lossy(&text).trim() {
        CLOSED => WindowEnd::Closed,
        "" => WindowEnd::Failed("the window's process died".to_owned()),
        reason => WindowEnd::Failed(reason.to_owned()),
    }
}

/// The other half: shows the pictures that come on standard input until it ends, and says on standard output why it ended
/// before. Runs in the window's own process.
///
/// # Errors
/// [`WindowError`], also when a person closes the window.
pub fn serve(size: WindowSize) -> Result<(), WindowError> {
    let served = show_until_it_ends(size);
    if let Err(error) = &served {
        let reason = match error {
            WindowError::Closed => CLOSED.to_owned(),
            other => other.to_string(),
        };
        // Whoever opened the window may be gone; then there is nobody to tell.
        writeln!(std::io::stdout(), "{reason}").ok();
    }
    served
}

fn show_until_it_ends(size: WindowSize) -> Result<(), WindowError> {
    let sink = Arc::new(open_sink(size.0)?);
    let (ended, end) = sync_channel(2);
    let feeder = (Arc::clone(&sink), ended.clone());
    let start = |run: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().spawn(run);
        thread.map(|_| ()).map_err(WindowError::Start)
    };
    start(Box::new(move || {
        let (sink, ended) = feeder;
        ended.send(feed(size, &sink)).ok();
    }))?;
    // Without this one a closed window would go unnoticed until the next picture.
    start(Box::new(move || {
        ended.send(Err(sink.failure())).ok();
    }))?;
    end.recv().unwrap_or(Ok(())).map_err(|error| match error {
        SinkError::Gone { .. } => WindowError::Closed,
        other => other.into(),
    })
}

/// Pictures from standard input onto the screen.
fn feed(size: WindowSize, sink: &Sink) -> Result<(), SinkError> {
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

/// Elements that draw on the session's screen, the best first.
fn screens() -> Result<&'static [&'static str], WindowError> {
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
    let screens = screens()?;
    start()?;
    let mut failed = None;
    for name in screens {
        if gst::ElementFactory::find(name).is_none() {
            continue;
        }
        let screen = make(name)?;
        screen.set_property("sync", false);
        // An element that is there may still lack what it needs, as XVideo on a virtual screen.
        match Sink::open(size, FPS, &[screen], true, "showing the window") {
            Ok(sink) => return Ok(sink),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed
        .unwrap_or_else(|| missing(screens.last().copied().unwrap_or("ximagesink")))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_as_it_is_written() {
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
