//! A source under test with its frames and notices.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{LossCause, RtspTransport, SourceSpec};
use watchkeeper_runtime::capture::mailbox::{FrameReceiver, Recv};
use watchkeeper_runtime::capture::notices::{self, NoticeReceiver, SourceNotice};
use watchkeeper_runtime::capture::source::{Deps, Source, SourceHandle};
use watchkeeper_vision::frame::Frame;

/// Pause between two looks for a notice.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running source with one subscriber.
pub struct Watched {
    pub handle: SourceHandle,
    /// Frames of the subscriber.
    pub frames: FrameReceiver,
    /// Notices of the source.
    pub notices: NoticeReceiver,
    /// Longest wait for a frame or a notice.
    pub timeout: Duration,
}

impl Watched {
    /// Opens the source at this address, RTSP over TCP.
    ///
    /// # Errors
    /// Never for well-formed addresses.
    pub fn start(uri: &str) -> anyhow::Result<Self> {
        Self::start_over(uri, RtspTransport::Tcp)
    }

    /// Opens the source at this address over this transport.
    ///
    /// # Errors
    /// Never for well-formed addresses.
    pub fn start_over(uri: &str, transport: RtspTransport) -> anyhow::Result<Self> {
        Ok(Self::open(SourceSpec {
            rtsp_transport: transport,
            ..spec(uri)?
        }))
    }

    /// Opens the source at this address with any certificate, RTSP over TCP.
    ///
    /// # Errors
    /// Never for well-formed addresses.
    pub fn start_trusting(uri: &str) -> anyhow::Result<Self> {
        Ok(Self::open(SourceSpec {
            tls_verify: false,
            ..spec(uri)?
        }))
    }

    /// Opens the source of `spec`.
    #[must_use]
    pub fn open(spec: SourceSpec) -> Self {
        let (teller, notices) = notices::channel();
        let deps = Deps {
            notices: Some(teller),
            ..Deps::default()
        };
        let handle = Source::spawn(spec, deps);
        let frames = handle.subscribe();
        Self {
            handle,
            frames,
            notices,
            timeout: Duration::from_secs(30),
        }
    }

    /// Waits for the next frame.
    ///
    /// # Errors
    /// If none arrives.
    pub fn frame(&self) -> anyhow::Result<Frame> {
        match self.frames.recv(self.timeout) {
            Recv::Frame(frame) => Ok(frame),
            other => {
                let state = self.handle.status().state;
                bail!("no frame but {other:?}, source is {state:?}")
            }
        }
    }

    /// Waits for the notice that the source was lost; returns the cause.
    ///
    /// # Errors
    /// If none arrives, or another notice.
    pub fn lost(&self) -> anyhow::Result<(LossCause, String)> {
        match self.notice()? {
            SourceNotice::Lost { cause, message, .. } => Ok((cause, message)),
            other => bail!("not lost but {other:?}"),
        }
    }

    /// Waits for the notice that the source is back; returns how long it was lost.
    ///
    /// # Errors
    /// If none arrives, or another notice than one about a further cause.
    pub fn back(&self) -> anyhow::Result<Duration> {
        loop {
            match self.notice()? {
                SourceNotice::Back { lasted, .. } => return Ok(lasted),
                SourceNotice::Lost { .. } => {}
                other => bail!("not back but {other:?}"),
            }
        }
    }

    fn notice(&self) -> anyhow::Result<SourceNotice> {
        let until = Instant::now() + self.timeout;
        loop {
            if let Some(noticed) = self.notices.take() {
                return Ok(noticed.notice);
            }
            ensure!(Instant::now() < until, "the source said nothing");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Specifies a source at this address with default settings.
///
/// # Errors
/// Never for well-formed addresses.
pub fn spec(uri: &str) -> anyhow::Result<SourceSpec> {
    Ok(SourceSpec::new(
        SourceId::new("cam").context("name of the source")?,
        uri,
    ))
}
