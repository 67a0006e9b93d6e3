//! Target `history`: a chunk of the detection history, and the pictures beside it.
//!
//! - What is read from any bytes is written and read back unchanged.
//! - A cut never yields a frame that the whole file does not have.

use watchkeeper_runtime::fuzzing;

pub(super) fn history(input: &[u8]) {
    let Some((chunk, frames)) = fuzzing::history_chunk(input) else {
        return;
    };
    let again = fuzzing::history_chunk(&chunk);
    assert_eq!(again, Some((chunk, frames)), "it was not written so");
    if let Some((_, of_cut)) = fuzzing::history_chunk(&input[..input.len() / 2]) {
        assert!(
            of_cut <= frames,
            "{of_cut} frames of a half, {frames} of all"
        );
    }
    let pictures = fuzzing::history_pictures(input);
    assert!(pictures <= input.len(), "{pictures} pictures");
}
