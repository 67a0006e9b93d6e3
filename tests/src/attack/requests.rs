//! Writes mutated HTTP requests to the sockets of both daemons, and holds connections.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Report;
use super::arena::Arena;
use super::silence::SilenceWatch;
use crate::fuzz::mutate::mutate;
use crate::person::command;
use crate::scene::deploy;
use crate::silent_clients::hold;

/// Requests that the mutations begin with.
const REQUESTS: [&str; 5] = [
    "GET /v1/health HTTP/1.1\r\nhost: box\r\n\r\n",
    "GET /v1/events?after=0&limit=500 HTTP/1.1\r\nhost: box\r\naccept: application/json\r\n\r\n",
    "POST /v1/pipelines HTTP/1.1\r\nhost: box\r\ncontent-type: application/json\r\ncontent-length: 60\r\n\r\n{\"id\": \"p\", \"source\": \"s\", \"workflow\": {}, \"rules\": []}     ",
    "PUT /v1/sources/cam HTTP/1.1\r\nhost: box\r\ntransfer-encoding: chunked\r\n\r\n1a\r\n{\"id\":\"cam\",\"uri\":\"demo:\"}\r\n0\r\n\r\n",
    "POST /v1/conversations HTTP/1.1\r\nhost: box\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
];
/// Longest wait for an answer to an invalid request.
const ANSWER: Duration = Duration::from_millis(500);
/// Clients that pipeline requests and never read.
const HOLDING: usize = 300;
/// Time for which they hold their connections.
const HELD: Duration = Duration::from_secs(5);

/// Writes `count` mutated requests to each daemon, then holds connections. The command has to work
/// meanwhile.
///
/// # Errors
/// If a process can't be started.
pub fn requests(count: u64, random: &mut fastrand::Rng) -> anyhow::Result<Report> {
    let mut report = Report::new("requests");
    let arena = Arena::start("")?;
    deploy(&arena.bench)?;
    let status = command(&arena.bench)?;
    let mut bounded = Command::new("timeout");
    // A daemon that hangs must not hang the watch.
    bounded.arg("30").arg(status.get_program());
    bounded.args(status.get_args()).args(["status", "--json"]);
    let watch = SilenceWatch::start(move || bounded.output().is_ok_and(|out| out.status.success()));
    let others: Vec<_> = REQUESTS
        .iter()
        .map(|text| (String::new(), text.as_bytes().to_vec()))
        .collect();
    let mut answered = 0;
    for socket in [arena.bench.socket(), arena.bench.path("agent.sock")] {
        for _ in 0..count {
            let request = random.choice(&others).map(|(_, bytes)| bytes.clone());
            let mut request = request.unwrap_or_default();
            for _ in 0..random.usize(1..=4) {
                mutate(&mut request, &others, random);
            }
            answered += u64::from(is_answered(&socket, &request));
        }
        let held = hold_socket(&socket)?;
        std::thread::sleep(HELD);
        drop(held);
    }
    watch.end(&mut report);
    report.attempted("requests", 2 * count);
    report.attempted("of them answered", answered);
    report.attempted("clients that never read", 2 * HOLDING as u64);
    arena.finish(&mut report)?;
    Ok(report)
}

fn hold_socket(socket: &Path) -> std::io::Result<Vec<UnixStream>> {
    let connect = || {
        let stream = UnixStream::connect(socket)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    hold(HOLDING, connect, &REQUESTS[0].repeat(2_000))
}

/// Whether the daemon answers with anything that is HTTP before it closes the connection.
fn is_answered(socket: &Path, request: &[u8]) -> bool {
    let exchange = || -> std::io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        stream.write_all(request)?;
        stream.shutdown(Shutdown::Write)?;
        let mut head = vec![0; 16];
        let length = stream.read(&mut head)?;
        head.truncate(length);
        Ok(head)
    };
    exchange().is_ok_and(|head| head.starts_with(b"HTTP/1.1 "))
}
