//! Timeouts of request bodies.
//!
//! Owns the body as a handler reads it. A reader waits at most [`IDLE`] for a byte and [`WHOLE`]
//! for the end, and longer by what came at [`MIN_BYTES_PER_S`], then gets [`Stalled`]. A client
//! that stops sending holds no place longer than that.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::HttpBody;
use hyper::body::{Buf as _, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// Longest pause within a body.
pub const IDLE: Duration = Duration::from_secs(10);

/// Longest time for a body of few bytes.
pub const WHOLE: Duration = Duration::from_secs(135);

/// Slowest line over which a large body still comes whole: 2 Mbit/s.
const MIN_BYTES_PER_S: u64 = 250_000;

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
            if let Some(Ok(frame)) = &came
                && let Some(until) = &mut this.until
            {
                *until += time_for(frame.data_ref().map_or(0, |data| data.remaining()));
            }
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

/// The time that bytes of a body take over the slowest line.
fn time_for(bytes: usize) -> Duration {
    Duration::from_micros(bytes as u64 * 1_000_000 / MIN_BYTES_PER_S)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use hyper::body::Bytes;

    use super::*;

    /// A body of which nothing has come at `None`.
    struct Scripted(VecDeque<Option<Bytes>>);

    impl HttpBody for Scripted {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            match self.0.pop_front().flatten() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test]
    async fn deadline_of_a_body_moves_with_what_came() {
        let second = Bytes::from(vec![0; 250_000]);
        let body = Scripted(VecDeque::from([None, Some(second)]));
        let mut timed = TimedBody::new(body, BodyDeadlines::default());
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut timed).poll_frame(&mut context).is_pending());
        let before = timed.until;
        assert!(Pin::new(&mut timed).poll_frame(&mut context).is_ready());
        assert_eq!(timed.until, before.map(|at| at + Duration::from_secs(1)));
    }
}
