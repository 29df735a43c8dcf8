//! `import` and `export`: all entries as lines, out and in without loss, in bounded memory.
//!
//! A line is `key TAB value` with escapes, or a JSON object. One that begins with `\+`, or has the
//! field "operand", is an operand. A line `\=NAME`, or an object with the field "keyspace" alone,
//! names the keyspace of the lines after it. What both spell is decided here; how they stream is in
//! the two submodules.

mod export;
mod import;

pub(crate) use export::export;
pub(crate) use import::import;

use serde_json::Value;

use crate::escape::{Escaped, unescape};
use crate::exit::Failure;
use crate::json::{Object, take_bytes};
use crate::keyspaces::Name;
use crate::output::Output;

/// A key and its value or operand.
type Entry = (Vec<u8>, Kind, Vec<u8>);

/// The kind of bytes that a line has for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Value,
    Operand,
}

/// The meaning of a line.
#[derive(PartialEq, Eq, Debug)]
enum Said {
    /// The lines after it are of this keyspace.
    Keyspace(Name),
    Entry(Entry),
}

/// What no escape begins with, before the key of an operand.
const OPERAND: &[u8] = b"\\+";

/// The same before the name of a keyspace.
const KEYSPACE: &[u8] = b"\\=";

/// How lines spell entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spelling {
    Text,
    Json,
}

impl Spelling {
    fn new(json: bool) -> Spelling {
        if json { Spelling::Json } else { Spelling::Text }
    }

    fn write(
        self,
        key: &[u8],
        kind: Kind,
        value: &[u8],
        output: &mut Output,
    ) -> Result<(), Failure> {
        let (mark, name) = match kind {
            Kind::Value => ("", "value"),
            Kind::Operand => ("\\+", "operand"),
        };
        match self {
            Spelling::Text => writeln!(output, "{mark}{}\t{}", Escaped(key), Escaped(value)),
            Spelling::Json => Object::new()
                .bytes("key", key)
                .bytes(name, value)
                .write(output),
        }
    }

    fn write_keyspace(self, name: &str, output: &mut Output) -> Result<(), Failure> {
        match self {
            Spelling::Text => writeln!(output, "\\={}", Escaped(name.as_bytes())),
            Spelling::Json => Object::new().field("keyspace", name).write(output),
        }
    }

    /// # Errors
    ///
    /// A sentence about what is wrong with the line.
    fn read(self, line: &[u8]) -> Result<Said, String> {
        match self {
            Spelling::Text => read_text(line),
            Spelling::Json => read_json(line),
        }
    }
}

fn read_text(line: &[u8]) -> Result<Said, String> {
    if let Some(name) = line.strip_prefix(KEYSPACE) {
        if name.contains(&b'\t') {
            return Err("a line that names a keyspace has no tab".into());
        }
        let name = unescape(name).map_err(|what| format!("keyspace: {what}"))?;
        return Name::new(name).map(Said::Keyspace);
    }
    let (kind, line) = match line.strip_prefix(OPERAND) {
        Some(rest) => (Kind::Operand, rest),
        None => (Kind::Value, line),
    };
    let tab = line
        .iter()
        .position(|&byte| byte == b'\t')
        .ok_or("there is no tab between key and value")?;
    let key = unescape(&line[..tab]).map_err(|what| format!("key: {what}"))?;
    let value = unescape(&line[tab + 1..]).map_err(|what| format!("value: {what}"))?;
    Ok(Said::Entry((key, kind, value)))
}

fn read_json(line: &[u8]) -> Result<Said, String> {
    let Value::Object(mut fields) =
        serde_json::from_slice(line).map_err(|error| not_json(&error))?
    else {
        return Err("this is no JSON object".into());
    };
    if fields.contains_key("keyspace") {
        if fields.len() > 1 {
            return Err("an object that names a keyspace has no other field".into());
        }
        return Name::new(take_bytes(&mut fields, "keyspace")?).map(Said::Keyspace);
    }
    let key = take_bytes(&mut fields, "key")?;
    let is_operand = ["operand", "operand_base64"]
        .iter()
        .any(|name| fields.contains_key(*name));
    let (kind, name) = match is_operand {
        true => (Kind::Operand, "operand"),
        false => (Kind::Value, "value"),
    };
    let value = take_bytes(&mut fields, name)?;
    match fields.keys().next() {
        None => Ok(Said::Entry((key, kind, value))),
        Some(name) => Err(format!(
            "the field {:?} is not known",
            Escaped(name.as_bytes()).to_string()
        )),
    }
}

/// The parser's words, with the place within the line: it takes the line for a whole file.
fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(what, _)| what);
    format!("this is no JSON: {what} at byte {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        fn check_kind(spelling: Spelling, line: &str, key: &[u8], kind: Kind, value: &[u8]) {
            assert_eq!(
                spelling.read(line.as_bytes()),
                Ok(Said::Entry((key.to_vec(), kind, value.to_vec()))),
                "{line}"
            );
        }
        let check = |spelling, line, key, value| {
            check_kind(spelling, line, key, Kind::Value, value);
        };
        check_kind(Spelling::Text, "\\+a\\tb\tc", b"a\tb", Kind::Operand, b"c");
        let json = r#"{"key":"k","operand_base64":"/w=="}"#;
        check_kind(Spelling::Json, json, b"k", Kind::Operand, b"\xff");
        check(Spelling::Text, "k\tv", b"k", b"v");
        check(Spelling::Text, "\t", b"", b"");
        check(Spelling::Text, "a\\tb\tc\td", b"a\tb", b"c\td");
        check(Spelling::Json, r#"{"key":"a\tb","value":""}"#, b"a\tb", b"");
        check(
            Spelling::Json,
            r#" {"value_base64":"/w==","key":"\\x00"} "#,
            b"\\x00",
            b"\xff",
        );
    }

    #[test]
    fn lines_name_keyspaces() {
        let check = |spelling: Spelling, line: &str, name: &str| {
            let name = Name::new(name.into()).unwrap();
            assert_eq!(spelling.read(line.as_bytes()), Ok(Said::Keyspace(name)));
        };
        check(Spelling::Text, "\\=users", "users");
        check(Spelling::Text, "\\=a\\tb\\x1b\\\\", "a\tb\u{1b}\\");
        check(Spelling::Json, "{\"keyspace\":\"a\\tb\"}", "a\tb");
    }

    #[test]
    fn lines_are_refused() {
        fn check(spelling: Spelling, line: &str, expected: &str) {
            let message = spelling.read(line.as_bytes()).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        check(Spelling::Text, "k v", "no tab");
        check(Spelling::Text, "\\=k\tv", "has no tab");
        check(Spelling::Text, "\\=", "name of 0 bytes");
        check(Spelling::Text, "\\=\\xff", "not UTF-8");
        check(Spelling::Text, "\\=\\q", "keyspace: byte 1");
        let entry = r#"{"keyspace":"s","key":"k","value":"v"}"#;
        check(Spelling::Json, entry, "no other field");
        check(Spelling::Json, r#"{"keyspace":1}"#, "not a string");
        let both = r#"{"key":"k","value":"v","operand":"o"}"#;
        check(Spelling::Json, both, "\"value\" is not known");
        check(Spelling::Text, "k\\q\tv", "key: byte 2");
        check(Spelling::Text, "k\tv\\", "value: byte 2");
        check(
            Spelling::Json,
            "{\"a\":}",
            "no JSON: expected value at byte 6",
        );
        check(Spelling::Json, "[1]", "no JSON object");
        check(Spelling::Json, r#"{"key":"k"}"#, "no field value");
        check(
            Spelling::Json,
            r#"{"key":"k","value":"v","ttl":1}"#,
            "\"ttl\" is not known",
        );
    }
}
