//! Cgroup paths by pattern: `/system.slice/*.service`, `/batch/**`.

use std::fmt;
use std::str::FromStr;

use super::cgroup::CgroupPath;

/// A pattern of cgroup paths: `*` and `?` match within a name, `**` matches any number of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct PathPattern(glob::Pattern);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Every cgroup path begins with `/`.
    #[error("a pattern of cgroup paths begins with /")]
    NoSlash,
    /// Invalid wildcards.
    #[error("{0}")]
    Wildcards(String),
}

impl PathPattern {
    /// True if the pattern matches the whole path.
    #[must_use]
    pub fn fits(&self, path: &CgroupPath) -> bool {
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        self.0.matches_with(&path.0, options)
    }
}

impl FromStr for PathPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if !text.starts_with('/') {
            return Err(PatternError::NoSlash);
        }
        glob::Pattern::new(text).map(Self).map_err(|why| PatternError::Wildcards(why.msg.into()))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_star_stays_within_a_name() {
        #[rustfmt::skip]
        let table = [
            // pattern, path, fits
            ("/system.slice/*.service", "/system.slice/cron.service",        true),
            ("/system.slice/*.service", "/system.slice/a.slice/b.service",   false),
            ("/batch/**",               "/batch/a/b",                        true),
            ("/batch/**",               "/batches/a",                        false),
            ("/a",                      "/a",                                true),
            ("/a",                      "/a/b",                              false),
        ];
        for (pattern, path, want) in table {
            let parsed: PathPattern = pattern.parse().unwrap();
            assert_eq!(parsed.fits(&CgroupPath(path.into())), want, "{pattern} {path}");
            assert_eq!(parsed.to_string(), pattern);
        }
        for text in ["", "system.slice", "/a***", "/a[", "**"] {
            assert!(text.parse::<PathPattern>().is_err(), "{text:?}");
        }
    }
}
