//! Telemetry of the board at QoS 0.

use std::collections::BTreeMap;

use serde::Serialize;
use watchkeeper_contract::board::{BoardReport, BoardThrottling};
use watchkeeper_contract::time::Wall;

/// Telemetry of the board, on `m/board`, QoS 0; what the board does not show is absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoardMessage {
    pub ts: i64,
    /// Temperatures of the zones that answer, in degrees Celsius.
    pub celsius: BTreeMap<String, f64>,
    /// Causes that slow the board down.
    pub throttled: BoardThrottling,
    /// Power of the board in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// Name of the power mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_mode: Option<String>,
    /// Speeds of fans with a tachometer, in revolutions a minute.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rpm: BTreeMap<String, u32>,
    /// Load of the processor in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Load of the graphics processor in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<f64>,
    /// Bytes of memory that programs can still get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Life time of drives that is used, in percent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub life_used: BTreeMap<String, f64>,
}

impl BoardMessage {
    /// Builds the message about a report that the runtime gave at `now`.
    pub fn of(report: &BoardReport, now: Wall) -> Self {
        let zones = report.temperatures.iter();
        let fans = report.fans.iter();
        let drives = report.drives.iter();
        Self {
            ts: now.unix_ms,
            celsius: zones
                .filter_map(|z| Some((z.name.clone(), z.celsius?)))
                .collect(),
            throttled: report.throttling,
            watts: report.power.watts,
            power_mode: report
                .power
                .mode
                .as_ref()
                .and_then(|mode| mode.name.clone()),
            rpm: fans
                .filter_map(|fan| Some((fan.name.clone(), fan.rpm?)))
                .collect(),
            cpu: report.load.cpu_percent,
            gpu: report.load.gpu_percent,
            available_bytes: report.memory.map(|memory| memory.available_bytes),
            life_used: drives
                .filter_map(|drive| Some((drive.name.clone(), drive.life_used_percent?)))
                .collect(),
        }
    }
}
