//! What unit tests of jobs share.

use std::path::Path;

use watchkeeper_config::{AuditConfig, JobLimitsConfig};

use super::{JobService, ToolSetup};

/// Jobs of an agent whose state is below `home`, without a runtime.
pub(crate) fn service(home: &Path) -> JobService {
    let audit = AuditConfig {
        max_bytes: 1 << 20,
        max_days: 1,
    };
    let limits = JobLimitsConfig {
        max_jobs: 100,
        max_bytes: 1 << 30,
        max_days: 90,
    };
    JobService::new(home, &ToolSetup::default(), audit, limits)
}
