//! Flags of `watchkeeper cameras find` and `cameras set`.

use std::net::IpAddr;

use clap::{Args, value_parser};
use watchkeeper_contract::id::SourceId;

use super::value::{search_seconds, setting};

#[derive(Debug, Clone, Args)]
pub(crate) struct FindArgs {
    /// Seconds to wait for answers, at most 60.
    #[arg(long = "for", default_value = "3s", value_name = "SECONDS", value_parser = search_seconds)]
    pub seconds: f64,
    /// Ask this address instead of the local network, such as a camera behind a router.
    #[arg(long, value_name = "ADDRESS")]
    pub at: Option<IpAddr>,
    /// UDP port of WS-Discovery.
    #[arg(long, default_value_t = 3702, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    pub port: u16,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SetArgs {
    /// ID of the camera.
    pub id: SourceId,
    /// Control and value, such as exposure_time_absolute=200; repeatable.
    #[arg(required = true, value_name = "CONTROL=VALUE", value_parser = setting)]
    pub settings: Vec<(String, i64)>,
}
