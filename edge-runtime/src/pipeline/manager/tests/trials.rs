//! Trials of pipelines while sources change.

use std::cell::Cell;

use super::*;
use crate::dry_run;

#[test]
fn trial_of_a_removed_source_returns_its_report() {
    let state = tempfile::tempdir().unwrap();
    let manager = manager(state.path());
    manager.put_source(spec("gate", "demo:")).unwrap();
    let request = serde_json::json!({"pipeline": watching("motion"), "seconds": 60.0});
    let request = serde_json::from_value(request).unwrap();
    let looks = Cell::new(0);
    // Asked after each frame: several are taken before the source is removed.
    let is_gone = || {
        let frames = manager.source(&id("gate")).map(|s| s.counters.frames);
        if frames.is_ok_and(|frames| frames > 0) {
            looks.set(looks.get() + 1);
            if looks.get() == 10 {
                manager.delete_source(&id("gate")).unwrap();
            }
        }
        false
    };
    let report = dry_run::run(&manager, &request, &is_gone).unwrap();
    assert_eq!(report.ended.as_deref(), Some("the source was removed"));
    assert!(report.results.source_s > 0.0);
}
