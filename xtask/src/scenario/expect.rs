//! What a scenario expects, as one line that reads aloud:
//!
//! ```text
//! diff cgroup:/a .cpu.contention.total < 5% of diff cgroup:/a .cpu.wait.total
//! last node .contention.avg10 < 2%
//! diff node .pressure.cpu.some.total / wall > 50%
//! diff harm /b -> /a > 90% of diff cgroup:/a .cpu.contention.total
//! diff cgroup:/a .memory.causes.ownLimit?.union.total ~ 2s within 10%
//! oom-kills /a limit /pod trigger /b == 1
//! ```
//!
//! - `first`, `last`: a value of the snapshot when the measured time began, and when it ended;
//!   `diff` is the second less the first. `wall` is the time between the two.
//! - Of: `node` (the whole node as a scope), `cgroup:/PATH`, or `snapshot` (all of the document).
//! - A path of JSON keys. One that ends in `?` may be missing, and all below it is then 0.
//! - `harm /b -> /a`: how long /a waited because /b ran. `oom-kills /a`: processes of /a killed;
//!   `limit /pod` or `limit node`: only where that limit was reached; `trigger /b`: only where /b
//!   asked for the memory.
//! - `condition KubepodsCPUContentionPressure True`: snapshots in which the condition has that status.
//!   `actions evict web`: different actions of that step on that target; `any` stands for each.
//! - `file /a memory.max`: what a file of the cgroup says in the end; `max` is more than any number.
//!   `cpus-allowed /a 0`: processes in and below the cgroup that may run on CPU 0 in the end.
//!   `limits written`: files of which the agent said in any snapshot that it was written.
//! - Constants: `3`, `5%`, `20ms`, `1.5s`, `512MiB`. Between them `+ - * /`, `of`, parentheses.
//! - Compared by `<`, `<=`, `>`, `>=`, `==`, or `A ~ B within 10%` (of B) or `within 50ms`.

use std::fmt;

use super::quantity::{Quantity, Unit};

/// One line of `expect`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expectation {
    pub(crate) left: Expr,
    pub(crate) relation: Relation,
    pub(crate) right: Expr,
}

/// How both sides are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
    /// No further apart than this: a share of the right side, or as much as this itself.
    Within(Quantity),
}

/// Something that has a value when a scenario has run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Constant(Quantity),
    /// The time between the two snapshots.
    Wall,
    Read(When, Subject, Path),
    Harm {
        when: When,
        by: String,
        to: String,
    },
    OomKills(Kills),
    /// Snapshots in which a condition has a status.
    Condition {
        name: String,
        status: String,
    },
    /// Actions by step and target; `None` is any.
    Actions {
        step: Option<String>,
        target: Option<String>,
    },
    /// What only the machine itself can tell.
    Ask(Question),
    /// Different limits that came to this result in any snapshot.
    Limits {
        result: String,
    },
    Sum(Box<Expr>, Sign, Box<Expr>),
    Product(Box<Expr>, Box<Expr>),
    Ratio(Box<Expr>, Box<Expr>),
}

/// What is asked of the machine when a scenario has run, while all of it still stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    /// What a file of a cgroup says.
    File { cgroup: String, file: String },
    /// How many processes in and below a cgroup may run on a CPU.
    CpusAllowed { cgroup: String, cpu: usize },
}

/// Which OOM kills are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kills {
    /// The cgroup that lost a process.
    pub(crate) victim: String,
    /// Whose limit was reached: a cgroup's path, or `node`; any if `None`.
    pub(crate) limit: Option<String>,
    /// Who asked for the memory; anybody if `None`.
    pub(crate) trigger: Option<String>,
}

/// Which snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    First,
    Last,
    /// The last less the first.
    Diff,
}

/// What a value is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Node,
    Cgroup(String),
    Snapshot,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => f.write_str("node"),
            Self::Cgroup(path) => write!(f, "cgroup:{path}"),
            Self::Snapshot => f.write_str("snapshot"),
        }
    }
}

/// Plus or minus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Plus,
    Minus,
}

/// JSON keys from the top down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Key>);

/// One JSON key, or index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// Missing means 0.
    pub(crate) may_be_missing: bool,
}

impl Expectation {
    /// Reads one line. The error says what was expected where.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
        let left = words.sum()?;
        let sign = words.next("a comparison")?;
        if !["<", "<=", ">", ">=", "==", "~"].contains(&sign) {
            return Err(format!("expected one of < <= > >= == ~, found {sign:?}"));
        }
        let right = words.sum()?;
        let relation = match sign {
            "<" => Relation::Below,
            "<=" => Relation::AtMost,
            ">" => Relation::Above,
            ">=" => Relation::AtLeast,
            "==" => Relation::Equal,
            _ => Relation::Within(words.tolerance()?),
        };
        if let Some(more) = words.peek() {
            return Err(format!("{more:?} is too much"));
        }
        let (l, r) = (left.unit()?, right.unit()?);
        if l != r {
            return Err(format!("the left side is {l}, the right side {r}"));
        }
        if let Relation::Within(by) = relation
            && by.unit != Unit::Share
            && by.unit != r
        {
            return Err(format!("the sides are {r}, but `within` is {}", by.unit));
        }
        Ok(Self { left, relation, right })
    }

    /// True if the answer needs every snapshot between the two: neither harm nor OOM kills of a
    /// moment are in any later one.
    pub(crate) fn needs_watching(&self) -> bool {
        self.left.needs_watching() || self.right.needs_watching()
    }

    /// What the machine has to be asked.
    pub(crate) fn questions(&self) -> Vec<&Question> {
        let mut all = Vec::new();
        self.left.ask(&mut all);
        self.right.ask(&mut all);
        all
    }
}

impl Expr {
    /// What it measures. The error names the operation that makes no sense.
    fn unit(&self) -> Result<Unit, String> {
        Ok(match self {
            Self::Constant(quantity) => quantity.unit,
            Self::Wall | Self::Harm { .. } => Unit::Time,
            Self::Read(_, subject, path) => path.unit(subject).0,
            Self::OomKills(_) | Self::Condition { .. } | Self::Actions { .. } => Unit::Number,
            Self::Ask(_) | Self::Limits { .. } => Unit::Number,
            Self::Sum(a, _, b) => match (a.unit()?, b.unit()?) {
                (a, b) if a == b => a,
                (a, b) => return Err(format!("{a} and {b} cannot be added")),
            },
            Self::Product(a, b) => match (a.unit()?, b.unit()?) {
                (Unit::Share | Unit::Number, unit) => unit,
                (unit, Unit::Share | Unit::Number) => unit,
                (a, b) => return Err(format!("{a} and {b} cannot be multiplied")),
            },
            Self::Ratio(a, b) => match (a.unit()?, b.unit()?) {
                (a, b) if a == b => Unit::Share,
                (a, Unit::Share | Unit::Number) => a,
                (a, b) => return Err(format!("{a} cannot be divided by {b}")),
            },
        })
    }

    fn needs_watching(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Wall | Self::Read(..) | Self::Ask(_) => false,
            Self::Harm { .. }
            | Self::OomKills(_)
            | Self::Condition { .. }
            | Self::Limits { .. }
            | Self::Actions { .. } => true,
            Self::Sum(a, _, b) | Self::Product(a, b) | Self::Ratio(a, b) => {
                a.needs_watching() || b.needs_watching()
            }
        }
    }
}

impl Expr {
    fn ask<'a>(&'a self, all: &mut Vec<&'a Question>) {
        match self {
            Self::Ask(question) => all.push(question),
            Self::Sum(a, _, b) | Self::Product(a, b) | Self::Ratio(a, b) => {
                a.ask(all);
                b.ask(all);
            }
            _ => {}
        }
    }
}

/// The words of a line, and how far it has been read.
struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self, wanted: &str) -> Result<&'a str, String> {
        let word = self.peek().ok_or_else(|| format!("expected {wanted}, found the end"))?;
        self.at += 1;
        Ok(word)
    }

    fn wants(&mut self, word: &str) -> Result<(), String> {
        match self.next(word)? {
            found if found == word => Ok(()),
            found => Err(format!("expected {word:?}, found {found:?}")),
        }
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut sum = self.product()?;
        while let Some(word @ ("+" | "-")) = self.peek() {
            self.at += 1;
            let sign = if word == "+" { Sign::Plus } else { Sign::Minus };
            sum = Expr::Sum(sum.into(), sign, self.product()?.into());
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut product = self.term()?;
        while let Some(word @ ("*" | "of" | "/")) = self.peek() {
            self.at += 1;
            let (a, b) = (product.into(), self.term()?.into());
            product = if word == "/" { Expr::Ratio(a, b) } else { Expr::Product(a, b) };
        }
        Ok(product)
    }

    fn term(&mut self) -> Result<Expr, String> {
        let when = match self.next("a value")? {
            "(" => {
                let inner = self.sum()?;
                self.wants(")")?;
                return Ok(inner);
            }
            "wall" => return Ok(Expr::Wall),
            "condition" => {
                let name = self.next("a condition")?.into();
                let status = self.next("True, False or Unknown")?;
                if !["True", "False", "Unknown"].contains(&status) {
                    return Err(format!("expected True, False or Unknown, found {status:?}"));
                }
                return Ok(Expr::Condition { name, status: status.into() });
            }
            "actions" => {
                let one = |word: &str| (word != "any").then(|| word.to_owned());
                let step = one(self.next("a step or any")?);
                return Ok(Expr::Actions { step, target: one(self.next("a target or any")?) });
            }
            "file" => {
                let (cgroup, file) = (self.cgroup()?, self.next("a file")?.into());
                return Ok(Expr::Ask(Question::File { cgroup, file }));
            }
            "cpus-allowed" => {
                let (cgroup, cpu) = (self.cgroup()?, self.next("a CPU")?);
                let cpu = cpu.parse().map_err(|_| format!("expected a CPU, found {cpu:?}"))?;
                return Ok(Expr::Ask(Question::CpusAllowed { cgroup, cpu }));
            }
            "limits" => return Ok(Expr::Limits { result: self.next("a result")?.into() }),
            "oom-kills" => return Ok(Expr::OomKills(self.kills()?)),
            "first" => When::First,
            "last" => When::Last,
            "diff" => When::Diff,
            word => {
                let constant = Quantity::parse(word);
                return constant.map(Expr::Constant).ok_or_else(|| {
                    format!("expected a value (diff, last, first, wall, 5%, ..), found {word:?}")
                });
            }
        };
        let subject = match self.next("node, cgroup:/PATH, snapshot or harm")? {
            "harm" => {
                let by = self.cgroup()?;
                self.wants("->")?;
                return Ok(Expr::Harm { when, by, to: self.cgroup()? });
            }
            "node" => Subject::Node,
            "snapshot" => Subject::Snapshot,
            word => match word.strip_prefix("cgroup:") {
                Some(path) if path.starts_with('/') => Subject::Cgroup(path.into()),
                _ => return Err(format!("expected node or cgroup:/PATH, found {word:?}")),
            },
        };
        Ok(Expr::Read(when, subject, Path::parse(self.next("a .path")?)?))
    }

    fn kills(&mut self) -> Result<Kills, String> {
        let mut kills = Kills { victim: self.cgroup()?, ..Kills::default() };
        while let Some(word @ ("limit" | "trigger")) = self.peek() {
            self.at += 1;
            match word {
                "limit" if self.peek() == Some("node") => {
                    self.at += 1;
                    kills.limit = Some("node".into());
                }
                "limit" => kills.limit = Some(self.cgroup()?),
                _ => kills.trigger = Some(self.cgroup()?),
            }
        }
        Ok(kills)
    }

    fn cgroup(&mut self) -> Result<String, String> {
        match self.next("a cgroup's path")? {
            path if path.starts_with('/') => Ok(path.into()),
            other => Err(format!("expected a cgroup's path, found {other:?}")),
        }
    }

    fn tolerance(&mut self) -> Result<Quantity, String> {
        self.wants("within")?;
        let word = self.next("how far apart they may be")?;
        Quantity::parse(word).ok_or_else(|| format!("expected 10%, 50ms or so, found {word:?}"))
    }
}
