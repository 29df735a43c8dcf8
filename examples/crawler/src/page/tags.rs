//! HTML as a stream of the tags that matter, and of text.
//!
//! Tokens are those of the WHATWG standard with scripting off, so what stands in `<noscript>`
//! counts. There is no tree; which content is not markup (scripts, styles, titles) follows from tag
//! names alone. Within `<svg>` and `<math>` these names mean other things; a count of open ones is
//! enough to know.
//!
//! The tokenizer is the authority, and a machine of many states. Right behind a tag, as long as the
//! markup is plain, `plain.rs` reads on in its place.

use std::cell::Cell;
use std::convert::Infallible;

use html5gum::{Emitter, Error, Reader, State, Tokenizer};
use memchr::memchr2;

use super::plain;

/// Takes what is read.
pub(super) trait Sink {
    /// A start tag that matters; `false` ends the reading.
    fn tag(&mut self, tag: Tag, attributes: &Attributes) -> bool;
    /// A piece of the visible text.
    fn text(&mut self, text: &[u8]);
    /// A piece of the title.
    fn title(&mut self, text: &[u8]);
    /// A tag stands here, so a word ends.
    fn boundary(&mut self);
}

/// Reads `html`, which is in UTF-8 or any charset that agrees with it on ASCII.
pub(super) fn read<S: Sink>(html: &[u8], sink: &mut S) {
    let rest = Cell::new(html);
    let mut tags = Tags::new(sink, &rest);
    tags.read_plain();
    tags.read_on();
}

/// What was not read yet.
type Rest<'h> = Cell<&'h [u8]>;

/// Gives the rest to the tokenizer.
struct Source<'r, 'h>(&'r Rest<'h>);

impl Reader for Source<'_, '_> {
    type Error = Infallible;

    fn read_byte(&mut self) -> Result<Option<u8>, Infallible> {
        let Some((&byte, rest)) = self.0.get().split_first() else {
            return Ok(None);
        };
        self.0.set(rest);
        Ok(Some(byte))
    }

    fn try_read_string(&mut self, text: &[u8], case_sensitive: bool) -> Result<bool, Infallible> {
        let Some((found, rest)) = self.0.get().split_at_checked(text.len()) else {
            return Ok(false);
        };
        let is_it = found == text || !case_sensitive && found.eq_ignore_ascii_case(text);
        if is_it {
            self.0.set(rest);
        }
        Ok(is_it)
    }

    fn read_until<'b>(
        &'b mut self,
        needles: &[u8],
        _: &'b mut [u8; 4],
    ) -> Result<Option<&'b [u8]>, Infallible> {
        let rest = self.0.get();
        let found = rest.iter().position(|byte| needles.contains(byte));
        // A needle comes alone.
        let len = found.map_or(rest.len(), |at| at.max(1));
        let (read, rest) = rest.split_at(len);
        self.0.set(rest);
        Ok((!read.is_empty()).then_some(read))
    }
}

/// Tags whose attributes matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    A,
    Area,
    Base,
    Frame,
    Link,
    Meta,
}

/// Attributes that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    Charset,
    Content,
    Href,
    HttpEquiv,
    Name,
    Rel,
    Src,
}

impl Tag {
    /// The tag with this name, if it is one that matters.
    pub(super) fn of(name: &[u8]) -> Option<Tag> {
        Some(match name {
            b"a" => Tag::A,
            b"area" => Tag::Area,
            b"base" => Tag::Base,
            b"frame" | b"iframe" => Tag::Frame,
            b"link" => Tag::Link,
            b"meta" => Tag::Meta,
            _ => return None,
        })
    }
}

const NAMES: usize = 7;

/// The attribute with this name, if it is one that matters.
pub(super) fn attribute(name: &[u8]) -> Option<Attribute> {
    Some(match name {
        b"charset" => Attribute::Charset,
        b"content" => Attribute::Content,
        b"href" => Attribute::Href,
        b"http-equiv" => Attribute::HttpEquiv,
        b"name" => Attribute::Name,
        b"rel" => Attribute::Rel,
        b"src" => Attribute::Src,
        _ => return None,
    })
}

/// The attributes of a tag, entities resolved; of several with one name the first counts.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    values: [Vec<u8>; NAMES],
    is_set: [bool; NAMES],
}

impl Attributes {
    pub(super) fn get(&self, name: Attribute) -> Option<&[u8]> {
        let at = name as usize;
        self.is_set[at].then_some(&self.values[at])
    }

    pub(super) fn clear(&mut self) {
        self.is_set = [false; NAMES];
    }

    /// Sets an attribute, unless there is one of that name.
    pub(super) fn put(&mut self, name: Attribute, value: &[u8]) {
        if let Some(room) = self.begin(name) {
            room.extend_from_slice(value);
        }
    }

    /// Begins an attribute, unless there is one of that name.
    fn begin(&mut self, name: Attribute) -> Option<&mut Vec<u8>> {
        let at = name as usize;
        if self.is_set[at] {
            return None;
        }
        self.is_set[at] = true;
        self.values[at].clear();
        Some(&mut self.values[at])
    }
}

/// What the tokenizer is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Visible,
    /// A script, a style or the like: neither links nor text.
    Hidden,
    Title,
}

struct Tags<'s, 'h, S> {
    sink: &'s mut S,
    rest: &'s Rest<'h>,
    /// Not everything is left to the tokenizer.
    reads_plain: bool,
    content: Content,
    has_title: bool,
    /// How many `<svg>` and `<math>` are open.
    foreign: usize,
    is_done: bool,

    name: Vec<u8>,
    last_start: Vec<u8>,
    is_end: bool,
    is_self_closing: bool,
    /// Known as soon as the name is.
    tag: Option<Tag>,
    attributes: Attributes,
    attribute_name: Vec<u8>,
    /// The attribute whose value is being read, if it matters.
    current: Option<Attribute>,
}

impl<'s, 'h, S: Sink> Tags<'s, 'h, S> {
    fn new(sink: &'s mut S, rest: &'s Rest<'h>) -> Self {
        Self {
            sink,
            rest,
            reads_plain: true,
            content: Content::Visible,
            has_title: false,
            foreign: 0,
            is_done: false,
            name: Vec::new(),
            last_start: Vec::new(),
            is_end: false,
            is_self_closing: false,
            tag: None,
            attributes: Attributes::default(),
            attribute_name: Vec::new(),
            current: None,
        }
    }

    /// Reads to the end with the tokenizer, which calls back.
    fn read_on(self) {
        let source = Source(self.rest);
        // One token at most: the sink has seen enough.
        match Tokenizer::new_with_emitter(source, self).next() {
            Some(Ok(())) | None => {}
        }
    }

    /// Reads what is plain. This may be done where the tokenizer would read text next.
    fn read_plain(&mut self) {
        let mut rest = self.rest.get();
        while self.reads_plain && self.foreign == 0 && !self.is_done {
            let text = memchr2(b'<', b'&', rest).unwrap_or(rest.len());
            if text > 0 {
                self.sink.text(&rest[..text]);
                rest = &rest[text..];
            }
            let mut room = [0; 4];
            if let Some((character, len)) = plain::reference(rest, &mut room) {
                self.sink.text(character.as_bytes());
                rest = &rest[len..];
                continue;
            }
            let Some(plain) = plain::read(rest, &mut self.attributes) else {
                break;
            };
            rest = &rest[plain.len..];
            self.sink.boundary();
            if let Some(tag) = plain.tag {
                self.is_done = !self.sink.tag(tag, &self.attributes);
            }
        }
        self.rest.set(rest);
    }

    /// Settles which tag this is, once its name is complete.
    fn name_is_complete(&mut self) {
        if self.tag.is_none() && !self.is_end {
            self.tag = Tag::of(&self.name);
        }
    }

    /// Settles which attribute this is, once its name is complete.
    fn attribute_is_complete(&mut self) {
        if self.attribute_name.is_empty() {
            return;
        }
        self.current =
            attribute(&self.attribute_name).filter(|&name| self.attributes.begin(name).is_some());
        self.attribute_name.clear();
    }

    fn start_tag(&mut self) -> Option<State> {
        if let Some(tag) = self.tag {
            self.attribute_is_complete();
            self.is_done = !self.sink.tag(tag, &self.attributes);
        }
        std::mem::swap(&mut self.last_start, &mut self.name);
        if self.foreign > 0 {
            self.within_foreign();
            return None;
        }
        let (state, content) = match self.last_start.as_slice() {
            b"title" if self.has_title => (State::RcData, Content::Hidden),
            b"title" => (State::RcData, Content::Title),
            b"textarea" => (State::RcData, Content::Hidden),
            b"script" => (State::ScriptData, Content::Hidden),
            b"style" | b"xmp" | b"iframe" | b"noembed" | b"noframes" => {
                (State::RawText, Content::Hidden)
            }
            b"plaintext" => (State::PlainText, Content::Hidden),
            b"svg" | b"math" => {
                self.foreign = usize::from(!self.is_self_closing);
                return None;
            }
            _ => return None,
        };
        self.content = content;
        Some(state)
    }

    /// A start tag in `<svg>` or `<math>`: some end it, although they are not told to.
    fn within_foreign(&mut self) {
        match self.last_start.as_slice() {
            b"svg" | b"math" => self.foreign += usize::from(!self.is_self_closing),
            name if BREAKOUT.binary_search(&name).is_ok() => self.foreign = 0,
            _ => {}
        }
    }

    fn end_tag(&mut self) {
        match self.name.as_slice() {
            b"svg" | b"math" => self.foreign = self.foreign.saturating_sub(1),
            b"title" if self.content == Content::Title => self.has_title = true,
            _ => {}
        }
        self.content = Content::Visible;
    }
}

/// Start tags that cannot stand in `<svg>` (HTML standard, 13.2.6.5), sorted.
const BREAKOUT: [&[u8]; 43] = [
    b"b",
    b"big",
    b"blockquote",
    b"body",
    b"br",
    b"center",
    b"code",
    b"dd",
    b"div",
    b"dl",
    b"dt",
    b"em",
    b"embed",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"head",
    b"hr",
    b"i",
    b"img",
    b"li",
    b"listing",
    b"menu",
    b"meta",
    b"nobr",
    b"ol",
    b"p",
    b"pre",
    b"ruby",
    b"s",
    b"small",
    b"span",
    b"strike",
    b"strong",
    b"sub",
    b"sup",
    b"table",
    b"tt",
    b"u",
    b"ul",
];

impl<S: Sink> Emitter for Tags<'_, '_, S> {
    type Token = ();

    fn set_last_start_tag(&mut self, name: Option<&[u8]>) {
        self.last_start.clear();
        self.last_start.extend_from_slice(name.unwrap_or_default());
    }

    fn emit_eof(&mut self) {}

    fn emit_error(&mut self, _: Error) {}

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }

    #[inline]
    fn pop_token(&mut self) -> Option<()> {
        self.is_done.then_some(())
    }

    fn emit_string(&mut self, text: &[u8]) {
        match self.content {
            Content::Visible => self.sink.text(text),
            Content::Title => self.sink.title(text),
            Content::Hidden => {}
        }
    }

    fn init_start_tag(&mut self) {
        self.name.clear();
        self.is_end = false;
        self.is_self_closing = false;
        self.tag = None;
        self.current = None;
        self.attribute_name.clear();
        self.attributes.clear();
    }

    fn init_end_tag(&mut self) {
        self.name.clear();
        self.is_end = true;
        self.tag = None;
        self.current = None;
    }

    fn init_comment(&mut self) {}

    fn emit_current_tag(&mut self) -> Option<State> {
        self.sink.boundary();
        let state = if self.is_end {
            self.end_tag();
            None
        } else {
            self.name_is_complete();
            self.start_tag()
        };
        if state.is_none() {
            self.read_plain();
        }
        state
    }

    fn emit_current_comment(&mut self) {}

    fn emit_current_doctype(&mut self) {}

    fn set_self_closing(&mut self) {
        self.is_self_closing = true;
    }

    fn set_force_quirks(&mut self) {}

    fn push_tag_name(&mut self, name: &[u8]) {
        self.name.extend_from_slice(name);
    }

    fn push_comment(&mut self, _: &[u8]) {}

    fn push_doctype_name(&mut self, _: &[u8]) {}

    fn init_doctype(&mut self) {}

    fn init_attribute(&mut self) {
        self.name_is_complete();
        if self.tag.is_some() {
            // The one before may have had a name and no value.
            self.attribute_is_complete();
            self.current = None;
        }
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        if self.tag.is_some() {
            self.attribute_name.extend_from_slice(name);
        }
    }

    fn init_attribute_value(&mut self) {
        self.attribute_is_complete();
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        self.attribute_is_complete();
        if let Some(name) = self.current {
            self.attributes.values[name as usize].extend_from_slice(value);
        }
    }

    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end && !self.last_start.is_empty() && self.last_start == self.name
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.foreign > 0
    }
}

#[cfg(test)]
mod tests;
