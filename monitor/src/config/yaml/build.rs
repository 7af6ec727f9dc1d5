//! Builds the tree from the parser's events.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput, Tag};

use super::{Entry, Node, Place, Problem, Scalar, Value};

/// Deeper trees are refused: their readers recurse.
const DEEPEST: usize = 100;

/// How many nodes and bytes of text all anchors (a copy of each is kept) and aliases may add together.
/// Without a limit, nine aliases of nine aliases of nine aliases.. would fill any memory.
const ALIAS_BUDGET: usize = 1 << 20;

pub(super) fn documents(text: &str) -> Result<Vec<Node>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    // The parser takes a NUL for the end and would silently drop the rest.
    if let Some((offset, found)) = text.char_indices().find(|(_, c)| is_control(*c)) {
        let message = format!("expected text, found the control character U+{:04X}", found as u32);
        return Err(Problem::at(Place::of(text, offset), message));
    }
    let parser = Parser::new_from_str(text);
    let mut builder = Builder { text, parser, anchors: BTreeMap::new(), copied: 0 };
    let mut documents = Vec::new();
    loop {
        match builder.next()? {
            (Event::StreamEnd, _) => break,
            (Event::DocumentEnd, _) => builder.anchors.clear(),
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (event, at) => documents.push(builder.node(event, at, 0)?),
        }
    }
    // `---` twice is an empty document, as tools that join files leave them.
    documents.retain(|document| !document.is_null());
    if documents.is_empty() {
        return Err(Problem::at(Place::START, "the file holds no document"));
    }
    Ok(documents)
}

/// What the parser reports. It places a tab in the indentation where the value before it began.
fn refused(text: &str, at: Place, info: &str) -> Problem {
    let column = |line: &str| line.len() - line.trim_start_matches(' ').len() + 1;
    let mut lines = text.lines().enumerate().skip(at.line.saturating_sub(1));
    let indented = lines.find(|(_, line)| line.trim_start_matches(' ').starts_with('\t'));
    match indented {
        Some((n, line)) if info.contains("tab") => {
            let at = Place { line: n + 1, column: column(line) };
            Problem::at(at, "a tab in the indentation: use spaces")
        }
        _ => Problem::at(at, format!("not valid YAML: {info}")),
    }
}

fn place(mark: Marker) -> Place {
    Place { line: mark.line(), column: mark.col() + 1 }
}

struct Builder<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, Node>,
    copied: usize,
}

impl<'t> Builder<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Place), Problem> {
        let Some(event) = self.parser.next_event() else {
            return Ok((Event::StreamEnd, Place::START));
        };
        let refused = |error: saphyr_parser::ScanError| {
            refused(self.text, place(*error.marker()), error.info())
        };
        let (event, span) = event.map_err(refused)?;
        Ok((event, place(span.start)))
    }

    /// The node that `event` begins, `depth` levels below the top.
    fn node(&mut self, event: Event<'t>, at: Place, depth: usize) -> Result<Node, Problem> {
        let (value, anchor) = match event {
            Event::Alias(anchor) => return self.alias(anchor, at, depth),
            Event::Scalar(text, style, anchor, tag) => {
                let is_quoted = is_text(tag.as_deref(), at)? || style != ScalarStyle::Plain;
                (Value::Scalar(Scalar { text: text.into_owned(), is_quoted }), anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                enter(tag.as_deref(), at, depth)?;
                (Value::List(self.list(depth + 1)?), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                enter(tag.as_deref(), at, depth)?;
                (Value::Map(self.map(depth + 1)?), anchor)
            }
            other => return Err(Problem::at(at, format!("not valid YAML: {other:?}"))),
        };
        let node = Node { at, value };
        if anchor > 0 {
            self.add(size(&node).0, at)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        let mut nodes = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(nodes),
                (event, at) => nodes.push(self.node(event, at, depth)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Problem> {
        let mut entries = Vec::new();
        loop {
            let (event, at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(entries),
                (Event::SequenceStart(..) | Event::MappingStart(..), at) => return Err(no_key(at)),
                key => key,
            };
            let key = key(self.node(event, at, depth)?)?;
            let (event, value_at) = self.next()?;
            entries.push(Entry { key, at, value: self.node(event, value_at, depth)? });
        }
    }

    /// Counts a copy.
    fn add(&mut self, weight: usize, at: Place) -> Result<(), Problem> {
        self.copied += weight;
        if self.copied > ALIAS_BUDGET {
            return Err(Problem::at(at, "the anchors and aliases of this file expand to too much"));
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, at: Place, depth: usize) -> Result<Node, Problem> {
        let Some((weight, height)) = self.anchors.get(&anchor).map(size) else {
            return Err(Problem::at(at, "the alias is inside the node that it names"));
        };
        self.add(weight, at)?;
        if depth + height > DEEPEST {
            return Err(too_deep(at));
        }
        Ok(Node { at, ..self.anchors[&anchor].clone() })
    }
}

fn enter(tag: Option<&Tag>, at: Place, depth: usize) -> Result<(), Problem> {
    is_text(tag, at)?;
    if depth >= DEEPEST { Err(too_deep(at)) } else { Ok(()) }
}

fn too_deep(at: Place) -> Problem {
    Problem::at(at, format!("nested more than {DEEPEST} deep"))
}

fn no_key(at: Place) -> Problem {
    Problem::at(at, "a key must be a text, not a list or mapping")
}

fn key(node: Node) -> Result<String, Problem> {
    let Value::Scalar(scalar) = node.value else { return Err(no_key(node.at)) };
    if scalar.text == "<<" && !scalar.is_quoted {
        let message = "merge keys (<<) are not supported: write the keys out";
        return Err(Problem::at(node.at, message));
    }
    Ok(scalar.text)
}

/// Whether the tag makes it a text. The other tags of the core schema are checked by the reader.
fn is_text(tag: Option<&Tag>, at: Place) -> Result<bool, Problem> {
    let Some(tag) = tag else { return Ok(false) };
    let is_core = tag.is_yaml_core_schema()
        && matches!(tag.suffix.as_str(), "str" | "int" | "float" | "bool" | "null" | "seq" | "map");
    if !is_core {
        return Err(Problem::at(at, format!("the tag {tag} is not supported")));
    }
    Ok(tag.suffix == "str")
}

/// How many nodes and bytes of text a tree has, and how many levels.
fn size(node: &Node) -> (usize, usize) {
    let below = |(weight, height): (usize, usize), (more, high): (usize, usize)| {
        (weight + more, height.max(high + 1))
    };
    match &node.value {
        Value::Scalar(scalar) => (1 + scalar.text.len(), 1),
        Value::List(nodes) => nodes.iter().map(size).fold((1, 1), below),
        Value::Map(entries) => entries.iter().fold((1, 1), |sum, entry| {
            let (weight, height) = size(&entry.value);
            below(sum, (1 + entry.key.len() + weight, height))
        }),
    }
}
