//! Where each value of an object is: its place in the list, and its JSON pointer. Objects of which the
//! places have the same pointers are alike.

use super::{Name, Value, Values};

/// What the pointers of values depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part<'a> {
    Leaf,
    Name(Name<'a>),
    Object,
    List,
    End,
}

/// A step of the path to a value.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// Of an object, before its first member.
    Before,
    Member(&'a str),
    /// How many elements have begun.
    Element(usize),
}

impl Values {
    /// How many places there are.
    pub(in crate::recording) fn len(&self) -> usize {
        self.all.len()
    }

    /// True if the value at each place has the same pointer in both.
    pub(in crate::recording) fn is_alike(&self, other: &Self) -> bool {
        self.all.len() == other.all.len() && self.parts().eq(other.parts())
    }

    /// The JSON pointers (RFC 6901) of the values at these places, which ascend.
    pub(in crate::recording) fn pointers(
        &self,
        places: impl Iterator<Item = usize>,
    ) -> Vec<String> {
        let (mut places, mut steps, mut pointers) = (places.peekable(), Vec::new(), Vec::new());
        for (at, part) in self.parts().enumerate() {
            if places.peek().is_none() {
                break;
            }
            if let (Some(Step::Element(n)), true) = (steps.last_mut(), part != Part::End) {
                *n += 1;
            }
            match (part, steps.last_mut()) {
                (Part::Name(Name(name)), Some(last)) => *last = Step::Member(name),
                (Part::Object, _) => steps.push(Step::Before),
                (Part::List, _) => steps.push(Step::Element(0)),
                (Part::End, _) => drop(steps.pop()),
                (Part::Leaf | Part::Name(_), _) => {}
            }
            pointers.extend(places.next_if_eq(&at).map(|_| pointer(&steps)));
        }
        pointers
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let mut texts = &self.texts[..];
        let mut next = move |length: usize| {
            let (text, rest) = texts.split_at(length);
            texts = rest;
            text
        };
        self.all.iter().map(move |value| match value {
            Value::Text(length) => {
                next(*length);
                Part::Leaf
            }
            Value::Name(length) => Part::Name(Name(next(*length))),
            Value::Field(name) => Part::Name(*name),
            Value::Object => Part::Object,
            Value::List => Part::List,
            Value::End => Part::End,
            _ => Part::Leaf,
        })
    }
}

/// The JSON pointer (RFC 6901) of these steps.
fn pointer(steps: &[Step<'_>]) -> String {
    let mut pointer = String::new();
    for step in steps {
        pointer.push('/');
        match step {
            Step::Before => {}
            Step::Member(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
            Step::Element(n) => pointer.push_str(&(n - 1).to_string()),
        }
    }
    pointer
}
