//! The part of JSONPath that a kubeconfig needs, for `kube`: where in a program's answer the token of
//! the auth provider `gcp` stands, as `{.credential.access_token}`. The crate of this name, with a
//! parser generator and regular expressions below it, is 0.6 MB of isobar's binary, for a provider
//! that kubectl dropped in 1.26.

use std::fmt;

use serde_json::Value;

/// A path that is more than names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only names are understood, as in $.credential.access_token")
    }
}

impl std::error::Error for Unsupported {}

/// What can be asked by a path.
pub trait JsonPath {
    /// What lies at `path`: one value, or none.
    ///
    /// # Errors
    /// If the path is not `$` with names behind it, each after a dot.
    fn query(&self, path: &str) -> Result<Vec<&Self>, Unsupported>;
}

impl JsonPath for Value {
    fn query(&self, path: &str) -> Result<Vec<&Self>, Unsupported> {
        let names = path.strip_prefix("$.").ok_or(Unsupported)?;
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        };
        if !names.split('.').all(is_name) {
            return Err(Unsupported);
        }
        Ok(names.split('.').try_fold(self, |value, name| value.get(name)).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn query_finds_what_names_lead_to() {
        let answer = json!({"credential": {"access_token": "t", "token-expiry": 7}, "a": [1]});
        #[rustfmt::skip]
        let table = [
            ("$.credential.access_token", Ok(vec![json!("t")])),
            ("$.credential.token-expiry", Ok(vec![json!(7)])),
            ("$.a",                       Ok(vec![json!([1])])),
            ("$.credential.missing",      Ok(vec![])),
            ("$.a.b",                     Ok(vec![])),
            ("$",                         Err(Unsupported)),
            ("$.",                        Err(Unsupported)),
            ("$..access_token",           Err(Unsupported)),
            ("$.a[0]",                    Err(Unsupported)),
            ("$.*",                       Err(Unsupported)),
        ];
        for (path, expected) in table {
            let got = answer.query(path).map(|all| all.into_iter().cloned().collect());
            assert_eq!(got, expected, "{path}");
        }
    }
}
