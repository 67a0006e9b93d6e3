//! Flags of `watchkeeper run`.

use std::path::PathBuf;

use clap::Args;
use watchkeeper_contract::privacy::Region;
use watchkeeper_engine::templates::shape::{InterestRegion, NamedLine, NamedZone};
use watchkeeper_engine::templates::watch::Tiles;

use super::value::{region, seconds, unit_interval};

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  watchkeeper run street.mp4 --watch car --line road:0,218,640,218 --video seen.mp4
  watchkeeper run rtsp://user:password@10.0.0.20/stream --watch person --for 60
  watchkeeper run /dev/video0 --zone desk:100,100,500,100,500,400,100,400 --show")]
pub(crate) struct RunArgs {
    /// Video file, folder of images, rtsp://…, http://…, /dev/videoN, csi://N or demo:
    ///
    /// An image of a folder that can't be read is left out and named; the exit code stays 0. If
    /// none can be read, and for a file that can't be, it is 2.
    pub source: String,
    /// Workflow to run, in Roboflow's JSON.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["watch", "line", "zone", "tiles", "region"])]
    pub workflow: Option<PathBuf>,
    /// Classes to watch, groups such as `vehicles`, or `all` [default: people, vehicles, animals
    /// with a model of the zoo, else all].
    #[arg(long, value_name = "CLASSES", value_delimiter = ',')]
    pub watch: Vec<String>,
    /// Count crossings of this line, in pixels; repeatable.
    #[arg(long, value_name = "NAME:x1,y1,x2,y2", allow_hyphen_values = true)]
    pub line: Vec<NamedLine>,
    /// Time visits of this polygon, in pixels; repeatable.
    #[arg(
        long,
        value_name = "NAME:x1,y1,x2,y2,x3,y3,…",
        allow_hyphen_values = true
    )]
    pub zone: Vec<NamedZone>,
    /// Ignore objects whose centre is outside this polygon, in pixels; repeatable.
    #[arg(long, value_name = "x1,y1,x2,y2,x3,y3,…", allow_hyphen_values = true)]
    pub region: Vec<InterestRegion>,
    /// Also detect in overlapping tiles of the picture, so that small objects are found; each tile
    /// costs as much as a frame without. Without a value, as many as picture and network require.
    #[arg(
        long,
        value_name = "COLUMNSxROWS",
        num_args = 0..=1,
        default_missing_value = "auto"
    )]
    pub tiles: Option<Tiles>,
    /// Black out this region, in fractions of the picture from 0 to 1; repeatable. A camera with a
    /// privacy mask in the configuration has that too.
    #[arg(long, value_name = "x1,y1,x2,y2,x3,y3,…", value_parser = region)]
    pub mask: Vec<Region>,
    /// Model name, ONNX file, or `motion` [default: yolox-nano or ssd-mobilenet-v2 if installed,
    /// else motion].
    #[arg(long, value_name = "NAME|FILE")]
    pub model: Option<String>,
    /// Minimum confidence of a detection, 0 to 1 [default: 0.1; the tracker filters further].
    #[arg(long, value_name = "CONFIDENCE", value_parser = unit_interval)]
    pub confidence: Option<f64>,
    /// Rule for events, or @FILE with one or a list; repeatable [default: from lines and zones].
    #[arg(long, value_name = "JSON|@FILE")]
    pub rule: Vec<String>,
    /// Stop after this many seconds of the source, counted from its first frame.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Play files in real time, dropping late frames [default: every frame, as fast as possible].
    #[arg(long)]
    pub native: bool,
    /// Accept self-signed certificates.
    #[arg(long)]
    pub no_tls_verify: bool,
    /// Write an annotated video.
    #[arg(long, value_name = "OUT.mp4")]
    pub video: Option<PathBuf>,
    /// Show the annotated frames in a window.
    #[arg(long)]
    pub show: bool,
    /// Save journal, snapshots and logs in this folder [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    pub keep_state: Option<PathBuf>,
    /// Publish to this MQTT broker, [mqtt[s]://][USER@]HOST[:PORT]; the password is in
    /// WATCHKEEPER_MQTT__PASSWORD or WATCHKEEPER_MQTT__PASSWORD_FILE.
    #[arg(long, value_name = "ADDRESS")]
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "the brackets are part of the address in --help"
    )]
    pub mqtt: Option<String>,
}
