//! Checks the plans of scheduled jobs, and the names in what starts them.

use watchkeeper_agent::jobs::{self, ToolSetup};
use watchkeeper_config::{Config, Findings, ScheduledWork, SkippedSections, Trigger};

use super::finding::error;

/// Checks `[agent.jobs.NAME]`. A camera or rule that the file does not have is a note: it may be
/// deployed by hand.
pub(super) fn check(config: &Config, skipped: &SkippedSections, findings: &mut Findings) {
    let tools = jobs::toolbox(&ToolSetup::new(config));
    let sources = config.sources.iter().chain(&skipped.sources);
    let sources: Vec<&str> = sources.map(|source| source.id.as_str()).collect();
    let drafts = skipped.pipelines.iter().map(|draft| &draft.spec);
    let pipelines = config.pipelines.iter().chain(drafts);
    let rules = pipelines.flat_map(|spec| spec.rules.iter().flatten());
    let rules: Vec<&str> = rules.map(|rule| rule.name.as_str()).collect();
    for schedule in &config.jobs {
        let section = format!("agent.jobs.{}", schedule.name);
        let (last, found) = match &schedule.work {
            ScheduledWork::Plan(file) => ("plan", file.display().to_string()),
            ScheduledWork::Request(text) => ("request", text.clone()),
        };
        let faults = jobs::scheduled_plan::check(schedule, &tools).err();
        for fault in faults.into_iter().flatten() {
            let key = format!("{section}.{last}");
            findings.errors.push(error(key, Some(found.clone()), fault));
        }
        let Trigger::On(filter) = &schedule.trigger else {
            continue;
        };
        let camera = filter.camera.as_ref().map(|camera| camera.as_str());
        let named = [
            ("camera", camera, &sources),
            ("rule", filter.rule.as_deref(), &rules),
        ];
        for (field, name, known) in named {
            if let Some(name) = name.filter(|name| !known.contains(name)) {
                findings.notes.push(format!(
                    "{section}.on.{field}: the file has no {field} {name}; nothing starts the job \
                     unless one is deployed by hand (known: {})",
                    known.join(", ")
                ));
            }
        }
    }
}
