//! Reads and drops the rest of a refused request's body before the answer.
//!
//! A client that is still sending when its connection is closed sees a broken pipe and often not
//! the refusal. Owns the body of a request together with its handler. At most [`MAX_DISCARDED`]
//! bytes are dropped, within the body's deadlines; beyond that the connection breaks.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use hyper::body::{Buf as _, Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};

/// Most bytes dropped of one body: a multiple of the largest that a route takes.
const MAX_DISCARDED: usize = 64 << 20;

/// A body shared by its handler and the connection.
pub(crate) struct HeldBody<B>(Arc<Mutex<B>>);

impl<B> Clone for HeldBody<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: HttpBody + Unpin> HeldBody<B> {
    pub(crate) fn new(body: B) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    fn lock(&self) -> MutexGuard<'_, B> {
        self.0.lock()
    }

    /// Reads the rest of the body and drops it.
    pub(crate) async fn discard(&self) {
        let mut left = MAX_DISCARDED;
        loop {
            let next = poll_fn(|context| Pin::new(&mut *self.lock()).poll_frame(context)).await;
            let Some(Ok(frame)) = next else {
                return;
            };
            let bytes = frame.data_ref().map_or(0, |data| data.remaining());
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }
}

impl<B: HttpBody + Unpin> HttpBody for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut *self.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().size_hint()
    }
}
