//! Target `store`: records of the store, as key length, key and payload.
//!
//! - A record is read back under its key and no other.
//! - Up to three flipped bits and any truncation are detected. CRC-32 has a Hamming distance of at
//!   least 4 up to 91 607 bits: Koopman, "32-bit cyclic redundancy codes", DSN 2002.
//! - Accepted bytes are exactly those that would be written.

use watchkeeper_store::fuzzing::{decode, encode};

use super::hostile::Choices;

pub(super) fn store(input: &[u8]) {
    let Some((length, rest)) = input.split_first() else {
        return;
    };
    let (key, rest) = rest.split_at(usize::from(*length).min(rest.len()));
    if let Ok(payload) = decode(key, rest) {
        assert_eq!(encode(key, payload), rest);
    }
    let mut choices = Choices::new(rest);
    let flips: [u8; 6] = choices.bytes();
    let payload = choices.take(4096);
    let stored = encode(key, payload);
    assert_eq!(decode(key, &stored), Ok(payload));

    let other = [key, b"x"].concat();
    assert!(decode(&other, &stored).is_err(), "read under another key");
    let cut = usize::from(flips[0]) % stored.len();
    assert!(decode(key, &stored[..cut]).is_err(), "a cut goes unnoticed");
    let mut damaged = stored.clone();
    for at in flips.chunks_exact(2) {
        let bit = usize::from(u16::from_be_bytes([at[0], at[1]])) % (stored.len() * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
    // Flips may cancel each other out.
    if damaged != stored {
        assert!(decode(key, &damaged).is_err(), "damage goes unnoticed");
    }
}
