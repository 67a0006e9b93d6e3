//! HTTP/1.1 by hand: a test controls where a connection breaks and how the bytes are cut.

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Largest body that is read, above the limits of the providers.
const MAX_BODY: usize = 40 << 20;
const MAX_HEAD: usize = 64 << 10;

/// A request as received.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    /// Path with its query.
    pub path: String,
    /// Headers with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the header `name`, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Returns the body as JSON; `null` when it is invalid.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Reads one request; `None` when the client closed the connection between requests.
///
/// `kept` holds bytes that were read beyond the previous request.
pub(crate) async fn read(
    stream: &mut TcpStream,
    kept: &mut Vec<u8>,
) -> anyhow::Result<Option<Request>> {
    loop {
        if let Some((request, head, length)) = parse(kept)? {
            while kept.len() < head + length {
                if stream.read_buf(kept).await? == 0 {
                    bail!("the connection ended within the body of a request");
                }
            }
            let rest = kept.split_off(head + length);
            let body = kept.split_off(head);
            *kept = rest;
            return Ok(Some(Request { body, ..request }));
        }
        if kept.len() > MAX_HEAD {
            bail!("the head of a request is over {MAX_HEAD} bytes");
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
        bail!("the body of a request is over {MAX_BODY} bytes");
    }
    Ok(Some((request, head, length)))
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Chunk size in bytes.
    pub(crate) chunk: usize,
    pub(crate) end: End,
    /// Usage in the provider's words; null: none.
    pub(crate) usage: serde_json::Value,
}

/// How an answer ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Properly, with the last chunk.
    #[default]
    Whole,
    /// By a reset after the headers; the body is not sent.
    Reset,
    /// Never: after the body the connection stays open without the last chunk.
    Stall,
}

/// Writes an answer in chunks. Returns whether the connection can be reused.
pub(crate) async fn write(stream: &mut TcpStream, answer: &Answer) -> anyhow::Result<bool> {
    write_head(stream, answer.status, &answer.headers).await?;
    write_body(stream, answer).await
}

/// Writes the head of an answer with a chunked body.
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

/// Writes body and end of an answer. Returns whether the connection can be reused.
pub(crate) async fn write_body(stream: &mut TcpStream, answer: &Answer) -> anyhow::Result<bool> {
    if answer.end == End::Reset {
        return Ok(false);
    }
    for chunk in answer.body.chunks(answer.chunk.max(1)) {
        write_chunk(stream, chunk).await?;
    }
    stream.flush().await?;
    if answer.end == End::Stall {
        // The client times out and closes.
        let mut rest = Vec::new();
        while stream.read_buf(&mut rest).await? > 0 {
            rest.clear();
        }
        return Ok(false);
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}
