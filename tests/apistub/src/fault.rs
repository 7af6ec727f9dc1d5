//! Faults by script: which requests go wrong, how, and how often.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call::Call;

/// Makes requests go wrong that it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// As RBAC names it; `*` matches every verb.
    pub verb: String,
    /// Without the query; `*` stands for any part.
    pub path: String,
    /// So many matching requests go well first.
    pub after: u32,
    /// So many go wrong then; without it, all.
    pub times: Option<u32>,
    pub effect: Effect,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The answer comes so much later. Other faults of the same request still apply.
    Latency { millis: u64 },
    /// The connection ends with a reset, without an answer.
    Reset,
    /// A `Status` with this code, and with `Retry-After` where it has one.
    Status { code: u16, retry_after_seconds: Option<u64> },
    /// The first event of a watch breaks off in the middle, and the connection ends.
    HalfLine,
    /// The request is done, and its answer is lost: the connection ends with a reset.
    Lost,
    /// A watch that says nothing and does not end; any other request is never answered.
    Hang,
    /// A request that is never answered, a watch neither: not even the head of an answer comes.
    Mute,
    /// An answer that never ends: a line of spaces, as fast as the client reads.
    Endless,
    /// The same, but a byte now and then.
    Trickle,
    /// The answer is this text, whatever was asked.
    Text { code: u16, text: String },
    /// A watch that begins well, and whose first event is an error with code 410.
    Expire,
}

impl Fault {
    /// Every matching request goes wrong.
    pub fn new(verb: &str, path: &str, effect: Effect) -> Self {
        Self { verb: verb.to_owned(), path: path.to_owned(), after: 0, times: None, effect }
    }

    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    #[must_use]
    pub fn after(self, after: u32) -> Self {
        Self { after, ..self }
    }

    fn matches(&self, call: &Call) -> bool {
        glob(&self.verb, &call.verb) && glob(&self.path, &call.path)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.lock().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// What goes wrong with this request: latencies, and the first other effect.
    pub(crate) fn strike(&self, call: &Call) -> Vec<Effect> {
        let mut effects = Vec::new();
        for fault in self.lock().iter_mut().filter(|fault| fault.matches(call)) {
            let is_latency = matches!(fault.effect, Effect::Latency { .. });
            let is_over = effects.iter().any(|e| !matches!(e, Effect::Latency { .. }));
            if is_over && !is_latency {
                continue;
            }
            match (&mut fault.after, &mut fault.times) {
                (after @ 1.., _) => *after -= 1,
                (_, Some(0)) => {}
                (_, times) => {
                    *times = times.map(|n| n - 1);
                    effects.push(fault.effect.clone());
                }
            }
        }
        effects
    }
}

/// Whether `text` is like `pattern`, in which `*` stands for any part.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(head) else {
        return false;
    };
    let starts = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
    starts.map(|at| &text[at..]).any(|text| glob(rest, text))
}
