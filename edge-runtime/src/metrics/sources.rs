//! Gauges of sources: their state, and what decodes them.

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::SourceState;

use super::Metrics;
use super::labels::{OTHER, SOURCE_STATES, StateLabels, of_source, state_name};

impl Metrics {
    /// Sets the state of `source`.
    pub fn set_source_state(&self, source: &SourceId, state: &SourceState) {
        let now = state_name(state);
        for state in SOURCE_STATES {
            let of = |source: &str| StateLabels {
                source: source.to_owned(),
                state,
            };
            self.state
                .metric(of(source.as_str()), || of(OTHER))
                .set(i64::from(state == now));
        }
    }

    /// Sets whether hardware decodes `source`.
    pub fn set_source_decoder(&self, source: &SourceId, hardware: bool) {
        self.hardware_decoder
            .metric(of_source(source.as_str()), || of_source(OTHER))
            .set(i64::from(hardware));
    }

    /// Removes the gauges of a source. Its counters stay: a vanished counter looks like a
    /// restart.
    pub fn remove_source(&self, source: &SourceId) {
        self.hardware_decoder.remove(&of_source(source.as_str()));
        for state in SOURCE_STATES {
            self.state.remove(&StateLabels {
                source: source.as_str().to_owned(),
                state,
            });
        }
    }
}
