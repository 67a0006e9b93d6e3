//! Reading of requests in words.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use super::*;
use crate::plan::check;
use crate::tools::picture_tools;

fn now() -> DateTime {
    // A Saturday.
    "2026-11-28T15:00:00".parse().unwrap()
}

fn names() -> KnownNames {
    let mut names = KnownNames::default();
    names.cameras.add("gate", None);
    names.cameras.add("dock-2", Some("Löading Dock"));
    names.classes = ["person", "car"].map(str::to_owned).to_vec();
    names.rules = vec!["delivery".to_owned()];
    names.zones = vec!["work_bench".to_owned()];
    names
}

/// The steps of a plan in one line.
fn steps(text: &str) -> String {
    let plan = plan(text, now(), &names()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let steps = plan.steps.iter().map(|step| {
        let params = step.call.params.iter().filter(|(name, value)| {
            let is_reference = value.as_str().is_some_and(|text| text.starts_with("${"));
            let is_name = ["title", "name", "file"].contains(&name.as_str());
            !is_reference && !is_name && value.as_str() != Some("events")
        });
        let params = params.map(|(name, value)| format!(" {name}={value}"));
        let folder = plan.inputs.get("folder").filter(|_| step.name == "list");
        let folder = folder
            .map(|folder| format!(" folder={folder}"))
            .unwrap_or_default();
        format!("{}{folder}{}", step.call.tool, params.collect::<String>())
    });
    steps.collect::<Vec<_>>().join(" → ")
}

#[test]
fn requests_become_chains_of_steps() {
    for (text, expected) in [
        (
            "organise last week's deliveries by bay and keep the three best pictures of each",
            "event_pictures since=\"2026-11-16T00:00:00\" until=\"2026-11-23T00:00:00\" \
             what=\"delivery\" → measure_quality → group by=\"zone\" \
             → select_best by=\"quality\" count=3 → album",
        ),
        (
            "Find my 10 best photos in ./photos",
            "list_pictures folder=\"./photos\" → measure_quality → select_best by=\"quality\" count=10 → album",
        ),
        (
            "sort the pictures in /srv/Pictures by day without duplicates",
            "list_pictures folder=\"/srv/Pictures\" → find_duplicates → group by=\"day\" → album",
        ),
        (
            "make a contact sheet of yesterday's cars",
            "event_pictures since=\"2026-11-27T00:00:00\" until=\"2026-11-28T00:00:00\" \
             what=\"car\" → contact_sheet",
        ),
        (
            "organise ./a by day, oldest first",
            "list_pictures folder=\"./a\" → group by=\"day\" → rank by=\"oldest\" → album",
        ),
        (
            "remove duplicates from \"My Holiday\"",
            "list_pictures folder=\"My Holiday\" → find_duplicates → album",
        ),
        (
            "the best picture of each camera of the last 3 days",
            "event_pictures since=\"2026-11-25T15:00:00\" until=\"2026-11-28T15:00:00\" \
             → measure_quality → group by=\"camera\" → select_best by=\"quality\" count=1 → album",
        ),
        (
            "photos of the Gate by month",
            "event_pictures camera=\"gate\" since=\"1970-01-01T00:00:00\" → group by=\"month\" → album",
        ),
        (
            "the 3 best photos at the löading dock camera before 2026-04",
            "event_pictures camera=\"dock-2\" since=\"1970-01-01T00:00:00\" \
             until=\"2026-04-01T00:00:00\" → measure_quality → select_best by=\"quality\" count=3 → album",
        ),
        (
            "yesterday's cars of the gate by hour",
            "event_pictures camera=\"gate\" since=\"2026-11-27T00:00:00\" \
             until=\"2026-11-28T00:00:00\" what=\"car\" → group by=\"hour\" → album",
        ),
        (
            "photos in ./a from 2023 with people, only sharp ones, by month",
            "list_pictures folder=\"./a\" → filter \
             since=\"2023-01-01T00:00:00\" until=\"2024-01-01T00:00:00\" \
             → measure_quality → filter min_sharpness=0.35 \
             → find_objects class=\"person\" → group by=\"month\" → album",
        ),
        (
            "the 5 best photos of camera X100 in ./a without people",
            "list_pictures folder=\"./a\" → filter camera=\"X100\" \
             → find_objects class=\"person\" → measure_quality \
             → select_best by=\"quality\" count=5 → album",
        ),
        (
            "the 5 best photos of camera \"Canon EOS R5\" in ./a",
            "list_pictures folder=\"./a\" → filter camera=\"Canon EOS R5\" \
             → measure_quality → select_best by=\"quality\" count=5 → album",
        ),
        (
            "organise by camera \"My Photos\"",
            "list_pictures folder=\"My Photos\" → group by=\"camera\" → album",
        ),
        (
            "yesterday's pictures of the gate without cars, grouped by hour",
            "event_pictures camera=\"gate\" since=\"2026-11-27T00:00:00\" \
             until=\"2026-11-28T00:00:00\" → filter where=[\"class is not car\"] \
             → find_objects class=\"car\" → group by=\"hour\" → album",
        ),
        (
            "keep one photo per burst of ./a and put them in a folder called picks",
            "list_pictures folder=\"./a\" → find_duplicates → album",
        ),
        (
            "a contact sheet of the last 20 pictures in ./a",
            "list_pictures folder=\"./a\" → select_best by=\"newest\" count=20 → contact_sheet",
        ),
        (
            "yesterday's photos with a car by hour",
            "event_pictures since=\"2026-11-27T00:00:00\" until=\"2026-11-28T00:00:00\" \
             what=\"car\" → group by=\"hour\" → album",
        ),
        (
            "photos in ./a from 2023 on a contact sheet",
            "list_pictures folder=\"./a\" → filter since=\"2023-01-01T00:00:00\" \
             until=\"2024-01-01T00:00:00\" → contact_sheet",
        ),
        (
            "organise . by day",
            "list_pictures folder=\".\" → group by=\"day\" → album",
        ),
        (
            "group ./a by day and make an album of the best one of each day",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"day\" \
             → select_best by=\"quality\" count=1 → album",
        ),
        (
            "pick the best photo of each burst in ./a and put them into an album named b",
            "list_pictures folder=\"./a\" → find_duplicates → album",
        ),
        (
            "organise ./a by day, also a contact sheet",
            "list_pictures folder=\"./a\" → group by=\"day\" → contact_sheet → album",
        ),
        (
            "copy the photos from ./a",
            "list_pictures folder=\"./a\" → album",
        ),
        (
            "the 3 best photos of the gate per month",
            "event_pictures camera=\"gate\" since=\"1970-01-01T00:00:00\" → measure_quality \
             → group by=\"month\" → select_best by=\"quality\" count=3 → album",
        ),
        (
            "remove all the near duplicates of ./a",
            "list_pictures folder=\"./a\" → find_duplicates → album",
        ),
        (
            "sort the photos in ./a by camera model",
            "list_pictures folder=\"./a\" → group by=\"camera\" → album",
        ),
        (
            "sort ./a by year and month, the 2 best of each",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"month\" \
             → select_best by=\"quality\" count=2 → album",
        ),
        (
            "./a by week by camera",
            "list_pictures folder=\"./a\" → group by=\"week\" → group by=\"camera\" → album",
        ),
        (
            "best 5 of ./a as a contact sheet and a folder",
            "list_pictures folder=\"./a\" → measure_quality \
             → select_best by=\"quality\" count=5 → contact_sheet → album",
        ),
        (
            "./a by camera, day and hour of the day",
            "list_pictures folder=\"./a\" → group by=\"camera\" → group by=\"day\" \
             → group by=\"hour_of_day\" → album",
        ),
        (
            "organise ./a by month then day",
            "list_pictures folder=\"./a\" → group by=\"month\" → group by=\"day\" → album",
        ),
        (
            "group my photos in ./a by place and then by month, newest first",
            "list_pictures folder=\"./a\" → group by=\"place\" → group by=\"month\" \
             → rank by=\"newest\" → album",
        ),
        (
            "put the blurred photos in ./a apart",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"sharpness\" → album",
        ),
        (
            "put the photos in ./a in one album by month",
            "list_pictures folder=\"./a\" → group by=\"month\" → album",
        ),
        (
            "photos in ./can't by day",
            "list_pictures folder=\"./can't\" → group by=\"day\" → album",
        ),
        (
            "photos in ./a excluding duplicates, since March 2026",
            "list_pictures folder=\"./a\" → filter since=\"2026-03-01T00:00:00\" \
             → find_duplicates → album",
        ),
        (
            "the best 5 until 20 November 2026 in ./a",
            "list_pictures folder=\"./a\" → filter until=\"2026-11-21T00:00:00\" \
             → measure_quality → select_best by=\"quality\" count=5 → album",
        ),
        (
            "put the blurred ones in a separate folder, from ./a",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"sharpness\" → album",
        ),
        (
            "the photos in ./a by day, the blurry photos apart",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"day\" \
             → group by=\"sharpness\" → album",
        ),
        (
            "keep only the photos of ./a from 2022 and 2023, sorted by sharpness",
            "list_pictures folder=\"./a\" → filter since=\"2022-01-01T00:00:00\" \
             until=\"2024-01-01T00:00:00\" → measure_quality → rank by=\"sharpness\" → album",
        ),
        (
            "the photos in ./a taken with the Canon EOS R5 in March 2023",
            "list_pictures folder=\"./a\" → filter camera=\"Canon EOS R5\" \
             since=\"2023-03-01T00:00:00\" until=\"2023-04-01T00:00:00\" → album",
        ),
        (
            "photos of the gate of the last 2 months",
            "event_pictures camera=\"gate\" since=\"2026-09-28T15:00:00\" \
             until=\"2026-11-28T15:00:00\" → album",
        ),
        (
            "show deliveries of yesterday by hour",
            "event_pictures since=\"2026-11-27T00:00:00\" until=\"2026-11-28T00:00:00\" \
             what=\"delivery\" → group by=\"hour\" → album",
        ),
        (
            "yesterday's pictures with people and a car",
            "event_pictures since=\"2026-11-27T00:00:00\" until=\"2026-11-28T00:00:00\" \
             → find_objects class=\"person\" → find_objects class=\"car\" → album",
        ),
        (
            "the photos in ./a on Friday night",
            "list_pictures folder=\"./a\" → filter since=\"2026-11-27T22:00:00\" \
             until=\"2026-11-28T06:00:00\" → album",
        ),
        (
            "yesterday's photos in ./a at night",
            "list_pictures folder=\"./a\" → filter since=\"2026-11-27T22:00:00\" \
             until=\"2026-11-28T06:00:00\" → album",
        ),
        (
            "yesterday's photos in ./a, not at night",
            "list_pictures folder=\"./a\" → filter since=\"2026-11-27T00:00:00\" \
             until=\"2026-11-28T00:00:00\" where=[\"hour is not 22-6\"] → album",
        ),
        (
            "please list the photos in ./a",
            "list_pictures folder=\"./a\" → album",
        ),
        (
            "which pictures in ./a are blurred",
            "list_pictures folder=\"./a\" → measure_quality \
             → filter where=[\"sharpness < 0.35\"] → album",
        ),
        (
            "the photos of ./a that are not blurred, by month",
            "list_pictures folder=\"./a\" → measure_quality → filter min_sharpness=0.35 \
             → group by=\"month\" → album",
        ),
        (
            "the blurred ones of ./a apart, without duplicates",
            "list_pictures folder=\"./a\" → find_duplicates → group by=\"sharpness\" → album",
        ),
        (
            "photos of ./a not by the Nikon D850",
            "list_pictures folder=\"./a\" → filter where=[\"camera is not Nikon D850\"] → album",
        ),
        (
            "photos of ./a except those taken with my Canon EOS R5, by day",
            "list_pictures folder=\"./a\" → filter where=[\"camera is not Canon EOS R5\"] \
             → group by=\"day\" → album",
        ),
        (
            "./a & only the iphone",
            "list_pictures folder=\"./a\" → filter camera=\"iphone\" → album",
        ),
        (
            "photos in ./a taken with the Pixel 7",
            "list_pictures folder=\"./a\" → filter camera=\"Pixel 7\" → album",
        ),
        (
            "photographs of ./a taken with the iphone",
            "list_pictures folder=\"./a\" → filter camera=\"iphone\" → album",
        ),
        (
            "only 2 of each day in ./a",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"day\" \
             → select_best by=\"quality\" count=2 → album",
        ),
        (
            "photos in ./a over 2 megapixels but under 8 megapixels",
            "list_pictures folder=\"./a\" \
             → filter where=[\"megapixels > 2\",\"megapixels < 8\"] → album",
        ),
        (
            "photos in ./a that aren't blurred, with exactly two megapixels",
            "list_pictures folder=\"./a\" → filter where=[\"megapixels = 2\"] \
             → measure_quality → filter min_sharpness=0.35 → album",
        ),
        (
            "./a per weekday, mornings only",
            "list_pictures folder=\"./a\" → filter where=[\"hour is 6-12\"] \
             → group by=\"weekday\" → album",
        ),
        (
            "group ./a by weeks, mornings only",
            "list_pictures folder=\"./a\" → filter where=[\"hour is 6-12\"] \
             → group by=\"week\" → album",
        ),
        (
            "put ./a in order by hour of the day",
            "list_pictures folder=\"./a\" → group by=\"hour_of_day\" → album",
        ),
        (
            "photos in ./a from 9:30:30 to 10:15",
            "list_pictures folder=\"./a\" \
             → filter where=[\"hour is 9:30:30-10:15\"] → album",
        ),
        (
            "people at the gate yesterday between 7 and 9 in the evening",
            "event_pictures camera=\"gate\" since=\"2026-11-27T00:00:00\" \
             until=\"2026-11-28T00:00:00\" what=\"person\" \
             → filter where=[\"hour is 19-21\"] → album",
        ),
        (
            "photos in ./a no older than 3 days",
            "list_pictures folder=\"./a\" → filter since=\"2026-11-25T15:00:00\" → album",
        ),
        (
            "photos in ./a from the day before yesterday to yesterday",
            "list_pictures folder=\"./a\" → filter since=\"2026-11-26T00:00:00\" \
             until=\"2026-11-28T00:00:00\" → album",
        ),
        (
            "put the blurred ones apart, from ./a",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"sharpness\" → album",
        ),
        (
            "throw out the blurry and the duplicate ones of ./a, keeping 12",
            "list_pictures folder=\"./a\" → measure_quality → filter min_sharpness=0.35 \
             → find_duplicates → select_best by=\"quality\" count=12 → album",
        ),
        (
            "photos in ./a excluding duplicates, taken with the Canon",
            "list_pictures folder=\"./a\" → filter camera=\"Canon\" → find_duplicates → album",
        ),
        (
            "photos in ./a since Monday, mornings only",
            "list_pictures folder=\"./a\" → filter since=\"2026-11-23T00:00:00\" \
             where=[\"hour is 6-12\"] → album",
        ),
        (
            "split ./a into sharp and blurred ones",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"sharpness\" → album",
        ),
        (
            "separate the portrait from the landscape photos in ./a",
            "list_pictures folder=\"./a\" → group by=\"shape\" → album",
        ),
        (
            "sort ./a by month and inside that by camera",
            "list_pictures folder=\"./a\" → group by=\"month\" → group by=\"camera\" → album",
        ),
        (
            "group shots in ./a taken within 30 seconds of each other, the sharpest of every \
             group",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"gap\" gap_minutes=0.5 \
             → select_best by=\"sharpness\" count=1 → album",
        ),
        (
            "sort ./a by date taken, newest first",
            "list_pictures folder=\"./a\" → rank by=\"newest\" → album",
        ),
        (
            "rank ./a from sharpest to blurriest",
            "list_pictures folder=\"./a\" → measure_quality → rank by=\"sharpness\" → album",
        ),
        (
            "photos in ./a in reverse chronological order",
            "list_pictures folder=\"./a\" → rank by=\"newest\" → album",
        ),
        (
            "sort ./a by date into folders",
            "list_pictures folder=\"./a\" → group by=\"day\" → album",
        ),
        (
            "group the pictures in ./a by the code they show",
            "list_pictures folder=\"./a\" → read_codes → group by=\"code\" → album",
        ),
        (
            "photos in ./a with a QR code but without barcodes",
            "list_pictures folder=\"./a\" → read_codes kind=\"qr\" → read_codes kind=\"bar\" \
             → album",
        ),
        (
            "remove the blurred ones and the exact copies in ./a, the 3 best",
            "list_pictures folder=\"./a\" → measure_quality → filter min_sharpness=0.35 \
             → find_duplicates exact=true → select_best by=\"quality\" count=3 → album",
        ),
        (
            "remove the exact copies in ./a",
            "list_pictures folder=\"./a\" → find_duplicates exact=true → album",
        ),
        (
            "keep only the largest version of every duplicate in ./a",
            "list_pictures folder=\"./a\" → find_duplicates by=\"largest\" → album",
        ),
        (
            "from ./a take the Canon pictures, drop the blurred ones and the duplicates",
            "list_pictures folder=\"./a\" → filter camera=\"Canon\" → measure_quality \
             → filter min_sharpness=0.35 → find_duplicates → album",
        ),
        (
            "find bursts in ./a and keep the sharpest of each",
            "list_pictures folder=\"./a\" → measure_quality → find_duplicates \
             → select_best by=\"sharpness\" count=1 → album",
        ),
    ] {
        assert_eq!(steps(text), expected, "{text}");
    }
}

#[test]
fn number_of_all_pictures_bounds_those_of_each_group() {
    for (text, best) in [
        (
            "the 3 sharpest of each day, 20 in all, from ./a",
            "by=\"sharpness\" count=3 total=20",
        ),
        (
            "top 5 per day in ./a, max 12 in total",
            "by=\"quality\" count=5 total=12",
        ),
        (
            "pick the 2 best shots of each day in ./a but no more than 10 overall",
            "by=\"quality\" count=2 total=10",
        ),
    ] {
        let expected = format!("group by=\"day\" → select_best {best} → album");
        let found = steps(text);
        assert!(found.ends_with(&expected), "{text}: {found}");
    }
    let of_all = steps("organise ./a by day, 12 in all");
    assert!(of_all.contains("count=12 → group"), "{of_all}");
    assert!(plan("the 3 best of ./a, 20 in all", now(), &names()).is_err());
}

#[test]
fn words_of_several_people_make_one_plan() {
    for (text, usual) in [
        (
            "./a as an album in the order they were taken",
            "./a in chronological order",
        ),
        (
            "./a: duplicates out, then by day",
            "./a without duplicates, by day",
        ),
        (
            "by day, with the blurred ones removed, ./a",
            "./a without blurred ones, by day",
        ),
        (
            "weed out the fuzzy shots of ./a, by camera",
            "./a without blurred ones, by camera",
        ),
        (
            "./a, leave out the blurred and dark ones",
            "./a without blurred ones, no dark ones",
        ),
        ("./a day by day", "./a by day"),
        (
            "the blurred ones and the dark ones of ./a",
            "blurred or dark photos of ./a",
        ),
        ("./a, one album a month", "./a by month"),
        (
            "./a by camera and, within each camera, by day",
            "./a by camera and day",
        ),
        (
            "drop the overexposed one of ./a",
            "./a without overexposed ones",
        ),
        (
            "the blurred photos of ./a go into an album redo",
            "the blurred photos of ./a into an album redo",
        ),
        (
            "which photos of ./a have no date?",
            "photos in ./a without a date",
        ),
        ("where were the photos in ./a taken?", "./a by place"),
        (
            "which is the sharpest picture in ./a?",
            "the sharpest picture in ./a",
        ),
        (
            "the photo with the highest resolution in ./a",
            "the largest photo in ./a",
        ),
        (
            "every shot in ./a that the Canon took",
            "photos in ./a taken with the Canon",
        ),
        (
            "a collage of the 9 nicest of ./a",
            "a contact sheet of the 9 best of ./a",
        ),
        ("for my report, ./a by month", "./a by month"),
        (
            "photos in ./a of 5 and 6 October 2026",
            "photos in ./a from 5 to 6 October 2026",
        ),
        (
            "./a sorted by sharpness, blurriest first",
            "./a, blurriest first",
        ),
        (
            "rank ./a by contrast and keep the top ten",
            "./a sorted by contrast, keep 10",
        ),
        ("./a between 9 and 12 am", "./a between 9:00 and 12:00"),
        (
            "photos in ./a taken on a Sunday",
            "photos in ./a from Sunday",
        ),
        (
            "all pictures in ./a over 1 MP",
            "photos in ./a of more than 1 megapixels",
        ),
    ] {
        assert_eq!(steps(text), steps(usual), "{text}");
    }
}

#[test]
fn words_of_further_people_make_one_plan() {
    for (text, usual) in [
        (
            "sort ./a by day so that I get the 3 best of each day",
            "sort ./a by day, the 3 best of each day",
        ),
        (
            "./a is to be sorted by day, newest first",
            "./a sorted by day, newest first",
        ),
        (
            "divide ./a up by camera, then by day",
            "./a by camera then day",
        ),
        (
            "leave the blurred ones out of ./a",
            "./a without blurred photos",
        ),
        (
            "./a by code, leave out those without a code",
            "photos with a code in ./a by code",
        ),
        (
            "anything older than 2010 in ./a",
            "photos in ./a before 2010",
        ),
        (
            "the oldest photo by each camera in ./a",
            "the oldest photo of each camera in ./a",
        ),
        (
            "photos in ./a from 12 to 5 am",
            "photos in ./a between 0:00 and 5:00",
        ),
        ("the October ones of ./a", "October photos of ./a"),
        (
            "leave the photos of camera gate out of ./a",
            "photos in ./a not from the gate",
        ),
        (
            "the newest 3 cars",
            "the newest 3 pictures of cars since 1970-01-01",
        ),
        (
            "split ./a into outings, a new outing starts after a pause of more than 2 hours",
            "./a by gaps of 2 hours",
        ),
        (
            "group ./a wherever more than 2 hours lie between two pictures",
            "./a by gaps of 2 hours",
        ),
        (
            "cut ./a into chapters wherever nobody took a picture for more than 2 hours",
            "./a by gaps of 2 hours",
        ),
        (
            "the sharpest of the three shots in every hour of ./a",
            "the sharpest shot of each hour in ./a",
        ),
        (
            "out of ./a, one photo per burst, the sharpest of each, in an album called trip",
            "the sharpest photo of each burst in ./a",
        ),
        (
            "./a without duplicates, the largest version",
            "./a without duplicates, keep the largest",
        ),
        (
            "how many photos did each camera take in ./a?",
            "./a by camera",
        ),
        (
            "photos by the Canon or an Apple device (folder ./a)",
            "photos in ./a taken with the Canon or the Apple",
        ),
        (
            "leave out near-identical pictures in ./a and show the remaining ones",
            "./a without duplicates",
        ),
        (
            "pictures in ./a that have a date and a position",
            "photos in ./a that have both a date and GPS",
        ),
        (
            "pictures of ./a where no code is readable",
            "photos of ./a without a code",
        ),
        (
            "the Saturday or Sunday pictures of ./a",
            "photos of ./a on weekends",
        ),
        (
            "Sunday morning pictures in ./a",
            "photos in ./a on Sunday mornings",
        ),
        (
            "bundle ./a by the content of the code on them",
            "group ./a by code",
        ),
        (
            "files in ./a heavier than 400 kB, heaviest at the top",
            "files in ./a larger than 400 KB, heaviest first",
        ),
        (
            "from ./a everything except what is in mill_road_3",
            "photos in ./a not in folder mill_road_3",
        ),
        (
            "only the pictures from harbour_view and oak_lane_12 in ./a",
            "photos in ./a from folder harbour_view and folder oak_lane_12",
        ),
        (
            "today's pictures of both cameras, one album per camera",
            "today's photos of the löading dock and the gate by camera",
        ),
        (
            "an album of every car that the gate camera saw today",
            "today's cars of the gate",
        ),
    ] {
        assert_eq!(steps(text), steps(usual), "{text}");
    }
    for (text, condition) in [
        (
            "photos in ./a of the 5th and the 12th of October 2026",
            "time is 2026-10-05T00:00:00 to 2026-10-06T00:00:00 or 2026-10-12T00:00:00 to \
             2026-10-13T00:00:00",
        ),
        ("only house 7 of ./a", "folder is 7 or house 7"),
        ("photos in ./a on 5 October", "day is 5 october"),
        (
            "photos in ./a whose name contains 'plate'",
            "name is *plate*",
        ),
    ] {
        let found = steps(text);
        assert!(found.contains(condition), "{text}: {found}");
    }
    let of_codes = steps("an album for each QR code in ./a");
    let expected = "read_codes kind=\"qr\" → group by=\"code\" → album";
    assert!(of_codes.ends_with(expected), "{of_codes}");
}

#[test]
fn each_output_of_a_request_has_pictures_of_its_own() {
    for (text, expected) in [
        (
            "make two albums out of ./a: the sharp ones go to good, the blurry ones go to bad",
            "list_pictures folder=\"./a\" → measure_quality → filter min_sharpness=0.35 → album \
             → filter where=[\"sharpness < 0.35\"] → album",
        ),
        (
            "sharpest picture of each folder of ./a into album cover, the rest into album more",
            "list_pictures folder=\"./a\" → measure_quality → group by=\"folder\" \
             → select_best by=\"sharpness\" count=1 → album → combine → album",
        ),
        (
            "portrait-format pictures of ./a in one album, landscape ones in another",
            "list_pictures folder=\"./a\" → filter where=[\"shape is portrait\"] → album \
             → filter where=[\"shape is landscape\"] → album",
        ),
        (
            "the pictures of ./a, one album for the Canon and one for the Samsung",
            "list_pictures folder=\"./a\" → filter camera=\"Canon\" → album \
             → filter camera=\"Samsung\" → album",
        ),
        (
            "photos in ./a: those with a readable code in one album, those without in another",
            "list_pictures folder=\"./a\" → read_codes → album → combine → album",
        ),
        (
            "an album of ./a by day and a contact sheet of the 10 best",
            "list_pictures folder=\"./a\" → group by=\"day\" → album → measure_quality \
             → select_best by=\"quality\" count=10 → contact_sheet",
        ),
        (
            "the sharp ones of ./a as an album, the rest on a contact sheet",
            "list_pictures folder=\"./a\" → measure_quality → filter min_sharpness=0.35 → album \
             → combine → contact_sheet",
        ),
    ] {
        assert_eq!(steps(text), expected, "{text}");
        check(plan(text, now(), &names()).unwrap(), &picture_tools()).unwrap();
    }
    let albums = |text: &str| {
        let plan = plan(text, now(), &names()).unwrap();
        let names = plan
            .steps
            .iter()
            .filter_map(|step| step.call.params.get("name"));
        names
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        albums("the brightest and the 2 darkest photos of ./a"),
        ["brightest", "darkest"]
    );
    let months = "put the May ones of ./a in album \"m\" and the June ones in album \"j\"";
    assert_eq!(albums(months), ["m", "j"]);
    let parcels = "parcel photos in ./parcels: those with a code in one album, those without in \
                   another";
    assert_eq!(albums(parcels), ["album", "album 2"]);
    for text in [
        "the sharp ones of ./a as an album, the moody rest on a contact sheet",
        "the 10 best of ./a into album top, the rest without blurred ones into album more",
        "sharp photos from June 2026 in ./a into album good, the rest into album other",
        "the sharp ones of ./a into album good, dark ones into album dark, the rest into album b",
        "photos with a car in ./a: sharp ones into album good, the rest into album other",
        "cars of ./a, from June 2026, sharp ones into album good, blurry ones into album bad",
        "photos in ./a from May to June and photos from July to August by mood",
        "the best and sharpest photos of ./a",
        "make three albums of ./a: the sharp ones go to good, the blurry ones go to bad",
        "the sharp ones of ./a into album good, the moody ones into album bad",
        "sharp photos of ./a into album a, the rest into album b, newest first",
        "make an album and a contact sheet of the moody ones of ./a",
        "blurred photos in ./blurred, the best 3 into album a, the newest 5 into album b",
    ] {
        assert!(plan(text, now(), &names()).is_err(), "{text}");
    }
}

#[test]
fn several_folders_are_read_as_one() {
    let two = plan("photos in ./a, ./b and ./c by day", now(), &names()).unwrap();
    let folders: Vec<&str> = two.inputs.values().filter_map(Value::as_str).collect();
    assert_eq!(folders, ["./a", "./b", "./c"]);
    let tools = two.steps.iter().map(|step| step.call.tool.as_str());
    assert_eq!(tools.filter(|tool| *tool == "combine").count(), 2);
    check(two, &picture_tools()).unwrap();
}

#[test]
fn noun_of_one_event_is_that_of_its_rule_or_class() {
    let yesterday = "event_pictures since=\"2026-11-27T00:00:00\" \
                     until=\"2026-11-28T00:00:00\"";
    for (text, expected) in [
        (
            "the sharpest picture of each delivery of yesterday",
            "what=\"delivery\" → album",
        ),
        (
            "the last delivery of yesterday",
            "what=\"delivery\" → select_best by=\"newest\" count=1 → album",
        ),
        (
            "the first car of each hour of yesterday",
            "what=\"car\" → group by=\"hour\" → select_best by=\"oldest\" count=1 → album",
        ),
        (
            "the newest car pictures of yesterday",
            "what=\"car\" → select_best by=\"newest\" count=10 → album",
        ),
        (
            "yesterday's deliveries, newest first, at most 20",
            "what=\"delivery\" → select_best by=\"newest\" count=20 → rank by=\"newest\" → album",
        ),
    ] {
        assert_eq!(steps(text), format!("{yesterday} {expected}"), "{text}");
    }
}

#[test]
fn zone_of_the_box_is_named_by_a_preposition() {
    for (text, expected) in [
        ("yesterday's cars at the work bench", "zone is work_bench"),
        (
            "yesterday's pictures, not in the work bench zone",
            "zone is not work_bench",
        ),
    ] {
        let found = steps(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
    assert!(plan("photos in ./a at the work bench", now(), &names()).is_err());
}

#[test]
fn plan_is_said_in_one_line() {
    let text = "the 3 best of each week in ./a not last week, without cars, newest first";
    assert_eq!(
        read_as(&plan(text, now(), &names()).unwrap()),
        "folder ./a; filter time is not 2026-11-16T00:00:00 to 2026-11-23T00:00:00; \
         find objects those with < 1 car; group by week; select best by quality, count 3; \
         rank by newest; album"
    );
}

#[test]
fn today_stays_today_in_its_last_second() {
    let now = "2026-11-28T23:59:59.5".parse().unwrap();
    let plan = plan("today's photos by hour", now, &names()).unwrap();
    assert_eq!(plan.steps[0].call.params["since"], "2026-11-28T00:00:00");
}

#[test]
fn phrase_of_a_table_stands_once_and_has_a_meaning() {
    let synonyms = words::Table(include_str!("synonyms.txt"));
    for table in [words::ORDERS, words::GROUPINGS, synonyms] {
        let mut found = std::collections::HashSet::new();
        for (phrase, meaning) in table.entries() {
            assert!(found.insert(phrase) && !meaning.is_empty(), "{phrase}");
        }
    }
}

#[test]
fn collection_is_asked_for_what_its_entries_say() {
    for (text, expected) in [
        ("the cars in the collection events by day", "class is car"),
        (
            "photos of class deed in the collection papers by day",
            "class is deed",
        ),
    ] {
        let steps = steps(text);
        assert!(steps.contains(expected), "{steps}");
        assert!(!steps.contains("find_objects"), "{steps}");
    }
    let with = steps("photos with a car in the collection events by day");
    assert!(with.contains("find_objects"), "{with}");
    let text = "photos in the collection papers with the text \"PLOT 7\" and label site=north";
    let plan = plan(text, now(), &names()).unwrap();
    let query = &plan.steps[0].call.params;
    assert_eq!(
        (&query["text"], &query["label"]),
        (&json!("PLOT 7"), &json!("site=north"))
    );
}

#[test]
fn collection_of_the_archive_is_organised_as_a_folder_is() {
    let of_holiday = "archive_query → ";
    for (text, name, expected) in [
        (
            "organise the pictures of collection holiday by day",
            "holiday",
            "group by=\"day\" → album",
        ),
        (
            "best 3 of each camera in the collection \"day\"",
            "day",
            "measure_quality → group by=\"camera\" → select_best by=\"quality\" count=3 → album",
        ),
        (
            "make a contact sheet of yesterday's sharp photos in the collection events",
            "events",
            "filter since=\"2026-11-27T00:00:00\" until=\"2026-11-28T00:00:00\" \
             → measure_quality → filter min_sharpness=0.35 → contact_sheet",
        ),
        (
            "the photos with people in collection yard-2 of camera gate, newest first",
            "yard-2",
            "filter camera=\"gate\" → find_objects class=\"person\" → rank by=\"newest\" → album",
        ),
    ] {
        let found = steps(text).replace("folder=\"pictures\" ", "");
        assert_eq!(found, format!("{of_holiday}{expected}"), "{text}");
        let plan = plan(text, now(), &names()).unwrap();
        assert_eq!(plan.inputs["collection"], name, "{text}");
    }
    for (text, named) in [
        ("organise my collection by day", "\"collection\""),
        ("organise the collection of photos by day", "\"collection\""),
        ("organise ./a of the collection holiday by day", "\"./a\""),
        ("organise the collection yard/gate by day", "\"yard/gate\""),
    ] {
        let error = plan(text, now(), &names()).unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn number_before_a_grouping_counts_all_unless_each_is_said() {
    let all = |count: u64, by: &str| {
        format!("select_best by=\"quality\" count={count} → group by=\"{by}\"")
    };
    let each = |count: u64, by: &str| {
        format!("group by=\"{by}\" → select_best by=\"quality\" count={count}")
    };
    for (text, expected) in [
        ("the best 10 photos in ./a by year", all(10, "year")),
        ("keep the 3 best of ./a, sorted by day", all(3, "day")),
        ("organise ./a by day, the 3 best in total", all(3, "day")),
        (
            "the best 10 photos in ./a of the last 3 days by day",
            all(10, "day"),
        ),
        ("the best 10 photos in ./a per year", each(10, "year")),
        ("the best 10 photos of each month in ./a", each(10, "month")),
        ("organise ./a by day and keep the 3 best", each(3, "day")),
        (
            "photos in ./a of the last 3 days by day, the best 2",
            each(2, "day"),
        ),
        (
            "yesterday's pictures of dock 2 by hour, the best 3",
            each(3, "hour"),
        ),
        ("the 3 best photos of dock 2 by hour", all(3, "hour")),
        ("the best photo in ./a by camera", each(1, "camera")),
        ("the best photos in ./a by camera", each(10, "camera")),
    ] {
        let found = steps(text);
        assert!(found.contains(&expected), "{text}: {found}");
    }
    let plan = plan("the best 10 photos in ./a by month", now(), &names()).unwrap();
    let reason = &plan
        .steps
        .iter()
        .find(|step| step.name == "best")
        .unwrap()
        .reason;
    assert_eq!(
        reason,
        "the best of all; for as many of each month, say \"of each\""
    );
}

#[test]
fn what_is_not_understood_is_refused_and_named() {
    for (text, named) in [
        ("delete the 3 best photos in ./photos", "\"delete\""),
        ("organise ./photos by mood", "\"mood\""),
        ("delete yesterday's events by camera", "\"delete\""),
        ("stop yesterday's first", "\"stop\""),
        ("yesterday's photos by day, cars first", "\"first\""),
        ("yesterday's photos, cars first, by day", "\"first\""),
        ("organise photos by day", "which pictures"),
        ("photos of an apple in ./a", "\"apple\""),
        (
            "photos in ./a whose names contain IMG and end with jpg",
            "\"end\"",
        ),
        ("photos in ./a in March and on 5 May", "\"5\""),
        (
            "keep the best 3 of last week's cars and trucks",
            "\"cars\", \"trucks\"",
        ),
        ("", "which pictures"),
        ("keep the 3 best of each in ./a", "\"each\""),
        ("into an album about castles: ./a", "\"about\""),
        ("the biggest cars of today", "\"largest\""),
        ("yesterday's cars by room", "\"folder\""),
        ("photos in ./a without GPS or without a date", "\"or\""),
        (
            "photos in ./a neither by the Canon nor without GPS",
            "\"nor\"",
        ),
        ("photos of the library in ./a", "\"library\""),
        ("photos in ./a that they took", "\"they\""),
        ("photos of both in ./a", "\"both\""),
        ("put the best 5 of ./a in folder holiday", "\"holiday\""),
        ("photos of me in ./a by day", "\"me\""),
        ("photos in ./a taken by me", "\"me\""),
        ("photos in ./a in winter 2025", "\"winter\""),
        ("must-have photos of ./a", "\"must-have\""),
        ("the last-minute photos in ./a", "\"last-minute\""),
        ("photos of used cars in ./a", "\"used\""),
        ("clear ./a of duplicates", "\"clear\""),
        (
            "photos in ./a with at least 10 minutes between them",
            "\"between\"",
        ),
        ("photos in ./a taken after a pause of 2 hours", "\"pause\""),
        (
            "photos in ./a between the 28th of October and the 3rd of November",
            "\"between\"",
        ),
        ("photos in ./a from 5 October to today", "\"5 october\""),
        (
            "photos of ./a by day because of the dark ones",
            "\"because\"",
        ),
        (
            "photos of ./a, leave out those without GPS and people",
            "\"without\"",
        ),
        (
            "photos of ./a except those with GPS and a car",
            "\"except\"",
        ),
        (
            "leave out those without a code and at night in ./a",
            "\"except\"",
        ),
        (
            "kick out photos of people and at night in ./a",
            "\"remove\"",
        ),
        (
            "leave out photos of camera gate at night in ./a",
            "\"except\"",
        ),
        (
            "./a by day, leave out those without a code, those without GPS",
            "\"except\"",
        ),
        (
            "leave out the photos of camera gate and of camera dock in ./a",
            "\"dock\"",
        ),
        ("the 5 best of ./a, leave the rest out", "\"rest\""),
        ("./a, 3 best, then a contact sheet of the rest", "\"rest\""),
        (
            "no duplicates of ./a, 2 per day, the rest on a contact sheet",
            "\"rest\"",
        ),
        (
            "the best 3 of ./a, excluding the blurred and the rest in an album",
            "\"rest\"",
        ),
        ("./a, blurred ones first", "\"first\""),
        ("./a of the last two Saturdays", "\"Saturdays\""),
        ("./a, the first Saturday in November", "\"Saturday\""),
        ("./a, PNG photos first", "\"first\""),
        ("the blurred and dark photos of ./a", "\"dark\""),
        ("./a as a slideshow", "\"slideshow\""),
        ("./a, 2 per month, then remove duplicates", "\"remove\""),
        (
            "photos in ./a without unicorns",
            "\"unicorns\" (no installed detector finds unicorns, and no condition",
        ),
        (
            "yesterday's photos of the gat without unicorns",
            "\"gat\", \"unicorns\" (did you mean the camera gate? no installed",
        ),
        (
            "photos in ./a since 2020 before 2010",
            "\"before\", \"2010\"",
        ),
        (
            "the 3 best of the last 10 pictures in ./a",
            "\"last\", \"10\"",
        ),
        ("photos in ./a in total", "\"total\""),
        ("organise the 2023 photos in ./a by month", "\"2023\""),
        ("I have 500 photos in ./a, group them by day", "\"500\""),
        (
            "photos in ./a except last week and yesterday",
            "\"yesterday\"",
        ),
        ("organise ./a by day in total", "\"total\""),
        ("photos in ./a between 2016", "\"between\", \"2016\""),
        (
            "photos in ./a in 31 June 2016",
            "\"31\", \"June\", \"2016\"",
        ),
        ("the 2 best of each burst in ./a", "\"burst\""),
        ("all the photos of each burst in ./a", "\"burst\""),
        (
            "organise ./a by day, keep the best photo of each day and of each burst",
            "\"burst\"",
        ),
        ("copy yesterday's photos to ./backups", "--output"),
        ("copy yesterday's photos to ./backups", "\"./backups\""),
        (
            "put the 10 best pictures of yesterday into ./best",
            "--output",
        ),
        (
            "pick the best of yesterday and put them in the folder \"My Best\"",
            "\\\"My Best\\\"",
        ),
        ("copy the photos from ./a to ./b", "\"./b\""),
        ("organise ./a by day, the best of each month", "\"month\""),
        ("photos of the camera called b in ./a", "\"called\""),
        ("photos of the shed by month", "\"shed\""),
        ("photos in ./a with duplicates", "\"duplicates\""),
        ("photos in ./a with captions", "\"captions\""),
        ("photos of the gate with a caption", "\"caption\""),
        (
            "photos of the gat by month",
            "\"gat\" (did you mean the camera gate?)",
        ),
        (
            "photos of the loadin dock",
            "(did you mean the camera löading dock?)",
        ),
        ("the clips of today", "watchkeeper archive query"),
        ("delete the blurred ones of ./a", "\"delete\""),
        ("organise today's thoughts by hour", "\"thoughts\""),
        (
            "keep the blurred ones of ./a, each day in a separate folder",
            "\"separate\"",
        ),
        ("photos in ./a taken with a flash", "\"flash\""),
        ("photos in ./a taken with Anna", "\"Anna\""),
        ("group the photos in ./a by time", "\"time\""),
        ("organise ./a by day and mood", "\"mood\""),
        ("photos of the gate taken with the Canon", "\"Canon\""),
        ("a picture of the gate every hour", "\"every\", \"hour\""),
        ("a picture of the gate each hour", "\"each\", \"hour\""),
        ("a picture of the gate per hour", "\"per\", \"hour\""),
        ("a picture of the gate every day", "\"every\", \"day\""),
        (
            "photos in ./a without people, cars",
            "\"cars\" (say \"with\" or \"without\" before cars)",
        ),
        (
            "yesterday's photos without people and deliveries",
            "\"deliveries\"",
        ),
        ("show 3 cars of yesterday", "\"3\""),
        (
            "remove the GPS data from the photos in ./a",
            "\"remove\", \"GPS\"",
        ),
        ("photos in ./a with a view", "\"view\""),
        ("organise ./a by day, cars first", "\"cars\""),
        ("photos in ./a with only people", "\"people\""),
        ("photos of the square in ./a", "\"square\""),
        (
            "make a contact sheet of ./a in landscape format",
            "\"landscape\"",
        ),
        ("copy the photos of ./a as PNG", "\"PNG\""),
        ("the photos in ./a since 8 am", "\"since\""),
        ("make copies of ./a", "\"copies\""),
        ("the best duplicates of ./a", "\"duplicates\""),
        (
            "find the duplicates in ./a without bursts",
            "\"duplicates\"",
        ),
        ("photos of ./a not taken with a flash", "\"flash\""),
        ("tag the photos in ./a as cat", "\"tag\", \"cat\""),
        ("tag the photos in ./a as cat, dog by day", "\"tag\""),
        (
            "tag the photos in ./a by similarity as cat or dog",
            "\"tag\"",
        ),
        ("organise ./a by day and similarity", "\"similarity\""),
        ("the 3 best of ./a most like ./b/x.jpg", "\"like\""),
        ("photos of ./a like a dream", "\"like\", \"dream\""),
        ("split ./a into weekdays and weekends", "\"weekdays\""),
        ("sort ./a into with people and without people", "\"people\""),
        (
            "group ./a by Canon and iPhone",
            "\"group\", \"Canon\", \"iPhone\"",
        ),
        ("split ./a", "\"split\"; times are as in"),
        ("photos in ./a except at night and on Sundays", "\"except\""),
        ("photos in ./a, remove Monday mornings", "\"remove\""),
        ("photos in ./a without weekday mornings", "\"without\""),
        (
            "the best 5 to 20 November 2026 in ./a",
            "\"20\", \"November\", \"2026\"",
        ),
        ("photos in ./a of last week until Friday", "\"until\""),
        (
            "photos in ./a with at least 2 megapixels and at most 8",
            "\"8\"",
        ),
        ("photos in ./a with a contrast above 0.2, up to 1", "\"1\""),
        (
            "photos in ./a wider than 1000 and no more than 4000",
            "\"4000\"",
        ),
        (
            "the 3 photos per day most like ./b/x.jpg in ./a",
            "\"like\"",
        ),
        ("photos in ./a after 12 in the evening", "\"after\", \"12\""),
        ("the photos we can't use in ./a", "\"can't\""),
        ("put the best photos of yesterday in ./b", "\"./b\""),
        ("photos in ./a by zone bay-2", "\"bay-2\""),
        (
            "photos in ./a except the PNG files of the Canon",
            "\"Canon\"",
        ),
        ("organise ./a by Canon", "not understood: \"Canon\""),
        (".", "say what to do with its pictures"),
        ("clean up the blurred photos in ./a", "\"clean\""),
        (
            "keep the best of each burst in ./a and remove the exact copies",
            "\"burst\"",
        ),
        ("almost identical photos in ./a", "\"almost\""),
        (
            "yesterday's pictures between 5 and 15 people",
            "\"between\", \"5\"",
        ),
        ("./a, every november", "not understood: \"november\""),
        ("sort ./a", "\"sort\"; times are as in"),
        ("photos in ./a of the first of november", "\"november\""),
        (
            "show me the duplicates in ./a and the blurred photos",
            "\"blurred\"",
        ),
        (
            "the 3 best pictures of each delivery of yesterday",
            "\"each\"",
        ),
        ("put yesterday's pictures in ./b by day", "\"./b\""),
        (
            "organise ./a by week without duplicats",
            "did you mean duplicates?",
        ),
    ] {
        let error = plan(text, now(), &names()).unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn refusal_names_the_remedy_first() {
    for (text, named) in [
        (
            "photos of b by day",
            "say which pictures: a folder, which begins with ./ or /, a time, a camera, or a \
             collection; not understood: \"b\"",
        ),
        ("rename the photos in ./a by date", "never rename, move"),
        ("delete the blurred ones of ./a", "or delete an original"),
        (
            "photos of ./a from 17/11/2026",
            "not understood: \"17/11/2026\" (day and month are not told apart: write \
             2026-11-17 or 17 November 2026, and a folder as ./1/2)",
        ),
        (
            "photos of ./a called \"Trip\"",
            "(write a name after \"album called\")",
        ),
    ] {
        let error = plan(text, now(), &names()).unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn order_that_is_said_decides_which_pictures_are_kept() {
    let kept = |order: &str, count: u64| format!("select_best by=\"{order}\" count={count}");
    for (text, expected) in [
        ("photos of ./a newest first, only 5", kept("newest", 5)),
        ("./a, only 5, oldest first", kept("oldest", 5)),
        ("5 photos of ./a, newest first", kept("newest", 5)),
        (
            "./a by camera, newest first, keep 2 of each",
            kept("newest", 2),
        ),
        ("the first 5 photos in ./a sorted by name", kept("name", 5)),
        ("the 3 best of ./a, newest first", kept("quality", 3)),
        ("the first 5 photos in ./a", kept("oldest", 5)),
        ("the top 3 of ./a by sharpness", kept("sharpness", 3)),
        ("best 3 of ./a by exposure", kept("exposure", 3)),
        ("./a, one per day, sharpest", kept("sharpness", 1)),
        ("two per month, the sharpest, of ./a", kept("sharpness", 2)),
        ("at most 2 photos of each day of ./a", kept("quality", 2)),
        ("no more than 2 photos per day of ./a", kept("quality", 2)),
        ("the best sharp photo of ./a", kept("quality", 1)),
        ("the 4 most recent photos of ./a", kept("newest", 4)),
        ("the darkest 5 photos in ./a", kept("darkest", 5)),
        ("the least sharp 5 pictures of ./a", kept("blurriest", 5)),
        ("what are the 5 best photos in ./a", kept("quality", 5)),
        ("the worst photo of each day in ./a", kept("worst", 1)),
        ("the five largest files in ./a", kept("most_bytes", 5)),
        (
            "the 5 photos in ./a with the best exposure",
            kept("exposure", 5),
        ),
        ("the latest per camera of ./a", kept("newest", 1)),
        ("./a, no more than 4 a day", kept("quality", 4)),
        ("./a, newest first, max 6", kept("newest", 6)),
        ("rank ./a by contrast, keep 3", kept("contrast", 3)),
    ] {
        let found = steps(text);
        assert!(found.contains(&expected), "{text}: {found}");
    }
}

#[test]
fn one_of_each_burst_is_kept_by_any_order() {
    let list = "list_pictures folder=\"./a\"";
    for (text, expected) in [
        ("keep one of each burst of ./a", "find_duplicates → album"),
        (
            "a copy of each burst's sharpest in ./a",
            "find_duplicates by=\"sharpness\" → album",
        ),
        (
            "the best photo of each burst in ./a by month",
            "find_duplicates → group by=\"month\" → album",
        ),
        (
            "remove the duplicates from ./a and keep the best one",
            "find_duplicates → album",
        ),
        (
            "remove the duplicates from ./a and keep the best one of each day",
            "find_duplicates → group by=\"day\" → select_best by=\"quality\" count=1 → album",
        ),
    ] {
        assert_eq!(steps(text), format!("{list} → {expected}"), "{text}");
    }
}

#[test]
fn negation_reaches_each_noun_behind_it_or_refuses() {
    let shown = |text: &str| match plan(text, now(), &names()) {
        Ok(plan) => read_as(&plan)
            .replace("folder ./a; ", "")
            .replace("; album", ""),
        Err(_) => "refused".to_owned(),
    };
    let sharp = "filter min_sharpness 0.35";
    let no_gps = format!("filter place is unknown; {sharp}");
    let day = format!("filter hour is not 22-6; {sharp}");
    for (denied, expected) in [
        (
            "without the blurred photos and the photos at night",
            day.as_str(),
        ),
        ("drop the blurred ones and the ones at night", &day),
        (
            "everything but the blurred ones and the ones at night",
            &day,
        ),
        ("except blurred ones and the ones with GPS", &no_gps),
        ("weed out blurred ones and those with GPS", &no_gps),
        (
            "except dark, blurred and undated ones",
            "filter time is known; filter min_sharpness 0.35; filter brightness not < 0.125",
        ),
        (
            "remove everything too dark, and everything without a date",
            "filter time is known; filter brightness not < 0.125",
        ),
        (
            "except those with GPS or a date",
            "filter place is unknown, time is unknown",
        ),
        ("leave out the D750", "filter camera is not D750"),
        (
            "without GPS and at night",
            "filter place is unknown, hour is 22-6",
        ),
        (
            "without duplicates, at night",
            "filter hour is 22-6; find duplicates",
        ),
        (
            "drop the blurred ones, then keep the 3 newest",
            "filter min_sharpness 0.35; select best by newest, count 3",
        ),
        (
            "kick out duplicates and those without GPS",
            "filter place is known; find duplicates",
        ),
        // What may be a part of the denied ones, or more of them.
        ("throw out photos of last week and of people", "refused"),
        ("kick out photos of people and at night", "refused"),
        ("without the photos from May and from June", "refused"),
        ("without blurred photos at night", "refused"),
        ("without blurred photos of last week", "refused"),
        ("without the pictures of the Canon and at night", "refused"),
        ("except those with GPS and a code", "refused"),
        (
            "except those with GPS, at night or in the evening",
            "refused",
        ),
        ("except GPS and with a code", "refused"),
        ("without blurred ones, the dark ones", "refused"),
        ("drop the blurred ones and the 3 newest", "refused"),
        ("not at night and on Sundays", "refused"),
    ] {
        assert_eq!(
            shown(&format!("photos in ./a, {denied}")),
            expected,
            "{denied}"
        );
    }
}

#[test]
fn text_of_a_code_is_a_condition() {
    let read = "list_pictures folder=\"./a\" → read_codes → filter where=[\"code is";
    for (text, code) in [
        ("photos with the code \"A-17\" in ./a", "A-17"),
        (
            "look through ./a for the label 9780441014989",
            "9780441014989",
        ),
        (
            "look through ./a for the label 0890444000335",
            "0890444000335 or 890444000335",
        ),
    ] {
        assert_eq!(steps(text), format!("{read} {code}\"] → album"), "{text}");
    }
}

#[test]
fn what_is_left_out_may_be_a_time_a_camera_or_a_format() {
    let filter = |conditions: &str| {
        format!("list_pictures folder=\"./a\" → filter where=[\"{conditions}\"] → album")
    };
    let last_week = "time is not 2026-11-16T00:00:00 to 2026-11-23T00:00:00";
    for (text, expected) in [
        ("photos in ./a not last week", last_week),
        ("photos in ./a except those taken last week", last_week),
        (
            "photos in ./a except those of camera \"EOS R5\"",
            "camera is not EOS R5",
        ),
        (
            "photos in ./a except those of camera Nikon",
            "camera is not Nikon",
        ),
        (
            "photos in ./a but none by the Canon EOS R5",
            "camera is not Canon EOS R5",
        ),
        (
            "photos in ./a not by the Nikon D850 or the iPhone 12",
            "camera is not Nikon D850 or iPhone 12",
        ),
        ("photos in ./a except those at night", "hour is not 22-6"),
        (
            "photos in ./a except December 2025",
            "time is not 2025-12-01T00:00:00 to 2026-01-01T00:00:00",
        ),
        ("photos in ./a except December", "month is not december"),
        (
            "photos in ./a from November to January",
            "month is november or december or january",
        ),
        ("photos in ./a between 9 and 17", "hour is 9-17"),
        (
            "all weekend pictures in ./a",
            "weekday is saturday or sunday",
        ),
        ("the landscape pictures in ./a", "shape is landscape"),
        (
            "upright (portrait format) photos in ./a",
            "shape is portrait",
        ),
        ("photos in ./a smaller than 30 KB", "kilobytes < 30"),
        ("undated photos in ./a", "time is unknown"),
        ("photos in ./a whose name ends with 7", "name is *7.*"),
        ("photos in ./a whose name ends with v1.2", "name is *v1.2.*"),
        (
            "photos in ./a that have both a date and GPS",
            "time is known\",\"place is known",
        ),
        (
            "photos in ./a within 20 km of 52.52, 13.40",
            "place is within 20 km of 52.52 13.40",
        ),
        (
            "photos in ./a not from Monday to Wednesday",
            "weekday is not monday or tuesday or wednesday",
        ),
        (
            "photos in ./a Monday to Wednesday",
            "weekday is monday or tuesday or wednesday",
        ),
        (
            "photos in ./a except 10 to 20 November 2026",
            "time is not 2026-11-10T00:00:00 to 2026-11-21T00:00:00",
        ),
        ("morning photos in ./a", "hour is 6-12"),
        ("photos in ./a not in zone bay-2", "zone is not bay-2"),
        ("photos in ./a in zone \"bay 2\"", "zone is bay 2"),
        (
            "photos in ./a taken on Tuesday mornings",
            "weekday is tuesday\",\"hour is 6-12",
        ),
        (
            "Monday mornings in ./a",
            "weekday is monday\",\"hour is 6-12",
        ),
        ("everything in ./a but the PNG files", "format is not png"),
        (
            "photos in ./a taken with the iPhone 12 or the Nikon D850",
            "camera is iPhone 12 or Nikon D850",
        ),
    ] {
        assert_eq!(steps(text), filter(expected), "{text}");
    }
    assert_eq!(
        steps("leave out anything blurred of ./a"),
        "list_pictures folder=\"./a\" → measure_quality → filter min_sharpness=0.35 → album"
    );
    let of_two = steps("photos of the gate and the löading dock by day");
    let expected = "filter where=[\"camera is gate or dock-2\"] → group";
    assert!(of_two.contains(expected), "{of_two}");
}

#[test]
fn noun_behind_of_or_before_photos_is_what_pictures_show() {
    for text in [
        "photos of a car in ./a",
        "photos of the car in ./a",
        "car photos in ./a",
        "photos of cars in ./a",
    ] {
        let expected = "list_pictures folder=\"./a\" → find_objects class=\"car\" → album";
        assert_eq!(steps(text), expected);
    }
    let events = steps("yesterday's delivery photos by hour");
    assert!(events.contains("what=\"delivery\""), "{events}");
    for text in [
        "photos of the car park in ./a",
        "photos of cars and people in ./a",
    ] {
        assert!(plan(text, now(), &names()).is_err(), "{text}");
    }
}

#[test]
fn word_that_names_the_folder_too_describes_its_photos() {
    for text in [
        "organise my vacation photos in /srv/vacation-2025 by day",
        "organise the vacation pictures of the collection vacations by day",
        "night photos in ./night-hike by day",
        "evening photos of the collection evening-walk by day",
    ] {
        let planned = steps(text);
        assert!(!planned.contains("filter"), "{text}: {planned}");
    }
    assert!(plan("my vacation photos in ./a by day", now(), &names()).is_err());
}

#[test]
fn polite_words_mean_nothing() {
    for text in [
        "I need the ten sharpest pictures of ./a",
        "Could you make a contact sheet of ./a?",
        "I would like you to split ./a by camera",
        "one album per camera of ./a",
        "get rid of the blurry photos in ./a and group the rest by day",
        "find duplicates among the photos in ./a",
        "./a by month per camera",
    ] {
        steps(text);
    }
    assert!(plan("photos of us in ./a", now(), &names()).is_err());
    for text in [
        "please sort ./a into folders, one per day",
        "./a, one album for each day",
    ] {
        let expected = "list_pictures folder=\"./a\" → group by=\"day\" → album";
        assert_eq!(steps(text), expected, "{text}");
    }
}

#[test]
fn duplicates_that_are_wanted_are_shown_by_set() {
    for text in [
        "find the duplicates in ./a",
        "only the duplicates of ./a",
        "find all near duplicates of ./a from 2023",
        "which pictures in ./a are duplicates",
        "a contact sheet of bursts in ./a",
    ] {
        let planned = plan(text, now(), &names());
        let planned = planned.unwrap_or_else(|error| panic!("{text}: {error}"));
        let last = planned.steps.last().unwrap();
        assert_eq!(last.call.params["from"], "${duplicates.groups}", "{text}");
        check(planned, &picture_tools()).unwrap();
    }
}

#[test]
fn look_of_pictures_is_compared_by_tools_of_networks() {
    let list = "list_pictures folder=\"./a\"";
    for (text, expected) in [
        (
            "group the photos in ./a by similarity",
            "group_alike → album",
        ),
        (
            "the photos in ./a by similarity and day, the 2 best of each",
            "measure_quality → group_alike → group by=\"day\" \
             → select_best by=\"quality\" count=2 → album",
        ),
        (
            "the photos in ./a most like ./b/x.jpg",
            "list_pictures folder=\"./b/x.jpg\" → rank_alike → album",
        ),
        (
            "the 3 photos most like \"./my b/x.jpg\" in ./a by month",
            "list_pictures folder=\"./my b/x.jpg\" → rank_alike count=3 \
             → group by=\"month\" → album",
        ),
        (
            "the 5 photos in ./a most similar to ./b/x.jpg",
            "list_pictures folder=\"./b/x.jpg\" → rank_alike count=5 → album",
        ),
        (
            "tag the photos in ./a as car park, street or \"Statue of Liberty\"",
            "tag labels=[\"car park\",\"street\",\"Statue of Liberty\"] → album",
        ),
        (
            "tag the 10 best photos in ./a as cat and dog",
            "measure_quality → select_best by=\"quality\" count=10 \
             → tag labels=[\"cat\",\"dog\"] → album",
        ),
    ] {
        assert_eq!(steps(text), format!("{list} → {expected}"), "{text}");
    }
    let alike = plan("photos in ./a most like ./a/x.jpg", now(), &names()).unwrap();
    let template = PlanTemplate::new(&alike.description, &alike, &picture_tools()).unwrap();
    let other = template.fill("photos in ./b most like ./c/y.jpg").unwrap();
    let target = &other.steps[1].call.params["folder"];
    assert_eq!(
        (&other.inputs["folder"], target),
        (&json!("./b"), &json!("./c/y.jpg"))
    );
    let tagged = plan("tag the photos in ./a as cat, dog", now(), &names()).unwrap();
    let album = &tagged.steps.last().unwrap().call.params;
    assert_eq!(album["from"], "${tags.groups}");
}

#[test]
fn object_is_refused_with_what_is_missing() {
    let mut here = KnownNames::default();
    let refused = |names: &KnownNames| {
        let planned = plan("photos in ./a with people", now(), names);
        planned.unwrap_err().to_string()
    };
    assert!(refused(&here).contains("start the runtime"));
    here.cameras.add("gate", None);
    assert!(refused(&here).contains("models pull ssd-mobilenet-v2"));
    here.classes = vec!["dog".to_owned()];
    assert!(refused(&here).contains("no installed detector finds people,"));
}

#[test]
fn duplicates_are_dropped_after_the_other_conditions() {
    for (text, before) in [
        ("blurred photos of ./a without duplicates", "measured"),
        (
            "photos of ./a with sharpness below 0.35 without duplicates",
            "measured",
        ),
        (
            "the best photo of each burst in ./a without people",
            "objects",
        ),
        ("photos of ./a without duplicates and blurred ones", "sharp"),
    ] {
        let planned = plan(text, now(), &names());
        let planned = planned.unwrap_or_else(|error| panic!("{text}: {error}"));
        let place = |name: &str| planned.steps.iter().position(|step| step.name == name);
        assert!(place(before).is_some(), "{text}");
        assert!(place(before) < place("unique"), "{text}");
    }
    // "Blurred" without a noun may be wanted.
    let refused = plan("photos of ./a without GPS or blurred", now(), &names());
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn unknown_event_name_is_refused_with_the_known_names() {
    let mut here = KnownNames::default();
    let refused = |names: &KnownNames| {
        let planned = plan("organise last week's parcels by day", now(), names);
        planned.unwrap_err().to_string()
    };
    here.rules = vec!["deliveries".to_owned()];
    here.classes = vec!["person".to_owned()];
    let sentence = "no rule and no class is named parcels; there are deliveries, person";
    assert!(refused(&here).contains(sentence), "{}", refused(&here));
    here.classes = (0..20).map(|n| format!("class{n}")).collect();
    assert!(refused(&here).contains("class10 and 9 more"));
}

#[test]
fn name_of_an_album_or_sheet_is_no_folder() {
    for (text, expected) in [
        (
            "make an album called \"Summer trip\" of ./a by day",
            "Summer trip",
        ),
        ("a contact sheet called spring of ./a", "spring.jpg"),
        ("organise ./a by day and call it \"2023\"", "2023"),
        (
            "organise ./a by day, album called \"June 2016\"",
            "June 2016",
        ),
        ("the best 3 of ./a, album \"Autumn\"", "Autumn"),
        ("the best of each day in ./a into album best", "best"),
    ] {
        let plan = plan(text, now(), &names()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(plan.inputs["folder"], "./a", "{text}");
        let params = &plan.steps.last().unwrap().call.params;
        let name = params.get("name").or(params.get("file"));
        assert_eq!(name, Some(&json!(expected)), "{text}");
    }
}

#[test]
fn only_a_request_for_files_is_taken_from_a_conversation() {
    for (text, expected) in [
        ("organise yesterday's cars by camera", true),
        ("how many cars per hour today", false),
        ("how many cars in the last hour by camera", false),
        ("the best 3 pictures of last week", true),
        ("show me yesterday's latest event", false),
        ("photos of the gate by month", true),
        ("show me the gate every hour", false),
        ("show me a picture of the gate every hour", false),
        ("show me a picture of the gate each hour", false),
        ("show me a picture of the gate per hour", false),
        ("the best picture of every day in ./a", true),
        ("yesterday's pictures of the gate every hour", true),
        ("show me the events of the gate by hour", false),
        ("show me a picture of the gate", false),
        ("what happened yesterday", false),
    ] {
        assert_eq!(understands(text, now(), &names()), expected, "{text}");
    }
}

#[test]
fn plan_says_which_camera_it_means() {
    for (text, expected) in [
        (
            "photos in ./a of camera X100",
            "X100 is a camera that EXIF names",
        ),
        (
            "photos of camera gat",
            "gat is the ID of a camera of the box",
        ),
    ] {
        let plan = plan(text, now(), &names()).unwrap();
        let reasons: Vec<&str> = plan.steps.iter().map(|step| &*step.reason).collect();
        assert!(reasons.iter().any(|r| r.ends_with(expected)), "{reasons:?}");
    }
}

#[test]
fn plans_of_folders_are_valid() {
    let text = "the 3 best photos of each day in ./a, as an album and a contact sheet";
    check(plan(text, now(), &names()).unwrap(), &picture_tools()).unwrap();
}
