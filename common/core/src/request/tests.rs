use super::*;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    Environment::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
}

fn full() -> Vec<(&'static str, &'static str)> {
    vec![("CNI_CONTAINERID", "id1"), ("CNI_NETNS", "/n"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/p")]
}

fn call(command: &str, pairs: &[(&str, &str)]) -> Result<Call, (u32, String, String)> {
    Call::parse(command, environment(pairs)).map_err(|error| describe(&error))
}

fn request(command: &str, stdin: &str) -> Result<Request, (u32, String, String)> {
    call(command, &full())?.with_config(stdin.as_bytes().to_vec(), Version::ALL).map_err(|error| describe(&error))
}

fn describe(error: &Error) -> (u32, String, String) {
    (error.code().number(), error.to_string(), error.details())
}

fn failure(code: u32, message: &str, details: &str) -> (u32, String, String) {
    (code, message.to_owned(), details.to_owned())
}

#[test]
fn missing_variables_are_listed_together() {
    for (command, want) in [
        ("ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"),
        ("GC", "CNI_PATH"),
        ("STATUS", "CNI_PATH"),
    ] {
        let error = call(command, &[("CNI_NETNS", "")]).expect_err("missing");
        assert_eq!(error, failure(4, &format!("required env variables [{want}] missing"), ""), "{command}");
    }
}

#[test]
fn the_version_is_judged_after_the_command() {
    let details = r#"config is "9.9.9", plugin supports ["0.1.0" "0.2.0" "0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]"#;
    for (command, version, want) in [
        ("ADD", r#""9.9.9""#, failure(1, "incompatible CNI versions", details)),
        ("CHECK", r#""0.3.1""#, failure(1, "config version does not allow CHECK", "")),
        ("GC", r#""1.0.0""#, failure(1, "config version does not allow GC", "")),
        ("STATUS", r#""1.2.0""#, failure(1, "plugin version does not allow STATUS", "")),
    ] {
        let stdin = format!(r#"{{"name":"n","cniVersion":{version}}}"#);
        assert_eq!(request(command, &stdin).expect_err("refused"), want);
    }
    let wrong_type = request("ADD", r#"{"name":"n","cniVersion":1}"#).expect_err("refused");
    assert_eq!(wrong_type.0, 6);
    assert!(wrong_type.1.starts_with("decoding version from network config: cniVersion: "), "{}", wrong_type.1);
    assert_eq!(request("ADD", r#"{"name":"n"}"#).expect("valid").version, Version::V0_1_0);
    let null = request("ADD", r#"{"name":"n","cniVersion":"1.0.0","prevResult":null}"#).expect("valid");
    assert_eq!(null.prev_result(), Ok(None));
}

#[test]
fn args_are_split_as_the_reference_splits_them() {
    let text = "IgnoreUnknown=true;IP=10.0.0.1/8;X=y;MAC=aa:bb:cc:dd:ee:ff;IP=10.0.0.2";
    let args = CniArgs::parse(text, &[]).expect("valid");
    assert_eq!(args.ip.as_deref(), Some("10.0.0.2"));
    assert_eq!(args.mac.as_deref(), Some("aa:bb:cc:dd:ee:ff"));
    for (text, want) in [
        ("IP", r#"ARGS: invalid pair "IP""#),
        ("IP=a;", r#"ARGS: invalid pair """#),
        ("A=b=c", r#"ARGS: invalid pair "A=b=c""#),
        ("IgnoreUnknown=yes", r#"ARGS: error parsing value of pair "IgnoreUnknown=yes": neither true nor false"#),
        ("K8S_POD_NAME=x;FOO=bar;IgnoreUnknown=0", r#"ARGS: unknown args ["K8S_POD_NAME=x" "FOO=bar"]"#),
    ] {
        assert_eq!(CniArgs::parse(text, &[]).map_err(|error| error.to_string()), Err(want.to_owned()), "{text}");
    }
}

#[test]
fn a_plugin_has_args_of_its_own() {
    assert_eq!(CniArgs::parse("NOMAD_JOB_ID=a=b;IgnoreUnknown=1", &[]), Ok(CniArgs::default()));
    let args = CniArgs::parse("OWN=1;IP=10.0.0.2;NONE=", &["OWN", "NONE", "OTHER"]).expect("valid");
    assert_eq!((args.own("OWN"), args.own("NONE"), args.own("OTHER"), args.own("IP")), (Some("1"), None, None, None));
    let text = CniArgs::parse("own=1", &["OWN"]).map_err(|error| error.to_string());
    assert_eq!(text, Err(r#"ARGS: unknown args ["own=1"]"#.to_owned()));
}

/// A folder may have any name.
#[test]
fn the_path_is_kept_as_it_is_given() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let path = OsStr::from_bytes(b"/opt/\xff");
    let environment = Environment::new([(OsStr::new("CNI_PATH"), path)]);
    let call = Call::parse("STATUS", environment).expect("a call");
    let config = br#"{"cniVersion":"1.1.0","name":"n1"}"#;
    let request = call.with_config(config.to_vec(), Version::ALL).expect("a request");
    assert_eq!(request.path(), path);
    assert!(request.variables().any(|variable| variable == ("CNI_PATH", path)));
}
