//! Limits the size of messages from the broker, before the library reads them.
//!
//! The library ends the session over a packet above its limit, and a broker sends a retained one
//! again in every session. So one oversized message would keep a box off its broker. The stream
//! between socket and library cuts such a message at the limit and discards the rest. The library
//! acknowledges the cut message, and its reader refuses it like any other that is too large.
//!
//! - A cut payload is longer than [`MAX_PAYLOAD`], so a reader can't take it for a whole one.
//! - Bytes of other packets and of messages within the limit pass unchanged.
//! - Memory is constant: discarded bytes are not stored.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::payload::MAX_PAYLOAD;

/// Longest topic in an MQTT packet, with its length and the packet identifier.
const MAX_MESSAGE_HEADER: usize = 65_535 + 2 + 2;
/// Bytes of a message after the fixed header, at most. Source: MQTT 3.1.1, section 3.3.
pub(super) const MAX_MESSAGE: usize = MAX_MESSAGE_HEADER + MAX_PAYLOAD + 1;
/// Bytes of the longest packet that the library has to accept.
pub(super) const MAX_PACKET: usize = MAX_MESSAGE + MAX_FIXED_HEADER;
/// Packet type and remaining length. Source: MQTT 3.1.1, section 2.2.
const MAX_FIXED_HEADER: usize = 5;
/// Packet type of a message (PUBLISH) in the upper four bits of the first byte.
const PUBLISH: u8 = 3;
/// Bytes read from the broker at a time.
const READ_SIZE: usize = 16 * 1024;

/// Cuts messages that are longer than [`MAX_MESSAGE`]. Sans-IO.
#[derive(Debug, Default)]
struct Cutter {
    state: State,
}

#[derive(Debug)]
enum State {
    /// Within the fixed header.
    Header {
        bytes: [u8; MAX_FIXED_HEADER],
        len: usize,
    },
    /// Within a packet: so many bytes pass, then so many are discarded.
    Body { pass: usize, discard: usize },
    /// The header is malformed: everything passes, and the library ends the session.
    Malformed,
}

impl Default for State {
    fn default() -> Self {
        Self::Header {
            bytes: [0; MAX_FIXED_HEADER],
            len: 0,
        }
    }
}

impl Cutter {
    /// Appends to `output` what passes of `input`.
    fn feed(&mut self, mut input: &[u8], output: &mut Vec<u8>) {
        while !input.is_empty() {
            match &mut self.state {
                State::Header { bytes, len } => {
                    // `complete_header` resets `len` before it reaches the end.
                    let (byte, rest) = (input[0], &input[1..]);
                    bytes[*len] = byte;
                    *len += 1;
                    input = rest;
                    let is_last = *len > 1 && byte & 0x80 == 0;
                    if is_last || *len == MAX_FIXED_HEADER {
                        let (bytes, len) = (*bytes, *len);
                        self.state = complete_header(&bytes[..len], is_last, output);
                    }
                }
                State::Body { pass, discard } => {
                    let passed = input.len().min(*pass);
                    output.extend_from_slice(&input[..passed]);
                    input = &input[passed..];
                    *pass -= passed;
                    let discarded = input.len().min(*discard);
                    if *pass == 0 {
                        input = &input[discarded..];
                        *discard -= discarded;
                    }
                    if *pass == 0 && *discard == 0 {
                        self.state = State::default();
                    }
                }
                State::Malformed => {
                    output.extend_from_slice(input);
                    return;
                }
            }
        }
    }
}

/// Writes the header of what passes; returns the state after it.
fn complete_header(header: &[u8], is_whole: bool, output: &mut Vec<u8>) -> State {
    if !is_whole {
        output.extend_from_slice(header);
        return State::Malformed;
    }
    let (kind, length) = header.split_at(1);
    let remaining = length
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
    let is_message = kind[0] >> 4 == PUBLISH;
    let pass = match is_message {
        true => remaining.min(MAX_MESSAGE),
        false => remaining,
    };
    if pass == remaining {
        output.extend_from_slice(header);
    } else {
        output.extend_from_slice(kind);
        push_length(pass, output);
    }
    match remaining {
        0 => State::default(),
        _ => State::Body {
            pass,
            discard: remaining - pass,
        },
    }
}

/// Appends a remaining length: seven bits a byte, the lowest first.
fn push_length(mut length: usize, output: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(length & 0x7f).unwrap_or_default();
        length >>= 7;
        match length {
            0 => return output.push(low),
            _ => output.push(low | 0x80),
        }
    }
}

/// The reading half of a stream to the broker. It never delivers more than [`MAX_PACKET`] bytes of
/// a message.
#[derive(Debug)]
pub(super) struct LimitedReader<S> {
    inner: S,
    cutter: Cutter,
    read: Box<[u8]>,
    /// Bytes that passed and were not delivered yet, from `delivered` on.
    passed: Vec<u8>,
    delivered: usize,
}

impl<S> LimitedReader<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            cutter: Cutter::default(),
            read: vec![0; READ_SIZE].into_boxed_slice(),
            passed: Vec::with_capacity(READ_SIZE + MAX_FIXED_HEADER),
            delivered: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedReader<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // A read of discarded bytes only would look like the end of the stream.
        while this.delivered == this.passed.len() {
            this.passed.clear();
            this.delivered = 0;
            let mut read = ReadBuf::new(&mut this.read);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.cutter.feed(read.filled(), &mut this.passed);
        }
        let waiting = &this.passed[this.delivered..];
        let now = waiting.len().min(target.remaining());
        target.put_slice(&waiting[..now]);
        this.delivered += now;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// A packet of this type with `len` bytes after its fixed header.
    fn packet(kind: u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![kind << 4];
        push_length(len, &mut bytes);
        bytes.extend((0..len).map(|i| u8::try_from(i % 251).unwrap()));
        bytes
    }

    /// The bytes of `input` that pass the limit, fed in parts of `part` bytes.
    fn passed(input: &[u8], part: usize) -> Vec<u8> {
        let mut cutter = Cutter::default();
        let mut output = Vec::new();
        for part in input.chunks(part) {
            cutter.feed(part, &mut output);
        }
        output
    }

    #[test]
    fn oversized_message_is_cut_and_the_next_packet_is_whole() {
        let whole = packet(PUBLISH, MAX_MESSAGE);
        let ping = packet(13, 0);
        let sent = [packet(PUBLISH, 5 * MAX_MESSAGE), ping.clone()].concat();
        assert!(passed(&sent, 4096) == [whole, ping].concat());
    }

    #[test]
    fn packets_within_the_limit_and_of_other_types_pass_unchanged() {
        let sent = [
            packet(2, 2),
            packet(PUBLISH, MAX_MESSAGE),
            packet(9, MAX_MESSAGE + 1),
            packet(PUBLISH, 0),
        ]
        .concat();
        assert!(passed(&sent, sent.len()) == sent);
    }

    #[test]
    fn malformed_length_passes_unchanged() {
        let sent = [0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        assert_eq!(passed(&sent, 2), sent);
    }

    #[tokio::test]
    async fn read_of_discarded_bytes_is_not_the_end_of_the_stream() {
        let sent = [packet(PUBLISH, 3 * MAX_MESSAGE), packet(13, 0)].concat();
        let mut stream = LimitedReader::new(sent.as_slice());
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        assert!(read == [packet(PUBLISH, MAX_MESSAGE), packet(13, 0)].concat());
    }

    proptest! {
        #[test]
        fn parts_of_any_size_pass_alike(
            packets in prop::collection::vec((1_u8..15, 0_usize..300), 0..20),
            oversized in 0_usize..3,
            part in 1_usize..700,
        ) {
            let mut sent: Vec<u8> = packets.iter().flat_map(|(kind, len)| packet(*kind, *len)).collect();
            for _ in 0..oversized {
                sent.extend(packet(PUBLISH, MAX_MESSAGE + 77));
            }
            prop_assert!(passed(&sent, part) == passed(&sent, sent.len().max(1)));
        }

        #[test]
        fn any_bytes_pass_without_a_panic(bytes: Vec<u8>, part in 1_usize..9) {
            passed(&bytes, part);
        }
    }
}
