//! Changes of back ends below the table of pipelines.

use std::collections::BTreeSet;

use watchkeeper_contract::model::{BackendChange, BackendChangeState};
use watchkeeper_contract::pipeline::PipelineStatus;

use super::output::Output;

/// Prints a line for each change that is in progress or did not succeed; pipelines that share a
/// model share its line.
pub(super) fn print(pipelines: &[PipelineStatus], out: &Output) {
    let changes = pipelines.iter().flat_map(|p| &p.backend_changes);
    let lines: BTreeSet<String> = changes.filter_map(describe).collect();
    for line in lines {
        out.line(format!("  {line}"));
    }
}

fn describe(change: &BackendChange) -> Option<String> {
    let BackendChange {
        model,
        from,
        to,
        state,
    } = change;
    Some(match state {
        BackendChangeState::Building { share } => {
            let percent = share * 100.0;
            format!("{model}: {to} is prepared, {percent:.0} % done; {from} serves")
        }
        BackendChangeState::Comparing {
            agreed,
            wanted,
            needs_objects,
        } => {
            let waits = if *needs_objects {
                ", waiting for frames with objects"
            } else {
                ""
            };
            format!(
                "{model}: {to} agreed on {agreed} frames so far, {wanted} are needed{waits}; {from} \
                 serves"
            )
        }
        BackendChangeState::Agreed => format!("{model}: {to} serves from the next frame on"),
        BackendChangeState::Refused { message } => {
            format!("{model}: stays on {from}; {to} was refused: {message}")
        }
        BackendChangeState::Failed { message } => {
            format!("{model}: stays on {from}; {to} failed: {message}")
        }
        BackendChangeState::Reverted { message } => {
            format!("{model}: back on {from}; {to} failed: {message}")
        }
        BackendChangeState::Swapped | BackendChangeState::Cancelled => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_in_progress_has_a_line_and_a_finished_one_has_none() {
        let describe = |state| {
            describe(&BackendChange {
                model: "yolox-nano".to_owned(),
                from: "rten".to_owned(),
                to: "ort".to_owned(),
                state,
            })
        };
        let comparing = BackendChangeState::Comparing {
            agreed: 10,
            wanted: 20,
            needs_objects: true,
        };
        assert_eq!(
            describe(comparing).as_deref(),
            Some(
                "yolox-nano: ort agreed on 10 frames so far, 20 are needed, \
                 waiting for frames with objects; rten serves"
            )
        );
        let building = BackendChangeState::Building { share: 0.4 };
        assert_eq!(
            describe(building).as_deref(),
            Some("yolox-nano: ort is prepared, 40 % done; rten serves")
        );
        assert_eq!(describe(BackendChangeState::Swapped), None);
    }
}
