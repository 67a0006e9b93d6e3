//! The detectors of one pipeline, by model and by step.
//!
//! - A detector that compares a picture with earlier ones serves one step only; any other is shared
//!   by all steps that name its model.
//! - A model that does not fit a step or rule is rejected before the first frame.

use std::collections::BTreeMap;

use watchkeeper_contract::model::BackendChange;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineWarning};
use watchkeeper_contract::problem::Problem;
use watchkeeper_detect::{BackendInUse, Detector, DetectorInfo};
use watchkeeper_engine::deploy::{ModelFacts, fit};
use watchkeeper_engine::workflow::DetectRequest;
use watchkeeper_models::MOTION;

use super::change_events::change_of;
use crate::pipeline::plan::{self, Plan};

/// Opens the detector of a model by its name.
pub type Open<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Detector>, Problem>;

/// The models of a pipeline and the back ends that run them. It follows their changes.
#[derive(Debug, Clone, Default)]
pub struct ModelsInUse(Vec<(String, BackendInUse)>);

impl ModelsInUse {
    /// The models and their back ends, such as `yolox-nano on rten`; the motion detector has none.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        let models = self.0.iter().map(|(model, backend)| match model.as_str() {
            MOTION => format!("{MOTION} (built in)"),
            model => format!("{model} on {backend}"),
        });
        let mut names: Vec<String> = models.collect();
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The latest change of each back end.
    #[must_use]
    pub fn changes(&self) -> Vec<BackendChange> {
        let changes = self.0.iter().filter_map(|(_, backend)| backend.change());
        let mut changes: Vec<BackendChange> = changes.map(change_of).collect();
        changes.dedup();
        changes
    }
}

/// The detectors of one pipeline.
#[derive(Debug, Default)]
pub struct Detectors {
    by_model: BTreeMap<String, Box<dyn Detector>>,
    by_step: BTreeMap<String, Box<dyn Detector>>,
    /// Set when one model replaces every other.
    replacement: Option<String>,
    /// Settings that have no effect with these models.
    warnings: Vec<PipelineWarning>,
}

impl Detectors {
    /// Opens the detectors for the steps of `plan` with `open`.
    ///
    /// # Errors
    /// The problem that `open` returns, or one that names the step or the class of a rule that a
    /// model does not fit.
    pub fn open(spec: &PipelineSpec, plan: &Plan, open: Open<'_>) -> Result<Self, Problem> {
        let mut detectors = Self {
            replacement: spec.model.clone(),
            ..Self::default()
        };
        for model in models_of(spec, plan) {
            if !detectors.by_model.contains_key(model) {
                detectors.by_model.insert(model.clone(), open(model)?);
            }
        }
        let facts = detectors.by_model.iter();
        let facts: BTreeMap<String, ModelFacts> = facts
            .map(|(name, d)| (name.clone(), facts_of(d.info())))
            .collect();
        let found = fit(spec, plan, &facts);
        if !found.errors.is_empty() {
            return Err(plan::problem(found.errors));
        }
        detectors.warnings = found.warnings;
        for step in plan.compiled.detections() {
            let model = spec.model.as_ref().or(step.model.as_ref());
            if let Some(model) =
                model.filter(|m| facts.get(*m).is_some_and(|f| f.follows_one_picture))
            {
                detectors.by_step.insert(step.name, open(model)?);
            }
        }
        Ok(detectors)
    }

    /// Detectors by model, for unrelated pictures; `replacement` stands in for every other model.
    #[must_use]
    pub fn by_model(
        by_model: BTreeMap<String, Box<dyn Detector>>,
        replacement: Option<String>,
    ) -> Self {
        Self {
            by_model,
            replacement,
            ..Self::default()
        }
    }

    /// Settings that have no effect with these models.
    #[must_use]
    pub fn warnings(&self) -> &[PipelineWarning] {
        &self.warnings
    }

    /// The models and the back ends that run them.
    #[must_use]
    pub fn models(&self) -> ModelsInUse {
        let infos = self.by_model.values().map(|d| d.info());
        let models = infos.map(|info| (info.model.to_string(), info.backend.clone()));
        ModelsInUse(models.collect())
    }

    /// The classes that a model knows; empty for a model without classes. `None` for a model that
    /// is not open.
    #[must_use]
    pub fn classes(&self, model: &str) -> Option<Vec<String>> {
        let info = self.by_model.get(model)?.info();
        let labels = info.labels.iter().map(ToString::to_string);
        Some(if info.knows_classes {
            labels.collect()
        } else {
            Vec::new()
        })
    }

    /// The model that serves `request`, as the pipeline names it.
    pub(super) fn model_of<'a>(&'a self, request: &DetectRequest<'a>) -> &'a str {
        self.replacement.as_deref().unwrap_or(request.model_id)
    }

    /// The facts of the detector that serves `request`.
    pub(super) fn info(&self, request: &DetectRequest<'_>) -> Option<&DetectorInfo> {
        let own = self.by_step.get(request.step);
        let serving = own.or_else(|| self.by_model.get(self.model_of(request)));
        serving.map(|detector| detector.info())
    }

    /// The detector of a model, for a step that asks for something else than objects.
    ///
    /// # Errors
    /// One sentence when the model was not opened.
    pub(super) fn of_model(&mut self, model: &str) -> Result<&mut Box<dyn Detector>, String> {
        self.by_model
            .get_mut(model)
            .ok_or_else(|| not_loaded(model))
    }

    /// The detector that serves `request`.
    ///
    /// # Errors
    /// One sentence when the model was not opened.
    pub(super) fn serving(
        &mut self,
        request: &DetectRequest<'_>,
    ) -> Result<&mut Box<dyn Detector>, String> {
        let model = self.replacement.as_deref().unwrap_or(request.model_id);
        let own = self.by_step.get_mut(request.step);
        own.or_else(|| self.by_model.get_mut(model))
            .ok_or_else(|| not_loaded(model))
    }
}

/// The models that a pipeline opens; some may be named twice.
pub fn models_of<'a>(
    spec: &'a PipelineSpec,
    plan: &'a Plan,
) -> impl Iterator<Item = &'a String> + use<'a> {
    let wanted = match &spec.model {
        Some(model) if !plan.models.is_empty() => std::slice::from_ref(model),
        _ => &plan.models,
    };
    wanted.iter().chain(&plan.asked)
}

fn not_loaded(model: &str) -> String {
    format!("model {model:?} was not loaded for this pipeline")
}

/// The facts of a model that a workflow must fit.
pub(crate) fn facts_of(info: &DetectorInfo) -> ModelFacts {
    ModelFacts {
        labels: info.labels.iter().map(ToString::to_string).collect(),
        knows_classes: info.knows_classes,
        follows_one_picture: info.follows_one_picture,
        task: info.task.name().to_owned(),
    }
}
