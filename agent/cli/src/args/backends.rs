//! Arguments of `watchkeeper backends`, `watchkeeper models bench` and `models calibrate`.

use std::path::PathBuf;

use super::value::seconds;

#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum BackendAction {
    /// List the back ends: version, execution providers, and what would bring an absent one.
    List,
    /// Download the library of a back end and verify its checksum; resumes an interrupted download.
    Pull(BackendPullArgs),
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackendPullArgs {
    /// Library to install.
    #[arg(value_parser = ["onnxruntime"])]
    pub name: String,
    /// Copied package to take the library out of, for a box without internet.
    #[arg(long, value_name = "FILE", conflicts_with = "registry")]
    pub from: Option<PathBuf>,
    /// Registry to fetch the package from, such as a company's own [default: PyPI's].
    #[arg(long, value_name = "URL")]
    pub registry: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BenchArgs {
    /// Model name or ONNX file; --backend chooses one back end [default: all available].
    pub name: String,
    /// Seconds of measured runs on each back end; runs before them warm it up.
    #[arg(long = "for", default_value = "10s", value_name = "SECONDS", value_parser = seconds)]
    pub seconds: f64,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// Model name or ONNX file; --backend chooses the back end [default: TensorRT, else ONNX
    /// Runtime].
    pub name: String,
    /// Name of a configured source, or an address: a camera, a recording, a folder of pictures.
    #[arg(long, value_name = "SOURCE")]
    pub source: String,
    /// Frames to take: half of them give ranges, the others decide.
    #[arg(long, default_value_t = 100, value_name = "N",
          value_parser = clap::value_parser!(u32).range(2..=500))]
    pub frames: u32,
    /// Seconds of the source from one frame to the next.
    #[arg(long, default_value = "0.2s", value_name = "SECONDS", value_parser = seconds)]
    pub every: f64,
}
