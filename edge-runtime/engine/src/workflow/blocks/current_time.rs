//! Returns the time of day.

use jiff::tz::TimeZone;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/current_time@v1",
    summary: "Returns the time of day in a time zone.",
    properties: &[Property::choice(
        "timezone",
        &[
            "Etc/GMT+12",
            "Pacific/Pago_Pago",
            "Pacific/Honolulu",
            "Pacific/Marquesas",
            "America/Anchorage",
            "Pacific/Gambier",
            "America/Los_Angeles",
            "America/Denver",
            "America/Phoenix",
            "America/Chicago",
            "America/Mexico_City",
            "America/New_York",
            "America/Bogota",
            "America/Halifax",
            "America/Puerto_Rico",
            "America/St_Johns",
            "America/Sao_Paulo",
            "Atlantic/South_Georgia",
            "Atlantic/Azores",
            "Atlantic/Cape_Verde",
            "UTC",
            "Europe/London",
            "Europe/Berlin",
            "Africa/Lagos",
            "Europe/Kyiv",
            "Africa/Cairo",
            "Africa/Johannesburg",
            "Europe/Moscow",
            "Europe/Istanbul",
            "Africa/Nairobi",
            "Asia/Tehran",
            "Asia/Dubai",
            "Asia/Kabul",
            "Asia/Karachi",
            "Asia/Kolkata",
            "Asia/Kathmandu",
            "Asia/Dhaka",
            "Asia/Yangon",
            "Asia/Bangkok",
            "Asia/Shanghai",
            "Australia/Eucla",
            "Asia/Tokyo",
            "Australia/Darwin",
            "Australia/Adelaide",
            "Australia/Sydney",
            "Pacific/Port_Moresby",
            "Australia/Lord_Howe",
            "Pacific/Guadalcanal",
            "Pacific/Norfolk",
            "Pacific/Fiji",
            "Pacific/Auckland",
            "Pacific/Chatham",
            "Pacific/Tongatapu",
            "Pacific/Apia",
            "Pacific/Kiritimati",
        ],
        "UTC",
    )
    .about("name of the time zone")],
    outputs: &[
        Output::new("timestamp", &[Kind::Timestamp]),
        Output::new("iso_string", &[Kind::Text]),
        Output::new("date", &[Kind::Text]),
        Output::new("time", &[Kind::Text]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("formatter")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let name = call.text(arg!("timezone"))?;
    let zone = match name {
        "UTC" => TimeZone::UTC,
        other => TimeZone::get(other).map_err(|e| format!("{other:?} is not a time zone: {e}"))?,
    };
    let now = call.host.wall_clock().ok_or("the time of day is unknown")?;
    let here = now.to_zoned(zone);
    call.finish_all((
        Value::Time(now),
        here.strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string(),
        here.strftime("%Y-%m-%d").to_string(),
        here.strftime("%H:%M:%S").to_string(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;

    #[test]
    fn time_is_in_the_time_zone() {
        let step = json!({"type": "roboflow_core/current_time@v1", "timezone": "UTC"});
        let out = Bench::new(step, &[]).feed(&[]).unwrap();
        assert_eq!(out["iso_string"], "2024-05-06T07:08:09.500000+00:00");
        assert_eq!(
            (&out["date"], &out["time"]),
            (&json!("2024-05-06"), &json!("07:08:09"))
        );
    }
}
