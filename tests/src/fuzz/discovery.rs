//! Target `discovery`: an answer of a camera on the network to `watchkeeper cameras find`.
//!
//! - An answer gives cameras, or nothing.
//! - Texts are bounded and without control characters; addresses are of HTTP, without credentials.

use watchkeeper_cli::fuzzing::read_answer;

/// Id of the probe that the seeds answer.
const PROBE: &str = "6f0c1c2e-58a1-4b0b-9a53-0d9c0c1f7a11";

pub(super) fn discovery(input: &[u8]) {
    let cameras = read_answer(input, &[PROBE.to_owned()]);
    assert!(cameras.len() <= 16);
    for camera in cameras {
        let texts = [
            Some(camera.endpoint),
            camera.name,
            camera.hardware,
            camera.location,
        ];
        for text in texts.into_iter().flatten() {
            assert!(!text.is_empty() && text.chars().count() <= 101, "{text:?}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
        assert!(camera.xaddrs.len() <= 4);
        for address in camera.xaddrs {
            assert!(address.starts_with("http"), "{address}");
            let authority = address.split('/').nth(2).unwrap_or_default();
            assert!(
                !authority.is_empty() && !authority.contains('@'),
                "{address}"
            );
        }
    }
}
