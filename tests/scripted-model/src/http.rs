//! HTTP/1.1 by hand, because a test wants to say where a connection breaks and how the bytes are cut.

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Largest request that is read; the provider's own limit is checked below it.
const MAX_BODY: usize = 40 << 20;
const MAX_HEAD: usize = 64 << 10;

/// One request as it came.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The header `name`, given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The body as JSON; `null` when it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Reads one request; `None` when the peer closed the connection between two.
pub(crate) async fn read(
    stream: &mut TcpStream,
    kept: &mut Vec<u8>,
) -> anyhow::Result<Option<Request>> {
    loop {
        if let Some((request, head, length)) = parse(kept)? {
            while kept.len() < head + length {
                if stream.read_buf(kept).await? == 0 {
                    bail!("the request ended within its body");
                }
            }
            let rest = kept.split_off(head + length);
            let body = kept.split_off(head);
            *kept = rest;
            return Ok(Some(Request { body, ..request }));
        }
        if kept.len() > MAX_HEAD {
            bail!("the head of the request is too long");
        }
        if stream.read_buf(kept).await? == 0 {
            return Ok(None);
        }
    }
}

fn parse(bytes: &[u8]) -> anyhow::Result<Option<(Request, usize, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = parsed.parse(bytes)? else {
        return Ok(None);
    };
    let headers = parsed.headers.iter().map(|h| {
        let value = String::from_utf8_lossy(h.value).into_owned();
        (h.name.to_ascii_lowercase(), value)
    });
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body: Vec::new(),
    };
    let length = request.header("content-length").unwrap_or("0");
    let length: usize = length.parse().context("content-length")?;
    if length > MAX_BODY {
        bail!("the body is too long");
    }
    Ok(Some((request, head, length)))
}

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Bytes of each chunk.
    pub(crate) chunk: usize,
    pub(crate) end: End,
    /// What it is charged, in the provider's words; null: nothing.
    pub(crate) usage: serde_json::Value,
}

/// How an answer ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it should.
    #[default]
    Whole,
    /// With a reset after the headers; the body is not sent.
    Reset,
    /// Not at all: after the body nothing comes and nothing is closed.
    Stall,
}

/// Writes an answer in chunks; whether the connection can be used again.
pub(crate) async fn write(stream: &mut TcpStream, answer: &Answer) -> anyhow::Result<bool> {
    write_head(stream, answer.status, &answer.headers).await?;
    write_body(stream, answer).await
}

/// Writes the head of an answer whose body comes in chunks.
pub(crate) async fn write_head(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&'static str, String)],
) -> anyhow::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\ntransfer-encoding: chunked\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    Ok(())
}

/// Writes one chunk of a body.
pub(crate) async fn write_chunk(stream: &mut TcpStream, chunk: &[u8]) -> anyhow::Result<()> {
    let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
    stream.write_all(&framed).await?;
    Ok(())
}

/// Writes the body and the end of an answer; whether the connection can be used again.
pub(crate) async fn write_body(stream: &mut TcpStream, answer: &Answer) -> anyhow::Result<bool> {
    if answer.end == End::Reset {
        return Ok(false);
    }
    for chunk in answer.body.chunks(answer.chunk.max(1)) {
        write_chunk(stream, chunk).await?;
    }
    stream.flush().await?;
    if answer.end == End::Stall {
        // Until the peer has had enough and closes.
        let mut rest = Vec::new();
        while stream.read_buf(&mut rest).await? > 0 {
            rest.clear();
        }
        return Ok(false);
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}
