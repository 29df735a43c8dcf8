//! Plain markup, read with the states of the tokenizer and without.

use super::*;

/// All that a sink is told; pieces of one text are one.
#[derive(Debug, Default, PartialEq)]
struct Told {
    events: Vec<Event>,
    left: usize,
}

#[derive(Debug, PartialEq)]
enum Event {
    Tag(Tag, Vec<Option<Vec<u8>>>),
    Text(Vec<u8>),
    Title(Vec<u8>),
    Boundary,
}

impl Sink for Told {
    fn tag(&mut self, tag: Tag, attributes: &Attributes) -> bool {
        let values = attributes.values.iter().zip(attributes.is_set);
        let values = values.map(|(value, is_set)| is_set.then(|| value.clone()));
        self.events.push(Event::Tag(tag, values.collect()));
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    fn text(&mut self, text: &[u8]) {
        // The tokenizer has line feeds only; no word depends on it.
        let text = text.iter().filter(|&&byte| byte != b'\r' && byte != b'\n');
        match self.events.last_mut() {
            Some(Event::Text(before)) => before.extend(text),
            _ => self.events.push(Event::Text(text.copied().collect())),
        }
    }

    fn title(&mut self, text: &[u8]) {
        match self.events.last_mut() {
            Some(Event::Title(before)) => before.extend_from_slice(text),
            _ => self.events.push(Event::Title(text.to_vec())),
        }
    }

    fn boundary(&mut self) {
        self.events.push(Event::Boundary);
    }
}

/// What is told of a page, up to its `left`th tag.
fn told(html: &[u8], left: usize, reads_plain: bool) -> Vec<Event> {
    let (events, rest) = (Vec::new(), Cell::new(html));
    let mut told = Told { events, left };
    let mut tags = Tags::new(&mut told, &rest);
    tags.reads_plain = reads_plain;
    tags.read_plain();
    tags.read_on();
    let empty = |event: &Event| matches!(event, Event::Text(text) if text.is_empty());
    told.events.retain(|event| !empty(event));
    told.events
}

/// What plain markup and its neighbours are made of.
#[rustfmt::skip]
const PIECES: [&str; 72] = [
    "<", "</", ">", "/>", "/", "=", "\"", "'", " ", "\n", "\r", "\t", "\x0c", "\0", "&", ";", "<a",
    "<a ", "<A ", "<a href=", "href", "HREF", "hreF=", " href=\"x\"", " href='y'", " href=z",
    "<p>", "<p", "</p>", "</p ", "<b x", "<meta ", "charset=", "<link rel=", "<base href=",
    "<area href=", "<iframe src=", "<frame src=", "<title>", "</title>", "<script>", "</script>",
    "<style>", "</style", "<svg>", "</svg>", "<math/>", "<textarea>", "</textarea>", "<plaintext>",
    "<!--", "-->", "<!", "<?", "<![CDATA[", "]]>", "&amp;", "&lt", "&#65;", "text", "Word",
    "\u{fc}", "x=y", "<h1 class=\"c\" id>", "&nbsp;", "&gt;", "&quot;", "&#8203;", "&#150;",
    "&#0;", "&#55296;", "&#65;x",
];

#[test]
fn plain_markup_is_read_as_the_tokenizer_reads_it() {
    let (mut random, mut tags) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    for _ in 0..60_000 {
        let mut html = String::new();
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for _ in 0..=next(24) {
            html.push_str(PIECES[next(PIECES.len() as u64) as usize]);
        }
        let left = 1 + next(6) as usize;
        let plain = told(html.as_bytes(), left, true);
        assert_eq!(plain, told(html.as_bytes(), left, false), "{html:?}");
        tags += plain
            .iter()
            .filter(|event| matches!(event, Event::Tag(..)))
            .count();
    }
    assert!(tags > 10_000, "{tags}");
}
