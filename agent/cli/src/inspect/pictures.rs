//! Checks what depends on a camera's pictures: lines and zones within them, and masked classes.

use std::collections::{BTreeMap, BTreeSet};

use watchkeeper_config::address::Address;
use watchkeeper_config::{ConfigError, Findings};
use watchkeeper_contract::pipeline::{PipelineSpec, WarningKind};
use watchkeeper_contract::privacy::PrivacyMask;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_engine::deploy::{self, ModelFacts, Plan};

use super::finding::error;

/// The size of a source's pictures, where the configuration decides it.
pub(super) fn known_size(source: &SourceSpec) -> Option<[u32; 2]> {
    source.scale.or(match Address::parse(&source.uri) {
        Ok(Address::Demo(options)) => Some([options.width, options.height]),
        _ => None,
    })
}

/// Checks that lines and zones lie in pictures of this size.
pub(super) fn check_bounds(
    spec: &PipelineSpec,
    plan: &Plan,
    size: Option<[u32; 2]>,
    findings: &mut Findings,
) {
    let Some(size) = size else {
        return;
    };
    let places = [plan.compiled.overlays(), plan.compiled.filter_zones()].concat();
    for warning in deploy::outside(&places, size) {
        let key = format!("pipelines.{}.workflow", spec.id);
        match warning.kind {
            WarningKind::OutsidePicture => {
                findings.errors.push(error(key, None, warning.message));
            }
            _ => findings.notes.push(format!("{key}: {}", warning.message)),
        }
    }
}

/// The masked classes that no model of a pipeline knows: its pictures are black then.
pub(super) fn unseen_classes(
    spec: &PipelineSpec,
    facts: &BTreeMap<String, ModelFacts>,
    mask: &PrivacyMask,
) -> Vec<ConfigError> {
    let labels: BTreeSet<&String> = facts.values().flat_map(|facts| &facts.labels).collect();
    let unseen = mask.classes.iter().filter(|class| !labels.contains(class));
    let unseen = unseen.filter(|_| !labels.is_empty()).map(|class| {
        let problem = format!(
            "no model of pipeline {} knows this class, so its pictures are black",
            spec.id
        );
        let key = format!("sources.{}.privacy.classes", mask.source);
        let known: Vec<&str> = labels.iter().map(|label| label.as_str()).collect();
        let error = error(key, Some(class.clone()), problem);
        error.allowed(known.join(", "))
    });
    unseen.collect()
}
