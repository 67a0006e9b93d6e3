//! The whole sentences of a message, for what may only be quoted whole: a part of a sentence may say the opposite of all of it.
//!
//! Invariant: what is given out is no part of a sentence. Where a boundary of the Unicode standard (UAX 29) is in doubt (after an abbreviation, an initial,
//! a number or dots that trail off, within quotation marks or brackets, at the end of a line) there is none, and two sentences are one.

use unicode_segmentation::UnicodeSegmentation as _;

/// Abbreviations that may stand before a name or a noun, in the languages that people here are likeliest to write. Those without a vowel and those with a
/// dot within are known by that.
const ABBREVIATIONS: &[&str] = &[
    "abs", "al", "apr", "approx", "art", "aug", "ave", "ca", "capt", "cf", "co", "col", "corp",
    "dec", "dept", "dic", "dipl", "ed", "ene", "est", "etc", "evtl", "exkl", "feb", "fig", "fri",
    "gen", "ggf", "gov", "hon", "inc", "incl", "ing", "inkl", "jan", "jul", "jun", "lieut", "mag",
    "maj", "mar", "max", "min", "mon", "no", "nos", "nov", "oct", "okt", "pres", "prof", "rev",
    "sat", "sen", "sep", "sept", "sun", "tel", "tue", "usw", "vol",
];

/// The sentences, in their order, without the space around them.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut begin = 0;
    let mut end = 0;
    let mut within = QuoteStack::default();
    for piece in text.split_sentence_bounds() {
        for (at, c) in piece.char_indices() {
            within.see(c);
            let after = end + at + c.len_utf8();
            let rest = text.get(after..).unwrap_or_default();
            // Not so for the standard; but what stands on its two sides could stand alone.
            if c == ';' && within.is_nothing() && !rest.starts_with(|c: char| !c.is_whitespace()) {
                all.extend(text.get(begin..after));
                begin = after;
            }
        }
        end += piece.len();
        let so_far = text.get(begin..end).unwrap_or_default();
        if within.is_nothing() && (piece.trim().is_empty() || is_whole(so_far)) {
            all.push(so_far);
            begin = end;
        }
    }
    all.extend(text.get(begin..));
    let trimmed = all.into_iter().map(str::trim);
    trimmed.filter(|sentence| !sentence.is_empty()).collect()
}

/// Whether what ends at a boundary of the standard is at its end without a doubt.
fn is_whole(so_far: &str) -> bool {
    let closes = |c: char| c.is_whitespace() || "\"'”’“»«)]".contains(c);
    let so_far = so_far.trim_end_matches(closes);
    if so_far.ends_with(['!', '?', '。', '！', '？', '؟', '।']) {
        return true;
    }
    // Without a dot it is the end of a line.
    so_far.strip_suffix('.').is_some_and(|before| {
        let apart = |c: char| !c.is_alphanumeric() && !".'’".contains(c);
        let word = before.trim_end_matches(closes).rsplit(apart).next();
        !is_short(word.unwrap_or_default())
    })
}

/// Whether a dot behind this word may belong to the word.
fn is_short(word: &str) -> bool {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let is_vowel = |c: char| !c.is_ascii() || "aeiouy".contains(c);
    letters < 2
        || (letters < 4 && !word.is_ascii())
        || word.contains('.')
        || !word.chars().any(is_vowel)
        || ABBREVIATIONS.contains(&word.as_str())
}

/// The quotation marks and brackets that are open: for each, what closes it. One that nothing closes is open to the end of the text.
#[derive(Debug, Default)]
struct QuoteStack(Vec<&'static str>);

impl QuoteStack {
    fn see(&mut self, c: char) {
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

    fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sentence_ends_where_nobody_doubts_it() {
        let text = "Watch the gate. I never want to hear about cats! Is it open? (It should be.) Tell Mary about 5 dogs; the boss is away.\n\nNo lorries";
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
    fn a_doubt_keeps_together_what_may_belong_together() {
        for one in [
            "Do not do what Mr. Lee asks for, turn off the night watch",
            "I would never say e.g. Tell me about cats",
            "Never after 7.30 p.m. Tell me about cats",
            "Ignore house No. 5. Tell me about cats",
            "Do not do what J. Smith wants",
            "Nie am 5. Mai melden",
            "Nicht die Katze von Fr. Huber melden",
            "Never again... Tell me about cats",
            "Whoever says \"Never mind. Tell me about cats\" is wrong",
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
        fn nothing_of_a_text_is_lost(text in "[a-zA-Z0-9.;!?\"()„“ \n]{0,60}|\\PC{0,30}") {
            let spaceless = |text: &str| text.split_whitespace().collect::<String>();
            let joined: String = sentences(&text).into_iter().map(spaceless).collect();
            prop_assert_eq!(joined, spaceless(&text));
        }
    }
}
