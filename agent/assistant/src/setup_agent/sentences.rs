//! Splits a message into whole sentences, for quoting: a part may say the opposite of the whole.
//!
//! Invariant: no result is a part of a sentence. Boundaries follow Unicode UAX 29. An uncertain
//! boundary is none, so two sentences may stay one: after an abbreviation, an initial, a number or
//! trailing dots, within quotation marks or brackets, at the end of a line.

use unicode_segmentation::UnicodeSegmentation as _;

/// Abbreviations before a name or a noun, in the likeliest languages of users. The code recognizes
/// those without a vowel or with an inner dot.
const ABBREVIATIONS: &[&str] = &[
    "abs", "al", "apr", "approx", "art", "aug", "ave", "ca", "capt", "cf", "co", "col", "corp",
    "dec", "dept", "dic", "dipl", "ed", "ene", "est", "etc", "evtl", "exkl", "feb", "fig", "fri",
    "gen", "ggf", "gov", "hon", "inc", "incl", "ing", "inkl", "jan", "jul", "jun", "lieut", "mag",
    "maj", "mar", "max", "min", "mon", "no", "nos", "nov", "oct", "okt", "pres", "prof", "rev",
    "sat", "sen", "sep", "sept", "sun", "tel", "tue", "usw", "vol",
];

/// The sentences in order, without surrounding space.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut begin = 0;
    let mut end = 0;
    let mut within = QuoteStack::default();
    for piece in text.split_sentence_bounds() {
        for (at, c) in piece.char_indices() {
            within.update(c);
            let after = end + at + c.len_utf8();
            let rest = text.get(after..).unwrap_or_default();
            // UAX 29 has no boundary here, but both sides are complete clauses.
            if c == ';' && within.is_empty() && !rest.starts_with(|c: char| !c.is_whitespace()) {
                all.extend(text.get(begin..after));
                begin = after;
            }
        }
        end += piece.len();
        let so_far = text.get(begin..end).unwrap_or_default();
        if within.is_empty() && (piece.trim().is_empty() || is_whole(so_far)) {
            all.push(so_far);
            begin = end;
        }
    }
    all.extend(text.get(begin..));
    let trimmed = all.into_iter().map(str::trim);
    trimmed.filter(|sentence| !sentence.is_empty()).collect()
}

/// Whether a boundary of UAX 29 certainly ends a sentence.
fn is_whole(so_far: &str) -> bool {
    let closes = |c: char| c.is_whitespace() || "\"'”’“»«)]".contains(c);
    let so_far = so_far.trim_end_matches(closes);
    if so_far.ends_with(['!', '?', '。', '！', '？', '؟', '।']) {
        return true;
    }
    // Without a dot the boundary is the end of a line.
    so_far.strip_suffix('.').is_some_and(|before| {
        let apart = |c: char| !c.is_alphanumeric() && !".'’".contains(c);
        let word = before.trim_end_matches(closes).rsplit(apart).next();
        !may_be_abbreviation(word.unwrap_or_default())
    })
}

/// Whether a dot after this word may belong to an abbreviation.
fn may_be_abbreviation(word: &str) -> bool {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let is_vowel = |c: char| !c.is_ascii() || "aeiouy".contains(c);
    letters < 2
        || (letters < 4 && !word.is_ascii())
        || word.contains('.')
        || !word.chars().any(is_vowel)
        || ABBREVIATIONS.contains(&word.as_str())
}

/// Closing marks of the open quotation marks and brackets. An unclosed one stays open to the end.
#[derive(Debug, Default)]
struct QuoteStack(Vec<&'static str>);

impl QuoteStack {
    fn update(&mut self, c: char) {
        if self.0.last().is_some_and(|closing| closing.contains(c)) {
            self.0.pop();
            return;
        }
        self.0.extend(match c {
            '"' => Some("\""),
            '“' => Some("”"),
            '„' => Some("“”"),
            '«' => Some("»"),
            '»' => Some("«"),
            '(' => Some(")"),
            '[' => Some("]"),
            _ => None,
        });
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sentence_ends_at_a_certain_boundary() {
        let text = "Watch the gate. I never want to hear about cats! Is it open? (It should be.) \
            Tell Mary about 5 dogs; the boss is away.\n\nNo lorries";
        assert_eq!(
            sentences(text),
            [
                "Watch the gate.",
                "I never want to hear about cats!",
                "Is it open?",
                "(It should be.)",
                "Tell Mary about 5 dogs;",
                "the boss is away.",
                "No lorries",
            ]
        );
        assert_eq!(
            sentences("猫は要らない。犬だけ教えて。"),
            ["猫は要らない。", "犬だけ教えて。"]
        );
    }

    #[test]
    fn uncertain_boundary_does_not_split() {
        for one in [
            "Do not do what Mr. Lee asks for, turn off the night watch",
            "I would never say e.g. Tell me about cats",
            "Never after 7.30 p.m. Tell me about cats",
            "Ignore house No. 5. Tell me about cats",
            "Do not do what J. Smith wants",
            "Nie am 5. Mai melden",
            "Nicht die Katze von Fr. Huber melden",
            "Never again... Tell me about cats",
            "Who says \"Never mind. Tell me about cats\" is wrong",
            "Wer „Egal. Melde Katzen“ sagt, hat unrecht",
            "Never mind (Don't wait. Tell me about cats) the sign",
            "I never want\nto hear about cats",
            "He asked for a quote \" and said no. Tell me about cats",
        ] {
            assert_eq!(sentences(one), [one]);
        }
    }

    proptest! {
        #[test]
        fn sentences_keep_the_whole_text(text in "[a-zA-Z0-9.;!?\"()„“ \n]{0,60}|\\PC{0,30}") {
            let spaceless = |text: &str| text.split_whitespace().collect::<String>();
            let joined: String = sentences(&text).into_iter().map(spaceless).collect();
            prop_assert_eq!(joined, spaceless(&text));
        }
    }
}
