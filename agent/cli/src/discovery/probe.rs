//! The shell of the search: one socket for each network interface, for a limited time.
//!
//! - An error after the first round of probes ends a search, and its answers count.
//! - Probes go out twice, since datagrams get lost.
//! - The number of interfaces, datagrams and cameras is bounded.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::message::{self, FoundCamera, MAX_ANSWER};

/// Group and port of WS-Discovery.
pub(super) const GROUP: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, 255, 250)), 3702);

/// Maximum interfaces that are asked.
const MAX_INTERFACES: usize = 16;

/// Maximum datagrams that are read on one socket.
const MAX_DATAGRAMS: usize = 1024;

/// Maximum cameras in the result.
const MAX_CAMERAS: usize = 256;

/// Time between the two rounds of probes.
const REPEAT_AFTER: Duration = Duration::from_millis(500);

/// Result of a search.
#[derive(Debug, Default)]
pub(super) struct SearchResult {
    /// One camera for each endpoint.
    pub(super) cameras: BTreeMap<String, FoundCamera>,
    /// Interfaces that could not be asked, each with its reason.
    pub(super) problems: Vec<String>,
    /// Number of interfaces that were asked.
    pub(super) asked: usize,
}

/// Asks `to` from each interface (the multicast group), or from any (another address), and
/// collects answers for `duration`.
pub(super) fn search(to: SocketAddr, duration: Duration) -> io::Result<SearchResult> {
    let interfaces = if to.ip().is_multicast() {
        interfaces()?
    } else {
        vec![("any".to_owned(), any_like(to))]
    };
    let until = Instant::now() + duration;
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = interfaces
            .into_iter()
            .map(|(name, address)| (name, scope.spawn(move || ask(address, to, until))))
            .collect();
        let ended = |(name, thread): (String, std::thread::ScopedJoinHandle<'_, _>)| {
            let answer = thread.join();
            (
                name,
                answer.unwrap_or_else(|_| Err(io::Error::other("an internal error"))),
            )
        };
        threads.into_iter().map(ended).collect()
    });
    let mut found = SearchResult::default();
    for (name, answer) in answers {
        match answer {
            Ok(cameras) => {
                found.asked += 1;
                for (endpoint, camera) in cameras {
                    if found.cameras.len() < MAX_CAMERAS {
                        found.cameras.entry(endpoint).or_insert(camera);
                    }
                }
            }
            Err(error) => found.problems.push(format!("interface {name}: {error}")),
        }
    }
    Ok(found)
}

/// Lists interfaces with an IPv4 address; the loopback only if there is no other.
fn interfaces() -> io::Result<Vec<(String, IpAddr)>> {
    let all = if_addrs::get_if_addrs()?;
    let (mut far, mut near) = (Vec::new(), Vec::new());
    for interface in all {
        let IpAddr::V4(address) = interface.ip() else {
            continue;
        };
        let list = if address.is_loopback() {
            &mut near
        } else {
            &mut far
        };
        list.push((interface.name, IpAddr::V4(address)));
    }
    let mut chosen = if far.is_empty() { near } else { far };
    chosen.truncate(MAX_INTERFACES);
    Ok(chosen)
}

/// The unspecified address of the same family.
fn any_like(to: SocketAddr) -> IpAddr {
    match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Asks `to` from one address; returns the cameras by endpoint.
fn ask(from: IpAddr, to: SocketAddr, until: Instant) -> io::Result<BTreeMap<String, FoundCamera>> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    if let (IpAddr::V4(from), true) = (from, to.ip().is_multicast()) {
        socket.set_multicast_if_v4(&from)?;
        socket.set_multicast_ttl_v4(1)?;
    }
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    let socket = UdpSocket::from(socket);
    let ids: Vec<String> = message::TYPES.iter().map(|_| uuid()).collect();
    let send = || -> io::Result<()> {
        for (id, kind) in ids.iter().zip(message::TYPES) {
            socket.send_to(message::probe(id, kind).as_bytes(), to)?;
        }
        Ok(())
    };
    send()?;
    let mut repeat_at = Some(Instant::now() + REPEAT_AFTER);
    let mut cameras: BTreeMap<String, FoundCamera> = BTreeMap::new();
    let mut buffer = vec![0; MAX_ANSWER];
    for _ in 0..MAX_DATAGRAMS {
        let now = Instant::now();
        if repeat_at.is_some_and(|at| at <= now) {
            repeat_at = None;
            // The first round went out.
            send().ok();
        }
        let deadline = repeat_at.map_or(until, |at| at.min(until));
        let left = deadline.saturating_duration_since(now);
        if now >= until {
            break;
        }
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match socket.recv_from(&mut buffer) {
            Ok((length, _)) => {
                let answer = buffer.get(..length).unwrap_or_default();
                for camera in message::read_answer(answer, &ids) {
                    cameras.entry(camera.endpoint.clone()).or_insert(camera);
                }
            }
            // The time is over; or the address that was asked has no listener.
            Err(error) if is_wait(&error) => {}
            Err(error) if cameras.is_empty() => return Err(error),
            Err(_) => break,
        }
        if cameras.len() >= MAX_CAMERAS {
            break;
        }
    }
    Ok(cameras)
}

fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | TimedOut | Interrupted | ConnectionRefused
    )
}

/// Returns a random UUID (RFC 9562, version 4).
fn uuid() -> String {
    let n = fastrand::u128(..);
    let (a, b, c, d, e) = (n >> 96, n >> 80, n >> 64, n >> 48, n);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a & 0xffff_ffff,
        b & 0xffff,
        c & 0xfff,
        d & 0xfff,
        e & 0xffff_ffff_ffff
    )
}
