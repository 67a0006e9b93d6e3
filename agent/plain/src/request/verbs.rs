//! Verbs of watching and counting, and words of a request that say nothing of what is watched for.

use crate::lexicon::VerbKind;
use crate::names;
use crate::reader::{Reader, one_of};

/// Takes words that say nothing of what is watched for.
pub(super) fn take_courtesies(r: &mut Reader<'_>) {
    r.take_all(&r.lexicon.phrases.courtesies);
    // `the second a lorry turns up`, `once a person enters`
    const SOON: &str = "the? second|moment|minute|instant|once a|an|any|someone|somebody|anyone|anybody|it|they|people";
    while let Some(found) = r.find(&[SOON]) {
        r.mark(found.at.start..found.at.end - 1);
    }
}

/// Marks `abandoned` before a class, and says whether it stands there.
pub(super) fn take_abandoned(r: &mut Reader<'_>) -> bool {
    r.mark_where(|r, i| one_of("unattended|abandoned", r.word(i)) && names::class_begins(r, i + 1))
}

/// Whether a verb of watching and one of counting stood there; all of them are used.
pub(super) fn verbs(r: &mut Reader<'_>) -> (bool, bool) {
    let lexicon = r.lexicon;
    // `at the counter` and `parking spot` are places, and `Watch tower` a camera where there is
    // one.
    let nouns = (1..r.tokens.len()).filter(|i| match r.word(*i) {
        "counter" => one_of("the|our|my|at", r.before(*i)),
        "spot" => one_of("the|my|our|parking", r.before(*i)),
        _ => false,
    });
    let names: Vec<usize> = nouns
        .chain(names::camera_spots(r).into_iter().flat_map(|(at, _)| at))
        .collect();
    r.hiding(&names, |r| {
        let mut take = |kind| {
            let takes = |any, verb| r.take_all(&[verb]) | any;
            lexicon.verbs(&[kind]).fold(false, takes)
        };
        let counted = take(VerbKind::Count);
        let told = take(VerbKind::Watch);
        r.take_all(&["message|messages|msg with?"]);
        if counted {
            r.take_all(&["how many", "the? number of"]);
        }
        (told, counted)
    })
}
