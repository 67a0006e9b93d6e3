//! What no request can have here: sound, identity and looks of people, written text, advice.
//!
//! - Each answer says what cannot be done and what can.
//! - A word in a name of this box, or in a class of its models, is none of these.

use crate::lexicon::Lexicon;
use crate::names;
use crate::reader::Reader;
use crate::scene::Scene;

const SOUND: &[&str] = &[
    "talking about",
    "conversation|conversations|audio|microphone",
    "hear|hears|heard|listen|listens|shouting|shouts|screams|screaming|barking|barks",
    "what|which somebody|someone|people|they is|are? say|says|saying",
    "noise|noises",
    "sound|sounds of|from",
];
const WHO: &[&str] = &[
    "face|faces recognition|recognise|recognize|recognised|recognized",
    "recognise|recognize|identify|identifies his|her|their|the? face|faces|man|woman|person",
    "name of the man|woman|person|visitor|driver",
];
const REMINDS: &[&str] = &["remind me|us to|of|at|in|on|tomorrow|later|every|again"];
const LOOKS: &[&str] = &[
    "red|blue|green|yellow|black|white|grey|gray|orange|brown|pink|purple|dark|light|blonde|blond? jacket|jackets|coat|coats|shirt|t-shirt|hoodie|hoodies|hood|cap|hat|hats|\
     dress|skirt|trousers|jeans|uniform|uniforms|overalls|mask|masks|balaclava|sunglasses|glasses|sweater|jumper|beard|hair|clothes|clothing|outfit",
];
const WRITTEN: &[&str] = &[
    "number|licence|license|registration|car plate|plates",
    "plate|plates number|numbers|log|reader|recognition",
    "read|reads|reading text|writing|writings|sign|signs|label|labels|numbers|display|meter",
];

/// Words of a request that ask for something of the kind, and what is said to it. Of what is asked
/// and not requested only sound: the rest of a question has an answer of its own.
pub(crate) fn beyond(
    r: &Reader,
    is_asked: bool,
    scene: &Scene,
    lexicon: &Lexicon,
) -> Option<(String, &'static str)> {
    let kinds: [(&[&str], &str); 5] = [
        (
            SOUND,
            "I cannot hear anything: there is no sound here, only pictures. I can tell when people, vehicles or other things are seen, enter, leave, stay, or cross a line.",
        ),
        (
            WHO,
            "I do not identify people. I can tell when somebody is there, enters, leaves, stays, or crosses a line.",
        ),
        (
            REMINDS,
            "I do not remind anybody of what is to be done. I can tell when people, vehicles or other things are seen, enter, leave, stay, or cross a line.",
        ),
        (
            LOOKS,
            "By my own rules I cannot see what somebody wears or looks like. I can tell when somebody is there, enters, leaves, stays, or crosses a line.",
        ),
        (
            WRITTEN,
            "By my own rules I cannot read what is written in a picture, such as number plates; a workflow with a model that reads text can (`watchkeeper workflow`), and a language \
             model can set one up. I can tell when vehicles are seen, enter, leave, stay, or cross a line.",
        ),
    ];
    let mut named = r.clone();
    drop(names::pipelines(&mut named, scene));
    drop(names::cameras(&mut named, scene, lexicon));
    let kinds = kinds.into_iter().take(if is_asked { 1 } else { 5 });
    let mut found = kinds.filter_map(|(patterns, text)| {
        let found = named.find(patterns)?;
        // Where a model knows them, number plates are things like any other.
        let mut rest = named.clone();
        let is_class = names::classes(&mut rest, scene, lexicon)
            .iter()
            .any(|m| m.at.start == found.at.start && m.at.end >= found.at.end);
        (!is_class).then(|| (r.written(found.at), text))
    });
    found.next()
}
