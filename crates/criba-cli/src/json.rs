//! JSON lines: one object on each line, fields in the order in which they were pushed.
//!
//! Output is ASCII: everything else is written as `\uNNNN`, so that foreign text cannot reach a
//! terminal. Keys and values that are UTF-8 are strings as they are; others are base64 in a field
//! whose name ends in `_base64`. Both ways, nothing is lost.

use serde_json::Value;

use crate::base64;
use crate::exit::Failure;
use crate::output::Output;

/// An object under construction.
#[derive(Default)]
pub(crate) struct Object {
    fields: Vec<(String, Value)>,
}

impl Object {
    pub(crate) fn new() -> Object {
        Object::default()
    }

    pub(crate) fn field(mut self, name: &str, value: impl Into<Value>) -> Object {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Bytes as a string where they are UTF-8, else in `name_base64`.
    pub(crate) fn bytes(self, name: &str, bytes: &[u8]) -> Object {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.field(name, text),
            Err(_) => self.field(&format!("{name}_base64"), base64::encode(bytes)),
        }
    }

    /// The object as one line of ASCII, without the line feed.
    pub(crate) fn to_line(&self) -> String {
        let mut line = String::from("{");
        for (ordinal, (name, value)) in self.fields.iter().enumerate() {
            if ordinal > 0 {
                line.push(',');
            }
            line.push_str(&ascii(&Value::from(name.as_str())));
            line.push(':');
            line.push_str(&ascii(value));
        }
        line.push('}');
        line
    }

    /// # Errors
    ///
    /// When the output cannot be written.
    pub(crate) fn write(&self, output: &mut Output) -> Result<(), Failure> {
        writeln!(output, "{}", self.to_line())
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Value {
        Value::Object(object.fields.into_iter().collect())
    }
}

/// A byte field of an object that was read: `name`, or `name_base64`.
///
/// # Errors
///
/// A sentence that names the field and what is wrong with it.
pub(crate) fn take_bytes(
    object: &mut serde_json::Map<String, Value>,
    name: &str,
) -> Result<Vec<u8>, String> {
    let encoded = format!("{name}_base64");
    match (object.remove(name), object.remove(&encoded)) {
        (Some(Value::String(text)), None) => Ok(text.into_bytes()),
        (None, Some(Value::String(text))) => {
            base64::decode(&text).ok_or_else(|| format!("the field {encoded} is not base64"))
        }
        (None, None) => Err(format!("there is no field {name}")),
        (Some(_), Some(_)) => Err(format!("both {name} and {encoded} are there; keep one")),
        _ => Err(format!("the field {name} is not a string")),
    }
}

/// A value as JSON in ASCII. Beyond ASCII there are only characters of strings, and those have an
/// escape.
fn ascii(value: &Value) -> String {
    let text = value.to_string();
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, ' '..='~') {
            line.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            line.push_str(&format!("\\u{unit:04x}"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ascii_and_keep_their_order() {
        let object = Object::new()
            .field("b", 1)
            .field("a", f64::NAN)
            .field("nested", Object::new().field("x", vec![1, 2]))
            .bytes("key", "é\x1b\u{7f}\u{1f600}".as_bytes())
            .bytes("value", b"\xff");
        assert_eq!(
            object.to_line(),
            "{\"b\":1,\"a\":null,\"nested\":{\"x\":[1,2]},\
             \"key\":\"\\u00e9\\u001b\\u007f\\ud83d\\ude00\",\"value_base64\":\"/w==\"}"
        );
    }

    fn parse(line: &str) -> serde_json::Map<String, Value> {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn bytes_come_back() {
        for bytes in [
            &b""[..],
            b"a\\x00",
            b"\0\n\"",
            "é\u{2028}".as_bytes(),
            b"\xff\xfe",
            b"\xc3",
        ] {
            let line = Object::new().bytes("key", bytes).to_line();
            assert_eq!(
                take_bytes(&mut parse(&line), "key").unwrap(),
                bytes,
                "{line}"
            );
        }
    }

    #[test]
    fn fields_that_do_not_fit_are_named() {
        fn check(line: &str, expected: &str) {
            let message = take_bytes(&mut parse(line), "key").unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        check("{}", "there is no field key");
        check(r#"{"key":1}"#, "not a string");
        check(r#"{"key_base64":"@"}"#, "key_base64 is not base64");
        check(r#"{"key":"a","key_base64":"YQ=="}"#, "both");
    }
}
