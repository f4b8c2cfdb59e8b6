//! Programs of every kind of behaviour, run by a shell.

use super::*;

fn shell(script: &str, input: &[u8], limit: Duration) -> Result<Output, ProcessError> {
    run(Path::new("/bin/sh"), &["-c", script], input, &[("ANSWER", OsStr::new("42"))], limit)
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_program_gets_its_input_and_environment_and_its_output_is_kept_apart() {
    let output = shell("cat; echo $ANSWER; echo oops >&2; exit 3", b"in\n", LONG).expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"in\n42\n"[..], &b"oops\n"[..]));
}

#[test]
fn more_than_the_pipes_hold_passes_both_ways() {
    let input = vec![b'x'; 1 << 20];
    let output = shell("tee /dev/stderr", &input, LONG).expect("it ends");
    assert!(output.stdout == input && output.stderr == input);
    let unread = shell("exec 0<&-; sleep 0.05; kill -9 $$", &input, LONG).expect("it ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&unread.status), Some(9));
}

#[test]
fn a_program_that_does_not_end_is_killed() {
    let started = Instant::now();
    let error = shell("exec sleep 60", b"", Duration::from_millis(100)).expect_err("killed");
    assert_eq!(error.to_string(), "/bin/sh did not end within 100ms");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_grandchild_that_keeps_the_pipes_open_is_not_waited_for() {
    let started = Instant::now();
    let output = shell("sleep 40 & echo done", b"", LONG).expect("it ends");
    assert_eq!(output.stdout, b"done\n");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_missing_program_is_named() {
    let error = run(Path::new("/nowhere/x"), &[], b"", &[], LONG).expect_err("absent");
    assert_eq!(error.to_string(), "failed to start /nowhere/x: No such file or directory (os error 2)");
}

#[test]
fn a_program_that_prints_without_end_is_killed() {
    for way in ["1", "2"] {
        let error = shell(&format!("exec yes >&{way}"), b"", LONG).expect_err("killed");
        assert_eq!(error.to_string(), "/bin/sh printed more than 16 MiB", "{way}");
    }
    let all = shell(&format!("head -c {MOST_OUTPUT} /dev/zero"), b"", LONG).expect("it ends");
    assert_eq!(all.stdout.len(), MOST_OUTPUT);
}

/// Whatever the reason is, as in a container engine that refuses the call with `EPERM`.
#[test]
fn an_end_that_cannot_be_watched_is_no_failure() {
    let mut child = Command::new("/bin/true").spawn().expect("started");
    child.wait().expect("ended");
    assert!(watch(&child).expect("no failure").is_none(), "there is no process to be watched");
}

/// The pipe is closed when the process ends, however it does.
#[test]
fn a_bound_program_is_killed_with_the_end_of_its_pipe_and_not_before() {
    use std::os::unix::process::ExitStatusExt;
    let pipe = bonding_pipe().expect("a pipe");
    let mut child = spawn(Path::new("/bin/sleep"), &["60"], &[]).expect("started");
    let writer = bind(&child, pipe).expect("bound");
    assert_eq!(child.try_wait().expect("looked"), None);
    drop(writer);
    assert_eq!(child.wait().expect("waited").signal(), Some(9));
    let input = vec![b'x'; 1 << 20];
    let output = run_bound(Path::new("/bin/cat"), &["-"], &input, LONG).expect("it ends");
    assert!(output.status.success() && output.stdout == input);
}
