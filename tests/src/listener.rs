//! Server of a test on a free port, with a thread for each client.
//!
//! Once it is dropped, nothing listens, no client is served and every thread has ended. For that,
//! `serve` has to check [`Closed`] wherever it would wait.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;

/// Flag that is set once the server is being dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closed(Arc<AtomicBool>);

impl Closed {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    closed: Closed,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Serves each client on a free port of 127.0.0.1 with `serve`. Its errors are ignored, because
    /// a client may disconnect.
    ///
    /// # Errors
    /// If no port is free.
    pub(crate) fn start(
        serve: impl Fn(TcpStream, &Closed) -> anyhow::Result<()> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), serve)
    }

    /// Serves each client at this address with `serve`.
    ///
    /// # Errors
    /// If the port is taken.
    pub(crate) fn start_at(
        address: SocketAddr,
        serve: impl Fn(TcpStream, &Closed) -> anyhow::Result<()> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).context("no free port")?;
        let address = listener.local_addr()?;
        let (closed, serve) = (Closed::default(), Arc::new(serve));
        let for_thread = closed.clone();
        let thread = std::thread::spawn(move || {
            let mut clients = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if for_thread.is_set() {
                    break;
                }
                let (serve, closed) = (Arc::clone(&serve), for_thread.clone());
                clients.push(std::thread::spawn(move || drop(serve(stream, &closed))));
            }
            for client in clients {
                drop(client.join());
            }
        });
        Ok(Self {
            address,
            closed,
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.closed.0.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts clients.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
