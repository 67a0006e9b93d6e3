//! Target `outbox`: entries of the outbox as they lie in the store.
//!
//! - An entry that is read is written and read back unchanged.
//! - A loss record keeps its promises after further losses: ranges are ascending, disjoint and
//!   bounded.
//! - A truncated entry gives an error with its reason, or less payload, but never another topic.

use watchkeeper_agent::fleet::outbox::on_disk::{decode, encode};
use watchkeeper_agent::fleet::outbox::{Content, Loss, MAX_RANGES};

use super::hostile::Choices;

pub(super) fn outbox(input: &[u8]) {
    let content = match decode(input) {
        Ok(content) => content,
        Err(refused) => {
            assert!(!refused.to_string().is_empty());
            return;
        }
    };
    let written = encode(&content);
    assert_eq!(decode(&written).as_ref(), Ok(&content));
    let mut choices = Choices::new(input);
    match content {
        Content::Loss(mut loss) => {
            check(&loss);
            for _ in 0..4 {
                let [a, b] = std::array::from_fn(|_| u64::from_be_bytes(choices.bytes()));
                let (first, last) = (a.min(b), a.max(b));
                let covered = loss.ranges.clone();
                loss.add(first, last);
                check(&loss);
                assert!(loss.covers(first) && loss.covers(last));
                assert!(
                    covered
                        .iter()
                        .all(|r| loss.covers(r[0]) && loss.covers(r[1]))
                );
            }
        }
        Content::Message(draft) => {
            let cut = usize::from(u16::from_be_bytes(choices.bytes())) % written.len();
            if let Ok(Content::Message(less)) = decode(&written[..cut]) {
                assert_eq!(less.topic, draft.topic);
                assert!(draft.payload.starts_with(&less.payload));
            }
        }
    }
}

fn check(loss: &Loss) {
    assert!(
        loss.ranges.len() <= MAX_RANGES,
        "{} ranges",
        loss.ranges.len()
    );
    assert!(loss.ranges.iter().all(|r| r[0] <= r[1]), "{loss:?}");
    assert!(
        loss.ranges.windows(2).all(|p| p[0][1] < p[1][0]),
        "{loss:?}"
    );
}
