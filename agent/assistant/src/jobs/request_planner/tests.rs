//! Requests that the rules, the cache or a model plan.

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
