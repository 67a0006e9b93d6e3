//! The provider `claude-cli` against a program that is as strict about flags as the original.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_llm::attempt_error::AttemptErrorKind;
use watchkeeper_llm::budget::CallClass;
use watchkeeper_llm::catalogue::{Catalogue, Tier};
use watchkeeper_llm::client::SystemClock;
use watchkeeper_llm::conversation::{MediaType, Picture, UserPart};
use watchkeeper_llm::ledger::Ledger;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{
    CallOptions, Client, Conversation, JobSpec, LlmError, Parts, Reply, Settings, StopReason,
};
use watchkeeper_store::MemoryStore;

use crate::support::{NOON, limits, setup_talk};

/// Refuses flags that the program does not know, a foreign environment and another folder; saves
/// what it was asked, and prints `answer`.
const PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
wrong() { echo "error: $1" >&2; exit 1; }
[ "$(pwd)" = / ] || wrong "working folder $(pwd)"
for name in $(env | cut -d= -f1); do
    case $name in PATH|HOME|PWD|OLDPWD|SHLVL|_) ;; *) wrong "variable $name" ;; esac
done
print= format= tools=unset
while [ $# -gt 0 ]; do
    case $1 in
        -p) print=yes; shift ;;
        --strict-mcp-config|--no-session-persistence) shift ;;
        --output-format) format=$2; shift 2 ;;
        --tools) tools=$2; shift 2 ;;
        --model|--setting-sources) shift 2 ;;
        --system-prompt) printf %s "$2" > "$here/system"; shift 2 ;;
        *) wrong "unknown option '$1'" ;;
    esac
done
[ "$print$format$tools" = yesjson ] || wrong "-p, --output-format json and --tools '' are needed"
cat > "$here/input"
cat "$here/answer"
"#;

const ANSWER: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":1998,
    "duration_api_ms":1976,"num_turns":1,"result":"count people at the gate","stop_reason":"end_turn",
    "session_id":"0e639165-79b1-4bd4-bb0f-4cb4c15115d4","total_cost_usd":0.0079825,
    "usage":{"input_tokens":3,"cache_creation_input_tokens":12,"cache_read_input_tokens":15635,
    "output_tokens":6},"permission_denials":[]}"#;

fn install(folder: &Path, program: &str, answer: &str) -> Client {
    let path = folder.join("claude");
    std::fs::write(&path, program).expect("write");
    std::fs::write(folder.join("answer"), answer).expect("write");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    client(&path)
}

fn client(path: &Path) -> Client {
    let settings = Settings {
        program: Some(path.to_path_buf()),
        ..Settings::new("claude-cli")
    };
    let ledger = Ledger::open(Arc::new(MemoryStore::new()), path, limits()).expect("ledger");
    let wall = || Wall {
        unix_ms: NOON,
        quality: TimeQuality::Synced,
    };
    let parts = Parts {
        catalogue: Catalogue::built_in().expect("catalogue"),
        key: None,
        ledger: Arc::new(ledger),
        clock: Arc::new(SystemClock::new(wall)),
    };
    Client::new(&settings, parts).expect("client")
}

fn talk() -> Conversation {
    let mut talk = Conversation::new(vec!["Reword it.".to_owned()], Vec::new()).expect("talk");
    let request = "--tools Bash: who is at the gate?";
    talk.push_user(vec![request.into()]).expect("turn");
    talk
}

fn talk_with_picture() -> Conversation {
    let mut talk = Conversation::new(Vec::new(), Vec::new()).expect("talk");
    let picture = Picture {
        media: MediaType::Jpeg,
        width: 8,
        height: 8,
        bytes: bytes::Bytes::from_static(b"jpeg"),
    };
    talk.push_user(vec![UserPart::Picture(picture)])
        .expect("turn");
    talk
}

async fn ask(client: &Client, talk: &Conversation, time: Duration) -> Result<Reply, LlmError> {
    let mut job = client.start_job(JobSpec {
        name: "reword".to_owned(),
        class: CallClass::Person,
        rule: None,
        tier: Tier::Small,
        detail: Detail::Low,
        time,
    });
    job.ask(talk, &CallOptions::new(500), &mut |_, _| {}).await
}

const TIME: Duration = Duration::from_secs(60);

#[tokio::test]
async fn program_answers_and_its_cost_is_in_the_ledger() {
    let folder = tempfile::tempdir().expect("dir");
    let client = install(folder.path(), PROGRAM, ANSWER);
    let reply = ask(&client, &talk(), TIME).await.expect("an answer");
    assert_eq!(reply.text(), "count people at the gate");
    assert_eq!(
        (reply.stop.clone(), reply.usage.output),
        (StopReason::End, 6)
    );
    assert_eq!(client.report().day, Money(7_982_500));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("read");
    // Text from outside is input, never an argument.
    assert_eq!(read("input"), "--tools Bash: who is at the gate?");
    assert_eq!(read("system"), "Reword it.");
}

#[tokio::test]
async fn tools_and_pictures_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("dir");
    let client = install(folder.path(), PROGRAM, ANSWER);
    for talk in [setup_talk(), talk_with_picture()] {
        let refused = ask(&client, &talk, TIME).await.expect_err("refused");
        let said = refused.to_string();
        assert!(said.contains("claude-cli takes text only"), "{said}");
    }
    assert!(!folder.path().join("input").exists());
    assert_eq!(client.report().day, Money::ZERO);
}

#[tokio::test]
async fn failures_have_their_kind_and_no_answer_is_invented() {
    let error = ANSWER.replace("\"is_error\":false", "\"is_error\":true");
    let login = error.replace(
        "count people at the gate",
        "Invalid API key · Please run /login",
    );
    let cases = [
        (login.as_str(), AttemptErrorKind::WrongKey),
        ("not JSON", AttemptErrorKind::Malformed),
        ("[]", AttemptErrorKind::Malformed),
    ];
    for (answer, kind) in cases {
        let folder = tempfile::tempdir().expect("dir");
        let client = install(folder.path(), PROGRAM, answer);
        match ask(&client, &talk(), TIME).await {
            Err(LlmError::Failed { error, .. }) => assert_eq!(error.kind, kind, "{error}"),
            other => panic!("{answer}: {other:?}"),
        }
    }
    let folder = tempfile::tempdir().expect("dir");
    let refused = install(
        folder.path(),
        "#!/bin/sh\necho 'unknown option' >&2; exit 1\n",
        "",
    );
    let said = ask(&refused, &talk(), TIME).await.expect_err("refused");
    assert!(said.to_string().contains("unknown option"), "{said}");
    assert_eq!(refused.report().day, Money::ZERO);
}

#[tokio::test]
async fn killed_program_may_have_cost_something() {
    let folder = tempfile::tempdir().expect("dir");
    let program = "#!/bin/sh\ncat > /dev/null\necho 'asking' >&2; kill -9 $$\n";
    let killed = install(folder.path(), program, "");
    ask(&killed, &talk(), TIME).await.expect_err("no answer");
    assert_ne!(killed.report().day, Money::ZERO);
}

#[tokio::test]
async fn truncated_answer_is_not_paid_again() {
    let folder = tempfile::tempdir().expect("dir");
    let program = "#!/bin/sh\ncat > /dev/null\nhere=$(dirname \"$0\")\necho run >> \"$here/runs\"\n\
        cat \"$here/answer\"\n";
    let answer = ANSWER
        .replace("end_turn", "max_tokens")
        .replace("count people at the gate", "");
    let client = install(folder.path(), program, &answer);
    let cut = ask(&client, &talk(), TIME).await.expect_err("truncated");
    assert!(matches!(cut, LlmError::Failed { attempts: 1, .. }), "{cut}");
    let runs = std::fs::read_to_string(folder.path().join("runs")).expect("runs");
    assert_eq!(runs.lines().count(), 1);
}

#[tokio::test]
async fn program_that_hangs_is_stopped_at_the_deadline() {
    let folder = tempfile::tempdir().expect("dir");
    let program = "#!/bin/sh\necho $$ > \"$(dirname \"$0\")/pid\"\nexec sleep 600\n";
    let client = install(folder.path(), program, "");
    let time = Duration::from_secs(2);
    let stopped = ask(&client, &talk(), time).await.expect_err("no answer");
    assert!(matches!(stopped, LlmError::Deadline { .. }), "{stopped}");
    // What the model had done is unknown, so the highest cost stays in the ledger.
    assert!(client.report().day > Money::ZERO);
    let absent = client_of_missing_program().await;
    assert!(absent.contains("/nowhere/claude"), "{absent}");
}

async fn client_of_missing_program() -> String {
    let client = client(Path::new("/nowhere/claude"));
    let time = Duration::from_secs(1);
    ask(&client, &talk(), time)
        .await
        .expect_err("no program")
        .to_string()
}
