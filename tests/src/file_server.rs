//! HTTP server of a few files that breaks off, lies and refuses on command.
//!
//! - It speaks plain sockets: an HTTP library can't be made to lie.
//! - Each request takes the next [`Answer`] of the script, [`Answer::Good`] once the script is used
//!   up.
//! - Nothing listens once the server is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;

use crate::listener::{Closed, Listener};

/// Answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// As RFC 9110 wants it: ranges, `If-Range`, 416 beyond the end.
    Good,
    /// Starts correctly; the connection is cut after this many bytes of the body.
    CutAfter(usize),
    /// Starts correctly; after this many bytes of the body nothing comes, the connection stays
    /// open.
    StallAfter(usize),
    /// The whole file, whatever range was requested.
    IgnoresRange,
    /// Another range than the requested one.
    WrongRange,
    /// This status without a body.
    Status(u16),
    /// Redirects to this path or address.
    Redirect(String),
    /// The whole file under this false `Content-Length`, then the end of the connection.
    Length(usize),
    /// This many bytes of the file without a length, then the end of the connection.
    UntilClose(usize),
    /// A file of the same length with other bytes.
    WrongBytes,
}

/// Request that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path, or the whole address if the client used this server as its proxy.
    pub target: String,
    /// Headers by names in lower case.
    pub headers: BTreeMap<String, String>,
}

/// File server that runs until it is dropped.
#[derive(Debug)]
pub struct FileServer {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    body: Arc<Vec<u8>>,
    /// Files by name that differ from `body`.
    others: BTreeMap<String, Arc<Vec<u8>>>,
    etag: Option<String>,
    script: VecDeque<Answer>,
    requests: Vec<Request>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileServer {
    /// Serves `body` under every path on a free port of 127.0.0.1, with this strong entity tag.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(body: Vec<u8>, etag: Option<&str>) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                body: Arc::new(body),
                others: BTreeMap::new(),
                etag: etag.map(|etag| format!("\"{etag}\"")),
                script: VecDeque::new(),
                requests: Vec::new(),
            }),
        });
        let for_clients = shared.clone();
        let listener = Listener::start(move |stream, closed| serve(&stream, &for_clients, closed))?;
        Ok(Self { shared, listener })
    }

    /// Returns the base address of this server, without a trailing slash.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("http://{}/models", self.listener.address())
    }

    /// Sets the answers to the next requests.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.state().script = answers.into_iter().collect();
    }

    /// Serves this file under `name`, and `body` under every other one.
    pub fn put(&self, name: &str, body: Vec<u8>) {
        let mut state = self.shared.state();
        state.others.insert(name.to_owned(), Arc::new(body));
    }

    /// Replaces file and entity tag.
    pub fn replace(&self, body: Vec<u8>, etag: &str) {
        let mut state = self.shared.state();
        state.body = Arc::new(body);
        state.etag = Some(format!("\"{etag}\""));
    }

    /// Takes the requests since the last call.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.state().requests)
    }
}

fn serve(stream: &TcpStream, shared: &Shared, closed: &Closed) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let request = read(stream)?;
    let (body, etag, answer) = {
        let mut state = shared.state();
        let answer = state.script.pop_front().unwrap_or(Answer::Good);
        state.requests.push(request.clone());
        let name = request.target.rsplit('/').next().unwrap_or_default();
        let body = state.others.get(name).unwrap_or(&state.body);
        (Arc::clone(body), state.etag.clone(), answer)
    };
    let mut out = stream;
    let tag = etag
        .as_ref()
        .map_or_else(String::new, |etag| format!("ETag: {etag}\r\n"));
    // One request for each connection keeps the script in order.
    let mut head = |status: &str, more: &str| {
        write!(
            out,
            "HTTP/1.1 {status}\r\nConnection: close\r\n{tag}{more}\r\n"
        )
    };
    let length = |n: usize| format!("Content-Length: {n}\r\n");
    let from = start_of_range(&request, etag.as_deref());
    let sent: &[u8] = match answer {
        Answer::Good | Answer::CutAfter(_) | Answer::StallAfter(_) => match from {
            Some(from) if from >= body.len() => {
                head("416 Range Not Satisfiable", &length(0))?;
                &[]
            }
            Some(from) => {
                let rest = body.get(from..).unwrap_or_default();
                let range = format!(
                    "Content-Range: bytes {from}-{}/{}\r\n{}",
                    body.len() - 1,
                    body.len(),
                    length(rest.len())
                );
                head("206 Partial Content", &range)?;
                rest
            }
            None => {
                head("200 OK", &length(body.len()))?;
                &body
            }
        },
        Answer::IgnoresRange | Answer::WrongBytes => {
            head("200 OK", &length(body.len()))?;
            &body
        }
        Answer::WrongRange => {
            let range = format!(
                "Content-Range: bytes 0-{}/{}\r\n{}",
                body.len() - 1,
                body.len(),
                length(body.len())
            );
            head("206 Partial Content", &range)?;
            &body
        }
        Answer::Status(status) => {
            head(&format!("{status} As Told"), &length(0))?;
            &[]
        }
        Answer::Redirect(ref to) => {
            head("302 Found", &format!("Location: {to}\r\n{}", length(0)))?;
            &[]
        }
        Answer::Length(stated) => {
            head("200 OK", &length(stated))?;
            &body
        }
        Answer::UntilClose(_) => {
            head("200 OK", "")?;
            &body
        }
    };
    let sent = match answer {
        Answer::CutAfter(n) | Answer::StallAfter(n) | Answer::UntilClose(n) => {
            sent.get(..n).unwrap_or(sent)
        }
        _ => sent,
    };
    if answer == Answer::WrongBytes {
        let flipped: Vec<u8> = sent.iter().map(|byte| !byte).collect();
        out.write_all(&flipped)?;
    } else {
        out.write_all(sent)?;
    }
    out.flush()?;
    if matches!(answer, Answer::StallAfter(_)) {
        while !closed.is_set() && is_there(stream) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Whether the client still holds the connection.
fn is_there(stream: &TcpStream) -> bool {
    let set = stream.set_read_timeout(Some(Duration::from_millis(20)));
    set.is_ok() && !matches!(stream.peek(&mut [0]), Ok(0))
}

fn read(stream: &TcpStream) -> anyhow::Result<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().context("no request")??;
    let target = first.split(' ').nth(1).context("not a request")?.to_owned();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    Ok(Request { target, headers })
}

/// First byte of the requested range; `None` if the file has changed since (`If-Range`).
fn start_of_range(request: &Request, etag: Option<&str>) -> Option<usize> {
    let range = request.headers.get("range")?;
    let is_fresh = request
        .headers
        .get("if-range")
        .is_none_or(|tag| Some(tag.as_str()) == etag);
    let from = range.strip_prefix("bytes=")?.strip_suffix('-')?;
    from.parse().ok().filter(|_| is_fresh)
}
