//! What a measurement belongs to.

use std::fmt;
use std::path::Path;

use watchkeeper_models::Sha256Sum;

use crate::pipeline::inference::first_load::program_stamp;

/// Characters of a key.
const KEY_LEN: usize = 32;

/// Names a measurement; the name of its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(String);

impl Key {
    /// Names the measurement of the network with checksum `sum` under `stamp`.
    pub(super) fn new(sum: &Sha256Sum, stamp: &str) -> Self {
        let mut hex = Sha256Sum::of(format!("{sum} {stamp}").as_bytes()).to_string();
        hex.truncate(KEY_LEN);
        Self(hex)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The processor, and this build of the program with the back ends in it.
#[derive(Debug)]
pub(super) struct MeasuredBox {
    cpu: String,
    program: String,
}

impl MeasuredBox {
    pub(super) fn read(program: &Path) -> Self {
        Self {
            cpu: watchkeeper_board::cpu::model(Path::new("/")).unwrap_or_default(),
            program: program_stamp(program),
        }
    }

    /// Names all that a measurement depends on besides the file.
    pub(super) fn stamp(&self, library: &str, threads: Option<usize>) -> String {
        let Self { cpu, program } = self;
        format!("{program} / {library} / {threads:?} / {cpu}")
    }
}
