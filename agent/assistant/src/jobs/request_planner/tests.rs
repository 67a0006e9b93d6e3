//! Requests that the rules, the cache or a model plan.

use serde_json::json;
use watchkeeper_jobs::plan::check;
use watchkeeper_jobs::run::Provenance;
use watchkeeper_jobs::tools::picture_tools;

use super::*;

fn planner(home: &std::path::Path) -> RequestPlanner {
    RequestPlanner {
        tools: picture_tools(),
        jobs: None,
        templates: TemplateStore::new(home.join("templates")),
        home: home.to_owned(),
        open_model: None,
        places: None,
        entrypoint: Entrypoint::Chat,
        trace: Trace::new(home, Entrypoint::Chat.name()),
        has_current_folder: false,
    }
}

#[test]
fn commands_of_the_archive_and_questions_are_no_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let planner = planner(dir.path());
    for (text, expected) in [
        ("organise /srv/a by day", true),
        ("pick the moody ones of /srv/a", true),
        ("get research/report", false),
        ("remove research/report", false),
        ("ingest folder::/srv/a as research", false),
        ("what happened yesterday by camera", false),
        ("tell me when a car parks at the gate today", false),
    ] {
        assert_eq!(planner.serves(text), expected, "{text}");
    }
}

#[test]
fn cached_plan_that_was_revised_is_cached_again() {
    let dir = tempfile::tempdir().unwrap();
    let planner = planner(dir.path());
    let request = "pick the moody ones of /srv/a";
    let is_cached = |revisions| {
        let step = json!({"name": "list", "tool": "list_pictures", "params": {"folder": "/srv/a"}});
        let plan = read(&json!({"name": "x", "steps": [step]})).unwrap();
        let plan = check(plan, &planner.tools).unwrap();
        let planned = Planned {
            by: PlannedBy::Cache,
            request: request.to_owned(),
            refinements: Vec::new(),
            refined_at_ms: Vec::new(),
            at_ms: 0,
            predecessor: None,
            revisions,
        };
        let from = Provenance {
            planned: Some(planned),
            ..Provenance::default()
        };
        let jobs = Jobs::new(dir.path().join("jobs"));
        let job = jobs.create_from(&plan, request, None, from).unwrap();
        planner.cache(&job, &|_| {});
        planner
            .templates
            .is_cached(request, &planner.tools)
            .unwrap()
    };
    assert!(!is_cached(0), "it is in the cache already");
    assert!(is_cached(1));
}
