//! Target `sentences`: `tokenizer.json` of a sentence embedding model, then after a NUL a note; and
//! numbers as the network may return them.
//!
//! - The tokens of any text are in the vocabulary, lie between the special tokens, and are at most
//!   as many as requested.
//! - A tokenizer that is refused gives a reason of one line.
//! - A vector has length 1, whatever numbers it is made of.

use watchkeeper_memory::neural::pooling::{Pooling, pool};
use watchkeeper_memory::neural::tokens::Tokenizer;

pub(super) fn sentences(input: &[u8]) {
    let mut parts = input.splitn(2, |b| *b == 0);
    let (file, note) = (parts.next().unwrap_or_default(), parts.next());
    match Tokenizer::read(file) {
        Ok(tokenizer) => tokens(&tokenizer, &String::from_utf8_lossy(note.unwrap_or(file))),
        Err(refused) => {
            let message = refused.to_string();
            assert!(
                !message.is_empty() && !message.contains('\n'),
                "{message:?}"
            );
        }
    }
    let numbers: Vec<f32> = input
        .chunks_exact(4)
        .filter_map(|b| Some(f32::from_le_bytes(b.try_into().ok()?)))
        .collect();
    let width = usize::from(input.first().copied().unwrap_or_default() % 8);
    let rows = numbers.len().checked_div(width).unwrap_or_default();
    for (pooling, shape) in [
        (Pooling::Mean, vec![1, rows, width]),
        (Pooling::First, vec![1, rows, width]),
        (Pooling::Mean, vec![1, numbers.len()]),
    ] {
        if let Ok(vector) = pool(pooling, rows, &shape, &numbers) {
            let length: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-3, "{length}");
        }
    }
}

fn tokens(tokenizer: &Tokenizer, note: &str) {
    let all = tokenizer.tokens(note, usize::MAX);
    let marks = tokenizer.tokens("", usize::MAX).len();
    assert!(all.len() >= marks);
    assert!(all.iter().all(|t| (0..=tokenizer.last()).contains(t)));
    for most in [0, 1, marks + 1, marks + 5] {
        let cut = tokenizer.tokens(note, most);
        assert!(cut.len() <= most, "{} of {most}", cut.len());
        let said = most.saturating_sub(marks).min(all.len() - marks);
        if most >= marks {
            assert_eq!(cut.len(), said + marks);
        }
    }
}
