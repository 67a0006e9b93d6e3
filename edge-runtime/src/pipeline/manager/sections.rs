//! What the configuration file names, and what was deployed or said over it since.
//!
//! Sans-IO: [`settle`] takes what the file says and what was stored, and answers what shall be there. Invariants: the latest word holds. What a
//! person deployed, paused, resumed or deleted stands over a section of the file until that section is edited; an edited section wins, and what
//! stood over it is forgotten, so that it can't come back later; a section that can't be read just now was not edited, and an update of the program edits
//! none: what has a fingerprint of another version is taken for the same, and gets a new one.

use std::collections::BTreeMap;

use crate::guard::{fingerprint, is_of_another_version};
use crate::journal::{Kept, Kind, LastWord, Word};

/// What a status says of a specification that stands over a section that can be read.
const OVER: &str =
    "deployed in place of its section in the configuration file, until that section is edited";

/// The same where the section can't be read.
const OVER_UNREAD: &str = "deployed in place of its section in the configuration file, which can't be used or is not there any more; \
     `watchkeeper config check` says what is wrong with it";

/// A section of the file.
#[derive(Debug, Clone, PartialEq)]
struct Section<S> {
    /// Of what it said when it could last be read.
    fingerprint: String,
    /// What it says; nothing where it can't be read now, or is not there any more.
    spec: Option<S>,
    /// Whether something was deployed in its place.
    is_replaced: bool,
}

/// The sections of one sort, by name.
#[derive(Debug)]
pub(super) struct Sections<S: Kind>(BTreeMap<S::Id, Section<S>>);

impl<S: Kind> Default for Sections<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: Kind> Sections<S> {
    /// The fingerprint of the section of this name, where the file has one.
    pub(super) fn fingerprint(&self, id: &S::Id) -> Option<String> {
        self.0.get(id).map(|section| section.fingerprint.clone())
    }

    /// What the file says, where it can be read.
    pub(super) fn spec(&self, id: &S::Id) -> Option<S> {
        self.0.get(id)?.spec.clone()
    }

    /// Something was deployed in the place of the section, or no longer is.
    pub(super) fn replace(&mut self, id: &S::Id, is_replaced: bool) {
        if let Some(section) = self.0.get_mut(id) {
            section.is_replaced = is_replaced;
        }
    }

    /// What a person should know about where a specification comes from.
    pub(super) fn note(&self, id: &S::Id) -> Option<&'static str> {
        let section = self.0.get(id).filter(|section| section.is_replaced)?;
        Some(if section.spec.is_some() {
            OVER
        } else {
            OVER_UNREAD
        })
    }

    /// A person's word about the section of this name, where the file has one.
    pub(super) fn word(&self, id: &S::Id, word: Word, at_ms: i64) -> Option<LastWord<S::Id>> {
        Some(LastWord {
            id: id.clone(),
            fingerprint: self.fingerprint(id)?,
            word,
            at_ms,
        })
    }
}

/// Something that shall be there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted<S> {
    pub(super) spec: S,
    /// The last word about it, and when it was said: Unix milliseconds, UTC.
    pub(super) word: Option<(Word, i64)>,
}

/// What shall be there after a start.
#[derive(Debug)]
pub(super) struct Settled<S: Kind> {
    pub(super) wanted: BTreeMap<S::Id, Wanted<S>>,
    pub(super) sections: Sections<S>,
    /// Stored specifications whose section was edited since.
    pub(super) stale_specs: Vec<S::Id>,
    /// Words about sections that were edited since.
    pub(super) stale_words: Vec<S::Id>,
    /// What stands over a section by a fingerprint of another version: to be stored with that of today.
    pub(super) renewed_specs: Vec<Kept<S>>,
    /// The same of words.
    pub(super) renewed_words: Vec<LastWord<S::Id>>,
}

/// Brings together what the file says and what was deployed and said before.
pub(super) fn settle<S: Kind>(
    file: &[S],
    stored: Vec<Kept<S>>,
    words: Vec<LastWord<S::Id>>,
) -> Settled<S> {
    let mut settled = Settled {
        wanted: BTreeMap::new(),
        sections: Sections::default(),
        stale_specs: Vec::new(),
        stale_words: Vec::new(),
        renewed_specs: Vec::new(),
        renewed_words: Vec::new(),
    };
    let Sections(sections) = &mut settled.sections;
    for spec in file {
        let section = Section {
            fingerprint: fingerprint(spec),
            spec: Some(spec.clone()),
            is_replaced: false,
        };
        sections.insert(spec.id().clone(), section);
        let spec = spec.clone();
        let wanted = Wanted { spec, word: None };
        settled.wanted.insert(wanted.spec.id().clone(), wanted);
    }
    for Kept { spec, over } in stored {
        let id = spec.id().clone();
        match (sections.get_mut(&id), over) {
            (Some(section), Some(over)) if section.fingerprint == over => {
                section.is_replaced = true;
            }
            (Some(section), Some(over)) if is_of_another_version(&over) => {
                section.is_replaced = true;
                settled.renewed_specs.push(Kept {
                    spec: spec.clone(),
                    over: Some(section.fingerprint.clone()),
                });
            }
            (Some(_), _) => {
                settled.stale_specs.push(id);
                continue;
            }
            (None, Some(fingerprint)) => {
                let section = Section {
                    fingerprint,
                    spec: None,
                    is_replaced: true,
                };
                sections.insert(id.clone(), section);
            }
            (None, None) => {}
        }
        settled.wanted.insert(id, Wanted { spec, word: None });
    }
    for mut word in words {
        let section = sections.entry(word.id.clone()).or_insert_with(|| Section {
            fingerprint: word.fingerprint.clone(),
            spec: None,
            is_replaced: false,
        });
        if section.spec.is_some() && is_of_another_version(&word.fingerprint) {
            word.fingerprint.clone_from(&section.fingerprint);
            settled.renewed_words.push(word.clone());
        }
        if section.fingerprint != word.fingerprint {
            settled.stale_words.push(word.id);
        } else if let Some(wanted) = settled.wanted.get_mut(&word.id) {
            wanted.word = Some((word.word, word.at_ms));
        }
    }
    settled
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;
    use watchkeeper_contract::id::{PipelineId, SourceId};
    use watchkeeper_contract::pipeline::PipelineSpec;
    use watchkeeper_contract::source::SourceSpec;

    use super::*;

    fn id() -> SourceId {
        SourceId::new("gate").unwrap()
    }

    fn at(uri: &str) -> SourceSpec {
        serde_json::from_value(json!({"id": "gate", "uri": uri})).unwrap()
    }

    fn deployed(uri: &str, over: Option<&SourceSpec>) -> Vec<Kept<SourceSpec>> {
        let over = over.map(fingerprint);
        vec![Kept {
            spec: at(uri),
            over,
        }]
    }

    fn said(word: Word, about: &SourceSpec) -> Vec<LastWord<SourceId>> {
        vec![LastWord {
            id: id(),
            fingerprint: fingerprint(about),
            word,
            at_ms: 7,
        }]
    }

    fn uri(settled: &Settled<SourceSpec>) -> Option<&str> {
        settled.wanted.get(&id()).map(|w| w.spec.uri.as_str())
    }

    #[test]
    fn what_was_deployed_over_a_section_holds_until_the_section_is_edited() {
        let file = at("a");
        let same = settle(
            std::slice::from_ref(&file),
            deployed("b", Some(&file)),
            vec![],
        );
        assert_eq!(uri(&same), Some("b"));
        assert_eq!(same.sections.note(&id()), Some(OVER));
        assert_eq!(same.stale_specs, []);

        let edited = settle(&[at("c")], deployed("b", Some(&file)), vec![]);
        assert_eq!(uri(&edited), Some("c"));
        assert_eq!(edited.sections.note(&id()), None);
        // Or it would run again as soon as the section has a mistake.
        assert_eq!(edited.stale_specs, [id()]);
    }

    #[test]
    fn a_section_that_can_not_be_read_leaves_what_was_deployed_in_its_place() {
        let file = at("a");
        let broken = settle(&[], deployed("b", Some(&file)), vec![]);
        assert_eq!(uri(&broken), Some("b"));
        assert_eq!(broken.sections.note(&id()), Some(OVER_UNREAD));
        // What is deployed now still stands over the section as it was.
        assert_eq!(broken.sections.fingerprint(&id()), Some(fingerprint(&file)));
    }

    #[test]
    fn a_section_is_newer_than_what_was_deployed_before_there_was_one() {
        let settled = settle(&[at("a")], deployed("b", None), vec![]);
        assert_eq!(uri(&settled), Some("a"));
        assert_eq!(settled.stale_specs, [id()]);
        assert_eq!(uri(&settle(&[], deployed("b", None), vec![])), Some("b"));
    }

    #[test]
    fn a_word_holds_until_the_section_is_edited() {
        let file = at("a");
        let same = settle(std::slice::from_ref(&file), vec![], said(Word::Stop, &file));
        assert_eq!(same.wanted[&id()].word, Some((Word::Stop, 7)));

        let edited = settle(&[at("c")], vec![], said(Word::Stop, &file));
        assert_eq!(edited.wanted[&id()].word, None);
        assert_eq!(edited.stale_words, [id()]);

        let broken = settle(&[], vec![], said(Word::Stop, &file));
        assert_eq!((uri(&broken), &broken.stale_words[..]), (None, &[][..]));
    }

    #[test]
    fn a_word_about_a_section_is_also_one_about_what_was_deployed_over_it() {
        let file = at("a");
        let settled = settle(
            std::slice::from_ref(&file),
            deployed("b", Some(&file)),
            said(Word::Pause, &file),
        );
        let wanted = &settled.wanted[&id()];
        assert_eq!(
            (wanted.spec.uri.as_str(), wanted.word),
            ("b", Some((Word::Pause, 7)))
        );
    }

    #[test]
    fn an_update_of_the_program_does_not_count_as_an_edit() {
        // A new field must not be written while it has its default: it would change the fingerprint of every section, and what was deployed over
        // them would be gone with the update.
        let pipeline: PipelineSpec = serde_json::from_value(json!({
            "id": PipelineId::new("p").unwrap(), "source": "gate", "workflow": {"version": "1.0"},
        }))
        .unwrap();
        assert_eq!(fingerprint(&pipeline), "2:07e7b7d4cea5a958d8bfc8edd50360f8");
        assert_eq!(fingerprint(&at("a")), "2:8e989e257b4d162bef5fa584a9d57cbc");

        // With everything in it that the file can say, for what is added inside.
        let conditions = [
            json!({"kind": "appears", "detections": "$steps.t.tracked_detections"}),
            json!({"kind": "enters", "zone": "z"}),
            json!({"kind": "leaves", "zone": "z"}),
            json!({"kind": "stays", "zone": "z", "for_s": 2.0}),
            json!({"kind": "crosses", "line": "l"}),
            json!({"kind": "count", "detections": "$steps.t.tracked_detections", "bound": {"over": 2}}),
            json!({"kind": "value", "value": "$steps.e.output", "test": {"is": true}}),
        ];
        let rule = |condition: &serde_json::Value| {
            json!({
                "name": "r", "when": condition, "classes": ["person"],
                "confidence": {"min": 0.5, "max": 0.9},
                "schedule": {"days": ["mon"], "from": "08:00", "to": "17:00"},
            })
        };
        let rules: Vec<_> = conditions.iter().map(rule).collect();
        let pipeline: PipelineSpec = serde_json::from_value(json!({
            "id": "p", "source": "gate", "workflow": {"version": "1.0"}, "parameters": {"a": 1}, "model": "motion",
            "rules": rules, "detect": {"mode": "on_motion"}, "stop_after_s": 5.0,
        }))
        .unwrap();
        assert_eq!(fingerprint(&pipeline), "2:ba33d667b3a5da1136153999e3e7fc6f");
        let source: SourceSpec = serde_json::from_value(json!({
            "id": "gate", "uri": "rtsp://camera/1", "pace": "native", "max_fps": 5.0, "stall_s": 60.0,
        }))
        .unwrap();
        assert_eq!(fingerprint(&source), "2:e8b42a25df3489594bcddef4b394d963");
    }

    #[test]
    fn a_fingerprint_of_another_version_is_taken_for_the_same_and_renewed() {
        let file = at("a");
        let stored = vec![Kept {
            spec: at("b"),
            over: Some("7726730e3a008421aa212ae881ee2445".to_owned()),
        }];
        let mut word = said(Word::Pause, &file);
        let today = word.clone();
        word[0].fingerprint = "7726730e3a008421aa212ae881ee2445".to_owned();
        let settled = settle(std::slice::from_ref(&file), stored, word);
        assert_eq!(uri(&settled), Some("b"));
        assert_eq!(settled.wanted[&id()].word, Some((Word::Pause, 7)));
        assert!(settled.stale_specs.is_empty() && settled.stale_words.is_empty());
        assert_eq!(settled.renewed_specs, deployed("b", Some(&file)));
        assert_eq!(settled.renewed_words, today);
    }

    #[test]
    fn the_order_of_keys_is_no_edit() {
        let pipeline = |workflow: &str| {
            let text = format!(r#"{{"id": "p", "source": "gate", "workflow": {workflow}}}"#);
            serde_json::from_str::<PipelineSpec>(&text).unwrap()
        };
        let one = fingerprint(&pipeline(r#"{"version": "1.0", "steps": []}"#));
        assert_eq!(
            one,
            fingerprint(&pipeline(r#"{"steps": [], "version": "1.0"}"#))
        );
        assert_ne!(
            one,
            fingerprint(&pipeline(r#"{"version": "1.0", "steps": [1]}"#))
        );
    }
}
