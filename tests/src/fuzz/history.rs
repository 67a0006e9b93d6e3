//! Target `history`: a chunk of the detection history, and the pictures beside it.
//!
//! - What is read from any bytes is written and read back unchanged.
//! - A cut never yields a frame or a picture that the whole file does not have.

use watchkeeper_runtime::fuzzing;

pub(super) fn history(input: &[u8]) {
    let half = &input[..input.len() / 2];
    let pictures = fuzzing::history_pictures(input);
    let of_half = fuzzing::history_pictures(half);
    assert!(
        pictures.starts_with(&of_half),
        "pictures of a half that the whole does not begin with"
    );
    let Some((chunk, frames)) = fuzzing::history_chunk(input) else {
        return;
    };
    let again = fuzzing::history_chunk(&chunk);
    assert_eq!(
        again.as_ref(),
        Some(&(chunk, frames.clone())),
        "it was not written so"
    );
    if let Some((_, of_half)) = fuzzing::history_chunk(half) {
        assert!(
            frames.starts_with(&of_half),
            "frames of a half that the whole does not begin with"
        );
    }
}
