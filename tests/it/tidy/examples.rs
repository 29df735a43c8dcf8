//! Every public function of the handles has an example: its own, or one of its type that calls it.

use super::{files, production};

/// Functions that have none yet.
const LEFT: [&str; 0] = [];

/// A public item and its doc comment.
struct Item<'a> {
    line: &'a str,
    doc: String,
    /// The type whose function it is, or nothing.
    owner: &'a str,
}

impl<'a> Item<'a> {
    fn function(&self) -> Option<&'a str> {
        let name = self.line.strip_prefix("fn ").map(first_word);
        name.filter(|_| !self.owner.is_empty())
    }

    fn is_struct(&self, name: &str) -> bool {
        self.line.strip_prefix("struct ").map(first_word) == Some(name)
    }
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

fn items(text: &str) -> Vec<Item<'_>> {
    let (mut items, mut doc, mut owner) = (Vec::new(), String::new(), "");
    for line in text.lines() {
        let bare = line.trim_start();
        if let Some(comment) = bare.strip_prefix("///") {
            doc.push_str(comment);
            doc.push('\n');
            continue;
        }
        if bare.starts_with("#[") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("impl ") {
            // A trait documents its functions itself.
            let is_inherent = !rest.contains(" for ");
            owner = if is_inherent { first_word(rest) } else { "" };
        } else if line == "}" {
            owner = "";
        } else if let Some(line) = bare.strip_prefix("pub ") {
            let doc = std::mem::take(&mut doc);
            items.push(Item { line, doc, owner });
        }
        doc.clear();
    }
    items
}

/// Whether an example in the doc comment calls a function of this name.
fn calls(doc: &str, name: &str) -> bool {
    let mut examples = doc.split("```").skip(1).step_by(2);
    let (method, function) = (format!(".{name}("), format!("::{name}("));
    examples.any(|example| example.contains(&method) || example.contains(&function))
}

/// The functions, and those of them that no example shows.
fn shown_and_not(texts: &[&str]) -> (usize, Vec<String>) {
    let all: Vec<Item<'_>> = texts.iter().flat_map(|text| items(text)).collect();
    let (mut count, mut missing) = (0, Vec::new());
    for item in &all {
        let Some(name) = item.function() else {
            continue;
        };
        count += 1;
        let mut types = all.iter().filter(|other| other.is_struct(item.owner));
        if !item.doc.contains("```") && !types.any(|owner| calls(&owner.doc, name)) {
            missing.push(format!("{}::{name}", item.owner));
        }
    }
    (count, missing)
}

#[test]
fn functions_without_an_example_are_seen() {
    let text = "\
/// ```
/// let one = One::new();
/// one.shown();
/// ```
#[derive(Debug)]
pub struct One {
    pub field: u64,
}

impl One {
    pub fn new() -> One {
    }

    #[must_use]
    pub fn shown(&self) {}

    /// ```
    /// shows_itself();
    /// ```
    #[must_use]
    pub fn shows_itself(&self) {}

    /// It is not `.hidden()`.
    pub fn hidden(&self) {}

    pub(crate) fn private(&self) {}
}

impl Iterator for One {}
";
    let missing = vec!["One::hidden".to_owned()];
    assert_eq!(shown_and_not(&[text]), (4, missing));
}

#[test]
fn public_functions_of_handles_have_examples() {
    let all = files("src/db", "rs");
    let texts: Vec<&str> = all.iter().map(|(_, text)| production(text)).collect();
    let (count, mut missing) = shown_and_not(&texts);
    assert!(count > 80, "{count} functions were seen");
    missing.retain(|name| !LEFT.contains(&name.as_str()));
    assert!(
        missing.is_empty(),
        "write an example between ``` in the doc comment of each, which asserts something, or call \
         it in the example of its type: {missing:#?}"
    );
}
