//! The parser's events, put together to a tree.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{Entry, Node, Place, Problem, Scalar, Value};

/// Deeper trees are refused: readers of trees call themselves.
const DEEPEST: usize = 100;

// Nine aliases of nine aliases of nine aliases.. of a text fill any memory from a file of a line.
/// What all aliases together may add, in nodes and bytes of text.
const ALIAS_BUDGET: usize = 1 << 20;

pub(super) fn documents(text: &str) -> Result<Vec<Node>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    // The parser takes a NUL for the end and would silently drop the rest.
    if let Some((offset, found)) = text.char_indices().find(|(_, c)| is_control(*c)) {
        let message = format!("expected text, found the control character U+{:04X}", found as u32);
        return Err(problem(Place::of(text, offset), message));
    }
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) =
            event.map_err(|error| refused(text, place(*error.marker()), error.info()))?;
        builder.take(event, place(span.start))?;
    }
    if builder.documents.is_empty() {
        return Err(problem(Place::START, "the file holds no document".into()));
    }
    Ok(builder.documents)
}

/// What the parser said. It places a tab in the indentation where the value before it began.
fn refused(text: &str, at: Place, info: &str) -> Problem {
    let tab = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut lines = text.lines().enumerate().skip(at.line.saturating_sub(1));
    let indented = lines.find(|(_, line)| line.trim_start_matches(' ').starts_with('\t'));
    match indented {
        Some((n, line)) if info.contains("tab") => {
            let at = Place { line: n + 1, column: tab(line) + 1 };
            problem(at, "a tab in the indentation: use spaces".into())
        }
        _ => problem(at, format!("not valid YAML: {info}")),
    }
}

fn place(mark: Marker) -> Place {
    Place { line: mark.line(), column: mark.col() + 1 }
}

fn problem(at: Place, message: String) -> Problem {
    Problem { at, path: String::new(), message }
}

/// A list or mapping that has not ended.
struct Open {
    at: Place,
    anchor: usize,
    /// The height of the highest node in it.
    height: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    /// Entries, and a key that waits for its value.
    Map(Vec<Entry>, Option<(String, Place)>),
}

/// A node that an alias may name.
struct Anchored {
    node: Node,
    /// How many levels it has.
    height: usize,
    /// How many nodes and bytes it has.
    weight: usize,
}

#[derive(Default)]
struct Builder {
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Anchored>,
    aliased: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Place) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = is_text(tag.as_deref(), at)?;
                let is_quoted = is_text || style != ScalarStyle::Plain;
                let scalar = Scalar { text: text.into_owned(), is_quoted };
                self.put(Node { at, value: Value::Scalar(scalar) }, anchor, 1)
            }
            Event::SequenceStart(anchor, tag) => {
                is_text(tag.as_deref(), at)?;
                self.begin(at, anchor, Inside::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                is_text(tag.as_deref(), at)?;
                self.begin(at, anchor, Inside::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, at),
            Event::DocumentEnd => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {
                Ok(())
            }
        }
    }

    fn begin(&mut self, at: Place, anchor: usize, inside: Inside) -> Result<(), Problem> {
        if self.open.len() >= DEEPEST {
            return Err(problem(at, format!("nested more than {DEEPEST} deep")));
        }
        self.refuse_as_key(at)?;
        self.open.push(Open { at, anchor, height: 0, inside });
        Ok(())
    }

    /// The parser ends nothing that did not begin.
    fn end(&mut self) -> Result<(), Problem> {
        let Some(Open { at, anchor, height, inside }) = self.open.pop() else {
            return Ok(());
        };
        let value = match inside {
            Inside::List(nodes) => Value::List(nodes),
            Inside::Map(entries, _) => Value::Map(entries),
        };
        self.put(Node { at, value }, anchor, height + 1)
    }

    fn alias(&mut self, anchor: usize, at: Place) -> Result<(), Problem> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(problem(at, "the alias stands within what it names".into()));
        };
        self.aliased += anchored.weight;
        if self.aliased > ALIAS_BUDGET {
            return Err(problem(at, "the aliases of this file add too much to it".into()));
        }
        if self.open.len() + anchored.height > DEEPEST {
            return Err(problem(at, format!("nested more than {DEEPEST} deep")));
        }
        let (node, height) = (anchored.node.clone(), anchored.height);
        self.put(Node { at, ..node }, 0, height)
    }

    /// A node that has ended goes where it stands.
    fn put(&mut self, node: Node, anchor: usize, height: usize) -> Result<(), Problem> {
        if anchor > 0 {
            let weight = weight(&node);
            self.anchors.insert(anchor, Anchored { node: node.clone(), height, weight });
        }
        let Some(open) = self.open.last_mut() else {
            // `---` twice is an empty document, as tools that join files leave them.
            if !node.is_null() {
                self.documents.push(node);
            }
            return Ok(());
        };
        open.height = open.height.max(height);
        match &mut open.inside {
            Inside::List(nodes) => nodes.push(node),
            Inside::Map(entries, key) => match key.take() {
                Some((key, at)) => entries.push(Entry { key, at, value: node }),
                None => *key = Some((key_text(&node)?, node.at)),
            },
        }
        Ok(())
    }

    fn refuse_as_key(&self, at: Place) -> Result<(), Problem> {
        match self.open.last() {
            Some(Open { inside: Inside::Map(_, None), .. }) => {
                Err(problem(at, "a key must be a text, not a list or mapping".into()))
            }
            _ => Ok(()),
        }
    }
}

fn key_text(node: &Node) -> Result<String, Problem> {
    let Value::Scalar(scalar) = &node.value else {
        return Err(problem(node.at, "a key must be a text, not a list or mapping".into()));
    };
    if scalar.text == "<<" && !scalar.is_quoted {
        let message = "merge keys (<<) are not supported: write the keys out";
        return Err(problem(node.at, message.into()));
    }
    Ok(scalar.text.clone())
}

/// Whether the tag makes a text of it. Those of the core schema say what the reader finds out.
fn is_text(tag: Option<&Tag>, at: Place) -> Result<bool, Problem> {
    let Some(tag) = tag else { return Ok(false) };
    let is_core = tag.is_yaml_core_schema()
        && matches!(tag.suffix.as_str(), "str" | "int" | "float" | "bool" | "null" | "seq" | "map");
    if !is_core {
        return Err(problem(at, format!("the tag {tag} is not supported")));
    }
    Ok(tag.suffix == "str")
}

fn weight(node: &Node) -> usize {
    match &node.value {
        Value::Scalar(scalar) => 1 + scalar.text.len(),
        Value::List(nodes) => 1 + nodes.iter().map(weight).sum::<usize>(),
        Value::Map(entries) => {
            1 + entries
                .iter()
                .map(|entry| 1 + entry.key.len() + weight(&entry.value))
                .sum::<usize>()
        }
    }
}
