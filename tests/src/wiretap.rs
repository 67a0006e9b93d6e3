//! Tap on the runtime's socket that forwards requests and records them.
//!
//! [`Wiretap::asked`] holds a request before the runtime sees its first byte, so a missing request
//! was never sent. The tap answers assessments itself: several agents may share the runtime, and
//! each has to find its events unassessed.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use serde_json::Value;

/// Tap that listens until it is dropped.
#[derive(Debug)]
pub struct Wiretap {
    at: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    closed: AtomicBool,
    asked: Mutex<Vec<String>>,
    assessments: Mutex<Vec<Value>>,
    open: Mutex<Vec<UnixStream>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wiretap {
    /// Listens at `at` and forwards everything to the socket `to`.
    ///
    /// # Errors
    /// If the socket can't be bound.
    pub fn start(at: &Path, to: &Path) -> anyhow::Result<Self> {
        let listener = UnixListener::bind(at).with_context(|| at.display().to_string())?;
        let shared = Arc::<Shared>::default();
        let (for_thread, to) = (Arc::clone(&shared), to.to_path_buf());
        let thread = std::thread::spawn(move || {
            let mut clients = Vec::new();
            for client in listener.incoming().map_while(Result::ok) {
                if for_thread.closed.load(Ordering::SeqCst) {
                    break;
                }
                let (shared, to) = (Arc::clone(&for_thread), to.clone());
                // If the runtime is down, the client's connection is closed, as without a tap.
                clients.push(std::thread::spawn(move || {
                    drop(pass_on(client, &to, &shared))
                }));
            }
            for client in clients {
                drop(client.join());
            }
        });
        Ok(Self {
            at: at.to_path_buf(),
            shared,
            thread: Some(thread),
        })
    }

    /// Returns the requests so far in order, such as `GET /v1/health`.
    pub fn asked(&self) -> Vec<String> {
        lock(&self.shared.asked).clone()
    }

    /// Returns the bodies of the assessments so far, in order.
    pub fn assessments(&self) -> Vec<Value> {
        lock(&self.shared.assessments).clone()
    }
}

impl Drop for Wiretap {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for stream in lock(&self.shared.open).drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
        // Wakes the thread that accepts clients. If its socket was already removed, it can't be
        // woken and is left alone.
        let is_woken = UnixStream::connect(&self.at).is_ok();
        if let Some(thread) = self.thread.take()
            && is_woken
        {
            drop(thread.join());
        }
    }
}

fn pass_on(mut client: UnixStream, to: &Path, shared: &Shared) -> io::Result<()> {
    let mut runtime = UnixStream::connect(to)?;
    {
        let mut open = lock(&shared.open);
        open.push(client.try_clone()?);
        open.push(runtime.try_clone()?);
        if shared.closed.load(Ordering::SeqCst) {
            return Ok(());
        }
    }
    let (mut answers, mut back) = (runtime.try_clone()?, client.try_clone()?);
    let answering = std::thread::spawn(move || {
        drop(io::copy(&mut answers, &mut back));
        drop(back.shutdown(Shutdown::Both));
    });
    let mut own_answers = client.try_clone()?;
    let mut heads = Heads::default();
    let mut bytes = [0; 16 << 10];
    loop {
        let came = client.read(&mut bytes).unwrap_or(0);
        let Some(came) = bytes.get(..came).filter(|came| !came.is_empty()) else {
            break;
        };
        let asked = heads.take(came);
        lock(&shared.asked).extend(asked);
        if heads.is_assessment {
            if let Some(body) = heads.take_body() {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                lock(&shared.assessments).push(body);
                own_answers.write_all(RECORDED)?;
            }
            continue;
        }
        if runtime.write_all(came).is_err() {
            break;
        }
    }
    drop(runtime.shutdown(Shutdown::Both));
    drop(answering.join());
    Ok(())
}

/// Answer to an assessment.
const RECORDED: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\
                          content-length: 2\r\n\r\n{}";

/// Whether a request, such as `GET /v1/health`, records an assessment.
pub fn is_assessment(request: &str) -> bool {
    request.starts_with("POST /v1/events/") && request.ends_with("/assessments")
}

/// Finds the requests in the bytes of an HTTP/1.1 client; bodies have the length of their
/// `Content-Length`.
#[derive(Debug, Default)]
struct Heads {
    head: Vec<u8>,
    body: usize,
    /// Whether the last request records an assessment, whose body is kept.
    is_assessment: bool,
    kept: Vec<u8>,
}

impl Heads {
    fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for byte in bytes {
            if self.body > 0 {
                self.body -= 1;
                if self.is_assessment {
                    self.kept.push(*byte);
                }
                continue;
            }
            self.head.push(*byte);
            if self.head.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.head).into_owned();
                self.head.clear();
                let mut lines = head.lines();
                let first = lines.next().unwrap_or_default();
                let request = first.rsplit_once(' ').map_or(first, |(request, _)| request);
                found.push(request.to_owned());
                self.is_assessment = is_assessment(request);
                let length = lines.filter_map(|line| line.split_once(':'));
                let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
                let mut length = length.filter_map(|(_, value)| value.trim().parse().ok());
                self.body = length.next_back().unwrap_or(0);
            }
        }
        found
    }

    /// Takes the body of an assessment, once all of it arrived, which ends that request.
    fn take_body(&mut self) -> Option<Vec<u8>> {
        let is_whole = self.body == 0 && !self.kept.is_empty();
        self.is_assessment &= !is_whole;
        is_whole.then(|| std::mem::take(&mut self.kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tap_finds_requests_at_any_cut_and_not_in_bodies() {
        let sent = b"GET /v1/a HTTP/1.1\r\nhost: x\r\n\r\nPOST /v1/b?c=1 HTTP/1.1\r\nContent-Length: 24\r\n\r\nDELETE /v1/d HTTP/1.1\r\n\nGET /v1/e HTTP/1.1\r\n\r\n";
        for size in 1..sent.len() {
            let mut heads = Heads::default();
            let found: Vec<String> = sent.chunks(size).flat_map(|c| heads.take(c)).collect();
            assert_eq!(found, ["GET /v1/a", "POST /v1/b?c=1", "GET /v1/e"]);
        }
    }

    #[test]
    fn body_of_an_assessment_is_kept_at_any_cut() {
        let sent = b"POST /v1/events/7/assessments HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
        for size in 1..=sent.len() {
            let mut heads = Heads::default();
            let bodies = sent.chunks(size).filter_map(|chunk| {
                heads.take(chunk);
                heads.take_body()
            });
            assert_eq!(bodies.collect::<Vec<_>>(), [b"{}"]);
        }
    }
}
