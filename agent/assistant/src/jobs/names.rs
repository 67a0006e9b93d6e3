//! The names that requests may use, from what the runtime lists.

use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_jobs::KnownNames;

use crate::proposal::snapshot::DETECTION;

/// Returns the cameras, the classes of installed detectors, and the rules, zones and lines in
/// force.
pub fn known_names(
    sources: &[SourceStatus],
    models: &[ModelInfo],
    pipelines: &[PipelineStatus],
) -> KnownNames {
    let mut names = KnownNames::default();
    for source in sources {
        let name = source.spec.name.as_ref().map(|name| name.as_str());
        names.cameras.add(source.spec.id.as_str(), name);
    }
    let is_detector = |model: &&ModelInfo| {
        model.task == DETECTION && matches!(model.state, ModelState::Present { .. })
    };
    let detectors = models.iter().filter(is_detector);
    names.classes = detectors.flat_map(|model| model.labels.clone()).collect();
    for pipeline in pipelines {
        names.rules.extend(pipeline.rules.iter().cloned());
        let results = &pipeline.results;
        let zones = results.zones.keys().chain(results.lines.keys());
        names.zones.extend(zones.map(ToString::to_string));
    }
    names
}
