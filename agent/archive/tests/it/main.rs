//! The archive with real disks, memcached and an S3 server.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod kill;
mod loss;
mod model;
mod repair;
mod s3_server;
mod support;
mod tiers;
mod verbs;
