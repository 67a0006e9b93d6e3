//! The agent's API on a socket, and a client of it.

use std::path::Path;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Name of the socket in the folder of an agent.
pub(crate) const SOCKET: &str = "agent.sock";

/// Sends one request to the agent's API; returns the body, and `None` while nothing listens.
pub(crate) async fn call(socket: &Path, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).await.ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

/// Returns the JSON of a route; `None` while nothing listens.
pub(crate) async fn get(socket: &Path, path: &str) -> Option<Value> {
    let body = call(socket, "GET", path, "").await?;
    serde_json::from_str(&body).ok()
}
