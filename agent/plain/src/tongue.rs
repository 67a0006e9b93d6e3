//! Detects German, which is answered before anything is understood.
//!
//! German begins like English: "Was ist denn da" has the past tense of "is" for its first word. The
//! words that hold sentences together tell the two languages apart.
//!
//! Invariant: English with a German name in it ("pause the camera am Tor") stays English.

use crate::token::Token;

/// Little words and verbs of German that are no words of English. Those that are both, such as
/// `was`, `die`, `in`, `war`, `so`, `am` and `hat`, are left out.
const GERMAN: [&str; 85] = [
    "aber",
    "alle",
    "alles",
    "auch",
    "auf",
    "aus",
    "bei",
    "beim",
    "bis",
    "bitte",
    "das",
    "dass",
    "dem",
    "den",
    "denn",
    "der",
    "dies",
    "diese",
    "dieser",
    "doch",
    "du",
    "ein",
    "eine",
    "einem",
    "einen",
    "einer",
    "etwas",
    "für",
    "gerade",
    "gestern",
    "gibt",
    "haben",
    "heute",
    "hier",
    "ich",
    "hund",
    "hunde",
    "ihr",
    "im",
    "ist",
    "jede",
    "jeden",
    "jemand",
    "jetzt",
    "kamera",
    "kameras",
    "kein",
    "keine",
    "kommt",
    "leute",
    "mehr",
    "melde",
    "mich",
    "mir",
    "mit",
    "morgen",
    "nach",
    "nacht",
    "nicht",
    "noch",
    "nur",
    "oder",
    "passiert",
    "pausiere",
    "personen",
    "sag",
    "schon",
    "sie",
    "sind",
    "stoppe",
    "uhr",
    "überwache",
    "und",
    "vom",
    "von",
    "vor",
    "wann",
    "warum",
    "wenn",
    "wer",
    "wie",
    "wo",
    "zähle",
    "zeig",
    "zum",
];

/// Words that hold English sentences together.
const ENGLISH: [&str; 48] = [
    "a", "and", "any", "are", "at", "be", "by", "camera", "count", "did", "do", "does", "for",
    "from", "has", "have", "how", "if", "is", "it", "me", "my", "of", "off", "on", "please",
    "resume", "show", "some", "somebody", "someone", "stop", "tell", "that", "the", "then",
    "there", "this", "to", "until", "watch", "were", "what", "when", "where", "who", "with", "you",
];

/// What is said to a request in German: that it was not understood, and how it can be.
pub(crate) const ONLY_ENGLISH: &str = "Ohne Sprachmodell verstehe ich nur Englisch und rate nicht, was gemeint ist. Bitte auf Englisch, zum Beispiel \
    \"pause the gate camera until 8 tomorrow\", \"what happened last night\" oder \"help\". \
    Mit einem Sprachmodell (Abschnitt [llm] der Konfiguration) geht es auch auf Deutsch.";

/// Whether a text is German.
pub(crate) fn is_german(tokens: &[Token]) -> bool {
    let among = |words: &[&str]| {
        let known = tokens.iter().filter(|t| words.contains(&t.text.as_str()));
        known.count()
    };
    let (german, english) = (among(&GERMAN), among(&ENGLISH));
    german >= 2 && german > english
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tokens;

    #[test]
    fn german_is_detected_by_its_function_words() {
        for text in [
            "Was ist denn da",
            "Was ist passiert?",
            "was war gestern nacht los",
            "Pausiere die Kamera am Tor bis morgen um acht Uhr.",
            "Sag mir, wenn jemand am Tor steht",
            "Wer ist da?",
            "Zähle die Autos auf der Einfahrt und melde mehr als fünf",
        ] {
            assert!(is_german(&tokens(text)), "{text}");
        }
    }

    #[test]
    fn english_is_not_taken_for_it_whatever_the_cameras_are_called() {
        for text in [
            "was somebody at the gate last night?",
            "Was ist",
            "what was that",
            "pause the camera am Tor until eight tomorrow",
            "tell me when a person is auf dem Hof",
            "Stop all pipelines.",
            "Safe opened -> clip with 5 s pre-roll + snapshot to #security.",
            "alert on people between 1 am and 5 am, and 10 am",
            "help",
            "",
        ] {
            assert!(!is_german(&tokens(text)), "{text}");
        }
    }

    #[test]
    fn no_word_is_in_both_lists() {
        assert!(GERMAN.iter().all(|word| !ENGLISH.contains(word)));
    }
}
