//! Columns of changed numbers. Hundreds of rows have their numbers at the same places, so the pointers of
//! these are made once.

use std::collections::BTreeMap;

use super::values::Values;

/// Rows that others are compared with. Of a table of cgroups, some three are unlike each other.
const KNOWN: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Columns {
    /// By JSON pointer.
    numbered: BTreeMap<String, usize>,
    known: Vec<Known>,
}

/// A row, and the columns of its numbers by place, as far as they were needed.
#[derive(Debug)]
struct Known {
    row: Values,
    columns: Vec<Option<usize>>,
}

impl Columns {
    /// The columns in which these changes of a row are, in place of the places.
    pub(super) fn of(&mut self, row: &Values, changes: Vec<(usize, i64)>) -> Vec<(usize, i64)> {
        let at = self.known.iter().position(|known| known.row.is_alike(row));
        let at = at.unwrap_or_else(|| {
            if self.known.len() == KNOWN {
                self.known.remove(0);
            }
            let columns = vec![None; row.len()];
            self.known.push(Known { row: row.clone(), columns });
            self.known.len() - 1
        });
        let Self { numbered, known } = self;
        let known = &mut known[at].columns;
        let new: Vec<usize> =
            changes.iter().map(|(place, _)| *place).filter(|at| known[*at].is_none()).collect();
        for (place, pointer) in new.iter().zip(row.pointers(new.iter().copied())) {
            let next = numbered.len();
            known[*place] = Some(*numbered.entry(pointer).or_insert(next));
        }
        changes.into_iter().filter_map(|(place, change)| Some((known[place]?, change))).collect()
    }

    /// The columns by pointer, with the changes of each row in them; 0 where there is none.
    pub(super) fn fill(self, rows: &[Vec<(usize, i64)>]) -> BTreeMap<String, Vec<i64>> {
        let mut columns = vec![vec![0; rows.len()]; self.numbered.len()];
        for (row, changes) in rows.iter().enumerate() {
            for (column, change) in changes {
                columns[*column][row] = *change;
            }
        }
        let named = self.numbered.into_iter();
        named.map(|(pointer, column)| (pointer, std::mem::take(&mut columns[column]))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn columns_are_the_pointers_of_rows_that_are_unlike_too() {
        let rows = [
            json!({"a": 1, "path": "/x", "b": {"c": 2}}),
            json!({"a": 1, "path": "/longer", "b": {"c": 5}}),
            json!({"a": 1, "b": {"c": 5, "d": 7}}),
            json!({"b": {"other": 5}, "c": 1}),
        ];
        let values = |object: &Value| {
            let mut values = Values::default();
            values.read(object).unwrap();
            values
        };
        // The last of these places is that of the value; the one before it is that of its name.
        let place = |row: &Values, pointer: &str| {
            row.pointers(0..row.len()).iter().rposition(|at| at == pointer).unwrap()
        };
        let mut columns = Columns::default();
        let changed = [(0, "/b/c", 1), (1, "/b/c", 2), (2, "/b/d", 3), (3, "/b/other", 4)];
        let rows: Vec<_> = changed
            .iter()
            .map(|(row, pointer, change)| {
                let row = values(&rows[*row]);
                columns.of(&row, vec![(place(&row, pointer), *change)])
            })
            .collect();
        assert_eq!(columns.known.len(), 3, "the first two are alike");
        let want = [
            ("/b/c", vec![1, 2, 0, 0]),
            ("/b/d", vec![0, 0, 3, 0]),
            ("/b/other", vec![0, 0, 0, 4]),
        ];
        assert_eq!(columns.fill(&rows), want.map(|(name, column)| (name.into(), column)).into());
    }
}
