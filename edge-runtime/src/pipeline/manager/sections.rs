//! Merges the configuration file with what users deployed, paused and stopped since.
//!
//! - Sans-IO: [`plan_start`] takes file and store, and returns what should exist.
//! - The latest change wins: a deployment, pause, resume or deletion overrides a section until that
//!   section is edited. An edit wins over them, and removes them from the store; so does the
//!   removal of the section.
//! - A section that can't be read was not edited. Neither does an update of the program edit one:
//!   its fingerprint stays.

use std::collections::BTreeMap;

use crate::guard::fingerprint;
use crate::journal::{Kind, LastIntent, StoredSpec, UserIntent};

/// Note of a specification that overrides a readable section.
const NOTE_OVERRIDES: &str =
    "deployed in place of its section in the configuration file, until that section is edited";

/// Note of a specification that overrides an unreadable section.
const NOTE_OVERRIDES_UNREADABLE: &str = "deployed in place of its section in the configuration file, which is missing or invalid; \
     run `watchkeeper config check`";

/// A section of the configuration file.
#[derive(Debug, Clone, PartialEq)]
struct Section<S> {
    /// Fingerprint of its last readable content.
    fingerprint: String,
    /// Content of the section; `None` if it can't be read or is gone.
    spec: Option<S>,
    /// Whether a deployment overrides it.
    is_replaced: bool,
}

/// The sections of one kind, by name.
#[derive(Debug)]
pub(super) struct Sections<S: Kind>(BTreeMap<S::Id, Section<S>>);

impl<S: Kind> Default for Sections<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: Kind> Sections<S> {
    /// The fingerprint of the section of this name, if the file has one.
    pub(super) fn fingerprint(&self, id: &S::Id) -> Option<String> {
        self.0.get(id).map(|section| section.fingerprint.clone())
    }

    /// The content of the section, if it can be read.
    pub(super) fn spec(&self, id: &S::Id) -> Option<S> {
        self.0.get(id)?.spec.clone()
    }

    /// Sets whether a deployment overrides the section.
    pub(super) fn replace(&mut self, id: &S::Id, is_replaced: bool) {
        if let Some(section) = self.0.get_mut(id) {
            section.is_replaced = is_replaced;
        }
    }

    /// The note about the origin of a specification.
    pub(super) fn note(&self, id: &S::Id) -> Option<&'static str> {
        let section = self.0.get(id).filter(|section| section.is_replaced)?;
        Some(if section.spec.is_some() {
            NOTE_OVERRIDES
        } else {
            NOTE_OVERRIDES_UNREADABLE
        })
    }

    /// A user's intent about the section of this name, if the file has one.
    pub(super) fn intent(
        &self,
        id: &S::Id,
        intent: UserIntent,
        at_ms: i64,
    ) -> Option<LastIntent<S::Id>> {
        Some(LastIntent {
            id: id.clone(),
            fingerprint: self.fingerprint(id)?,
            intent,
            at_ms,
        })
    }
}

/// A specification that should exist.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WantedSpec<S> {
    pub(super) spec: S,
    /// The last intent about it, with its time in Unix milliseconds.
    pub(super) intent: Option<(UserIntent, i64)>,
}

/// Objects that should exist after a start.
#[derive(Debug)]
pub(super) struct StartPlan<S: Kind> {
    pub(super) wanted: BTreeMap<S::Id, WantedSpec<S>>,
    pub(super) sections: Sections<S>,
    /// Stored specifications whose section was edited.
    pub(super) stale_specs: Vec<S::Id>,
    /// Intents about sections that were edited.
    pub(super) stale_intents: Vec<S::Id>,
}

/// Merges the file with stored specifications and intents. `is_gone` distinguishes a removed
/// section from an unreadable one.
pub(super) fn plan_start<S: Kind>(
    file: &[S],
    is_gone: &dyn Fn(&S::Id) -> bool,
    stored: Vec<StoredSpec<S>>,
    intents: Vec<LastIntent<S::Id>>,
) -> StartPlan<S> {
    let mut plan = StartPlan {
        wanted: BTreeMap::new(),
        sections: Sections::default(),
        stale_specs: Vec::new(),
        stale_intents: Vec::new(),
    };
    for spec in file {
        plan.add_section(spec);
    }
    for stored in stored {
        plan.add_stored(stored, is_gone);
    }
    for intent in intents {
        plan.add_intent(intent, is_gone);
    }
    plan
}

impl<S: Kind> StartPlan<S> {
    fn add_section(&mut self, spec: &S) {
        let section = Section {
            fingerprint: fingerprint(spec),
            spec: Some(spec.clone()),
            is_replaced: false,
        };
        self.sections.0.insert(spec.id().clone(), section);
        let spec = spec.clone();
        let wanted = WantedSpec { spec, intent: None };
        self.wanted.insert(wanted.spec.id().clone(), wanted);
    }

    /// Adds a stored specification, unless the section that it overrides was edited or removed.
    fn add_stored(
        &mut self,
        StoredSpec { spec, over }: StoredSpec<S>,
        is_gone: &dyn Fn(&S::Id) -> bool,
    ) {
        let id = spec.id().clone();
        let Sections(sections) = &mut self.sections;
        match (sections.get_mut(&id), over) {
            (Some(section), Some(over)) if section.fingerprint == over => {
                section.is_replaced = true;
            }
            (Some(_), _) => {
                self.stale_specs.push(id);
                return;
            }
            (None, Some(_)) if is_gone(&id) => {
                self.stale_specs.push(id);
                return;
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
        self.wanted.insert(id, WantedSpec { spec, intent: None });
    }

    /// Adds a user's intent, unless its section was edited or removed.
    fn add_intent(&mut self, intent: LastIntent<S::Id>, is_gone: &dyn Fn(&S::Id) -> bool) {
        let Sections(sections) = &mut self.sections;
        if !sections.contains_key(&intent.id) && is_gone(&intent.id) {
            self.stale_intents.push(intent.id);
            return;
        }
        let section = sections
            .entry(intent.id.clone())
            .or_insert_with(|| Section {
                fingerprint: intent.fingerprint.clone(),
                spec: None,
                is_replaced: false,
            });
        if section.fingerprint != intent.fingerprint {
            self.stale_intents.push(intent.id);
        } else if let Some(wanted) = self.wanted.get_mut(&intent.id) {
            wanted.intent = Some((intent.intent, intent.at_ms));
        }
    }
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

    /// Merges if no section was removed.
    fn plan_start(
        file: &[SourceSpec],
        stored: Vec<StoredSpec<SourceSpec>>,
        intents: Vec<LastIntent<SourceId>>,
    ) -> StartPlan<SourceSpec> {
        super::plan_start(file, &|_| false, stored, intents)
    }

    fn at(uri: &str) -> SourceSpec {
        serde_json::from_value(json!({"id": "gate", "uri": uri})).unwrap()
    }

    fn deployed(uri: &str, over: Option<&SourceSpec>) -> Vec<StoredSpec<SourceSpec>> {
        let over = over.map(fingerprint);
        vec![StoredSpec {
            spec: at(uri),
            over,
        }]
    }

    fn intent_about(intent: UserIntent, about: &SourceSpec) -> Vec<LastIntent<SourceId>> {
        vec![LastIntent {
            id: id(),
            fingerprint: fingerprint(about),
            intent,
            at_ms: 7,
        }]
    }

    fn uri(plan: &StartPlan<SourceSpec>) -> Option<&str> {
        plan.wanted.get(&id()).map(|w| w.spec.uri.as_str())
    }

    #[test]
    fn deployment_overrides_section_until_it_is_edited() {
        let file = at("a");
        let same = plan_start(
            std::slice::from_ref(&file),
            deployed("b", Some(&file)),
            vec![],
        );
        assert_eq!(uri(&same), Some("b"));
        assert_eq!(same.sections.note(&id()), Some(NOTE_OVERRIDES));
        assert_eq!(same.stale_specs, []);

        let edited = plan_start(&[at("c")], deployed("b", Some(&file)), vec![]);
        assert_eq!(uri(&edited), Some("c"));
        assert_eq!(edited.sections.note(&id()), None);
        // Otherwise it would run again as soon as the section has a mistake.
        assert_eq!(edited.stale_specs, [id()]);
    }

    #[test]
    fn unreadable_section_keeps_its_deployment() {
        let file = at("a");
        let broken = plan_start(&[], deployed("b", Some(&file)), vec![]);
        assert_eq!(uri(&broken), Some("b"));
        assert_eq!(broken.sections.note(&id()), Some(NOTE_OVERRIDES_UNREADABLE));
        // A deployment still overrides the section as it was.
        assert_eq!(broken.sections.fingerprint(&id()), Some(fingerprint(&file)));
    }

    #[test]
    fn removed_section_takes_its_deployment_along() {
        let file = at("a");
        let intents = intent_about(UserIntent::Pause, &file);
        let gone = super::plan_start(&[], &|_| true, deployed("b", Some(&file)), intents);
        assert_eq!(uri(&gone), None);
        assert_eq!(
            (&gone.stale_specs, &gone.stale_intents),
            (&vec![id()], &vec![id()])
        );
        assert_eq!(gone.sections.fingerprint(&id()), None);
        // One that never had a section overrides none.
        let added = super::plan_start(&[], &|_| true, deployed("b", None), vec![]);
        assert_eq!(uri(&added), Some("b"));
    }

    #[test]
    fn new_section_wins_over_older_deployment() {
        let plan = plan_start(&[at("a")], deployed("b", None), vec![]);
        assert_eq!(uri(&plan), Some("a"));
        assert_eq!(plan.stale_specs, [id()]);
        assert_eq!(
            uri(&plan_start(&[], deployed("b", None), vec![])),
            Some("b")
        );
    }

    #[test]
    fn intent_holds_until_the_section_is_edited() {
        let file = at("a");
        let same = plan_start(
            std::slice::from_ref(&file),
            vec![],
            intent_about(UserIntent::Stop, &file),
        );
        assert_eq!(same.wanted[&id()].intent, Some((UserIntent::Stop, 7)));

        let edited = plan_start(&[at("c")], vec![], intent_about(UserIntent::Stop, &file));
        assert_eq!(edited.wanted[&id()].intent, None);
        assert_eq!(edited.stale_intents, [id()]);

        let broken = plan_start(&[], vec![], intent_about(UserIntent::Stop, &file));
        assert_eq!((uri(&broken), &broken.stale_intents[..]), (None, &[][..]));
    }

    #[test]
    fn intent_also_applies_to_the_deployment() {
        let file = at("a");
        let plan = plan_start(
            std::slice::from_ref(&file),
            deployed("b", Some(&file)),
            intent_about(UserIntent::Pause, &file),
        );
        let wanted = &plan.wanted[&id()];
        assert_eq!(
            (wanted.spec.uri.as_str(), wanted.intent),
            ("b", Some((UserIntent::Pause, 7)))
        );
    }

    #[test]
    fn program_update_is_no_edit() {
        // A new field must not be serialised while it has its default. That would change the
        // fingerprint of every section and remove all deployments over them.
        let pipeline: PipelineSpec = serde_json::from_value(json!({
            "id": PipelineId::new("p").unwrap(), "source": "gate", "workflow": {"version": "1.0"},
        }))
        .unwrap();
        assert_eq!(fingerprint(&pipeline), "2:07e7b7d4cea5a958d8bfc8edd50360f8");
        assert_eq!(fingerprint(&at("a")), "2:8e989e257b4d162bef5fa584a9d57cbc");

        // With everything that the file can contain, for fields added inside.
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
    fn order_of_keys_is_no_edit() {
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
