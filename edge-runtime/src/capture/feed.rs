//! What a source is opened into.
//!
//! Owns the seam between the source's thread and the ways of getting pictures. Invariant: a feed that is dropped has
//! released everything it opened.

use std::time::{Duration, Instant};

use watchkeeper_contract::source::LossCause;
use watchkeeper_vision::frame::Picture;

/// A picture as it comes out of a feed.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    pub(super) picture: Picture,
    /// Time in the feed's own clock.
    pub(super) pts: Option<Duration>,
    /// Nominal frames per second.
    pub(super) fps: Option<f64>,
}

/// Why a feed can't be opened or broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) cause: LossCause,
    /// One sentence; may still hold credentials.
    pub(super) message: String,
    /// Whether another attempt could succeed.
    pub(super) heals: bool,
}

/// What came out of a feed.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Picture(Raw),
    /// The stream is set up; said once.
    Connected,
    /// Nothing came in time.
    Nothing,
    End,
    Broken(Broken),
}

/// An opened source.
pub(super) trait Feed: Send {
    /// The next thing that happens; waits up to `wait`.
    fn next(&mut self, wait: Duration) -> Step;

    /// Whether this is a recording: it ends regularly, and its times are its own.
    fn is_recording(&self) -> bool;
}

impl Feed for Box<dyn Feed> {
    fn next(&mut self, wait: Duration) -> Step {
        (**self).next(wait)
    }

    fn is_recording(&self) -> bool {
        (**self).is_recording()
    }
}

/// Slows a feed down to the pace of its own clock.
pub(super) struct Paced<F> {
    feed: F,
    start: Option<(Instant, Duration)>,
    held: Option<(Instant, Raw)>,
}

impl<F: Feed> Paced<F> {
    pub(super) fn new(feed: F) -> Self {
        Self {
            feed,
            start: None,
            held: None,
        }
    }
}

impl<F: Feed> Feed for Paced<F> {
    fn next(&mut self, wait: Duration) -> Step {
        let (due, raw) = match self.held.take() {
            Some(held) => held,
            None => match self.feed.next(wait) {
                Step::Picture(raw) => {
                    let pts = raw.pts.unwrap_or_default();
                    let (began, first) = *self.start.get_or_insert((Instant::now(), pts));
                    (began + pts.saturating_sub(first), raw)
                }
                other => return other,
            },
        };
        let early = due.saturating_duration_since(Instant::now());
        std::thread::sleep(early.min(wait));
        if early > wait {
            self.held = Some((due, raw));
            return Step::Nothing;
        }
        Step::Picture(raw)
    }

    fn is_recording(&self) -> bool {
        self.feed.is_recording()
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::time::{Duration, Instant};

    use watchkeeper_contract::id::SourceId;
    use watchkeeper_contract::time::{TimeQuality, Wall};

    use watchkeeper_vision::frame::{Frame, FrameId, Picture};

    /// A grey picture.
    pub(crate) fn grey(width: u32, height: u32, luma: u8) -> Picture {
        Picture::rgb(width, height, vec![luma; (width * height * 3) as usize])
    }

    /// A frame with this number.
    pub(crate) fn frame(seq: u64) -> Frame {
        Frame {
            id: FrameId {
                source: SourceId::new("cam").expect("valid name"),
                seq,
            },
            pts: Duration::from_millis(seq * 100),
            arrived: Instant::now(),
            wall: Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            },
            fps: None,
            recorded: false,
            picture: grey(2, 2, 0),
        }
    }
}
