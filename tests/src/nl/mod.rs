//! Plain language on a scripted scene: tasks go to the real programs, and the pipelines they deploy
//! are graded.
//!
//! Owns the format of task files and the meaning of the checks. The path of a run:
//!
//! ```text
//! task ──► site: real runtime and command, drawn cameras, stand-in models ──► outcome ──► grade
//!          oracle: hand-written solution ─────────────────────────────────────┘           │
//!                families: specification in the words of the checks ──────────────────────┤
//!                play: deployed specification on the script ──────────────────────────────┘
//! ```
//!
//! - Everything graded was deployed through the product's own interface and read back from it.
//! - The runtime's own code decides what a pipeline does.
//! - A check never holds because something is absent.

pub mod bench;
pub mod check;
pub mod drawn;
pub mod families;
pub mod grade;
pub mod language;
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
