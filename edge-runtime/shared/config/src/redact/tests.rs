//! Secrets in texts and addresses.

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;

use super::*;

#[test]
fn a_password_in_the_path_is_hidden() {
    assert_eq!(
        uri("rtsp://10.0.0.9:554/user=admin&password=pa55&channel=1&stream=0.sdp?real_stream"),
        "rtsp://10.0.0.9:554/user=***&password=***&channel=1&stream=0.sdp?real_stream"
    );
    assert_eq!(
        uri("rtsp://cam/user=admin_password=pa55_channel=1/live"),
        "rtsp://cam/user=***/live"
    );
    assert_eq!(
        uri("http://cam/live?token=a/b&x=1"),
        "http://cam/live?token=***&x=1"
    );
}

#[test]
fn user_and_password_become_stars() {
    assert_eq!(
        uri("rtsp://admin:pa55@10.0.0.7:554/h264"),
        "rtsp://***@10.0.0.7:554/h264"
    );
}

#[test]
fn a_password_with_reserved_characters_does_not_leak_its_tail() {
    assert_eq!(uri("rtsp://admin:a/b?c#d@cam/live"), "rtsp://***@cam/live");
}

#[test]
fn password_is_hidden_without_or_with_wrong_scheme() {
    assert_eq!(uri("admin:pa55@10.0.0.7/live"), "***@10.0.0.7/live");
    assert_eq!(uri("rtsp:/admin:pa55@cam/live"), "***@cam/live");
    assert_eq!(uri("admin:pa://55@cam/live"), "***@cam/live");
    assert_eq!(
        uri("admin:pa55@cam/?next=http://a"),
        "***@cam/?next=http://a"
    );
}

#[test]
fn json_value_keeps_shape_without_credentials() {
    let value = json!({
        "uri": ["rtsp://admin:pa55@cam/live", 5, null],
        "password": "pa55",
        "login": {"name": "me", "pins": [4]},
        "type": "roboflow_core/byte_tracker@v3",
        "admin:pa55@cam": true,
    });
    let hidden = json!({
        "uri": ["rtsp://***@cam/live", 5, null],
        "password": "***",
        "login": {"name": "me", "pins": [4]},
        "type": "roboflow_core/byte_tracker@v3",
        "***@cam": true,
    });
    assert_eq!(super::json(None, &value), hidden);
    assert_eq!(super::json(Some("token"), &json!(["pa55"])), json!(["***"]));
}

#[test]
fn secret_options_are_hidden_and_the_others_kept() {
    assert_eq!(
        uri("http://cam/mjpg?channel=1&Password=x&access_token=y&fps=5"),
        "http://cam/mjpg?channel=1&Password=***&access_token=***&fps=5"
    );
}

#[test]
fn an_address_without_credentials_is_left_alone() {
    for plain in [
        "/srv/clips/a@b.mp4",
        "/srv/clips/12:30@gate.mp4",
        "demo:?seed=7&seconds=20",
        "rtsp://cam/live",
        "/dev/video0",
        "",
    ] {
        assert_eq!(uri(plain), plain);
    }
}

#[test]
fn a_message_loses_addresses_and_bare_secrets() {
    let redactor = Redactor::new(["hunter2".to_owned()]);
    assert_eq!(
        redactor.text("can't open rtsp://me:hunter2@cam/live (tried hunter2)"),
        "can't open rtsp://***@cam/live (tried ***)"
    );
}

proptest! {
    #[test]
    fn no_password_survives(user in "[a-z]{1,8}", password in "[A-Z0-9/?#:@&=]{4,12}XQ") {
        let address = format!("rtsp://{user}:{password}@cam.local:554/live?a=1");
        prop_assert!(!uri(&address).contains(&password));
        prop_assert!(!uri(&address).contains("XQ"));
    }
}

#[test]
fn user_text_loses_only_logins_and_keys() {
    for (words, shown) in [
        (
            "watch rtsp://admin:hunter2@10.0.0.9/x and tell me when a person appears",
            "watch rtsp://***@10.0.0.9/x and tell me when a person appears",
        ),
        (
            "use password=hunter3, then count cars",
            "use password=***, then count cars",
        ),
        (
            "PASSWD=hunter3 pwd=x1 token=abc",
            "PASSWD=*** pwd=*** token=***",
        ),
        ("api_key=a key=b secret=c", "api_key=*** key=*** secret=***"),
        ("the password: hunter3. Thanks", "the password: ***. Thanks"),
        ("the password is hunter3", "the password is ***"),
        (
            "the password is \"two words\" on gate",
            "the password is \"*** ***\" on gate",
        ),
        ("{\"token\":\"abc\"}", "{\"token\":\"***\"}"),
        (
            "Authorization: Bearer abcdefgh",
            "Authorization: Bearer ***",
        ),
        ("Bearer abcdefgh\n count", "Bearer ***\n count"),
        ("my key is sk-ant-REDACTED now", "my key is *** now"),
        ("(sk-proj-0123456789abcdefghij)", "(***)"),
        (
            "look at admin:hunter2@10.0.0.7/live",
            "look at ***@10.0.0.7/live",
        ),
        (
            "http://cam/x?user=me&pwd=a1&fps=5 please",
            "http://cam/x?user=***&pwd=***&fps=5 please",
        ),
        (
            "the password of the gate is hunter7",
            "the password of the gate is ***",
        ),
        ("Das Passwort ist geheim9", "Das Passwort ist ***"),
        ("the alarm PIN is 9876.", "the alarm PIN is ***."),
        (
            "remember PIN 9876 for the gate",
            "remember PIN *** for the gate",
        ),
        ("pin=9876", "pin=***"),
    ] {
        assert_eq!(message(words).as_deref(), Some(shown), "{words}");
        assert_eq!(message(shown), None, "{shown} is changed again");
    }
    for words in [
        "",
        "tell me when a person enters the key room",
        "count people at 10:30 on camera gate,  twice",
        "watch rtsp://cam/live?channel=1 and mail ops@example.org",
        "zone desk:100,100,300,100,300,300 with confidence=0.6",
        "the bearer appears at the door, who has the key",
        "tell me when the password is shown",
        "pin the picture of the gate to the top",
        "tell me when the key is gone after 22:00",
        "tell me when someone takes the key to gate2",
        "the secret is out, pass it on: done",
        "a key appears on the desk\n\tand stays",
        "call it sk-gate and eyJ",
    ] {
        assert_eq!(message(words), None, "{words}");
    }
}

proptest! {
    #[test]
    fn no_secret_in_user_text_survives(
        before in "[a-z ]{0,20}", after in "[ -~]{0,20}", secret in "[A-Za-z]{0,5}[0-9][A-Z0-9#_-]{3,9}XQ",
        form in 0..7_usize,
    ) {
        let written = match form {
            0 => format!("rtsp://admin:{secret}@cam/live"),
            1 => format!("password={secret}"),
            2 => format!("token: {secret}"),
            3 => format!("Bearer {secret}"),
            4 => format!("the password is {secret}"),
            5 => format!("sk-0123456789abcdef{secret}").replace('#', ""),
            _ => format!("api_key='{secret}'"),
        };
        let secret = if form == 5 { secret.replace('#', "") } else { secret };
        let words = format!("{before} {written} {after}");
        let hidden = message(&words).unwrap_or(words);
        prop_assert!(!hidden.contains(&secret), "{hidden}");
        // Applied twice, it changes nothing more.
        prop_assert_eq!(message(&hidden), None);
    }
}
