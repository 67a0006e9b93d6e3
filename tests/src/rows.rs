//! Runs the rows of a test table, a few in parallel, so that a row that waits delays no other.

use std::sync::{Mutex, PoisonError};

use anyhow::ensure;

/// Number of rows that run in parallel.
const AT_ONCE: usize = 4;

/// Runs every row, also after a failure.
///
/// # Errors
/// With the error of each row that failed, under its name.
pub fn each<R: Send>(
    rows: Vec<(String, R)>,
    run: impl Fn(R) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let rows = Mutex::new(rows.into_iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = rows.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((name, row)) = next else {
                        break;
                    };
                    if let Err(error) = run(row) {
                        let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                        wrong.push(format!("{name}: {error:#}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}
