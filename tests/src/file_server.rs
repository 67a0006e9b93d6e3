//! HTTP server of a few files that breaks off, lies and refuses on command.
//!
//! - It speaks plain sockets: an HTTP library can't be made to lie.
//! - Each request takes the next [`Answer`] of the script, [`Answer::Good`] once the script is used
//!   up.
//! - Nothing listens once the server is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::hooks::Request;
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
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.state().requests)
    }
}

fn serve(stream: &TcpStream, shared: &Shared, closed: &Closed) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let request = Request::read(&line, &mut reader)?;
    let (body, etag, answer) = {
        let mut state = shared.state();
        let answer = state.script.pop_front().unwrap_or(Answer::Good);
        state.requests.push(request.clone());
        let name = request.target.rsplit('/').next().unwrap_or_default();
        let body = state.others.get(name).unwrap_or(&state.body);
        (Arc::clone(body), state.etag.clone(), answer)
    };
    let from = start_of_range(&request, etag.as_deref());
    let response = respond(&answer, &body, from);
    let tag = etag
        .as_ref()
        .map_or_else(String::new, |etag| format!("ETag: {etag}\r\n"));
    let mut out = stream;
    // One request for each connection keeps the script in order.
    write!(
        out,
        "HTTP/1.1 {}\r\nConnection: close\r\n{tag}{}\r\n",
        response.status, response.headers
    )?;
    let sent = response.body;
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

struct Response<'b> {
    status: String,
    headers: String,
    body: &'b [u8],
}

impl<'b> Response<'b> {
    /// Creates a response with a `Content-Length` of `length`.
    fn new(status: &str, length: usize, body: &'b [u8]) -> Self {
        Self {
            status: status.to_owned(),
            headers: format!("Content-Length: {length}\r\n"),
            body,
        }
    }

    /// Creates a 206 that claims to start at `from` of `total` bytes.
    fn partial(from: usize, total: usize, body: &'b [u8]) -> Self {
        let mut response = Self::new("206 Partial Content", body.len(), body);
        let range = format!("Content-Range: bytes {from}-{}/{total}\r\n", total - 1);
        response.headers.insert_str(0, &range);
        response
    }
}

/// Builds the response to a request for `body` from byte `from` on.
fn respond<'b>(answer: &Answer, body: &'b [u8], from: Option<usize>) -> Response<'b> {
    let total = body.len();
    match answer {
        Answer::Good | Answer::CutAfter(_) | Answer::StallAfter(_) => match from {
            Some(from) if from >= total => Response::new("416 Range Not Satisfiable", 0, &[]),
            Some(from) => Response::partial(from, total, body.get(from..).unwrap_or_default()),
            None => Response::new("200 OK", total, body),
        },
        Answer::IgnoresRange | Answer::WrongBytes => Response::new("200 OK", total, body),
        Answer::WrongRange => Response::partial(0, total, body),
        Answer::Status(status) => Response::new(&format!("{status} As Scripted"), 0, &[]),
        Answer::Redirect(to) => {
            let mut response = Response::new("302 Found", 0, &[]);
            response
                .headers
                .insert_str(0, &format!("Location: {to}\r\n"));
            response
        }
        Answer::Length(stated) => Response::new("200 OK", *stated, body),
        Answer::UntilClose(_) => Response {
            status: "200 OK".to_owned(),
            headers: String::new(),
            body,
        },
    }
}

/// Whether the client still holds the connection.
fn is_there(stream: &TcpStream) -> bool {
    let set = stream.set_read_timeout(Some(Duration::from_millis(20)));
    set.is_ok() && !matches!(stream.peek(&mut [0]), Ok(0))
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
