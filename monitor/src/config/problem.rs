//! What is wrong with a file, and where: collected while the file is read, reported all at once.

use std::cell::RefCell;
use std::fmt;

/// A position in a file. Both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position of the character at byte `offset` of `text`.
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

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// `None` if it has no position: the file could not be read.
    pub at: Option<Place>,
    /// The key, as `ranking.order` or `items[2].kind`; empty for the whole file.
    pub path: String,
    /// What was expected, and what was found.
    pub message: String,
}

impl Problem {
    /// A problem of the whole document, not of one key.
    pub fn at(at: Place, message: impl Into<String>) -> Self {
        Self { at: Some(at), path: String::new(), message: message.into() }
    }
}

/// `LINE:COLUMN: KEY: MESSAGE`, without the parts that the problem does not have.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "{at}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// All problems of one file. Its readers share the list and go on after each problem.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub fn push(&self, at: Place, path: impl Into<String>, message: impl Into<String>) {
        let (path, message) = (path.into(), message.into());
        self.0.borrow_mut().push(Problem { at: Some(at), path, message });
    }

    pub(super) fn n(&self) -> usize {
        self.0.borrow().len()
    }

    /// Each problem once, in file order.
    pub fn take_sorted(&self) -> Vec<Problem> {
        let mut all = self.0.take();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// `value`, or an error with all problems if there are any.
    pub fn unless_any<T>(self, file: &str, value: T) -> Result<T, Invalid> {
        let problems = self.take_sorted();
        if problems.is_empty() {
            return Ok(value);
        }
        Err(Invalid { file: file.into(), problems })
    }
}

/// A file that cannot be used: one line for each problem, `FILE:LINE:COLUMN: KEY: MESSAGE`.
/// The caller prints it and ends with the exit code for invalid input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// As the operator named it; `-` for standard input.
    pub file: String,
    /// In file order; never empty.
    pub problems: Vec<Problem>,
}

impl Invalid {
    pub fn one(file: &str, problem: Problem) -> Self {
        Self { file: file.into(), problems: vec![problem] }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            let newline = if n == 0 { "" } else { "\n" };
            let blank = if problem.at.is_some() { "" } else { " " };
            write!(f, "{newline}{}:{blank}{problem}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_counts_lines_and_characters() {
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
    fn problems_sorts_by_place_without_duplicates() {
        let problems = Problems::default();
        problems.push(Place { line: 3, column: 1 }, "b", "second");
        problems.push(Place { line: 1, column: 2 }, "", "first");
        problems.push(Place { line: 3, column: 1 }, "b", "second");
        let invalid = problems.unless_any("f.yaml", ()).unwrap_err();
        assert_eq!(invalid.to_string(), "f.yaml:1:2: first\nf.yaml:3:1: b: second");
        assert_eq!(Problems::default().unless_any("f.yaml", 1), Ok(1));
    }
}
