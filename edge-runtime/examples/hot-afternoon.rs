//! Prints one simulated afternoon of a box in a hot cabinet: with the heat policy and without it.
//!
//! `hot-afternoon` prints the table of docs/design/0048-load-shedding.md, `hot-afternoon --svg` the
//! plot beside it.

use std::time::Duration;

use watchkeeper_runtime::load::{Grant, HeatPolicy, Level, policy};

#[path = "../src/load/afternoon.rs"]
mod afternoon;
#[path = "../src/load/simulated.rs"]
#[expect(dead_code, reason = "the tests of the policy use more of it")]
mod simulated;

/// Interval of the rows.
const ROW: Duration = Duration::from_secs(1200);

#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn main() {
    let rows = afternoon::rows();
    if std::env::args().nth(1).as_deref() == Some("--svg") {
        print!("{}", afternoon::plot(&rows));
        return;
    }
    println!("| minute | air | without | with | level | looks of normal and low | steps |");
    let seldom = |row: &&afternoon::Row| row.at.as_secs().is_multiple_of(ROW.as_secs());
    for row in rows.iter().filter(seldom) {
        let [normal, low] = row.looks;
        println!(
            "| {} | {:.0} °C | {:.0} °C | {:.0} °C | {} | {normal:.1} and {low:.1} a second | {} |",
            row.at.as_secs() / 60,
            row.air.0,
            row.alone.0,
            row.chip.0,
            row.level.number(),
            row.steps,
        );
    }
}
