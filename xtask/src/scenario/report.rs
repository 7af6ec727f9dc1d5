//! What a guest tells the host, one line of JSON each.

use serde::{Deserialize, Serialize};

use super::quantity::Quantity;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "camelCase")]
pub(crate) enum Line {
    /// The guest is up.
    Up {
        /// `uname -r`.
        kernel: String,
    },
    /// A scenario begins: if nothing follows, it was this one.
    Begin { scenario: String },
    /// What the agent recorded of the scenario that runs: the file, in base64.
    Recording {
        /// Which scenario.
        scenario: String,
        /// The file's bytes.
        base64: String,
    },
    /// A scenario has run.
    Ran(Report),
    /// All have.
    Done,
}

/// How a scenario went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) scenario: String,
    /// `uname -r`.
    pub(crate) kernel: String,
    pub(crate) passed: bool,
    pub(crate) seconds: f64,
    /// What kept it from being judged.
    pub(crate) error: Option<String>,
    pub(crate) expectations: Vec<Judged>,
}

/// One expectation with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Judged {
    /// Line in the scenario's file.
    pub(crate) at: usize,
    pub(crate) text: String,
    pub(crate) passed: bool,
    pub(crate) left: Option<Quantity>,
    pub(crate) right: Option<Quantity>,
    /// Why there are no numbers.
    pub(crate) error: Option<String>,
}

impl Report {
    /// One line for each expectation: verdict, both numbers, text.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        for judged in &self.expectations {
            let verdict = if judged.passed { "ok  " } else { "FAIL" };
            let side = |q: Option<Quantity>| q.map_or_else(|| "-".into(), |q| q.to_string());
            let (left, right) = (side(judged.left), side(judged.right));
            table += &format!("    {verdict} {left:>14} {right:>14}  {}\n", judged.text);
            if let Some(why) = &judged.error {
                table += &format!("         line {}: {why}\n", judged.at);
            }
        }
        if let Some(why) = &self.error {
            table += &format!("    FAIL {}\n", why.replace('\n', "\n         "));
        }
        table
    }
}
