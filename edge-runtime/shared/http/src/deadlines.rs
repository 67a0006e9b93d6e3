//! Timeouts of request bodies.
//!
//! Owns the body as a handler reads it. A reader waits at most [`IDLE`] for a byte and [`WHOLE`]
//! for the end, then gets [`Stalled`]. A client that stops sending holds no place longer than that.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::HttpBody;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// Longest pause within a body.
pub const IDLE: Duration = Duration::from_secs(10);

/// Longest time for a whole body: 32 MiB over a line of 2 Mbit/s.
pub const WHOLE: Duration = Duration::from_secs(135);

/// A body that did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body did not come in time")]
pub struct Stalled;

/// A body with deadlines.
pub(crate) struct TimedBody<B> {
    body: B,
    deadlines: BodyDeadlines,
    /// Deadline of the whole body; set when it is first read.
    until: Option<Instant>,
    /// Runs while nothing comes.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Timeouts of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyDeadlines {
    pub(crate) idle: Duration,
    pub(crate) whole: Duration,
}

impl Default for BodyDeadlines {
    fn default() -> Self {
        Self {
            idle: IDLE,
            whole: WHOLE,
        }
    }
}

impl<B> TimedBody<B> {
    pub(crate) const fn new(body: B, deadlines: BodyDeadlines) -> Self {
        Self {
            body,
            deadlines,
            until: None,
            timer: None,
        }
    }
}

impl<B> HttpBody for TimedBody<B>
where
    B: HttpBody + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(came) = Pin::new(&mut this.body).poll_frame(context) {
            this.timer = None;
            return Poll::Ready(came.map(|frame| frame.map_err(Into::into)));
        }
        let now = Instant::now();
        let until = *this.until.get_or_insert_with(|| now + this.deadlines.whole);
        let timer = this.timer.get_or_insert_with(|| {
            let at = until.min(now + this.deadlines.idle);
            Box::pin(sleep_until(at))
        });
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Some(Err(Stalled.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
