//! Plain language on a scripted scene: tasks are said to the real programs, and what they deploy is graded.
//!
//! Owns the format of task files and what holds when a check holds. The way of a run:
//!
//! ```text
//! task ──► site: the real runtime and command, cameras that show the scene, stand-ins for models ──► outcome ──► grade ──► report
//!                                     a solution that somebody wrote (oracle), and its mutants (mutate) ──┘  │
//!                                                       families: a specification in the words of the checks ┤
//!                                                       play: the deployed specification on the script ──────┘
//! ```
//!
//! Invariants: everything that is graded was deployed by the product's own way and fetched back from it; what a pipeline does is told by the runtime's own
//! code; a check never holds by being left out.

pub mod bench;
pub mod check;
pub mod drawn;
pub mod families;
pub mod grade;
pub mod language;
pub mod mutate;
pub mod oracle;
pub mod outcome;
pub mod play;
pub mod provider;
pub mod report;
pub mod scene;
pub mod seeing;
pub mod site;
pub mod stand_in;
pub mod task;
