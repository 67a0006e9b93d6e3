//! The command `model-check`: opens one model and runs it once, within limits.
//!
//! - The limits apply before anything of the model, or a library, is read.
//! - It reads no state, holds no lock and writes nothing but its answer.
//! - It yields the processor to the cameras by its priority.

use std::process::ExitCode;

use clap::Args;
use watchkeeper_config::Config;
use watchkeeper_models::model_check::limits;

use crate::output::refuse;
use crate::pipeline::inference::models::Models;
use crate::pipeline::inference::settings::ModelSettings;

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct ModelCheck {
    /// Name in the zoo, or path of a model file with its manifest
    model: String,
    /// Settings of the runtime that asks, as JSON, in place of the configuration
    #[arg(long, hide = true, value_name = "JSON")]
    settings: Option<String>,
}

impl ModelCheck {
    /// Limits this process; with the settings of a runtime, checks the model and returns the exit
    /// code. Otherwise the configuration must be read first.
    #[must_use]
    pub fn begin(&self) -> Option<ExitCode> {
        if let Err(why) = limits::apply() {
            return Some(refuse(&why));
        }
        let settings = ModelSettings::from_json(self.settings.as_deref()?);
        Some(match settings {
            Ok(settings) => self.open(settings),
            Err(why) => refuse(&why),
        })
    }

    /// Checks the model as configured; returns the exit code.
    #[must_use]
    pub fn run(&self, config: &Config) -> ExitCode {
        self.open(ModelSettings::new(config))
    }

    fn open(&self, settings: ModelSettings) -> ExitCode {
        let models = Models::with_settings(settings.for_check());
        match models.open(&self.model) {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => refuse(&error.to_string()),
        }
    }
}
