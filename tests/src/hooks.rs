//! An HTTP server that notes every request with its body, and answers as it is told: what the receiver of a webhook is.
//!
//! Invariant: every request is answered by the next [`Answer`] of the script, with 200 when that is used up, and nothing listens any more once the
//! server is dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::listener::{Closed, Listener};

/// How one request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This status and body.
    Status(u16, String),
    /// This status, and another place.
    Elsewhere(u16, String),
    /// Not at all, while the server lives.
    Hang,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Body.
    pub body: Vec<u8>,
}

impl Request {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header, empty where there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Answer>,
    requests: Vec<Request>,
}

/// A running server.
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
    /// When no port is free.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts there: where one that was dropped has listened before, say.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn start_at(address: SocketAddr) -> anyhow::Result<Self> {
        let shared = Arc::<Mutex<State>>::default();
        let for_clients = Arc::clone(&shared);
        let listener = Listener::start_at(address, move |stream, closed| {
            serve(stream, &for_clients, closed)
        })?;
        Ok(Self { shared, listener })
    }

    /// An address at which nobody listens.
    ///
    /// # Errors
    /// When no port is free.
    pub fn nobody() -> anyhow::Result<SocketAddr> {
        Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Its address, with this path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Answers the next requests like this.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        lock(&self.shared).script = answers.into_iter().collect();
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared).requests.clone()
    }

    /// Which messages came, by the keys that tell them apart.
    #[must_use]
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
    let request = Request {
        method: method.context("a method")?,
        target: target.context("a target")?,
        headers,
        body,
    };
    let answer = {
        let mut state = lock(shared);
        state.requests.push(request);
        state.script.pop_front()
    };
    let (status, body, location) = match answer {
        None => (200, String::new(), String::new()),
        Some(Answer::Status(status, body)) => (status, body, String::new()),
        Some(Answer::Elsewhere(status, url)) => {
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
