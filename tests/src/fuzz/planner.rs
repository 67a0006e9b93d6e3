//! Target `planner`: a request for a job, and the refinement of one.
//!
//! - A plan says how it was read; a refusal has a sentence.
//! - A request with a word that no rule knows is refused.

use std::sync::LazyLock;

use jiff::civil::{DateTime, datetime};
use watchkeeper_jobs::KnownNames;
use watchkeeper_jobs::planner::{Refinement, is_job_request, plan, read_as};

/// A word that nothing reads.
const UNKNOWN: &str = "xqzv";
const NOW: DateTime = datetime(2026, 11, 28, 15, 0, 0, 0);

static NAMES: LazyLock<KnownNames> = LazyLock::new(|| {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut names = KnownNames {
        classes: list(&["person", "car", "dog"]),
        rules: list(&["deliveries"]),
        zones: list(&["bay 2"]),
        ..KnownNames::default()
    };
    names.cameras.add("gate", None);
    names.cameras.add("dock-2", Some("Loading dock"));
    names
});

pub(super) fn planner(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    is_job_request(&text, NOW, &NAMES);
    if let Err(refused) = Refinement::read(&text, NOW, &NAMES) {
        assert!(!refused.to_string().is_empty());
    }
    match plan(&text, NOW, &NAMES) {
        Ok(planned) => {
            assert!(!read_as(&planned).is_empty());
            let with_unknown = plan(&format!("{UNKNOWN} {text}"), NOW, &NAMES);
            assert!(with_unknown.is_err(), "{with_unknown:?}");
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}
