//! HTTP server that records every request with its body: the receiver of a webhook.
//!
//! - Each request takes the next [`Answer`] of the script, then 200.
//! - Nothing listens once the server is dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::listener::{Closed, Listener};

/// Answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This status and body.
    Status(u16, String),
    /// Redirects with this status to this address.
    Redirect(u16, String),
    /// No answer while the server lives.
    Hang,
}

/// Request that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Path and query of the request.
    pub target: String,
    /// Headers by names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// Reads headers and body after the request line.
    pub(crate) fn read(line: &str, reader: &mut impl BufRead) -> anyhow::Result<Self> {
        let mut words = line.split(' ').map(str::to_owned);
        let (method, target) = (words.next(), words.next());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header")?;
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|l| l.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        Ok(Self {
            method: method.context("a method")?,
            target: target.context("a target")?,
            headers,
            body,
        })
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns a header, empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Answer>,
    requests: Vec<Request>,
}

/// HTTP server that runs until it is dropped.
#[derive(Debug)]
pub struct Hooks {
    shared: Arc<Mutex<State>>,
    listener: Listener,
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hooks {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts at `address`, for example where a dropped server has listened before.
    ///
    /// # Errors
    /// If the port is taken.
    pub fn start_at(address: SocketAddr) -> anyhow::Result<Self> {
        let shared = Arc::<Mutex<State>>::default();
        let for_clients = Arc::clone(&shared);
        let listener = Listener::start_at(address, move |stream, closed| {
            serve(stream, &for_clients, closed)
        })?;
        Ok(Self { shared, listener })
    }

    /// Returns an address at which nothing listens.
    ///
    /// # Errors
    /// If no port is free.
    pub fn closed_address() -> anyhow::Result<SocketAddr> {
        Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the address of this server with this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Sets the answers to the next requests.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        lock(&self.shared).script = answers.into_iter().collect();
    }

    /// Returns every request so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared).requests.clone()
    }

    /// Returns the idempotency keys of the requests so far.
    pub fn keys(&self) -> BTreeSet<String> {
        let requests = self.requests();
        let keys = requests.iter().map(|r| r.header("idempotency-key"));
        keys.map(str::to_owned).collect()
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<State>, closed: &Closed) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    // Clients keep connections; a dropped server must not wait for them.
    while let Err(error) = reader.read_line(&mut line) {
        let is_early =
            [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut].contains(&error.kind());
        anyhow::ensure!(is_early && !closed.is_set(), "{error}");
    }
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = Request::read(&line, &mut reader)?;
    let answer = {
        let mut state = lock(shared);
        state.requests.push(request);
        state.script.pop_front()
    };
    let (status, body, location) = match answer {
        None => (200, String::new(), String::new()),
        Some(Answer::Status(status, body)) => (status, body, String::new()),
        Some(Answer::Redirect(status, url)) => {
            (status, String::new(), format!("Location: {url}\r\n"))
        }
        Some(Answer::Hang) => {
            while !closed.is_set() {
                std::thread::sleep(Duration::from_millis(20));
            }
            return Ok(());
        }
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\n{location}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    Ok(())
}
