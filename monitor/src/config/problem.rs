//! What is wrong with a file, and where: collected while it is read, told all at once.

use std::cell::RefCell;
use std::fmt;

/// Where something stands in a file. Both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Place {
    /// Where a file begins.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Where the character at byte `offset` of `text` stands.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it stands.
    pub at: Place,
    /// The key that it is about, as `ranking.order` or `items[2].kind`; empty for the whole file.
    pub path: String,
    /// What was expected, and what stands there.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}: {}", self.at, self.message),
            path => write!(f, "{}: {path}: {}", self.at, self.message),
        }
    }
}

/// All that is found while a file is read. Readers share it, and go on after each entry.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    /// Adds one.
    pub fn push(&self, at: Place, path: impl Into<String>, message: impl Into<String>) {
        self.0.borrow_mut().push(Problem { at, path: path.into(), message: message.into() });
    }

    /// True if nothing is wrong so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// All of them, in the order of their places, each once.
    #[must_use]
    pub fn take_sorted(&self) -> Vec<Problem> {
        let mut all = self.0.take();
        all.sort();
        all.dedup();
        all
    }

    /// `made`, unless something is wrong with the file.
    ///
    /// # Errors
    /// With all that was found, if anything was.
    pub fn unless_any<T>(self, file: &str, made: T) -> Result<T, Invalid> {
        let problems = self.take_sorted();
        if problems.is_empty() {
            return Ok(made);
        }
        Err(Invalid { file: file.into(), problems })
    }
}

/// A file that cannot be used as it is: one line for each problem, `FILE:LINE:COLUMN: KEY: TEXT`.
/// The caller shows it and ends with the exit code for invalid input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// As the operator named it; `-` for standard input.
    pub file: String,
    /// In the order of their places; never empty.
    pub problems: Vec<Problem>,
}

impl Invalid {
    /// A file with one problem.
    #[must_use]
    pub fn one(file: &str, problem: Problem) -> Self {
        Self { file: file.into(), problems: vec![problem] }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            let newline = if n == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{problem}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        #[rustfmt::skip]
        let table = [
            // text, offset, line, column
            ("",        0, 1, 1),
            ("ab",      1, 1, 2),
            ("a\nb",    2, 2, 1),
            ("a\n\n",   3, 3, 1),
            ("äb",      2, 1, 2), // characters, not bytes
        ];
        for (text, offset, line, column) in table {
            assert_eq!(Place::of(text, offset), Place { line, column }, "{text:?} at {offset}");
        }
    }

    #[test]
    fn problems_are_told_in_the_order_of_their_places_and_each_once() {
        let problems = Problems::default();
        problems.push(Place { line: 3, column: 1 }, "b", "second");
        problems.push(Place { line: 1, column: 2 }, "", "first");
        problems.push(Place { line: 3, column: 1 }, "b", "second");
        let invalid = problems.unless_any("f.yaml", ()).unwrap_err();
        assert_eq!(invalid.to_string(), "f.yaml:1:2: first\nf.yaml:3:1: b: second");
        assert_eq!(Problems::default().unless_any("f.yaml", 1), Ok(1));
    }
}
