//! `--capacity cpu=10,memory=32Gi`.

use std::str::FromStr;

use isobar_core::model::quantity::{Quantity, ResourceList};
use isobar_kubelet::allocatable::{CPU, EPHEMERAL_STORAGE, HUGEPAGES, MEMORY, PID, PODS};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Capacity(pub(super) ResourceList);

impl FromStr for Capacity {
    /// Every problem, one per line.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut list = ResourceList::new();
        let mut problems = Vec::new();
        for part in text.split(',').map(str::trim) {
            match pair(part) {
                Ok((name, _)) if list.contains_key(name) => {
                    problems.push(format!("--capacity: {name:?} occurs twice"));
                }
                Ok((name, amount)) => {
                    list.insert(name.into(), amount);
                }
                Err(problem) => problems.push(format!("--capacity: {problem}")),
            }
        }
        if problems.is_empty() { Ok(Self(list)) } else { Err(problems.join("\n")) }
    }
}

fn pair(part: &str) -> Result<(&str, Quantity), String> {
    let (name, amount) = part
        .split_once('=')
        .ok_or_else(|| format!("expected resource=quantity, found {part:?}"))?;
    if !is_resource(name) {
        return Err(format!(
            "unknown resource {name:?}, expected one of {CPU}, {MEMORY}, {EPHEMERAL_STORAGE}, \
             {HUGEPAGES}<size>, {PODS}, {PID}"
        ));
    }
    let quantity = amount.parse::<Quantity>();
    let quantity = quantity.map_err(|error| format!("{amount:?} for {name:?}: {error}"))?;
    if quantity.is_negative() {
        return Err(format!("{amount:?} for {name:?} is negative"));
    }
    Ok((name, quantity))
}

fn is_resource(name: &str) -> bool {
    let size = name.strip_prefix(HUGEPAGES).map(str::parse::<Quantity>);
    let is_huge = size.is_some_and(|size| size.is_ok_and(|size| size.value() > 0));
    is_huge || [CPU, MEMORY, EPHEMERAL_STORAGE, PODS, PID].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_reports_every_problem() {
        #[rustfmt::skip]
        let table: &[(&str, &[&str])] = &[
            // text, messages
            ("",                                 &["found \"\""]),
            ("cpu=10,",                          &["found \"\""]),
            ("cpu",                              &["found \"cpu\""]),
            ("cpu=10,disk=3,memory=-1Mi",        &["unknown resource \"disk\"", "\"-1Mi\" for \"memory\" is negative"]),
            ("cpu=ten,cpu=10,cpu=10",            &["\"ten\" for \"cpu\"", "\"cpu\" occurs twice"]),
            ("hugepages-big=1Gi,hugepages-0=1",  &["unknown resource \"hugepages-big\"", "unknown resource \"hugepages-0\""]),
        ];
        for (text, want) in table {
            let got = text.parse::<Capacity>().unwrap_err();
            assert_eq!(got.lines().count(), want.len(), "{text:?}: {got}");
            for part in *want {
                assert!(got.contains(part), "{text:?}: {got}");
            }
        }
        let all = "cpu=9500m, memory=32Gi,ephemeral-storage=100Gi,hugepages-2Mi=1Gi,pods=1,pid=2";
        assert_eq!(all.parse::<Capacity>().unwrap().0.len(), 6);
    }
}
