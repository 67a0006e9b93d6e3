//! A webhook receiver.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

/// Starts a webhook receiver at `at` that answers every request with `status`. Returns its address
/// and the idempotency key and body of each request.
pub(crate) fn receiver(
    at: SocketAddr,
    status: &'static str,
) -> (SocketAddr, Receiver<(String, String)>) {
    let listener = TcpListener::bind(at).expect("a port");
    let address = listener.local_addr().expect("its address");
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
            let (mut id, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a header");
                let Some((name, value)) = line.trim_end().split_once(": ") else {
                    match line.trim_end() {
                        "" => break,
                        _ => continue,
                    }
                };
                match name.to_ascii_lowercase().as_str() {
                    "idempotency-key" => id = value.to_owned(),
                    "content-length" => length = value.parse().expect("a length"),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("an answer");
            // A URL-encoded form writes blanks as `+`.
            let body = String::from_utf8_lossy(&body).replace('+', " ");
            if sender.send((id, body)).is_err() {
                return;
            }
        }
    });
    (address, requests)
}
