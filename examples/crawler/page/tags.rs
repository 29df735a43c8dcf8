//! HTML as a stream of the tags that matter, and of text.
//!
//! Tokens are those of the WHATWG standard with scripting off, so what stands in `<noscript>` counts.
//! There is no tree; which content is not markup (scripts, styles, titles) follows from tag names alone.
//! Within `<svg>` and `<math>` these names mean other things; a count of open ones is enough to know.

use html5gum::{Emitter, Error, State, Tokenizer};

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
    let emitter = Tags::new(sink);
    // One token at most: the sink has seen enough.
    match Tokenizer::new_with_emitter(html, emitter).next() {
        Some(Ok(())) | None => {}
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

const NAMES: usize = 7;

fn attribute(name: &[u8]) -> Option<Attribute> {
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

    fn clear(&mut self) {
        self.is_set = [false; NAMES];
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

struct Tags<'s, S> {
    sink: &'s mut S,
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

impl<'s, S: Sink> Tags<'s, S> {
    fn new(sink: &'s mut S) -> Self {
        Self {
            sink,
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

    /// Settles which tag this is, once its name is complete.
    fn name_is_complete(&mut self) {
        if self.tag.is_none() && !self.is_end {
            self.tag = match self.name.as_slice() {
                b"a" => Some(Tag::A),
                b"area" => Some(Tag::Area),
                b"base" => Some(Tag::Base),
                b"frame" | b"iframe" => Some(Tag::Frame),
                b"link" => Some(Tag::Link),
                b"meta" => Some(Tag::Meta),
                _ => None,
            };
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

impl<S: Sink> Emitter for Tags<'_, S> {
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
        if self.is_end {
            self.end_tag();
            return None;
        }
        self.name_is_complete();
        self.start_tag()
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
