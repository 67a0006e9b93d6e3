//! Interface between a source's thread and the origins of pictures.
//!
//! - A dropped feed has released everything that it opened.

use std::time::{Duration, Instant};

use super::privacy::Unmasked;
use watchkeeper_contract::source::{DecoderStatus, LossCause};

/// A picture and its times as the origin delivers them.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    pub(super) picture: Unmasked,
    /// Time on the feed's own clock.
    pub(super) pts: Option<Duration>,
    /// Nominal frames per second.
    pub(super) fps: Option<f64>,
    /// Whether the decoder reported damage that the picture may show.
    pub(super) is_damaged: bool,
}

/// Error of opening or reading a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FeedError {
    pub(super) cause: LossCause,
    /// One sentence; may contain credentials.
    pub(super) message: String,
    /// Whether another attempt could succeed.
    pub(super) is_retryable: bool,
}

/// Counts of what was lost since the feed was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Packets that the network lost.
    pub(super) packets: u64,
    /// Frames that the decoder took and gave no picture of.
    pub(super) undecoded: u64,
    /// Pictures that newer ones replaced before [`Feed::next`] took them, at least.
    pub(super) replaced: u64,
}

/// Result of [`Feed::next`].
#[derive(Debug, Clone)]
pub(super) enum Step {
    Picture(Raw),
    /// The stream is set up; returned once.
    Connected,
    /// Nothing arrived in time.
    Nothing,
    End,
    Broken(FeedError),
    /// A part of the recording can't be read; the next step is another one.
    LeftOut(FeedError),
    /// The hardware decoder failed; another decoder may succeed.
    DecoderFailed(FeedError),
}

/// An opened source.
pub(super) trait Feed: Send {
    /// Returns the next step; waits at most `wait`.
    fn next(&mut self, wait: Duration) -> Step;

    /// Whether this is a recording: it ends regularly and has its own times.
    fn is_recording(&self) -> bool;

    /// Returns what decodes the stream, once that is known.
    fn decoder(&self) -> Option<DecoderStatus> {
        None
    }

    /// Returns the error of a hardware decoder that takes frames and gives none.
    fn silent_decoder(&self) -> Option<FeedError> {
        None
    }

    /// Returns what was lost until now; a count may fall where a late picture is given after all.
    fn losses(&self) -> Losses {
        Losses::default()
    }
}

/// Slows a feed down to the pace of its own clock.
pub(super) struct Paced {
    feed: Box<dyn Feed>,
    start: Option<(Instant, Duration)>,
    held: Option<(Instant, Raw)>,
}

impl Paced {
    pub(super) fn new(feed: Box<dyn Feed>) -> Self {
        Self {
            feed,
            start: None,
            held: None,
        }
    }
}

impl Feed for Paced {
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

    fn decoder(&self) -> Option<DecoderStatus> {
        self.feed.decoder()
    }

    fn silent_decoder(&self) -> Option<FeedError> {
        self.feed.silent_decoder()
    }

    fn losses(&self) -> Losses {
        self.feed.losses()
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::time::{Duration, Instant};

    use watchkeeper_contract::id::SourceId;
    use watchkeeper_contract::time::{TimeQuality, Wall};

    use watchkeeper_vision::frame::{Frame, FrameId, Picture};

    pub(crate) fn grey(width: u32, height: u32, luma: u8) -> Picture {
        Picture::rgb(width, height, vec![luma; (width * height * 3) as usize])
    }

    /// Makes a frame with this number.
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
            is_damaged: false,
            picture: grey(2, 2, 0),
        }
    }
}
