//! Profiles of AWS: keys, regions, and failures with the profile and the fix.

use crate::common::server::Server;
use crate::common::{alone, keys_of_a_machine, open, painted, quick, text};
use std::path::{Path, PathBuf};
use wavetrain_remote::Config;

/// The profiles of the tests, in the forms of AWS's documents.
const FILE: &str = "[default]
region = eu-west-3

[profile keys]
aws_access_key_id = AKIDOFTHEPROFILE
aws_secret_access_key = of-a-file
region = eu-north-1

[profile program]
credential_process = PROGRAM

[profile work]
sso_session = mine
sso_account_id = 123456789011
sso_role_name = reader

[sso-session mine]
sso_region = us-east-2
sso_start_url = https://example.com/start

[profile broken]
role_arn = arn:aws:iam::123456789011:role/reader
source_profile = nobody
";

const PROGRAM: &str = "#!/bin/sh
echo '{\"Version\": 1, \"AccessKeyId\": \"AKIDOFTHEPROGRAM\", \"SecretAccessKey\": \"of-a-program\"}'
";

/// A home with the profiles.
fn home(test: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(home.join(".aws")).unwrap();
    let program = home.join("program.sh");
    std::fs::write(&program, PROGRAM).unwrap();
    let command = format!("sh {}", program.display());
    std::fs::write(home.join(".aws/config"), FILE.replace("PROGRAM", &command)).unwrap();
    home
}

/// True in the process that has the profile in its environment.
fn with_profile(test: &str, profile: &str) -> bool {
    let home = home(test);
    let mut variables = vec![("HOME", home.to_str().unwrap())];
    if !profile.is_empty() {
        variables.push(("AWS_PROFILE", profile));
    }
    alone(module_path!(), test, &variables)
}

fn served() -> (Server, Config) {
    let server = Server::start();
    server.put("/bucket/a", &painted(100), "\"v\"");
    let config = Config { endpoint: Some(server.url("")), allow_http: true, ..quick() };
    (server, config)
}

#[test]
fn a_profile_gives_keys_and_a_region() {
    if !with_profile("a_profile_gives_keys_and_a_region", "keys") {
        return;
    }
    let (server, config) = served();
    assert_eq!(open(config.clone()).size("s3://bucket/a").unwrap(), 100);
    let region = Some("eu-central-1".to_owned());
    assert_eq!(open(Config { region, ..config.clone() }).size("s3://bucket/a").unwrap(), 100);
    let key = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options =
        vec![key("aws_access_key_id", "AKIDGIVEN"), key("aws_secret_access_key", "given-key")];
    assert_eq!(open(Config { options, ..config }).size("s3://bucket/a").unwrap(), 100);
    let wanted = ["AKIDOFTHEPROFILE/", "AKIDOFTHEPROFILE/", "AKIDGIVEN/"];
    let regions = ["/eu-north-1/s3", "/eu-central-1/s3", "/eu-north-1/s3"];
    for (request, (key, region)) in server.requests().iter().zip(wanted.iter().zip(regions)) {
        assert!(request.contains(key) && request.contains(region), "{request}");
    }
}

#[test]
fn a_program_gives_keys() {
    if !with_profile("a_program_gives_keys", "program") {
        return;
    }
    let (server, config) = served();
    assert_eq!(open(config).size("s3://bucket/a").unwrap(), 100);
    assert!(server.requests()[0].contains("AKIDOFTHEPROGRAM/"), "{}", server.requests()[0]);
}

#[test]
fn a_profile_without_keys_leaves_those_of_the_machine() {
    if !with_profile("a_profile_without_keys_leaves_those_of_the_machine", "") {
        return;
    }
    let (server, config) = served();
    let options = vec![keys_of_a_machine(&server)];
    let client = open(Config { options, ..config.clone() });
    for _ in 0..2 {
        assert_eq!(client.size("s3://bucket/a").unwrap(), 100);
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 5, "the keys are asked for once: {requests:?}");
    assert!(requests[4].contains("AKIDOFTHEROLE/") && requests[4].contains("/eu-west-3/s3"));
    let options = vec![("aws_metadata_endpoint".to_owned(), "http://127.0.0.1:1".to_owned())];
    let error = text(open(Config { options, ..config }).size("s3://bucket/a"));
    assert!(error.contains("profile default of AWS gives no keys"), "{error}");
}

#[test]
fn a_session_that_is_over_is_named_with_the_login() {
    if !with_profile("a_session_that_is_over_is_named_with_the_login", "work") {
        return;
    }
    let error = text(open(served().1).size("s3://bucket/a"));
    assert!(error.contains("s3://bucket/a"), "{error}");
    assert!(error.contains("aws sso login --profile work"), "{error}");
}

#[test]
fn a_profile_that_cannot_be_used_is_named_with_the_fix() {
    const TEST: &str = "a_profile_that_cannot_be_used_is_named_with_the_fix";
    if std::env::var_os("WAVETRAIN_REMOTE_ALONE").is_none() {
        for profile in ["missing", "broken"] {
            with_profile(TEST, profile);
        }
        return;
    }
    let name = std::env::var("AWS_PROFILE").unwrap();
    let error = text(open(served().1).size("s3://bucket/a"));
    assert!(error.contains(&format!("profile {name} of AWS")), "{error}");
    assert!(error.contains("~/.aws/config"), "{error}");
    assert!(open(Config { anonymous: true, ..served().1 }).size("s3://bucket/a").is_ok());
}
