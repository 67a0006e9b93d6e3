//! Flags of `watchkeeper cameras tune`.

use std::path::PathBuf;

use clap::Args;

use super::value::seconds;

#[derive(Debug, Clone, Args)]
pub(crate) struct TuneArgs {
    /// Camera of the configuration, video file, rtsp://…, http://…, /dev/videoN or csi://N.
    pub camera: String,
    /// Seconds of the camera to examine, at most 20.
    #[arg(long, default_value = "10s", value_name = "SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// Classes to count [default: all].
    #[arg(long, value_name = "CLASSES", value_delimiter = ',')]
    pub watch: Vec<String>,
    /// Model to compare; repeatable [default: all installed ones].
    #[arg(long, value_name = "NAME|FILE")]
    pub model: Vec<String>,
    /// Write annotated pictures of every candidate to this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Accept self-signed certificates.
    #[arg(long)]
    pub no_tls_verify: bool,
}
