//! Gauges of look rates: frames a second that each pipeline looks at, and wants to.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::LookRate;

use super::gauges::register;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PipelineLabels {
    pipeline: String,
}

type ByPipeline = Family<PipelineLabels, Gauge<f64, AtomicU64>>;

/// The gauges by pipeline, whose number is bounded.
#[derive(Debug)]
pub(super) struct LookGauges {
    looked: ByPipeline,
    wanted: ByPipeline,
}

impl LookGauges {
    pub(super) fn register(to: &mut Registry) -> Self {
        Self {
            looked: register(
                to,
                "pipeline_looked_fps",
                "Frames a second that a pipeline looks at",
                Family::default(),
            ),
            wanted: register(
                to,
                "pipeline_wanted_fps",
                "Frames a second that a pipeline would look at without limits",
                Family::default(),
            ),
        }
    }

    /// Shows these pipelines and no others.
    pub(super) fn set<'a>(&self, rates: impl Iterator<Item = (&'a PipelineId, LookRate)>) {
        self.looked.clear();
        self.wanted.clear();
        for (pipeline, rate) in rates {
            let label = PipelineLabels {
                pipeline: pipeline.to_string(),
            };
            self.looked.get_or_create(&label).set(rate.looked_fps);
            self.wanted.get_or_create(&label).set(rate.wanted_fps);
        }
    }
}
