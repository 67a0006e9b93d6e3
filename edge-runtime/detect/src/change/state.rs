//! The decision on one candidate, without I/O.
//!
//! ```text
//!     building ──► comparing ──► agreed ──► swapped ──► reverted
//!        │             │            │
//!        └► failed ◄───┤            └► cancelled (also from building and comparing)
//!                      └► refused
//! ```
//!
//! - A candidate is agreed on only after [`ChangePolicy::frames`] golden frames agree. One frame
//!   that disagrees refuses it.
//! - At least [`ChangePolicy::conclusive`] of them prove something: others stop counting before.
//! - For a candidate of int8, changes are counted instead: after [`ChangePolicy::frames`], and once
//!   they are enough to decide, [`Counted`] decides.
//! - A final state never changes, except `swapped` to `reverted`.

use std::time::Duration;

use super::count::Counted;
use crate::backend_in_use::ChangeState;

/// How a change proceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangePolicy {
    /// Time between the first load and the begin of the change: other pipelines start meanwhile.
    pub start_delay: Duration,
    /// Shortest time between two golden frames, so that they differ.
    pub interval: Duration,
    /// Golden frames that must agree.
    pub frames: u32,
    /// How many of these must be conclusive.
    pub conclusive: u32,
}

impl Default for ChangePolicy {
    fn default() -> Self {
        Self {
            start_delay: Duration::from_secs(5),
            interval: Duration::from_secs(2),
            frames: 20,
            conclusive: 10,
        }
    }
}

/// Event of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeInput {
    /// Share of the build that is done.
    Progress(f32),
    Built,
    /// A golden frame agrees.
    Agreed {
        /// Whether the frame proves something.
        is_conclusive: bool,
    },
    /// A golden frame was compared with a candidate of int8: the changes over all frames.
    Counted(Counted),
    /// A golden frame disagrees.
    Disagreed(String),
    /// The build or the candidate failed.
    Failed(String),
    /// The candidate serves.
    TookOver,
    /// The candidate failed while it served, and the former back end serves again.
    WentBack(String),
    /// No detector uses the network any more.
    Unused,
}

/// The change to one candidate.
#[derive(Debug, Clone)]
pub struct BackendChange {
    policy: ChangePolicy,
    conclusive: u32,
    state: ChangeState,
}

impl BackendChange {
    #[must_use]
    pub fn new(policy: ChangePolicy) -> Self {
        Self {
            policy,
            conclusive: 0,
            state: ChangeState::Building { share: 0.0 },
        }
    }

    pub fn state(&self) -> &ChangeState {
        &self.state
    }

    /// Processes an input. One that the state does not expect changes nothing.
    pub fn handle(&mut self, input: ChangeInput) {
        use ChangeInput as In;
        use ChangeState as S;
        let next = match (&self.state, input) {
            (S::Building { share }, In::Progress(done)) => Some(S::Building {
                share: done.max(*share).min(1.0),
            }),
            (S::Building { .. }, In::Built) => Some(self.comparing(0)),
            (S::Comparing { agreed, .. }, In::Agreed { is_conclusive }) => {
                let agreed = *agreed;
                Some(self.count(agreed, is_conclusive))
            }
            (S::Comparing { agreed, .. }, In::Counted(so_far)) => {
                Some(self.judge(agreed + 1, so_far))
            }
            (S::Comparing { .. }, In::Disagreed(why)) => Some(S::Refused { why }),
            (S::Building { .. } | S::Comparing { .. }, In::Failed(why)) => Some(S::Failed { why }),
            (S::Agreed, In::TookOver) => Some(S::Swapped),
            (S::Swapped, In::WentBack(why)) => Some(S::Reverted { why }),
            (S::Building { .. } | S::Comparing { .. } | S::Agreed, In::Unused) => {
                Some(S::Cancelled)
            }
            _ => None,
        };
        if let Some(next) = next {
            self.state = next;
        }
    }

    /// Counts a frame that agrees, if it still counts.
    fn count(&mut self, agreed: u32, is_conclusive: bool) -> ChangeState {
        if is_conclusive {
            self.conclusive += 1;
        } else if !self.has_room(agreed) {
            return self.comparing(agreed);
        }
        match agreed + 1 {
            agreed if agreed >= self.policy.frames => ChangeState::Agreed,
            agreed => self.comparing(agreed),
        }
    }

    /// Decides on a candidate of int8 after this many frames.
    fn judge(&self, compared: u32, so_far: Counted) -> ChangeState {
        let wanted = self.policy.frames;
        if compared < wanted || !so_far.is_enough() {
            return ChangeState::Comparing {
                agreed: compared.min(wanted.saturating_sub(1)),
                wanted,
                needs_objects: compared >= wanted,
            };
        }
        match so_far.refusal() {
            Some(why) => ChangeState::Refused { why },
            None => ChangeState::Agreed,
        }
    }

    /// Whether a frame that proves nothing still counts.
    fn has_room(&self, agreed: u32) -> bool {
        let others = self.policy.frames.saturating_sub(self.policy.conclusive);
        agreed.saturating_sub(self.conclusive) < others
    }

    fn comparing(&self, agreed: u32) -> ChangeState {
        ChangeState::Comparing {
            agreed,
            wanted: self.policy.frames,
            needs_objects: !self.has_room(agreed),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inputs() -> impl Strategy<Value = Vec<ChangeInput>> {
        let one = prop_oneof![
            2 => any::<f32>().prop_map(ChangeInput::Progress),
            2 => Just(ChangeInput::Built),
            30 => any::<bool>().prop_map(|is_conclusive| ChangeInput::Agreed { is_conclusive }),
            1 => Just(ChangeInput::Disagreed("a box is missing".to_owned())),
            1 => Just(ChangeInput::Failed("no memory".to_owned())),
            2 => Just(ChangeInput::TookOver),
            1 => Just(ChangeInput::WentBack("no device".to_owned())),
            1 => Just(ChangeInput::Unused),
        ];
        prop::collection::vec(one, 0..120)
    }

    fn policy(frames: u32, conclusive: u32) -> ChangePolicy {
        ChangePolicy {
            frames,
            conclusive: conclusive.min(frames),
            ..ChangePolicy::default()
        }
    }

    fn is_over(state: &ChangeState) -> bool {
        !matches!(
            state,
            ChangeState::Building { .. } | ChangeState::Comparing { .. } | ChangeState::Agreed
        )
    }

    proptest! {
        #[test]
        fn candidate_serves_only_after_enough_agreeing_frames(
            inputs in inputs(),
            frames in 1u32..25,
            conclusive in 0u32..25,
        ) {
            let policy = policy(frames, conclusive);
            let mut change = BackendChange::new(policy);
            let (mut is_built, mut agreed, mut proven) = (false, 0, 0);
            for input in inputs {
                let before = change.state().clone();
                change.handle(input.clone());
                match input {
                    ChangeInput::Built => is_built = true,
                    ChangeInput::Agreed { is_conclusive } if is_built => {
                        agreed += 1;
                        proven += u32::from(is_conclusive);
                    }
                    _ => {}
                }
                let after = change.state();
                if let ChangeState::Agreed | ChangeState::Swapped = after {
                    prop_assert!(agreed >= policy.frames && proven >= policy.conclusive);
                }
                if is_over(&before) && before != ChangeState::Swapped {
                    prop_assert_eq!(&before, after);
                }
                if let (ChangeState::Comparing { .. }, ChangeInput::Disagreed(_)) = (&before, input)
                {
                    let is_refused = matches!(after, ChangeState::Refused { .. });
                    prop_assert!(is_refused);
                }
                if let ChangeState::Building { share } = after {
                    prop_assert!((0.0..=1.0).contains(share));
                }
                if let ChangeState::Comparing { agreed, wanted, .. } = after {
                    prop_assert!(agreed < wanted);
                }
            }
        }
    }

    #[test]
    fn frames_without_objects_fill_half_and_then_wait() {
        let mut change = BackendChange::new(ChangePolicy::default());
        change.handle(ChangeInput::Built);
        let mut feed = |count: u32, is_conclusive| {
            for _ in 0..count {
                change.handle(ChangeInput::Agreed { is_conclusive });
            }
            change.state().clone()
        };
        let waits = ChangeState::Comparing {
            agreed: 10,
            wanted: 20,
            needs_objects: true,
        };
        assert_eq!(feed(50, false), waits);
        assert!(matches!(
            feed(9, true),
            ChangeState::Comparing { agreed: 19, .. }
        ));
        assert_eq!(feed(1, true), ChangeState::Agreed);
    }

    #[test]
    fn counted_candidate_is_decided_after_enough_frames_and_boxes() {
        let decide = |boxes: usize, changed| {
            let mut change = BackendChange::new(ChangePolicy::default());
            change.handle(ChangeInput::Built);
            for frame in 1..=20 {
                let so_far = Counted::boxes(boxes * frame, changed);
                change.handle(ChangeInput::Counted(so_far));
                assert!(frame == 20 || matches!(change.state(), ChangeState::Comparing { .. }));
            }
            change
        };
        assert_eq!(decide(5, 1).state(), &ChangeState::Agreed);
        let why = "2.0 % of 100 boxes changed, at most 1 % may".to_owned();
        assert_eq!(decide(5, 2).state(), &ChangeState::Refused { why });
        let mut quiet = decide(4, 0);
        let waits = ChangeState::Comparing {
            agreed: 19,
            wanted: 20,
            needs_objects: true,
        };
        assert_eq!(quiet.state(), &waits);
        quiet.handle(ChangeInput::Counted(Counted::boxes(99, 0)));
        assert_eq!(quiet.state(), &waits);
        quiet.handle(ChangeInput::Counted(Counted::boxes(101, 1)));
        assert_eq!(quiet.state(), &ChangeState::Agreed);
    }

    #[test]
    fn progress_never_falls_and_a_nan_changes_nothing() {
        let mut change = BackendChange::new(ChangePolicy::default());
        for done in [0.4, f32::NAN, 0.2, -1.0] {
            change.handle(ChangeInput::Progress(done));
        }
        assert_eq!(change.state(), &ChangeState::Building { share: 0.4 });
    }
}
