//! Questions and answers: an answer completes the request.

use crate::support::{proposal_in, question_in, with_pipelines};

#[test]
fn what_shall_be_different_is_answered_by_what_it_names() {
    let scene = with_pipelines(&["gate", "dock"]);
    let question = question_in("change the gate alarm", &scene);
    let proposal = proposal_in(&question.answered("only dogs"), &scene);
    assert!(
        proposal.understood.contains("only dogs"),
        "{}",
        proposal.understood
    );
}
