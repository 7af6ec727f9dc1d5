//! Cgroup paths by pattern: `/system.slice/*.service`, `/batch/**`.

use std::fmt;
use std::str::FromStr;

use super::cgroup::CgroupPath;

/// A pattern of cgroup paths: `*` and `?` match within a name, `**` matches any number of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct PathPattern(Vec<Name>);

/// What a pattern says of one name of a path. Each is matched by itself: the time that a whole path
/// would take grows without bound with the number of wildcards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    /// `**`
    Any,
    Like(glob::Pattern),
}

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
    pub fn fits(&self, path: &CgroupPath) -> bool {
        let (mut at, mut names) = (0, path.0.split('/'));
        // What follows the last `**` so far, and the names left to it: what comes before is settled.
        let mut any: Option<(usize, std::str::Split<'_, char>)> = None;
        loop {
            let mut left = names.clone();
            let Some(name) = left.next() else { return at == self.0.len() };
            match self.0.get(at) {
                Some(Name::Any) if at + 1 == self.0.len() => return true,
                Some(Name::Any) => {
                    at += 1;
                    any = Some((at, names.clone()));
                }
                Some(Name::Like(like)) if like.matches(name) => (at, names) = (at + 1, left),
                _ => {
                    let Some((after, left)) = &mut any else { return false };
                    left.next();
                    (at, names) = (*after, left.clone());
                }
            }
        }
    }

    /// The same where root gave the first `n` names of the path alone, and the owner of a cgroup that was
    /// handed over the others. Such a name counts where any would fit, and for a pattern without wildcards:
    /// else any tenant could take what the pattern grants.
    pub fn fits_names(&self, path: &CgroupPath, n: usize) -> bool {
        let is_of_root = || path.segments().count() <= n;
        let has_set = || self.has(|sign| sign == '[');
        let is_literal = || !self.0.contains(&Name::Any) && !self.has(|sign| "*?[".contains(sign));
        let fits_any = || !has_set() && self.fits(&veiled(path, n));
        self.fits(path) && (is_of_root() || is_literal() || fits_any())
    }

    fn has(&self, is_it: impl Fn(char) -> bool) -> bool {
        self.0.iter().any(|name| matches!(name, Name::Like(like) if like.as_str().contains(&is_it)))
    }
}

/// The path with a name that only `*` fits for each after the first `n`: no cgroup has a longer one.
fn veiled(path: &CgroupPath, n: usize) -> CgroupPath {
    let (names, other) = (path.segments().enumerate(), "\0".repeat(256));
    let veiled = |path: CgroupPath, (i, name)| path.child(if i < n { name } else { &other });
    names.fold(CgroupPath::root(), veiled)
}

impl FromStr for PathPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if !text.starts_with('/') {
            return Err(PatternError::NoSlash);
        }
        let like = |name| match name {
            "**" => Ok(Name::Any),
            name => glob::Pattern::new(name).map(Name::Like),
        };
        let names = text.split('/').map(like).collect::<Result<_, _>>();
        names.map(Self).map_err(|why| PatternError::Wildcards(why.msg.into()))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|name| match name {
            Name::Any => "**",
            Name::Like(like) => like.as_str(),
        });
        f.write_str(&names.collect::<Vec<_>>().join("/"))
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
            ("/batch/**",               "/batch",                            false),
            ("/batch/**/b",             "/batch/b",                          true),
            ("/batch/**/b",             "/batch/b/a/b",                      true),
            ("/batch/**/b",             "/batch/b/a",                        false),
            ("/**/a/**/b/*",            "/a/b/a/c/b/d",                      true),
            ("/**/a/**/b/*",            "/a/b/a/c/b",                        false),
            ("/**",                     "/",                                 true),
            ("/a/[bc]?",                "/a/cd",                             true),
            ("/a",                      "/a",                                true),
            ("/a",                      "/a/b",                              false),
        ];
        for (pattern, path, want) in table {
            let parsed: PathPattern = pattern.parse().unwrap();
            assert_eq!(parsed.fits(&CgroupPath(path.into())), want, "{pattern} {path}");
            assert_eq!(parsed.to_string(), pattern);
        }
        for text in ["", "system.slice", "/a***", "/a[", "**", "/a[/]"] {
            assert!(text.parse::<PathPattern>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn pattern_counts_names_of_tenants_where_any_would_fit() {
        #[rustfmt::skip]
        let table = [
            // pattern, path, how many names are root's; whether it counts
            ("/**/sshd.service",          "/system.slice/sshd.service",   usize::MAX, true),
            ("/**/sshd.service",          "/u.slice/u@1.service/sshd.service", 2,     false),
            ("/u.slice/*/sshd.service",   "/u.slice/u@1.service/sshd.service", 2,     false),
            ("/u.slice/*/*.service",      "/u.slice/u@1.service/sshd.service", 2,     false),
            ("/u.slice/*/*",              "/u.slice/u@1.service/sshd.service", 2,     true),
            ("/u.slice/*/?",              "/u.slice/u@1.service/a",       2,          false),
            ("/u.slice/*/[!a]*",          "/u.slice/u@1.service/b",       2,          false),
            ("/u.slice/u@1.service/**",   "/u.slice/u@1.service/a/b",     2,          true),
            ("/u.slice/u@1.service",      "/u.slice/u@1.service",         2,          true),
            ("/u.slice/u@?.service",      "/u.slice/u@1.service",         2,          true),
            ("/u.slice/u@1.service/a",    "/u.slice/u@1.service/a",       2,          true),
            ("/u.slice/u@1.service/a",    "/u.slice/u@1.service/b",       2,          false),
        ];
        for (pattern, path, n, want) in table {
            let parsed: PathPattern = pattern.parse().unwrap();
            assert_eq!(parsed.fits_names(&CgroupPath(path.into()), n), want, "{pattern} {path}");
        }
    }

    /// Each would take longer than anyone waits, if a wildcard tried again what those after it did.
    #[test]
    fn pattern_of_many_wildcards_is_matched_at_once() {
        let letters = "a".repeat(200);
        let names = "/a".repeat(200);
        #[rustfmt::skip]
        let table = [
            (format!("/x/{}!", "*?".repeat(40)),    format!("/x/{letters}/y")),
            (format!("/x/{}!/y", "*?".repeat(40)),  format!("/x/{letters}/y")),
            (format!("{}/b", "/**/*".repeat(40)),   names),
        ];
        for (pattern, path) in table {
            let parsed: PathPattern = pattern.parse().unwrap();
            assert!(!parsed.fits(&CgroupPath(path.as_str().into())), "{pattern} {path}");
        }
    }
}
