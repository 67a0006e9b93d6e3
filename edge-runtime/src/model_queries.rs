//! The commands `backends` and `model-bench`: what this box runs models on, and how fast.
//!
//! - Both are called by the runtime, which must not open untested libraries and models, and by the
//!   command `watchkeeper`.
//! - The answer is one JSON object on standard output; a refusal is that of `model-check`.
//! - For a runtime they have the limits of a model's check.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use watchkeeper_config::Config;
use watchkeeper_detect::BackendChoice;
use watchkeeper_models::model_check::limits;

use crate::output::{print, refuse};
use crate::pipeline::inference::backends;
use crate::pipeline::inference::bench::bench;
use crate::pipeline::inference::settings::ModelSettings;

/// Arguments of `backends`.
#[derive(Debug, Args)]
pub struct Backends {
    /// Settings of the runtime that asks, as JSON, in place of the configuration
    #[arg(long, hide = true, value_name = "JSON")]
    settings: Option<String>,
}

/// Arguments of `model-bench`.
#[derive(Debug, Args)]
pub struct ModelBenchRequest {
    /// Name in the zoo, or path of a model file with its manifest
    model: String,
    /// Back end to measure; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    backend: Vec<BackendChoice>,
    /// Seconds of measured runs
    #[arg(long = "for", default_value_t = 10.0, value_name = "SECONDS")]
    seconds: f64,
    /// Settings of the runtime that asks, as JSON, in place of the configuration
    #[arg(long, hide = true, value_name = "JSON")]
    settings: Option<String>,
}

impl Backends {
    /// Answers with the settings of a runtime; otherwise the configuration must be read first.
    #[must_use]
    pub fn begin(&self) -> Option<ExitCode> {
        Some(match limited(self.settings.as_deref()?) {
            Ok(settings) => print(&backends::list(&settings)),
            Err(why) => refuse(&why),
        })
    }

    /// Answers as configured.
    #[must_use]
    pub fn run(&self, config: &Config) -> ExitCode {
        print(&backends::list(&ModelSettings::new(config)))
    }
}

impl ModelBenchRequest {
    /// Measures with the settings of a runtime; otherwise the configuration must be read first.
    #[must_use]
    pub fn begin(&self) -> Option<ExitCode> {
        Some(match limited(self.settings.as_deref()?) {
            Ok(settings) => self.measure(&settings),
            Err(why) => refuse(&why),
        })
    }

    /// Measures as configured.
    #[must_use]
    pub fn run(&self, config: &Config) -> ExitCode {
        self.measure(&ModelSettings::new(config))
    }

    fn measure(&self, settings: &ModelSettings) -> ExitCode {
        let Ok(budget) = Duration::try_from_secs_f64(self.seconds) else {
            return refuse(&format!("--for {}: a number of seconds", self.seconds));
        };
        let chosen = match self.backend.as_slice() {
            [] => &BackendChoice::MEASURED[..],
            chosen => chosen,
        };
        match bench(settings, &self.model, chosen, budget) {
            Ok(report) => print(&report),
            Err(error) => refuse(&error.to_string()),
        }
    }
}

/// Limits this process and reads the settings of a runtime.
fn limited(settings: &str) -> Result<ModelSettings, String> {
    limits::apply()?;
    ModelSettings::from_json(settings)
}
