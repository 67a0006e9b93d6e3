//! Target `talk`: the body of a message to the agent.
//!
//! - An accepted message has a text of bounded length and at most four valid pictures.
//! - A refusal has a 4xx status and a sentence.

use watchkeeper_agent::api::fuzzing;

pub(super) fn talk(input: &[u8]) {
    match fuzzing::message(input) {
        Ok(message) => {
            assert!(!message.text.trim().is_empty());
            assert!(message.text.chars().count() <= 2_000);
            assert!(message.images.len() <= 4);
            for (name, file) in &message.images {
                assert!(!name.is_empty() && name.chars().count() <= 100);
                let is_known = file.starts_with(b"\x89PNG") || file.starts_with(&[0xff, 0xd8]);
                assert!(is_known, "no picture was taken for one");
            }
            assert!(message.about.is_none());
        }
        Err(problem) => {
            assert!((400..500).contains(&problem.status), "{problem:?}");
            assert!(!problem.detail.trim().is_empty());
        }
    }
}
