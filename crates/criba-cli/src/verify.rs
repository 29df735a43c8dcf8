//! `verify`: reads all of a store and says what is wrong.

use criba::{Error, Verification};
use serde_json::Value;

use crate::args::VerifyArgs;
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::json::Object;
use crate::output::Output;
use crate::progress::Progress;
use crate::store;

pub(crate) fn verify(args: &VerifyArgs) -> Result<Exit, Failure> {
    let db = store::open_to_read(&args.store)?;
    let keyspaces = db.keyspaces().len();
    let bar = Progress::new(Some(0), "{msg} {bar:30} {pos}/{len} entries, {eta}");
    bar.phase("verifying");
    let report = db.verify(&mut |read, all| bar.position_of(read, all))?;
    drop(bar);
    let mut output = Output::stdout();
    if args.json {
        write_json(&report, keyspaces, &mut output)?;
    } else {
        write_text(&report, keyspaces, &mut output)?;
    }
    output.finish()?;
    db.close()?;
    Ok(if report.findings.is_empty() {
        Exit::Done
    } else {
        Exit::Damaged
    })
}

fn write_text(report: &Verification, keyspaces: usize, output: &mut Output) -> Result<(), Failure> {
    for finding in &report.findings {
        writeln!(output, "{}", Escaped(finding.to_string().as_bytes()))?;
    }
    let verdict = match report.findings.len() {
        0 => "sound".to_owned(),
        1 => "1 finding; criba repair makes a new store of what is intact".to_owned(),
        n => format!("{n} findings; criba repair makes a new store of what is intact"),
    };
    writeln!(
        output,
        "{keyspaces} keyspaces, {} segments, {} bytes, {} entries: {verdict}",
        report.segments, report.bytes, report.entries
    )
}

fn write_json(report: &Verification, keyspaces: usize, output: &mut Output) -> Result<(), Failure> {
    let findings: Vec<Value> = report.findings.iter().map(finding).collect();
    Object::new()
        .field("keyspaces", keyspaces)
        .field("segments", report.segments)
        .field("bytes", report.bytes)
        .field("entries", report.entries)
        .field("sound", report.findings.is_empty())
        .field("findings", findings)
        .write(output)
}

fn finding(error: &Error) -> Value {
    let object = match error {
        Error::Corrupt(at) => Object::new()
            .bytes("file", at.path.as_os_str().as_encoded_bytes())
            .field("offset", at.offset)
            .field("what", &*at.what),
        other => Object::new().field("what", other.to_string()),
    };
    object.into()
}
