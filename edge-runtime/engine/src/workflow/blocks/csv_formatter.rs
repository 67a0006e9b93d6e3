//! Formats values as a table.

use std::collections::BTreeMap;

use super::super::uql::{Chain, apply_named, named_operations};
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/csv_formatter@v1",
    summary: "Formats values as a CSV table: one row per picture of the batch, with a column for \
              the time.",
    properties: &[
        Property::value("columns_data", Shape::Dict)
            .about("the values, by column name")
            .entries_only(),
        named_operations(
            "columns_operations",
            "operations to apply to the values first",
        ),
    ],
    outputs: &[Output::new("csv_content", &[Kind::Text])],
    whole_batch: true,
    mixed: &["columns_data"],
    build,
    ..Manifest::of("formatter")
}];

/// Name of the column of the time.
const TIME: &str = "timestamp";

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    for property in ["columns_data", "columns_operations"] {
        if setup
            .literals
            .get(property)
            .is_some_and(|columns| columns.get(TIME).is_some())
        {
            return Err(format!(
                "{property} has a column {TIME}, which every table has already; rename it"
            ));
        }
    }
    Ok(stateful_instance(Table {
        operations: setup.parse("columns_operations")?,
    }))
}

struct Table {
    operations: BTreeMap<String, Chain>,
}

impl Stateful for Table {
    /// Rows of the current batch.
    type State = Vec<String>;

    fn run(&self, rows: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let is_last = call.left == 0;
        let row = self.row(call);
        if let Ok(row) = &row {
            rows.push(row.clone());
        }
        if is_last {
            // The last element of the batch has the table; the others have none.
            let rows = std::mem::take(rows);
            let table = format!("{}{}", head(call.arg(arg!("columns_data"))), rows.concat());
            call.put(0, table);
        }
        row.map(drop)
    }
}

impl Table {
    fn row(&self, call: &Call<'_>) -> Result<String, String> {
        let mut data = call.arg(arg!("columns_data")).clone();
        apply_named(&self.operations, &mut data, "columns_data", call.ids)?;
        let now = call.host.wall_clock().ok_or("the time of day is unknown")?;
        let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string();
        let cells = data.entries().map(|(_, value)| cell(value));
        let cells: Vec<String> = cells.chain([now]).collect();
        Ok(cells.join(",") + "\n")
    }
}

fn head(data: &Value) -> String {
    let names = data.entries().map(|(name, _)| quoted(name));
    let names: Vec<String> = names.chain([TIME.to_owned()]).collect();
    names.join(",") + "\n"
}

/// Formats a cell. Text that a spreadsheet would read as a formula is escaped.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Text(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => {
            quoted(&format!("'{text}"))
        }
        other => quoted(&other.python_str()),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::Value;
    use super::super::super::tests::bench::{Bench, boxes};
    use super::Kind;

    #[test]
    fn batch_makes_one_table_with_a_row_per_element() {
        let step = json!({
            "type": "roboflow_core/csv_formatter@v1",
            "columns_data": {"count": "$inputs.boxes", "note": "$inputs.note", "where": "gate 1, left"},
            "columns_operations": {"count": [{"type": "SequenceLength"}]}
        });
        let mut bench = Bench::new(
            step,
            &[("boxes", Kind::ObjectDetection), ("note", Kind::Text)],
        );
        let row = json!({"x": 5.0, "y": 6.0, "width": 2.0, "height": 2.0});
        let rows = bench
            .feed_batch(&[
                ("boxes", vec![boxes([9, 9], &[]), boxes([9, 9], &[row])]),
                ("note", vec!["=1+1".into(), Value::Text("a \"b\"".into())]),
            ])
            .unwrap();
        assert_eq!(rows[0]["csv_content"], json!(null));
        let wanted = "count,note,where,timestamp\n\
             0,'=1+1,\"gate 1, left\",2024-05-06T07:08:09.500000+00:00\n\
             1,\"a \"\"b\"\"\",\"gate 1, left\",2024-05-06T07:08:09.500000+00:00\n";
        assert_eq!(rows[1]["csv_content"], wanted);
    }

    #[test]
    fn column_called_timestamp_is_refused() {
        let why = Bench::refusal(
            json!({"type": "roboflow_core/csv_formatter@v1", "columns_data": {"timestamp": 1}}),
        );
        assert!(why.contains("timestamp"), "{why}");
    }
}
